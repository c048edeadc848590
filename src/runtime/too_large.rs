//! What to say of a program that does not fit into a device's memory.

use super::executable::dump;
use crate::core::{Aval, Error, Loc, Program, units};
use crate::passes;

/// How many of the largest values are listed.
const LISTED: usize = 8;

/// The compiler's refusal of a program called `name`, as our error: how much too large it is, what fills the memory and
/// what to do, if that is why.
pub(super) fn refusal(
    name: &str,
    refused: &oxidax_pjrt::Error,
    (program, text): (&Program, &str),
    devices: usize,
) -> Error {
    let (said, dump) = (refused.to_string(), dump(program, text));
    match sizes(&said) {
        Some((needed, available)) => {
            let message = explained(name, (needed, available), program, devices);
            Error::TooLarge { message, needed, available, dump }
        }
        None => Error::Compile { message: format!("{name}: {said}"), dump },
    }
}

/// The bytes that are needed and those that are there, if a compiler's message says that there are too few.
fn sizes(message: &str) -> Option<(u64, u64)> {
    let mut sizes = message.split([' ', '(', ')', ',']).filter_map(size);
    let (needed, available) = (sizes.next()?, sizes.next()?);
    (message.contains("RESOURCE_EXHAUSTED") && needed > available).then_some((needed, available))
}

fn explained(
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
    lines.push(format!("  at its fullest moment the program holds{all}:"));
    let groups = groups(program);
    for (count, aval, made_by, loc) in groups.iter().take(LISTED) {
        let at = loc.get().map(|location| format!("  at {location}"));
        let times = if *count > 1 { format!("{count} × ") } else { String::new() };
        let bytes = units::size(*count as u64 * aval.bytes() as u64);
        lines.push(format!("    {bytes:>10}  {times}{aval}  {made_by}{}", at.unwrap_or_default()));
    }
    if let Some(others @ [_, ..]) = groups.get(LISTED..) {
        let bytes: usize = others.iter().map(|(count, aval, ..)| count * aval.bytes()).sum();
        lines.push(format!("    {:>10}  in {} others", units::size(bytes as u64), others.len()));
    }
    lines.push(
        "  help: a smaller batch; `remat` around each layer, which computes again what the derivative needs; `bf16`; \
         parameters and optimizer state cut over more devices; arguments that are not needed afterwards passed by value"
            .into(),
    );
    lines.join("\n")
}

type Group = (usize, Aval, &'static str, Loc);

/// What is in memory at the fullest moment, equals together, the largest sums first.
fn groups(program: &Program) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for live in passes::peak(program).values {
        let made_by = live.produced_by.unwrap_or("argument");
        let alike = groups
            .iter_mut()
            .find(|(_, aval, by, at)| *aval == live.aval && *by == made_by && *at == live.loc);
        match alike {
            Some((count, ..)) => *count += 1,
            None => groups.push((1, live.aval, made_by, live.loc)),
        }
    }
    groups.sort_by_key(|(count, aval, ..)| std::cmp::Reverse(count * aval.bytes()));
    groups
}

/// A size as compilers write it, `15.75G`, in bytes.
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

    const MESSAGE: &str = "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory \
        required for HLO temporaries (38.19G) exceeds available HBM (15.75G). HLO module: fn.";

    #[test]
    fn names_the_overrun_the_values_and_their_lines() {
        let f = |x: Array| {
            let y = x.matmul(&x);
            let z = y.matmul(&y);
            y.matmul(&z)
        };
        let program = make_program(f, Aval::new(DType::F32, [16384, 16384])).unwrap();
        let sizes = sizes(MESSAGE).unwrap();
        let said = explained("f", sizes, &program, 1);
        assert!(said.contains("22.44 GiB (24094766531 bytes) too many"), "{said}");
        assert!(said.contains("1.00 GiB  f32[16384,16384]  dot_general  at "), "{said}");
        assert!(said.contains("too_large.rs"), "{said}");
        assert!(!said.contains("of all devices"), "{said}");
        assert!(explained("f", sizes, &program, 4).contains("of all devices together"));
    }

    #[test]
    fn other_messages_are_left_alone() {
        assert_eq!(sizes("INTERNAL: 38.19G of 15.75G"), None);
        assert_eq!(sizes("RESOURCE_EXHAUSTED: of something else"), None);
        assert_eq!(sizes("RESOURCE_EXHAUSTED: 1.00G of 2.00G"), None);
        let used = "RESOURCE_EXHAUSTED: Used 3.5M of 512K hbm. Exceeded by 3M.";
        assert_eq!(sizes(used), Some((7 << 19, 1 << 19)));
    }
}
