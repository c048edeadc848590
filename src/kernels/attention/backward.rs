//! The backward kernels: gradients of keys and values, and gradients of queries.

use super::forward::{Operands, query_head, when_active};
use super::geometry::{BlockPair, Geometry, Order, PastTheEnd};
use super::products::{columns_by_columns, rows_by_columns, rows_by_rows};
use crate::core::Array;
use crate::kernel::{self, Grid, Kernel, Output, Ref, Scratch};
use crate::primitives::{convert_element_type, eq, exp, mul, sub, where_, zeros_like};

/// The references of the operands that the forward kernel does not have.
struct Cotangents<'a> {
    /// The cotangents of the results, `[hv, block_q]`.
    out: &'a Ref,
    /// The logarithms of the denominators, `[1, block_q]`.
    lse: &'a Ref,
    /// The sums over features of results times cotangents, `[1, block_q]`.
    delta: &'a Ref,
}

impl Cotangents<'_> {
    fn of(refs: &[Ref]) -> (Cotangents<'_>, &[Ref]) {
        let (own, refs) = refs.split_at(3);
        (Cotangents { out: &own[0], lse: &own[1], delta: &own[2] }, refs)
    }
}

/// The weights of a pair of blocks and the gradient of their scores, both key-major.
struct Weights {
    /// The weights that multiply the values, after dropout.
    weights: Array,
    /// The gradient of the scores before scaling.
    scores: Array,
}

/// Computes the weights again from the scores, and the gradient of the scores from the cotangents
/// of the results `out`.
fn weights_of(
    geometry: &Geometry,
    operands: &Operands<'_>,
    cotangents: &Cotangents<'_>,
    pair: &BlockPair<'_>,
    [q, k, out]: [&Array; 3],
    (head, queries): (&Array, PastTheEnd),
) -> Weights {
    let scores = operands.scores(geometry, k, q);
    let weights = exp(sub(&scores, cotangents.lse.load()));
    let zeros = zeros_like(&weights);
    let mask = pair.mask(operands.segments, queries);
    let weights = match &mask {
        Some(mask) => where_(mask, &weights, &zeros),
        None => weights,
    };
    let of_weights = rows_by_columns(&operands.v.load(), out, geometry.wide());
    let (kept, of_weights) = match (operands.kept(geometry, pair, head), geometry.dropout) {
        (Some(kept), Some(rate)) => {
            let scaled = |x: &Array| where_(&kept, mul(x, 1.0 / (1.0 - rate)), &zeros);
            (scaled(&weights), scaled(&of_weights))
        }
        _ => (weights.clone(), of_weights),
    };
    let of_scores = mul(&weights, sub(&of_weights, cotangents.delta.load()));
    // Undefined memory beyond the end of the operands may have made the difference NaN.
    let of_scores = match &mask {
        Some(mask) => where_(mask, &of_scores, &zeros),
        None => of_scores,
    };
    let narrow = |x: &Array| convert_element_type(x, geometry.dtype);
    Weights { weights: narrow(&kept), scores: narrow(&of_scores) }
}

fn specs(geometry: &Geometry, order: Order) -> Vec<kernel::BlockSpec> {
    let mut specs = Operands::specs(geometry, order);
    specs.extend([
        geometry.q_columns(order, geometry.hv),
        geometry.q_columns(order, 1),
        geometry.q_columns(order, 1),
    ]);
    specs
}

/// Returns the kernel of the gradients of keys and values. It takes the operands of the forward
/// kernel, then the cotangents of the results `[heads, group, hv, t]`, and two statistics
/// `[heads, group, 1, t]`: the logarithms of the denominators, and the sums of results times
/// cotangents.
pub(super) fn of_keys_and_values(geometry: &Geometry) -> Kernel {
    let order = Order::QueriesInnermost;
    let (heads, group, s) = (geometry.heads, geometry.group, geometry.s);
    let grid = [heads, geometry.n_kv_blocks(), group, geometry.n_q_blocks()];
    let output =
        |width| Output::new(geometry.out_dtype, [heads, s, width], geometry.kv_rows(order, width));
    let scratch = |width| Scratch::vmem(geometry.wide(), [geometry.block_kv, width]);
    let of_body = geometry.clone();
    kernel::call(
        move |refs: Vec<Ref>| keys_and_values_body(&of_body, &refs),
        Grid::new(grid).sequential(2),
        specs(geometry, order),
        [output(geometry.h), output(geometry.hv)],
    )
    .name("flash_attention_keys_and_values")
    .prefetch(geometry.n_prefetch())
    .scratch([scratch(geometry.h), scratch(geometry.hv)])
}

