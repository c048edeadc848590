//! Wrappers of optimizers: averages, gradient accumulation and skipped steps.

use super::adam::decayed_mean;
use super::leaves::Leaf;
use super::optimizer::{Optimizer, init_all, update_all};
use super::schedule::Schedule;
use super::sgd::zero_slot;
use super::slots::{Links, Rate, Slots, Step, Transformation, next_count};
use crate::core::{Array, DType};
use crate::ops::isfinite;
use crate::primitives::{
    bitwise_and, bitwise_or, convert_element_type, full, gt, reduce_and, where_, zeros, zeros_like,
};

/// Options of [`ema_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmaOptions {
    /// Corrects the bias of a mean that starts at zero. True by default.
    pub debias: bool,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub accumulator_dtype: Option<DType>,
}

impl Default for EmaOptions {
    fn default() -> EmaOptions {
        EmaOptions { debias: true, accumulator_dtype: None }
    }
}

/// Replaces updates by their exponential moving average. For an average of parameters use
/// [`params_ema`].
pub fn ema(decay: f64) -> Optimizer {
    ema_with(decay, EmaOptions::default())
}

/// Replaces updates by their exponential moving average, with options.
pub fn ema_with(decay: f64, options: EmaOptions) -> Optimizer {
    Optimizer::one(Ema { decay, options })
}

#[derive(Debug)]
struct Ema {
    decay: f64,
    options: EmaOptions,
}

impl Transformation for Ema {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        slots.create("ema", leaves, |leaf| zero_slot(leaf, self.options.accumulator_dtype));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let mut means = slots.take("ema", leaves);
        for (leaf, mean) in leaves.iter_mut().zip(&mut means) {
            *mean = decayed_mean(&leaf.update, mean, self.decay);
            leaf.update =
                if self.options.debias { step.debias(mean, self.decay) } else { mean.clone() };
        }
        slots.put(means);
    }
}

/// Maintains an exponential moving average of the parameters, in `f32` at least. Updates are not
/// changed.
///
/// Put it at the end of the chain: it adds the updates that reach it to the parameters.
/// [`State::params_ema`](super::State::params_ema) returns the average as a model.
///
/// `mean = decay · mean + (1 - decay) · (parameter + update)`, starting from the first parameters.
/// The decay may be a schedule.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let optimizer = optim::adamw(1e-3).chain(optim::params_ema(0.999));
/// let model = zeros([3]);
/// let state = optimizer.init(&model);
/// let averaged = state.params_ema(&model);
/// ```
///
/// # Reference
/// Polyak, Juditsky: Acceleration of stochastic approximation by averaging (1992).
pub fn params_ema(decay: impl Into<Schedule>) -> Optimizer {
    Optimizer::one(ParamsEma(decay.into()))
}

#[derive(Debug)]
struct ParamsEma(Schedule);

impl Transformation for ParamsEma {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        slots.create("params_ema", leaves, |leaf| {
            // A copy: the step may take the buffer of the parameter by donation.
            zeros_like(&leaf.parameter).astype(at_least_f32(&leaf.parameter)) + &leaf.parameter
        });
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let mut means = slots.take("params_ema", leaves);
        let decay = step.rate(&self.0);
        let complement = match &decay {
            Rate::Number(number) => Rate::Number(1.0 - number),
            Rate::Array(array) => Rate::Array(1.0 - array),
        };
        for (leaf, mean) in leaves.iter().zip(&mut means) {
            let next = convert_element_type(&leaf.parameter, mean.dtype())
                + convert_element_type(&leaf.update, mean.dtype());
            *mean = decay.times(mean) + complement.times(&next);
        }
        slots.put(means);
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        visit(&self.0);
    }
}

/// Returns `f32`, unless the dtype is wider or complex.
pub(super) fn at_least_f32(x: &Array) -> DType {
    match x.dtype() {
        dtype if dtype.is_float() && dtype.bits() < 32 => DType::F32,
        dtype => dtype,
    }
}

