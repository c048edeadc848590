//! The largest values of a program that exhausts a device's memory, with their source lines.

use super::executable::Executable;
use crate::core::{Aval, Error, Loc, Program, units};
use crate::passes::{self, Live};

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
    /// All values of this program, with the paths of its arguments as far as they are known.
    Program(&'a Program, &'a [String]),
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
            HeldValues::Program(program, paths) => largest_values(program, paths, devices),
            HeldValues::Avals { arguments, results } => {
                let value = |aval: &Aval, producer| Value {
                    aval: aval.clone(),
                    producer,
                    loc: Loc::UNKNOWN,
                    path: None,
                };
                let arguments = arguments.iter().map(|aval| value(aval, "argument"));
                let results = results.iter().map(|aval| value(aval, "result"));
                listed(arguments.chain(results), devices)
            }
        });
        Error::Runtime { doing, code, message: lines.join("\n"), loc, help }
    }
}

/// Lists the values in memory at the peak of a program, the largest first. `paths` are those of its
/// arguments.
pub(super) fn largest_values(program: &Program, paths: &[String], devices: usize) -> Vec<String> {
    let values = passes::peak(program).with_paths(paths).values.into_iter();
    let values = values.map(|Live { aval, produced_by, loc, path, .. }| Value {
        aval,
        producer: produced_by.unwrap_or("argument"),
        loc,
        path,
    });
    listed(values, devices)
}

/// A value in memory.
struct Value {
    aval: Aval,
    /// The primitive that produces it, or `argument` or `result`.
    producer: &'static str,
    loc: Loc,
    /// The path of an argument.
    path: Option<String>,
}

/// Lists values, those of one type, producer and line together, the largest total first. Of several
/// arguments the first path is shown.
fn listed(values: impl Iterator<Item = Value>, devices: usize) -> Vec<String> {
    let mut groups: Vec<(usize, Value)> = Vec::new();
    for value in values {
        let is_equal = |(_, other): &&mut (usize, Value)| {
            (&other.aval, other.producer, other.loc) == (&value.aval, value.producer, value.loc)
        };
        match groups.iter_mut().find(is_equal) {
            Some((count, _)) => *count += 1,
            None => groups.push((1, value)),
        }
    }
    let total =
        |(count, value): &(usize, Value)| (*count as u64).saturating_mul(value.aval.bytes() as u64);
    groups.sort_by_key(|group| std::cmp::Reverse(total(group)));
    let all = if devices > 1 { ", of all devices together" } else { "" };
    let mut lines = vec![format!("  at its peak the program holds{all}:")];
    for group in groups.iter().take(LISTED) {
        let (count, Value { aval, producer, loc, path }) = group;
        let location = loc.get().map(|location| format!("  at {location}")).unwrap_or_default();
        let times = if *count > 1 { format!("{count} × ") } else { String::new() };
        let path = match (path, count) {
            (None, _) => String::new(),
            (Some(path), 1) => format!(" {path}"),
            (Some(path), count) => format!(" {path}, and {} more", count - 1),
        };
        let bytes = units::size(total(group));
        lines.push(format!("    {bytes:>10}  {times}{aval}  {producer}{path}{location}"));
    }
    if let Some(others @ [_, ..]) = groups.get(LISTED..) {
        let bytes = others.iter().map(total).fold(0, u64::saturating_add);
        lines.push(format!("    {:>10}  in {} others", units::size(bytes), others.len()));
    }
    lines
}
