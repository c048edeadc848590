//! A long short-term memory of images.

use super::rnn::RecurrentCell;
use oxidax::nn::LstmState;
use oxidax::prelude::*;
use oxidax::random::Key;

/// A long short-term memory cell whose projections are convolutions, for sequences of images.
///
/// Its gates are input, candidate, forget and output, in this order. 1 is added to the forget gate
/// before the activation.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{ConvLstmCell, Rnn};
/// let (state, ys) = eval_shape(
///     |key: random::Key, xs: Array| Rnn::new(ConvLstmCell::new(key, &[3, 3], 1, 8)).scan(&xs),
///     (random::Key::of_type(), Aval::new(DType::F32, [4, 10, 28, 28, 1])),
/// )?;
/// assert_eq!(ys.aval().to_string(), "f32[4,10,28,28,8]");
/// assert_eq!(state.c.aval().to_string(), "f32[4,28,28,8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Shi et al.: Convolutional LSTM network (2015).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "ConvLSTMCell")]
pub struct ConvLstmCell {
    /// The convolution of the input, to `4 · hidden` channels.
    pub input: nn::Conv,
    /// The convolution of the output before, to `4 · hidden` channels.
    pub recurrent: nn::Conv,
}

impl ConvLstmCell {
    /// Creates a cell in `f32` from two convolutions drawn by [`nn::Conv::new`].
    #[track_caller]
    pub fn new(key: Key, window: &[usize], n_in: usize, n_hidden: usize) -> ConvLstmCell {
        let [input, recurrent] = key.split();
        ConvLstmCell {
            input: nn::Conv::new(input, window, n_in, 4 * n_hidden),
            recurrent: nn::Conv::new(recurrent, window, n_hidden, 4 * n_hidden),
        }
    }

    /// Returns the state after an input `x`, `[b…, space…, in]`. Its `h` is the output.
    ///
    /// Throws `Op` (shape) if `x` or the state has another size.
    #[track_caller]
    pub fn forward(&self, state: &LstmState, x: &Array) -> LstmState {
        let gates = self.input.forward(x) + self.recurrent.forward(&state.h);
        let gates = split(&gates, 4, -1);
        let c = sigmoid(&(&gates[2] + 1.0)) * state.c.astype(gates[0].dtype())
            + sigmoid(&gates[0]) * tanh(&gates[1]);
        let h = sigmoid(&gates[3]) * tanh(&c);
        LstmState { c, h }
    }
}

impl RecurrentCell for ConvLstmCell {
    type State = LstmState;

    #[track_caller]
    fn initial_state(&self, input: &[usize]) -> LstmState {
        let weight = &self.recurrent.weight;
        let n_hidden = weight.shape()[weight.rank() - 2];
        let outer = &input[..input.len().saturating_sub(1)];
        let zero = zeros(([outer, &[n_hidden]].concat(), weight.dtype()));
        LstmState { c: zero.clone(), h: zero }
    }

    #[track_caller]
    fn step(&self, state: &LstmState, x: &Array) -> (LstmState, Array) {
        let next = self.forward(state, x);
        let y = next.h.clone();
        (next, y)
    }

    fn n_feature_axes(&self) -> usize {
        self.input.weight.rank().saturating_sub(1)
    }
}
