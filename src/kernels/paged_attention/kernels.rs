//! The kernel of [`paged_attention`](super::paged_attention), and its form for CPUs.

use super::{PagedAttentionOptions, Sizes};
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, Scratch};
use crate::kernels::products::{dot, select_wide};
use crate::ops::axes;
use crate::primitives::{
    DotGeneral, bitwise_and, broadcasted_iota, concatenate, convert_element_type, dot_general, eq,
    exp, full_like, ge, gt, le, lt, maximum, minimum, tanh, where_,
};
use crate::{Array, DType};

/// The score of a key that a query does not attend to. It is finite, so that differences of scores
/// are numbers.
const MASKED: f32 = -1e30;

/// Marks the keys that the query attends to.
fn is_attended(key: &Array, length: &Array, window: Option<usize>) -> Array {
    let mask = lt(key, length);
    match window {
        Some(window) => bitwise_and(&mask, ge(key, length - window.min(1 << 30) as i32)),
        None => mask,
    }
}

/// Returns true for a block, from page `start` on, with pages that the query attends to.
fn is_used(start: &Array, count: usize, first: &Array, last: &Array, length: &Array) -> Array {
    let overlaps = bitwise_and(le(start, last), gt(start + count as i32, first));
    bitwise_and(&overlaps, gt(length, 0))
}

/// The references of a program that handles a block of pages, and its place in the sequence.
struct Step<'a> {
    query: &'a Ref,
    keys: &'a [Ref],
    values: &'a [Ref],
    output: &'a Ref,
    /// The greatest score of each row so far.
    greatest: &'a Ref,
    /// The sum of the weights of each row so far.
    total: &'a Ref,
    /// The weighted sum of values so far.
    sums: &'a Ref,
    /// The number of the block.
    block: Array,
    /// The first page of the block.
    start: Array,
    /// The length of the sequence.
    length: Array,
    /// True if the query attends to a key of the block.
    is_used: Array,
}

