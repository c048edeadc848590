//! [`paged_attention`]: attention of one query per sequence to keys and values in pages.

use super::products::dot;
use crate::core::{Loc, RuleError, RuleResult, throw_operands};
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, Scratch};
use crate::ops::{axes, clip, floor_divide, pad, take_along_axis};
use crate::primitives::{
    bitwise_and, broadcasted_iota, convert_element_type, eq, exp, full_like, ge, gt, iota, le, lt,
    maximum, minimum, rem, reshape, slice_in_dim, tanh, transpose, where_, zeros, zeros_like,
};
use crate::{Array, DType, i};

/// The score of a key that a query does not attend to. It is finite, so that differences of scores
/// are numbers.
const MASKED: f32 = -1e30;

/// Options of [`paged_attention_with`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PagedAttentionOptions {
    /// Factor of the scores; `1 / √h` if `None`.
    pub scale: Option<f64>,
    /// Replaces a scaled score `s` by `cap · tanh(s / cap)`.
    #[doc(alias = "attn_logits_soft_cap")]
    pub soft_cap: Option<f64>,
    /// The number of last keys that a query attends to; all if `None`.
    #[doc(alias = "sliding_window")]
    pub window: Option<usize>,
    /// The number of pages that a program reads at once; about 128 keys if `None`.
    pub pages_per_block: Option<usize>,
    /// Runs the kernel with these blocks as a loop on every platform, to test it on a CPU.
    pub interpret: bool,
}

/// Returns [`paged_attention_with`] without options.
///
/// ```
/// use oxidax::kernels::paged_attention;
/// use oxidax::prelude::*;
/// let query = Aval::new(DType::BF16, [4, 16, 128]);
/// let pages = Aval::new(DType::BF16, [2, 64, 16, 128]);
/// let (lengths, table) = (Aval::new(DType::I32, [4]), Aval::new(DType::I32, [4, 8]));
/// let attention = |q: Array, k: Array, v: Array, lengths: Array, table: Array| {
///     paged_attention(&q, &k, &v, &lengths, &table)
/// };
/// let y = eval_shape(attention, (query, pages.clone(), pages, lengths, table))?;
/// assert_eq!(y.aval().to_string(), "bf16[4,16,128]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn paged_attention(
    query: &Array,
    key_pages: &Array,
    value_pages: &Array,
    lengths: &Array,
    page_table: &Array,
) -> Array {
    let options = PagedAttentionOptions::default();
    paged_attention_with(query, key_pages, value_pages, lengths, page_table, &options)
}

/// Returns the attention of one query per sequence, `[b, n, h]`, to the keys and values of the
/// sequence, which are stored in pages. Models use it to generate text for several sequences of
/// different lengths at once.
///
/// `key_pages` and `value_pages` are `[kh, pages, page size, h]`. Key `t` of sequence `s` is row
/// `t % page size` of the page `page_table[s, t / page size]`, where `page_table` is
/// `int[b, pages per sequence]`. `lengths`, `int[b]`, are the numbers of keys; the query is that of
/// the last key. If there are fewer key heads `kh` than query heads `n`, each key head serves
/// `n / kh` neighbouring query heads. The result is `[b, n, h]`, and 0 for a sequence of length 0.
///
/// Pages after the length, and before the window, are not read. Their entries of `page_table` are
/// ignored. Scores, weights and sums are computed in `f32`. The function has no derivative.
/// [`write_pages`] adds keys and values.
///
/// Throws `Op` (shape) if sizes do not fit, and `Op` (dtype) if the query and the pages are not
/// floats of one dtype of at most 32 bits, or the other operands are not integers.
///
/// Reference: Kwon et al., "Efficient memory management for large language model serving with
/// PagedAttention" (2023); Milakov and Gimelshein, "Online normalizer calculation for softmax"
/// (2018).
#[track_caller]
pub fn paged_attention_with(
    query: &Array,
    key_pages: &Array,
    value_pages: &Array,
    lengths: &Array,
    page_table: &Array,
    options: &PagedAttentionOptions,
) -> Array {
    let operands = [query, key_pages, value_pages, lengths, page_table];
    let sizes = match Sizes::new(operands, options) {
        Ok(sizes) => sizes,
        Err(error) => throw_operands("paged_attention", error, &operands),
    };
    Loc::caller().scope(|| attend(operands, sizes, options))
}

