//! Compilation: from a program and its plan to an [`Executable`].

use super::callbacks::host_transfers;
use super::client::{Runtime, default_runtime, runtime_of};
use super::compile_error::compile_error;
use super::compile_scope::optimizes;
use super::compiler_options::CompilerOptions;
use super::compiler_report::CompilerReport;
use super::default_device::default_device;
use super::device_buffer::array_type;
use super::disk_cache::{self, Request};
use super::dump_ir::dump_ir;
use super::executable::{Executable, OutputPlacement};
use super::hlo_sharding::from_hlo_sharding;
use super::late_copies::{with_late_copies, without_late_copies};
use super::layouts::EntryLayouts;
use super::lowering_target::{gpu_limits, target_of};
use super::refused_kernels;
use super::stalls;
use crate::core::options::LOG_COMPILES;
use crate::core::spans::{EventKind, Span};
use crate::core::{
    Aval, DeviceId, Effects, Error, Loc, Mesh, NamedSharding, Placement, Program, monitoring,
};
use crate::passes::{self, LowerOptions, Plan, StableHloModule};
use oxidax_pjrt::{CompileOptions, ExecutableSignature, LoadedExecutable};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

impl Executable {
    /// Lowers and compiles a program whose arguments are never donated.
    ///
    /// # Errors
    /// `Plugin`; `Op` if a primitive refuses the platform; `Compile`.
    pub(crate) fn compile(program: &Program, name: &str, plan: &Plan) -> Result<Executable, Error> {
        let module = Executable::lower(program, name, plan, LowerOptions::default())?;
        let results = program.avals_out().into_iter().map(Arc::new).collect();
        Executable::load(program, name, &module, results, plan, &CompilerOptions::default())
    }

    /// Lowers a program for the platform that it runs on.
    ///
    /// # Errors
    /// `Plugin`; `Op` if a primitive refuses the platform.
    pub(crate) fn lower(
        program: &Program,
        name: &str,
        plan: &Plan,
        options: LowerOptions,
    ) -> Result<StableHloModule, Error> {
        let _span = Span::within(EventKind::Lower, || name.to_owned());
        let start = Instant::now();
        let runtime = runtime_for(plan)?;
        let kind = runtime.devices.first().map_or("", |device| device.kind());
        let target = target_of(program, &runtime.compiler).with_gpu(gpu_limits(kind));
        let module = passes::lower_with_plan(program, name, target, options, plan)?;
        let event = "/oxidax/compile/lower_duration";
        monitoring::record_duration_of(event, name, start.elapsed());
        Ok(module)
    }

