//! The table that a [`Profile`] prints.

use super::recorded::Profile;
use crate::core::Loc;
use crate::core::spans::{EventKind, EventName};
use rustc_hash::FxHashMap;
use std::fmt;

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

fn rows(profile: &Profile) -> Vec<(Key<'_>, Row)> {
    let mut rows: FxHashMap<Key<'_>, Row> = FxHashMap::default();
    for thread in profile.threads() {
        // The events around the current one: end and key, outermost first.
        let mut open: Vec<(u64, Key<'_>)> = Vec::new();
        for event in &thread.events {
            while open.pop_if(|(end, _)| *end <= event.start_nanos).is_some() {}
            if let Some((end, outer)) = open.last() {
                let inside = event.end_nanos().min(*end).saturating_sub(event.start_nanos);
                let outer = rows.entry(*outer).or_default();
                outer.own_nanos = outer.own_nanos.saturating_sub(inside);
            }
            let key = (event.kind, &event.name, event.loc);
            let row = rows.entry(key).or_default();
            row.count += 1;
            row.nanos += event.duration_nanos;
            row.own_nanos += event.duration_nanos;
            row.bytes += event.count("bytes").unwrap_or(0);
            open.push((event.end_nanos(), key));
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(a_key, a), (b_key, b)| {
        let key = |(kind, name, loc): &Key<'_>| (*kind, name.to_string(), loc.to_string());
        b.own_nanos.cmp(&a.own_nanos).then_with(|| key(a_key).cmp(&key(b_key)))
    });
    rows
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
        Ok(())
    }
}
