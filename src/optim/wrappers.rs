//! What goes around or behind other transformations: averages, accumulation, skipped steps.

use super::adam::mix;
use super::basic::empty;
use super::leaves::Leaf;
use super::memory::{Memory, Rate, Rule, Rules, Step, following};
use super::optimizer::{Optimizer, init_all, update_all};
use super::schedule::Schedule;
use crate::core::{Array, DType};
use crate::ops::isfinite;
use crate::primitives::{
    bitwise_and, bitwise_or, convert_element_type, eq, full, gt, reduce_and, where_, zeros,
    zeros_like,
};

/// The numbers of a running mean of updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ema {
    /// How much of the mean stays, per step.
    pub decay: f64,
    /// Divides the mean by what has been filled of it.
    pub debias: bool,
    /// In which dtype the mean is kept; the parameter's if `None`.
    pub accumulator_dtype: Option<DType>,
}

impl Ema {
    /// Debiased, in the parameter's dtype.
    pub fn new(decay: f64) -> Ema {
        Ema { decay, debias: true, accumulator_dtype: None }
    }

    /// Replaces updates by their running mean.
    pub fn transformation(self) -> Optimizer {
        Optimizer::one(self)
    }
}

/// Replaces updates by their running mean. For other options use [`Ema`]; for a mean of parameters
/// [`params_ema`].
pub fn ema(decay: f64) -> Optimizer {
    Ema::new(decay).transformation()
}

impl Rule for Ema {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        memory.make("ema", leaves, |leaf| empty(leaf, self.accumulator_dtype));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let mut means = memory.take("ema", leaves);
        for (leaf, mean) in leaves.iter_mut().zip(&mut means) {
            *mean = mix(&leaf.update, mean, self.decay);
            leaf.update = match self.debias {
                true => step.debias(mean, self.decay),
                false => mean.clone(),
            };
        }
        memory.keep(means);
    }
}

/// Keeps a running mean of the parameters, in `f32` at least; updates pass through. Put it at the end of the
/// chain: it adds the updates that reach it to the parameters.
/// [`State::params_ema`](super::State::params_ema) gives the mean as a model.
///
/// `mean = decay · mean + (1 - decay) · (parameter + update)`, from the first parameters on. The decay may be a
/// schedule.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let optimizer = optim::adamw(1e-3).chain(optim::params_ema(0.999));
/// let model = zeros([3], DType::F32);
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

impl Rule for ParamsEma {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        memory.make("params_ema", leaves, |leaf| {
            // Not the parameter's own buffer, which the step may be given to reuse.
            zeros_like(&leaf.parameter).astype(at_least_f32(&leaf.parameter)) + &leaf.parameter
        });
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let mut means = memory.take("params_ema", leaves);
        let kept = step.rate(&self.0);
        let added = match &kept {
            Rate::Number(number) => Rate::Number(1.0 - number),
            Rate::Array(array) => Rate::Array(1.0 - array),
        };
        for (leaf, mean) in leaves.iter().zip(&mut means) {
            let next = convert_element_type(&leaf.parameter, mean.dtype())
                + convert_element_type(&leaf.update, mean.dtype());
            *mean = kept.times(mean) + added.times(&next);
        }
        memory.keep(means);
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        visit(&self.0);
    }
}

/// `f32`, unless the dtype is wider or complex.
fn at_least_f32(x: &Array) -> DType {
    match x.dtype() {
        dtype if dtype.is_float() && dtype.bits() < 32 => DType::F32,
        dtype => dtype,
    }
}

/// Lets `inner` see the mean of every `every_k` gradients; the updates in between are zero.
///
/// A batch too large for the device is fed in `every_k` parts of equal size. The mean is kept in `f32` at
/// least, under `acc_grads`; `mini_step: i32[]` counts the parts, `inner.count` the steps of `inner`.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::multi_steps(optim::adamw(1e-3), 4);
/// ```
#[doc(alias = "MultiSteps")]
pub fn multi_steps(inner: Optimizer, every_k: u32) -> Optimizer {
    let every_k = i32::try_from(every_k.max(1)).unwrap_or(i32::MAX);
    Optimizer::one(MultiSteps { every_k, rules: inner.rules().clone() })
}

#[derive(Debug)]
struct MultiSteps {
    every_k: i32,
    rules: Rules,
}

