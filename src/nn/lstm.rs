//! Stacked LSTMs with the weights of cuDNN.

use crate::control_flow::{ScanOptions, scan_with};
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::{sigmoid, stack};
use crate::primitives::{
    Precision, add, concatenate, convert_element_type, expand_dims, gt, iota, mul, reshape,
    slice_in_dim, tanh, transpose, where_,
};
use crate::random::{self, Key};

/// The sizes of a stack of LSTM layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LstmSizes {
    /// The number of input features.
    pub input_size: usize,
    /// The number of features of the state.
    pub hidden_size: usize,
    /// The number of layers.
    pub num_layers: usize,
    /// Each layer also processes the sequence backwards, and returns the features of both
    /// directions.
    pub bidirectional: bool,
}

impl LstmSizes {
    fn directions(self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// The number of input features of a layer.
    fn inputs(self, layer: usize) -> usize {
        if layer == 0 { self.input_size } else { self.directions() * self.hidden_size }
    }

    /// Returns the number of weights: for each layer and direction a matrix `[4 h, in]` and one `[4
    /// h, h]`, then for each of them two biases `[4 h]`.
    #[doc(alias = "get_num_params_in_lstm")]
    pub fn num_params(self) -> usize {
        let rows = 4 * self.hidden_size;
        let columns = |layer| self.inputs(layer) + self.hidden_size + 2;
        (0..self.num_layers).map(|layer| self.directions() * rows * columns(layer)).sum()
    }

    /// Returns the weights of each direction of each layer: two matrices and the sum of the biases.
    #[track_caller]
    fn unpack(self, weights: &Array) -> Vec<[Array; 3]> {
        let (n, rows) = (self.hidden_size, 4 * self.hidden_size);
        let mut offset = 0;
        let mut take = |columns: usize| {
            let start = offset;
            offset += rows * columns;
            let part = slice_in_dim(weights, start as isize, offset as isize, 1, 0);
            reshape(&part, [rows, columns])
        };
        let mut matrices = Vec::new();
        for layer in 0..self.num_layers {
            for _ in 0..self.directions() {
                let input = take(self.inputs(layer));
                matrices.push([input, take(n)]);
            }
        }
        let mut parts = Vec::new();
        for [input, recurrent] in matrices {
            let bias = add(reshape(&take(1), [rows]), reshape(&take(1), [rows]));
            parts.push([input, recurrent, bias]);
        }
        parts
    }
}

/// Draws the weights of [`lstm`], uniform up to `1 / √hidden_size`: `f32[num_params]`.
///
/// ```
/// use oxidax::nn::{LstmSizes, init_lstm_weight};
/// use oxidax::prelude::*;
/// let sizes =
///     LstmSizes { input_size: 3, hidden_size: 4, num_layers: 1, bidirectional: false };
/// assert_eq!(init_lstm_weight(random::key(0), sizes).shape().dims(), [16 * (3 + 4 + 2)]);
/// ```
#[track_caller]
pub fn init_lstm_weight(key: Key, sizes: LstmSizes) -> Array {
    let bound = (1.0 / sizes.hidden_size as f64).sqrt();
    random::uniform(key, [sizes.num_params()], -bound..bound)
}

/// Options of [`lstm_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LstmOptions {
    /// The precision of the products.
    pub precision: Precision,
}

/// Computes a stack of LSTM layers over sequences `x`, `[b, t, in]`, from the states `h_0` and
/// `c_0`, `[layers · directions, b, hidden]`. Returns the outputs, `[b, t, directions · hidden]`,
/// and the last states.
///
/// `weights` is a vector in cuDNN's order, as [`init_lstm_weight`] draws it; gates are input,
/// forget, candidate and output. `seq_lengths`, `int[b]`, are the lengths of the sequences: outputs
/// behind the end are zero, and the last states are those at the end. The backward direction begins
/// at the end.
///
/// It runs as operations of the program on every platform, without cuDNN, and without dropout
/// between layers; [`LstmCell`](super::LstmCell) is a layer with separate weights.
///
/// Throws `Op` (shape) if sizes do not fit, and `Op` (dtype) for lengths that are not integers.
///
/// ```
/// use oxidax::nn::{LstmSizes, init_lstm_weight, lstm};
/// use oxidax::prelude::*;
/// let sizes = LstmSizes { input_size: 3, hidden_size: 4, num_layers: 2, bidirectional: true };
/// let weights = init_lstm_weight(random::key(0), sizes);
/// let (x, start) = (ones([2, 5, 3]), zeros([4, 2, 4]));
/// let (y, [h, _]) = lstm(&x, [&start, &start], &weights, &array![5, 2], sizes);
/// assert_eq!((y.shape().dims(), h.shape().dims()), (&[2, 5, 8][..], &[4, 2, 4][..]));
/// ```
///
/// # Reference
/// Hochreiter, Schmidhuber: Long short-term memory (1997).
#[track_caller]
pub fn lstm(
    x: &Array,
    start: [&Array; 2],
    weights: &Array,
    seq_lengths: &Array,
    sizes: LstmSizes,
) -> (Array, [Array; 2]) {
    lstm_with(x, start, weights, seq_lengths, sizes, LstmOptions::default())
}

