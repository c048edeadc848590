//! Recurrent cells with one state array.

use super::project::project;
use super::rnn::RecurrentCell;
use oxidax::core::Loc;
use oxidax::nn::check::promoted_dtype;
use oxidax::nn::init;
use oxidax::prelude::*;
use oxidax::random::Key;

/// The simplest recurrent cell: `h' = tanh(x · input + bias + h · recurrent)`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{Rnn, SimpleCell};
/// let (h, ys) = eval_shape(
///     |key: random::Key, xs: Array| Rnn::new(SimpleCell::new(key, 16, 32)).scan(&xs),
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 100, 16])),
/// )?;
/// assert_eq!(ys.aval().to_string(), "f32[8,100,32]");
/// assert_eq!(h.aval().to_string(), "f32[8,32]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Elman: Finding structure in time (1990).
#[derive(Clone, Debug, Tree)]
pub struct SimpleCell {
    /// The weight of the input, `[in, hidden]`.
    pub input: Array,
    /// The weight of the state, `[hidden, hidden]`.
    pub recurrent: Array,
    /// The bias, `[hidden]`.
    pub bias: Array,
    /// Adds the state before the activation.
    #[tree(static)]
    pub residual: bool,
    /// The activation. `Tanh` by default.
    #[tree(static)]
    pub activation: nn::Activation,
}

impl SimpleCell {
    /// Creates a cell in `f32` with an input weight drawn by [`init::lecun_normal`], an orthogonal
    /// recurrent weight and a zero bias.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, n_hidden: usize) -> SimpleCell {
        let [input, recurrent] = key.split();
        SimpleCell {
            input: init::lecun_normal(input, [n_in, n_hidden]),
            recurrent: init::orthogonal(recurrent, [n_hidden, n_hidden]),
            bias: zeros([n_hidden]),
            residual: false,
            activation: nn::Activation::Tanh,
        }
    }

    /// Returns the state after an input `x`, `[…, in]`. It is also the output, `[…, hidden]`.
    ///
    /// Throws `Op` (shape) if `x` or the state has another size.
    #[track_caller]
    pub fn forward(&self, h: &Array, x: &Array) -> Array {
        let leaves = [("input", &self.input), ("recurrent", &self.recurrent), ("bias", &self.bias)];
        let dtype = promoted_dtype("SimpleCell", x, &leaves);
        let of_x = project("SimpleCell", x, "input", &self.input, dtype);
        let of_x = Loc::caller().scope(|| of_x + self.bias.astype(dtype));
        let mut sum = of_x + project("SimpleCell", h, "recurrent", &self.recurrent, dtype);
        if self.residual {
            sum += h.astype(dtype);
        }
        self.activation.forward(&sum)
    }
}

impl RecurrentCell for SimpleCell {
    type State = Array;

    #[track_caller]
    fn initial_state(&self, input: &[usize]) -> Array {
        zero_state(input, &self.recurrent)
    }

    #[track_caller]
    fn step(&self, state: &Array, x: &Array) -> (Array, Array) {
        let h = self.forward(state, x);
        (h.clone(), h)
    }
}

/// A minimal gated unit. Its gates are forget and candidate, in this order.
///
/// With `f = σ(x · W_f + b_f + h · R_f)` and `n = tanh(x · W_n + b_n + f · (h · R_n + r))`, the
/// state becomes `(1 − f) · n + f · h`. Without a reset gate `f` does not multiply the recurrent
/// part of the candidate.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::MguCell;
/// let h = eval_shape(
///     |key: random::Key, h: Array, x: Array| MguCell::new(key, 16, 32).forward(&h, &x),
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 32]), Aval::new(DType::F32, [8, 16])),
/// )?;
/// assert_eq!(h.aval().to_string(), "f32[8,32]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Zhou et al.: Minimal gated unit for recurrent neural networks (2016).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "MGUCell")]
pub struct MguCell {
    /// The weight of the input, `[in, 2 · hidden]`.
    pub input: Array,
    /// The weight of the state, `[hidden, 2 · hidden]`.
    pub recurrent: Array,
    /// The bias of the gates, `[2 · hidden]`.
    pub bias: Array,
    /// The bias of the recurrent part of the candidate, `[hidden]`. `None` turns the reset gate
    /// off.
    #[doc(alias = "reset_gate")]
    pub recurrent_bias: Option<Array>,
}

impl MguCell {
    /// Creates a cell in `f32` with a reset gate.
    ///
    /// The input weight is drawn by [`init::lecun_normal`], the recurrent weight has one orthogonal
    /// matrix per gate. The bias is 1 for the forget gate and 0 otherwise.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, n_hidden: usize) -> MguCell {
        let [forget, candidate, recurrent_forget, recurrent_candidate] = key.split();
        let input = [forget, candidate].map(|key| init::lecun_normal(key, [n_in, n_hidden]));
        let recurrent = [recurrent_forget, recurrent_candidate]
            .map(|key| init::orthogonal(key, [n_hidden, n_hidden]));
        MguCell {
            input: concatenate(&input, -1),
            recurrent: concatenate(&recurrent, -1),
            bias: concatenate(&[ones([n_hidden]), zeros([n_hidden])], -1),
            recurrent_bias: Some(zeros([n_hidden])),
        }
    }

    /// Turns the reset gate off.
    pub fn without_reset_gate(self) -> MguCell {
        MguCell { recurrent_bias: None, ..self }
    }

    /// Returns the state after an input `x`, `[…, in]`. It is also the output, `[…, hidden]`.
    ///
    /// Throws `Op` (shape) if `x` or the state has another size.
    #[track_caller]
    pub fn forward(&self, h: &Array, x: &Array) -> Array {
        let mut leaves =
            vec![("input", &self.input), ("recurrent", &self.recurrent), ("bias", &self.bias)];
        leaves.extend(self.recurrent_bias.iter().map(|bias| ("recurrent_bias", bias)));
        let dtype = promoted_dtype("MguCell", x, &leaves);
        let of_x = project("MguCell", x, "input", &self.input, dtype);
        let of_x = Loc::caller().scope(|| of_x + self.bias.astype(dtype));
        let of_h = project("MguCell", h, "recurrent", &self.recurrent, dtype);
        let [of_x, of_h] = [of_x, of_h].map(|gates| split(&gates, 2, -1));
        let forget = sigmoid(&(&of_x[0] + &of_h[0]));
        let recurrent = match &self.recurrent_bias {
            Some(bias) => Loc::caller().scope(|| &forget * (&of_h[1] + bias.astype(dtype))),
            None => of_h[1].clone(),
        };
        let candidate = tanh(&(&of_x[1] + recurrent));
        (1.0 - &forget) * candidate + forget * h.astype(dtype)
    }
}

impl RecurrentCell for MguCell {
    type State = Array;

    #[track_caller]
    fn initial_state(&self, input: &[usize]) -> Array {
        zero_state(input, &self.recurrent)
    }

    #[track_caller]
    fn step(&self, state: &Array, x: &Array) -> (Array, Array) {
        let h = self.forward(state, x);
        (h.clone(), h)
    }
}

/// Returns zeros `[batch…, hidden]` for inputs `[batch…, in]`.
#[track_caller]
pub(super) fn zero_state(input: &[usize], recurrent: &Array) -> Array {
    let batch = &input[..input.len().saturating_sub(1)];
    zeros(([batch, &recurrent.shape()[..1]].concat(), recurrent.dtype()))
}