impl Rule for MultiSteps {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        memory.make_single("mini_step", zeros([], DType::I32));
        memory.make("acc_grads", leaves, |leaf| empty(leaf, Some(at_least_f32(&leaf.parameter))));
        init_inner(&self.rules, leaves, memory);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let mini_step = memory.take_single("mini_step");
        let means = memory.take("acc_grads", leaves);
        let is_last = eq(&mini_step, self.every_k - 1);
        let seen = &mini_step + 1;
        memory.keep_single(where_(&is_last, zeros_like(&seen), &seen));
        let mut next = Vec::with_capacity(means.len());
        for (leaf, mean) in leaves.iter_mut().zip(&means) {
            let n = convert_element_type(&seen, mean.dtype());
            let mean = mean + (convert_element_type(&leaf.update, mean.dtype()) - mean) / n;
            next.push(where_(&is_last, zeros_like(&mean), &mean));
            leaf.update = convert_element_type(&mean, leaf.update.dtype());
        }
        memory.keep(next);
        update_inner(&self.rules, &is_last, step, leaves, memory);
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        self.rules.iter().for_each(|rule| rule.schedules(visit));
    }
}

/// Leaves out steps whose gradients are not all finite: their updates are zero, and what `inner` remembers stays.
/// After `max_consecutive_errors` such steps in a row the next one is taken nevertheless, so that a run that
/// is lost shows it.
///
/// `last_finite: bool[]` says whether the last gradients were finite, `notfinite_count: i32[]` how many in a row
/// were not, `total_notfinite: i32[]` how many in all; [`State::value`](super::State::value) reads them. With a
/// [`LossScale`](crate::nn::LossScale) in `f16`:
///
/// ```
/// use oxidax::prelude::*;
///
/// fn step(w: Array, state: optim::State, scale: nn::LossScale) -> (Array, optim::State, nn::LossScale) {
///     let optimizer = optim::apply_if_finite(optim::adam(1e-3), 100);
///     let gradient = grad(|w: &Array| scale.scale(&(w * w).sum()))(&w);
///     let (updates, state) = optimizer.update(&scale.unscale(&gradient), &state, &w);
///     let scale = scale.adjust(state.value("last_finite").expect("`apply_if_finite` keeps it"));
///     (optim::apply_updates(&w, &updates), state, scale)
/// }
/// let of = Aval::new(DType::F16, [3]);
/// let (w, state, _) = eval_shape(
///     |w: Array| {
///         let state = optim::apply_if_finite(optim::adam(1e-3), 100).init(&w);
///         step(w, state, nn::LossScale::dynamic(32768.0))
///     },
///     of.clone(),
/// )?;
/// assert_eq!(*w.aval(), of);
/// assert_eq!(tree::paths(&state)[1..4], ["notfinite_count", "last_finite", "total_notfinite"]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn apply_if_finite(inner: Optimizer, max_consecutive_errors: u32) -> Optimizer {
    let most = i32::try_from(max_consecutive_errors).unwrap_or(i32::MAX);
    Optimizer::one(ApplyIfFinite { most, rules: inner.rules().clone() })
}

#[derive(Debug)]
struct ApplyIfFinite {
    most: i32,
    rules: Rules,
}

impl Rule for ApplyIfFinite {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        memory.make_single("notfinite_count", zeros([], DType::I32));
        memory.make_single("last_finite", full([], true));
        memory.make_single("total_notfinite", zeros([], DType::I32));
        init_inner(&self.rules, leaves, memory);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let in_a_row = memory.take_single("notfinite_count");
        memory.take_single("last_finite");
        let total = memory.take_single("total_notfinite");
        let each = leaves.iter().map(|leaf| {
            let axes: Vec<isize> = (0..leaf.update.rank() as isize).collect();
            reduce_and(&isfinite(&leaf.update), &axes)
        });
        let finite = each.reduce(|a, b| bitwise_and(&a, &b)).unwrap_or_else(|| full([], true));
        let in_a_row = where_(&finite, zeros_like(&in_a_row), following(&in_a_row));
        let taken = bitwise_or(&finite, gt(&in_a_row, self.most));
        memory.keep_single(in_a_row);
        memory.keep_single(finite.clone());
        memory.keep_single(where_(&finite, &total, following(&total)));
        update_inner(&self.rules, &taken, step, leaves, memory);
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        self.rules.iter().for_each(|rule| rule.schedules(visit));
    }
}

/// What links with a count of their own remember: `inner.count`, then theirs.
fn init_inner(rules: &Rules, leaves: &[Leaf], memory: &mut Memory<'_>) {
    memory.within("inner", |memory| {
        memory.make_single("count", zeros([], DType::I32));
        init_all(rules, leaves, memory);
    });
}

/// Runs these links, and where `taken` is false leaves out what they did.
fn update_inner(
    rules: &Rules,
    taken: &Array,
    step: &Step<'_>,
    leaves: &mut [Leaf],
    memory: &mut Memory<'_>,
) {
    let first = memory.kept();
    memory.within("inner", |memory| {
        let count = memory.take_single("count");
        let inner = Step::after(&count, step.hyperparams);
        memory.keep_single(inner.count.clone());
        update_all(rules, &inner, leaves, memory);
    });
    memory.revise(first, |before, after| where_(taken, after, before));
    for leaf in leaves {
        leaf.update = where_(taken, &leaf.update, zeros_like(&leaf.update));
    }
}
