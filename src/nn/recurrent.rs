//! Recurrent cells, and their runs over sequences.

use super::fits::{expect_features, promoted};
use super::init;
use crate::control_flow::{ScanOptions, scan_with};
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::{matmul, sigmoid};
use crate::primitives::{concatenate, convert_element_type, slice_in_dim, tanh, zeros};
use crate::random::{self, Key};
use crate::tree::Tree;

/// A cell of a long short-term memory: gates of input, forgetting, candidate and output, in this order.
///
/// ```
/// use oxidax::prelude::*;
/// let (state, ys) = eval_shape(
///     |key: random::Key, xs: Array| {
///         let cell = nn::LstmCell::new(key, 16, 32);
///         cell.scan(cell.start([8]), &xs, false)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 100, 16])),
/// )?;
/// assert_eq!(ys.aval().to_string(), "f32[8,100,32]");
/// assert_eq!(state.h.aval().to_string(), "f32[8,32]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Hochreiter, Schmidhuber: Long short-term memory (1997); Gers, Schmidhuber, Cummins: Learning to forget
/// (1999).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "LSTMCell")]
pub struct LstmCell {
    /// From the inputs to the gates, `[in, 4 · hidden]`.
    pub input: Array,
    /// From the last output to the gates, `[hidden, 4 · hidden]`.
    pub recurrent: Array,
    /// The gates' offset, `[4 · hidden]`.
    pub bias: Array,
}

/// What an [`LstmCell`] remembers.
#[derive(Clone, Debug, Tree)]
pub struct LstmState {
    /// The memory, `[…, hidden]`.
    pub c: Array,
    /// The output, `[…, hidden]`.
    pub h: Array,
}

impl LstmCell {
    /// A cell in `f32`: the map of inputs as [`init::lecun_normal`] draws it, an orthogonal one per gate of the
    /// outputs, offset zero.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, n_hidden: usize) -> LstmCell {
        let [input, recurrent] = key.split();
        LstmCell {
            input: init::lecun_normal(input, [n_in, 4 * n_hidden], DType::F32),
            recurrent: orthogonal_gates(recurrent, n_hidden, 4),
            bias: zeros([4 * n_hidden], DType::F32),
        }
    }

    /// The state before the first input: zeros, `[batch…, hidden]`.
    #[track_caller]
    pub fn start(&self, batch: impl AsRef<[usize]>) -> LstmState {
        let zero = zeros([batch.as_ref(), &[self.n_hidden()]].concat(), self.recurrent.dtype());
        LstmState { c: zero.clone(), h: zero }
    }

    /// The state after `x`, `[…, in]`; its `h` is the output.
    ///
    /// Throws `Op` (shape) if `x` or the state does not fit.
    #[track_caller]
    pub fn forward(&self, state: &LstmState, x: &Array) -> LstmState {
        let n = self.n_hidden();
        let dtype = promoted("LstmCell", x, &self.leaves());
        let cast = |leaf: &Array| convert_element_type(leaf, dtype);
        let of_x = mapped("LstmCell", x, "input", &self.input, dtype);
        let of_h = mapped("LstmCell", &state.h, "recurrent", &self.recurrent, dtype);
        let gates = parts(&(of_x + (of_h + cast(&self.bias))), n, 4);
        let kept = sigmoid(&gates[1]) * cast(&state.c);
        let c = kept + sigmoid(&gates[0]) * tanh(&gates[2]);
        let h = sigmoid(&gates[3]) * tanh(&c);
        LstmState { c, h }
    }

    /// The last state and all outputs, `[b, t, hidden]`, for inputs `[b, t, in]`; from the last to the first if
    /// `reverse`, outputs standing where their inputs do.
    ///
    /// Throws `Op` (shape) if `xs` or the state does not fit.
    #[track_caller]
    pub fn scan(&self, start: LstmState, xs: &Array, reverse: bool) -> (LstmState, Array) {
        let xs = times_first("LstmCell", xs);
        let dtype = promoted("LstmCell", &xs, &self.leaves());
        let start = LstmState { c: start.c.astype(dtype), h: start.h.astype(dtype) };
        let options = ScanOptions { reverse, ..ScanOptions::default() };
        let place = Loc::caller();
        let step = |state: LstmState, x: Array| {
            let next = place.scope(|| self.forward(&state, &x));
            let y = next.h.clone();
            (next, y)
        };
        let (last, ys) = scan_with(step, start, xs, options);
        (last, ys.swapaxes(0, 1))
    }

    fn leaves(&self) -> [(&'static str, &Array); 3] {
        [("input", &self.input), ("recurrent", &self.recurrent), ("bias", &self.bias)]
    }

    fn n_hidden(&self) -> usize {
        self.recurrent.shape()[0]
    }
}

