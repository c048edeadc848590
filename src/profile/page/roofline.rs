//! The roofline: FLOP/s over FLOPs per byte, beside the limits of the device.

use super::chart::Chart;
use super::html::{amount, escape, missing, percent, seconds};
use super::lines::line_name;
use crate::profile::{LineProfile, LineTime};

/// The number of lines that are drawn.
const LINES: usize = 40;
/// The number of lines whose points have numbers.
const NUMBERED: usize = 8;

/// A line with its place in the plot.
struct Point<'l> {
    line: &'l LineTime,
    /// FLOPs per byte, and FLOP/s.
    at: (f64, f64),
}

/// Returns the section's body.
pub(super) fn html(profile: Option<&LineProfile>) -> String {
    let lines = profile.map(LineProfile::lines).unwrap_or_default();
    let points: Vec<Point<'_>> = lines
        .iter()
        .filter(|line| line.flops > 0.0 && line.bytes > 0.0 && !line.time.is_zero())
        .map(|line| Point { line, at: (line.flops / line.bytes, line.flops_per_second()) })
        .take(LINES)
        .collect();
    let Some(profile) = profile.filter(|_| !points.is_empty()) else {
        return missing(
            "The profile has no FLOPs and bytes by line: <code>Compiled::line_profile</code> \
             measures them, and <code>Profile::with_lines</code> adds them.",
        );
    };
    let with_peaks = profile.peak_flops > 0.0 && profile.peak_bandwidth > 0.0;
    let mut out = match with_peaks {
        true => format!(
            "<p>The device computes at most {} and moves at most {}. Lines left of the bend are \
             limited by memory, lines right of it by arithmetic; the distance to the roof is what \
             can be gained. The area of a point is its share of the step.</p>",
            amount(profile.peak_flops, "FLOP/s"),
            amount(profile.peak_bandwidth, "B/s")
        ),
        false => "<p>The area of a point is its share of the step. The roof is missing: \
                  <code>LineProfile::with_peaks</code> adds the rates of the device.</p>"
            .to_owned(),
    };
    out.push_str(&chart(profile, &points, with_peaks));
    out.push_str("<ol class=\"key\">");
    for point in points.iter().take(NUMBERED) {
        let line = point.line;
        out.push_str(&format!(
            "<li><code>{}</code> {}, {}</li>",
            escape(&line_name(line)),
            percent(line.share),
            amount(point.at.1, "FLOP/s"),
        ));
    }
    out.push_str("</ol>");
    if profile.predicted_for.is_none() {
        out.push_str(
            "<p class=\"note\">Bytes are those of operands and results. What a cache holds can be \
             faster than the memory, so points can be above the roof.</p>",
        );
    }
    out
}

/// Powers of ten around values.
fn decades(values: impl Iterator<Item = f64>) -> (i32, i32) {
    let logs: Vec<f64> = values.filter(|it| *it > 0.0).map(f64::log10).collect();
    let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = ((low - 0.05).floor() as i32, (high + 0.05).ceil() as i32);
    (low, high.max(low.saturating_add(1)))
}

fn chart(profile: &LineProfile, points: &[Point<'_>], with_peaks: bool) -> String {
    let ridge = profile.peak_flops / profile.peak_bandwidth;
    let roofs = with_peaks.then_some((ridge, profile.peak_flops));
    let all = || points.iter().map(|point| point.at).chain(roofs);
    let (x_low, x_high) = decades(all().map(|at| at.0));
    let (y_low, y_high) = decades(all().map(|at| at.1));
    // A line of one slow operation does not squeeze all the others into a corner.
    let y_low = y_low.max(y_high.saturating_sub(8));
    let x_low = x_low.max(x_high.saturating_sub(10));
    let mut chart = Chart::new("Roofline: FLOP/s over FLOPs per byte, by source line", 380.0);
    let share = |value: f64, low: i32, high: i32| {
        let share = (value.log10() - f64::from(low)) / f64::from(high.saturating_sub(low));
        share.clamp(0.0, 1.0)
    };
    let (left, width) = (chart.left(), chart.width());
    let (bottom, height) = (chart.bottom(), chart.height());
    let x = |value: f64| left + width * share(value, x_low, x_high);
    let y = |value: f64| bottom - height * share(value, y_low, y_high);
    for power in x_low..=x_high {
        let value = 10_f64.powi(power);
        chart.x_tick(x(value), &super::html::digits(value));
    }
    for power in y_low..=y_high {
        let value = 10_f64.powi(power);
        chart.y_tick(y(value), &amount(value, "FLOP/s"));
    }
    chart.axes("FLOPs per byte", "FLOP/s");
    if with_peaks {
        let start = 10_f64.powi(x_low).max(10_f64.powi(y_low) / profile.peak_bandwidth);
        let (peak, end) = (profile.peak_flops, 10_f64.powi(x_high));
        chart.add(&format!(
            "<path class=\"roof\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}\"/>",
            x(start),
            y(start * profile.peak_bandwidth),
            x(ridge),
            y(peak),
            x(end),
            y(peak)
        ));
        chart.label(x(end), y(peak) - 7.0, &format!("arithmetic {}", amount(peak, "FLOP/s")));
        let middle = (start * ridge).sqrt();
        chart.add(&format!(
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">memory {}</text>",
            x(middle) - 8.0,
            y(middle * profile.peak_bandwidth) - 6.0,
            amount(profile.peak_bandwidth, "B/s")
        ));
    }
    // The largest first, so that small points are on top of them.
    for (index, point) in points.iter().enumerate() {
        let (x, y) = (x(point.at.0), y(point.at.1));
        let radius = 3.0 + 22.0 * point.line.share.clamp(0.0, 1.0).sqrt();
        chart.add(&format!(
            "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"><title>{}: {}, \
             {}, {}, {} FLOPs per byte</title></circle>",
            escape(&line_name(point.line)),
            seconds(point.line.time.as_secs_f64()),
            percent(point.line.share),
            amount(point.at.1, "FLOP/s"),
            super::html::digits(point.at.0),
        ));
        if index < NUMBERED {
            let beside = if radius < 9.0 { radius + 6.0 } else { 0.0 };
            chart.add(&format!(
                "<text class=\"number\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x + beside,
                y + 4.0,
                index + 1
            ));
        }
    }
    chart.svg()
}
