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
             limited by memory, lines right of it by arithmetic. {} The area of a point grows with \
             its share of the step.</p>",
            amount(profile.peak_flops, "FLOP/s"),
            amount(profile.peak_bandwidth, "B/s"),
            match profile.predicted_for {
                Some(_) => {
                    "A predicted operation reaches the roof, unless the vector unit limits it; a \
                     line is below if different parts limit its operations."
                }
                None => "The distance to the roof is what can be gained.",
            }
        ),
        false => "<p>The area of a point grows with its share of the step. The roof is missing: \
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

/// Returns the place for a label that is farthest from all points.
fn emptiest(places: Vec<(f64, f64)>, points: &[(f64, f64)]) -> (f64, f64) {
    let distance = |place: &(f64, f64)| {
        // Labels are wider than they are high.
        let to = |point: &(f64, f64)| ((place.0 - point.0) / 4.0).hypot(place.1 - point.1);
        points.iter().map(to).fold(f64::INFINITY, f64::min).min(40.0)
    };
    let mut best = (f64::NEG_INFINITY, (0.0, 0.0));
    for place in places {
        let found = distance(&place);
        if found > best.0 {
            best = (found, place);
        }
    }
    best.1
}

/// Returns the place of a point's number: in it if it is large enough, else beside it, where no
/// other number is.
fn number_position(at: (f64, f64), radius: f64, others: &[(f64, f64)]) -> (f64, f64) {
    /// Width and height of a number.
    const SIZE: (f64, f64) = (10.0, 13.0);
    let beside = radius + 7.0;
    let inside = (radius >= 9.0).then_some((0.0, 0.0));
    let around = [1.0, 2.0, 3.0].into_iter().flat_map(|far| {
        let away = beside + (far - 1.0) * SIZE.1;
        [(away, 0.0), (0.0, away), (0.0, -away), (-away, 0.0)]
    });
    let mut places = inside.into_iter().chain(around).map(|(dx, dy)| (at.0 + dx, at.1 + dy));
    let is_free = |place: &(f64, f64)| {
        others
            .iter()
            .all(|other| (place.0 - other.0).abs() >= SIZE.0 || (place.1 - other.1).abs() >= SIZE.1)
    };
    places.find(is_free).unwrap_or((at.0 + beside, at.1))
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
        let text = if power < -3 { format!("1e{power}") } else { super::html::digits(value) };
        chart.x_tick(x(value), &text);
    }
    for power in y_low..=y_high {
        let value = 10_f64.powi(power);
        chart.y_tick(y(value), &amount(value, "FLOP/s"));
    }
    chart.axes("FLOPs per byte", "FLOP/s");
    // Places where a number would be unreadable.
    let mut taken: Vec<(f64, f64)> = Vec::new();
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
        let centres: Vec<(f64, f64)> =
            points.iter().map(|point| (x(point.at.0), y(point.at.1))).collect();
        // Above the line if there is room, else below it.
        let text = format!("arithmetic {}", amount(peak, "FLOP/s"));
        let arithmetic = [-8.0, 20.0].into_iter().flat_map(|above| {
            [1.0, 0.75, 0.5, 0.25].map(|share| {
                let at = x(ridge) + share * (x(end) - x(ridge));
                (chart.middle_of_label(at, &text), y(peak) + above)
            })
        });
        let (at, above) = emptiest(arithmetic.collect(), &centres);
        chart.label(at, above, &text);
        // The label's width in steps of a number's.
        let half = text.chars().count() as i32 / 3 + 1;
        taken.extend((-half..=half).map(|step| (at + 10.0 * f64::from(step), above - 4.0)));
        let memory = [0.5, 0.65, 0.35, 0.8, 0.2].map(|share: f64| {
            let intensity = start * (ridge / start).powf(share);
            (x(intensity) - 80.0, y(intensity * profile.peak_bandwidth) - 12.0)
        });
        let (at, above) = emptiest(memory.to_vec(), &centres);
        chart.label(at, above, &format!("memory {}", amount(profile.peak_bandwidth, "B/s")));
    }
    // The largest first, so that small points are on top of them.
    let mut numbers = Vec::new();
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
            let place = number_position((x, y), radius, &taken);
            taken.push(place);
            numbers.push(place);
        }
    }
    for (index, (x, y)) in numbers.into_iter().enumerate() {
        chart.add(&format!(
            "<text class=\"number\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y + 4.0,
            index + 1
        ));
    }
    chart.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_equal_points_do_not_overlap() {
        let mut found: Vec<(f64, f64)> = Vec::new();
        for _ in 0..NUMBERED {
            let place = number_position((100.0, 100.0), 10.0, &found);
            let is_apart =
                |other: &(f64, f64)| (place.0 - other.0).hypot(place.1 - other.1) >= 10.0;
            assert!(found.iter().all(is_apart), "{place:?} in {found:?}");
            found.push(place);
        }
        assert_eq!(found[0], (100.0, 100.0));
    }

    #[test]
    fn decades_contain_their_values() {
        assert_eq!(decades([0.5, 40.0].into_iter()), (-1, 2));
        assert_eq!(decades([10.0].into_iter()), (0, 2));
        assert_eq!(decades([f64::MIN_POSITIVE, f64::MAX].into_iter()), (-308, 309));
    }
}
