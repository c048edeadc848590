//! Lowering: from a program to the text of a StableHLO module.

use super::kernel_rewrites::rewrite_for_kernel;
use super::outline::outline;
use super::plan::Plan;
use super::rewrites::{rewrite_for_cpu, rewrite_for_cpus};
use crate::core::{
    Aval, Error, LayoutMode, Loc, LowerCtx, LoweringTarget, MemoryKind, ModuleFacts, NamedSharding,
    OpError, Program, RuleError, RuleResult, Var,
};

/// A lowered program: the text of its StableHLO module, and facts that its compilation depends on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StableHloModule {
    /// The text.
    pub text: String,
    /// Inputs may be donated; each call decides which ones are.
    pub donatable: bool,
    /// The program calls host functions, which exist in this process only.
    pub calls_host: bool,
    /// The program calls host functions through transfers between device and host.
    pub transfers_to_host: bool,
    /// The host functions and the transfers, and whether calls wait for them.
    pub(crate) facts: ModuleFacts,
    /// The program exchanges data between devices by explicit collectives.
    pub communicates: bool,
}

impl StableHloModule {
    /// Returns a module that was lowered elsewhere, without calls of the host.
    pub(crate) fn of_text(text: String) -> StableHloModule {
        StableHloModule {
            text,
            donatable: false,
            calls_host: false,
            transfers_to_host: false,
            facts: ModuleFacts::default(),
            communicates: false,
        }
    }
}

/// Options of [`lower_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowerOptions {
    /// Marks every input as a buffer that may be donated; each call decides which ones are.
    pub donatable: bool,
}

/// Lowers a program to a StableHLO module for `platform` (`cpu`, `cuda`, `tpu`), with the default
/// options. Operations carry the user's file and line as their location.
///
/// # Errors
/// [`Error::Op`] if a primitive does not support the platform.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(|x: Array| sin(&x), Aval::new(DType::F32, [3]))?;
/// let module = oxidax::passes::lower(&program, "f", "cpu")?;
/// assert!(module.text.contains("stablehlo.sine"));
/// assert!(!module.calls_host);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn lower(program: &Program, name: &str, platform: &str) -> Result<StableHloModule, Error> {
    lower_with(program, name, platform, LowerOptions::default())
}

/// As [`lower`], with options.
///
/// # Errors
/// [`Error::Op`] if a primitive does not support the platform.
///
/// ```
/// use oxidax::passes::{LowerOptions, lower_with};
/// use oxidax::prelude::*;
/// let program = make_program(|x: Array| sin(&x), Aval::new(DType::F32, [3]))?;
/// let module = lower_with(&program, "f", "cpu", LowerOptions { donatable: true })?;
/// assert!(module.text.contains("jax.buffer_donor = true"));
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn lower_with(
    program: &Program,
    name: &str,
    platform: &str,
    options: LowerOptions,
) -> Result<StableHloModule, Error> {
    lower_with_plan(program, name, platform.into(), options, &Plan::default())
}

/// Returns the attributes of the main function's arguments and results: shardings and memories.
fn attributes(
    plan: &Plan,
    ctx: &mut LowerCtx<'_>,
    program: &Program,
) -> (Vec<String>, Vec<String>) {
    let mut attribute = |sharding: &NamedSharding, var: Var| {
        let rank = program.aval(var).rank();
        format!("sdy.sharding = #sdy.sharding{}", ctx.sharding(sharding, rank))
    };
    let inputs = plan.inputs.iter().zip(program.inputs());
    let inputs = inputs.map(|(sharding, &var)| attribute(sharding, var)).collect();
    let outputs = plan.outputs.iter().zip(program.outputs());
    let outputs = outputs.map(|(sharding, &var)| match sharding {
        Some(sharding) => attribute(sharding, var),
        None => String::new(),
    });
    let (mut inputs, mut outputs): (Vec<String>, Vec<String>) = (inputs, outputs.collect());
    add_memories(&mut inputs, &program.avals_in());
    add_memories(&mut outputs, &program.avals_out());
    (inputs, outputs)
}

/// Adds the memory of values that are not in the devices' own.
fn add_memories(texts: &mut Vec<String>, avals: &[Aval]) {
    if avals.iter().all(|aval| aval.memory == MemoryKind::Device) {
        return;
    }
    texts.resize(avals.len(), String::new());
    for (text, aval) in texts.iter_mut().zip(avals).filter(|(_, aval)| aval.memory.is_host()) {
        let separator = if text.is_empty() { "" } else { ", " };
        text.push_str(&format!("{separator}mhlo.memory_kind = \"{}\"", aval.memory));
    }
}

