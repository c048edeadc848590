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
            let locations = kernel_locations(&message, program);
            let at: String = locations.iter().map(|at| format!("\n   --> {at}")).collect();
            let help = match message.contains(SHARED_MEMORY) && !locations.is_empty() {
                true => SHARED_MEMORY_HELP,
                false if is_unregistered(&message) => UNREGISTERED_HELP,
                false => "",
            };
            let message = format!("{name}: {message}{at}{help}");
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

/// The start of a compiler's message on a kernel for GPUs that needs too much shared memory.
const SHARED_MEMORY: &str = "Shared memory size limit exceeded";
const SHARED_MEMORY_HELP: &str = "\n  help: choose smaller blocks for GPUs with `Kernel::on_gpu`, \
    smaller parts in loops, or fewer stages with `KernelOptions::num_stages`: a program has 166912 \
    bytes of shared memory on an A100, and 232448 on H100, H200 and B200";

/// Returns true if a program calls a foreign function that the plugin does not know.
fn is_unregistered(message: &str) -> bool {
    message.contains("No registered implementation for")
        || message.contains("No FFI handler registered for")
}

const UNREGISTERED_HELP: &str = "\n  help: register the function before the program is compiled, \
    with `ffi::register_ffi_target` or `ffi::register_foreign_target`";

/// Returns the source positions of what a compiler of kernels refused: of the operation if the
/// message has it, else of the calls of kernels.
fn kernel_locations(message: &str, program: &Program) -> Vec<String> {
    if let Some(at) = kernel_location(message) {
        return vec![at];
    }
    let mut locations = Vec::new();
    if ["Mosaic GPU", "Triton", SHARED_MEMORY].iter().any(|part| message.contains(part)) {
        calls_of("kernel_call", program, &mut locations);
    }
    if is_unregistered(message) {
        calls_of("ffi_call", program, &mut locations);
    }
    locations
}

/// Adds the source positions of the operations of this name in a program.
fn calls_of(name: &str, program: &Program, locations: &mut Vec<String>) {
    for eqn in program.eqns() {
        if eqn.primitive.name() == name {
            let at = eqn.loc.get().map(|at| format!("{}:{}:{}", at.file(), at.line(), at.column()));
            locations.extend(at.filter(|at| !locations.contains(at)));
        } else if let Some(holder) = eqn.primitive.as_higher_order() {
            holder.programs().into_iter().for_each(|(_, inner)| calls_of(name, inner, locations));
        }
    }
}

/// Returns the source position of an operation in a kernel that the compiler refused. Each
/// operation of a kernel for TPUs has the user's line, which the compiler repeats.
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
    fn calls_of_kernels_are_named_if_the_message_has_no_location() {
        use crate::kernel::{self, BlockSpec, Grid, Output, Ref};
        let add = |x: Array| {
            let body = |[x, o]: [Ref; 2]| o.store(x.load() + 1.0);
            let output = Output::new(DType::F32, [8, 128], BlockSpec::whole());
            kernel::call(body, Grid::new([1]), [BlockSpec::whole()], [output]).apply1(&[&x])
        };
        let line = line!() - 2;
        let program = make_program(add, Aval::new(DType::F32, [8, 128])).unwrap();
        let message = "INTERNAL: Mosaic GPU pass pipeline failed: ptxas";
        let locations = kernel_locations(message, &program);
        assert_eq!(locations.len(), 1);
        assert!(locations[0].starts_with(&format!("{}:{line}:", file!())), "{locations:?}");
        assert!(kernel_locations("INTERNAL: no kernel", &program).is_empty());
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
