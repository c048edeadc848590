//! The table that a [`Profile`] prints.

use super::recorded::Profile;
use crate::core::Loc;
use crate::core::spans::{ArgumentValue, EventKind, EventName, ProfileEvent};
use rustc_hash::FxHashMap;
use std::fmt;
use std::hash::Hash;

/// Number of rows of the table.
const ROWS: usize = 30;

/// The events of one kind, name and line.
#[derive(Clone, Copy, Default)]
struct Row {
    count: u64,
    nanos: u64,
    /// Time that is not in an inner event.
    own_nanos: u64,
    bytes: u64,
}

type Key<'p> = (EventKind, &'p EventName, Loc);

/// Adds the events of a thread to the rows of their keys.
fn add<'p, K: Copy + Eq + Hash>(
    events: &'p [ProfileEvent],
    key: impl Fn(&'p ProfileEvent) -> K,
    rows: &mut FxHashMap<K, Row>,
) {
    // The events around the current one: end and key, outermost first.
    let mut open: Vec<(u64, K)> = Vec::new();
    for event in events {
        while open.pop_if(|(end, _)| *end <= event.start_nanos).is_some() {}
        if let Some((end, outer)) = open.last() {
            let inside = event.end_nanos().min(*end).saturating_sub(event.start_nanos);
            let outer = rows.entry(*outer).or_default();
            outer.own_nanos = outer.own_nanos.saturating_sub(inside);
        }
        let key = key(event);
        let row = rows.entry(key).or_default();
        row.count += 1;
        row.nanos += event.duration_nanos;
        row.own_nanos += event.duration_nanos;
        row.bytes += event.count("bytes").unwrap_or(0);
        open.push((event.end_nanos(), key));
    }
}

/// Returns the rows with most own time first, in the order of their texts where it is equal.
fn sorted<K, T: Ord>(rows: FxHashMap<K, Row>, text: impl Fn(&K) -> T) -> Vec<(K, Row)> {
    let mut rows: Vec<(K, Row)> = rows.into_iter().collect();
    rows.sort_by(|(a_key, a), (b_key, b)| {
        b.own_nanos.cmp(&a.own_nanos).then_with(|| text(a_key).cmp(&text(b_key)))
    });
    rows
}

fn rows(profile: &Profile) -> Vec<(Key<'_>, Row)> {
    let mut rows = FxHashMap::default();
    for thread in profile.threads() {
        add(&thread.events, |event| (event.kind, &event.name, event.loc), &mut rows);
    }
    sorted(rows, |(kind, name, loc)| (*kind, name.to_string(), loc.to_string()))
}

fn source(event: &ProfileEvent) -> &str {
    match event.argument("source") {
        Some(ArgumentValue::Text(source)) => source.as_str(),
        _ => "",
    }
}

/// Returns the rows of operations of devices, by name and line.
fn device_rows(profile: &Profile) -> Vec<((&str, &str), Row)> {
    let mut rows = FxHashMap::default();
    for device in profile.devices().iter().filter(|device| device.has_operations()) {
        add(&device.events, |event| (event.name.as_str(), source(event)), &mut rows);
    }
    sorted(rows, |(name, source)| (name.to_string(), source.to_string()))
}

impl fmt::Display for Profile {
    /// Writes the work with the most own time: the time that is not in work inside it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (events, threads) = (self.events().count(), self.threads().len());
        let milliseconds = |nanos: u64| nanos as f64 / 1e6;
        let length = self.duration().as_secs_f64() * 1e3;
        writeln!(f, "{events} events on {threads} threads in {length:.3} ms")?;
        write!(f, "{:>10} {:>10} {:>8} {:>12}  work", "own ms", "total ms", "count", "bytes")?;
        let rows = rows(self);
        for ((kind, name, loc), row) in rows.iter().take(ROWS) {
            let bytes = if row.bytes == 0 { "–".to_owned() } else { row.bytes.to_string() };
            write!(
                f,
                "\n{:10.3} {:10.3} {:8} {bytes:>12}  {kind}",
                milliseconds(row.own_nanos),
                milliseconds(row.nanos),
                row.count,
            )?;
            if !name.as_str().is_empty() {
                write!(f, " {name}")?;
            }
            if let Some(location) = loc.get() {
                write!(f, "  {}:{}", location.file(), location.line())?;
            }
        }
        if rows.len() > ROWS {
            write!(f, "\n… and {} more", rows.len() - ROWS)?;
        }
        let rows = device_rows(self);
        if !rows.is_empty() {
            write!(f, "\n{:>10} {:>8}  operation of a device", "own ms", "count")?;
        }
        for ((name, source), row) in rows.iter().take(ROWS) {
            write!(f, "\n{:10.3} {:8}  {name}", milliseconds(row.own_nanos), row.count)?;
            if !source.is_empty() {
                write!(f, "  {source}")?;
            }
        }
        if rows.len() > ROWS {
            write!(f, "\n… and {} more", rows.len() - ROWS)?;
        }
        Ok(())
    }
}
