//! Booleans packed into bytes.

use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{
    PaddingDim, bitwise_and, broadcast_to, convert_element_type, iota, lax_pad, mul, ne, reshape,
    shift_left, shift_right_logical, sub, zeros_like,
};

/// Order of the bits in a byte, for [`packbits`] and [`unpackbits`]. JAX's default is `Big`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitOrder {
    /// The first boolean is the highest bit: `[1, 0, …]` is 128.
    #[default]
    Big,
    /// The first boolean is the lowest bit: `[1, 0, …]` is 1.
    Little,
}

/// Returns the shifts of the eight bits, `u8[8]`.
#[track_caller]
fn shifts(order: BitOrder) -> Array {
    let position = iota(DType::U8, 8);
    match order {
        BitOrder::Big => sub(7, position),
        BitOrder::Little => position,
    }
}

#[track_caller]
fn last_axis(name: &str, x: &Array, axis: isize) -> (usize, Array) {
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => (axis, move_axis(x, axis, x.rank() - 1)),
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// Packs every eight elements along `axis` into the bits of one `u8`; elements that are not zero
/// give ones. The last byte is padded with zeros. Throws `Op` (dtype) for floats and complex
/// numbers.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| packbits(&x, -1, BitOrder::Big), Aval::new(DType::Bool, [2,
/// 20]))?; assert_eq!(y.aval().to_string(), "u8[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn packbits(x: &Array, axis: isize, order: BitOrder) -> Array {
    if x.dtype().is_inexact() {
        let error = RuleError::dtype(format!("needs booleans or integers, got {}", x.dtype()));
        trace::throw_operands("packbits", error, &[x]);
    }
    let (axis, x) = last_axis("packbits", x, axis);
    let bits = match x.dtype() {
        DType::Bool => convert_element_type(&x, DType::U8),
        _ => convert_element_type(&ne(&x, zeros_like(&x)), DType::U8),
    };
    let rank = bits.rank();
    let size = bits.shape()[rank - 1];
    let bytes = size.div_ceil(8);
    let mut padding = vec![PaddingDim { low: 0, high: 0, interior: 0 }; rank];
    padding[rank - 1].high = (8 * bytes - size) as isize;
    let bits = lax_pad(&bits, 0, &padding);
    let mut shape = bits.shape().to_vec();
    shape[rank - 1] = bytes;
    shape.push(8);
    let weights = shift_left(1u8, shifts(order));
    let weighted = mul(reshape(&bits, shape), convert_element_type(&weights, DType::U8));
    let packed = crate::primitives::reduce_sum(&weighted, &[-1]);
    move_axis(&packed, rank - 1, axis)
}

/// Unpacks each `u8` along `axis` into eight `u8` zeros and ones. The inverse of [`packbits`].
/// Throws `Op` (dtype) for other dtypes.
#[track_caller]
pub fn unpackbits(x: &Array, axis: isize, order: BitOrder) -> Array {
    if x.dtype() != DType::U8 {
        let error = RuleError::dtype(format!("needs u8, got {}", x.dtype()));
        trace::throw_operands("unpackbits", error, &[x]);
    }
    let (axis, x) = last_axis("unpackbits", x, axis);
    let rank = x.rank();
    let wide = x.shape().insert(rank, 8);
    let bytes = broadcast_to(&reshape(&x, x.shape().insert(rank, 1)), wide.clone());
    let bits = bitwise_and(shift_right_logical(&bytes, shifts(order)), 1u8);
    let mut shape = wide.to_vec();
    shape.pop();
    shape[rank - 1] *= 8;
    move_axis(&reshape(&bits, shape), rank - 1, axis)
}
