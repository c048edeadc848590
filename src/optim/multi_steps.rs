//! Accumulation of gradients over several steps.

use super::leaves::{Leaf, Leaves};
use super::optimizer::Optimizer;
use super::schedule::Schedule;
use super::sgd::zero_slot;
use super::slots::{Links, Slots, Step, Transformation, next_count};
use super::wrappers::{at_least_f32, init_inner, update_inner};
use crate::core::{Array, DType};
use crate::ops::isfinite;
use crate::primitives::{
    bitwise_and, bitwise_not, convert_element_type, eq, full, ge, gt, lt, round, where_, zeros,
    zeros_like,
};
use crate::tree;
use std::fmt;
use std::sync::Arc;

/// Accumulates gradients: applies `inner` to the mean of every `every_k` gradients. The updates
/// between are zero.
///
/// Use it for a batch that is too large for the device, in `every_k` parts of equal size. The mean
/// is stored in `f32` at least, as `acc_grads`. `mini_step: i32[]` counts the parts, `inner.count`
/// the steps of `inner`.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::multi_steps(optim::adamw(1e-3), 4);
/// ```
#[doc(alias = "MultiSteps")]
pub fn multi_steps(inner: Optimizer, every_k: u32) -> Optimizer {
    multi_steps_with(inner, f64::from(every_k.max(1)), MultiStepsOptions::default())
}

/// Options of [`multi_steps_with`].
#[derive(Clone, Debug)]
pub struct MultiStepsOptions {
    /// The combination of the gradients. Their mean by default.
    pub accumulation: Accumulation,
    /// Gradients that are not accumulated. None by default.
    pub should_skip: Option<SkipRule>,
    /// The dtype of the accumulated gradients. By default that of the parameter, `f32` at least.
    pub accumulator_dtype: Option<DType>,
}

impl Default for MultiStepsOptions {
    fn default() -> MultiStepsOptions {
        let accumulation = Accumulation::Mean;
        MultiStepsOptions { accumulation, should_skip: None, accumulator_dtype: None }
    }
}

/// A combination of gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "use_grad_mean")]
pub enum Accumulation {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

/// A rule that skips gradients in [`multi_steps_with`].
#[derive(Clone)]
#[doc(alias = "should_skip_update_fn")]
#[doc(alias = "ShouldSkipUpdateFunction")]
pub struct SkipRule {
    measure_name: &'static str,
    rule: Arc<Rule>,
}

/// Returns a condition, `bool[]`, and the number that it depends on.
type Rule = dyn Fn(&Leaves, &Array, &Leaves) -> (Array, Array) + Send + Sync;

impl fmt::Debug for SkipRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SkipRule({})", self.measure_name)
    }
}

impl SkipRule {
    /// Creates a rule from a function of the gradients, the number of steps of the inner optimizer
    /// and the parameters. It returns true to skip the gradients, `bool[]`, and a scalar that the
    /// state stores as `measure_name`.
    ///
    /// The state also has `should_skip: bool[]`.
    pub fn new(
        measure_name: &'static str,
        rule: impl Fn(&Leaves, &Array, &Leaves) -> (Array, Array) + Send + Sync + 'static,
    ) -> SkipRule {
        SkipRule { measure_name, rule: Arc::new(rule) }
    }
}

/// Creates the rule that skips gradients with an element that is not finite. The state counts these
/// elements as `num_not_finite: i32[]`.
///
/// ```
/// use oxidax::optim::MultiStepsOptions;
/// use oxidax::prelude::*;
/// let should_skip = Some(optim::skip_not_finite());
/// let options = MultiStepsOptions { should_skip, ..MultiStepsOptions::default() };
/// let optimizer = optim::multi_steps_with(optim::adam(1e-3), 4.0, options);
/// let state = optimizer.init(&ones([2]));
/// assert_eq!(state.value("num_not_finite").unwrap().item::<i32>()?, 0);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn skip_not_finite() -> SkipRule {
    SkipRule::new("num_not_finite", |updates, _, _| {
        let count = |x: &Array| convert_element_type(&bitwise_not(isfinite(x)), DType::I32).sum();
        let counts = updates.values().iter().map(count);
        let count = counts.reduce(|a, b| a + b).unwrap_or_else(|| zeros(([], DType::I32)));
        (gt(&count, 0), count)
    })
}

/// Creates the rule that skips gradients whose squared norm is not below `max_squared_norm`. The
/// state has the squared norm as `norm_squared: f32[]`.
pub fn skip_large_updates(max_squared_norm: f64) -> SkipRule {
    SkipRule::new("norm_squared", move |updates, _, _| {
        let square = tree::sum(&updates.map(super::adam::absolute_square));
        let square = convert_element_type(&square, DType::F32);
        (bitwise_not(lt(&square, max_squared_norm)), square)
    })
}

/// Accumulates gradients as [`multi_steps`], with options. The number of gradients per step may be
/// a schedule of the number of steps of `inner`, rounded to whole numbers.
pub fn multi_steps_with(
    inner: Optimizer,
    every_k: impl Into<Schedule>,
    options: MultiStepsOptions,
) -> Optimizer {
    let every_k = every_k.into();
    Optimizer::one(MultiSteps { every_k, options, links: inner.links().clone() })
}

