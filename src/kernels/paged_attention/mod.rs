//! [`paged_attention`]: attention of one query per sequence to keys and values in pages.

mod kernels;
mod write_pages;

pub use write_pages::write_pages;

use super::scoped::{ScopedBlocks, combinations};
use crate::core::{Loc, RuleError, RuleResult, throw_operands};
use crate::kernel::KernelTarget;
use crate::ops::{clip, floor_divide, pad};
use crate::primitives::{
    convert_element_type, maximum, minimum, reshape, slice_in_dim, zeros, zeros_like,
};
use crate::{Array, DType};

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

/// The numbers of pages of a block that a table in scope chooses from.
const CANDIDATES: [usize; 5] = [1, 2, 4, 8, 16];

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
    // The query heads of a key head are the rows of a block: whole tiles, and a power of two.
    let rows = group.next_power_of_two().max(16);
    let grouped = reshape(query, [b, key_heads, group, h]);
    let grouped = pad(&grouped, [(0, 0), (0, 0), (0, rows - group), (0, 0)]);
    // A block of pages is as many operands.
    let inputs = |per_block: usize| {
        let mut inputs = vec![&lengths, &first, &last, &table, &grouped];
        inputs.extend(vec![keys; per_block]);
        inputs.extend(vec![values; per_block]);
        inputs
    };
    let of_pages = |per_block: usize| Sizes { per_block, ..sizes };
    let scoped = match options.pages_per_block {
        Some(_) => None,
        None => {
            let candidates = combinations([(per_sequence, &CANDIDATES)]);
            let build = |_: KernelTarget, blocks: &[usize]| {
                let kernel = kernels::blocks(of_pages(blocks[0]), rows, query.dtype(), options);
                (kernel, inputs(blocks[0]))
            };
            ScopedBlocks::of_calls("paged_attention", &inputs(1), &candidates, build).either()
        }
    };
    let per_block = scoped.map_or(per_block, |blocks| blocks[0].min(per_sequence));
    let sizes = of_pages(per_block);
    let kernel = kernels::blocks(sizes, rows, query.dtype(), options);
    let kernel = match options.interpret {
        true => kernel.interpret(),
        false => kernel.on_cpu(kernels::on_cpu(sizes, rows, query.dtype(), options)),
    };
    let means = kernel.apply1(&inputs(per_block));
    reshape(&slice_in_dim(&means, 0, group as isize, 1, 2), [b, key_heads * group, h])
}
