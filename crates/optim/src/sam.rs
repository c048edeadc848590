//! Sharpness-aware minimization.

use crate::leaf_arithmetic::{copied, scaled, select};
use oxidax::optim::{GradientTransformation, Leaves, Optimizer, State, UpdateArgs};
use oxidax::prelude::*;

/// Divides updates by the norm of all leaves together.
///
/// Chained with [`optim::sgd`] it is the adversarial optimizer of [`sam`].
pub fn normalize() -> Optimizer {
    optim::transformation(
        |_| (),
        |updates, (), _| {
            let norm = tree::norm(&updates);
            (updates.map(|update| update / norm.astype(update.dtype())), ())
        },
    )
}

/// The state of the adversarial optimizer after a step of the outer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "reset_state")]
pub enum AdversarialState {
    /// It is the first state again.
    #[default]
    Reset,
    /// It is that before the last gradient.
    Keep,
}

/// Options of [`sam_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamOptions {
    /// The number of gradients per step of the outer optimizer; all but the last are ascents. 2 by
    /// default.
    pub sync_period: u32,
    /// The state of the adversarial optimizer after a step of the outer one.
    pub adversarial_state: AdversarialState,
}

impl Default for SamOptions {
    fn default() -> SamOptions {
        SamOptions { sync_period: 2, adversarial_state: AdversarialState::Reset }
    }
}

/// Minimizes the largest loss in a neighborhood: `adversarial` climbs from the parameters, and
/// `outer` takes a step from them with the gradient at the top.
///
/// Each call of `update` is one gradient: the parameters of the training step are those at which
/// the next one is taken. After every second call (see [`SamOptions::sync_period`]) they are the
/// trained ones, which the state stores as `cache` between. [`sam_opaque`] takes all gradients in
/// one call.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::{normalize, sam};
/// let optimizer = sam(optim::sgd(0.1), normalize().chain(optim::sgd(0.05)));
/// let loss = |w: &Array| w.square().sum();
/// let mut w = ones([3]);
/// let mut state = optimizer.init(&w);
/// for _ in 0..40 {
///     let updates;
///     (updates, state) = optimizer.update(&grad(loss)(&w), &state, &w);
///     w = optim::apply_updates(&w, &updates);
/// }
/// assert!(loss(&w).item::<f32>()? < 0.05);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Foret, Kleiner, Mobahi, Neyshabur: Sharpness-aware minimization for efficiently improving
/// generalization (2021), algorithm 1.
pub fn sam(outer: Optimizer, adversarial: Optimizer) -> Optimizer {
    sam_with(outer, adversarial, SamOptions::default())
}

/// Wraps an optimizer for sharpness-aware minimization, with options.
pub fn sam_with(outer: Optimizer, adversarial: Optimizer, options: SamOptions) -> Optimizer {
    Optimizer::new(Sam { outer, adversarial, options })
}

struct Sam {
    outer: Optimizer,
    adversarial: Optimizer,
    options: SamOptions,
}

#[derive(Tree)]
struct SamState {
    steps_since_sync: Array,
    cache: Leaves,
    outer: State,
    adversarial: State,
}

impl GradientTransformation for Sam {
    type State = SamState;

    fn init(&self, parameters: &Leaves) -> SamState {
        SamState {
            steps_since_sync: zeros(([], DType::I32)),
            cache: copied(parameters),
            outer: self.outer.init(parameters),
            adversarial: self.adversarial.init(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: SamState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, SamState) {
        let parameters = args.parameters();
        let period = self.options.sync_period.max(1) as i32;
        let is_first = eq(&state.steps_since_sync, 0);
        let is_last = eq(&state.steps_since_sync, period - 1);
        let (descent, ascended) =
            args.update_inner(&self.adversarial, &updates, &state.adversarial);
        let ascent = tree::neg(&descent);
        let (step, outer) = args.update_inner_at(&self.outer, &updates, &state.outer, &state.cache);
        // The outer step begins at the parameters before the ascents.
        let step =
            state.cache.zip_map([parameters, &step], |cache, [now, step]| cache - now + step);
        let cache = select(&is_first, parameters, &state.cache);
        let updates = select(&is_last, &step, &ascent);
        let synced = match self.options.adversarial_state {
            AdversarialState::Reset => self.adversarial.init(parameters),
            AdversarialState::Keep => tree::map(&state.adversarial, Array::clone),
        };
        let next = &state.steps_since_sync + 1;
        let state = SamState {
            steps_since_sync: where_(&is_last, zeros_like(&next), &next),
            cache,
            outer: select(&is_last, &outer, &state.outer),
            adversarial: select(&is_last, &synced, &ascended),
        };
        (updates, state)
    }
}

/// As [`sam_with`], with all gradients of a step in one call of
/// [`Optimizer::update_with`], which needs the loss as a function.
///
/// The first gradient is the argument of the update; the others are those of the function.
#[doc(alias = "opaque_mode")]
pub fn sam_opaque(outer: Optimizer, adversarial: Optimizer, options: SamOptions) -> Optimizer {
    Optimizer::new(OpaqueSam { outer, adversarial, options })
}

struct OpaqueSam {
    outer: Optimizer,
    adversarial: Optimizer,
    options: SamOptions,
}

#[derive(Tree)]
struct OpaqueState {
    outer: State,
    adversarial: State,
}

impl GradientTransformation for OpaqueSam {
    type State = OpaqueState;

    fn init(&self, parameters: &Leaves) -> OpaqueState {
        let (outer, adversarial) = (self.outer.init(parameters), self.adversarial.init(parameters));
        OpaqueState { outer, adversarial }
    }

    fn update(
        &self,
        mut gradient: Leaves,
        state: OpaqueState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, OpaqueState) {
        let mut at = args.parameters().clone();
        let mut adversarial = state.adversarial;
        for _ in 1..self.options.sync_period.max(1) {
            let (descent, next) =
                args.update_inner_at(&self.adversarial, &gradient, &adversarial, &at);
            adversarial = next;
            at = optim::apply_updates(&at, &scaled(&descent, &scalar(-1.0)));
            gradient = grad(|parameters: &Leaves| args.value_at(parameters))(&at);
        }
        if self.options.adversarial_state == AdversarialState::Reset {
            adversarial = self.adversarial.init(args.parameters());
        }
        let (updates, outer) = args.update_inner(&self.outer, &gradient, &state.outer);
        (updates, OpaqueState { outer, adversarial })
    }
}
