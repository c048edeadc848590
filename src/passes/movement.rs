//! [`Movement`]: data that an operation of a partitioned program needs from other devices, and why.

use crate::core::{Collective, Loc};
use std::fmt;

/// Data that devices exchange for an operation, as the shardings of the program suggest.
///
/// The shardings of arguments and constraints are facts, those of other values are an estimate of
/// the compiler's choice. A movement is therefore a possible cause: it explains a collective only
/// if the compiled program has one for this operation, along these axes.
#[derive(Clone, Debug)]
pub(crate) struct Movement {
    /// The location of the operation. Unknown for the results of the program.
    pub(crate) loc: Loc,
    /// The name of the operation; empty for the results of the program.
    pub(crate) operation: &'static str,
    /// The mesh axes along which data moves.
    pub(crate) axes: Vec<String>,
    /// The inputs of the program that are moved.
    pub(crate) inputs: Vec<usize>,
    /// The bytes that a device has after it, if the compiler moves data along these axes.
    pub(crate) bytes: Option<u64>,
    /// The operation that computes what is moved.
    pub(crate) source: Option<(Loc, &'static str)>,
    /// The result of the program that is the result of the operation.
    pub(crate) output: Option<usize>,
    /// The result of the program that is moved to the sharding that `jit` asks for.
    pub(crate) result: Option<usize>,
    /// The reason.
    pub(crate) reason: MovementReason,
}

/// A value of a program, with its sharding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardedValue {
    /// The path of an argument, or the operation that computes the value.
    pub(crate) name: String,
    /// The sharding; `None` if it is split along other axes than the program suggests.
    pub(crate) spec: Option<String>,
}

impl fmt::Display for ShardedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spec {
            Some(spec) => write!(f, "{} is {spec}", self.name),
            None => write!(f, "{} is split otherwise", self.name),
        }
    }
}

/// The reason of a [`Movement`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MovementReason {
    /// The operation combines elements along split axes.
    Combines {
        /// The values and their axes.
        terms: Vec<(String, usize)>,
        /// All operands of the operation are split alike, so that devices have partial results.
        is_partial: bool,
    },
    /// The operation reads other elements along a split axis than those of the device.
    Reads(String, usize),
    /// An operand is split otherwise than the operation computes: the operand, and the values that
    /// contradict it.
    Differs(ShardedValue, Vec<ShardedValue>),
    /// The operation, or an option of `jit`, asks for another sharding of a value.
    Requested { value: ShardedValue, by: String, spec: String },
    /// A loop starts with another sharding than an iteration returns.
    Carry { start: ShardedValue, next: String },
    /// The user wrote it.
    Written(Collective),
}

impl Movement {
    /// Returns how well it explains a collective of this kind; `None` if it does not.
    pub(crate) fn affinity(&self, kind: Collective) -> Option<u32> {
        let reduces = matches!(kind, Collective::AllReduce | Collective::ReduceScatter);
        let permutes = kind == Collective::CollectivePermute;
        match &self.reason {
            MovementReason::Written(own) => Some(if *own == kind { 4 } else { 2 }),
            MovementReason::Combines { .. } if permutes => None,
            MovementReason::Combines { is_partial, .. } => Some(if !reduces {
                1
            } else if *is_partial {
                5
            } else {
                2
            }),
            MovementReason::Requested { .. } => Some(if reduces { 0 } else { 3 }),
            MovementReason::Differs(..) => (!reduces).then_some(3),
            MovementReason::Carry { .. } => (!reduces).then_some(1),
            MovementReason::Reads(..) => Some(0),
        }
    }

    /// Returns the cause with the moved value only, for movements of which one is the cause.
    pub(crate) fn of_moved_value(&self) -> String {
        match &self.reason {
            MovementReason::Differs(value, _) => {
                let (operation, over) = (self.operation, quoted(&self.axes));
                format!("{value}, and `{operation}` needs it whole along {over}")
            }
            _ => self.to_string(),
        }
    }

    /// Returns the cause without the values, for several movements of which one is the cause.
    pub(crate) fn coarse(&self) -> String {
        let (operation, over) = (self.operation, quoted(&self.axes));
        match &self.reason {
            MovementReason::Combines { .. } => {
                format!("`{operation}` combines an axis that is split over {over}")
            }
            MovementReason::Reads(..) => {
                format!("`{operation}` reads along an axis that is split over {over}")
            }
            MovementReason::Differs(..) => {
                format!("`{operation}` has operands that are split over {over} differently")
            }
            MovementReason::Requested { by, .. } => format!("`{by}` asks for another sharding"),
            MovementReason::Carry { .. } => {
                format!("the loop `{operation}` changes the sharding of a carried value")
            }
            MovementReason::Written(_) => self.to_string(),
        }
    }

    /// Returns true if an operand is moved before the operation, rather than its result after it.
    pub(crate) fn moves_operand(&self) -> bool {
        !matches!(self.reason, MovementReason::Combines { .. } | MovementReason::Written(_))
    }

    /// Returns true if the user wrote the exchange.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.reason, MovementReason::Written(_))
    }
}

/// Joins texts with commas, and with `and` before the last.
fn listed(texts: &[String]) -> String {
    match texts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn quoted(names: &[String]) -> String {
    listed(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>())
}

impl fmt::Display for Movement {
    /// Writes the cause, as it follows "because".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, over) = (self.operation, quoted(&self.axes));
        match &self.reason {
            MovementReason::Combines { terms, .. } => {
                let terms: Vec<String> =
                    terms.iter().map(|(name, dim)| format!("axis {dim} of {name}")).collect();
                let verb = if terms.len() == 1 { "is" } else { "are" };
                let terms = listed(&terms);
                write!(f, "`{operation}` combines {terms}, which {verb} split over {over}")
            }
            MovementReason::Reads(name, dim) => {
                let axis = format!("axis {dim} of {name}");
                write!(f, "`{operation}` reads along {axis}, which is split over {over}")
            }
            MovementReason::Differs(value, others) => {
                let others: Vec<String> = others.iter().map(ToString::to_string).collect();
                write!(f, "`{operation}` has operands that differ: {value}, {}", others.join(", "))
            }
            MovementReason::Requested { value, by, spec } => {
                write!(f, "{value} and `{by}` asks for {spec}")
            }
            MovementReason::Carry { start, next } => {
                write!(f, "{start} before the loop `{operation}`, and {next} after an iteration")
            }
            MovementReason::Written(_) => write!(f, "`{operation}` over {over} is written there"),
        }
    }
}
