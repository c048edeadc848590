//! The table of collectives.

use super::html::{Cell, Table, bytes, count, missing, seconds};
use crate::profile::{LineProfile, ProfiledCollective};

/// The number of rows.
const ROWS: usize = 100;

fn all_bytes(collective: &ProfiledCollective) -> u64 {
    collective.bytes.saturating_mul(collective.runs)
}

/// Returns the section's body.
pub(super) fn html(profile: Option<&LineProfile>) -> String {
    let collectives = profile.map_or(&[][..], |profile| &profile.collectives);
    if collectives.is_empty() {
        return missing(match profile.is_some_and(|profile| profile.predicted_for.is_some()) {
            true => "The program has no collectives.",
            false => {
                "The profile has no collectives. <code>oxidax doctor</code> with \
                 <code>--mesh</code> lists those of a compiled step."
            }
        });
    }
    let mut sorted: Vec<&ProfiledCollective> = collectives.iter().collect();
    sorted.sort_by_key(|collective| std::cmp::Reverse((all_bytes(collective), collective.time)));
    let total: u64 = sorted.iter().map(|it| all_bytes(it)).fold(0, u64::saturating_add);
    let time: f64 = sorted.iter().map(|it| it.time.as_secs_f64()).sum();
    let step = profile.map_or(0.0, |profile| profile.step.as_secs_f64());
    let with_cause = sorted.iter().any(|collective| collective.cause.is_some());
    let mut headings =
        vec!["collective", "mesh axes", "devices", "runs", "bytes", "share", "time", "line"];
    headings.extend(with_cause.then_some("cause"));
    let rows = sorted.iter().take(ROWS).map(|collective| {
        let (all, time) = (all_bytes(collective), collective.time.as_secs_f64());
        let mut cells = vec![
            Cell::Text(collective.kind.clone()),
            match collective.axes.is_empty() {
                true => Cell::Empty,
                false => Cell::Text(collective.axes.join(", ")),
            },
            Cell::Number(count(collective.size as u64), collective.size as f64),
            Cell::Number(count(collective.runs), collective.runs as f64),
            Cell::Number(bytes(all), all as f64),
            Cell::Share(all as f64 / total.max(1) as f64),
            Cell::Number(seconds(time), time),
            Cell::Line(collective.line.clone()),
        ];
        if with_cause {
            cells.push(collective.cause.clone().map_or(Cell::Empty, Cell::Text));
        }
        cells
    });
    let rows = rows.collect();
    let mut out = format!(
        "<p>{} on each device in {}, {} of the step if nothing overlaps.</p>",
        bytes(total),
        seconds(time),
        super::html::percent(if step > 0.0 { time / step } else { 0.0 })
    );
    let caption = "Collectives of one step; bytes of all runs on one device";
    out.push_str(&Table { caption, headings, rows }.html());
    if sorted.len() > ROWS {
        out.push_str(&format!(
            "<p class=\"note\">{} collectives with fewer bytes are not shown.</p>",
            count((sorted.len() - ROWS) as u64)
        ));
    }
    out
}
