//! Multilayer perceptrons, plain and gated.

use super::Linear;
use crate::core::{Array, RuleError, throw_operands};
use crate::ops::{GeluOptions, gelu, gelu_with, relu, sigmoid, silu};
use crate::primitives::tanh;
use crate::random::{self, Key};
use crate::tree::Tree;

/// An activation function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// [`relu`].
    #[default]
    Relu,
    /// [`gelu`], approximated with `tanh`.
    Gelu,
    /// `gelu` with `approximate: false`, computed with `erf`.
    GeluExact,
    /// [`silu`], also called swish.
    Silu,
    /// [`sigmoid`].
    Sigmoid,
    /// [`tanh`].
    Tanh,
}

impl Activation {
    /// Applies the function to `x`.
    #[track_caller]
    pub fn forward(self, x: &Array) -> Array {
        match self {
            Activation::Relu => relu(x),
            Activation::Gelu => gelu(x),
            Activation::GeluExact => gelu_with(x, GeluOptions { approximate: false }),
            Activation::Silu => silu(x),
            Activation::Sigmoid => sigmoid(x),
            Activation::Tanh => tanh(x),
        }
    }
}

/// Linear layers with an activation between them.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         let activation = nn::Activation::Gelu;
///         nn::Mlp { activation, ..nn::Mlp::new(key, &[768, 3072, 768]) }.forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 128, 768])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,128,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Mlp {
    /// The layers, first to last.
    pub layers: Vec<Linear>,
    /// The activation after each layer except the last. `Relu` by default.
    #[tree(static)]
    pub activation: Activation,
}

impl Mlp {
    /// Creates a [`Linear`] layer from each size to the next.
    ///
    /// Throws `Op` (value) for fewer than two sizes.
    #[track_caller]
    pub fn new(key: Key, sizes: &[usize]) -> Mlp {
        if sizes.len() < 2 {
            let error = RuleError::value(format!("needs two sizes at least, got {sizes:?}"));
            throw_operands("Mlp", error, &[]);
        }
        let keys = random::split(key, sizes.len() - 1);
        let mut layers = Vec::with_capacity(keys.len());
        for (key, pair) in keys.into_iter().zip(sizes.windows(2)) {
            layers.push(Linear::new(key, pair[0], pair[1]));
        }
        Mlp { layers, activation: Activation::default() }
    }

    /// Applies the layers, `[…, first size] → […, last size]`.
    ///
    /// Throws `Op` (shape) unless the last axis of `x` has the first size.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let mut x = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                x = self.activation.forward(&x);
            }
            x = layer.forward(&x);
        }
        x
    }
}

/// A block with gated hidden features: `down(activation(gate(x)) · up(x))`.
///
/// With `Silu` this is SwiGLU, with `Gelu` GEGLU.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |key: random::Key, x: Array| nn::GatedMlp::new(key, 512, 1376).forward(&x),
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 512])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,512]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Shazeer: GLU variants improve transformer (2020), equation 6.
#[derive(Clone, Debug, Tree)]
#[doc(alias = "SwiGLU")]
pub struct GatedMlp {
    /// The layer that computes the gates, `[features, hidden]`.
    pub gate: Linear,
    /// The layer that computes the gated values, `[features, hidden]`.
    pub up: Linear,
    /// The output layer, `[hidden, features]`.
    pub down: Linear,
    /// The activation of the gates. `Silu` by default.
    #[tree(static)]
    pub activation: Activation,
}

impl GatedMlp {
    /// Creates a block in `f32` without biases, as in the paper.
    #[track_caller]
    pub fn new(key: Key, n_features: usize, n_hidden: usize) -> GatedMlp {
        let [gate, up, down] = key.split();
        GatedMlp {
            gate: Linear::new(gate, n_features, n_hidden).without_bias(),
            up: Linear::new(up, n_features, n_hidden).without_bias(),
            down: Linear::new(down, n_hidden, n_features).without_bias(),
            activation: Activation::Silu,
        }
    }

    /// Applies the block, `[…, features] → […, features]`.
    ///
    /// Throws `Op` (shape) if the last axis of `x` has another size.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let gates = self.activation.forward(&self.gate.forward(x));
        self.down.forward(&(gates * self.up.forward(x)))
    }
}
