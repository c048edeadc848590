//! Attention whose scores are never stored: [`flash_attention`].

mod backward;
mod call;
mod dropout;
mod forward;
mod geometry;
mod options;
mod products;

pub(super) use call::{Inputs, attend, backward};
pub(super) use forward::excluded;
pub(super) use geometry::Geometry;
pub use options::FlashAttentionOptions;
pub(super) use options::{Layout, to_key_layout, to_query_layout};

use crate::control_flow::custom_vjp;
use crate::core::{Array, Loc};
use crate::primitives::reduce_sum;

/// Returns scaled dot-product attention, [`flash_attention_with`] without options: every query
/// attends to all keys.
#[track_caller]
pub fn flash_attention(query: &Array, key: &Array, value: &Array) -> Array {
    flash_attention_with(query, key, value, &FlashAttentionOptions::default())
}

/// Returns scaled dot-product attention: means of the values, weighted by
/// `softmax(scale * query · key)` over the allowed keys. Queries are `[b, t, n, h]`, keys
/// `[b, s, k, h]`, values `[b, s, k, v]`, and the result is `[b, t, n, v]`.
///
/// Kernels go through blocks of queries and keys, and the `t · s` scores of a head are never
/// stored. The backward pass computes them again from the queries, the keys and one number for each
/// query. So memory is linear in the lengths.
///
/// If there are fewer key heads `k` than query heads `n`, each key head serves `n / k` neighbouring
/// query heads. Operands are floats of one dtype; statistics and sums are `f32` for narrower
/// floats. A query without allowed keys gets 0 and has the gradient 0, where
/// [`dot_product_attention`](crate::nn::dot_product_attention) gives the mean of the values. There
/// is a gradient, and no derivative of the gradient or in forward mode.
///
/// Throws `Op` (shape) if sizes do not fit, `Op` (dtype) if the dtypes differ or are not floats,
/// and `Op` (value) for one of two segment arrays or a dropout rate outside of `0..1`.
///
/// ```
/// use oxidax::kernels::{FlashAttentionOptions, flash_attention_with};
/// use oxidax::prelude::*;
/// let (q, k) = (Aval::new(DType::BF16, [2, 512, 8, 64]), Aval::new(DType::BF16, [2, 512, 2, 64]));
/// let options = FlashAttentionOptions { is_causal: true, ..FlashAttentionOptions::default() };
/// let loss = move |q: Array, k: Array, v: Array| {
///     grad(|q: &Array| flash_attention_with(q, &k, &v, &options).astype(DType::F32).sum())(&q)
/// };
/// let gradient = eval_shape(loss, (q, k.clone(), k))?;
/// assert_eq!(gradient.aval().to_string(), "bf16[2,512,8,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), for the sums; Dao et
/// al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness" (2022), and
/// Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning" (2023),
/// for the blocks and the backward pass.
#[doc(alias = "splash_attention")]
#[doc(alias = "scaled_dot_product_attention")]
#[track_caller]
pub fn flash_attention_with(
    query: &Array,
    key: &Array,
    value: &Array,
    options: &FlashAttentionOptions,
) -> Array {
    Loc::caller().scope(|| {
        let layout = Layout::of("flash_attention", [query, key, value], options);
        let geometry = layout.geometry(options, 1);
        let inputs = Inputs {
            q: to_query_layout(query, &layout),
            k: to_key_layout(key),
            v: to_key_layout(value),
            segments: options.segments(),
            scalars: options.scalars(),
        };
        let out = differentiable(&geometry, &inputs);
        layout.from_kernel_layout(&out)
    })
}

/// Returns the results in the layout of the kernels, with their derivative.
#[track_caller]
fn differentiable(geometry: &Geometry, inputs: &Inputs) -> Array {
    let (of_value, of_forward, of_backward) =
        (geometry.clone(), geometry.clone(), geometry.clone());
    let attention = custom_vjp(
        move |inputs: &Inputs| attend(&of_value, inputs).0,
        move |inputs: &Inputs| {
            let (out, lse) = attend(&of_forward, inputs);
            (out.clone(), (inputs.clone(), out, lse))
        },
        move |(inputs, out, lse): &(Inputs, Array, Array), ct: &Array| {
            let wide = |x: &Array| x.astype(of_backward.wide());
            let [heads, group, t] = [of_backward.heads, of_backward.group, of_backward.t];
            let delta = reduce_sum(&(wide(out) * wide(ct)), &[2]).reshape([heads, group, 1, t]);
            let [q, k, v] = backward(&of_backward, inputs, ct, [lse, &delta]);
            Inputs { q, k, v, ..inputs.clone() }
        },
    );
    attention(inputs)
}
