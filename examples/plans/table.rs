//! The rows as a Markdown table.

use super::rows::{Predicted, Row, Rows, gib};
use super::steps::{SLICES, STEPS};
use std::cmp::Reverse;

const HEADINGS: [&str; 9] = [
    "step",
    "batch",
    "devices",
    "memory, GiB",
    "available, GiB",
    "TFLOPs per device",
    "time, ms",
    "MFU",
    "collectives",
];

/// Returns the newest rows as a table, by step, generation and batch.
pub fn markdown(rows: &Rows) -> String {
    let devices_of_step = |row: &&Row| {
        let step = STEPS.iter().position(|step| step.name == row.step);
        let slice = SLICES.iter().position(|slice| *slice == row.topology);
        (step, slice, row.devices, Reverse(row.batch))
    };
    let mut rows = rows.newest();
    rows.sort_by_key(devices_of_step);
    let mut lines = vec![
        format!("| {} |", HEADINGS.join(" | ")),
        "| --- | --- | --- | ---: | ---: | ---: | --- | ---: | --- |".into(),
    ];
    lines.extend(rows.into_iter().map(|row| format!("| {} |", cells(row).join(" | "))));
    lines.join("\n")
}

/// Replaces the table with the same headings in a page, or appends it.
pub fn replace_table(page: &str, table: &str) -> String {
    let heading = table.lines().next().unwrap_or_default();
    let (before, rest) = page.split_once(heading).unwrap_or((page, ""));
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let gap = if after.is_empty() { "\n" } else { "\n\n" };
    format!("{before}{table}{gap}{after}")
}

fn cells(row: &Row) -> [String; 9] {
    let dash = || "–".to_string();
    let devices_text = match row.devices {
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
            // Not computed again since the network model changed, for want of the exchanges.
            let mark = if row.lacks_exchanges() { " †" } else { "" };
            (format!("{best:.2} to {worst:.2} ({bound}){mark}"), format!("{:.0} %", mfu * 100.0))
        }
        None => (dash(), dash()),
    };
    [
        row.step.clone(),
        format!("{} {}", row.batch, row.unit),
        devices_text,
        memory,
        row.available.map_or_else(dash, |bytes| format!("{:.1}", gib(bytes))),
        format!("{:.3}", row.flops as f64 / row.devices as f64 / 1e12),
        time,
        mfu,
        row.collectives.clone().unwrap_or_else(dash),
    ]
}