/// A cell with gates of reset, update and candidate, in this order. Its state is its output, `[…, hidden]`.
///
/// The reset gate acts on the mapped output, bias included, as in cuDNN, Flax and PyTorch.
///
/// ```
/// use oxidax::prelude::*;
/// let (h, ys) = eval_shape(
///     |key: random::Key, xs: Array| {
///         let cell = nn::GruCell::new(key, 16, 32);
///         cell.scan(cell.start([8]), &xs, false)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 100, 16])),
/// )?;
/// assert_eq!((h.aval().to_string(), ys.rank()), ("f32[8,32]".into(), 3));
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014), version 1.
#[derive(Clone, Debug, Tree)]
#[doc(alias = "GRUCell")]
pub struct GruCell {
    /// From the inputs to the gates, `[in, 3 · hidden]`.
    pub input: Array,
    /// From the last output to the gates, `[hidden, 3 · hidden]`.
    pub recurrent: Array,
    /// The gates' offset, `[3 · hidden]`.
    pub bias: Array,
    /// The offset of the candidate's recurrent part, which the reset gate scales too, `[hidden]`.
    pub recurrent_bias: Array,
}

impl GruCell {
    /// A cell in `f32`, drawn as [`LstmCell::new`] is.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, n_hidden: usize) -> GruCell {
        let [input, recurrent] = key.split();
        GruCell {
            input: init::lecun_normal(input, [n_in, 3 * n_hidden], DType::F32),
            recurrent: orthogonal_gates(recurrent, n_hidden, 3),
            bias: zeros([3 * n_hidden], DType::F32),
            recurrent_bias: zeros([n_hidden], DType::F32),
        }
    }

    /// The state before the first input: zeros, `[batch…, hidden]`.
    #[track_caller]
    pub fn start(&self, batch: impl AsRef<[usize]>) -> Array {
        zeros([batch.as_ref(), &[self.n_hidden()]].concat(), self.recurrent.dtype())
    }

    /// The state after `x`, `[…, in]`, which is the output.
    ///
    /// Throws `Op` (shape) if `x` or the state does not fit.
    #[track_caller]
    pub fn forward(&self, h: &Array, x: &Array) -> Array {
        let n = self.n_hidden();
        let dtype = promoted("GruCell", x, &self.leaves());
        let cast = |leaf: &Array| convert_element_type(leaf, dtype);
        let of_x = mapped("GruCell", x, "input", &self.input, dtype) + cast(&self.bias);
        let of_x = parts(&of_x, n, 3);
        let of_h = parts(&mapped("GruCell", h, "recurrent", &self.recurrent, dtype), n, 3);
        let reset = sigmoid(&(&of_x[0] + &of_h[0]));
        let update = sigmoid(&(&of_x[1] + &of_h[1]));
        let candidate = tanh(&(&of_x[2] + reset * (&of_h[2] + cast(&self.recurrent_bias))));
        (1.0 - &update) * candidate + update * cast(h)
    }

    /// The last state and all outputs, `[b, t, hidden]`; as [`LstmCell::scan`].
    ///
    /// Throws `Op` (shape) if `xs` or the state does not fit.
    #[track_caller]
    pub fn scan(&self, start: Array, xs: &Array, reverse: bool) -> (Array, Array) {
        let xs = times_first("GruCell", xs);
        let start = start.astype(promoted("GruCell", &xs, &self.leaves()));
        let options = ScanOptions { reverse, ..ScanOptions::default() };
        let place = Loc::caller();
        let step = |h: Array, x: Array| {
            let next = place.scope(|| self.forward(&h, &x));
            (next.clone(), next)
        };
        let (last, ys) = scan_with(step, start, xs, options);
        (last, ys.swapaxes(0, 1))
    }

    fn leaves(&self) -> [(&'static str, &Array); 4] {
        [
            ("input", &self.input),
            ("recurrent", &self.recurrent),
            ("bias", &self.bias),
            ("recurrent_bias", &self.recurrent_bias),
        ]
    }

    fn n_hidden(&self) -> usize {
        self.recurrent.shape()[0]
    }
}

/// One orthogonal matrix per gate, side by side.
#[track_caller]
fn orthogonal_gates(key: Key, n_hidden: usize, n_gates: usize) -> Array {
    let gates = random::split(key, n_gates)
        .into_iter()
        .map(|key| init::orthogonal(key, [n_hidden, n_hidden], DType::F32, 1.0));
    concatenate(&gates.collect::<Vec<_>>(), -1)
}

/// `x · leaf` after a look at the sizes.
#[track_caller]
fn mapped(layer: &str, x: &Array, name: &str, leaf: &Array, dtype: DType) -> Array {
    let [n_in, _] = leaf.dims();
    expect_features(layer, x, name, leaf, n_in);
    matmul(&convert_element_type(x, dtype), &convert_element_type(leaf, dtype))
}

/// The parts of `n` features along the last axis.
#[track_caller]
fn parts(x: &Array, n: usize, n_parts: usize) -> Vec<Array> {
    let n = n as isize;
    (0..n_parts as isize).map(|at| slice_in_dim(x, at * n, (at + 1) * n, 1, -1)).collect()
}

/// `[t, b, in]` of `[b, t, in]`.
#[track_caller]
fn times_first(layer: &str, xs: &Array) -> Array {
    if xs.rank() != 3 {
        let message = format!("xs {} needs axes [b, t, features]", xs.aval());
        throw_operands(layer, RuleError::shape(message), &[xs]);
    }
    xs.swapaxes(0, 1)
}
