//! Products of matrices.

use super::emitter::{Emitter, Item, Op};
use super::text::{Val, list};
use crate::core::{DType, Precision, RuleError, RuleResult};
use crate::primitives::DotGeneral;

/// Writes a product.
pub(super) fn emit(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Vec<Item>>> {
    let Some(dot) = op.get::<DotGeneral>() else { return Ok(None) };
    let value = product(emitter, dot, op.value(0)?, op.value(1)?, op.results[0].dtype)?;
    let value = emitter.reshape(&value, op.results[0].shape.dims());
    Ok(Some(vec![Item::Value(value)]))
}

/// An operand as a matrix, or a stack of them.
struct Side {
    value: Val,
    /// The axis that is summed over.
    contracting: usize,
    free: usize,
}

fn product(
    emitter: &mut Emitter,
    dot: &DotGeneral,
    lhs: &Val,
    rhs: &Val,
    dtype: DType,
) -> RuleResult<Val> {
    let (lhs, rhs) = same_dtype(emitter, lhs, rhs);
    let accumulator = accumulator_dtype(&lhs, dtype)?;
    let n_batch = dot.lhs_batch.len();
    let lhs = side(emitter, &lhs, &dot.lhs_contracting, &dot.lhs_batch)?;
    let rhs = side(emitter, &rhs, &dot.rhs_contracting, &dot.rhs_batch)?;
    let is_batched = n_batch > 0;
    let shift = usize::from(is_batched);
    let sizes = [lhs.value.shape[lhs.free], rhs.value.shape[rhs.free]];
    let batch: Vec<usize> = lhs.value.shape[..shift].to_vec();
    let shape = [batch, sizes.to_vec()].concat();
    let start = emitter.zeros(accumulator, &shape);
    // Pairs of an operand and its axis, for each axis of the result.
    let order = match is_batched {
        true => vec![0, 0, 0, lhs.free, 1, rhs.free],
        false => vec![0, lhs.free, 1, rhs.free],
    };
    let batch_axes = if is_batched { "[0], [0]" } else { "[], []" };
    let numbers = format!(
        "[{}], [{}], [{}], [{}], [{}], {batch_axes}",
        lhs.contracting,
        rhs.contracting,
        lhs.free,
        rhs.free,
        list(order)
    );
    let precise = lhs.value.dtype == DType::F32 && dot.precision != [Precision::Default; 2];
    let precision =
        if precise { ", precision = #tpu.contract_precision<fp32>" } else { Default::default() };
    let attributes = format!(
        "dimension_numbers = #tpu.dot_dimension_numbers<{numbers}>, transpose_lhs = false, \
         transpose_rhs = false{precision}"
    );
    let operands = [&lhs.value, &rhs.value, &start];
    let value = emitter.text.value("tpu.matmul", &operands, &attributes, (accumulator, &shape));
    Ok(emitter.convert(&value, dtype))
}

/// Converts the narrower operand to the dtype of the other, integers to floats.
fn same_dtype(emitter: &mut Emitter, lhs: &Val, rhs: &Val) -> (Val, Val) {
    let rank = |value: &Val| (value.dtype.is_float(), value.dtype.bits());
    if lhs.dtype == rhs.dtype {
        (lhs.clone(), rhs.clone())
    } else if rank(lhs) < rank(rhs) {
        (emitter.convert(lhs, rhs.dtype), rhs.clone())
    } else {
        (lhs.clone(), emitter.convert(rhs, lhs.dtype))
    }
}

/// Returns the dtype of sums, which has 32 bits.
fn accumulator_dtype(operand: &Val, result: DType) -> RuleResult<DType> {
    let refused = |message: String, help: &str| Err(RuleError::dtype(message).help(help));
    match operand.dtype {
        DType::Bool => refused(
            "a TPU does not multiply matrices of booleans".to_string(),
            "convert them to bf16 with `astype`",
        ),
        // Products of integers whose result is a float are converted afterwards.
        operand if operand.is_integer() && operand.bits() > 8 => refused(
            format!("a TPU multiplies matrices of i8, bf16 and f32, not of {operand}"),
            "convert them to i8, bf16 or f32 with `astype`",
        ),
        operand if operand.is_integer() && result.bits() < 32 => refused(
            format!("products of {operand} are summed in 32 bits, the result is {result}"),
            "set `preferred_element_type` to i32",
        ),
        operand if operand.is_integer() => Ok(DType::I32),
        _ => Ok(DType::F32),
    }
}

/// Brings an operand to the form batch × rows × columns: with one batch axis at the front, one axis
/// that is summed over and one that remains.
fn side(
    emitter: &mut Emitter,
    x: &Val,
    contracting: &[usize],
    batch: &[usize],
) -> RuleResult<Side> {
    let &[contracting] = contracting else {
        return Err(RuleError::unsupported(format!(
            "a product summed over {} axes of {} in a TPU kernel",
            contracting.len(),
            x.aval()
        ))
        .help("reshape the operands to matrices"));
    };
    let n_batch = batch.len();
    if !batch.iter().copied().eq(0..n_batch) {
        return Err(RuleError::unsupported(format!("batch axes {batch:?} of {}", x.aval()))
            .help("move the batch axes to the front with `transpose`"));
    }
    let rest: Vec<usize> = (n_batch..x.rank()).collect();
    let free: Vec<usize> = rest.iter().copied().filter(|&axis| axis != contracting).collect();
    // Free axes merge if they are neighbours.
    let are_neighbours = free.windows(2).all(|pair| pair[1] == pair[0] + 1);
    if !are_neighbours {
        return Err(RuleError::unsupported(format!(
            "a product over axis {contracting} of {}, between the others",
            x.aval()
        ))
        .help("move the axis to the end with `transpose`"));
    }
    let merged: usize = free.iter().map(|&axis| x.shape[axis]).product();
    let is_last = free.first().is_none_or(|&axis| axis < contracting);
    let pair = [merged, x.shape[contracting]];
    let matrix = if is_last { pair } else { [pair[1], pair[0]] };
    let mut shape = Vec::new();
    if n_batch > 0 {
        shape.push(x.shape[..n_batch].iter().product());
    }
    shape.extend(matrix);
    let value = emitter.reshape(x, &shape);
    let shift = usize::from(n_batch > 0);
    let (contracting, free) = if is_last { (shift + 1, shift) } else { (shift, shift + 1) };
    Ok(Side { value, contracting, free })
}
