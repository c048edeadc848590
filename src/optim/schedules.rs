//! The schedules that training runs use, by Optax's names.

use super::schedule::{Kind, Schedule};
use crate::core::{RuleError, throw_operands};

/// Always `value`. An `f64` does as well wherever a [`Schedule`] is taken.
pub fn constant_schedule(value: f64) -> Schedule {
    Schedule::of(Kind::Constant(value))
}

/// From `init_value` to `end_value` in `transition_steps` steps, along `(1 - count/steps)^power`; then
/// `end_value`. With no steps it stays at `init_value`.
pub fn polynomial_schedule(
    init_value: f64,
    end_value: f64,
    power: f64,
    transition_steps: u32,
) -> Schedule {
    match transition_steps {
        0 => constant_schedule(init_value),
        steps => {
            Schedule::of(Kind::Polynomial { first: init_value, last: end_value, power, steps })
        }
    }
}

/// From `init_value` to `end_value` in `transition_steps` steps, in a straight line; then `end_value`.
pub fn linear_schedule(init_value: f64, end_value: f64, transition_steps: u32) -> Schedule {
    polynomial_schedule(init_value, end_value, 1.0, transition_steps)
}

/// `init_value`, multiplied by each scale from its boundary on.
///
/// Throws `Op` (value) if a scale is negative.
///
/// ```
/// use oxidax::prelude::*;
/// let rate = optim::piecewise_constant_schedule(0.1, [(30_000, 0.1), (60_000, 0.1)]);
/// ```
#[track_caller]
pub fn piecewise_constant_schedule(
    init_value: f64,
    boundaries_and_scales: impl IntoIterator<Item = (u32, f64)>,
) -> Schedule {
    let scales = sorted("piecewise_constant_schedule", boundaries_and_scales);
    Schedule::of(Kind::Piecewise { first: init_value, scales })
}

/// How a [`piecewise_interpolate_schedule`] goes from value to value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// In a straight line.
    Linear,
    /// Along half a wave of the cosine.
    Cosine,
}

/// From value to value: at each boundary the value of the one before, times the scale.
///
/// Throws `Op` (value) if a scale is negative.
#[track_caller]
pub fn piecewise_interpolate_schedule(
    interpolation: Interpolation,
    init_value: f64,
    boundaries_and_scales: impl IntoIterator<Item = (u32, f64)>,
) -> Schedule {
    let mut points = vec![(0, init_value)];
    let mut value = init_value;
    for (boundary, scale) in sorted("piecewise_interpolate_schedule", boundaries_and_scales) {
        value *= scale;
        points.push((boundary, value));
    }
    Schedule::of(Kind::Interpolated { points, cosine: interpolation == Interpolation::Cosine })
}

#[track_caller]
fn sorted(name: &'static str, pairs: impl IntoIterator<Item = (u32, f64)>) -> Vec<(u32, f64)> {
    let mut pairs: Vec<(u32, f64)> = pairs.into_iter().collect();
    pairs.sort_by_key(|(boundary, _)| *boundary);
    if let Some((boundary, scale)) = pairs.iter().find(|(_, scale)| *scale < 0.0) {
        let message = format!("the scale at {boundary} is {scale}, which is negative");
        throw_operands(name, RuleError::value(message), &[]);
    }
    pairs
}

/// The numbers of an exponential decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialDecay {
    /// The value at count 0.
    pub init_value: f64,
    /// In how many steps it is multiplied by `decay_rate` once.
    pub transition_steps: u32,
    /// The factor.
    pub decay_rate: f64,
    /// Multiplies every `transition_steps` steps at once instead of a little at each.
    pub staircase: bool,
    /// Where it stops.
    pub end_value: Option<f64>,
}

