//! A linear layer over several axes.

use oxidax::core::{RuleError, throw_operands};
use oxidax::nn::check::promoted_dtype;
use oxidax::nn::init;
use oxidax::prelude::*;
use oxidax::primitives::DotGeneral;
use oxidax::random::Key;

/// A linear layer that contracts several axes of `x` and produces several axes of features.
///
/// The result has the axes `[batch…, other axes of x…, out…]`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{LinearGeneral, LinearGeneralOptions};
/// // Combines 8 heads of 64 features to 512.
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         let options = LinearGeneralOptions { axes: vec![-2, -1], ..Default::default() };
///         LinearGeneral::with_options(key, &[8, 64], &[512], options).forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [2, 10, 8, 64])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[2,10,512]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
#[doc(alias = "DenseGeneral")]
pub struct LinearGeneral {
    /// The weight, `[batch…, in…, out…]`.
    pub weight: Array,
    /// The bias, `[batch…, out…]`.
    pub bias: Option<Array>,
    /// The axes of `x` that are contracted with `in…`, in the same order. Negative axes count from
    /// the end.
    #[tree(static)]
    pub axes: Vec<isize>,
    /// The axes of `x` along which each index has its own weight.
    #[doc(alias = "batch_axis")]
    #[tree(static)]
    pub batch_axes: Vec<isize>,
}

/// Options of [`LinearGeneral::with_options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearGeneralOptions {
    /// The axes of `x` that are contracted. The last axis by default.
    pub axes: Vec<isize>,
    /// The axes of `x` along which each index has its own weight, with their sizes. None by
    /// default.
    pub batch_axes: Vec<(isize, usize)>,
}

impl Default for LinearGeneralOptions {
    fn default() -> LinearGeneralOptions {
        LinearGeneralOptions { axes: vec![-1], batch_axes: Vec::new() }
    }
}

impl LinearGeneral {
    /// Creates a layer in `f32` that contracts the last axis of `x` and produces the axes
    /// `features`, with a zero bias.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, features: &[usize]) -> LinearGeneral {
        LinearGeneral::with_options(key, &[n_in], features, LinearGeneralOptions::default())
    }

    /// Creates a layer in `f32` from axes of sizes `n_in` to axes of sizes `features`.
    ///
    /// The weight is drawn by [`init::lecun_normal`] as a matrix of `n_in` rows for each batch
    /// entry. The bias is zero.
    ///
    /// Throws `Op` (value) unless there are as many axes as sizes.
    #[track_caller]
    pub fn with_options(
        key: Key,
        n_in: &[usize],
        features: &[usize],
        options: LinearGeneralOptions,
    ) -> LinearGeneral {
        let LinearGeneralOptions { axes, batch_axes } = options;
        if axes.len() != n_in.len() {
            let message = format!("{} axes {axes:?} for {n_in:?} inputs", axes.len());
            throw_operands("LinearGeneral", RuleError::value(message), &[]);
        }
        let (batch_axes, batch): (Vec<isize>, Vec<usize>) = batch_axes.into_iter().unzip();
        let n_rows = batch.iter().chain(n_in).product::<usize>();
        let flat = init::lecun_normal(key, [n_rows, features.iter().product::<usize>()]);
        let weight = flat.reshape([&batch[..], n_in, features].concat());
        let bias = Some(zeros([&batch[..], features].concat()));
        LinearGeneral { weight, bias, axes, batch_axes }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> LinearGeneral {
        LinearGeneral { bias: None, ..self }
    }

    /// Applies the layer. The result has the dtype that `x` and the leaves promote to.
    ///
    /// Throws `Op` (shape) if the sizes of `x` and the weight differ, or an axis is out of range.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let (axes, batch) = (self.positions(x, &self.axes), self.positions(x, &self.batch_axes));
        let n_batch = batch.len();
        let n_out = self.weight.rank().saturating_sub(n_batch + axes.len());
        let sizes: Vec<usize> = batch.iter().chain(&axes).map(|&axis| x.shape()[axis]).collect();
        if self.weight.rank() < sizes.len() || self.weight.shape()[..sizes.len()] != sizes[..] {
            let message = format!(
                "axes {:?} and batch axes {:?} of x {} have sizes {sizes:?}, `weight` is {}",
                self.axes,
                self.batch_axes,
                x.aval(),
                self.weight.aval()
            );
            throw_operands("LinearGeneral", RuleError::shape(message), &[x, &self.weight]);
        }
        let mut leaves = vec![("weight", &self.weight)];
        leaves.extend(self.bias.iter().map(|bias| ("bias", bias)));
        let dtype = promoted_dtype("LinearGeneral", x, &leaves);
        let dimensions = DotGeneral {
            lhs_contracting: axes.clone(),
            rhs_contracting: (n_batch..n_batch + axes.len()).collect(),
            lhs_batch: batch,
            rhs_batch: (0..n_batch).collect(),
            ..DotGeneral::default()
        };
        let y = dot_general(&x.astype(dtype), &self.weight.astype(dtype), dimensions);
        let Some(bias) = &self.bias else { return y };
        // The axes of `x` that remain are between the batch axes and the features.
        let mut dims = vec![1; y.rank()];
        dims[..n_batch].copy_from_slice(&bias.shape()[..n_batch]);
        let first = y.rank() - n_out;
        dims[first..].copy_from_slice(&bias.shape()[n_batch..]);
        y + bias.astype(dtype).reshape(dims)
    }

    /// Returns axes of `x` as positions from the front.
    #[track_caller]
    fn positions(&self, x: &Array, axes: &[isize]) -> Vec<usize> {
        let rank = x.rank() as isize;
        let mut positions = Vec::with_capacity(axes.len());
        for &axis in axes {
            let position = if axis < 0 { axis + rank } else { axis };
            if !(0..rank).contains(&position) {
                let message = format!("axis {axis} is out of range for x {}", x.aval());
                throw_operands("LinearGeneral", RuleError::shape(message), &[x]);
            }
            positions.push(position as usize);
        }
        positions
    }
}
