//! Support of plugins: every primitive in every dtype, run on the CPU and compiled for a TPU. The
//! outcomes are stored beside this file, for the support matrix.

use expect_test::expect_file;
use oxidax::control_flow::HOLDERS;
use oxidax::core::{DType, RegistryEntry};
use oxidax::kernel::KERNEL_PRIMITIVES;
use oxidax::primitives::PRIMITIVES;
use oxidax::testing::{Variant, check_dtypes, joined, variants};
use std::fmt::Write as _;
use std::sync::Mutex;

/// Writes a line for each primitive: the dtypes that `check` accepts, then its errors.
fn outcomes(check: impl Fn(&RegistryEntry) -> Vec<(DType, Result<(), String>)> + Sync) -> String {
    let entries: Vec<&RegistryEntry> =
        PRIMITIVES.iter().chain(HOLDERS).chain(KERNEL_PRIMITIVES).collect();
    let lines = Mutex::new(vec![String::new(); entries.len()]);
    let queue = Mutex::new(entries.iter().enumerate());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((index, entry)) = queue.lock().unwrap().next() else { break };
                    let text = line(entry, check(entry));
                    lines.lock().unwrap()[index] = text;
                }
            });
        }
    });
    let lines = lines.into_inner().unwrap();
    lines.concat()
}

fn line(entry: &RegistryEntry, outcomes: Vec<(DType, Result<(), String>)>) -> String {
    let mut line = format!("{}:", entry.name);
    for (dtype, _) in outcomes.iter().filter(|(_, outcome)| outcome.is_ok()) {
        write!(line, " {dtype}").unwrap();
    }
    line.push('\n');
    for (dtype, outcome) in outcomes {
        if let Err(why) = outcome {
            writeln!(line, "    {dtype}: {}", why.lines().next().unwrap_or_default()).unwrap();
        }
    }
    line
}

mod on_cpu {
    use super::*;

    #[test]
    fn every_dtype_runs() {
        expect_file!["platforms/cpu.txt"].assert_eq(&outcomes(check_dtypes));
    }
}

/// `OXIDAX_TEST_LIBTPU` names the library; `cargo xtask ci` sets it.
mod tpu {
    use super::*;
    use oxidax::passes::lower;
    use oxidax_pjrt::{CompileOptions, PjrtProgram, Plugin, TopologyDescription};

    /// The native dtypes of a TPU. Most others are expanded into these, or libtpu takes minutes for
    /// them.
    const OF_TPUS: &[DType] =
        &[DType::Bool, DType::I8, DType::I32, DType::U32, DType::BF16, DType::F32, DType::C64];

    /// Compiles for one core of a TPU v5e, without the device.
    #[test]
    #[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
    fn every_dtype_compiles() {
        let path = std::env::var_os("OXIDAX_TEST_LIBTPU").expect("set it to libtpu.so");
        let topology =
            TopologyDescription::named(Plugin::load(path.as_ref()).unwrap(), "v5e:1x1", &[])
                .unwrap();
        let compiles = |program: &oxidax::core::Program| -> Result<(), String> {
            let text = lower(program, "f", "tpu").map_err(|e| e.to_string())?.text;
            let program = PjrtProgram::mlir(&text).map_err(|e| e.to_string())?;
            // Operations with a mesh need the partitioner, even for one device.
            let options = if text.contains("sdy.") {
                CompileOptions::spmd(1)
            } else {
                CompileOptions::default()
            };
            let compiled = topology.compile(&program, &options);
            compiled.map(|_| ()).map_err(|e| e.to_string())
        };
        let check = |entry: &RegistryEntry| {
            let (usual, other): (Vec<Variant>, Vec<Variant>) =
                variants(entry).into_iter().partition(|variant| OF_TPUS.contains(&variant.dtype));
            let variants = if usual.is_empty() { other } else { usual };
            // One module is faster. If it fails, each program alone shows which one is at fault.
            let all = compiles(&joined(&variants)).is_ok();
            let per_item =
                |variant: &Variant| if all { Ok(()) } else { compiles(&variant.program) };
            variants.iter().map(|variant| (variant.dtype, per_item(variant))).collect()
        };
        expect_file!["platforms/tpu.txt"].assert_eq(&outcomes(check));
    }
}
