//! Recurrent cells applied to sequences.

use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::nn::{GruCell, LstmCell, LstmState};
use oxidax::prelude::*;

/// A cell that computes the next state and an output from a state and an input.
///
/// [`Rnn`] and [`Bidirectional`] apply it to sequences.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{RecurrentCell, Rnn};
/// /// Adds up its inputs.
/// struct Sum;
/// impl RecurrentCell for Sum {
///     type State = Array;
///     fn initial_state(&self, input: &[usize]) -> Array {
///         zeros(input.to_vec())
///     }
///     fn step(&self, state: &Array, x: &Array) -> (Array, Array) {
///         let sum = state + x;
///         (sum.clone(), sum)
///     }
/// }
/// let (_, ys) = Rnn::new(Sum).scan(&ones([1, 3, 1]));
/// assert_eq!(ys.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "RNNCellBase")]
pub trait RecurrentCell {
    /// The state.
    type State: Tree + Clone;

    /// Returns the state before the first input, for inputs of this shape, `[batch…, features…]`.
    #[doc(alias = "initialize_carry")]
    #[track_caller]
    fn initial_state(&self, input: &[usize]) -> Self::State;

    /// Returns the next state and the output for an input `x`, `[batch…, features…]`.
    #[track_caller]
    fn step(&self, state: &Self::State, x: &Array) -> (Self::State, Array);

    /// Returns the number of axes of an input that are not batch axes. 1 by default.
    #[doc(alias = "num_feature_axes")]
    fn n_feature_axes(&self) -> usize {
        1
    }
}

impl RecurrentCell for LstmCell {
    type State = LstmState;

    #[track_caller]
    fn initial_state(&self, input: &[usize]) -> LstmState {
        self.start(&input[..input.len().saturating_sub(1)])
    }

    #[track_caller]
    fn step(&self, state: &LstmState, x: &Array) -> (LstmState, Array) {
        let next = self.forward(state, x);
        let y = next.h.clone();
        (next, y)
    }
}

impl RecurrentCell for GruCell {
    type State = Array;

    #[track_caller]
    fn initial_state(&self, input: &[usize]) -> Array {
        self.start(&input[..input.len().saturating_sub(1)])
    }

    #[track_caller]
    fn step(&self, state: &Array, x: &Array) -> (Array, Array) {
        let next = self.forward(state, x);
        (next.clone(), next)
    }
}

/// Options of [`Rnn::scan_with`] and [`Bidirectional::scan_with`].
#[derive(Clone, Debug, Default)]
pub struct RnnScanOptions {
    /// The number of valid inputs of each sequence, integers `[batch…]`. The state returned is that
    /// after the last valid input.
    #[doc(alias = "seq_lengths")]
    pub lengths: Option<Array>,
    /// Processes each sequence from its last valid input to the first. [`Bidirectional`] ignores
    /// it.
    pub reverse: bool,
    /// Returns the outputs in the order of the inputs, also with `reverse`.
    pub keep_order: bool,
    /// The first axis of the sequences is time: `[t, batch…, features…]`.
    pub time_major: bool,
}

/// A cell applied to each input of a sequence.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{Rnn, RnnScanOptions};
/// let (_, ys) = eval_shape(
///     |key: random::Key, xs: Array, lengths: Array| {
///         let options = RnnScanOptions { lengths: Some(lengths), ..RnnScanOptions::default() };
///         Rnn::new(nn::GruCell::new(key, 16, 32)).scan_with(None, &xs, &options)
///     },
///     (
///         random::Key::of_type(),
///         Aval::new(DType::F32, [8, 100, 16]),
///         Aval::new(DType::I32, [8]),
///     ),
/// )?;
/// assert_eq!(ys.aval().to_string(), "f32[8,100,32]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
#[doc(alias = "RNN")]
pub struct Rnn<C> {
    /// The cell.
    pub cell: C,
}

impl<C: RecurrentCell> Rnn<C> {
    /// Creates a network from its cell.
    pub fn new(cell: C) -> Rnn<C> {
        Rnn { cell }
    }

