//! Random integers.

use super::bits::{raw, split_words};
use super::key::Key;
use super::parameters::expect_broadcast;
use super::sampler::{cast, constant, draw, expect_integer, number};
use crate::core::{Array, Aval, DType, RuleError, Scalar, Shape, throw_operands};
use crate::primitives::{
    ArrayLike, Like, add, bitwise_and, broadcast_to, fill_of, gt, le, maximum, minimum, mul, rem,
    sub, where_,
};
use std::ops::Range;

/// Random integers in `range.start..range.end`, the start included.
///
/// `dtype` is an integer of 8, 16, 32 or 64 bits; the ends of the range are integers, or integer
/// arrays that broadcast to `shape`. An empty range gives its start. An end one above the dtype's
/// largest value is understood: `0..256` covers `u8`.
///
/// Drawn as the remainder of twice the dtype's bits, and of 64 at least: of a range of `n` numbers
/// some are more likely than others by less than `n / 2⁶⁴` (`n / 2¹²⁸` for 64 bits).
///
/// Throws `Op` for another dtype, and for ends that are not integers or do not broadcast.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let dice = random::randint(random::key(0), [5], DType::I32, 1..7);
/// assert!(dice.to_vec::<i32>()?.iter().all(|face| (1..=6).contains(face)));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn randint(
    key: Key,
    shape: impl Into<Shape>,
    dtype: DType,
    range: Range<impl ArrayLike>,
) -> Array {
    expect_integer("randint", dtype);
    let shape = shape.into();
    let words = key.words("randint");
    let (least, most) = dtype.int_range();
    // Narrow integers are drawn as wide ones, which have room for the end above the largest.
    let narrow = dtype.bits() < 32;
    let drawn = if narrow { DType::I32 } else { dtype };
    let low = End::new(range.start.like(), drawn, (least, most));
    let high = End::new(range.end.like(), drawn, (least, most + i128::from(narrow)));
    expect_broadcast("randint", &[&low.value, &high.value], &shape);
    draw(|| cast(&raw_integers(&words, &shape, drawn, &low, &high), dtype))
}

/// The positions of `draws` of `n`, inside a sampler: integers of `0..n`, `i32`.
#[track_caller]
pub(super) fn raw_indices(key: &[Array; 2], shape: &Shape, n: usize) -> Array {
    let (least, most) = DType::I32.int_range();
    let end = |at: usize| End::new(Like::Scalar(Scalar::from(at)), DType::I32, (least, most));
    raw_integers(key, shape, DType::I32, &end(0), &end(n))
}

/// An end of a range of integers, to be cut to `limits`.
struct End {
    value: Array,
    limits: (i128, i128),
    /// Whether it was a number, and above.
    above: bool,
}

impl End {
    #[track_caller]
    fn new(end: Like<'_>, drawn: DType, limits: (i128, i128)) -> End {
        match end {
            Like::Scalar(Scalar::Int(end)) => {
                let value = number(Scalar::Int(end.clamp(limits.0, limits.1)), drawn);
                End { value, limits, above: end > limits.1 }
            }
            Like::Array(x) if x.dtype().is_integer() => {
                End { value: x.clone(), limits, above: false }
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

    /// The end within its limits, in the dtype that is drawn.
    #[track_caller]
    fn cut(&self, drawn: DType) -> Array {
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

    /// Whether the end was cut from above, if that can be.
    #[track_caller]
    fn is_above(&self) -> Option<Array> {
        let (_, most) = self.value.dtype().int_range();
        if self.above {
            return Some(fill_of(Scalar::Bool(true), &Aval::new(DType::Bool, Shape::scalar())));
        }
        let limit = || constant(Scalar::Int(self.limits.1), self.value.dtype());
        (most > self.limits.1).then(|| gt(&self.value, limit()))
    }
}

#[track_caller]
fn raw_integers(key: &[Array; 2], shape: &Shape, drawn: DType, low: &End, high: &End) -> Array {
    let unsigned = match drawn.bits() {
        64 => DType::U64,
        _ => DType::U32,
    };
    let [upper, lower] = split_words(key).map(|half| raw(&half, shape, unsigned));
    let above = match high.limits.1 == drawn.int_range().1 {
        true => high.is_above(),
        false => None,
    };
    let (low, high) = (low.cut(drawn), high.cut(drawn));
    let one = constant(1, unsigned);
    let distance = cast(&sub(&high, &low), unsigned);
    let mut span = where_(&le(&high, &low), &one, distance);
    if let Some(above) = above {
        // The end that the dtype cannot hold counts; the span of everything wraps to 0, and the
        // remainder by 0 leaves a number as it is.
        let longer = bitwise_and(above, gt(&high, &low));
        span = where_(&longer, add(&span, &one), &span);
    }
    let half = constant(Scalar::Int(1 << (unsigned.bits() / 2)), unsigned);
    let root = rem(&half, &span);
    let multiplier = rem(mul(&root, &root), &span);
    let offset = add(mul(rem(&upper, &span), multiplier), rem(&lower, &span));
    add(broadcast_to(&low, shape), cast(&rem(&offset, &span), drawn))
}
