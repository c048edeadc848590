//! Transformations that depend on a condition, and constraints on updates.

use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::optimizer::Optimizer;
use super::sgd::stateless;
use super::state::State;
use crate::core::Array;
use crate::ops::isnan;
use crate::primitives::{full, lt, reduce_or, where_, zeros_like};
use crate::tree::{self, Tree};

/// Applies `inner` at the steps for which `should_transform` returns true. At other steps the
/// updates and the state of `inner` do not change.
///
/// `should_transform(step, args)` gets the number of updates before this one, `i32[]`, and returns
/// `bool[]`.
///
/// ```
/// use oxidax::prelude::*;
/// // Clip in the first hundred steps.
/// let clip = optim::clip_by_global_norm(1.0);
/// let early = optim::conditionally_transform(clip, |step, _| lt(step, 100));
/// let optimizer = early.chain(optim::adam(1e-3));
/// ```
pub fn conditionally_transform(
    inner: Optimizer,
    should_transform: impl Fn(&Array, &UpdateArgs<'_>) -> Array + Send + Sync + 'static,
) -> Optimizer {
    Optimizer::new(Conditional { inner, should_transform, otherwise: Otherwise::Unchanged })
}

/// Applies `inner` at the steps for which `should_transform` returns true. At other steps the
/// updates are zero, and the state of `inner` does not change.
///
/// `should_transform` has the arguments of [`conditionally_transform`].
pub fn conditionally_mask(
    inner: Optimizer,
    should_transform: impl Fn(&Array, &UpdateArgs<'_>) -> Array + Send + Sync + 'static,
) -> Optimizer {
    Optimizer::new(Conditional { inner, should_transform, otherwise: Otherwise::Zero })
}

/// The updates of steps without transformation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Unchanged,
    Zero,
}

struct Conditional<F> {
    inner: Optimizer,
    should_transform: F,
    otherwise: Otherwise,
}

#[derive(Tree)]
struct ConditionalState {
    inner: State,
}

impl<F> GradientTransformation for Conditional<F>
where
    F: Fn(&Array, &UpdateArgs<'_>) -> Array + Send + Sync + 'static,
{
    type State = ConditionalState;

    fn init(&self, parameters: &Leaves) -> ConditionalState {
        ConditionalState { inner: self.inner.init(parameters) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: ConditionalState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, ConditionalState) {
        let condition = (self.should_transform)(&(args.count() - 1), args);
        let (transformed, inner) = args.update_inner(&self.inner, &updates, &state.inner);
        let updates = transformed.zip_map([&updates], |new, [old]| match self.otherwise {
            Otherwise::Unchanged => where_(&condition, new, old.astype(new.dtype())),
            Otherwise::Zero => where_(&condition, new, zeros_like(new)),
        });
        let inner = tree::zip_map(&inner, &state.inner, |new, old| where_(&condition, new, old));
        (updates, ConditionalState { inner })
    }
}

/// Changes updates so that no parameter becomes negative: where `parameter + update` is below 0,
/// the update is `-parameter`.
///
/// Put it at the end of the chain. The first parameters must not be negative.
pub fn keep_params_nonnegative() -> Optimizer {
    stateless(|_, update, parameter| {
        let negated = (-parameter).astype(update.dtype());
        where_(lt(parameter + update, 0.0), &negated, update)
    })
}

/// Replaces NaN in updates by 0. The state has `found_nan` of each leaf: `bool[]`.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::zero_nans().chain(optim::sgd(1.0));
/// let w = ones([2]);
/// let gradient = array![f32::NAN, 2.0];
/// let (updates, state) = optimizer.update(&gradient, &optimizer.init(&w), &w);
/// assert_eq!(updates.to_vec::<f32>()?, [0.0, -2.0]);
/// assert!(state.get("found_nan", "").unwrap().item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn zero_nans() -> Optimizer {
    Optimizer::new(ZeroNans)
}

struct ZeroNans;

#[derive(Tree)]
struct ZeroNansState {
    found_nan: Leaves,
}

impl GradientTransformation for ZeroNans {
    type State = ZeroNansState;

    fn init(&self, parameters: &Leaves) -> ZeroNansState {
        ZeroNansState { found_nan: parameters.map(|_| full([], false)) }
    }

    fn update(
        &self,
        updates: Leaves,
        _: ZeroNansState,
        _: &UpdateArgs<'_>,
    ) -> (Leaves, ZeroNansState) {
        let found_nan = updates.map(|update| {
            let axes: Vec<isize> = (0..update.rank() as isize).collect();
            reduce_or(&isnan(update), &axes)
        });
        let updates = updates.map(|update| where_(isnan(update), zeros_like(update), update));
        (updates, ZeroNansState { found_nan })
    }
}
