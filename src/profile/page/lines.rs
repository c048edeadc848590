//! The table of time by source line.

use super::html::{Cell, Table, amount, bytes, counted, missing, percent, seconds, short_path};
use crate::profile::{LineProfile, LineTime};
use std::collections::BTreeMap;

/// The number of rows.
const ROWS: usize = 100;

/// Returns a cell with a rate, or an empty one for 0.
pub(super) fn rate(value: f64, unit: &str) -> Cell {
    if value > 0.0 { Cell::Number(amount(value, unit), value) } else { Cell::Empty }
}

/// Returns the name of a line in tables.
pub(super) fn line_name(line: &LineTime) -> String {
    match &line.line {
        Some(line) => short_path(&line.to_string()),
        None => "without a line".to_owned(),
    }
}

/// Returns the section's body.
pub(super) fn html(profile: Option<&LineProfile>) -> String {
    let Some(profile) = profile else {
        return missing(
            "The profile has no times by line. On a CPU, <code>Compiled::line_profile</code> \
             measures them, and <code>Profile::with_lines</code> adds them before \
             <code>save</code>; <code>oxidax doctor</code> predicts them for other devices.",
        );
    };
    let lines = profile.lines();
    let with_peaks = profile.peak_flops > 0.0 && profile.peak_bandwidth > 0.0;
    let mut headings = vec!["line", "time", "share", "FLOP/s", "bytes/s"];
    headings.extend(with_peaks.then_some("of the roofline"));
    headings.extend(["FLOPs", "bytes"]);
    let row = |line: &LineTime| {
        let time = line.time.as_secs_f64();
        let mut cells = vec![
            match line.line {
                Some(_) => Cell::Line(line.line.clone()),
                None => Cell::Text(line_name(line)),
            },
            Cell::Number(seconds(time), time),
            Cell::Share(line.share),
            rate(line.flops_per_second(), "FLOP/s"),
            rate(line.bytes_per_second(), "B/s"),
        ];
        if with_peaks {
            cells.push(
                profile
                    .of_roofline(line)
                    .filter(|share| *share > 0.0)
                    .map_or(Cell::Empty, |share| Cell::Number(percent(share), share)),
            );
        }
        cells.push(rate(line.flops, "FLOP"));
        cells.push(match line.bytes {
            count if count >= 1.0 => Cell::Number(bytes(count as u64), count),
            _ => Cell::Empty,
        });
        cells
    };
    let mut out = match &profile.predicted_for {
        Some(device) => format!(
            "<p>Predicted for {}: each operation takes as long as the part of the device that it \
             keeps busy longest, and nothing overlaps.</p>",
            super::html::escape(device)
        ),
        None => format!(
            "<p>Measured: each operation alone, scaled so that the times add up to the step. \
             Operations measured alone take {:.2} of it.</p>",
            match profile.step.as_secs_f64() {
                step if step > 0.0 => profile.apart.as_secs_f64() / step,
                _ => 0.0,
            }
        ),
    };
    let rows = lines.iter().take(ROWS).map(row).collect();
    out.push_str(&Table { caption: "Time of one step by source line", headings, rows }.html());
    if lines.len() > ROWS {
        out.push_str(&format!(
            "<p class=\"note\">{} with less time are not shown.</p>",
            counted((lines.len() - ROWS) as u64, "line", "lines")
        ));
    }
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for reason in profile.operations.iter().filter_map(|other| other.not_measured.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    for (reason, count) in reasons.into_iter().take(ROWS) {
        out.push_str(&format!(
            "<p class=\"note\">{}, which share the rest of the step, were not measured: {}.</p>",
            counted(count, "operation", "operations"),
            super::html::escape(reason)
        ));
    }
    out
}
