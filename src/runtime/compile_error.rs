//! Errors of the compiler, and the report on programs that exceed a device's memory.

use super::compile::dump;
use super::memory_report::{REMEDIES, largest_values};
use crate::core::{Error, Loc, Program, units};

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
            Error::TooLarge { message, needed, available, dump, loc: Loc::UNKNOWN }
        }
        None => {
            let at = kernel_location(&message);
            let at = at.map(|at| format!("\n   --> {at}")).unwrap_or_default();
            let message = format!("{name}: {message}{at}");
            Error::Compile { message, dump, loc: Loc::UNKNOWN }
        }
    }
}

/// Returns the bytes needed and available, if a compiler's message reports too little memory.
fn sizes(message: &str) -> Option<(u64, u64)> {
    let mut sizes = message.split([' ', '(', ')', ',']).filter_map(size);
    let (needed, available) = (sizes.next()?, sizes.next()?);
    (message.contains("RESOURCE_EXHAUSTED") && needed > available).then_some((needed, available))
}

/// Returns the source position of an operation in a kernel that the compiler refused. Each operation
/// of a kernel for TPUs has the user's line, which the compiler repeats.
fn kernel_location(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("Mosaic")?;
    let mut positions = rest.split("loc(\"").skip(1).filter_map(|text| {
        let (file, rest) = text.split_once("\":")?;
        let (position, _) = rest.split_once(')')?;
        let is_position = position.split(':').all(|number| number.parse::<u32>().is_ok());
        // `-` is the text of the kernel.
        (file != "-" && is_position).then(|| format!("{file}:{position}"))
    });
    positions.next()
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
    lines.extend(largest_values(program, &[], devices));
    lines.push(format!("  help: {REMEDIES}"));
    lines.join("\n")
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
    fn kernel_location_is_the_users() {
        let message = "INTERNAL: Mosaic failed to compile TPU kernel: failed to legalize operation \
            'math.cbrt'\n\nat location: loc(\"src/my_kernel.rs\":12:34)\n";
        assert_eq!(kernel_location(message).unwrap(), "src/my_kernel.rs:12:34");
        assert_eq!(kernel_location(&message.replace("Mosaic", "XLA")), None);
        assert_eq!(kernel_location(&message.replace("src/my_kernel.rs", "-")), None);
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