/// Adds the layouts that are not the default of the device.
fn add_layouts(texts: &mut Vec<String>, layouts: &[LayoutMode]) {
    texts.resize(texts.len().max(layouts.len()), String::new());
    for (text, layout) in texts.iter_mut().zip(layouts) {
        if *layout != LayoutMode::Default {
            let separator = if text.is_empty() { "" } else { ", " };
            text.push_str(&format!("{separator}mhlo.layout_mode = \"{layout}\""));
        }
    }
}

/// Lowers a program with the shardings and layouts of `plan`; see [`lower_with`].
///
/// # Errors
/// [`Error::Op`] if a primitive refuses the platform.
pub(crate) fn lower_with_plan(
    program: &Program,
    name: &str,
    target: LoweringTarget<'_>,
    options: LowerOptions,
    plan: &Plan,
) -> Result<StableHloModule, Error> {
    let LowerOptions { donatable } = options;
    let mut ctx = LowerCtx::new(target);
    ctx.set_partition(plan.mesh());
    if target.rewrites() {
        ctx.set_rewrite(if ctx.is_partitioned() { rewrite_for_cpus } else { rewrite_for_cpu });
        ctx.set_kernel_rewrite(rewrite_for_kernel);
    }
    // A compiler that partitions a program looks into functions one call at a time.
    if target.outlines() && !ctx.is_partitioned() {
        ctx.set_outliner(outline);
    }
    ctx.set_program(program);
    let (mut arguments, mut results) = attributes(plan, &mut ctx, program);
    add_layouts(&mut arguments, &plan.layouts.inputs);
    add_layouts(&mut results, &plan.layouts.outputs);
    let attribute = |texts: &[String], index: usize| texts.get(index).cloned().unwrap_or_default();
    // Plugins cannot deny the donation of a buffer in host memory for a single call.
    let in_host: Vec<bool> = program.avals_in().iter().map(|aval| aval.memory.is_host()).collect();
    let is_donatable = |index: usize| donatable && !in_host[index];
    let written: RuleResult<()> = ctx.function_with(
        program,
        "main",
        |index| match (is_donatable(index), attribute(&arguments, index)) {
            (true, text) if text.is_empty() => "jax.buffer_donor = true".into(),
            (true, text) => format!("jax.buffer_donor = true, {text}"),
            (false, text) => text,
        },
        |index| attribute(&results, index),
    );
    if let Err(error) = written {
        return Err(lowering_error(error, name, target.platform(), ctx.refused_at()));
    }
    let facts = ctx.facts();
    Ok(StableHloModule {
        text: ctx.finish(name),
        donatable,
        calls_host: !facts.host_functions.is_empty(),
        transfers_to_host: !facts.host_transfers.is_empty(),
        communicates: facts.communicates,
        facts,
    })
}

/// Lowers a program as the private function `function`, with a rewrite that does not depend on a
/// compiler, in a module whose main function `main` writes. It gets the attributes of the program's
/// inputs and outputs.
///
/// # Errors
/// [`Error::Op`] if a primitive refuses the platform.
#[cfg(feature = "export")]
pub(crate) fn lower_function(
    program: &Program,
    [name, function]: [&str; 2],
    platform: &str,
    plan: &Plan,
    rewrite: fn(&Program) -> std::borrow::Cow<'_, Program>,
    main: impl FnOnce(&mut LowerCtx<'_>, &[String], &[String]),
) -> Result<StableHloModule, Error> {
    let mut ctx = LowerCtx::new(LoweringTarget::from(platform).with_rewrites(false));
    ctx.set_partition(plan.mesh());
    ctx.set_rewrite(rewrite);
    ctx.set_program(program);
    let (arguments, results) = attributes(plan, &mut ctx, program);
    let attribute = |texts: &[String], index: usize| texts.get(index).cloned().unwrap_or_default();
    let written = ctx.function_with(
        program,
        function,
        |index| attribute(&arguments, index),
        |index| attribute(&results, index),
    );
    if let Err(error) = written {
        return Err(lowering_error(error, name, platform, ctx.refused_at()));
    }
    main(&mut ctx, &arguments, &results);
    let facts = ctx.facts();
    Ok(StableHloModule {
        text: ctx.finish(name),
        donatable: false,
        calls_host: !facts.host_functions.is_empty(),
        transfers_to_host: !facts.host_transfers.is_empty(),
        communicates: facts.communicates,
        facts,
    })
}

/// Converts the error of a `lower` rule.
fn lowering_error(error: RuleError, name: &str, platform: &str, loc: Loc) -> Error {
    Error::Op(Box::new(OpError {
        kind: error.kind,
        primitive: format!("lower({name}) for {platform}"),
        message: error.message,
        operands: Vec::new(),
        note: None,
        loc,
        path: Vec::new(),
        help: error.help,
    }))
}
