//! What a compiled program sends from device to device.

use oxidax_pjrt::Instruction;
use std::collections::BTreeMap;
use std::fmt;

/// A kind of operation between devices, by XLA's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Collective {
    /// A sum or the like of what all have, to all.
    AllReduce,
    /// What all have, put together, to all.
    AllGather,
    /// A sum or the like of what all have, a part to each.
    ReduceScatter,
    /// A part from each to each.
    AllToAll,
    /// What one has to one other.
    CollectivePermute,
    /// What one has to all.
    CollectiveBroadcast,
}

use Collective::{
    AllGather, AllReduce, AllToAll, CollectiveBroadcast, CollectivePermute, ReduceScatter,
};

impl Collective {
    /// The name that XLA's programs call it by.
    pub fn name(self) -> &'static str {
        match self {
            AllReduce => "all-reduce",
            AllGather => "all-gather",
            ReduceScatter => "reduce-scatter",
            AllToAll => "all-to-all",
            CollectivePermute => "collective-permute",
            CollectiveBroadcast => "collective-broadcast",
        }
    }

    /// What an operation of this name does; where one is split into a start and an end, its start.
    fn of(opcode: &str) -> Option<Collective> {
        match opcode.strip_suffix("-start").unwrap_or(opcode) {
            "all-reduce" => Some(AllReduce),
            "all-gather" => Some(AllGather),
            "reduce-scatter" => Some(ReduceScatter),
            "all-to-all" | "ragged-all-to-all" => Some(AllToAll),
            "collective-permute" => Some(CollectivePermute),
            "collective-broadcast" => Some(CollectiveBroadcast),
            _ => None,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The operations between devices in a compiled program, counted by kind. Prints as `2 all-reduce, 1 all-gather`, or `none`.
///
/// One in a loop counts once, however often the loop runs. The compiler may have joined several of one kind into one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    found: BTreeMap<Collective, (usize, usize)>,
}

impl Collectives {
    pub(super) fn among(instructions: &[Instruction]) -> Collectives {
        let mut found = BTreeMap::new();
        for instruction in instructions {
            if let Some(kind) = Collective::of(&instruction.opcode) {
                let (count, bytes) = found.entry(kind).or_insert((0, 0));
                *count += 1;
                *bytes += results(instruction);
            }
        }
        Collectives { found }
    }

    /// The kinds that there are.
    pub fn kinds(&self) -> impl Iterator<Item = Collective> {
        self.found.keys().copied()
    }

    /// How many there are of a kind.
    pub fn count(&self, kind: Collective) -> usize {
        self.found.get(&kind).map_or(0, |(count, _)| *count)
    }

    /// The bytes of the results of all of a kind, on one device.
    pub fn bytes(&self, kind: Collective) -> usize {
        self.found.get(&kind).map_or(0, |(_, bytes)| *bytes)
    }

    /// Whether there are none: devices compute on their own.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

impl fmt::Display for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (at, (kind, (count, _))) in self.found.iter().enumerate() {
            write!(f, "{}{count} {kind}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The bytes of an operation's results. A start may give its operands beside them, and words of its own behind.
fn results(Instruction { opcode, bytes, .. }: &Instruction) -> usize {
    match opcode.as_str() {
        "all-gather-start" => bytes[bytes.len() / 2..].iter().sum(),
        "collective-permute-start" => bytes.get(1).copied().unwrap_or(0),
        _ => bytes.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_count_and_ends_do_not() {
        let instruction = |opcode: &str, bytes: &[usize]| Instruction {
            name: opcode.into(),
            opcode: opcode.into(),
            bytes: bytes.into(),
        };
        let found = Collectives::among(&[
            instruction("add", &[4]),
            instruction("all-reduce", &[4, 8]),
            instruction("all-reduce-start", &[16]),
            instruction("all-reduce-done", &[16]),
            instruction("all-gather-start", &[2, 16]),
            instruction("all-gather-done", &[16]),
            instruction("collective-permute-start", &[8, 8, 4, 4]),
        ]);
        assert_eq!(found.to_string(), "2 all-reduce, 1 all-gather, 1 collective-permute");
        let bytes =
            [AllReduce, AllGather, CollectivePermute, AllToAll].map(|kind| found.bytes(kind));
        assert_eq!(bytes, [28, 16, 8, 0]);
        assert_eq!(Collectives::among(&[]).to_string(), "none");
    }
}
