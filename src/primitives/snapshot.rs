//! Lowerings and errors of primitives as text, for snapshot tests.

use crate::core::trace::{Mode, Tracing};
use crate::core::{Aval, LowerCtx, Primitive, bind, catch};

/// Returns the StableHLO function around one application of `primitive`, without module and
/// locations.
pub(super) fn module_of<const N: usize>(
    primitive: impl Primitive + Clone,
    operands: [Aval; N],
) -> String {
    let tracing = Tracing::begin(Mode::All, Some("test".into()));
    let inputs = operands.map(|aval| tracing.input(aval));
    let outputs = bind(primitive, &inputs.iter().collect::<Vec<_>>());
    let (program, _) = tracing.finish(&outputs);
    let mut ctx = LowerCtx::new("cpu");
    ctx.function(&program, "main").expect("lowers");
    let module = ctx.finish("m");
    let body = module.lines().skip(1).take_while(|line| *line != "}");
    body.map(|line| line.split(" loc(").next().unwrap_or(line).trim_start().to_string() + "\n")
        .collect()
}

/// Returns the error of `primitive` for operands that it rejects.
pub(super) fn error_of<const N: usize>(
    primitive: impl Primitive + Clone,
    operands: [Aval; N],
) -> String {
    let error = catch(|| {
        let tracing = Tracing::begin(Mode::All, None);
        let inputs = operands.map(|aval| tracing.input(aval));
        bind(primitive, &inputs.iter().collect::<Vec<_>>());
    })
    .expect_err("the operands do not fit");
    let text = error.to_string();
    text.lines().filter(|line| !line.trim_start().starts_with("-->")).collect::<Vec<_>>().join("\n")
}
