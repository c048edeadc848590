//! Step 6: flash attention, which never writes the scores.
//!
//! Attention of `t` queries to `t` keys has `t²` scores. They need not exist at once. A program
//! holds a tile of queries, and goes over tiles of keys, on a sequential axis. It keeps three sums
//! for each query, relative to the greatest score so far: that score `m`, the sum `l` of weights
//! `exp(score - m)`, and the sum of weighted values. When a tile has a greater score, the sums are
//! multiplied by `exp(m_old - m_new)`. At the end the quotient of the sums is the mean.
//!
//! Everything of the previous steps is here: scratch memory, a revisited output, statistics with
//! two axes, masks. A causal mask also makes tiles above the diagonal superfluous: they are not
//! computed, and their index map names a tile that is there already, so that none is read.
//!
//! References: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et
//! al., "FlashAttention" (2022). `oxidax::kernels` has the complete function with its derivative.

use crate::Step;
use oxidax::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, Scratch};
use oxidax::prelude::*;
use oxidax::primitives::DotGeneral;

const TILE: usize = 128;
/// The score of a key that a query does not attend to: finite, so that differences are numbers.
const MASKED: f32 = -1e30;

/// Returns `lhs · rhsᵀ`.
fn times_transposed(lhs: &Array, rhs: &Array) -> Array {
    let numbers =
        DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotGeneral::default() };
    dot_general(lhs, rhs, numbers)
}

/// Attention of `t` queries to the keys up to their own position, for `heads` heads of `h`
/// features.
fn attention([heads, t, h]: [usize; 3]) -> Kernel {
    let body = move |[query, keys, values, output, greatest, total, sums]: [Ref; 7]| {
        let (row, column) = (kernel::program_id(1), kernel::program_id(2));
        kernel::when(eq(&column, 0), || {
            greatest.store(MASKED);
            total.store(0.0);
            sums.store(0.0);
        });
        kernel::when(le(&column, &row), || {
            let position = |axis: usize, tile: &Array| {
                broadcasted_iota(DType::I32, [TILE, TILE], axis) + tile * (TILE as i32)
            };
            let mask = le(position(1, &column), position(0, &row));
            let scores = times_transposed(&query.load(), &keys.load()) / (h as f64).sqrt();
            let scores = where_(&mask, &scores, MASKED);
            let before = greatest.load();
            let next = maximum(&before, scores.max_axes(axes(1).keepdims()));
            let decay = exp(before - &next);
            let weights = exp(scores - &next);
            greatest.store(&next);
            total.store(total.load() * &decay + weights.sum_axes(axes(1).keepdims()));
            // Values after the last position are undefined.
            let key = broadcasted_iota(DType::I32, [TILE, h], 0) + &column * (TILE as i32);
            let values = where_(lt(&key, t as i32), values.load(), 0.0);
            sums.store(sums.load() * decay + weights.matmul(&values));
        });
        kernel::when(eq(&column, &row), || output.store(sums.load() / total.load()));
    };
    let block = [None, Some(TILE), Some(h)];
    let of_query = || BlockSpec::new(block, |[head, row, _]| (head, row, 0));
    let of_key = || BlockSpec::new(block, |[head, row, column]| (head, minimum(column, row), 0));
    let n_tiles = t.div_ceil(TILE);
    kernel::call(
        body,
        Grid::new([heads, n_tiles, n_tiles]).sequential(1),
        [of_query(), of_key(), of_key()],
        [Output::new(DType::F32, [heads, t, h], of_query())],
    )
    .name("flash_attention")
    .scratch([
        Scratch::vmem(DType::F32, [TILE, 1]),
        Scratch::vmem(DType::F32, [TILE, 1]),
        Scratch::vmem(DType::F32, [TILE, h]),
    ])
}

pub(crate) fn run() -> Result<Step, Error> {
    let sizes = [4, 300, 64];
    let [q, k, v] = [0, 1, 2].map(|key| random::normal(random::key(key), sizes));
    let kernel = attention(sizes);
    let means = kernel.apply1(&[&q, &k, &v]);
    // The plain function takes [batch, time, head, feature].
    let plain = |x: &Array| transpose(x, &[1, 0, 2]).expand_dims(0);
    let options = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
    let expected = dot_product_attention_with(&plain(&q), &plain(&k), &plain(&v), &options);
    let expected = transpose(&expected.index(i![0]), &[1, 0, 2]);
    Step::new(&kernel.trace(&[&q, &k, &v]), &means, &expected)
}
