//! The outputs of the kernels by operations on the array of all scores, for programs that the
//! compiler partitions. Scores are key-major, `[heads, group, s, t]`.

use super::dropout::keep_mask;
use super::forward::excluded;
use super::geometry::Geometry;
use crate::core::{Array, DType};
use crate::ops::{axes, einsum};
use crate::primitives::{
    broadcasted_iota, convert_element_type, div, eq, exp, full_like, ge, gt, le, log, mul, reshape,
    sub, where_, zeros_like,
};

/// The operands of a kernel, wide.
struct Operands<'a> {
    scalars: Option<&'a Array>,
    q: Array,
    k: Array,
    v: Array,
    segments: Option<[&'a Array; 2]>,
}

impl<'a> Operands<'a> {
    /// Divides the operands into those of the forward kernel and the others, which are wide.
    fn of(geometry: &Geometry, operands: &'a [Array]) -> (Operands<'a>, Vec<Array>) {
        let wide = |x: &Array| convert_element_type(x, geometry.wide());
        let (scalars, operands) = operands.split_at(geometry.n_prefetch());
        let (qkv, operands) = operands.split_at(3);
        let (segments, others) = operands.split_at(if geometry.has_segments { 2 } else { 0 });
        let segments = match segments {
            [of_queries, of_keys] => Some([of_queries, of_keys]),
            _ => None,
        };
        let [q, k, v] = [0, 1, 2].map(|index| wide(&qkv[index]));
        let operands = Operands { scalars: scalars.first(), q, k, v, segments };
        (operands, others.iter().map(wide).collect())
    }

    fn scalar(&self, index: usize) -> Option<Array> {
        Some(self.scalars?.index(crate::i![index]))
    }

    fn scores(&self, geometry: &Geometry) -> Array {
        mul(einsum("xsh,xgth->xgst", [&self.k, &self.q]), geometry.scale)
    }

    /// Returns the mask of the scores.
    fn mask(&self, geometry: &Geometry) -> Option<Array> {
        let index = |axis| broadcasted_iota(DType::I32, [1, 1, geometry.s, geometry.t], axis);
        let mut distance = index(2) - index(3);
        if let (Some(q_start), Some(kv_start)) = (self.scalar(0), self.scalar(1)) {
            distance += kv_start - q_start;
        }
        let right = geometry.right.map(|right| le(&distance, right as i32));
        let left = geometry.left.map(|left| ge(&distance, -(left as i64) as i32));
        let same = self.segments.map(|[of_queries, of_keys]| {
            let (b, per_example) = (of_queries.shape()[0], geometry.heads_per_example);
            let same = reshape(&eq(of_queries, of_keys), [b, 1, geometry.s, geometry.t]);
            let of_heads = [b, per_example, geometry.s, geometry.t];
            let same = crate::primitives::broadcast_to(&same, of_heads);
            reshape(&same, [geometry.heads, 1, geometry.s, geometry.t])
        });
        [right, left, same].into_iter().flatten().reduce(|all, mask| &all & &mask)
    }

    /// Returns weights after dropout.
    fn dropped(&self, geometry: &Geometry, weights: &Array) -> Array {
        let Some(rate) = geometry.dropout else { return weights.clone() };
        let scalar = |index| self.scalar(index).expect("dropout has a seed");
        let heads = broadcasted_iota(DType::I32, [geometry.heads * geometry.group], 0);
        let heads = reshape(&heads, [geometry.heads, geometry.group, 1, 1]);
        let starts = [&scalar(1), &scalar(0)];
        let sizes = [geometry.s, geometry.t];
        let kept = keep_mask(rate, [scalar(2), scalar(3)], &heads, starts, sizes);
        where_(&kept, mul(weights, 1.0 / (1.0 - rate)), zeros_like(weights))
    }

    /// Returns weights before and after dropout, and the gradient of the scaled scores. `others`
    /// are the cotangents and statistics of the backward kernels.
    fn derivatives(&self, geometry: &Geometry, others: &[Array]) -> (Array, Array) {
        let weights = exp(sub(self.scores(geometry), &others[1]));
        let weights = masked(&self.mask(geometry), &weights);
        let of_weights = einsum("xsv,xgvt->xgst", [&self.v, &others[0]]);
        let of_weights = self.dropped(geometry, &of_weights);
        let of_scores = mul(&weights, sub(&of_weights, &others[2]));
        (self.dropped(geometry, &weights), mul(&of_scores, geometry.scale))
    }
}

fn masked(mask: &Option<Array>, weights: &Array) -> Array {
    match mask {
        Some(mask) => where_(mask, weights, zeros_like(weights)),
        None => weights.clone(),
    }
}

/// Returns the outputs of the forward kernel.
pub(super) fn forward(geometry: &Geometry, operands: &[Array]) -> Vec<Array> {
    let (operands, _) = Operands::of(geometry, operands);
    let (scores, mask) = (operands.scores(geometry), operands.mask(geometry));
    let scores = match &mask {
        Some(mask) => where_(mask, &scores, full_like(&scores, excluded(geometry.wide()))),
        None => scores,
    };
    let max = scores.max_axes(axes(2).keepdims());
    let weights = masked(&mask, &exp(sub(&scores, &max)));
    let sum = weights.sum_axes(axes(2).keepdims());
    let sum = where_(gt(&sum, 0.0), &sum, full_like(&sum, 1.0));
    let weights = div(operands.dropped(geometry, &weights), &sum);
    let out = einsum("xsv,xgst->xgvt", [&operands.v, &weights]);
    vec![convert_element_type(&out, geometry.out_dtype), max + log(&sum)]
}

/// Returns the gradients of keys and values.
pub(super) fn of_keys_and_values(geometry: &Geometry, operands: &[Array]) -> Vec<Array> {
    let (operands, others) = Operands::of(geometry, operands);
    let (weights, of_scores) = operands.derivatives(geometry, &others);
    let of_keys = einsum("xgst,xgth->xsh", [&of_scores, &operands.q]);
    let of_values = einsum("xgst,xgvt->xsv", [&weights, &others[0]]);
    [of_keys, of_values].map(|x| convert_element_type(&x, geometry.out_dtype)).to_vec()
}

/// Returns the gradients of queries.
pub(super) fn of_queries(geometry: &Geometry, operands: &[Array]) -> Vec<Array> {
    let (operands, others) = Operands::of(geometry, operands);
    let (_, of_scores) = operands.derivatives(geometry, &others);
    let of_queries = einsum("xgst,xsh->xgth", [&of_scores, &operands.k]);
    vec![convert_element_type(&of_queries, geometry.out_dtype)]
}
