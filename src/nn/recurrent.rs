//! Recurrent cells.

use super::check::{expect_features, promoted_dtype};
use super::init;
use crate::control_flow::{ScanOptions, scan_with};
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::{matmul, sigmoid};
use crate::primitives::{concatenate, convert_element_type, slice_in_dim, tanh, zeros};
use crate::random::{self, Key};
use crate::tree::Tree;

/// A long short-term memory cell. Its gates are input, forget, candidate and output, in this order.
///
/// ```
/// use oxidax::prelude::*;
/// let (state, ys) = eval_shape(
///     |key: random::Key, xs: Array| {
///         let cell = nn::LstmCell::new(key, 16, 32);
///         cell.scan(cell.start([8]), &xs)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 100, 16])),
/// )?;
/// assert_eq!(ys.aval().to_string(), "f32[8,100,32]");
/// assert_eq!(state.h.aval().to_string(), "f32[8,32]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Hochreiter, Schmidhuber: Long short-term memory (1997); Gers, Schmidhuber, Cummins: Learning to
/// forget (1999).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "LSTMCell")]
pub struct LstmCell {
    /// The weight from the inputs to the gates, `[in, 4 · hidden]`.
    pub input: Array,
    /// The weight from the previous output to the gates, `[hidden, 4 · hidden]`.
    pub recurrent: Array,
    /// The bias of the gates, `[4 · hidden]`.
    pub bias: Array,
}

/// The state of an [`LstmCell`].
#[derive(Clone, Debug, Tree)]
pub struct LstmState {
    /// The cell state, `[…, hidden]`.
    pub c: Array,
    /// The output, `[…, hidden]`.
    pub h: Array,
}

/// Options of [`LstmCell::scan_with`] and [`GruCell::scan_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RnnOptions {
    /// Processes the sequence from the last input to the first. Outputs keep the order of the
    /// inputs.
    pub reverse: bool,
}

impl LstmCell {
    /// Creates a cell in `f32`.
    ///
    /// The input weight is drawn by [`init::lecun_normal`], the recurrent weight has one orthogonal
    /// matrix per gate, and the bias is zero.
    #[track_caller]
    pub fn new(key: Key, n_in: usize, n_hidden: usize) -> LstmCell {
        let [input, recurrent] = key.split();
        LstmCell {
            input: init::lecun_normal(input, [n_in, 4 * n_hidden]),
            recurrent: orthogonal_gates(recurrent, n_hidden, 4),
            bias: zeros([4 * n_hidden]),
        }
    }

    /// Returns the state before the first input: zeros, `[batch…, hidden]`.
    #[track_caller]
    pub fn start(&self, batch: impl AsRef<[usize]>) -> LstmState {
        let zero = zeros(([batch.as_ref(), &[self.n_hidden()]].concat(), self.recurrent.dtype()));
        LstmState { c: zero.clone(), h: zero }
    }

    /// Returns the state after an input `x`, `[…, in]`. Its `h` is the output.
    ///
    /// Throws `Op` (shape) if `x` or the state has another size.
    #[track_caller]
    pub fn forward(&self, state: &LstmState, x: &Array) -> LstmState {
        let n = self.n_hidden();
        let dtype = promoted_dtype("LstmCell", x, &self.leaves());
        let cast = |leaf: &Array| convert_element_type(leaf, dtype);
        let of_x = project("LstmCell", x, "input", &self.input, dtype);
        let of_h = project("LstmCell", &state.h, "recurrent", &self.recurrent, dtype);
        let gates = Loc::caller().scope(|| of_x + (of_h + cast(&self.bias)));
        let gates = parts(&gates, n, 4);
        let remembered = sigmoid(&gates[1]) * cast(&state.c);
        let c = remembered + sigmoid(&gates[0]) * tanh(&gates[2]);
        let h = sigmoid(&gates[3]) * tanh(&c);
        LstmState { c, h }
    }

    /// Processes a sequence `xs`, `[b, t, in]`. Returns the last state and all outputs,
    /// `[b, t, hidden]`.
    ///
    /// Throws `Op` (shape) if `xs` or the state has another size.
    #[track_caller]
    pub fn scan(&self, start: LstmState, xs: &Array) -> (LstmState, Array) {
        self.scan_with(start, xs, RnnOptions::default())
    }

