//! The linear layer.

use super::check::{expect_features, expect_vector, promoted_dtype};
use super::init;
use crate::core::{Array, Loc, Shape};
use crate::ops::matmul;
use crate::primitives::{convert_element_type, zeros};
use crate::random::Key;
use crate::tree::Tree;

/// A linear layer: `y = x · weight + bias`.
///
/// The weight is stored as `[in, out]`. `x` may have any number of batch axes before the last axis.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |key: random::Key, x: Array| nn::Linear::new(key, 784, 10).forward(&x),
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 128, 784])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,128,10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
#[doc(alias = "Dense")]
pub struct Linear {
    /// The weight matrix, `[in, out]`.
    pub weight: Array,
    /// The bias, `[out]`.
    pub bias: Option<Array>,
}

impl Linear {
    /// Creates a layer from `n_in` to `n_out` features in `f32`, with a weight drawn by
    /// [`init::lecun_normal`] and a zero bias.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, n_out: usize) -> Linear {
        Linear::with_weight(init::lecun_normal(key, [n_in, n_out]))
    }

    /// Creates a layer with this weight, `[in, out]`, and a zero bias of its dtype.
    /// [`with_bias`](Self::with_bias) follows for a given bias.
    ///
    /// Throws `Op` (shape) unless the weight has two axes.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let weight = nn::init::he_normal(random::key(0), ([784, 1024], DType::BF16));
    /// let layer = nn::Linear::with_weight(weight);
    /// ```
    #[track_caller]
    pub fn with_weight(weight: Array) -> Linear {
        let [_, n_out] = weight.dims();
        let bias = zeros((Shape::new(&[n_out]), weight.dtype()));
        Linear { weight, bias: Some(bias) }
    }

    /// Replaces the bias by this one, `[out]`.
    ///
    /// Throws `Op` (shape) if its size does not fit the weight.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let (w, b) = (array![[1.0, 2.0], [3.0, 4.0]], array![0.5, -0.5]);
    /// let layer = nn::Linear::with_weight(w).with_bias(b);
    /// assert_eq!(layer.forward(&array![1.0, 1.0]).to_vec::<f32>()?, [4.5, 5.5]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn with_bias(self, bias: Array) -> Linear {
        let [_, n_out] = self.weight.dims();
        expect_vector("Linear", "bias", &bias, n_out, &self.weight);
        Linear { bias: Some(bias), ..self }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Linear {
        Linear { bias: None, ..self }
    }

    /// Computes `x · weight + bias`, `[…, in] → […, out]`, in the dtype that `x` and the leaves
    /// promote to.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `in`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let [n_in, _] = self.weight.dims();
        expect_features("Linear", x, "weight", &self.weight, n_in);
        let mut leaves = vec![("weight", &self.weight)];
        leaves.extend(self.bias.iter().map(|bias| ("bias", bias)));
        let dtype = promoted_dtype("Linear", x, &leaves);
        let cast = |x: &Array| convert_element_type(x, dtype);
        let y = matmul(&cast(x), &cast(&self.weight));
        Loc::caller().scope(|| match &self.bias {
            Some(bias) => y + cast(bias),
            None => y,
        })
    }
}
