//! Sizes, masks and blocks of the kernels of one attention.

use crate::core::{Array, DType, bind1};
use crate::kernel::{BlockSpec, Ref};
use crate::primitives::{
    Div, broadcasted_iota, full_like, ge, le, lt, maximum, minimum, where_, zeros_like,
};

/// Sizes, masks and blocks of the kernels of one attention.
#[derive(Clone, Debug)]
pub(in crate::kernels) struct Geometry {
    /// Heads of keys of all examples: `b · kh`.
    pub(super) heads: usize,
    /// Heads of keys of one example.
    pub(super) heads_per_example: usize,
    /// Query heads that share a head of keys.
    pub(super) group: usize,
    pub(super) t: usize,
    pub(super) s: usize,
    pub(super) h: usize,
    pub(super) hv: usize,
    /// The dtype of queries, keys and values.
    pub(super) dtype: DType,
    /// The dtype of results and gradients.
    pub(super) out_dtype: DType,
    pub(super) scale: f64,
    /// The largest distance from a query to an earlier key, if it is limited.
    pub(super) left: Option<usize>,
    /// The largest distance from a query to a later key, if it is limited.
    pub(super) right: Option<usize>,
    pub(super) has_segments: bool,
    /// The probability that dropout removes a weight.
    pub(super) dropout: Option<f64>,
    /// The first operand is `i32[4]`: the global positions of the first query and key, and a seed.
    pub(super) has_scalars: bool,
    pub(super) block_q: usize,
    pub(super) block_kv: usize,
    /// The blocks that the user chose, `[block_q, block_kv]`.
    pub(super) chosen_blocks: [Option<usize>; 2],
}

/// The order of the last three grid axes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Grid `[head, member of the group, query block, key block]`.
    KeysInnermost,
    /// Grid `[head, key block, member of the group, query block]`.
    QueriesInnermost,
}

impl Order {
    /// Returns head, member of the group, query block and key block.
    pub(super) fn arrange(self, ids: [Array; 4]) -> [Array; 4] {
        match self {
            Order::KeysInnermost => ids,
            Order::QueriesInnermost => {
                let [head, kv, member, q] = ids;
                [head, member, q, kv]
            }
        }
    }
}

fn div(x: &Array, by: usize) -> Array {
    if by == 1 { x.clone() } else { bind1(Div, [x, &full_like(x, by as i32)]) }
}

impl Geometry {
    /// Returns the dtype of statistics and sums.
    pub(in crate::kernels) fn wide(&self) -> DType {
        if self.dtype.bits() < 32 { DType::F32 } else { self.dtype }
    }

    /// Returns the geometry with blocks of this size where the user did not choose.
    pub(super) fn with_blocks(&self, size: usize) -> Geometry {
        self.with_block_sizes(self.chosen_blocks.map(|chosen| chosen.unwrap_or(size)))
    }

    /// Returns the geometry with blocks of these numbers of queries and of keys.
    pub(super) fn with_block_sizes(&self, [block_q, block_kv]: [usize; 2]) -> Geometry {
        Geometry { block_q: block_q.min(self.t), block_kv: block_kv.min(self.s), ..self.clone() }
    }

    /// Returns the geometry for shards of a sequence, with positions as operands, and with wide
    /// results, which are combined with those of other shards.
    pub(in crate::kernels) fn for_shards(self) -> Geometry {
        Geometry { has_scalars: true, out_dtype: self.wide(), ..self }
    }

    /// Returns the numbers of queries and keys.
    pub(in crate::kernels) fn lengths(&self) -> [usize; 2] {
        [self.t, self.s]
    }

    /// Returns false, a `bool[]`, if the mask excludes all pairs of a query and a key. `starts` are
    /// the positions of the first query and key. Returns `None` if masks of positions never do.
    pub(in crate::kernels) fn is_active(&self, starts: &[Array; 2]) -> Option<Array> {
        self.is_block_active(starts, [self.t, self.s])
    }

    /// Returns the same for a block of these numbers of queries and keys.
    fn is_block_active(&self, starts: &[Array; 2], [n_q, n_kv]: [usize; 2]) -> Option<Array> {
        let distance = &starts[1] - &starts[0];
        // The distances of the first key from the last query, and of the last from the first.
        let in_right = self.right.map(|right| le(&distance, (right + n_q - 1) as i32));
        let in_left = self.left.map(|left| ge(&distance, 1 - (left + n_kv) as i32));
        match (in_right, in_left) {
            (Some(right), Some(left)) => Some(&right & &left),
            (right, left) => right.or(left),
        }
    }

