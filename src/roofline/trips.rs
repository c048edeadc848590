//! How often a loop runs whose bounds stand in the program: `while i < 10 { i += 1 }`.

use super::region::{Region, Step};
use crate::core::DType;

/// How often the loop's body runs, if its condition compares a carried integer that the body counts up by a constant
/// with a constant, and it starts from a constant.
pub(super) fn trips(outer: &Region, step: &Step) -> Option<u64> {
    let [(_, cond), (_, body)] = step.inner.as_slice() else { return None };
    let n_carry = body.outputs.len();
    let n_cond = cond.inputs.len().checked_sub(n_carry)?;
    let n_body = body.inputs.len().checked_sub(n_carry)?;
    let test = cond.maker(*cond.outputs.first()?)?;
    let [left, right] = test.operands[..] else { return None };
    if test.primitive.name() != "compare" {
        return None;
    }
    let (counter, bound, inclusive) = match test.primitive.params()["direction"].as_str()? {
        "LT" => (left, right, false),
        "LE" => (left, right, true),
        "GT" => (right, left, false),
        "GE" => (right, left, true),
        _ => return None,
    };
    let carry = cond.inputs.iter().position(|&input| input == counter)?.checked_sub(n_cond)?;
    let bound = constant(cond, bound).or_else(|| {
        let at = cond.inputs[..n_cond].iter().position(|&input| input == bound)?;
        constant(outer, step.operands[at])
    })?;
    let first = constant(outer, step.operands[n_cond + n_body + carry])?;
    let by = increment(body, body.inputs[n_body + carry], body.outputs[carry])?;
    if by <= 0 {
        return None;
    }
    let span = (bound + i128::from(inclusive)).checked_sub(first)?.max(0);
    u64::try_from((span + by - 1) / by).ok()
}

/// By how much `next` is larger than `this`, if that is a constant.
fn increment(body: &Region, this: usize, next: usize) -> Option<i128> {
    let add = body.maker(next).filter(|step| step.primitive.name() == "add")?;
    match add.operands[..] {
        [a, b] if a == this => constant(body, b),
        [a, b] if b == this => constant(body, a),
        _ => None,
    }
}

/// The integer that a value always is.
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
