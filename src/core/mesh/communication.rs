//! What an operation sends from device to device.

use serde::Serialize;
use std::fmt;

/// A kind of operation between devices, by XLA's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
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
    pub(crate) fn of(opcode: &str) -> Option<Collective> {
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

/// What an operation sends from device to device when axes of a mesh run over devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communication {
    /// Who gets what.
    pub kind: Collective,
    /// Along which axes.
    pub axes: Vec<String>,
    /// For permutations, from whom to whom along the axis.
    pub pairs: Vec<(usize, usize)>,
}

impl Communication {
    /// Everybody along the axes takes part alike.
    pub fn along(kind: Collective, axes: &[String]) -> Communication {
        Communication { kind, axes: axes.to_vec(), pairs: Vec::new() }
    }
}
