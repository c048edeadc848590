//! [`StepMemory`]: the memory of a program over one execution.

use crate::core::SourceLine;
use crate::passes::{Live, Peak};
use serde::{Deserialize, Serialize};

/// The memory of a program over one execution, over all devices together. Estimated by
/// [`passes::peak`](crate::passes::peak()).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StepMemory {
    /// The bytes in memory while each operation runs, in the program's order.
    pub timeline: Vec<u64>,
    /// The arrays in memory at the peak, largest first.
    pub at_peak: Vec<PeakArrays>,
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
}

impl StepMemory {
    pub(super) fn of(peak: &Peak) -> StepMemory {
        let mut at_peak: Vec<PeakArrays> = Vec::new();
        let mut groups = rustc_hash::FxHashMap::default();
        for live in &peak.values {
            let found = PeakArrays::of(live);
            let key = (found.array_type.clone(), live.produced_by, found.line.clone());
            let index = *groups.entry(key).or_insert(at_peak.len());
            match at_peak.get_mut(index) {
                Some(group) => {
                    group.count += 1;
                    group.bytes = group.bytes.saturating_add(found.bytes);
                }
                None => at_peak.push(found),
            }
        }
        at_peak.sort_by_key(|group| std::cmp::Reverse(group.bytes));
        StepMemory { timeline: peak.timeline.clone(), at_peak }
    }

    /// Returns the largest number of bytes in memory.
    pub fn peak(&self) -> u64 {
        self.timeline.iter().copied().max().unwrap_or_default()
    }
}

impl PeakArrays {
    fn of(live: &Live) -> PeakArrays {
        PeakArrays {
            array_type: live.aval.to_string(),
            count: 1,
            bytes: live.aval.bytes() as u64,
            produced_by: live.produced_by.map(str::to_owned),
            line: SourceLine::of(live.loc),
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