/// The sizes of the operands.
#[derive(Clone, Copy)]
struct Sizes {
    /// The number of sequences.
    b: usize,
    /// The numbers of key heads, and of query heads for each of them.
    key_heads: usize,
    group: usize,
    h: usize,
    n_pages: usize,
    page: usize,
    /// The number of pages of a sequence.
    per_sequence: usize,
    /// The number of pages of a block.
    per_block: usize,
}

impl Sizes {
    fn new(operands: [&Array; 5], options: &PagedAttentionOptions) -> RuleResult<Sizes> {
        let shapes = operands.map(|x| x.shape().dims());
        let ([b, n, h], [kh, n_pages, page, kd], values, [lb], [tb, per_sequence]) =
            (shapes[0], shapes[1], shapes[2], shapes[3], shapes[4])
        else {
            return Err(RuleError::shape(
                "takes a query [b, n, h], pages [kh, pages, page size, h], lengths [b] and a page \
                 table [b, pages per sequence]"
                    .to_string(),
            ));
        };
        if values != shapes[1] || kd != h || lb != b || tb != b {
            return Err(RuleError::shape(format!(
                "a query {} does not fit keys {}, values {}, lengths {} and page table {}",
                operands[0].shape(),
                operands[1].shape(),
                operands[2].shape(),
                operands[3].shape(),
                operands[4].shape()
            )));
        }
        if *kh == 0 || n % kh != 0 {
            let message = format!("{n} query heads are not a multiple of {kh} key heads");
            return Err(RuleError::shape(message));
        }
        if [*n_pages, *page, *h].contains(&0) {
            let message = format!("pages without elements, {}", operands[1].shape());
            return Err(RuleError::shape(message));
        }
        let dtype = operands[0].dtype();
        let others = [operands[1].dtype(), operands[2].dtype()];
        if !dtype.is_float() || dtype.bits() > 32 || others != [dtype; 2] {
            return Err(RuleError::dtype(format!(
                "takes a query and pages of one dtype, a float of at most 32 bits, got {dtype}, \
                 {} and {}",
                others[0], others[1]
            )));
        }
        let integers = [operands[3].dtype(), operands[4].dtype()];
        if !integers.iter().all(|dtype| dtype.is_integer()) {
            return Err(RuleError::dtype(format!(
                "takes integer lengths and page table, got {} and {}",
                integers[0], integers[1]
            )));
        }
        let wanted = options.pages_per_block.unwrap_or(128 / page);
        let (key_heads, group, h, n_pages, page) = (*kh, n / kh, *h, *n_pages, *page);
        let per_block = wanted.clamp(1, (*per_sequence).max(1));
        let (b, per_sequence) = (*b, *per_sequence);
        Ok(Sizes { b, key_heads, group, h, n_pages, page, per_sequence, per_block })
    }
}

