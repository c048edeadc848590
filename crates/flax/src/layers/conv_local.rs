//! Convolutions with a kernel for each position.

use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::nn::check::{expect_features, promoted_dtype};
use oxidax::nn::init;
use oxidax::prelude::*;
use oxidax::primitives::{ConvDimensionNumbers, ConvGeneralDilated};
use oxidax::random::Key;

/// A convolution of `[b, space…, in]`, channels last, with another kernel at each position of the
/// result.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::ConvLocal;
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         let layer = ConvLocal::new(key, &[26, 26], &[3, 3], 1, 4);
///         ConvLocal { padding: Padding::Valid, ..layer }.forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 28, 28, 1])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,26,26,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct ConvLocal {
    /// The kernels, `[output space…, product of the window · in, out]`.
    pub weight: Array,
    /// The bias of each position, `[output space…, out]`.
    pub bias: Option<Array>,
    /// The size of the window along each axis.
    #[tree(static)]
    pub window: Vec<usize>,
    /// The strides of the window along each axis. Empty means 1.
    #[tree(static)]
    pub strides: Vec<usize>,
    /// The padding of `x`. `Same` by default.
    #[tree(static)]
    pub padding: Padding,
    /// The dilation of the kernels along each axis. Empty means 1.
    #[tree(static)]
    pub dilation: Vec<usize>,
}

impl ConvLocal {
    /// Creates a layer in `f32` for outputs of this spatial size, with kernels drawn by
    /// [`init::lecun_normal`] and a zero bias.
    ///
    /// Throws `Op` (value) unless `space` and `window` have as many entries.
    #[track_caller]
    pub fn new(
        key: Key,
        space: &[usize],
        window: &[usize],
        n_in: usize,
        n_out: usize,
    ) -> ConvLocal {
        if space.len() != window.len() || window.is_empty() {
            let message = format!("an output of {space:?} and a window of {window:?}");
            throw_operands("ConvLocal", RuleError::value(message), &[]);
        }
        let n_rows = window.iter().product::<usize>() * n_in;
        let weight = init::lecun_normal(key, [space, &[n_rows, n_out]].concat());
        let bias = Some(zeros([space, &[n_out]].concat()));
        let (window, strides, dilation) = (window.to_vec(), Vec::new(), Vec::new());
        ConvLocal { weight, bias, window, strides, padding: Padding::Same, dilation }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> ConvLocal {
        ConvLocal { bias: None, ..self }
    }

    /// Applies the layer, `[b, space…, in] → [b, output space…, out]`.
    ///
    /// Throws `Op` (shape) if `x` does not fit the kernels.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let n = self.window.len();
        if x.rank() != n + 2 || self.weight.rank() != n + 2 {
            let message = format!(
                "x {} needs axes [b, {n} of space, channels] for `weight` {}",
                x.aval(),
                self.weight.aval()
            );
            throw_operands("ConvLocal", RuleError::shape(message), &[x, &self.weight]);
        }
        let n_in = self.weight.shape()[n] / self.window.iter().product::<usize>().max(1);
        expect_features("ConvLocal", x, "weight", &self.weight, n_in);
        let mut leaves = vec![("weight", &self.weight)];
        leaves.extend(self.bias.iter().map(|bias| ("bias", bias)));
        let dtype = promoted_dtype("ConvLocal", x, &leaves);
        let spec = |outer: [usize; 2], first: usize| -> Vec<usize> {
            outer.into_iter().chain(first..first + n).collect()
        };
        let options = ConvGeneralDilated {
            window_strides: self.strides.clone(),
            padding: self.padding.clone(),
            rhs_dilation: self.dilation.clone(),
            dimension_numbers: ConvDimensionNumbers {
                lhs_spec: spec([0, n + 1], 1),
                rhs_spec: spec([n + 1, n], 0),
                out_spec: spec([0, n + 1], 1),
            },
            ..ConvGeneralDilated::default()
        };
        let (x, weight) = (x.astype(dtype), self.weight.astype(dtype));
        let y = conv_general_dilated_local(&x, &weight, &self.window, &options);
        Loc::caller().scope(|| match &self.bias {
            Some(bias) => y + bias.astype(dtype),
            None => y,
        })
    }
}
