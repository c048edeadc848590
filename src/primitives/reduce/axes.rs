//! Axes of reductions, and the text of `stablehlo.reduce`.

use crate::core::{
    Array, Aval, DType, LowerCtx, RuleError, RuleResult, Scalar, Shape, ShardingRule, trace,
};
use crate::ensure_shape;
use crate::primitives::rules::{resolve_axis, without_axes};
use crate::stablehlo::{Value, i64_array};

/// Returns the type of a reduction over `axes`, which must be sorted, distinct and in range.
pub(super) fn reduced(x: &Aval, axes: &[usize]) -> RuleResult<Aval> {
    ensure_shape!(
        axes.windows(2).all(|pair| pair[0] < pair[1]) && axes.iter().all(|&axis| axis < x.rank()),
        "axes {axes:?} must increase and be less than the rank {} of {x}",
        x.rank()
    );
    Ok(x.with_shape(without_axes(&x.shape, axes)))
}

/// Returns the axes to reduce under `vmap`, with the batch axis in front.
pub(super) fn shifted(axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|axis| axis + 1).collect()
}

/// Returns, for each result axis of a reduction over `axes`, the operand axis.
pub(super) fn remaining_axes(rank: usize, axes: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !axes.contains(axis)).collect()
}

/// Returns the sharding rule of a reduction over `axes`: the other axes correspond.
pub(super) fn reduction_rule(rank: usize, axes: &[usize]) -> ShardingRule {
    ShardingRule::moved(remaining_axes(rank, axes).into_iter().map(Some)).combining()
}

/// Writes a `stablehlo.reduce` whose body combines two scalars.
pub(super) fn lower_reduce(
    ctx: &mut LowerCtx<'_>,
    x: &Value,
    axes: &[usize],
    initial: &str,
    body: impl FnOnce(&mut LowerCtx<'_>, &[Value]) -> Value,
) -> Value {
    let scalar = x.ty().scalar();
    let initial = ctx.constant(initial, &scalar);
    let (outside, arguments) = ctx.open_region(&[scalar.clone(), scalar]);
    let result = body(ctx, &arguments);
    let region = ctx.close_region(outside, &[result]);
    let dims = without_axes(&Shape::new(x.ty().dims()), axes);
    let result = x.ty().with_dims(&dims);
    let dimensions = format!("dimensions = {}", i64_array(axes));
    ctx.op_full("reduce", &[x.clone(), initial], &dimensions, vec![region], &[result])
        .swap_remove(0)
}

/// Returns the smallest value of a dtype, infinities included, which initializes a maximum. For
/// complex dtypes it is the smallest real part with imaginary part zero.
pub(crate) fn lowest(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(false),
        // This dtype has neither sign nor zero.
        DType::F8E8M0FNU => Scalar::Float(2f64.powi(-127)),
        _ if dtype.is_integer() => Scalar::Int(dtype.int_range().0),
        _ if dtype.has_infinity() => Scalar::Float(f64::NEG_INFINITY),
        _ => Scalar::Float(-dtype.float_max()),
    }
}

/// Returns the largest value of a dtype, infinities included, which initializes a minimum.
pub(crate) fn highest(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(true),
        _ if dtype.is_integer() => Scalar::Int(dtype.int_range().1),
        _ if dtype.has_infinity() => Scalar::Float(f64::INFINITY),
        _ => Scalar::Float(dtype.float_max()),
    }
}

/// Returns the comparison type of `stablehlo.compare` for a dtype.
pub(super) fn compare_type(dtype: DType) -> &'static str {
    match dtype {
        _ if dtype.is_inexact() => "FLOAT",
        _ if dtype.is_signed() => "SIGNED",
        _ => "UNSIGNED",
    }
}

/// Writes a comparison of two values of `dtype`.
pub(super) fn compare(
    ctx: &mut LowerCtx<'_>,
    direction: &str,
    dtype: DType,
    x: &Value,
    y: &Value,
) -> Value {
    let attributes = format!(
        "comparison_direction = #stablehlo<comparison_direction {direction}>, compare_type = \
        #stablehlo<comparison_type {}>",
        compare_type(dtype)
    );
    let ty = x.ty().with_element("i1");
    ctx.op_as("compare", &[x.clone(), y.clone()], &attributes, &ty)
}

/// Resolves, sorts and checks axes; negative ones count from the back. Throws `Op` (shape) for an
/// axis that is out of range or repeated.
#[track_caller]
pub(crate) fn resolve_axes(name: &str, x: &Array, axes: &[isize]) -> Vec<usize> {
    let resolved: RuleResult<Vec<usize>> =
        axes.iter().map(|&axis| resolve_axis(axis, x.rank())).collect();
    let distinct = resolved.and_then(|mut resolved| {
        resolved.sort_unstable();
        match resolved.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(RuleError::shape(format!("axes {axes:?} name axis {} twice", pair[0])))
            }
            None => Ok(resolved),
        }
    });
    match distinct {
        Ok(resolved) => resolved,
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// Helpers for the tests of this family.
#[cfg(test)]
pub(super) mod testing {
    use crate::core::catch;
    use crate::core::trace::{Mode, Tracing};
    use crate::core::{Array, Aval, DType, LowerCtx};

    /// Returns the StableHLO of `f` for one operand, without locations.
    pub(in crate::primitives) fn lowered(
        dtype: DType,
        shape: &[usize],
        f: impl Fn(&Array) -> Array,
    ) -> String {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(dtype, shape));
        let y = f(&x);
        let (program, _) = tracing.finish(&[y]);
        let mut ctx = LowerCtx::new("cpu");
        ctx.function(&program, "main").unwrap();
        let text = ctx.finish("m");
        let lines = text.lines().filter(|line| !line.starts_with("#loc"));
        lines.map(|line| line.split(" loc(#").next().unwrap_or(line).to_string() + "\n").collect()
    }

    /// Returns the first line of the error that `f` throws.
    pub(in crate::primitives) fn error_line(
        dtype: DType,
        shape: &[usize],
        f: impl Fn(&Array) -> Array,
    ) -> String {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(dtype, shape));
        let error = catch(|| f(&x)).unwrap_err().to_string();
        error.lines().next().unwrap_or_default().to_string()
    }
}