    /// Compiles a lowered program, or loads it from the disk cache. `results` are the types of its
    /// results.
    ///
    /// # Errors
    /// `Plugin`, `Compile`.
    pub(crate) fn load(
        program: &Program,
        name: &str,
        module: &StableHloModule,
        results: Vec<Arc<Aval>>,
        plan: &Plan,
        compiler_options: &CompilerOptions,
    ) -> Result<Executable, Error> {
        let span = Span::within(EventKind::Compile, || name.to_owned());
        let start = Instant::now();
        let runtime = runtime_for(plan)?;
        refuse_absent(name, plan)?;
        let committed = plan.target.is_some();
        let target = match &plan.target {
            Some(target) => target.clone(),
            None => Placement::Device(default_device()?),
        };
        let avals = program.avals_in();
        let inputs = plan.input_placements(&target, avals.len());
        let device_avals = Executable::device_avals(&avals, &inputs)?;
        let options_for = |module: &StableHloModule| {
            let options = target_options(runtime, &target);
            let options = match runtime.compiler.as_str() {
                "cpu" => with_late_copies(with_library_fusions(options, module), module),
                _ => options,
            };
            compiler_options.apply(name, options)
        };
        let options = options_for(module)?;
        dump_ir(name, &module.text);
        disk_cache::take_failure();
        let compile_once = |module: &StableHloModule, options: CompileOptions| {
            let parameters = device_avals.iter().map(array_type).collect::<Result<_, _>>()?;
            let signature = ExecutableSignature { parameters };
            compile_or_load(runtime, name, module, signature, options, &target)
        };
        let compile = |module: &StableHloModule, options: CompileOptions| {
            compile_once(module, options.clone()).or_else(|error| {
                match without_late_copies(options, &error.to_string(), compiler_options) {
                    Some(options) => compile_once(module, options),
                    None => Err(error),
                }
            })
        };
        let mut compiled = compile(module, options);
        let plain;
        let module = match &compiled {
            Err(error) if module.facts.has_kernels() => {
                refused_kernels::insert(program, name, error);
                let lower_options = LowerOptions { donatable: module.donatable };
                plain = Executable::lower(program, name, plan, lower_options)?;
                compiled = compile(&plain, options_for(&plain)?);
                &plain
            }
            _ => module,
        };
        let (loaded, from_disk) = compiled.map_err(|error| {
            if let Some(refused) = compiler_options.refused(name, &error) {
                return refused;
            }
            let devices = target.mesh().map_or(1, |mesh| mesh.devices().len());
            compile_error(name, &error, (program, &module.text), devices)
        })?;
        if let Some(failure) = disk_cache::take_failure() {
            let message = format!(
                "{name}: the disk cache failed, and `raise_persistent_cache_errors` is set: \
                 {failure}"
            );
            return Err(Error::Compile { message, dump: None, loc: Loc::UNKNOWN });
        }
        span.add("from_disk", from_disk);
        let event = match from_disk {
            true => "/oxidax/cache/load_duration",
            false => "/oxidax/compile/backend_compile_duration",
        };
        monitoring::record_duration_of(event, name, start.elapsed());
        if LOG_COMPILES.get() {
            tracing::warn!(
                target: "oxidax::jit",
                function = name,
                operations = program.eqns().len(),
                from_disk,
                duration = ?start.elapsed(),
                "compiled"
            );
        }
        let options = options_for(module)?;
        let shardings = match target.mesh() {
            None => Vec::new(),
            Some(mesh) => output_shardings(loaded.executable(), mesh, &results, &plan.outputs)
                .map_err(|error| Error::Compile {
                    message: format!("{name}: {error}"),
                    dump: dump(program, &module.text),
                    loc: Loc::UNKNOWN,
                })?,
        };
        let report = || CompilerReport::new(loaded.executable(), name);
        let is_cpu = runtime.client.is_cpu();
        let layouts = EntryLayouts::of(report, name, &plan.layouts, is_cpu)?;
        Ok(Executable {
            loaded,
            name: name.into(),
            results,
            inputs,
            layouts,
            outputs: OutputPlacement { target, committed, shardings },
            program: stalls::next_program(),
            waits: program.effects() == Effects::Ordered || module.facts.waits,
            has_unordered_effects: program.effects() == Effects::Unordered,
            host_transfers: host_transfers(&module.facts),
            host_functions: module.facts.host_functions.clone(),
            from_disk,
            options,
            calls_host: module.calls_host,
            closures: program.is_opaque().then(|| Arc::new(program.clone())),
        })
    }
}

/// Returns the client that a program runs on. A mesh of absent devices has none; such programs are
/// lowered for the default platform.
fn runtime_for(plan: &Plan) -> Result<&'static Runtime, Error> {
    match &plan.target {
        None => runtime_of(default_device()?.1),
        Some(Placement::Mesh(sharding)) if sharding.mesh().is_absent() => default_runtime(),
        Some(placement) => runtime_at(placement),
    }
}

/// Returns the client of the devices of a placement.
pub(super) fn runtime_at(placement: &Placement) -> Result<&'static Runtime, Error> {
    runtime_of(match placement {
        Placement::Device(id) => id.1,
        Placement::Mesh(sharding) => sharding.devices()[0].id().1,
    })
}

