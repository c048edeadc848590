//! [`write_pages`]: new keys and values of sequences.

use crate::core::{Loc, RuleError, throw_operands};
use crate::ops::{clip, floor_divide, take_along_axis};
use crate::primitives::{
    bitwise_and, convert_element_type, ge, iota, lt, rem, reshape, transpose, where_,
};
use crate::{Array, DType, i};

/// Writes new keys and values, `[b, t, kh, h]`, into pages `[kh, pages, page size, h]`, after the
/// `lengths`, `int[b]`, keys that each sequence has. Returns the pages of keys and of values.
///
/// `page_table` is `int[b, pages per sequence]`, as in
/// [`paged_attention_with`](super::paged_attention_with). The caller has assigned pages to all
/// positions that are written. Positions after the last page of a sequence are dropped, also all
/// those of a sequence with a negative length. A compiled function reuses the memory of pages that
/// are passed by value.
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