/// Skips steps whose gradients are not all finite: their updates are zero, and the state of `inner`
/// does not change.
///
/// After `max_consecutive_errors` skipped steps the next one is applied, so that a failed run is
/// visible. [`State::value`](super::State::value) reads:
///
/// - `last_finite: bool[]`: the last gradients were finite;
/// - `notfinite_count: i32[]`: the number of consecutive skipped steps;
/// - `total_notfinite: i32[]`: the number of all skipped steps.
///
/// With a [`LossScale`](crate::nn::LossScale) in `f16`:
///
/// ```
/// use oxidax::prelude::*;
///
/// fn step(
///     w: Array,
///     state: optim::State,
///     scale: nn::LossScale,
/// ) -> (Array, optim::State, nn::LossScale) {
///     let optimizer = optim::apply_if_finite(optim::adam(1e-3), 100);
///     let gradient = grad(|w: &Array| scale.scale(&(w * w).sum()))(&w);
///     let (updates, state) = optimizer.update(&scale.unscale(&gradient), &state, &w);
///     let scale = scale.adjust(state.value("last_finite").expect("`apply_if_finite` creates it"));
///     (optim::apply_updates(&w, &updates), state, scale)
/// }
/// let aval = Aval::new(DType::F16, [3]);
/// let (w, state, _) = eval_shape(
///     |w: Array| {
///         let state = optim::apply_if_finite(optim::adam(1e-3), 100).init(&w);
///         step(w, state, nn::LossScale::dynamic(32768.0))
///     },
///     aval.clone(),
/// )?;
/// assert_eq!(*w.aval(), aval);
/// assert_eq!(tree::paths(&state)[1..4], ["notfinite_count", "last_finite", "total_notfinite"]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn apply_if_finite(inner: Optimizer, max_consecutive_errors: u32) -> Optimizer {
    let max_consecutive_errors = i32::try_from(max_consecutive_errors).unwrap_or(i32::MAX);
    Optimizer::one(ApplyIfFinite { max_consecutive_errors, links: inner.links().clone() })
}

#[derive(Debug)]
struct ApplyIfFinite {
    max_consecutive_errors: i32,
    links: Links,
}

impl Transformation for ApplyIfFinite {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        slots.create_single("notfinite_count", zeros(([], DType::I32)));
        slots.create_single("last_finite", full([], true));
        slots.create_single("total_notfinite", zeros(([], DType::I32)));
        init_inner(&self.links, leaves, slots);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let consecutive = slots.take_single("notfinite_count");
        slots.take_single("last_finite");
        let total = slots.take_single("total_notfinite");
        let is_finite = |leaf: &Leaf| {
            let axes: Vec<isize> = (0..leaf.update.rank() as isize).collect();
            reduce_and(&isfinite(&leaf.update), &axes)
        };
        let leaves_finite = leaves.iter().map(is_finite);
        let finite =
            leaves_finite.reduce(|a, b| bitwise_and(&a, &b)).unwrap_or_else(|| full([], true));
        let consecutive = where_(&finite, zeros_like(&consecutive), next_count(&consecutive));
        let is_applied = bitwise_or(&finite, gt(&consecutive, self.max_consecutive_errors));
        slots.put_single(consecutive);
        slots.put_single(finite.clone());
        slots.put_single(where_(&finite, &total, next_count(&total)));
        update_inner(&self.links, &is_applied, step, leaves, slots);
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        self.links.iter().for_each(|link| link.schedules(visit));
    }
}

/// Creates the slots of an inner optimizer: `inner.count`, then its own.
pub(super) fn init_inner(links: &Links, leaves: &[Leaf], slots: &mut Slots<'_>) {
    slots.within("inner", |slots| {
        slots.create_single("count", zeros(([], DType::I32)));
        init_all(links, leaves, slots);
    });
}

/// Runs an inner optimizer. If `is_applied` is false, its updates are zero and its slots unchanged.
pub(super) fn update_inner(
    links: &Links,
    is_applied: &Array,
    step: &Step<'_>,
    leaves: &mut [Leaf],
    slots: &mut Slots<'_>,
) {
    let first = slots.put_count();
    slots.within("inner", |slots| {
        let count = slots.take_single("count");
        let inner = Step::after(&count, step.hyperparams, step.extra);
        slots.put_single(inner.count.clone());
        update_all(links, &inner, leaves, slots);
    });
    slots.revise(first, |before, after| where_(is_applied, after, before));
    for leaf in leaves {
        leaf.update = where_(is_applied, &leaf.update, zeros_like(&leaf.update));
    }
}
