//! Lowering: from a program to the text of a StableHLO module.

use super::plan::Plan;
use crate::core::{
    Error, Loc, LowerCtx, LoweringTarget, NamedSharding, OpError, Program, RuleError, RuleResult,
    Var,
};

/// The StableHLO module of a program, for `platform` (`cpu`, `cuda`, `tpu`).
///
/// Every input is marked as a buffer that may be donated if `donatable`; which ones are is decided
/// at each call. Operations carry the user's file and line as their location.
///
/// # Errors
/// [`Error::Op`] if a primitive refuses the platform.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(|x: Array| sin(&x), Aval::new(DType::F32, [3]))?;
/// let text = oxidax::passes::lower(&program, "f", "cpu", false)?;
/// assert!(text.contains("stablehlo.sine"));
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn lower(
    program: &Program,
    name: &str,
    platform: &str,
    donatable: bool,
) -> Result<String, Error> {
    lower_with_plan(program, name, platform.into(), donatable, &Plan::default())
}

/// Returns the sharding attributes of the main function's arguments and results.
fn sharding_attributes(
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
    (inputs, outputs.collect())
}

/// Lowers a program with the shardings of `plan`; see [`lower`].
///
/// # Errors
/// [`Error::Op`] if a primitive refuses the platform.
pub(crate) fn lower_with_plan(
    program: &Program,
    name: &str,
    target: LoweringTarget<'_>,
    donatable: bool,
    plan: &Plan,
) -> Result<String, Error> {
    let mut ctx = LowerCtx::new(target);
    let (arguments, results) = sharding_attributes(plan, &mut ctx, program);
    let of = |texts: &[String], at: usize| texts.get(at).cloned().unwrap_or_default();
    let written: RuleResult<()> = ctx.function_with(
        program,
        "main",
        |at| match (donatable, of(&arguments, at)) {
            (true, text) if text.is_empty() => "jax.buffer_donor = true".into(),
            (true, text) => format!("jax.buffer_donor = true, {text}"),
            (false, text) => text,
        },
        |at| of(&results, at),
    );
    match written {
        Ok(()) => Ok(ctx.finish(name)),
        Err(error) => Err(explain(error, name, target.platform(), ctx.refused_at())),
    }
}

fn explain(error: RuleError, name: &str, platform: &str, loc: Loc) -> Error {
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
