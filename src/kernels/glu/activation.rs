//! The functions of gates.

use crate::Array;
use crate::primitives::{exp, tanh};
use std::f64::consts::FRAC_2_PI;

/// The function of the gate of a gated linear unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GluActivation {
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x · sigmoid(x)`.
    #[default]
    Silu,
    /// The Gaussian error linear unit, approximated by `tanh`.
    Gelu,
}

/// The factor of the cubic term in the approximation of GELU (Hendrycks and Gimpel, 2016).
const CUBIC: f64 = 0.044715;

impl GluActivation {
    /// Returns the function's value, of operations that compilers of kernels have.
    pub(super) fn value(self, x: &Array) -> Array {
        match self {
            GluActivation::Sigmoid => sigmoid(x),
            GluActivation::Silu => x * sigmoid(x),
            GluActivation::Gelu => x * ((gelu_tanh(x) + 1.0) * 0.5),
        }
    }

    /// Returns value and derivative.
    pub(super) fn value_and_slope(self, x: &Array) -> (Array, Array) {
        match self {
            GluActivation::Sigmoid => {
                let s = sigmoid(x);
                let slope = &s * (1.0 - &s);
                (s, slope)
            }
            GluActivation::Silu => {
                let s = sigmoid(x);
                (x * &s, &s * (x * (1.0 - &s) + 1.0))
            }
            GluActivation::Gelu => {
                let t = gelu_tanh(x);
                let inner = (x * x * (3.0 * CUBIC) + 1.0) * FRAC_2_PI.sqrt();
                let slope = (&t + 1.0) * 0.5 + x * 0.5 * (1.0 - &t * &t) * inner;
                (x * ((t + 1.0) * 0.5), slope)
            }
        }
    }
}

fn sigmoid(x: &Array) -> Array {
    1.0 / (exp(-x) + 1.0)
}

fn gelu_tanh(x: &Array) -> Array {
    tanh((x + x * x * x * CUBIC) * FRAC_2_PI.sqrt())
}
