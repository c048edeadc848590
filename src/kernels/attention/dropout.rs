//! Random bits of dropout, computed in the kernels from a seed and the position of a weight.

use crate::core::{Array, DType};
use crate::primitives::{bitwise_xor, broadcasted_iota, lt, mul, shift_right_logical};

/// Spreads consecutive numbers over the 32-bit integers: 2³² divided by the golden ratio.
const STEP_OF_HEADS: i32 = 0x9E37_79B9_u32 as i32;
/// Odd factors that spread positions of queries and keys.
const STEP_OF_QUERIES: i32 = 0x85EB_CA6B_u32 as i32;
const STEP_OF_KEYS: i32 = 0xC2B2_AE35_u32 as i32;

/// Returns a permutation of 32-bit integers in which every bit of the result depends on all bits
/// of `x`: xor with shifted bits and products with odd factors, in turn.
///
/// # Reference
/// Marsaglia, "Xorshift RNGs" (2003), for the shifts; Salmon et al., "Parallel random numbers: as
/// easy as 1, 2, 3" (2011), for bits that are functions of a counter.
fn mix(x: &Array) -> Array {
    let x = bitwise_xor(x, shift_right_logical(x, 16));
    let x = mul(&x, 0x7FEB_352D);
    let x = bitwise_xor(&x, shift_right_logical(&x, 15));
    let x = mul(&x, 0x846C_A68B_u32 as i32);
    bitwise_xor(&x, shift_right_logical(&x, 16))
}

/// Returns true for the weights that dropout keeps, `[block_kv, block_q]`. `starts` are the
/// positions of the first key and query, `seed` two words, `head` the number of the query head.
/// Integers are `i32`, which wrap.
pub(super) fn keep_mask(
    rate: f64,
    seed: [Array; 2],
    head: &Array,
    starts: [&Array; 2],
    [block_kv, block_q]: [usize; 2],
) -> Array {
    let of_head = mix(&(&seed[1] + mul(head, STEP_OF_HEADS)));
    let of_head = mix(&bitwise_xor(&seed[0], &of_head));
    let keys = broadcasted_iota(DType::I32, [block_kv, block_q], 0) + starts[0];
    let queries = broadcasted_iota(DType::I32, [1, block_q], 1) + starts[1];
    let of_query = mix(&bitwise_xor(&of_head, mul(&queries, STEP_OF_QUERIES)));
    let bits = mix(&bitwise_xor(&of_query, mul(&keys, STEP_OF_KEYS)));
    // 24 bits, so that the comparison is one of positive numbers.
    let threshold = ((1.0 - rate) * f64::from(1 << 24)).round() as i32;
    lt(shift_right_logical(&bits, 8), threshold)
}