#[derive(Debug)]
struct MultiSteps {
    every_k: Schedule,
    options: MultiStepsOptions,
    links: Links,
}

impl MultiSteps {
    /// Returns true if the number of steps of the inner optimizer is needed here.
    fn counts_steps(&self) -> bool {
        self.every_k.constant().is_none() || self.options.should_skip.is_some()
    }
}

impl Transformation for MultiSteps {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        slots.create_single("mini_step", zeros(([], DType::I32)));
        if self.counts_steps() {
            slots.create_single("gradient_step", zeros(([], DType::I32)));
        }
        if let Some(skip) = &self.options.should_skip {
            let parameters = Leaves::parameters(leaves);
            let zeros_of = tree::zeros_like(&parameters);
            let (_, measure) = (skip.rule)(&zeros_of, &zeros(([], DType::I32)), &parameters);
            slots.create_single("should_skip", full([], false));
            slots.create_single(skip.measure_name, zeros_like(&measure));
        }
        let dtype = self.options.accumulator_dtype;
        slots.create("acc_grads", leaves, |leaf| {
            zero_slot(leaf, Some(dtype.unwrap_or_else(|| at_least_f32(&leaf.parameter))))
        });
        init_inner(&self.links, leaves, slots);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let first = slots.put_count();
        let mini_step = slots.take_single("mini_step");
        let gradient_step = self.counts_steps().then(|| slots.take_single("gradient_step"));
        let skipped = self.options.should_skip.as_ref().map(|skip| {
            slots.take_single("should_skip");
            slots.take_single(skip.measure_name);
            let parameters = Leaves::parameters(leaves);
            let count = gradient_step.as_ref().expect("rules count steps");
            (skip.rule)(&parameters.updates(leaves), count, &parameters)
        });
        let sums = slots.take("acc_grads", leaves);
        let n_parts = &mini_step + 1;
        let is_last = match self.every_k.constant() {
            Some(k) => eq(&mini_step, k.round().max(1.0) as i32 - 1),
            None => {
                let count = gradient_step.as_ref().expect("schedules count steps");
                let k = self.every_k.value_with(count, step.hyperparams);
                ge(&n_parts, convert_element_type(&round(&k), DType::I32))
            }
        };
        slots.put_single(where_(&is_last, zeros_like(&n_parts), &n_parts));
        if let Some(count) = &gradient_step {
            slots.put_single(where_(&is_last, next_count(count), count));
        }
        if let Some((is_skipped, measure)) = &skipped {
            slots.put_single(is_skipped.clone());
            slots.put_single(measure.clone());
        }
        let mut next = Vec::with_capacity(sums.len());
        for (leaf, sum) in leaves.iter_mut().zip(&sums) {
            let update = convert_element_type(&leaf.update, sum.dtype());
            let sum = match self.options.accumulation {
                Accumulation::Mean => {
                    sum + (update - sum) / convert_element_type(&n_parts, sum.dtype())
                }
                Accumulation::Sum => sum + update,
            };
            next.push(where_(&is_last, zeros_like(&sum), &sum));
            leaf.update = convert_element_type(&sum, leaf.update.dtype());
        }
        slots.put(next);
        let is_applied = match &skipped {
            Some((is_skipped, _)) => bitwise_and(&is_last, bitwise_not(is_skipped)),
            None => is_last,
        };
        update_inner(&self.links, &is_applied, step, leaves, slots);
        if let Some((is_skipped, measure)) = skipped {
            // Everything but the results of the rule is as before.
            slots.revise(first, |before, after| where_(&is_skipped, before, after));
            slots.replace_single(first + 2, is_skipped);
            slots.replace_single(first + 3, measure);
        }
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        visit(&self.every_k);
        self.links.iter().for_each(|link| link.schedules(visit));
    }
}

/// Applies the sum of the last `k` updates at every `k`-th step. The updates between are zero.
///
/// Unlike [`multi_steps`] it is a link of a chain: transformations before it run at every step.
pub fn apply_every(k: u32) -> Optimizer {
    Optimizer::one(ApplyEvery { k: i32::try_from(k.max(1)).unwrap_or(i32::MAX) })
}

#[derive(Debug)]
struct ApplyEvery {
    k: i32,
}

impl Transformation for ApplyEvery {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        slots.create_single("mini_step", zeros(([], DType::I32)));
        slots.create("grad_acc", leaves, |leaf| zero_slot(leaf, None));
    }

    fn update(&self, _: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let mini_step = slots.take_single("mini_step");
        let mut sums = slots.take("grad_acc", leaves);
        let is_first = eq(&mini_step, 0);
        let is_last = eq(&mini_step, self.k - 1);
        slots.put_single(where_(&is_last, zeros_like(&mini_step), &mini_step + 1));
        for (leaf, sum) in leaves.iter_mut().zip(&mut sums) {
            *sum = where_(&is_first, &leaf.update, &*sum + &leaf.update);
            leaf.update = where_(&is_last, &*sum, zeros_like(sum));
        }
        slots.put(sums);
    }
}
