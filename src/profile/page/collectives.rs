//! The table of collectives.

use super::html::{Cell, Table, bytes, count, missing, seconds};
use crate::profile::{LineProfile, ProfiledCollective};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The number of rows.
const ROWS: usize = 100;

fn all_bytes(collective: &ProfiledCollective) -> u64 {
    collective.bytes.saturating_mul(collective.runs)
}

/// Returns one collective for each kind, axes, size, bytes, line and cause, such as those of equal
/// layers, with the sum of their runs and times.
fn grouped(collectives: &[ProfiledCollective]) -> Vec<ProfiledCollective> {
    let mut groups: BTreeMap<_, ProfiledCollective> = BTreeMap::new();
    for one in collectives {
        let key = (&one.kind, &one.axes, one.size, one.bytes, &one.line, &one.cause);
        match groups.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(one.clone())),
            Entry::Occupied(mut entry) => {
                let group = entry.get_mut();
                group.runs = group.runs.saturating_add(one.runs);
                group.time = group.time.saturating_add(one.time);
            }
        }
    }
    groups.into_values().collect()
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
    let mut sorted = grouped(collectives);
    sorted.sort_by_key(|collective| std::cmp::Reverse((all_bytes(collective), collective.time)));
    let total: u64 = sorted.iter().map(all_bytes).fold(0, u64::saturating_add);
    let time: f64 = sorted.iter().map(|it| it.time.as_secs_f64()).sum();
    let step = profile.map_or(0.0, |profile| profile.step.as_secs_f64());
    let with_cause = sorted.iter().any(|collective| collective.cause.is_some());
    let line = if with_cause { "line and cause" } else { "line" };
    let headings =
        vec!["collective", "mesh axes", "devices", "runs", "bytes", "share", "time", line];
    let rows = sorted.iter().take(ROWS).map(|collective| {
        let (all, time) = (all_bytes(collective), collective.time.as_secs_f64());
        vec![
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
            Cell::Explained(collective.line.clone(), collective.cause.clone()),
        ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::line_profile_file::tests::example;

    #[test]
    fn equal_collectives_are_one_row() {
        let mut profile = example();
        let one = profile.collectives[0].clone();
        let larger = ProfiledCollective { bytes: 5 << 20, cause: None, ..one.clone() };
        profile.collectives = vec![one.clone(), larger, one];
        let rows = grouped(&profile.collectives);
        let runs: Vec<_> = rows.iter().map(|row| (row.bytes >> 20, row.runs)).collect();
        assert_eq!(runs, [(4, 6), (5, 3)]);
        // The largest sum of bytes is first.
        let text = html(Some(&profile));
        assert!(text.find("24.0 MiB") < text.find("15.0 MiB"), "{text}");
        assert!(text.contains("39.0 MiB on each device"), "{text}");
        profile.collectives[0].cause = Some("`w` <is> split".into());
        let text = html(Some(&profile));
        assert!(
            text.contains("<div class=\"note\"><code>w</code> &lt;is&gt; split</div>"),
            "{text}"
        );
    }
}
