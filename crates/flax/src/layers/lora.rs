//! Low-rank adaptation.

use oxidax::nn::check::{expect_features, promoted_dtype};
use oxidax::nn::init;
use oxidax::optim::Mask;
use oxidax::prelude::*;
use oxidax::random::Key;

/// A product of two narrow matrices, `x · a · b`, that adapts a frozen layer.
///
/// `b` is zero at first, so that the adapted layer equals the frozen layer.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::Lora;
/// let y = eval_shape(
///     |key: random::Key, x: Array| Lora::new(key, 768, 8, 3072).forward(&x),
///     (random::Key::of_type(), Aval::new(DType::F32, [4, 768])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[4,3072]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Hu et al.: LoRA: low-rank adaptation of large language models (2021), equation 3.
#[derive(Clone, Debug, Tree)]
#[doc(alias = "LoRA")]
pub struct Lora {
    /// The first matrix, `[in, rank]`.
    #[doc(alias = "lora_a")]
    pub a: Array,
    /// The second matrix, `[rank, out]`.
    #[doc(alias = "lora_b")]
    pub b: Array,
}

impl Lora {
    /// Creates an adapter in `f32` with `a` drawn by [`init::he_uniform`] and `b` zero.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, rank: usize, n_out: usize) -> Lora {
        Lora { a: init::he_uniform(key, [n_in, rank]), b: zeros([rank, n_out]) }
    }

    /// Computes `x · a · b`, `[…, in] → […, out]`.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `in`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let [n_in, _] = self.a.dims();
        expect_features("Lora", x, "a", &self.a, n_in);
        let dtype = promoted_dtype("Lora", x, &[("a", &self.a), ("b", &self.b)]);
        let [x, a, b] = [x, &self.a, &self.b].map(|array| array.astype(dtype));
        matmul(&matmul(&x, &a), &b)
    }
}

/// A [`Linear`](nn::Linear) layer with an adapter: `x · weight + bias + x · a · b`.
///
/// [`lora_mask`] selects the leaves of the adapters for an optimizer.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{LoraLinear, lora_mask};
/// let [base, adapter] = random::key(0).split();
/// let layer = LoraLinear::new(adapter, nn::Linear::new(base, 4, 3), 2);
/// let optimizer = optim::masked(optim::sgd(0.1), lora_mask());
/// let x = ones([1, 4]);
/// let loss = |layer: &LoraLinear| layer.forward(&x).sum();
/// let gradients = grad(loss)(&layer);
/// let frozen = optim::masked(optim::set_to_zero(), lora_mask().not());
/// let chain = optim::chain([optimizer, frozen]);
/// let (updates, _) = chain.update(&gradients, &chain.init(&layer), &layer);
/// assert_eq!(updates.base.weight.to_vec::<f32>()?, [0.0; 12]);
/// assert!(updates.lora.b.to_vec::<f32>()?.iter().any(|&x| x != 0.0));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
#[doc(alias = "LoRALinear")]
pub struct LoraLinear {
    /// The layer that is adapted.
    pub base: nn::Linear,
    /// The adapter.
    pub lora: Lora,
}

impl LoraLinear {
    /// Adapts a layer by matrices of this rank.
    #[track_caller]
    pub fn new(key: Key, base: nn::Linear, rank: usize) -> LoraLinear {
        let [n_in, n_out] = base.weight.dims();
        LoraLinear { base, lora: Lora::new(key, n_in, rank, n_out) }
    }

    /// Applies the layer and the adapter, `[…, in] → […, out]`.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `in`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.base.forward(x) + self.lora.forward(x)
    }

    /// Returns a layer whose weight is `weight + a · b`, which computes the same.
    ///
    /// The weight keeps its dtype.
    #[track_caller]
    pub fn merged(&self) -> nn::Linear {
        let dtype = self.base.weight.dtype();
        let [a, b] = [&self.lora.a, &self.lora.b].map(|array| array.astype(dtype));
        let weight = &self.base.weight + matmul(&a, &b);
        nn::Linear { weight, bias: self.base.bias.clone() }
    }
}

/// Returns a mask of the leaves of all adapters in a model: those whose field is named `lora`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::lora_mask;
/// let aval = Aval::new(DType::F32, [4, 8]);
/// assert!(lora_mask().contains("blocks.0.query.lora.a", &aval));
/// assert!(!lora_mask().contains("blocks.0.query.base.weight", &aval));
/// ```
#[doc(alias = "LoRAParam")]
pub fn lora_mask() -> Mask {
    Mask::new(|path, _| path.split('.').any(|name| name == "lora"))
}