/// Refuses to compile for a mesh whose devices are only described.
fn refuse_absent(name: &str, plan: &Plan) -> Result<(), Error> {
    match plan.mesh() {
        Some(mesh) if mesh.is_absent() => Err(Error::Compile {
            message: format!(
                "{name}: {mesh} was made `without_devices`; `as_text` lowers for it, and \
                 `Mesh::new` takes the devices that `devices()` lists"
            ),
            dump: None,
            loc: Loc::UNKNOWN,
        }),
        _ => Ok(()),
    }
}

/// Returns the shardings of the results of a program on a mesh: as requested, or as the compiler
/// chose.
pub(super) fn output_shardings(
    executable: &oxidax_pjrt::Executable,
    mesh: &Mesh,
    results: &[Arc<Aval>],
    requested: &[Option<NamedSharding>],
) -> Result<Vec<NamedSharding>, String> {
    let request = |index: usize| requested.get(index).cloned().flatten();
    if let Some(all) = (0..results.len()).map(request).collect::<Option<_>>() {
        return Ok(all);
    }
    let chosen = executable.result_shardings().map_err(|error| error.to_string())?;
    let mut shardings = Vec::with_capacity(results.len());
    for (index, aval) in results.iter().enumerate() {
        let chosen = chosen.as_ref().and_then(|chosen| chosen.get(index));
        let sharding = match (request(index), chosen) {
            (Some(requested), _) => requested,
            (None, None) => mesh.replicated(),
            (None, Some(hlo)) => from_hlo_sharding(mesh, hlo, aval.rank()).ok_or_else(|| {
                format!(
                    "the compiler shards result {index}, {aval}, as {hlo:?}, which the axes of \
                     {mesh} cannot express; request a sharding with `out_shardings`"
                )
            })?,
        };
        shardings.push(sharding.with_memory_kind(aval.memory));
    }
    Ok(shardings)
}

/// Returns the compile options for the first device of a platform.
pub(super) fn first_device_options(platform: &str) -> CompileOptions {
    with_platform_overrides(platform, CompileOptions::default())
}

/// Returns the compile options for a program partitioned over the devices of a mesh.
pub(super) fn mesh_options(platform: &str, mesh: &Mesh) -> CompileOptions {
    let ids: Vec<i64> = mesh.devices().iter().map(|device| i64::from(device.id().0)).collect();
    let spmd = CompileOptions::spmd(ids.len());
    let options = CompileOptions { device_assignment: Some(vec![ids]), ..spmd };
    with_platform_overrides(platform, options)
}

fn device_options(runtime: &Runtime, id: DeviceId) -> CompileOptions {
    if id == runtime.first_device() {
        return first_device_options(&runtime.compiler);
    }
    with_platform_overrides(&runtime.compiler, CompileOptions::on_device(id.0))
}

/// Returns the compile options of the platform for a device or mesh.
pub(super) fn target_options(runtime: &Runtime, target: &Placement) -> CompileOptions {
    match target {
        Placement::Device(id) => device_options(runtime, *id),
        Placement::Mesh(sharding) => mesh_options(&runtime.compiler, sharding.mesh()),
    }
}

fn with_platform_overrides(platform: &str, options: CompileOptions) -> CompileOptions {
    let options = match platform {
        "cpu" | "cuda" if !optimizes() => {
            options.with_override("xla_backend_optimization_level", 0)
        }
        _ => options,
    };
    match platform {
        // By default XLA's CPU compiler returns the number for the maximum of a number and NaN. The
        // StableHLO specification, and JAX, return NaN.
        "cpu" => with_vector_width(options.with_override("xla_cpu_enable_fast_min_max", false)),
        _ => options,
    }
}