fn attend(operands: [&Array; 5], sizes: Sizes, options: &PagedAttentionOptions) -> Array {
    let [query, keys, values, lengths, table] = operands;
    let Sizes { b, key_heads, group, h, n_pages, page, per_sequence, per_block } = sizes;
    if [b, per_sequence, group].contains(&0) {
        return convert_element_type(&zeros([b, key_heads * group, h]), query.dtype());
    }
    let lengths = convert_element_type(lengths, DType::I32);
    let lengths = clip(&lengths, 0, (per_sequence * page) as i32);
    let page_of = |key: &Array| floor_divide(maximum(key, 0), page as i32);
    let last = page_of(&(&lengths - 1));
    let first = match options.window {
        Some(window) => page_of(&(&lengths - window.min(i32::MAX as usize) as i32)),
        None => zeros_like(&lengths),
    };
    let first = minimum(&first, &last);
    let table = clip(&convert_element_type(table, DType::I32), 0, n_pages as i32 - 1);
    let table = reshape(&table, [b * per_sequence]);
    // The query heads of a key head are the rows of a block, whole tiles of them.
    let rows = group.next_multiple_of(16);
    let grouped = reshape(query, [b, key_heads, group, h]);
    let grouped = pad(&grouped, [(0, 0), (0, 0), (0, rows - group), (0, 0)]);
    let kernel = paged_kernel(sizes, rows, query.dtype(), options);
    let kernel = if options.interpret { kernel.interpret() } else { kernel };
    let mut inputs = vec![&lengths, &first, &last, &table, &grouped];
    inputs.extend(vec![keys; per_block]);
    inputs.extend(vec![values; per_block]);
    let means = kernel.apply1(&inputs);
    reshape(&slice_in_dim(&means, 0, group as isize, 1, 2), [b, key_heads * group, h])
}