impl ExponentialDecay {
    /// The schedule. Constant if `transition_steps` or `decay_rate` is 0.
    pub fn schedule(self) -> Schedule {
        let ExponentialDecay { init_value, transition_steps, decay_rate, staircase, end_value } =
            self;
        if transition_steps == 0 || decay_rate == 0.0 {
            return constant_schedule(init_value);
        }
        Schedule::of(Kind::Exponential {
            first: init_value,
            steps: transition_steps,
            rate: decay_rate,
            staircase,
            last: end_value,
        })
    }
}

/// `init_value · decay_rate^(count / transition_steps)`. For stairs or an end use [`ExponentialDecay`].
pub fn exponential_decay(init_value: f64, transition_steps: u32, decay_rate: f64) -> Schedule {
    let staircase = false;
    let end_value = None;
    ExponentialDecay { init_value, transition_steps, decay_rate, staircase, end_value }.schedule()
}

/// The numbers of a decay along half a wave of the cosine, after a linear warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupCosineDecay {
    /// The value at count 0.
    pub init_value: f64,
    /// The value after the warm-up.
    pub peak_value: f64,
    /// How many steps the warm-up takes.
    pub warmup_steps: u32,
    /// How many steps all of it takes, the warm-up included.
    pub decay_steps: u32,
    /// The value at the end and after.
    pub end_value: f64,
    /// The power to which the wave is raised; 1 leaves it.
    pub exponent: f64,
}

impl WarmupCosineDecay {
    /// The schedule.
    ///
    /// Throws `Op` (value) if the warm-up is not shorter than the whole.
    #[track_caller]
    pub fn schedule(self) -> Schedule {
        if self.decay_steps <= self.warmup_steps {
            let (warmup, all) = (self.warmup_steps, self.decay_steps);
            let message = format!("the warm-up takes {warmup} of {all} steps, which leaves none");
            throw_operands("warmup_cosine_decay_schedule", RuleError::value(message), &[]);
        }
        let peak = self.peak_value;
        let alpha = if peak == 0.0 { 0.0 } else { self.end_value / peak };
        let steps = self.decay_steps - self.warmup_steps;
        let decay = Kind::Cosine { first: peak, steps, alpha, exponent: self.exponent };
        let rise = linear_schedule(self.init_value, peak, self.warmup_steps);
        join_schedules([rise, Schedule::of(decay)], [self.warmup_steps])
    }
}

/// From `init_value` to `alpha · init_value` in `decay_steps` steps, along half a wave of the cosine.
///
/// Throws `Op` (value) if there are no steps.
///
/// # Reference
/// Loshchilov, Hutter: SGDR: stochastic gradient descent with warm restarts (2017), equation 5.
#[track_caller]
pub fn cosine_decay_schedule(init_value: f64, decay_steps: u32, alpha: f64) -> Schedule {
    if decay_steps == 0 {
        let message = "decay_steps is 0, it must be positive".to_owned();
        throw_operands("cosine_decay_schedule", RuleError::value(message), &[]);
    }
    Schedule::of(Kind::Cosine { first: init_value, steps: decay_steps, alpha, exponent: 1.0 })
}

/// Linear to `peak_value` in `warmup_steps`, then along a cosine to `end_value`, which it reaches
/// `decay_steps` after the start. For an exponent use [`WarmupCosineDecay`].
///
/// Throws `Op` (value) if the warm-up is not shorter than the whole.
#[track_caller]
pub fn warmup_cosine_decay_schedule(
    init_value: f64,
    peak_value: f64,
    warmup_steps: u32,
    decay_steps: u32,
    end_value: f64,
) -> Schedule {
    let exponent = 1.0;
    WarmupCosineDecay { init_value, peak_value, warmup_steps, decay_steps, end_value, exponent }
        .schedule()
}

/// Linear to `peak_value` in `warmup_steps`, then constant.
pub fn warmup_constant_schedule(init_value: f64, peak_value: f64, warmup_steps: u32) -> Schedule {
    linear_schedule(init_value, peak_value, warmup_steps)
}

