//! The rows as a table in Markdown.

use super::rows::{Predicted, Row, Rows, gib};
use super::steps::{SLICES, STEPS};
use std::cmp::Reverse;

const HEADINGS: [&str; 9] = [
    "step",
    "batch",
    "devices",
    "memory, GiB",
    "of",
    "TFLOPs a device",
    "time, ms",
    "MFU",
    "exchanges",
];

/// The newest rows: step by step, generation by generation, the largest batch first.
pub fn markdown(rows: &Rows) -> String {
    let place = |row: &&Row| {
        let step = STEPS.iter().position(|step| step.name == row.step);
        let slice = SLICES.iter().position(|slice| *slice == row.topology);
        (step, slice, row.devices, Reverse(row.batch))
    };
    let mut rows = rows.newest();
    rows.sort_by_key(place);
    let mut lines = vec![
        format!("| {} |", HEADINGS.join(" | ")),
        "| --- | --- | --- | ---: | ---: | ---: | --- | ---: | --- |".into(),
    ];
    lines.extend(rows.into_iter().map(|row| format!("| {} |", cells(row).join(" | "))));
    lines.join("\n")
}

/// A page with this table in place of the one with the same headings, or behind it.
pub fn replaced(page: &str, table: &str) -> String {
    let heading = table.lines().next().unwrap_or_default();
    let (before, rest) = page.split_once(heading).unwrap_or((page, ""));
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let gap = if after.is_empty() { "\n" } else { "\n\n" };
    format!("{before}{table}{gap}{after}")
}

fn cells(row: &Row) -> [String; 9] {
    let nothing = || "–".to_string();
    let where_ = match row.devices {
        1 => format!("1 of {}", row.topology),
        n => format!("{n}, {}", row.topology),
    };
    let memory = match (row.fits, row.needed) {
        (None, _) => "does not compile".to_string(),
        (Some(false), 0) => "does not fit".to_string(),
        (Some(false), needed) => format!("does not fit: {:.2}", gib(needed)),
        (Some(true), needed) => format!("{:.2}", gib(needed)),
    };
    let (time, mfu) = match &row.prediction {
        Some(Predicted { seconds, serial_seconds, bound, mfu }) => {
            let [best, worst] = [seconds, serial_seconds].map(|seconds| seconds * 1e3);
            (format!("{best:.2} to {worst:.2} ({bound})"), format!("{:.0} %", mfu * 100.0))
        }
        None => (nothing(), nothing()),
    };
    [
        row.step.clone(),
        format!("{} {}", row.batch, row.unit),
        where_,
        memory,
        row.available.map_or_else(nothing, |bytes| format!("{:.1}", gib(bytes))),
        format!("{:.3}", row.flops as f64 / row.devices as f64 / 1e12),
        time,
        mfu,
        row.collectives.clone().unwrap_or_else(nothing),
    ]
}