    pub(super) fn n_q_blocks(&self) -> usize {
        self.t.div_ceil(self.block_q)
    }

    pub(super) fn n_kv_blocks(&self) -> usize {
        self.s.div_ceil(self.block_kv)
    }

    /// Returns the number of prefetched operands.
    pub(super) fn n_prefetch(&self) -> usize {
        usize::from(self.has_scalars)
    }

    /// Returns the block of queries that a program uses. Blocks that the mask excludes are
    /// replaced by the nearest one that it does not, which is in memory already or needed next.
    fn q_index(&self, order: Order, q: &Array, kv: &Array) -> Array {
        if matches!(order, Order::KeysInnermost) || self.has_scalars {
            return q.clone();
        }
        let (bq, bkv) = (self.block_q, self.block_kv as i32);
        let mut q = q.clone();
        if let Some(right) = self.right {
            q = maximum(&q, div(&maximum(kv * bkv - right as i32, 0), bq));
        }
        if let Some(left) = self.left {
            q = minimum(&q, div(&(kv * bkv + (bkv - 1 + left as i32)), bq));
        }
        minimum(&q, self.n_q_blocks() as i32 - 1)
    }

    /// Returns the block of keys that a program uses, as [`Geometry::q_index`] does.
    fn kv_index(&self, order: Order, q: &Array, kv: &Array) -> Array {
        if matches!(order, Order::QueriesInnermost) || self.has_scalars {
            return kv.clone();
        }
        let (bq, bkv) = (self.block_q as i32, self.block_kv);
        let mut kv = kv.clone();
        if let Some(left) = self.left {
            kv = maximum(&kv, div(&maximum(q * bq - left as i32, 0), bkv));
        }
        if let Some(right) = self.right {
            kv = minimum(&kv, div(&(q * bq + (bq - 1 + right as i32)), bkv));
        }
        minimum(&kv, self.n_kv_blocks() as i32 - 1)
    }

    /// Returns the blocks of an array `[heads, group, t, width]`.
    pub(super) fn q_rows(&self, order: Order, width: usize) -> BlockSpec {
        let this = self.clone();
        BlockSpec::new([None, None, Some(self.block_q), Some(width)], move |ids: [Array; 4]| {
            let [head, member, q, kv] = order.arrange(ids);
            [head.clone(), member, this.q_index(order, &q, &kv), full_like(&head, 0)]
        })
    }

    /// Returns the blocks of an array `[heads, group, rows, t]`.
    pub(super) fn q_columns(&self, order: Order, rows: usize) -> BlockSpec {
        let this = self.clone();
        BlockSpec::new([None, None, Some(rows), Some(self.block_q)], move |ids: [Array; 4]| {
            let [head, member, q, kv] = order.arrange(ids);
            [head.clone(), member, full_like(&head, 0), this.q_index(order, &q, &kv)]
        })
    }

    /// Returns the blocks of an array `[heads, s, width]`.
    pub(super) fn kv_rows(&self, order: Order, width: usize) -> BlockSpec {
        let this = self.clone();
        BlockSpec::new([None, Some(self.block_kv), Some(width)], move |ids: [Array; 4]| {
            let [head, _, q, kv] = order.arrange(ids);
            [head.clone(), this.kv_index(order, &q, &kv), full_like(&head, 0)]
        })
    }

    /// Returns the blocks of segment ids `[b, 1, t]` and `[b, s, 1]`, if there are segments.
    pub(super) fn segments(&self, order: Order) -> Vec<BlockSpec> {
        if !self.has_segments {
            return Vec::new();
        }
        let (of_queries, of_keys) = (self.clone(), self.clone());
        let per_example = self.heads_per_example;
        vec![
            BlockSpec::new([None, Some(1), Some(self.block_q)], move |ids: [Array; 4]| {
                let [head, _, q, kv] = order.arrange(ids);
                let index = of_queries.q_index(order, &q, &kv);
                [div(&head, per_example), full_like(&head, 0), index]
            }),
            BlockSpec::new([None, Some(self.block_kv), Some(1)], move |ids: [Array; 4]| {
                let [head, _, q, kv] = order.arrange(ids);
                let index = of_keys.kv_index(order, &q, &kv);
                [div(&head, per_example), index, full_like(&head, 0)]
            }),
        ]
    }