/// Linear to the decay's `init_value` in `warmup_steps`, then that decay.
#[track_caller]
pub fn warmup_exponential_decay_schedule(
    init_value: f64,
    warmup_steps: u32,
    decay: ExponentialDecay,
) -> Schedule {
    let rise = linear_schedule(init_value, decay.init_value, warmup_steps);
    join_schedules([rise, decay.schedule()], [warmup_steps])
}

/// Cosine decays one after the other, each with its warm-up: restarts.
///
/// Throws `Op` (value) if there is none.
///
/// # Reference
/// Loshchilov, Hutter: SGDR: stochastic gradient descent with warm restarts (2017).
#[track_caller]
pub fn sgdr_schedule(cycles: impl IntoIterator<Item = WarmupCosineDecay>) -> Schedule {
    let (mut schedules, mut boundaries, mut end) = (Vec::new(), Vec::new(), 0u32);
    for cycle in cycles {
        end = end.saturating_add(cycle.decay_steps);
        schedules.push(cycle.schedule());
        boundaries.push(end);
    }
    boundaries.pop();
    join_schedules(schedules, boundaries)
}

/// Warm-up, stable, decay: linear from 0 to `peak_value`, constant for `stable_steps`, linear to `end_value`
/// in `decay_steps`. A run can be prolonged by a longer stable part.
///
/// # Reference
/// Hu et al.: MiniCPM: unveiling the potential of small language models (2024), section 4.
#[doc(alias = "wsd")]
pub fn warmup_stable_decay_schedule(
    peak_value: f64,
    warmup_steps: u32,
    stable_steps: u32,
    decay_steps: u32,
    end_value: f64,
) -> Schedule {
    let rise = linear_schedule(0.0, peak_value, warmup_steps);
    let fall = linear_schedule(peak_value, end_value, decay_steps);
    let end = warmup_steps.saturating_add(stable_steps);
    join_schedules([rise, constant_schedule(peak_value), fall], [warmup_steps, end])
}

/// One cycle: linear from a 25th of `peak_value` up to it at 30 % of `transition_steps`, back at 85 %, and
/// to a 10,000th of that at the end.
///
/// # Reference
/// Smith, Topin: Super-convergence: very fast training of neural networks using large learning rates (2018).
#[track_caller]
pub fn linear_onecycle_schedule(transition_steps: u32, peak_value: f64) -> Schedule {
    let part = |share: f64| (share * f64::from(transition_steps)) as u32;
    let pairs = [(part(0.3), 25.0), (part(0.85), 1.0 / 25.0), (transition_steps, 1e-4)];
    piecewise_interpolate_schedule(Interpolation::Linear, peak_value / 25.0, pairs)
}

/// One cycle: along cosines from a 25th of `peak_value` up to it at 30 % of `transition_steps`, and down to
/// a 250,000th of it at the end.
///
/// # Reference
/// Smith, Topin: Super-convergence: very fast training of neural networks using large learning rates (2018).
#[track_caller]
pub fn cosine_onecycle_schedule(transition_steps: u32, peak_value: f64) -> Schedule {
    let rise = (0.3 * f64::from(transition_steps)) as u32;
    let pairs = [(rise, 25.0), (transition_steps, 1.0 / (25.0 * 1e4))];
    piecewise_interpolate_schedule(Interpolation::Cosine, peak_value / 25.0, pairs)
}

/// One schedule after the other: each begins, with a count of 0, at the boundary before it.
///
/// Throws `Op` (value) unless there is one boundary between every two schedules.
#[track_caller]
pub fn join_schedules(
    schedules: impl IntoIterator<Item = Schedule>,
    boundaries: impl IntoIterator<Item = u32>,
) -> Schedule {
    let schedules: Vec<Schedule> = schedules.into_iter().collect();
    let boundaries: Vec<u32> = boundaries.into_iter().collect();
    if schedules.len() != boundaries.len() + 1 {
        let (n, between) = (schedules.len(), boundaries.len());
        let message = format!("{n} schedules have {between} boundaries between them");
        throw_operands("join_schedules", RuleError::value(message), &[]);
    }
    Schedule::of(Kind::Joined { schedules, boundaries })
}
