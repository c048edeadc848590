//! Lookahead, and optimizers of flattened parameters.

use super::extra_args::{ExtraArgs, ExtraArrays};
use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::optimizer::Optimizer;
use super::state::{Paths, State};
use crate::core::{Array, DType};
use crate::primitives::{
    concatenate, convert_element_type, eq, reshape, split_sizes, where_, zeros, zeros_like,
};
use crate::tree::{self, Tree};

/// Options of [`lookahead_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookaheadOptions {
    /// The state of the inner optimizer after a synchronization.
    pub inner_state: InnerState,
}

/// The state of an inner optimizer after a synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "reset_state")]
pub enum InnerState {
    /// It does not change.
    #[default]
    Keep,
    /// It is the first state again.
    Reset,
}

/// Lets `inner` take `sync_period` steps, then moves the slow parameters a part of the way, and
/// continues from there.
///
/// The parameters of the training step are the fast ones. The slow ones are in the state;
/// [`State::accumulator`] with the name `slow` returns them. Optax stores both in
/// `LookaheadParams`.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::lookahead(optim::adam(1e-3), 5, 0.5);
/// let model = ones([3]);
/// let state = optimizer.init(&model);
/// let slow = state.accumulator("slow", &optim::Leaves::new(&model)).expect("lookahead has it");
/// assert_eq!(slow.len(), 1);
/// ```
///
/// # Reference
/// Zhang, Lucas, Hinton, Ba: Lookahead optimizer: k steps forward, 1 step back (2019),
/// algorithm 1.
#[doc(alias = "LookaheadParams")]
pub fn lookahead(inner: Optimizer, sync_period: u32, slow_step_size: f64) -> Optimizer {
    lookahead_with(inner, sync_period, slow_step_size, LookaheadOptions::default())
}

/// Applies lookahead, with options.
pub fn lookahead_with(
    inner: Optimizer,
    sync_period: u32,
    slow_step_size: f64,
    options: LookaheadOptions,
) -> Optimizer {
    let sync_period = i32::try_from(sync_period.max(1)).unwrap_or(i32::MAX);
    Optimizer::new(Lookahead { inner, sync_period, slow_step_size, options })
}

struct Lookahead {
    inner: Optimizer,
    sync_period: i32,
    slow_step_size: f64,
    options: LookaheadOptions,
}

#[derive(Tree)]
struct LookaheadState {
    steps_since_sync: Array,
    slow: Leaves,
    inner: State,
}

impl GradientTransformation for Lookahead {
    type State = LookaheadState;

    fn init(&self, parameters: &Leaves) -> LookaheadState {
        LookaheadState {
            steps_since_sync: zeros(([], DType::I32)),
            // A copy: the step may take the buffer of the parameter by donation.
            slow: parameters.map(|p| p + zeros(([], p.dtype()))),
            inner: self.inner.init(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: LookaheadState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, LookaheadState) {
        let parameters = args.parameters();
        let (updates, mut inner) = args.update_inner(&self.inner, &updates, &state.inner);
        let syncs = eq(&state.steps_since_sync, self.sync_period - 1);
        let ahead = parameters.zip_map([&updates, &state.slow], |fast, [update, slow]| {
            let difference = fast + update - slow;
            where_(&syncs, &difference, zeros_like(&difference))
        });
        let slow = state.slow.zip_map([&ahead], |slow, [ahead]| slow + ahead * self.slow_step_size);
        let updates = updates
            .zip_map([&ahead], |update, [ahead]| update - ahead * (1.0 - self.slow_step_size));
        if self.options.inner_state == InnerState::Reset {
            let first = self.inner.init(parameters);
            inner = tree::zip_map(&first, &inner, |first, now| where_(&syncs, first, now));
        }
        let next = &state.steps_since_sync + 1;
        let steps_since_sync = where_(&syncs, zeros_like(&next), &next);
        (updates, LookaheadState { steps_since_sync, slow, inner })
    }
}

/// Applies `inner` to all parameters as one vector.
///
/// It reduces the number of small operations of a model with many small leaves. Scalings by norms
/// of leaves then use the norm of all.
pub fn flatten(inner: Optimizer) -> Optimizer {
    Optimizer::new(Flatten { inner })
}

struct Flatten {
    inner: Optimizer,
}

#[derive(Tree)]
struct FlattenState {
    inner: State,
}

/// Returns all elements as one vector.
fn flat(leaves: &Leaves) -> Leaves {
    let vectors: Vec<Array> =
        leaves.values().iter().map(|leaf| reshape(leaf, [leaf.size()])).collect();
    let vector = if vectors.is_empty() { zeros([0]) } else { concatenate(vectors, 0) };
    Leaves::from_parts(Paths::new(std::iter::once(String::new())), vec![vector])
}

/// Returns a vector as leaves of these shapes and dtypes.
fn unflat(vector: &Leaves, like: &Leaves) -> Leaves {
    let sizes: Vec<usize> = like.values().iter().map(Array::size).collect();
    let mut parts = split_sizes(&vector.values()[0], &sizes, 0).into_iter();
    like.map(|leaf| {
        let part = parts.next().expect("one part for every leaf");
        convert_element_type(&reshape(&part, leaf.shape()), leaf.dtype())
    })
}

impl GradientTransformation for Flatten {
    type State = FlattenState;

    fn init(&self, parameters: &Leaves) -> FlattenState {
        FlattenState { inner: self.inner.init(&flat(parameters)) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: FlattenState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, FlattenState) {
        if updates.is_empty() {
            return (updates, state);
        }
        let (outer, parameters) = (args.extra_args(), args.parameters());
        let gradient = outer.arrays.gradient.as_ref().and_then(|g| g.select(parameters));
        let gradient = gradient.map(|gradient| flat(&gradient));
        let of_vector = outer
            .value_fn
            .map(|value_fn| move |vector: &Leaves| value_fn(&unflat(vector, parameters)));
        let extra = ExtraArgs {
            arrays: ExtraArrays { gradient, ..outer.arrays.clone() },
            value_fn: of_vector.as_ref().map(|f| f as &dyn Fn(&Leaves) -> Array),
            injected: outer.injected.clone(),
        };
        let (vector, inner) = self.inner.update_leaves(
            &flat(&updates),
            &state.inner,
            &flat(parameters),
            &extra,
            args.loc(),
        );
        (unflat(&vector, &updates), FlattenState { inner })
    }
}
