//! The forward kernel: results and the logarithms of the softmax denominators.

use super::dropout::keep_mask;
use super::geometry::{BlockPair, Geometry, Order, PastTheEnd};
use super::products::{columns_by_columns, rows_by_rows};
use crate::core::{Array, DType};
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, Scratch};
use crate::ops::axes;
use crate::primitives::{
    convert_element_type, div, eq, exp, full_like, gt, log, maximum, mul, sub, where_, zeros_like,
};

/// The references of a kernel's operands.
pub(super) struct Operands<'a> {
    pub(super) scalars: Option<&'a Ref>,
    pub(super) q: &'a Ref,
    pub(super) k: &'a Ref,
    pub(super) v: &'a Ref,
    pub(super) segments: Option<[&'a Ref; 2]>,
}

impl<'a> Operands<'a> {
    /// Divides the references into those of operands and the others.
    pub(super) fn of(geometry: &Geometry, refs: &'a [Ref]) -> (Operands<'a>, &'a [Ref]) {
        let (scalars, refs) = refs.split_at(geometry.n_prefetch());
        let (operands, refs) = refs.split_at(3);
        let (segments, refs) = refs.split_at(if geometry.has_segments { 2 } else { 0 });
        let segments = match segments {
            [of_queries, of_keys] => Some([of_queries, of_keys]),
            _ => None,
        };
        let [q, k, v] = [0, 1, 2].map(|index| &operands[index]);
        (Operands { scalars: scalars.first(), q, k, v, segments }, refs)
    }

    /// Returns the blocks of the operands.
    pub(super) fn specs(geometry: &Geometry, order: Order) -> Vec<BlockSpec> {
        let mut specs = vec![
            geometry.q_rows(order, geometry.h),
            geometry.kv_rows(order, geometry.h),
            geometry.kv_rows(order, geometry.hv),
        ];
        specs.extend(geometry.segments(order));
        specs
    }

    /// Returns the scaled scores of keys and queries, `[block_kv, block_q]`.
    pub(super) fn scores(&self, geometry: &Geometry, k: &Array, q: &Array) -> Array {
        mul(rows_by_rows(k, q, geometry.wide()), geometry.scale)
    }

    /// Returns true for the weights that dropout keeps.
    pub(super) fn kept(
        &self,
        geometry: &Geometry,
        pair: &BlockPair<'_>,
        head: &Array,
    ) -> Option<Array> {
        let (rate, scalars) = (geometry.dropout?, self.scalars?);
        let seed = [scalars.at((2,)).load(), scalars.at((3,)).load()];
        let starts = [&pair.kv_position, &pair.q_position];
        Some(keep_mask(rate, seed, head, starts, geometry.block_shape()))
    }
}

/// The score of excluded pairs: finite, because the difference of two infinities is NaN.
pub(in crate::kernels) fn excluded(dtype: DType) -> f64 {
    -0.7 * dtype.float_max()
}

/// Returns the number of the query head.
pub(super) fn query_head(geometry: &Geometry, head: &Array, member: &Array) -> Array {
    head * geometry.group as i32 + member
}

/// Runs `body` unless the mask excludes all pairs.
pub(super) fn when_active(is_active: Option<Array>, body: impl Fn()) {
    match is_active {
        Some(is_active) => kernel::when(&is_active, body),
        None => body(),
    }
}

/// Returns the forward kernel. Its operands are the scalars `i32[4]` if there are any, queries
/// `[heads, group, t, h]`, keys `[heads, s, h]`, values `[heads, s, hv]`, and segment ids
/// `[b, 1, t]` and `[b, s, 1]`. Its outputs are the results `[heads, group, hv, t]` and the
/// logarithms of the denominators `[heads, group, 1, t]`.
///
/// Scores are key-major, `[block_kv, block_q]`: statistics of queries are rows `[1, block_q]`, and
/// are stored without padding.
pub(super) fn forward(geometry: &Geometry) -> Kernel {
    let order = Order::KeysInnermost;
    let (heads, group, t) = (geometry.heads, geometry.group, geometry.t);
    let grid = [heads, group, geometry.n_q_blocks(), geometry.n_kv_blocks()];
    let wide = geometry.wide();
    let outputs = [
        Output::new(
            geometry.out_dtype,
            [heads, group, geometry.hv, t],
            geometry.q_columns(order, geometry.hv),
        ),
        Output::new(wide, [heads, group, 1, t], geometry.q_columns(order, 1)),
    ];
    let statistic = || Scratch::vmem(wide, [1, geometry.block_q]);
    let of_body = geometry.clone();
    kernel::call(
        move |refs: Vec<Ref>| body(&of_body, &refs),
        Grid::new(grid).sequential(1),
        Operands::specs(geometry, order),
        outputs,
    )
    .name("flash_attention")
    .prefetch(geometry.n_prefetch())
    .scratch([statistic(), statistic(), Scratch::vmem(wide, [geometry.hv, geometry.block_q])])
}

fn body(geometry: &Geometry, refs: &[Ref]) {
    let (operands, refs) = Operands::of(geometry, refs);
    let [out, lse, max, sum, acc] = [0, 1, 2, 3, 4].map(|index| &refs[index]);
    let ids = [0, 1, 2, 3].map(kernel::program_id);
    let [head, member, q_block, kv_block] = Order::KeysInnermost.arrange(ids);
    let wide = geometry.wide();
    kernel::when(eq(&kv_block, 0), || {
        max.store(excluded(wide));
        sum.store(0.0);
        acc.store(0.0);
    });
    let pair = BlockPair::new(geometry, operands.scalars, &q_block, &kv_block);
    when_active(pair.is_active(), || {
        let scores = operands.scores(geometry, &operands.k.load(), &operands.q.load());
        let mask = pair.mask(operands.segments, PastTheEnd::Keep);
        let scores = match &mask {
            Some(mask) => where_(mask, &scores, full_like(&scores, excluded(wide))),
            None => scores,
        };
        let (old_max, axis) = (max.load(), axes(0).keepdims());
        let new_max = maximum(&old_max, scores.max_axes(axis.clone()));
        let weights = exp(sub(&scores, &new_max));
        // A query without allowed keys has the maximum `excluded`, and weights of 1 up to here.
        let weights = match &mask {
            Some(mask) => where_(mask, &weights, zeros_like(&weights)),
            None => weights,
        };
        let decay = exp(sub(&old_max, &new_max));
        sum.store(sum.load() * &decay + weights.sum_axes(axis));
        max.store(&new_max);
        let kept = operands.kept(geometry, &pair, &query_head(geometry, &head, &member));
        let weights = match (&kept, geometry.dropout) {
            (Some(kept), Some(rate)) => {
                let scaled = mul(&weights, 1.0 / (1.0 - rate));
                where_(kept, &scaled, zeros_like(&weights))
            }
            _ => weights,
        };
        let weights = convert_element_type(&weights, geometry.dtype);
        let values = pair.kv_load(operands.v);
        acc.store(acc.load() * decay + columns_by_columns(&values, &weights, wide));
    });
    kernel::when(eq(&kv_block, kernel::num_programs(3) as i32 - 1), || {
        let total = sum.load();
        let total = where_(gt(&total, 0.0), &total, full_like(&total, 1.0));
        out.store(convert_element_type(&div(acc.load(), &total), out.dtype()));
        lse.store(max.load() + log(&total));
    });
}