fn keys_and_values_body(geometry: &Geometry, refs: &[Ref]) {
    let (operands, refs) = Operands::of(geometry, refs);
    let (cotangents, refs) = Cotangents::of(refs);
    let [out_k, out_v, acc_k, acc_v] = [0, 1, 2, 3].map(|index| &refs[index]);
    let ids = [0, 1, 2, 3].map(kernel::program_id);
    let [head, member, q_block, kv_block] = Order::QueriesInnermost.arrange(ids);
    let wide = geometry.wide();
    kernel::when(&eq(&member, 0) & &eq(&q_block, 0), || {
        acc_k.store(0.0);
        acc_v.store(0.0);
    });
    let pair = BlockPair::new(geometry, operands.scalars, &q_block, &kv_block);
    when_active(pair.is_active(), || {
        let (q, out) = (pair.q_load(operands.q, 0), pair.q_load(cotangents.out, 1));
        let head = query_head(geometry, &head, &member);
        let operands_of = [&q, &operands.k.load(), &out];
        let of_pair = (&head, PastTheEnd::Exclude);
        let weights = weights_of(geometry, &operands, &cotangents, &pair, operands_of, of_pair);
        acc_v.add_assign(rows_by_rows(&weights.weights, &out, wide));
        acc_k.add_assign(rows_by_columns(&weights.scores, &q, wide));
    });
    let (last_member, last_block) = (geometry.group as i32 - 1, geometry.n_q_blocks() as i32 - 1);
    kernel::when(&eq(&member, last_member) & &eq(&q_block, last_block), || {
        let of_keys = mul(acc_k.load(), geometry.scale);
        out_k.store(convert_element_type(&of_keys, out_k.dtype()));
        out_v.store(convert_element_type(&acc_v.load(), out_v.dtype()));
    });
}

/// Returns the kernel of the gradients of queries, `[heads, group, t, h]`. It takes the operands of
/// [`of_keys_and_values`].
pub(super) fn of_queries(geometry: &Geometry) -> Kernel {
    let order = Order::KeysInnermost;
    let (heads, group, t, h) = (geometry.heads, geometry.group, geometry.t, geometry.h);
    let grid = [heads, group, geometry.n_q_blocks(), geometry.n_kv_blocks()];
    let of_body = geometry.clone();
    kernel::call(
        move |refs: Vec<Ref>| queries_body(&of_body, &refs),
        Grid::new(grid).sequential(1),
        specs(geometry, order),
        [Output::new(geometry.out_dtype, [heads, group, t, h], geometry.q_rows(order, h))],
    )
    .name("flash_attention_queries")
    .prefetch(geometry.n_prefetch())
    .scratch([Scratch::vmem(geometry.wide(), [geometry.block_q, h])])
}

fn queries_body(geometry: &Geometry, refs: &[Ref]) {
    let (operands, refs) = Operands::of(geometry, refs);
    let (cotangents, refs) = Cotangents::of(refs);
    let [out, acc] = [0, 1].map(|index| &refs[index]);
    let ids = [0, 1, 2, 3].map(kernel::program_id);
    let [head, member, q_block, kv_block] = Order::KeysInnermost.arrange(ids);
    kernel::when(eq(&kv_block, 0), || acc.store(0.0));
    let pair = BlockPair::new(geometry, operands.scalars, &q_block, &kv_block);
    when_active(pair.is_active(), || {
        let k = pair.kv_load(operands.k);
        let head = query_head(geometry, &head, &member);
        let operands_of = [&operands.q.load(), &k, &cotangents.out.load()];
        let of_pair = (&head, PastTheEnd::Keep);
        let weights = weights_of(geometry, &operands, &cotangents, &pair, operands_of, of_pair);
        acc.add_assign(columns_by_columns(&weights.scores, &k, geometry.wide()));
    });
    kernel::when(eq(&kv_block, kernel::num_programs(3) as i32 - 1), || {
        let of_queries = mul(acc.load(), geometry.scale);
        out.store(convert_element_type(&of_queries, out.dtype()));
    });
}
