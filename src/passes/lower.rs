//! Lowering: from a program to the text of a StableHLO module.

use crate::core::{Error, Loc, LowerCtx, OpError, Program, Rule, RuleError};

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
    let mut ctx = LowerCtx::new(platform);
    let attribute = if donatable { "jax.buffer_donor = true" } else { "" };
    let written: Rule<()> = ctx.function(program, "main", |_| attribute);
    match written {
        Ok(()) => Ok(ctx.finish(name)),
        Err(error) => Err(explain(error, name, platform, ctx.refused_at())),
    }
}

fn explain(error: RuleError, name: &str, platform: &str, location: Loc) -> Error {
    Error::Op(Box::new(OpError {
        kind: error.kind,
        primitive: format!("lower({name}) for {platform}"),
        message: error.message,
        operands: Vec::new(),
        note: None,
        location,
        path: Vec::new(),
        help: error.help,
    }))
}
