//! Lowering of running totals to StableHLO.

use crate::core::{Array, DType, LowerCtx, RuleResult, Shape};
use crate::primitives::composite::{Combine, lower_as_function};
use crate::primitives::rules::element_dtype;
use crate::primitives::shape::reshape_to;
use crate::primitives::slicing::slice;
use crate::primitives::structural::{PaddingDim, concatenate, expand_dims, lax_pad, rev};
use crate::stablehlo::{TensorType, Value, i64_array};

/// The direction of a running total.
#[derive(Debug, Clone, Copy)]
pub(super) struct Along {
    /// The axis of the running total.
    pub(super) axis: usize,
    /// Runs from the end of the axis.
    pub(super) reverse: bool,
}

/// Returns the dtype that accumulates a running sum. Sums of `f32` are accumulated in `f64`, which
/// is free on a CPU.
pub(super) fn sum_carry(dtype: DType) -> DType {
    match dtype {
        DType::F32 => DType::F64,
        DType::C64 => DType::C128,
        other => narrow_carry(other),
    }
}

/// Returns the dtype that accumulates another running total: at least 32 bits for floats, 8 for
/// integers.
pub(super) fn narrow_carry(dtype: DType) -> DType {
    match dtype {
        DType::I2 | DType::I4 => DType::I8,
        DType::U2 | DType::U4 => DType::U8,
        _ if dtype.is_float() && dtype.bits() < 32 => DType::F32,
        other => other,
    }
}

fn convert(ctx: &mut LowerCtx<'_>, x: &Value, dtype: DType) -> Value {
    let ty = x.ty().with_element(dtype.stablehlo());
    if *x.ty() == ty { x.clone() } else { ctx.op_as("convert", std::slice::from_ref(x), "", &ty) }
}

/// Moves the axis to the front, or back from there.
fn transposed(ctx: &mut LowerCtx<'_>, x: &Value, axis: usize, back: bool) -> Value {
    let rank = x.ty().dims().len();
    let order: Vec<usize> = if back {
        (1..=axis).chain([0]).chain(axis + 1..rank).collect()
    } else {
        std::iter::once(axis).chain((0..rank).filter(|&other| other != axis)).collect()
    };
    ctx.transposed(x, &order)
}

/// Writes `total = step(total, x₀[i], x₁[i], …)` for every index `i` along the axis, as one loop.
/// The initial total is the first element of the last operand. Totals are carried in dtype `carry`.
pub(super) fn lower_loop(
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    along: Along,
    carry: DType,
    step: impl FnOnce(&mut LowerCtx<'_>, &Value, &[Value]) -> Value,
) -> Value {
    let last = operands.last().expect("a running total has an operand");
    let dtype = element_dtype(last);
    // Sub-byte elements are packed and cannot be sliced.
    let stored = if dtype.bits() < 8 { carry } else { dtype };
    let size = last.ty().dims()[along.axis];
    let xs: Vec<Value> = operands
        .iter()
        .map(|x| {
            let x = convert(ctx, x, stored);
            transposed(ctx, &x, along.axis, false)
        })
        .collect();
    let whole = xs[0].ty().clone();
    let mut dims = whole.dims().to_vec();
    dims[0] = 1;
    let row = whole.with_dims(&dims);
    let index = TensorType::new(if size > i32::MAX as usize { "i64" } else { "i32" }, &[]);
    let zero = ctx.constant("0", &index);
    let one = ctx.constant("1", &index);
    let end = ctx.constant(&size.to_string(), &index);
    let final_place = ctx.constant(&(size - 1).to_string(), &index);
    let sizes = format!("slice_sizes = {}", i64_array(&dims));
    let row_at = |ctx: &mut LowerCtx<'_>, x: &Value, position: &Value| {
        let mut starts = vec![x.clone(), position.clone()];
        starts.resize(1 + dims.len(), zero.clone());
        let element = ctx.op_as("dynamic_slice", &starts, &sizes, &row);
        convert(ctx, &element, carry)
    };
    let begin = if along.reverse { &final_place } else { &zero };
    let source = &xs[xs.len() - 1];
    let first = row_at(ctx, source, begin);
    // The first element is its own total.
    let state = [one.clone(), first, source.clone()];
    let types: Vec<TensorType> = state.iter().map(|value| value.ty().clone()).collect();

    let (outside, arguments) = ctx.open_region(&types);
    let less = "comparison_direction = #stablehlo<comparison_direction LT>, compare_type = \
        #stablehlo<comparison_type SIGNED>";
    let pair = [arguments[0].clone(), end];
    let has_open_terms = ctx.op_as("compare", &pair, less, &index.with_element("i1"));
    let condition = ctx.close_region(outside, &[has_open_terms]);

    let (outside, arguments) = ctx.open_region(&types);
    let [done, total, totals] = [0, 1, 2].map(|index| arguments[index].clone());
    let position =
        if along.reverse { ctx.op("subtract", &[final_place, done.clone()]) } else { done.clone() };
    let elements: Vec<Value> = xs.iter().map(|x| row_at(ctx, x, &position)).collect();
    let total = step(ctx, &total, &elements);
    let mut update = vec![totals, convert(ctx, &total, stored), position];
    update.resize(2 + dims.len(), zero.clone());
    let totals = ctx.op("dynamic_update_slice", &update);
    let done = ctx.op("add", &[done, one]);
    let body = ctx.close_region(outside, &[done, total, totals]);

    let results = ctx.op_full("while", &state, "", vec![condition, body], &types);
    let totals = transposed(ctx, &results[2], along.axis, true);
    convert(ctx, &totals, dtype)
}

