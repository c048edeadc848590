//! Lowering: from a program to the text of a StableHLO module.

use crate::core::{
    Error, Loc, LowerCtx, LoweringTarget, Mesh, NamedSharding, OpError, Program, RuleError,
    RuleResult, Var,
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
    lower_placed(program, name, platform.into(), donatable, None)
}

/// How the inputs and the outputs of a program lie on a mesh; `None` for what the compiler may choose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placed {
    pub(crate) inputs: Vec<Option<NamedSharding>>,
    pub(crate) outputs: Vec<Option<NamedSharding>>,
}

impl Placed {
    /// The mesh, if one is spoken of.
    pub(crate) fn mesh(&self) -> Option<&Mesh> {
        let mut all = self.inputs.iter().chain(&self.outputs);
        all.find_map(|sharding| sharding.as_ref().map(NamedSharding::mesh))
    }

    /// The attributes of the main function's arguments and results.
    fn texts(&self, ctx: &mut LowerCtx<'_>, program: &Program) -> (Vec<String>, Vec<String>) {
        let mut text = |(sharding, &var): (&Option<NamedSharding>, &Var)| match sharding {
            Some(sharding) => {
                let rank = program.aval(var).rank();
                format!("sdy.sharding = #sdy.sharding{}", ctx.sharding(sharding, rank))
            }
            None => String::new(),
        };
        let inputs = self.inputs.iter().zip(program.inputs()).map(&mut text).collect();
        (inputs, self.outputs.iter().zip(program.outputs()).map(&mut text).collect())
    }
}

/// As [`lower`], for several devices if `placed` says how arrays lie on them.
///
/// # Errors
/// [`Error::Op`] if a primitive refuses the platform.
pub(crate) fn lower_placed(
    program: &Program,
    name: &str,
    target: LoweringTarget<'_>,
    donatable: bool,
    placed: Option<&Placed>,
) -> Result<String, Error> {
    let mut ctx = LowerCtx::new(target);
    let (arguments, results) = match placed {
        Some(placed) => placed.texts(&mut ctx, program),
        None => (Vec::new(), Vec::new()),
    };
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
