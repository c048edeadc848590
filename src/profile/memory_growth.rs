//! [`MemoryGrowth`]: the difference of two memory profiles.

use super::memory::{LineMemory, MemoryProfile, text_of};
use crate::core::{Loc, units};
use crate::runtime::LiveArray;
use std::fmt;

/// The arrays that have appeared and disappeared between two [memory](super::memory()) profiles, by
/// line. Prints as a table of the lines that have grown:
///
/// ```text
/// +24.0 MiB in +96 arrays, by the lines that have grown:
///   +24.0 MiB     +96  src/train.rs:41:17  from 32 to 128: 96 × f32[256,256]
/// ```
#[derive(Clone, Debug)]
pub struct MemoryGrowth {
    bytes: i64,
    arrays: i64,
    lines: Vec<LineGrowth>,
}

/// The growth of the arrays that one line created.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LineGrowth {
    /// The line; [`Loc::UNKNOWN`] for arrays that oxidax creates for itself.
    pub created_at: Loc,
    /// The bytes that it has more than before, on this process's devices together. Negative if it
    /// has fewer.
    pub bytes: i64,
    /// The number of arrays that it has more than before.
    pub arrays: i64,
    /// The number of its arrays in the earlier profile.
    pub before: usize,
    /// The number of its arrays in the later profile.
    pub after: usize,
    /// The types of the arrays that it has more than before: `96 × f32[256,256]`.
    pub types: String,
}

impl MemoryGrowth {
    pub(super) fn between(earlier: &MemoryProfile, later: &MemoryProfile) -> MemoryGrowth {
        let (before, after) = (earlier.by_line(), later.by_line());
        let find = |lines: &[LineMemory], loc: Loc| {
            lines.iter().find(|line| line.created_at == loc).cloned()
        };
        let mut locs: Vec<Loc> = after.iter().map(|line| line.created_at).collect();
        let gone = before.iter().map(|line| line.created_at);
        locs.extend(gone.filter(|loc| after.iter().all(|line| line.created_at != *loc)));
        let mut lines: Vec<LineGrowth> = Vec::new();
        for loc in locs {
            let (old, new) = (find(&before, loc), find(&after, loc));
            let arrays = |line: &Option<LineMemory>| {
                line.as_ref().map_or(Vec::new(), |line| line.arrays.clone())
            };
            let bytes = |line: &Option<LineMemory>| line.as_ref().map_or(0, |line| line.bytes);
            let (old_arrays, new_arrays) = (arrays(&old), arrays(&new));
            let growth = LineGrowth {
                created_at: loc,
                bytes: bytes(&new).cast_signed() - bytes(&old).cast_signed(),
                arrays: new_arrays.len() as i64 - old_arrays.len() as i64,
                before: old_arrays.len(),
                after: new_arrays.len(),
                types: units::counted(additional(&old_arrays, &new_arrays)),
            };
            if growth.bytes != 0 || growth.arrays != 0 {
                lines.push(growth);
            }
        }
        lines.sort_by_key(|line| std::cmp::Reverse((line.bytes, line.arrays)));
        MemoryGrowth {
            bytes: later.bytes().cast_signed() - earlier.bytes().cast_signed(),
            arrays: later.arrays().len() as i64 - earlier.arrays().len() as i64,
            lines,
        }
    }

    /// Returns the bytes that all lines together have more than before.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Returns the number of arrays that all lines together have more than before.
    pub fn arrays(&self) -> i64 {
        self.arrays
    }

    /// Returns the lines that have changed, the largest growth first. Lines that have shrunk are
    /// the last.
    pub fn lines(&self) -> &[LineGrowth] {
        &self.lines
    }
}

/// Returns the types of later arrays that are not among the earlier ones.
fn additional(earlier: &[LiveArray], later: &[LiveArray]) -> Vec<String> {
    let mut old: Vec<String> = earlier.iter().map(|array| array.aval.to_string()).collect();
    let mut additional = Vec::new();
    for array in later {
        let text = array.aval.to_string();
        match old.iter().position(|other| *other == text) {
            Some(index) => drop(old.swap_remove(index)),
            None => additional.push(text),
        }
    }
    additional
}

/// Formats a difference of bytes: `+24.0 MiB`.
fn signed_size(bytes: i64) -> String {
    let sign = if bytes < 0 { '-' } else { '+' };
    format!("{sign}{}", units::size(bytes.unsigned_abs()))
}

impl fmt::Display for MemoryGrowth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:+} arrays", signed_size(self.bytes), self.arrays)?;
        let grown: Vec<&LineGrowth> =
            self.lines.iter().filter(|line| line.bytes > 0 || line.arrays > 0).collect();
        if grown.is_empty() {
            return f.write_str("; no line has grown");
        }
        f.write_str(", by the lines that have grown:")?;
        let width = grown.iter().map(|line| text_of(line.created_at).len()).max().unwrap_or(0);
        for LineGrowth { created_at, bytes, arrays, before, after, types } in grown {
            let (size, at) = (signed_size(*bytes), text_of(*created_at));
            write!(
                f,
                "\n{size:>11}  {arrays:>+6}  {at:width$}  from {before} to {after}: {types}"
            )?;
        }
        Ok(())
    }
}
