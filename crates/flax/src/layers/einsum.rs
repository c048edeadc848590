//! A layer that is an Einstein sum.

use oxidax::core::{RuleError, throw_operands};
use oxidax::nn::check::promoted_dtype;
use oxidax::nn::init;
use oxidax::prelude::*;
use oxidax::random::Key;

/// A layer that computes `einsum(equation, x, weight) + bias`.
///
/// The bias has the axes of the result that come from the weight.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::Einsum;
/// let y = eval_shape(
///     |key: random::Key, x: Array| Einsum::new(key, "btd,dnh->btnh", [64, 4, 16]).forward(&x),
///     (random::Key::of_type(), Aval::new(DType::F32, [2, 10, 64])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[2,10,4,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Einsum {
    /// The weight, the second operand of the equation.
    pub weight: Array,
    /// The bias: the axes of the result that the weight has, in the order of the result.
    pub bias: Option<Array>,
    /// The equation, `x,weight->y`, with one letter per axis. `...` stands for axes of `x`.
    #[tree(static)]
    pub equation: String,
}

impl Einsum {
    /// Creates a layer in `f32` with a weight of this shape, drawn by [`init::lecun_normal`], and a
    /// zero bias.
    ///
    /// Throws `Op` (value) unless the equation has the form `x,weight->y`.
    #[track_caller]
    pub fn new(key: Key, equation: &str, weight: impl AsRef<[usize]>) -> Einsum {
        Einsum::with_weight(equation, init::lecun_normal(key, weight.as_ref().to_vec()))
    }

    /// Creates a layer with this weight and a zero bias of its dtype.
    ///
    /// Throws `Op` (value) unless the equation has the form `x,weight->y`, and (shape) unless the
    /// weight has an axis for each letter.
    #[track_caller]
    pub fn with_weight(equation: &str, weight: Array) -> Einsum {
        let equation: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
        let dims = bias_dims(&equation, &weight);
        let shape: Vec<usize> = dims.iter().flatten().copied().collect();
        let bias = Some(zeros((shape, weight.dtype())));
        Einsum { weight, bias, equation }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Einsum {
        Einsum { bias: None, ..self }
    }

    /// Applies the layer. The result has the dtype that `x` and the leaves promote to.
    ///
    /// Throws `Op` (shape) if `x` does not fit the equation.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let dims = bias_dims(&self.equation, &self.weight);
        let mut leaves = vec![("weight", &self.weight)];
        leaves.extend(self.bias.iter().map(|bias| ("bias", bias)));
        let dtype = promoted_dtype("Einsum", x, &leaves);
        let y = einsum(&self.equation, [&x.astype(dtype), &self.weight.astype(dtype)]);
        let Some(bias) = &self.bias else { return y };
        let dims: Vec<usize> = dims.iter().map(|size| size.unwrap_or(1)).collect();
        y + bias.astype(dtype).reshape(dims)
    }
}

/// Returns the size of each axis of the result that the weight has, after the axes of `...`. Axes
/// that come from `x` are `None`.
#[track_caller]
fn bias_dims(equation: &str, weight: &Array) -> Vec<Option<usize>> {
    let parts = equation.split_once("->").and_then(|(operands, result)| {
        operands.split_once(',').map(|(_, weight)| (weight, result))
    });
    let Some((letters, result)) = parts.filter(|(letters, _)| !letters.contains(',')) else {
        let message = format!("`{equation}` is not an equation of two operands");
        let error = RuleError::value(message).help("write `x,weight->y`, such as \"btd,df->btf\"");
        throw_operands("Einsum", error, &[weight]);
    };
    if letters.chars().count() != weight.rank() || letters.contains('.') {
        let message = format!("`{letters}` does not name the axes of `weight` {}", weight.aval());
        throw_operands("Einsum", RuleError::shape(message), &[weight]);
    }
    let size = |letter| letters.chars().position(|l| l == letter).map(|axis| weight.shape()[axis]);
    result.trim_start_matches('.').chars().map(size).collect()
}
