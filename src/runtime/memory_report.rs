//! The largest values of a program that exhausts a device's memory, with their source lines.

use super::executable::Executable;
use crate::core::{Aval, Error, Loc, Program, units};
use crate::passes;

/// Number of the largest values that are listed.
const LISTED: usize = 8;

/// Remedies for a program that does not fit.
pub(super) const REMEDIES: &str = "use a smaller batch, `bf16`, or `remat` around each layer, which recomputes what the \
     derivative needs; shard parameters and optimizer state over more devices; pass arguments by \
     value that are not needed afterwards";

/// The message of XLA's library of matrix products on CPUs for every failure. Shapes and dtypes are
/// checked at compile time, so at run time an allocation has failed.
const PRODUCT_FAILED: &str = "YNNPACK operation failed";

/// The values that a failed program holds.
pub(crate) enum HeldValues<'a> {
    /// All values of this program.
    Program(&'a Program),
    /// Arguments and results of a program that is not kept.
    Avals {
        /// The types of the arguments.
        arguments: &'a [Aval],
        /// The types of the results.
        results: &'a [Aval],
    },
}

/// Returns true if a plugin's message means exhausted memory, whatever its status.
pub(super) fn means_out_of_memory(message: &str) -> bool {
    message.contains(PRODUCT_FAILED)
}

/// Explains a message that means exhausted memory without a word of it.
pub(super) fn explain(message: &str) -> Option<&'static str> {
    means_out_of_memory(message).then_some(
        "out of memory: the library that XLA computes matrix products with on CPUs failed to \
         allocate memory",
    )
}

impl Executable {
    /// Adds to an error of exhausted memory what the program needs and the largest values.
    pub(crate) fn with_memory_report(&self, error: Error, values: HeldValues<'_>) -> Error {
        let Error::Runtime { doing, code, message, loc, help } = error else { return error };
        let mut lines = vec![message];
        if let Ok(memory) = self.report().memory_analysis() {
            lines.push(format!(
                "  the program needs {} on a device: {} of arguments, {} of results, {} of \
                 intermediate values",
                units::size(memory.total()),
                units::size(memory.arguments),
                units::size(memory.results),
                units::size(memory.temporaries)
            ));
        }
        let devices = self.inputs().first().and_then(|placement| placement.mesh());
        let devices = devices.map_or(1, |mesh| mesh.devices().len());
        lines.extend(match values {
            HeldValues::Program(program) => largest_values(program, devices),
            HeldValues::Avals { arguments, results } => {
                let arguments = arguments.iter().map(|aval| (1, aval.clone(), "argument"));
                let results = results.iter().map(|aval| (1, aval.clone(), "result"));
                let groups = arguments.chain(results);
                listed(groups.map(|(n, aval, kind)| (n, aval, kind, Loc::UNKNOWN)), devices)
            }
        });
        Error::Runtime { doing, code, message: lines.join("\n"), loc, help }
    }
}

/// Lists the values in memory at the peak of a program, the largest first.
pub(super) fn largest_values(program: &Program, devices: usize) -> Vec<String> {
    let values = passes::peak(program).values.into_iter();
    listed(
        values.map(|live| (1, live.aval, live.produced_by.unwrap_or("argument"), live.loc)),
        devices,
    )
}

/// A number of equal values: type, producer, line.
type Group = (usize, Aval, &'static str, Loc);

/// Lists groups of values, equal ones together, the largest total first.
fn listed(values: impl Iterator<Item = Group>, devices: usize) -> Vec<String> {
    let mut groups: Vec<Group> = Vec::new();
    for (n, aval, producer, loc) in values {
        let equal = groups.iter_mut().find(|(_, other, other_producer, other_loc)| {
            *other == aval && *other_producer == producer && *other_loc == loc
        });
        match equal {
            Some((count, ..)) => *count += n,
            None => groups.push((n, aval, producer, loc)),
        }
    }
    let total = |(count, aval, ..): &Group| (*count as u64).saturating_mul(aval.bytes() as u64);
    groups.sort_by_key(|group| std::cmp::Reverse(total(group)));
    let all = if devices > 1 { ", of all devices together" } else { "" };
    let mut lines = vec![format!("  at its peak the program holds{all}:")];
    for group in groups.iter().take(LISTED) {
        let (count, aval, producer, loc) = group;
        let location = loc.get().map(|location| format!("  at {location}")).unwrap_or_default();
        let times = if *count > 1 { format!("{count} × ") } else { String::new() };
        let bytes = units::size(total(group));
        lines.push(format!("    {bytes:>10}  {times}{aval}  {producer}{location}"));
    }
    if let Some(others @ [_, ..]) = groups.get(LISTED..) {
        let bytes = others.iter().map(total).fold(0, u64::saturating_add);
        lines.push(format!("    {:>10}  in {} others", units::size(bytes), others.len()));
    }
    lines
}
