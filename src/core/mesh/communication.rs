//! Communication of an operation between devices.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of collective operation, with XLA's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Collective {
    /// Reduces values of all devices; every device gets the result.
    AllReduce,
    /// Concatenates values of all devices; every device gets the result.
    AllGather,
    /// Reduces values of all devices; each device gets a part of the result.
    ReduceScatter,
    /// Sends a part from each device to each device.
    AllToAll,
    /// Sends values from one device to another.
    CollectivePermute,
    /// Sends a value from one device to all.
    CollectiveBroadcast,
}

use Collective::{
    AllGather, AllReduce, AllToAll, CollectiveBroadcast, CollectivePermute, ReduceScatter,
};

impl Collective {
    /// Returns XLA's name of the operation.
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

    /// Returns the kind of an XLA operation; of a pair of start and end, only the start counts.
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

/// The communication of an operation along mesh axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communication {
    /// The kind of collective.
    pub kind: Collective,
    /// The mesh axes.
    pub axes: Vec<String>,
    /// Source and destination indices along the axis, for permutations.
    pub pairs: Vec<(usize, usize)>,
    /// The number of devices that communicate with each other, if the axes are divided into groups;
    /// otherwise all along the axes do.
    pub group_size: Option<usize>,
}

impl Communication {
    /// Creates a communication in which all devices along the axes take part.
    pub fn along(kind: Collective, axes: &[String]) -> Communication {
        Communication { kind, axes: axes.to_vec(), pairs: Vec::new(), group_size: None }
    }
}
