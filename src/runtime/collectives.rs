//! Collectives of a compiled program.

use crate::core::Collective;
use oxidax_pjrt::Instruction;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// One collective of a compiled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompiledCollective {
    /// The kind of collective.
    pub kind: Collective,
    /// The compiler's name for it: `all-reduce.3`.
    pub name: String,
    /// The bytes of its result on one device.
    pub bytes: usize,
    /// The groups of devices that communicate, as ordinals in the mesh; empty for one group of all.
    pub groups: Vec<Vec<usize>>,
    /// For permutations: source and target of each message, as ordinals in the mesh.
    pub pairs: Vec<(usize, usize)>,
    /// Number of executions; `None` in a loop whose trip count the compiler does not report.
    pub runs: Option<u64>,
}

/// The collectives of a compiled program, counted by kind. Prints as `2 all-reduce, 1 all-gather`,
/// or `none`.
///
/// A collective in a loop counts once. The compiler may have combined several of one kind.
/// [`Collectives::each`] lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    /// Number and total bytes of each kind.
    by_kind: BTreeMap<Collective, (usize, usize)>,
    each: Vec<CompiledCollective>,
}

impl Collectives {
    pub(super) fn of_instructions(instructions: &[Instruction]) -> Collectives {
        let mut collectives = Collectives::default();
        for instruction in instructions {
            if let Some(kind) = Collective::of(&instruction.opcode) {
                let (count, bytes) = collectives.by_kind.entry(kind).or_insert((0, 0));
                *count += 1;
                *bytes += result_bytes(instruction);
                collectives.each.push(CompiledCollective {
                    kind,
                    name: instruction.name.clone(),
                    bytes: result_bytes(instruction),
                    groups: instruction.groups.clone(),
                    pairs: instruction.pairs.clone(),
                    runs: instruction.runs,
                });
            }
        }
        collectives
    }

    /// Returns the collectives, in no particular order.
    pub fn each(&self) -> &[CompiledCollective] {
        &self.each
    }

    /// Returns the kinds of collectives in the program.
    pub fn kinds(&self) -> impl Iterator<Item = Collective> {
        self.by_kind.keys().copied()
    }

    /// Returns the number of collectives of a kind.
    pub fn count(&self, kind: Collective) -> usize {
        self.by_kind.get(&kind).map_or(0, |(count, _)| *count)
    }

    /// Returns the total bytes of the results of a kind, on one device.
    pub fn bytes(&self, kind: Collective) -> usize {
        self.by_kind.get(&kind).map_or(0, |(_, bytes)| *bytes)
    }

    /// Returns true if the devices do not communicate.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }
}

impl fmt::Display for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, (kind, (count, _))) in self.by_kind.iter().enumerate() {
            write!(f, "{}{count} {kind}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Returns the bytes of a collective's results. The results of an asynchronous start may also
/// include its operands and context words.
fn result_bytes(Instruction { opcode, bytes, .. }: &Instruction) -> usize {
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
    fn asynchronous_pairs_count_once() {
        let instruction = |opcode: &str, bytes: &[usize]| Instruction {
            name: opcode.into(),
            opcode: opcode.into(),
            bytes: bytes.into(),
            groups: Vec::new(),
            pairs: Vec::new(),
            runs: Some(1),
        };
        let collectives = Collectives::of_instructions(&[
            instruction("add", &[4]),
            instruction("all-reduce", &[4, 8]),
            instruction("all-reduce-start", &[16]),
            instruction("all-reduce-done", &[16]),
            instruction("all-gather-start", &[2, 16]),
            instruction("all-gather-done", &[16]),
            instruction("collective-permute-start", &[8, 8, 4, 4]),
        ]);
        assert_eq!(collectives.to_string(), "2 all-reduce, 1 all-gather, 1 collective-permute");
        let bytes =
            [AllReduce, AllGather, CollectivePermute, AllToAll].map(|kind| collectives.bytes(kind));
        assert_eq!(bytes, [28, 16, 8, 0]);
        assert_eq!(Collectives::of_instructions(&[]).to_string(), "none");
    }
}