/// Computes a stack of LSTM layers, as [`lstm`], with options.
#[track_caller]
pub fn lstm_with(
    x: &Array,
    start: [&Array; 2],
    weights: &Array,
    seq_lengths: &Array,
    sizes: LstmSizes,
    options: LstmOptions,
) -> (Array, [Array; 2]) {
    check(x, start, weights, seq_lengths, sizes);
    Loc::caller().scope(|| {
        let steps = iota(DType::I32, x.shape()[1]);
        let lengths = convert_element_type(seq_lengths, DType::I32);
        // `[t, b, 1]`
        let is_inside = gt(expand_dims(&lengths, &[0]), expand_dims(&steps, &[1]));
        let is_inside = expand_dims(&is_inside, &[2]);
        let directions = sizes.directions();
        let mut xs = transpose(x, &[1, 0, 2]);
        let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
        for (layer, weights) in sizes.unpack(weights).chunks(directions).enumerate() {
            let mut outputs = Vec::new();
            for (direction, parts) in weights.iter().enumerate() {
                let index = layer * directions + direction;
                let [h, c] = start.map(|state| row(state, index));
                let run =
                    Direction { parts, precision: options.precision, reverse: direction == 1 };
                let (h, c, ys) = run.scan(&xs, &is_inside, h, c);
                last_h.push(h);
                last_c.push(c);
                outputs.push(ys);
            }
            xs = concatenate(&outputs, -1);
        }
        (transpose(&xs, &[1, 0, 2]), [stack(&last_h, 0), stack(&last_c, 0)])
    })
}

/// One direction of a layer.
struct Direction<'a> {
    parts: &'a [Array; 3],
    precision: Precision,
    reverse: bool,
}

impl Direction<'_> {
    /// Processes a sequence `[t, b, in]`. Returns the last state and the outputs.
    #[track_caller]
    fn scan(&self, xs: &Array, is_inside: &Array, h: Array, c: Array) -> (Array, Array, Array) {
        let [input, recurrent, bias] = self.parts;
        let product = |x: &Array, w: &Array| {
            let precision = self.precision;
            let options = crate::ops::MatmulOptions { precision, ..Default::default() };
            crate::ops::matmul_with(x, &transpose(w, &[1, 0]), options)
        };
        let of_inputs = add(product(xs, input), bias);
        let n = recurrent.shape()[1] as isize;
        let step = |(h, c): (Array, Array), (x, is_inside): (Array, Array)| {
            let gates = add(&x, product(&h, recurrent));
            let gate = |index: isize| slice_in_dim(&gates, index * n, (index + 1) * n, 1, -1);
            let kept = mul(sigmoid(gate(1)), &c);
            let next_c = add(kept, mul(sigmoid(gate(0)), tanh(gate(2))));
            let next_h = mul(sigmoid(gate(3)), tanh(&next_c));
            let y = where_(&is_inside, &next_h, 0.0);
            let state = (where_(&is_inside, &next_h, &h), where_(&is_inside, &next_c, &c));
            (state, y)
        };
        let options = ScanOptions::default().reverse(self.reverse);
        let ((h, c), ys) = scan_with(step, (h, c), (&of_inputs, is_inside), options);
        (h, c, ys)
    }
}

#[track_caller]
fn row(x: &Array, index: usize) -> Array {
    let row = slice_in_dim(x, index as isize, index as isize + 1, 1, 0);
    reshape(&row, x.shape().remove(0))
}

#[track_caller]
fn check(x: &Array, start: [&Array; 2], weights: &Array, seq_lengths: &Array, sizes: LstmSizes) {
    let operands = [x, start[0], start[1], weights, seq_lengths];
    let [b, layers] =
        [x.shape().first().copied().unwrap_or(0), sizes.num_layers * sizes.directions()];
    let expected = [
        ("x", x, vec![b, x.shape().get(1).copied().unwrap_or(0), sizes.input_size]),
        ("h_0", start[0], vec![layers, b, sizes.hidden_size]),
        ("c_0", start[1], vec![layers, b, sizes.hidden_size]),
        ("weights", weights, vec![sizes.num_params()]),
        ("seq_lengths", seq_lengths, vec![b]),
    ];
    for (name, operand, shape) in expected {
        if operand.shape().dims() != shape {
            let message = format!("{name} must have the shape {shape:?}, got {}", operand.aval());
            throw_operands("lstm", RuleError::shape(message), &operands);
        }
    }
    if !seq_lengths.dtype().is_integer() {
        let message = format!("seq_lengths must be integers, got {}", seq_lengths.aval());
        throw_operands("lstm", RuleError::dtype(message), &operands);
    }
}