    /// Processes a sequence as [`LstmCell::scan`], with options.
    ///
    /// Throws `Op` (shape) if `xs` or the state has another size.
    #[track_caller]
    pub fn scan_with(
        &self,
        start: LstmState,
        xs: &Array,
        options: RnnOptions,
    ) -> (LstmState, Array) {
        let xs = time_first("LstmCell", xs);
        let dtype = promoted_dtype("LstmCell", &xs, &self.leaves());
        let start = LstmState { c: start.c.astype(dtype), h: start.h.astype(dtype) };
        let options = ScanOptions { reverse: options.reverse, ..ScanOptions::default() };
        let loc = Loc::caller();
        let step = |state: LstmState, x: Array| {
            let next = loc.scope(|| self.forward(&state, &x));
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

/// A gated recurrent unit. Its gates are reset, update and candidate, in this order.
///
/// The state is the output, `[…, hidden]`. The reset gate multiplies the recurrent part of the
/// candidate including its bias, as in cuDNN, Flax and PyTorch.
///
/// ```
/// use oxidax::prelude::*;
/// let (h, ys) = eval_shape(
///     |key: random::Key, xs: Array| {
///         let cell = nn::GruCell::new(key, 16, 32);
///         cell.scan(cell.start([8]), &xs)
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
    /// The weight from the inputs to the gates, `[in, 3 · hidden]`.
    pub input: Array,
    /// The weight from the previous output to the gates, `[hidden, 3 · hidden]`.
    pub recurrent: Array,
    /// The bias of the gates, `[3 · hidden]`.
    pub bias: Array,
    /// The bias of the recurrent part of the candidate, `[hidden]`.
    pub recurrent_bias: Array,
}

impl GruCell {
    /// Creates a cell in `f32`, with weights drawn as in [`LstmCell::new`].
    #[track_caller]
    pub fn new(key: Key, n_in: usize, n_hidden: usize) -> GruCell {
        let [input, recurrent] = key.split();
        GruCell {
            input: init::lecun_normal(input, [n_in, 3 * n_hidden]),
            recurrent: orthogonal_gates(recurrent, n_hidden, 3),
            bias: zeros([3 * n_hidden]),
            recurrent_bias: zeros([n_hidden]),
        }
    }

    /// Returns the state before the first input: zeros, `[batch…, hidden]`.
    #[track_caller]
    pub fn start(&self, batch: impl AsRef<[usize]>) -> Array {
        zeros(([batch.as_ref(), &[self.n_hidden()]].concat(), self.recurrent.dtype()))
    }

    /// Returns the state after an input `x`, `[…, in]`. It is also the output.
    ///
    /// Throws `Op` (shape) if `x` or the state has another size.
    #[track_caller]
    pub fn forward(&self, h: &Array, x: &Array) -> Array {
        let n = self.n_hidden();
        let dtype = promoted_dtype("GruCell", x, &self.leaves());
        let cast = |leaf: &Array| convert_element_type(leaf, dtype);
        let of_x = project("GruCell", x, "input", &self.input, dtype);
        let of_x = parts(&Loc::caller().scope(|| of_x + cast(&self.bias)), n, 3);
        let of_h = parts(&project("GruCell", h, "recurrent", &self.recurrent, dtype), n, 3);
        let reset = sigmoid(&(&of_x[0] + &of_h[0]));
        let update = sigmoid(&(&of_x[1] + &of_h[1]));
        let recurrent = Loc::caller().scope(|| &of_h[2] + cast(&self.recurrent_bias));
        let candidate = tanh(&(&of_x[2] + reset * recurrent));
        (1.0 - &update) * candidate + update * cast(h)
    }

    /// Processes a sequence `xs`, `[b, t, in]`. Returns the last state and all outputs,
    /// `[b, t, hidden]`.
    ///
    /// Throws `Op` (shape) if `xs` or the state has another size.
    #[track_caller]
    pub fn scan(&self, start: Array, xs: &Array) -> (Array, Array) {
        self.scan_with(start, xs, RnnOptions::default())
    }

    /// Processes a sequence as [`GruCell::scan`], with options.
    ///
    /// Throws `Op` (shape) if `xs` or the state has another size.
    #[track_caller]
    pub fn scan_with(&self, start: Array, xs: &Array, options: RnnOptions) -> (Array, Array) {
        let xs = time_first("GruCell", xs);
        let start = start.astype(promoted_dtype("GruCell", &xs, &self.leaves()));
        let options = ScanOptions { reverse: options.reverse, ..ScanOptions::default() };
        let loc = Loc::caller();
        let step = |h: Array, x: Array| {
            let next = loc.scope(|| self.forward(&h, &x));
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

/// Draws one orthogonal matrix per gate and concatenates them along the columns.
#[track_caller]
fn orthogonal_gates(key: Key, n_hidden: usize, n_gates: usize) -> Array {
    let mut gates = Vec::with_capacity(n_gates);
    for key in random::split(key, n_gates) {
        gates.push(init::orthogonal(key, [n_hidden, n_hidden]));
    }
    concatenate(&gates, -1)
}

/// Computes `x · leaf` in `dtype`, with the sizes checked.
#[track_caller]
fn project(layer: &str, x: &Array, name: &str, leaf: &Array, dtype: DType) -> Array {
    let [n_in, _] = leaf.dims();
    expect_features(layer, x, name, leaf, n_in);
    matmul(&convert_element_type(x, dtype), &convert_element_type(leaf, dtype))
}

/// Splits the last axis into parts of `n` features.
#[track_caller]
fn parts(x: &Array, n: usize, n_parts: usize) -> Vec<Array> {
    let n = n as isize;
    (0..n_parts as isize).map(|i| slice_in_dim(x, i * n, (i + 1) * n, 1, -1)).collect()
}

/// Moves the time axis to the front: `[b, t, in] → [t, b, in]`.
#[track_caller]
fn time_first(layer: &str, xs: &Array) -> Array {
    if xs.rank() != 3 {
        let message = format!("xs {} needs axes [b, t, features]", xs.aval());
        throw_operands(layer, RuleError::shape(message), &[xs]);
    }
    xs.swapaxes(0, 1)
}