    /// Processes sequences `[batch…, t, features…]` from the initial state. Returns the last state
    /// and all outputs.
    ///
    /// Throws `Op` (shape) if the sequences have too few axes, or do not fit the cell.
    #[track_caller]
    pub fn scan(&self, xs: &Array) -> (C::State, Array) {
        self.scan_with(None, xs, &RnnScanOptions::default())
    }

    /// Processes sequences from the state `start`, or from the initial state, with options. Returns
    /// the last state and all outputs.
    ///
    /// Outputs after the last valid input are those of the padding. A sequence of length 0 keeps
    /// the state `start`.
    ///
    /// Throws `Op` (shape) if the sequences have too few axes, or do not fit the cell or lengths.
    #[track_caller]
    pub fn scan_with(
        &self,
        start: Option<C::State>,
        xs: &Array,
        options: &RnnScanOptions,
    ) -> (C::State, Array) {
        let n_features = self.cell.n_feature_axes();
        if xs.rank() < n_features + 1 {
            let message =
                format!("xs {} needs an axis of time and {n_features} of features", xs.aval());
            throw_operands("Rnn", RuleError::shape(message), &[xs]);
        }
        let n_batch = xs.rank() - n_features - 1;
        let time = if options.time_major { 0 } else { n_batch as isize };
        let xs = moveaxis(xs, time, 0);
        if let Some(lengths) = &options.lengths {
            expect_lengths(&xs, lengths, n_batch);
        }
        let xs = match options.reverse {
            true => flip(&xs, options.lengths.as_ref()),
            false => xs,
        };
        let start = start.unwrap_or_else(|| self.cell.initial_state(&xs.shape().dims()[1..]));
        // The state has the dtype of the step's result from the beginning.
        let start = tree::map(&start, |leaf| {
            let dtype = promote_types(leaf.dtype(), xs.dtype());
            dtype.map_or_else(|| leaf.clone(), |dtype| leaf.astype(dtype))
        });
        let steps = iota(DType::I32, xs.shape()[0]);
        let loc = Loc::caller();
        let step = |(state, last): (C::State, C::State), (x, t): (Array, Array)| {
            loc.scope(|| {
                let (next, y) = self.cell.step(&state, &x);
                let last = match &options.lengths {
                    None => next.clone(),
                    Some(lengths) => {
                        let valid = lt(&t, lengths.astype(DType::I32));
                        tree::zip_map(&next, &last, |new, old| select_rows(&valid, new, old))
                    }
                };
                ((next, last), y)
            })
        };
        let ((_, last), ys) = scan(step, (start.clone(), start), (xs, steps));
        let ys = match options.reverse && options.keep_order {
            true => flip(&ys, options.lengths.as_ref()),
            false => ys,
        };
        (last, moveaxis(&ys, 0, time))
    }
}

/// Two cells, one of which processes the sequence from the end.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::Bidirectional;
/// let (_, ys) = eval_shape(
///     |key: random::Key, xs: Array| {
///         let [forward, backward] = key.split().map(|key| nn::LstmCell::new(key, 16, 32));
///         Bidirectional::new(forward, backward).scan(&xs)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 100, 16])),
/// )?;
/// assert_eq!(ys.aval().to_string(), "f32[8,100,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Schuster, Paliwal: Bidirectional recurrent neural networks (1997).
#[derive(Clone, Debug, Tree)]
pub struct Bidirectional<F, B> {
    /// The cell that reads from the first input.
    pub forward: Rnn<F>,
    /// The cell that reads from the last input.
    pub backward: Rnn<B>,
}

impl<F: RecurrentCell, B: RecurrentCell> Bidirectional<F, B> {
    /// Creates a network from its two cells.
    pub fn new(forward: F, backward: B) -> Bidirectional<F, B> {
        Bidirectional { forward: Rnn::new(forward), backward: Rnn::new(backward) }
    }