/// Allows vectors of 512 bits on processors of the Zen 5 generation, which run them at full speed.
/// There a step of a model takes 1 to 4 % less time, of a small transformer 17 %. XLA's default is
/// 256 bits: older processors lower their clock rate, and an Intel Xeon with AMX took 1.3 times as
/// long for a small loop.
fn with_vector_width(options: CompileOptions) -> CompileOptions {
    // Of the servers with AVX-512, those before Zen 5 lack this instruction.
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512vp2intersect") {
        return options.with_override("xla_cpu_prefer_vector_width", 512);
    }
    options
}

/// Sets the operations that run in XLA's library for CPUs, where they differ from the default.
fn with_library_fusions(options: CompileOptions, module: &StableHloModule) -> CompileOptions {
    // A kernel cannot hold products of the library: "custom fusion is not implemented".
    let products = !module.facts.kernel_products;
    // Fusions of reductions fail on a value that is a result and is also reduced for a callback:
    // "instruction is live and cannot be removed".
    let reductions = !module.calls_host;
    if products && reductions {
        return options;
    }
    let fusions = [
        (products, "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"),
        (true, "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"),
        (reductions, "LIBRARY_FUSION_TYPE_REDUCE"),
    ];
    let fused: Vec<&str> = fusions.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    options.with_override("xla_cpu_experimental_ynn_fusion_type", fused.join(","))
}

/// Compiles a program, or loads it from the disk cache. The flag is true if it was loaded.
fn compile_or_load(
    runtime: &Runtime,
    name: &str,
    module: &StableHloModule,
    signature: ExecutableSignature,
    options: CompileOptions,
    target: &Placement,
) -> oxidax_pjrt::Result<(LoadedExecutable, bool)> {
    let processes = target.mesh().map(processes_of).unwrap_or_default();
    let cacheable = !module.calls_host;
    let keeps_locations = module.facts.refuses_collectives;
    let text = &module.text;
    disk_cache::compile_or_load(
        runtime,
        Request { name, text, options, signature, cacheable, keeps_locations, processes },
    )
}

/// Returns the processes with devices of a mesh, sorted. Empty if there is only this one.
fn processes_of(mesh: &Mesh) -> Vec<u32> {
    if mesh.is_local() {
        return Vec::new();
    }
    let indices = mesh.devices().iter().map(|device| device.process_index());
    let mut indices: Vec<u32> = indices.map(|index| index.try_into().unwrap_or(0)).collect();
    indices.sort_unstable();
    indices.dedup();
    indices
}

/// Writes the text of a program that failed to compile to a file; `None` if that fails.
pub(super) fn dump(program: &Program, text: &str) -> Option<PathBuf> {
    let name = format!("oxidax-{}-{:016x}.mlir", std::process::id(), program.structural_hash());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).is_ok().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::disable_most_optimizations;

    #[test]
    fn processes_of_meshes_are_listed_once() {
        use crate::core::Device;
        let of = |owners: [i32; 4], this: i32| {
            let device = |(id, owner): (i32, i32)| Device::new(id, owner, "tpu", "", owner == this);
            let devices: Vec<Device> = (0..4).zip(owners).map(device).collect();
            processes_of(&Mesh::new(devices, [("data", 4)]).expect("a mesh"))
        };
        assert_eq!(of([2, 0, 2, 0], 0), [0, 2]);
        assert_eq!(of([1, 1, 1, 1], 0), [1]);
        assert_eq!(of([1; 4], 1), [0; 0]);
    }

    #[test]
    fn optimization_level_is_set_for_cpus_and_gpus() {
        let level = |platform| {
            let options = first_device_options(platform);
            options.overrides.get("xla_backend_optimization_level").cloned()
        };
        assert_eq!(level("cpu"), None);
        disable_most_optimizations(|| {
            assert_eq!(level("cpu"), Some(0.into()));
            assert_eq!(level("cuda"), Some(0.into()));
            assert_eq!(level("tpu"), None);
        });
        assert_eq!(level("cpu"), None);
    }
}
