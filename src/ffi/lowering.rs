//! `ffi_lowering`: the `lower` rule of a user's primitive that calls a foreign function.

use super::FfiCallOptions;
use crate::control_flow::FfiTarget;
use crate::core::{Aval, LowerCtx, Primitive, RuleResult};
use crate::stablehlo::Value;

/// Writes a call of the function that is registered as `name`: the
/// [`lower`](crate::core::Primitive::lower) rule of a primitive that has other rules of its author,
/// for example a derivative and a batch rule.
///
/// # Errors
/// As the calls of [`ffi_call_with`](super::ffi_call_with).
///
/// ```
/// use oxidax::core::{LowerCtx, RuleResult};
/// use oxidax::ffi::{self, FfiAttributes, FfiCallOptions};
/// use oxidax::prelude::*;
/// use oxidax::stablehlo::Value;
///
/// fn lower(
///     ctx: &mut LowerCtx<'_>,
///     operands: &[Value],
///     results: &[Aval],
/// ) -> RuleResult<Vec<Value>> {
///     let attributes = FfiAttributes::new().with("eps", 1e-6f32);
///     let options = FfiCallOptions { attributes, ..FfiCallOptions::default() };
///     ffi::ffi_lowering(ctx, "my.rms_norm", operands, results, options)
/// }
/// # let _ = lower;
/// ```
#[doc(alias = "build_ffi_lowering_function")]
#[doc(alias = "jax.ffi.ffi_lowering")]
pub fn ffi_lowering(
    ctx: &mut LowerCtx<'_>,
    name: &str,
    operands: &[Value],
    results: &[Aval],
    options: FfiCallOptions,
) -> RuleResult<Vec<Value>> {
    let call = options.call(FfiTarget::Name(name.to_owned()), &results);
    call.lower(ctx, operands, results)
}
