//! The page of a [`Report`].

use super::report::Report;
use crate::profile::page::{Cell, Document, Section, Table, Tile, bytes, escape, percent, seconds};

/// Returns the report as HTML.
pub(super) fn html(report: &Report) -> String {
    let mut page = report.predicted.as_ref().map_or_else(Document::default, Document::of_step);
    page.title.clone_from(&report.step);
    page.predicted_for = Some(report.device.clone());
    page.subtitle = match &report.mesh {
        Some(mesh) => format!("{}, {mesh}, {} devices", report.topology, report.devices),
        None => format!("{}, one device", report.topology),
    };
    page.sections.insert(0, section("step", "Prediction", prediction(report)));
    page.sections.insert(1, section("device-memory", "Memory of a device", memory(report)));
    if !report.advice.is_empty() {
        page.sections.insert(2, section("advice", "Advice", advice(report)));
    }
    let tiles = std::mem::replace(&mut page.tiles, tiles(report));
    page.tiles.extend(tiles.into_iter().filter(|tile| tile.name != "Step"));
    page.to_html()
}

fn section(id: &'static str, title: &'static str, body: String) -> Section {
    Section { id, title, body }
}

fn tiles(report: &Report) -> Vec<Tile> {
    let mut tiles = Vec::new();
    if let Some(prediction) = &report.prediction {
        tiles.push(Tile {
            name: "Step, at best",
            value: seconds(prediction.seconds),
            note: format!("bound by {}", prediction.bound),
        });
        tiles.push(Tile {
            name: "MFU, at most",
            value: percent(prediction.mfu),
            note: format!("{} if nothing overlaps", seconds(prediction.serial_seconds)),
        });
    }
    tiles.push(Tile {
        name: "Memory of a device",
        value: bytes(report.needed),
        note: match report.available {
            Some(all) => {
                let fits = if report.fits { "fits into" } else { "does not fit into" };
                format!("{fits} {}", bytes(all))
            }
            None => "the plugin does not report the limit".to_owned(),
        },
    });
    tiles
}

/// Returns the times of the parts of a device.
fn prediction(report: &Report) -> String {
    let Some(prediction) = &report.prediction else {
        return "<p class=\"missing\">The rates of this device are not in the table; describe it \
                with <code>roofline::DeviceSpec</code>.</p>"
            .to_owned();
    };
    let times = &prediction.times;
    let parts = [
        ("matrix unit", times.products),
        ("vector unit", times.vectors),
        ("main memory", times.memory),
        ("wires between devices", times.wires),
        ("network of the data centre", times.data_centre),
    ];
    let longest = parts.iter().map(|(_, time)| *time).fold(0.0, f64::max);
    let row = |(name, time): &(&str, f64)| {
        vec![
            Cell::Text((*name).to_owned()),
            Cell::Number(seconds(*time), *time),
            Cell::Share(if longest > 0.0 { time / longest } else { 0.0 }),
        ]
    };
    let table = Table {
        caption: "Time that each part of a device is busy in one step; share of the longest",
        headings: vec!["part", "time", "share"],
        rows: parts.iter().map(row).collect(),
    };
    format!(
        "<p>A step takes at least as long as the part that is busy longest, if everything \
         overlaps: {}. If nothing overlaps it takes {}. Compiled in {}.</p>{}",
        seconds(prediction.seconds),
        seconds(prediction.serial_seconds),
        seconds(report.compile_seconds),
        table.html()
    )
}

/// Returns the memory of a device by kind.
fn memory(report: &Report) -> String {
    let total = report.memory.iter().map(|share| share.bytes).fold(0, u64::saturating_add);
    let rows = report.memory.iter().map(|share| {
        vec![
            Cell::Text(share.kind.name().to_owned()),
            Cell::Number(bytes(share.bytes), share.bytes as f64),
            Cell::Share(share.bytes as f64 / total.max(1) as f64),
        ]
    });
    let table = Table {
        caption: "Bytes on one device by kind, from the compiler",
        headings: vec!["kind", "bytes", "share"],
        rows: rows.collect(),
    };
    let mut out = String::new();
    if let Some(too_large) = &report.too_large {
        out.push_str(&format!("<pre>{}</pre>", escape(too_large)));
    }
    out.push_str(&table.html());
    if report.host_needed > 0 {
        out.push_str(&format!(
            "<p class=\"note\">Each device also needs {} of host memory.</p>",
            bytes(report.host_needed)
        ));
    }
    out
}

fn advice(report: &Report) -> String {
    let items = report.advice.iter().map(|advice| {
        let gain = advice.seconds.filter(|gain| *gain > 0.0);
        let gain = gain.map(|gain| format!(" <b>up to {} a step</b>", seconds(gain)));
        let place = advice
            .place
            .as_ref()
            .map(|place| format!(" <code>{}</code>", escape(&place.to_string())));
        format!(
            "<li>{}: {}{}{}</li>",
            escape(&advice.topic.to_string()),
            escape(&advice.message),
            gain.unwrap_or_default(),
            place.unwrap_or_default()
        )
    });
    format!("<ul>{}</ul>", items.collect::<String>())
}
