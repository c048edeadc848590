//! Collectives of a compiled program.

use crate::core::{Collective, Mesh, SourceLine, units};
use oxidax_pjrt::{Instruction, Neighbour, Origins, SourceOperation};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
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
    /// The source line of the operation for which the compiler made it. `None` if the compiler
    /// recorded none, as for results that are moved to their sharding.
    pub place: Option<SourceLine>,
    /// The name of that operation, with the named scopes around it: `encoder/dot_general`.
    pub operation: Option<String>,
    /// The operations around it.
    #[serde(skip)]
    pub(crate) origins: CollectiveOrigins,
}

/// The operations of the source for which a collective was made, and from which and to which it
/// moves data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectiveOrigins(pub(crate) Origins);

/// A line, and the name of an operation on it, with its named scopes.
pub(crate) type NamedLine<'a> = (&'a str, u32, &'a str);

/// An operation with a line, and the parameters of the program that it reads.
pub(crate) type SourceNode<'a> = (NamedLine<'a>, &'a [usize]);

fn named_line(operation: &SourceOperation) -> NamedLine<'_> {
    (&operation.source.file, operation.source.line, &operation.name)
}

impl CollectiveOrigins {
    /// Returns the operation for which the compiler made the collective.
    pub(crate) fn own(&self) -> Option<NamedLine<'_>> {
        self.0.operation.as_ref().map(named_line)
    }

    /// Returns the operations whose results it moves.
    pub(crate) fn sources(&self) -> impl Iterator<Item = SourceNode<'_>> {
        self.0.operands.iter().filter_map(source_node)
    }

    /// Returns the operations that use what it moves.
    pub(crate) fn users(&self) -> impl Iterator<Item = SourceNode<'_>> {
        self.0.users.iter().filter_map(source_node)
    }

    /// Returns true if another collective of the list stands for the same exchange.
    pub(crate) fn continues(&self) -> bool {
        self.0.continues
    }

    /// Returns the parameters of the program that it moves.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = usize> {
        self.0.operands.iter().filter_map(|neighbour| match neighbour {
            Neighbour::Parameter(index) => Some(*index),
            _ => None,
        })
    }

    /// Returns the results of the program that it moves.
    pub(crate) fn results(&self) -> impl Iterator<Item = usize> {
        self.0.users.iter().filter_map(|neighbour| match neighbour {
            Neighbour::Result(index) => Some(*index),
            _ => None,
        })
    }
}

fn source_node(neighbour: &Neighbour) -> Option<SourceNode<'_>> {
    match neighbour {
        Neighbour::Operation(operation, read) => Some((named_line(operation), read)),
        _ => None,
    }
}

/// The axes of a mesh along which a collective exchanges data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangedAxes {
    /// Indices of the axes along which the devices of a group differ.
    pub(crate) axes: Vec<usize>,
    /// True if a group is all devices along these axes.
    pub(crate) follows: bool,
    /// Number of devices in a group; of permutations the number along the axes.
    pub(crate) size: usize,
}

/// Returns the axes and the number of devices, as text: ``over `model` (2 devices)``.
pub(crate) fn over_axes(axes: &[String], size: usize) -> String {
    let devices = format!("{size} devices");
    match axes {
        [] => format!("among {devices}"),
        axes => {
            let axes: Vec<String> = axes.iter().map(|axis| format!("`{axis}`")).collect();
            format!("over {} ({devices})", axes.join(", "))
        }
    }
}

impl CompiledCollective {
    /// Returns the kind, size and axes, as text.
    pub(crate) fn summary(&self, mesh: &Mesh) -> String {
        let ExchangedAxes { axes, follows, size } = self.exchanged_axes(mesh);
        let axes = axes.iter().filter(|_| follows);
        let axes: Vec<String> = axes.map(|&axis| mesh.axes()[axis].0.to_string()).collect();
        let over = over_axes(&axes, size);
        format!("{} of {} {over}", self.kind, units::size(self.bytes as u64))
    }

    /// Returns the kind, size, axes, operation and line, as text.
    pub(crate) fn describe(&self, mesh: &Mesh) -> String {
        let mut text = self.summary(mesh);
        if let Some(operation) = &self.operation {
            text += &format!(" for `{operation}`");
        }
        if let Some(place) = &self.place {
            text += &format!(" at {place}");
        }
        text
    }

    /// Returns the axes of a mesh along which it exchanges data.
    pub(crate) fn exchanged_axes(&self, mesh: &Mesh) -> ExchangedAxes {
        let n = mesh.devices().len();
        let all: Vec<usize> = (0..n).collect();
        let group = self.groups.first().filter(|group| !group.is_empty()).unwrap_or(&all);
        // The axes along which the coordinates of these devices differ.
        let differing = |ordinals: &[usize]| -> Vec<usize> {
            let in_mesh = ordinals.iter().filter(|&&ordinal| ordinal < n);
            let coordinates: Vec<Vec<usize>> =
                in_mesh.map(|&ordinal| mesh.coordinates(ordinal)).collect();
            let differs = |axis: usize| coordinates.iter().any(|c| c[axis] != coordinates[0][axis]);
            (0..mesh.axes().len()).filter(|&axis| differs(axis)).collect()
        };
        let permutes = self.kind == Collective::CollectivePermute;
        let axes = if permutes {
            let pairs = self.pairs.iter();
            let mut axes: Vec<usize> =
                pairs.flat_map(|&(from, to)| differing(&[from, to])).collect();
            axes.sort_unstable();
            axes.dedup();
            axes
        } else {
            differing(group)
        };
        let count: usize = axes.iter().map(|&axis| mesh.axes()[axis].1).product();
        let size = if permutes { count } else { group.len() };
        ExchangedAxes { axes, follows: permutes || count == group.len(), size }
    }
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
    /// Lists the collectives among these instructions. `origins` are theirs, by name.
    pub(super) fn of_instructions(
        instructions: &[Instruction],
        origins: Vec<(String, Origins)>,
    ) -> Collectives {
        let mut collectives = Collectives::default();
        let mut origins: HashMap<String, Origins> = origins.into_iter().collect();
        for instruction in instructions {
            if let Some(kind) = Collective::of(&instruction.opcode) {
                let (count, bytes) = collectives.by_kind.entry(kind).or_insert((0, 0));
                *count += 1;
                *bytes += result_bytes(instruction);
                let origins = origins.remove(&instruction.name).unwrap_or_default();
                let operation = origins.operation.as_ref();
                let place = operation.map(|operation| SourceLine {
                    file: operation.source.file.clone(),
                    line: operation.source.line,
                });
                let operation = operation.map(|operation| operation.name.clone());
                collectives.each.push(CompiledCollective {
                    place,
                    operation,
                    origins: CollectiveOrigins(origins),
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
        let collectives = Collectives::of_instructions(
            &[
                instruction("add", &[4]),
                instruction("all-reduce", &[4, 8]),
                instruction("all-reduce-start", &[16]),
                instruction("all-reduce-done", &[16]),
                instruction("all-gather-start", &[2, 16]),
                instruction("all-gather-done", &[16]),
                instruction("collective-permute-start", &[8, 8, 4, 4]),
            ],
            Vec::new(),
        );
        assert_eq!(collectives.to_string(), "2 all-reduce, 1 all-gather, 1 collective-permute");
        let bytes =
            [AllReduce, AllGather, CollectivePermute, AllToAll].map(|kind| collectives.bytes(kind));
        assert_eq!(bytes, [28, 16, 8, 0]);
        assert_eq!(Collectives::of_instructions(&[], Vec::new()).to_string(), "none");
    }
}
