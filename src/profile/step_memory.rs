//! [`StepMemory`]: the memory of a program over one execution.

use crate::core::SourceLine;
use crate::passes::{Live, Peak};
use crate::runtime::{DeviceMemory, SourceLocation};
use serde::{Deserialize, Serialize};

/// The memory of a program over one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StepMemory {
    /// The bytes in memory while each operation runs, in the program's order.
    pub timeline: Vec<u64>,
    /// The arrays in memory at the peak, largest first.
    pub at_peak: Vec<PeakArrays>,
    /// True for the memory of one device, by the operations of the compiled program. False for that
    /// of all devices together, as estimated by [`passes::peak`](crate::passes::peak()).
    pub of_one_device: bool,
}

/// Arrays of one type that one line produces, in memory at the peak.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PeakArrays {
    /// The type, such as `f32[512,512]`.
    pub array_type: String,
    /// The number of arrays.
    pub count: u64,
    /// The bytes of all of them.
    pub bytes: u64,
    /// The primitive that produces them; `None` for arguments.
    pub produced_by: Option<String>,
    /// The line of that operation.
    pub line: Option<SourceLine>,
    /// The paths of the leaves, for arguments.
    pub paths: Vec<String>,
}

impl StepMemory {
    pub(crate) fn of(peak: &Peak) -> StepMemory {
        let at_peak = grouped(peak.values.iter().map(PeakArrays::of));
        StepMemory { timeline: peak.timeline.clone(), at_peak, of_one_device: false }
    }

    /// Returns the memory of one device. `paths` are those of the arguments.
    pub(crate) fn of_device(memory: DeviceMemory, paths: &[String]) -> StepMemory {
        let arrays = memory.at_peak.into_iter().map(|array| {
            let path = array.parameter.and_then(|number| paths.get(number));
            let source = |at: SourceLocation| SourceLine { file: at.file, line: at.line };
            PeakArrays {
                array_type: array.array_type,
                count: 1,
                bytes: array.bytes,
                produced_by: array.produced_by,
                line: array.source.map(source),
                paths: path.cloned().into_iter().collect(),
            }
        });
        StepMemory { at_peak: grouped(arrays), timeline: memory.timeline, of_one_device: true }
    }

    /// Returns the largest number of bytes in memory.
    pub fn peak(&self) -> u64 {
        self.timeline.iter().copied().max().unwrap_or_default()
    }
}

/// Joins arrays of one type, operation and line. The group with most bytes is first.
fn grouped(arrays: impl Iterator<Item = PeakArrays>) -> Vec<PeakArrays> {
    let mut groups: Vec<PeakArrays> = Vec::new();
    let mut indices = rustc_hash::FxHashMap::default();
    for found in arrays {
        let key = (found.array_type.clone(), found.produced_by.clone(), found.line.clone());
        let index = *indices.entry(key).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => {
                group.count += 1;
                group.bytes = group.bytes.saturating_add(found.bytes);
                group.paths.extend(found.paths);
            }
            None => groups.push(found),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.bytes));
    groups
}

impl PeakArrays {
    fn of(live: &Live) -> PeakArrays {
        PeakArrays {
            array_type: live.aval.to_string(),
            count: 1,
            bytes: live.aval.bytes() as u64,
            produced_by: live.produced_by.map(str::to_owned),
            line: SourceLine::of(live.loc),
            paths: live.path.clone().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn equal_arrays_of_a_line_are_one_row() {
        let deep = |x: Array| {
            let layers = |x: &Array| (0..4).fold(x.clone(), |y, _| tanh(y.matmul(&y))).sum();
            grad(layers)(&x)
        };
        let program = make_program(deep, Aval::new(DType::F32, [64, 64])).expect("it traces");
        let peak = crate::passes::peak(&program);
        let memory = StepMemory::of(&peak);
        assert_eq!(memory.peak(), peak.bytes);
        assert_eq!(memory.at_peak.iter().map(|group| group.bytes).sum::<u64>(), peak.bytes);
        assert!(memory.at_peak.len() < peak.values.len(), "{memory:?}");
        assert!(memory.at_peak[0].count >= 3, "{memory:?}");
    }
}