/// Writes a running total as a tree, for platforms on which a loop of small steps is slow. The
/// result is the last of the combined arrays.
pub(super) fn lower_tree(
    ctx: &mut LowerCtx<'_>,
    name: &str,
    operands: &[Value],
    along: Along,
    combine: Combine<'_>,
) -> RuleResult<Vec<Value>> {
    lower_as_function(ctx, name, operands, |xs| {
        tree(xs, along, combine).pop().into_iter().collect()
    })
}

/// Returns the totals of all prefixes along the axis, from an associative combination of ranges.
///
/// Reference: Blelloch, "Prefix sums and their applications", 1990.
pub(super) fn tree(xs: &[Array], along: Along, combine: Combine<'_>) -> Vec<Array> {
    let turned = |xs: &[Array]| -> Vec<Array> {
        if along.reverse {
            xs.iter().map(|x| rev(x, &[along.axis as isize])).collect()
        } else {
            xs.to_vec()
        }
    };
    turned(&forward(&turned(xs), along.axis, combine))
}

fn forward(xs: &[Array], axis: usize, combine: Combine<'_>) -> Vec<Array> {
    let size = xs[0].shape()[axis];
    if size < 2 {
        return xs.to_vec();
    }
    let every = |xs: &[Array], from: usize, to: usize, step: usize| -> Vec<Array> {
        xs.iter().map(|x| strided(x, axis, from, to, step)).collect()
    };
    // Totals of pairs are the totals at odd indices. The total at an even index adds one element to
    // the one before.
    let pairs = combine(&every(xs, 0, size / 2 * 2, 2), &every(xs, 1, size, 2));
    let odd = forward(&pairs, axis, combine);
    let n_even = (size - 1) / 2;
    let later = combine(&every(&odd, 0, n_even, 1), &every(xs, 2, size, 2));
    let first = every(xs, 0, 1, 1);
    let triples = first.iter().zip(&later).zip(&odd);
    triples.map(|((first, later), odd)| interleaved(first, later, odd, axis, size)).collect()
}

fn strided(x: &Array, axis: usize, from: usize, to: usize, step: usize) -> Array {
    let mut starts = vec![0; x.rank()];
    let mut limits = x.shape().to_vec();
    let mut strides = vec![1; x.rank()];
    (starts[axis], limits[axis], strides[axis]) = (from, to, step);
    slice(x, &starts, &limits, &strides)
}

/// Interleaves `first`, then one element of `odd` and one of `later` in turn, `size` in all.
fn interleaved(first: &Array, later: &Array, odd: &Array, axis: usize, size: usize) -> Array {
    let even = concatenate([first, later], axis as isize);
    let mut missing = vec![PaddingDim::default(); odd.rank()];
    missing[axis].high = (even.shape()[axis] - odd.shape()[axis]) as isize;
    let zero = crate::primitives::constant::zeros_of(&odd.aval().with_shape(Shape::scalar()));
    let odd = lax_pad(odd, &zero, &missing);
    let inner = axis as isize + 1;
    let pairs = concatenate(&[expand_dims(&even, &[inner]), expand_dims(&odd, &[inner])], inner);
    let mut dims = even.shape().to_vec();
    dims[axis] *= 2;
    strided(&reshape_to(&pairs, &Shape::new(&dims)), axis, 0, size, 1)
}
