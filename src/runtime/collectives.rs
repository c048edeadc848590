//! What a compiled program sends from device to device.

use crate::core::Collective;
use oxidax_pjrt::Instruction;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// One operation between devices in a compiled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompiledCollective {
    /// Who gets what.
    pub kind: Collective,
    /// The name that the compiler gave it: `all-reduce.3`.
    pub name: String,
    /// The bytes of its result on one device.
    pub bytes: usize,
    /// Which devices exchange with each other, as places in the mesh; empty: all of them.
    pub groups: Vec<Vec<usize>>,
    /// For permutations, from whom to whom, as places in the mesh.
    pub pairs: Vec<(usize, usize)>,
    /// How often it runs; `None` in a loop of which the compiler does not say how often it does.
    pub runs: Option<u64>,
}

/// The operations between devices in a compiled program, counted by kind. Prints as `2 all-reduce, 1 all-gather`, or `none`.
///
/// One in a loop counts once, however often the loop runs. The compiler may have joined several of one kind into one.
/// [`Collectives::each`] has them one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    found: BTreeMap<Collective, (usize, usize)>,
    each: Vec<CompiledCollective>,
}

impl Collectives {
    pub(super) fn among(instructions: &[Instruction]) -> Collectives {
        let mut among = Collectives::default();
        for instruction in instructions {
            if let Some(kind) = Collective::of(&instruction.opcode) {
                let (count, bytes) = among.found.entry(kind).or_insert((0, 0));
                *count += 1;
                *bytes += results(instruction);
                among.each.push(CompiledCollective {
                    kind,
                    name: instruction.name.clone(),
                    bytes: results(instruction),
                    groups: instruction.groups.clone(),
                    pairs: instruction.pairs.clone(),
                    runs: instruction.runs,
                });
            }
        }
        among
    }

    /// One by one, in no particular order.
    pub fn each(&self) -> &[CompiledCollective] {
        &self.each
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
    use Collective::{AllGather, AllReduce, AllToAll, CollectivePermute};

    #[test]
    fn starts_count_and_ends_do_not() {
        let instruction = |opcode: &str, bytes: &[usize]| Instruction {
            name: opcode.into(),
            opcode: opcode.into(),
            bytes: bytes.into(),
            groups: Vec::new(),
            pairs: Vec::new(),
            runs: Some(1),
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
