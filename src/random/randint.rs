//! Random integers.

use super::bits::{raw, split_words};
use super::key::Key;
use super::key_words::KeyWords;
use super::parameters::expect_broadcast;
use super::sampler::{cast, constant, draw, expect_integer, number};
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{
    ArrayLike, Like, add, bitwise_and, broadcast_to, fill_of, gt, le, maximum, minimum, mul, rem,
    sub, where_,
};
use std::ops::Range;

/// Returns uniformly distributed integers in `range`, including its start.
///
/// The dtype, `i32` by default, is an integer of 8, 16, 32 or 64 bits. The bounds are integers, or
/// integer arrays that broadcast to `shape`. An empty range gives its start. The end may exceed the
/// largest value of the dtype by one: `0..256` covers `u8`.
///
/// The numbers are remainders of twice the bits of the dtype, at least 64. Among `n` numbers,
/// probabilities differ by less than `n / 2⁶⁴` (`n / 2¹²⁸` for 64 bits).
///
/// Throws `Op` for other dtypes, and for ends that are not integers or do not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let dice = random::randint(random::key(0), [5], 1..7);
/// assert!(dice.to_vec::<i32>()?.iter().all(|face| (1..=6).contains(face)));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn randint(key: Key, shape: impl IntoAval, range: Range<impl ArrayLike>) -> Array {
    let Aval { shape, dtype, .. } = shape.into_aval(DType::I32);
    expect_integer("randint", dtype);
    let words = key.words("randint");
    let (least, most) = dtype.int_range();
    // Narrow integers are drawn as wider ones, which can represent the exclusive end.
    let narrow = dtype.bits() < 32;
    let drawn = if narrow { DType::I32 } else { dtype };
    let low = Bound::new(range.start.like(), drawn, (least, most));
    let high = Bound::new(range.end.like(), drawn, (least, most + i128::from(narrow)));
    expect_broadcast("randint", &[&low.value, &high.value], &shape);
    draw(|| cast(&raw_integers(&words, &shape, drawn, &low, &high), dtype))
}

/// Draws indices, inside a sampler: integers of `0..n`, `i32`.
#[track_caller]
pub(super) fn raw_indices(key: &KeyWords, shape: &Shape, n: usize) -> Array {
    let (least, most) = DType::I32.int_range();
    let end = |at: usize| Bound::new(Like::Scalar(Scalar::from(at)), DType::I32, (least, most));
    raw_integers(key, shape, DType::I32, &end(0), &end(n))
}

/// Bound of a range of integers, to be clamped to `limits`.
struct Bound {
    value: Array,
    limits: (i128, i128),
    /// True for a number above the limits.
    is_above: bool,
}

impl Bound {
    #[track_caller]
    fn new(end: Like<'_>, drawn: DType, limits: (i128, i128)) -> Bound {
        match end {
            Like::Scalar(Scalar::Int(end)) => {
                let value = number(Scalar::Int(end.clamp(limits.0, limits.1)), drawn);
                Bound { value, limits, is_above: end > limits.1 }
            }
            Like::Array(x) if x.dtype().is_integer() => {
                Bound { value: x.clone(), limits, is_above: false }
            }
            Like::Array(x) => {
                let message = format!("the ends of the range must be integers, got {}", x.aval());
                throw_operands("randint", RuleError::dtype(message), &[x])
            }
            Like::Scalar(other) => {
                let message = format!("the ends of the range must be integers, got {other:?}");
                throw_operands("randint", RuleError::dtype(message), &[])
            }
        }
    }

    /// Clamps the bound to its limits and converts it to the drawn dtype.
    #[track_caller]
    fn clamped(&self, drawn: DType) -> Array {
        let own = self.value.dtype().int_range();
        let limit = |value: i128| constant(Scalar::Int(value), self.value.dtype());
        let mut value = self.value.clone();
        if own.0 < self.limits.0 {
            value = maximum(value, limit(self.limits.0));
        }
        if own.1 > self.limits.1 {
            value = minimum(value, limit(self.limits.1));
        }
        cast(&value, drawn)
    }

    /// Returns a mask of bounds above the limits, or `None` if there cannot be any.
    #[track_caller]
    fn above_limits(&self) -> Option<Array> {
        let (_, most) = self.value.dtype().int_range();
        if self.is_above {
            return Some(fill_of(Scalar::Bool(true), &Aval::new(DType::Bool, Shape::scalar())));
        }
        let limit = || constant(Scalar::Int(self.limits.1), self.value.dtype());
        (most > self.limits.1).then(|| gt(&self.value, limit()))
    }
}

#[track_caller]
fn raw_integers(key: &KeyWords, shape: &Shape, drawn: DType, low: &Bound, high: &Bound) -> Array {
    let unsigned = match drawn.bits() {
        64 => DType::U64,
        _ => DType::U32,
    };
    let [upper, lower] = split_words(key).map(|half| raw(&half, shape, unsigned));
    let above = if high.limits.1 == drawn.int_range().1 { high.above_limits() } else { None };
    let (low, high) = (low.clamped(drawn), high.clamped(drawn));
    let one = constant(1, unsigned);
    let distance = cast(&sub(&high, &low), unsigned);
    let mut span = where_(le(&high, &low), &one, distance);
    if let Some(above) = above {
        // An end that the dtype cannot represent adds one. The span of all integers wraps to 0, and
        // the remainder by 0 is the number itself.
        let longer = bitwise_and(above, gt(&high, &low));
        span = where_(&longer, add(&span, &one), &span);
    }
    let half = constant(Scalar::Int(1 << (unsigned.bits() / 2)), unsigned);
    let root = rem(&half, &span);
    let multiplier = rem(mul(&root, &root), &span);
    let offset = add(mul(rem(&upper, &span), multiplier), rem(&lower, &span));
    add(broadcast_to(&low, shape), cast(&rem(&offset, &span), drawn))
}
