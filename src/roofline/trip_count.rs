//! The number of iterations of a `while_loop` whose bounds are constants of the program.

use crate::core::{CounterOp, DType};
use crate::passes::{Region, Step};

/// Returns the number of iterations of a loop.
///
/// It is known if the condition compares a carried integer with a constant, the body adds a
/// constant to that integer, and its first value is a constant.
pub(super) fn trip_count(outer: &Region, step: &Step) -> Option<u64> {
    let [(_, cond), (_, body)] = step.inner.as_slice() else { return None };
    let n_carry = body.outputs.len();
    let n_cond = cond.inputs.len().checked_sub(n_carry)?;
    let n_body = body.inputs.len().checked_sub(n_carry)?;
    let test = cond.maker(*cond.outputs.first()?)?;
    let [left, right] = test.operands[..] else { return None };
    let (counter, bound, is_inclusive) = match test.primitive.counter_op()? {
        CounterOp::Less => (left, right, false),
        CounterOp::LessOrEqual => (left, right, true),
        CounterOp::Greater => (right, left, false),
        CounterOp::GreaterOrEqual => (right, left, true),
        CounterOp::Add => return None,
    };
    let carry = cond.inputs.iter().position(|&input| input == counter)?.checked_sub(n_cond)?;
    let bound = constant(cond, bound).or_else(|| {
        let operand = cond.inputs[..n_cond].iter().position(|&input| input == bound)?;
        constant(outer, step.operands[operand])
    })?;
    let first = constant(outer, step.operands[n_cond + n_body + carry])?;
    let increment = increment(body, body.inputs[n_body + carry], body.outputs[carry])?;
    if increment <= 0 {
        return None;
    }
    let span = (bound + i128::from(is_inclusive)).checked_sub(first)?.max(0);
    u64::try_from((span + increment - 1) / increment).ok()
}

/// Returns the constant that the body adds to a carried value.
fn increment(body: &Region, input: usize, output: usize) -> Option<i128> {
    let add = body.maker(output)?;
    if add.primitive.counter_op() != Some(CounterOp::Add) {
        return None;
    }
    match add.operands[..] {
        [a, b] if a == input => constant(body, b),
        [a, b] if b == input => constant(body, a),
        _ => None,
    }
}

/// Returns the value of an integer constant.
fn constant(region: &Region, value: usize) -> Option<i128> {
    let dtype = region.avals[value].dtype;
    if !dtype.is_integer() || region.avals[value].size() != 1 || dtype.bits() < 8 {
        return None;
    }
    integer(&region.maker(value)?.primitive.constant_bytes()?, dtype)
}

fn integer(bytes: &[u8], dtype: DType) -> Option<i128> {
    let mut wide = [0; 16];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let unused = 128 - dtype.bits() as u32;
    let bits = u128::from_le_bytes(wide) << unused;
    Some(if dtype.is_signed() {
        bits.cast_signed() >> unused
    } else {
        (bits >> unused).cast_signed()
    })
}
