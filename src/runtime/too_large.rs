//! What to say of a program that does not fit into a device's memory.

use crate::core::{Aval, Loc, Program};
use crate::passes;

/// How many of the largest values are listed.
const LISTED: usize = 8;

/// By how much a program is too large, what fills the memory, and what to do, if that is what the compiler's message says.
pub(super) fn explain(message: &str, program: &Program, devices: usize) -> Option<String> {
    if !message.contains("RESOURCE_EXHAUSTED") {
        return None;
    }
    let mut sizes = message.split([' ', '(', ')', ',']).filter_map(size);
    let (needed, there) = (sizes.next()?, sizes.next()?);
    let over = needed.checked_sub(there)?;
    let mut lines = vec![format!(
        "does not fit: it needs {} on a device, which has {}: {} ({over} bytes) too many",
        gib(needed),
        gib(there),
        gib(over)
    )];
    let all = if devices > 1 { ", of all devices together" } else { "" };
    lines.push(format!("  at its fullest moment the program holds{all}:"));
    let groups = groups(program);
    for (count, aval, made_by, location) in groups.iter().take(LISTED) {
        let at = location.map(|it| format!("  at {}:{}:{}", it.file(), it.line(), it.column()));
        lines.push(format!(
            "    {:>10}  {}{aval}  {made_by}{}",
            gib(*count as u64 * aval.bytes() as u64),
            if *count > 1 { format!("{count} × ") } else { String::new() },
            at.unwrap_or_default()
        ));
    }
    let rest = groups.iter().skip(LISTED).map(|(count, aval, ..)| count * aval.bytes());
    if groups.len() > LISTED {
        lines.push(format!(
            "    {:>10}  in {} others",
            gib(rest.sum::<usize>() as u64),
            groups.len() - LISTED
        ));
    }
    lines.push(
        "  help: a smaller batch; `remat` around each layer, which computes again what the derivative needs; `bf16`; \
         parameters and optimizer state cut over more devices; arguments that are not needed afterwards passed by value"
            .into(),
    );
    Some(lines.join("\n"))
}

type Group = (usize, Aval, &'static str, Loc);

/// What is in memory at the fullest moment, equals together, the largest sums first.
fn groups(program: &Program) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for live in passes::peak(program).values {
        let made_by = live.made_by.unwrap_or("argument");
        let alike = groups
            .iter_mut()
            .find(|(_, aval, by, at)| *aval == live.aval && *by == made_by && *at == live.location);
        match alike {
            Some((count, ..)) => *count += 1,
            None => groups.push((1, live.aval, made_by, live.location)),
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

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
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
        let said = explain(MESSAGE, &program, 1).unwrap();
        assert!(said.contains("22.44 GiB (24094766531 bytes) too many"), "{said}");
        assert!(said.contains("1.00 GiB  f32[16384,16384]  dot_general  at "), "{said}");
        assert!(said.contains("too_large.rs"), "{said}");
        assert!(!said.contains("of all devices"), "{said}");
        assert!(explain(MESSAGE, &program, 4).unwrap().contains("of all devices together"));
    }

    #[test]
    fn other_messages_are_left_alone() {
        let program = make_program(|x: Array| x, Aval::new(DType::F32, [2])).unwrap();
        assert_eq!(explain("INTERNAL: 38.19G of 15.75G", &program, 1), None);
        assert_eq!(explain("RESOURCE_EXHAUSTED: of something else", &program, 1), None);
        assert_eq!(explain("RESOURCE_EXHAUSTED: 1.00G of 2.00G", &program, 1), None);
        let used = "RESOURCE_EXHAUSTED: Used 37.25G of 15.75G hbm. Exceeded by 21.50G.";
        assert!(explain(used, &program, 1).unwrap().contains("21.50 GiB (23085449216 bytes)"));
    }
}