fn paged_kernel(
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
        let [lengths, first, last, _, query] = std::array::from_fn(|index| refs[index].clone());
        let (keys, rest) = refs[5..].split_at(per_block);
        let (values, rest) = rest.split_at(per_block);
        let [output, greatest, total, sums] = std::array::from_fn(|index| rest[index].clone());
        let (sequence, block) = (kernel::program_id(0), kernel::program_id(2));
        let scalar = |of: &Ref| of.at((&sequence,)).load();
        let length = scalar(&lengths);
        kernel::when(eq(&block, 0), || {
            greatest.store(MASKED);
            total.store(0.0);
            sums.store(0.0);
        });
        let start = &block * (per_block as i32);
        let is_used = bitwise_and(
            bitwise_and(le(&start, scalar(&last)), gt(&length, 0)),
            gt(&start + per_block as i32, scalar(&first)),
        );
        kernel::when(is_used, || {
            let query = query.load();
            let within = |shape: [usize; 2], axis: usize, index: usize| {
                let first = (&start + index as i32) * (page as i32);
                let key = broadcasted_iota(DType::I32, shape, axis) + first;
                let mask = lt(&key, &length);
                match window {
                    Some(window) => {
                        bitwise_and(&mask, ge(&key, &length - window.min(1 << 30) as i32))
                    }
                    None => mask,
                }
            };
            let mut scores = Vec::with_capacity(per_block);
            let before = greatest.load();
            let mut next = before.clone();
            for (index, keys) in keys.iter().enumerate() {
                let mut score = dot(&query, 1, &keys.load(), 1) * scale;
                if let Some(cap) = soft_cap {
                    score = tanh(&(score / cap)) * cap;
                }
                let score = where_(&within([rows, page], 1, index), &score, MASKED);
                next = maximum(&next, score.max_axes(axes(1).keepdims()));
                scores.push(score);
            }
            let decay = exp(&(before - &next));
            let mut weight = total.load() * &decay;
            let mut sum = sums.load() * &decay;
            for (index, (score, values)) in scores.iter().zip(values).enumerate() {
                let weights = exp(&(score - &next));
                let weights = where_(&within([rows, page], 1, index), &weights, 0.0);
                weight = weight + weights.sum_axes(axes(1).keepdims());
                // Rows after the length may hold any number, also NaN.
                let values = values.load();
                let values = where_(&within([page, h], 0, index), &values, full_like(&values, 0));
                sum = sum + dot(&convert_element_type(&weights, dtype), 1, &values, 0);
            }
            greatest.store(&next);
            total.store(&weight);
            sums.store(&sum);
        });
        kernel::when(eq(&block, n_blocks as i32 - 1), || {
            let weight = total.load();
            let weight = where_(&eq(&weight, 0.0), 1.0, &weight);
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
                let number = maximum(number, first.at((&s,)).load());
                let number = minimum(number, last.at((&s,)).load());
                let entry = &s * (per_sequence as i32) + number;
                (head, table.at((&entry,)).load(), 0, 0)
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

/// Writes new keys and values, `[b, t, kh, h]`, into pages `[kh, pages, page size, h]`, after the
/// `lengths`, `int[b]`, keys that each sequence has. Returns the pages of keys and of values.
///
/// `page_table` is `int[b, pages per sequence]`, as in [`paged_attention_with`]. The caller has
/// assigned pages to all positions that are written. Positions after the last page of a sequence
/// are dropped, also all those of a sequence with a negative length. With [`jit`](crate::jit::jit())
/// and pages that are passed by value, the memory of the pages is reused.
///
/// Throws `Op` if shapes do not fit.
///
/// ```
/// use oxidax::kernels::write_pages;
/// use oxidax::prelude::*;
/// let pages = zeros([1, 4, 2, 3]);
/// let new = ones([1, 1, 1, 3]);
/// let (length, table) = (array![2i32], Array::from_slice(&[3i32, 1], [1, 2])?);
/// // Key 2 is the first row of the second page of the sequence.
/// let (keys, _) = write_pages(&pages, &pages, &new, &new, &length, &table);
/// assert_eq!(keys.index(i![0, 1, 0, 0]).item::<f32>()?, 1.0);
/// assert_eq!(keys.sum().item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn write_pages(
    key_pages: &Array,
    value_pages: &Array,
    keys: &Array,
    values: &Array,
    lengths: &Array,
    page_table: &Array,
) -> (Array, Array) {
    let operands = [key_pages, value_pages, keys, values, lengths, page_table];
    let shapes = operands.map(|x| x.shape().dims());
    let ([kh, n_pages, page, h], [b, t, heads, width], [lb], [tb, per_sequence]) =
        (shapes[0], shapes[2], shapes[4], shapes[5])
    else {
        let message = "takes pages [kh, pages, page size, h], keys and values [b, t, kh, h], \
                       lengths [b] and a page table [b, pages per sequence]";
        throw_operands("write_pages", RuleError::shape(message.to_string()), &operands);
    };
    let fits = (kh, h) == (heads, width) && b == lb && b == tb;
    if !fits || shapes[0] != shapes[1] || shapes[2] != shapes[3] {
        let message = format!(
            "pages {} and {} do not fit keys {} and values {}, lengths {} and page table {}",
            operands[0].shape(),
            operands[1].shape(),
            operands[2].shape(),
            operands[3].shape(),
            operands[4].shape(),
            operands[5].shape()
        );
        throw_operands("write_pages", RuleError::shape(message), &operands);
    }
    Loc::caller().scope(|| {
        let lengths = reshape(&convert_element_type(lengths, DType::I32), [*b, 1]);
        let table = convert_element_type(page_table, DType::I32);
        let position = &lengths + reshape(&iota(DType::I32, *t), [1, *t]);
        let capacity = (per_sequence * page) as i32;
        let is_inside = bitwise_and(ge(&lengths, 0), lt(&position, capacity));
        let within = clip(&position, 0, (capacity - 1).max(0));
        let pages = take_along_axis(&table, &floor_divide(&within, *page as i32), 1);
        // A page after the last one is dropped.
        let pages = reshape(&where_(&is_inside, &pages, *n_pages as i32), [b * t]);
        let rows = reshape(&rem(&within, *page as i32), [b * t]);
        let write = |into: &Array, new: &Array| {
            let new = convert_element_type(&transpose(new, &[2, 0, 1, 3]), into.dtype());
            let new = reshape(&new, [*kh, b * t, *h]);
            into.at(i![.., &pages, &rows]).set(&new)
        };
        (write(key_pages, keys), write(value_pages, values))
    })
}