impl<'a> Step<'a> {
    /// Sorts the references, and begins the sums in the first block. Blocks are programs along
    /// `axis`.
    fn new(refs: &'a [Ref], per_block: usize, axis: usize) -> Step<'a> {
        let (keys, rest) = refs[5..].split_at(per_block);
        let (values, rest) = rest.split_at(per_block);
        let (sequence, block) = (kernel::program_id(0), kernel::program_id(axis));
        let [length, first, last] = [0, 1, 2].map(|index| refs[index].at((&sequence,)).load());
        let [output, greatest, total, sums] = [0, 1, 2, 3].map(|index| &rest[index]);
        kernel::when(eq(&block, 0), || {
            greatest.store(MASKED);
            total.store(0.0);
            sums.store(0.0);
        });
        let start = &block * (per_block as i32);
        let is_used = is_used(&start, per_block, &first, &last, &length);
        let query = &refs[4];
        Step { query, keys, values, output, greatest, total, sums, block, start, length, is_used }
    }
}

/// Returns the page that holds a sequence's page `number`. Pages that are not used become the next
/// one that is, so that a block of them is not read.
fn page_number(
    sequence: Array,
    number: Array,
    per_sequence: usize,
    [first, last, table]: [Ref; 3],
) -> Array {
    let number = maximum(number, first.at((&sequence,)).load());
    let number = minimum(number, last.at((&sequence,)).load());
    let entry = &sequence * (per_sequence as i32) + number;
    table.at((&entry,)).load()
}

/// Returns the kernel: a program for each sequence, key head and block of pages.
pub(super) fn blocks(
    sizes: Sizes,
    rows: usize,
    dtype: DType,
    options: &PagedAttentionOptions,
) -> Kernel {
    let Sizes { b, key_heads, h, page, per_sequence, per_block, .. } = sizes;
    let n_blocks = per_sequence.div_ceil(per_block);
    let scale = options.scale.unwrap_or(1.0 / (h as f64).sqrt());
    let (soft_cap, window) = (options.soft_cap, options.window);
    let body = move |refs: Vec<Ref>| {
        let step = Step::new(&refs, per_block, 2);
        let Step { query, keys, values, output, greatest, total, sums, .. } = &step;
        let Step { block, start, length, is_used, .. } = &step;
        kernel::when(is_used, || {
            let query = query.load();
            let within = |shape: [usize; 2], axis: usize, index: usize| {
                let first = (start + index as i32) * (page as i32);
                let key = broadcasted_iota(DType::I32, shape, axis) + first;
                is_attended(&key, length, window)
            };
            let mut scores = Vec::with_capacity(per_block);
            let before = greatest.load();
            let mut next = before.clone();
            for (index, keys) in keys.iter().enumerate() {
                let mut score = dot(&query, 1, &keys.load(), 1) * scale;
                if let Some(cap) = soft_cap {
                    score = tanh(&(score / cap)) * cap;
                }
                let score = where_(within([rows, page], 1, index), &score, MASKED);
                next = maximum(&next, score.max_axes(axes(1).keepdims()));
                scores.push(score);
            }
            let decay = exp(&(before - &next));
            let mut weight = total.load() * &decay;
            let mut sum = sums.load() * &decay;
            for (index, (score, values)) in scores.iter().zip(*values).enumerate() {
                let weights = exp(&(score - &next));
                let weights = where_(within([rows, page], 1, index), &weights, 0.0);
                weight += weights.sum_axes(axes(1).keepdims());
                // Rows after the length may hold any number, also NaN.
                let values = values.load();
                let mask = within([page, h], 0, index);
                let values = select_wide(&mask, &values, &full_like(&values, 0));
                sum += dot(&convert_element_type(&weights, dtype), 1, &values, 0);
            }
            greatest.store(&next);
            total.store(&weight);
            sums.store(&sum);
        });
        kernel::when(eq(block, n_blocks as i32 - 1), || {
            let weight = total.load();
            let weight = where_(eq(&weight, 0.0), 1.0, &weight);
            output.store(convert_element_type(&(sums.load() / weight), dtype));
        });
    };
    let heads = || {
        BlockSpec::prefetched([None, None, Some(rows), Some(h)], |[s, head, _], [_, _, _, _]| {
            (s, head, 0, 0)
        })
    };
    let page_spec = |index: usize| {
        BlockSpec::prefetched(
            [None, None, Some(page), Some(h)],
            move |[s, head, block], [_, first, last, table]| {
                let number = block * (per_block as i32) + index as i32;
                (head, page_number(s, number, per_sequence, [first, last, table]), 0, 0)
            },
        )
    };
    let mut inputs = vec![heads()];
    inputs.extend((0..2 * per_block).map(|index| page_spec(index % per_block)));
    let output = Output::new(dtype, [b, key_heads, rows, h], heads());
    let grid = Grid::new([b, key_heads, n_blocks]).sequential(1);
    kernel::call(body, grid, inputs, [output]).name("paged_attention").prefetch(4).scratch([
        Scratch::vmem(DType::F32, [rows, 1]),
        Scratch::vmem(DType::F32, [rows, 1]),
        Scratch::vmem(DType::F32, [rows, h]),
    ])
}

/// Returns the kernel for a CPU: a program for each sequence and block of pages, which handles all
/// heads at once, in `f32`, without the rows that fill tiles.
pub(super) fn on_cpu(
    sizes: Sizes,
    rows: usize,
    dtype: DType,
    options: &PagedAttentionOptions,
) -> Kernel {
    let Sizes { b, key_heads, group, h, page, per_sequence, per_block, .. } = sizes;
    let n_blocks = per_sequence.div_ceil(per_block);
    let scale = options.scale.unwrap_or(1.0 / (h as f64).sqrt());
    let (soft_cap, window) = (options.soft_cap, options.window);
    let body = move |refs: Vec<Ref>| {
        let step = Step::new(&refs, per_block, 1);
        let Step { query, keys, values, output, greatest, total, sums, .. } = &step;
        let Step { block, start, length, is_used, .. } = &step;
        kernel::when(is_used, || {
            let f32 = |x: &Array| convert_element_type(x, DType::F32);
            let joined = |pages: &[Ref]| {
                let pages: Vec<Array> = pages.iter().map(Ref::load).collect();
                f32(&concatenate(pages, 1))
            };
            let batched = |lhs: &Array, rhs: &Array, rhs_axis: usize| {
                let numbers = DotGeneral {
                    lhs_contracting: vec![2],
                    rhs_contracting: vec![rhs_axis],
                    lhs_batch: vec![0],
                    rhs_batch: vec![0],
                    ..DotGeneral::default()
                };
                dot_general(lhs, rhs, numbers)
            };
            let within = |shape: [usize; 3], axis: usize| {
                let key = broadcasted_iota(DType::I32, shape, axis) + start * (page as i32);
                is_attended(&key, length, window)
            };
            let query = f32(&query.at((.., ..group, ..)).load());
            let mut scores = batched(&query, &joined(keys), 2) * scale;
            if let Some(cap) = soft_cap {
                scores = tanh(&(scores / cap)) * cap;
            }
            let mask = within([key_heads, group, per_block * page], 2);
            let scores = where_(&mask, &scores, MASKED);
            let before = greatest.load();
            let next = maximum(&before, scores.max_axes(axes(2).keepdims()));
            let decay = exp(&(before - &next));
            let weights = where_(&mask, exp(&(scores - &next)), 0.0);
            greatest.store(&next);
            total.store(total.load() * &decay + weights.sum_axes(axes(2).keepdims()));
            let values = joined(values);
            let is_value = within([key_heads, per_block * page, h], 1);
            let values = where_(&is_value, &values, full_like(&values, 0));
            sums.store(sums.load() * &decay + batched(&weights, &values, 1));
        });
        kernel::when(eq(block, n_blocks as i32 - 1), || {
            let weight = total.load();
            let weight = where_(eq(&weight, 0.0), 1.0, &weight);
            let means = convert_element_type(&(sums.load() / weight), dtype);
            output.at((.., ..group, ..)).store(means);
        });
    };
    let heads = || {
        BlockSpec::prefetched(
            [None, Some(key_heads), Some(rows), Some(h)],
            |[sequence, _], [_, _, _, _]| (sequence, 0, 0, 0),
        )
    };
    let page_spec = |index: usize| {
        BlockSpec::prefetched(
            [Some(key_heads), None, Some(page), Some(h)],
            move |[sequence, block], [_, first, last, table]| {
                let number = block * (per_block as i32) + index as i32;
                (0, page_number(sequence, number, per_sequence, [first, last, table]), 0, 0)
            },
        )
    };
    let mut inputs = vec![heads()];
    inputs.extend((0..2 * per_block).map(|index| page_spec(index % per_block)));
    let output = Output::new(dtype, [b, key_heads, rows, h], heads());
    let grid = Grid::new([b, n_blocks]).sequential(1);
    kernel::call(body, grid, inputs, [output]).name("paged_attention").prefetch(4).scratch([
        Scratch::vmem(DType::F32, [key_heads, group, 1]),
        Scratch::vmem(DType::F32, [key_heads, group, 1]),
        Scratch::vmem(DType::F32, [key_heads, group, h]),
    ])
}
