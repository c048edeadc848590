//! Errors of the compiler, and the report on programs that exceed a device's memory.

use super::compile::dump;
use crate::core::{Aval, Error, Loc, Program, units};
use crate::passes;

/// Number of the largest values that are listed.
const LISTED: usize = 8;

/// Converts a compiler error for the function `name`. If the program exceeds the device's memory,
/// the message says by how much, lists the largest values and suggests remedies.
pub(super) fn compile_error(
    name: &str,
    error: &oxidax_pjrt::Error,
    (program, text): (&Program, &str),
    devices: usize,
) -> Error {
    let (message, dump) = (error.to_string(), dump(program, text));
    match sizes(&message) {
        Some((needed, available)) => {
            let message = too_large_message(name, (needed, available), program, devices);
            Error::TooLarge { message, needed, available, dump }
        }
        None => Error::Compile { message: format!("{name}: {message}"), dump },
    }
}

/// Returns the bytes needed and available, if a compiler's message reports too little memory.
fn sizes(message: &str) -> Option<(u64, u64)> {
    let mut sizes = message.split([' ', '(', ')', ',']).filter_map(size);
    let (needed, available) = (sizes.next()?, sizes.next()?);
    (message.contains("RESOURCE_EXHAUSTED") && needed > available).then_some((needed, available))
}

fn too_large_message(
    name: &str,
    (needed, available): (u64, u64),
    program: &Program,
    devices: usize,
) -> String {
    let over = needed - available;
    let mut lines = vec![format!(
        "{name}: does not fit: it needs {} on a device, which has {}: {} ({over} bytes) too many",
        units::size(needed),
        units::size(available),
        units::size(over)
    )];
    let all = if devices > 1 { ", of all devices together" } else { "" };
    lines.push(format!("  at its peak the program holds{all}:"));
    let groups = groups(program);
    for (count, aval, primitive, loc) in groups.iter().take(LISTED) {
        let location = loc.get().map(|location| format!("  at {location}"));
        let times = if *count > 1 { format!("{count} × ") } else { String::new() };
        let bytes = units::size(*count as u64 * aval.bytes() as u64);
        lines.push(format!(
            "    {bytes:>10}  {times}{aval}  {primitive}{}",
            location.unwrap_or_default()
        ));
    }
    if let Some(others @ [_, ..]) = groups.get(LISTED..) {
        let bytes: usize = others.iter().map(|(count, aval, ..)| count * aval.bytes()).sum();
        lines.push(format!("    {:>10}  in {} others", units::size(bytes as u64), others.len()));
    }
    lines.push(
        "  help: use a smaller batch, `bf16`, or `remat` around each layer, which recomputes what \
         the derivative needs; shard parameters and optimizer state over more devices; pass arguments \
         by value that are not needed afterwards"
            .into(),
    );
    lines.join("\n")
}

type Group = (usize, Aval, &'static str, Loc);

/// Returns the values in memory at the peak, equal ones grouped, the largest total first.
fn groups(program: &Program) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for live in passes::peak(program).values {
        let produced_by = live.produced_by.unwrap_or("argument");
        let equal = groups.iter_mut().find(|(_, aval, primitive, loc)| {
            *aval == live.aval && *primitive == produced_by && *loc == live.loc
        });
        match equal {
            Some((count, ..)) => *count += 1,
            None => groups.push((1, live.aval, produced_by, live.loc)),
        }
    }
    groups.sort_by_key(|(count, aval, ..)| std::cmp::Reverse(count * aval.bytes()));
    groups
}

/// Parses a size as compilers write it, `15.75G`, to bytes.
fn size(word: &str) -> Option<u64> {
    let number = word.strip_suffix(['K', 'M', 'G', 'T'])?;
    let power = match word.as_bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 40,
    };
    let number: f64 = number.parse().ok().filter(|number: &f64| *number >= 0.0)?;
    Some((number * (1u64 << power) as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    const MESSAGE: &str = "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on \
        HBM, the total memory required for HLO temporaries (38.19G) exceeds available HBM (15.75G). \
        HLO module: fn.";

    #[test]
    fn too_large_message_lists_values_and_lines() {
        let f = |x: Array| {
            let y = x.matmul(&x);
            let z = y.matmul(&y);
            y.matmul(&z)
        };
        let program = make_program(f, Aval::new(DType::F32, [16384, 16384])).unwrap();
        let sizes = sizes(MESSAGE).unwrap();
        let message = too_large_message("f", sizes, &program, 1);
        assert!(message.contains("22.44 GiB (24094766531 bytes) too many"), "{message}");
        assert!(message.contains("1.00 GiB  f32[16384,16384]  dot_general  at "), "{message}");
        assert!(message.contains("compile_error.rs"), "{message}");
        assert!(!message.contains("of all devices"), "{message}");
        assert!(too_large_message("f", sizes, &program, 4).contains("of all devices together"));
    }

    #[test]
    fn sizes_ignores_other_messages() {
        assert_eq!(sizes("INTERNAL: 38.19G of 15.75G"), None);
        assert_eq!(sizes("RESOURCE_EXHAUSTED: of something else"), None);
        assert_eq!(sizes("RESOURCE_EXHAUSTED: 1.00G of 2.00G"), None);
        let used = "RESOURCE_EXHAUSTED: Used 3.5M of 512K hbm. Exceeded by 3M.";
        assert_eq!(sizes(used), Some((7 << 19, 1 << 19)));
    }
}