    /// Processes sequences `[batch…, t, features…]` in both directions. Returns the last states,
    /// and the outputs of both cells concatenated along the last axis.
    ///
    /// Throws `Op` (shape) if the sequences do not fit the cells.
    #[track_caller]
    pub fn scan(&self, xs: &Array) -> ((F::State, B::State), Array) {
        let concatenated = |a: &Array, b: &Array| concatenate([a, b], -1);
        self.scan_with(None, xs, &RnnScanOptions::default(), concatenated)
    }

    /// Processes sequences from the states `start`, or from the initial ones, with options, and
    /// combines both outputs by `merge`.
    ///
    /// Throws `Op` (shape) if the sequences do not fit the cells or lengths.
    #[track_caller]
    pub fn scan_with(
        &self,
        start: Option<(F::State, B::State)>,
        xs: &Array,
        options: &RnnScanOptions,
        merge: impl Fn(&Array, &Array) -> Array,
    ) -> ((F::State, B::State), Array) {
        let (first, second) = start.unzip();
        let options = |reverse| RnnScanOptions { reverse, keep_order: true, ..options.clone() };
        let (forward, ys) = self.forward.scan_with(first, xs, &options(false));
        let (backward, reversed) = self.backward.scan_with(second, xs, &options(true));
        ((forward, backward), merge(&ys, &reversed))
    }
}

/// Reverses the valid part of each sequence, `[batch…, t, features…]`, and leaves the padding at
/// the end.
///
/// `lengths` are integers `[batch…]`. Without them whole sequences are reversed, for one batch
/// axis.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::flip_sequences;
/// let xs = Array::from_slice(&[1.0f32, 2.0, 0.0, 4.0, 5.0, 6.0], [2, 3])?;
/// let flipped = flip_sequences(&xs, Some(&array![2, 3]));
/// assert_eq!(flipped.to_vec::<f32>()?, [2.0, 1.0, 0.0, 6.0, 5.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn flip_sequences(xs: &Array, lengths: Option<&Array>) -> Array {
    let n_batch = lengths.map_or(1, Array::rank);
    if xs.rank() <= n_batch {
        let message = format!("xs {} needs an axis of time after {n_batch} of batch", xs.aval());
        throw_operands("flip_sequences", RuleError::shape(message), &[xs]);
    }
    let time_first = moveaxis(xs, n_batch as isize, 0);
    if let Some(lengths) = lengths {
        expect_lengths(&time_first, lengths, n_batch);
    }
    moveaxis(&flip(&time_first, lengths), 0, n_batch as isize)
}

/// Reverses sequences `[t, batch…, features…]`.
#[track_caller]
fn flip(xs: &Array, lengths: Option<&Array>) -> Array {
    let Some(lengths) = lengths else { return rev(xs, &[0]) };
    let t = xs.shape()[0];
    let mut dims = vec![1; xs.rank()];
    dims[1..=lengths.rank()].copy_from_slice(lengths.shape().dims());
    let lengths = lengths.astype(DType::I32).reshape(dims.clone());
    dims.fill(1);
    dims[0] = t;
    let positions = ((t as i32 - 1) - iota(DType::I32, t)).reshape(dims);
    let index = rem(positions + lengths, t as i32);
    take_along_axis(xs, &index, 0)
}

/// Selects rows of `[batch…, …]` by booleans `[batch…]`.
#[track_caller]
fn select_rows(valid: &Array, new: &Array, old: &Array) -> Array {
    let mut dims = vec![1; new.rank()];
    dims[..valid.rank()].copy_from_slice(valid.shape().dims());
    where_(valid.reshape(dims), new, old)
}

#[track_caller]
fn expect_lengths(xs: &Array, lengths: &Array, n_batch: usize) {
    let batch = &xs.shape().dims()[1..=n_batch];
    if lengths.shape().dims() != batch || !lengths.dtype().is_integer() {
        let message = format!("lengths {} need to be integers {batch:?}", lengths.aval());
        throw_operands("Rnn", RuleError::shape(message), &[xs, lengths]);
    }
}
