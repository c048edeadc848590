//! Memory over the step, and the arrays at the peak.

use super::chart::{Chart, round_steps};
use super::html::{Cell, Table, bytes, count, missing};
use crate::profile::{LineProfile, PeakArrays, StepMemory};

/// The largest number of points of the chart.
const POINTS: usize = 600;
/// The number of rows of the table.
const ROWS: usize = 60;

/// Returns the section's body.
pub(super) fn html(profile: Option<&LineProfile>) -> String {
    let memory = profile.and_then(|profile| profile.memory.as_ref());
    let Some(memory) = memory.filter(|memory| memory.peak() > 0) else {
        return missing(
            "The profile has no memory of the step. <code>LineProfile::with_memory</code> adds \
             what <code>Lowered::peak_memory</code> estimates; <code>Compiled::line_profile</code> \
             and <code>oxidax doctor</code> do so.",
        );
    };
    let origin = if memory.of_one_device {
        "Of one device, by the operations of the compiled program. The compiler reuses memory in \
         more ways; its own total is in the compiler's report."
    } else {
        "An estimate from the traced program, of all devices together. The compiler reuses memory \
         and reorders operations; its own total is in the compiler's report."
    };
    let mut out = format!("<p>{origin}</p>{}", chart(memory));
    let rows = memory.at_peak.iter().take(ROWS).map(|arrays| {
        vec![
            Cell::Number(bytes(arrays.bytes), arrays.bytes as f64),
            Cell::Share(arrays.bytes as f64 / memory.peak() as f64),
            Cell::Number(count(arrays.count), arrays.count as f64),
            Cell::Code(arrays.array_type.clone()),
            Cell::Text(producer(arrays)),
            Cell::Line(arrays.line.clone()),
        ]
    });
    let table = Table {
        caption: "Arrays in memory at the peak",
        headings: vec!["bytes", "share", "count", "type", "produced by", "line"],
        rows: rows.collect(),
    };
    out.push_str(&table.html());
    if let Some(hidden) = memory.at_peak.get(ROWS..).filter(|hidden| !hidden.is_empty()) {
        let rest = hidden.iter().map(|arrays| arrays.bytes).fold(0, u64::saturating_add);
        out.push_str(&format!(
            "<p class=\"note\">{} smaller rows are not shown. They have {} together.</p>",
            count(hidden.len() as u64),
            bytes(rest)
        ));
    }
    out
}

/// Returns the operation that produces arrays, or which arguments they are.
fn producer(arrays: &PeakArrays) -> String {
    match (&arrays.produced_by, &arrays.paths[..]) {
        (Some(operation), _) => operation.clone(),
        (None, []) => "argument".to_owned(),
        (None, [path]) => format!("argument {path}"),
        (None, [first, others @ ..]) => format!("argument {first}, and {} more", others.len()),
    }
}

/// Returns the largest bytes of each of at most [`POINTS`] ranges of operations of equal length.
fn points(timeline: &[u64]) -> Vec<u64> {
    let length = timeline.len().div_ceil(POINTS).max(1);
    timeline.chunks(length).map(|chunk| chunk.iter().copied().max().unwrap_or(0)).collect()
}

fn chart(memory: &StepMemory) -> String {
    let (peak, operations) = (memory.peak(), memory.timeline.len());
    let at = memory.timeline.iter().position(|&bytes| bytes == peak).unwrap_or(0);
    let points = points(&memory.timeline);
    let top = peak as f64 * 1.12;
    let title = format!(
        "Memory over the step: at most {}, at operation {} of {}",
        bytes(peak),
        count(at as u64),
        count(operations as u64)
    );
    let mut chart = Chart::new(&title, 300.0);
    let y = |value: f64| chart.bottom() - chart.height() * value / top;
    let x = |share: f64| chart.left() + chart.width() * share;
    let mut path = format!("M{:.1} {:.1}", x(0.0), y(0.0));
    for (index, &bytes) in points.iter().enumerate() {
        let n = points.len() as f64;
        let (from, to) = (index as f64 / n, (index + 1) as f64 / n);
        path.push_str(&format!(
            "L{:.1} {:.1}L{:.1} {:.1}",
            x(from),
            y(bytes as f64),
            x(to),
            y(bytes as f64)
        ));
    }
    path.push_str(&format!("L{:.1} {:.1}Z", x(1.0), y(0.0)));
    let peak_x = x((at as f64 + 0.5) / operations as f64);
    let peak_y = y(peak as f64);
    // Steps of bytes are round in the binary unit of the peak.
    let unit = 1024_f64.powf((peak as f64).log(1024.0).floor().max(0.0));
    let y_ticks: Vec<(f64, String)> = round_steps(top / unit, 5)
        .map(|step| {
            (y(step * unit), if step == 0.0 { "0".into() } else { bytes((step * unit) as u64) })
        })
        .collect();
    let x_ticks: Vec<(f64, String)> = round_steps(operations as f64, 8)
        .map(|step| (x(step / operations as f64), count(step as u64)))
        .collect();
    y_ticks.iter().for_each(|(y, text)| chart.y_tick(*y, text));
    x_ticks.iter().for_each(|(x, text)| chart.x_tick(*x, text));
    chart.axes("operations of the program, in order", "bytes in memory");
    chart.add(&format!("<path class=\"area\" d=\"{path}\"/>"));
    chart.add(&format!("<circle class=\"mark\" cx=\"{peak_x:.1}\" cy=\"{peak_y:.1}\" r=\"4\"/>"));
    chart.label(peak_x, peak_y - 9.0, &format!("peak {}", bytes(peak)));
    chart.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_timelines_keep_the_peak() {
        let timeline: Vec<u64> = (0..100_000).map(|at| if at == 77_777 { 9 } else { 1 }).collect();
        let found = points(&timeline);
        assert!(found.len() <= POINTS);
        assert_eq!(found.iter().filter(|&&bytes| bytes == 9).count(), 1);
        let memory = StepMemory { timeline, ..StepMemory::default() };
        assert!(chart(&memory).contains("at operation 77\u{202f}777 of 100\u{202f}000"));
    }
}