    /// Returns the sizes that a block may have: those without a squeezed axis.
    pub(super) fn block_shape(&self) -> [usize; 2] {
        [self.block_kv, self.block_q]
    }
}

/// A block of queries and a block of keys, inside of a kernel.
pub(super) struct BlockPair<'a> {
    geometry: &'a Geometry,
    /// The index of the first query and key within the operands.
    q_start: Array,
    kv_start: Array,
    /// The global positions of the first query and key.
    pub(super) q_position: Array,
    pub(super) kv_position: Array,
}

impl<'a> BlockPair<'a> {
    pub(super) fn new(
        geometry: &'a Geometry,
        scalars: Option<&Ref>,
        q_block: &Array,
        kv_block: &Array,
    ) -> BlockPair<'a> {
        let q_start = q_block * geometry.block_q as i32;
        let kv_start = kv_block * geometry.block_kv as i32;
        let (q_position, kv_position) = match scalars {
            None => (q_start.clone(), kv_start.clone()),
            Some(scalars) => {
                (&q_start + scalars.at((0,)).load(), &kv_start + scalars.at((1,)).load())
            }
        };
        BlockPair { geometry, q_start, kv_start, q_position, kv_position }
    }

    /// Returns false, a `bool[]`, if the mask excludes all pairs. Returns `None` if masks of
    /// positions never do.
    pub(super) fn is_active(&self) -> Option<Array> {
        let starts = [self.q_position.clone(), self.kv_position.clone()];
        let geometry = self.geometry;
        geometry.is_block_active(&starts, [geometry.block_q, geometry.block_kv])
    }

    /// Returns the mask of the pairs, `[block_kv, block_q]`, or `None` if all are allowed.
    /// `queries` adds queries beyond the end to the excluded pairs, for sums over queries.
    pub(super) fn mask(&self, segments: Option<[&Ref; 2]>, queries: PastTheEnd) -> Option<Array> {
        let geometry = self.geometry;
        let [block_kv, block_q] = geometry.block_shape();
        let index = |axis| broadcasted_iota(DType::I32, [block_kv, block_q], axis);
        let mut masks = Vec::new();
        if geometry.left.is_some() || geometry.right.is_some() {
            let within = index(0) - index(1);
            let start = &self.q_position - &self.kv_position;
            if let Some(right) = geometry.right {
                masks.push(le(&within, &start + right as i32));
            }
            if let Some(left) = geometry.left {
                masks.push(ge(&within, &start - left as i32));
            }
        }
        if !geometry.s.is_multiple_of(block_kv) {
            masks.push(lt(index(0), geometry.s as i32 - &self.kv_start));
        }
        if queries == PastTheEnd::Exclude && !geometry.t.is_multiple_of(block_q) {
            masks.push(lt(index(1), geometry.t as i32 - &self.q_start));
        }
        if let Some([of_queries, of_keys]) = segments {
            masks.push(of_queries.load().equal(of_keys.load()));
        }
        masks.into_iter().reduce(|all, mask| &all & &mask)
    }

    /// Returns rows of keys or values, with zeros beyond the end: the memory there is undefined,
    /// and 0 times NaN is NaN.
    pub(super) fn kv_load(&self, rows: &Ref) -> Array {
        let geometry = self.geometry;
        clear_past_the_end(rows.load(), 0, (geometry.s, geometry.block_kv), &self.kv_start)
    }

    /// Returns queries along an axis as [`BlockPair::kv_load`] does.
    pub(super) fn q_load(&self, queries: &Ref, axis: usize) -> Array {
        let geometry = self.geometry;
        clear_past_the_end(queries.load(), axis, (geometry.t, geometry.block_q), &self.q_start)
    }
}

/// The treatment of queries beyond the end of the array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PastTheEnd {
    /// Their results are dropped when the block is written.
    Keep,
    /// They would enter a sum.
    Exclude,
}

fn clear_past_the_end(
    block: Array,
    axis: usize,
    (size, block_size): (usize, usize),
    start: &Array,
) -> Array {
    if size.is_multiple_of(block_size) {
        return block;
    }
    let index = broadcasted_iota(DType::I32, block.shape().clone(), axis);
    where_(lt(&index, size as i32 - start), &block, zeros_like(&block))
}
