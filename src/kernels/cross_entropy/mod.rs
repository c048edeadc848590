//! Cross entropy of a linear layer's logits, which are never stored.

mod arithmetic;
mod backward;
mod forward;
mod problem;

use crate::control_flow::custom_vjp;
use crate::core::{RuleError, throw_operands};
use crate::primitives::{convert_element_type, reshape, zeros, zeros_like};
use crate::{Array, DType};
use problem::Problem;

/// The order of the axes of the matrix that maps features to logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeadLayout {
    /// `[vocabulary, features]`, as an embedding that the head shares.
    #[default]
    VocabularyFirst,
    /// `[features, vocabulary]`, as a linear layer.
    FeaturesFirst,
}

/// Options of [`linear_cross_entropy_with`].
#[derive(Clone, Debug, Default)]
pub struct LinearCrossEntropyOptions {
    /// The order of the axes of `w`.
    pub layout: HeadLayout,
    /// Added to the logits, `[vocabulary]`, of the dtype of `w`.
    pub bias: Option<Array>,
    /// The label of rows whose loss and gradient are 0.
    pub ignore_index: Option<i32>,
    /// The weight that all classes share evenly, in `0..=1`.
    pub label_smoothing: f64,
    /// The factor of the squared logsumexp that is added to the loss, which keeps logits small.
    pub z_loss: f64,
    /// The bound `c` of the logits `z`, which become `c · tanh(z / c)`.
    #[doc(alias = "softcap")]
    pub soft_cap: Option<f64>,
    /// The number of rows and of classes of a block, on all platforms. By default blocks are chosen
    /// by the sizes, and are larger on CPUs.
    pub block_sizes: Option<(usize, usize)>,
}

/// Returns the cross entropy, in nats, of labels under `softmax(x · wᵀ)`:
/// [`linear_cross_entropy_with`] without options.
///
/// ```
/// use oxidax::kernels::linear_cross_entropy;
/// use oxidax::prelude::*;
/// let loss = |x: &Array, w: &Array, next: &Array| linear_cross_entropy(x, w, next).mean();
/// let step = move |x: Array, w: Array, next: Array| {
///     value_and_grad(|(x, w): &(Array, Array)| loss(x, w, &next))(&(x, w))
/// };
/// let x = Aval::new(DType::BF16, [4, 1024, 768]);
/// let w = Aval::new(DType::BF16, [50257, 768]);
/// let next = Aval::new(DType::I32, [4, 1024]);
/// let (loss, (_, dw)) = eval_shape(step, (x, w, next))?;
/// assert_eq!(loss.aval().to_string(), "f32[]");
/// assert_eq!(dw.aval().to_string(), "bf16[50257,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias("fused_linear_cross_entropy", "cut_cross_entropy"))]
#[track_caller]
pub fn linear_cross_entropy(x: &Array, w: &Array, labels: &Array) -> Array {
    linear_cross_entropy_with(x, w, labels, &LinearCrossEntropyOptions::default())
}

/// Returns the cross entropy, in nats, of labels under the softmax of a linear layer's logits.
///
/// `x` is `float[…, d]`, `w` is `[vocabulary, d]` or `[d, vocabulary]` of the same dtype, and
/// `labels` are `int[…]`. The result is `f32[…]`. With logits `z`, their logsumexp `s`, label `y`
/// and smoothing `a`, the loss of a row is `s - (1 - a) · z[y] - a · mean(z) + z_loss · s²`. It is
/// NaN for a label outside of the vocabulary.
///
/// Blocks of logits are computed where they are needed and are not stored, in the forward pass and
/// again in the backward pass. So memory is that of operands, results and gradients. Logits and
/// sums are `f32`. Gradients of blocks of logits are rounded to the dtype of the operands before
/// they are multiplied.
///
/// Throws `Op` (shape) if sizes do not fit, `Op` (dtype) unless `x`, `w` and the bias are of one
/// dtype, `bf16`, `f16` or `f32`, and labels are integers, and `Op` (value) for a smoothing outside
/// of `0..=1` and a bound that is not positive.
///
/// # References
/// Wijmans et al., "Cut your losses in large-vocabulary language models" (2024); Hsu et al., "Liger
/// kernel: efficient Triton kernels for LLM training" (2024); Milakov, Gimelshein, "Online
/// normalizer calculation for softmax" (2018).
#[track_caller]
pub fn linear_cross_entropy_with(
    x: &Array,
    w: &Array,
    labels: &Array,
    options: &LinearCrossEntropyOptions,
) -> Array {
    linear_cross_entropy_with_lse(x, w, labels, options).0
}

/// Returns the loss of [`linear_cross_entropy_with`] and the logsumexp of the logits, `f32[…]`
/// each. Both have derivatives.
///
/// Throws as [`linear_cross_entropy_with`] does.
#[track_caller]
pub fn linear_cross_entropy_with_lse(
    x: &Array,
    w: &Array,
    labels: &Array,
    options: &LinearCrossEntropyOptions,
) -> (Array, Array) {
    let problem = match Problem::new(x, w, labels, options) {
        Ok(problem) => problem,
        Err(error) => throw_operands("linear_cross_entropy", error, &[x, w, labels]),
    };
    let shape = labels.shape().clone();
    if problem.rows == 0 {
        return (zeros((shape.clone(), DType::F32)), zeros((shape, DType::F32)));
    }
    let mut operands = vec![
        reshape(x, [problem.rows, problem.features]),
        w.clone(),
        reshape(&convert_element_type(labels, DType::I32), [1, problem.rows]),
    ];
    operands.extend(options.bias.as_ref().map(|bias| reshape(bias, [problem.vocabulary, 1])));
    let results = rows(&problem, operands);
    let [loss, lse] = [&results.0, &results.1].map(|row| reshape(row, &shape));
    (loss, lse)
}

/// Returns loss and logsumexp, `f32[1, n]` each, of `x: [n, d]`, `w`, labels `i32[1, n]` and the
/// bias `[vocabulary, 1]`, if there is one.
#[track_caller]
fn rows(problem: &Problem, operands: Vec<Array>) -> (Array, Array) {
    let (plain, with_rule, of_rule) = (problem.clone(), problem.clone(), problem.clone());
    let function = custom_vjp(
        move |operands: &Vec<Array>| plain.forward(operands),
        move |operands: &Vec<Array>| {
            let (loss, lse) = with_rule.forward(operands);
            ((loss, lse.clone()), (operands.clone(), lse))
        },
        move |(operands, lse): &(Vec<Array>, Array), (loss_ct, lse_ct): &(Array, Array)| {
            let mut gradients = of_rule.backward(operands, lse, loss_ct, lse_ct);
            gradients.insert(2, zeros_like(&operands[2]));
            gradients
        },
    );
    function(&operands)
}

/// Checks that a number is a label smoothing.
fn check_smoothing(smoothing: f64) -> Result<(), RuleError> {
    if (0.0..=1.0).contains(&smoothing) {
        return Ok(());
    }
    Err(RuleError::value(format!("label_smoothing must be in 0..=1, got {smoothing}")))
}
