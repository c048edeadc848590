//! Schedules by Optax's names.

use super::kind::{Schedule, ScheduleKind};
use crate::core::{RuleError, throw_operands};

/// Creates a constant schedule. An `f64` also converts to one.
pub fn constant_schedule(value: f64) -> Schedule {
    Schedule::from_kind(ScheduleKind::Constant(value))
}

/// Creates a schedule from `init_value` to `end_value` in `transition_steps` steps, along
/// `(1 - count/steps)^power`.
///
/// Afterwards it stays at `end_value`. With 0 steps it stays at `init_value`.
pub fn polynomial_schedule(
    init_value: f64,
    end_value: f64,
    power: f64,
    transition_steps: u32,
) -> Schedule {
    match transition_steps {
        0 => constant_schedule(init_value),
        steps => Schedule::from_kind(ScheduleKind::Polynomial {
            first: init_value,
            last: end_value,
            power,
            steps,
        }),
    }
}

/// Creates a linear schedule from `init_value` to `end_value` in `transition_steps` steps.
/// Afterwards it stays at `end_value`.
pub fn linear_schedule(init_value: f64, end_value: f64, transition_steps: u32) -> Schedule {
    polynomial_schedule(init_value, end_value, 1.0, transition_steps)
}

/// Options of [`polynomial_schedule_with`] and [`linear_schedule_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransitionOptions {
    /// The number of steps before the transition, with the first value. 0 by default.
    pub transition_begin: u32,
}

/// Creates a polynomial schedule as [`polynomial_schedule`], with options.
pub fn polynomial_schedule_with(
    init_value: f64,
    end_value: f64,
    power: f64,
    transition_steps: u32,
    options: TransitionOptions,
) -> Schedule {
    let schedule = polynomial_schedule(init_value, end_value, power, transition_steps);
    match options.transition_begin {
        0 => schedule,
        steps => schedule.delayed(steps),
    }
}

/// Creates a linear schedule as [`linear_schedule`], with options.
///
/// ```
/// use oxidax::optim::TransitionOptions;
/// use oxidax::prelude::*;
/// let options = TransitionOptions { transition_begin: 10 };
/// let rate = optim::linear_schedule_with(1.0, 0.0, 20, options);
/// assert_eq!(rate.value(&scalar(20)).item::<f32>()?, 0.5);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn linear_schedule_with(
    init_value: f64,
    end_value: f64,
    transition_steps: u32,
    options: TransitionOptions,
) -> Schedule {
    polynomial_schedule_with(init_value, end_value, 1.0, transition_steps, options)
}

/// Creates a schedule that starts at `init_value` and is multiplied by a scale at each boundary.
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
    let scales = sorted_scales("piecewise_constant_schedule", boundaries_and_scales);
    Schedule::from_kind(ScheduleKind::Piecewise { first: init_value, scales })
}

/// The interpolation of a [`piecewise_interpolate_schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// Linear interpolation.
    Linear,
    /// Interpolation along half a period of the cosine.
    Cosine,
}

/// Creates a schedule that interpolates values at boundaries. The value at each boundary is the one
/// before, multiplied by the scale.
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
    for (boundary, scale) in sorted_scales("piecewise_interpolate_schedule", boundaries_and_scales)
    {
        value *= scale;
        points.push((boundary, value));
    }
    Schedule::from_kind(ScheduleKind::Interpolated { points, interpolation })
}

#[track_caller]
fn sorted_scales(
    name: &'static str,
    pairs: impl IntoIterator<Item = (u32, f64)>,
) -> Vec<(u32, f64)> {
    let mut pairs: Vec<(u32, f64)> = pairs.into_iter().collect();
    pairs.sort_by_key(|(boundary, _)| *boundary);
    if let Some((boundary, scale)) = pairs.iter().find(|(_, scale)| *scale < 0.0) {
        let message = format!("the scale at {boundary} is {scale}, which is negative");
        throw_operands(name, RuleError::value(message), &[]);
    }
    pairs
}

/// Options of [`exponential_decay_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExponentialDecayOptions {
    /// Multiplies by the whole factor once every `transition_steps` steps.
    pub staircase: bool,
    /// The limit of the values. Without limit by default.
    pub end_value: Option<f64>,
    /// The number of steps before the decay begins. 0 by default.
    pub transition_begin: u32,
}

/// Creates the schedule `init_value · decay_rate^(count / transition_steps)`.
///
/// It is constant if `transition_steps` or `decay_rate` is 0.
pub fn exponential_decay(init_value: f64, transition_steps: u32, decay_rate: f64) -> Schedule {
    let options = ExponentialDecayOptions::default();
    exponential_decay_with(init_value, transition_steps, decay_rate, options)
}

/// Creates an exponential decay, as [`exponential_decay`], with options.
pub fn exponential_decay_with(
    init_value: f64,
    transition_steps: u32,
    decay_rate: f64,
    options: ExponentialDecayOptions,
) -> Schedule {
    if transition_steps == 0 || decay_rate == 0.0 {
        return constant_schedule(init_value);
    }
    let decay = Schedule::from_kind(ScheduleKind::Exponential {
        first: init_value,
        steps: transition_steps,
        rate: decay_rate,
        staircase: options.staircase,
        last: options.end_value,
    });
    if options.transition_begin == 0 { decay } else { decay.delayed(options.transition_begin) }
}

/// A linear warm-up and a cosine decay: one cycle of a [`sgdr_schedule`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupCosineDecay {
    /// The value at count 0.
    pub init_value: f64,
    /// The value after the warm-up.
    pub peak_value: f64,
    /// The number of steps of the warm-up.
    pub warmup_steps: u32,
    /// The number of all steps, including the warm-up.
    pub decay_steps: u32,
    /// The value at the end and afterwards.
    pub end_value: f64,
    /// The exponent of the cosine wave.
    pub exponent: f64,
}

impl WarmupCosineDecay {
    /// Creates the schedule.
    ///
    /// Throws `Op` (value) unless the warm-up has fewer steps than the whole.
    #[track_caller]
    pub fn schedule(self) -> Schedule {
        if self.decay_steps <= self.warmup_steps {
            let (warmup, all) = (self.warmup_steps, self.decay_steps);
            let message = format!("the warm-up takes {warmup} of {all} steps, no step is left");
            throw_operands("warmup_cosine_decay_schedule", RuleError::value(message), &[]);
        }
        let peak = self.peak_value;
        let alpha = if peak == 0.0 { 0.0 } else { self.end_value / peak };
        let steps = self.decay_steps - self.warmup_steps;
        let decay = ScheduleKind::Cosine { first: peak, steps, alpha, exponent: self.exponent };
        let rise = linear_schedule(self.init_value, peak, self.warmup_steps);
        join_schedules([rise, Schedule::from_kind(decay)], [self.warmup_steps])
    }
}

/// Creates a schedule from `init_value` to `alpha · init_value` in `decay_steps` steps, along half
/// a period of the cosine.
///
/// Throws `Op` (value) if `decay_steps` is 0.
///
/// # Reference
/// Loshchilov, Hutter: SGDR: stochastic gradient descent with warm restarts (2017), equation 5.
#[track_caller]
pub fn cosine_decay_schedule(init_value: f64, decay_steps: u32, alpha: f64) -> Schedule {
    cosine_decay_schedule_with(init_value, decay_steps, CosineDecayOptions { alpha, exponent: 1.0 })
}

/// Options of [`cosine_decay_schedule_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineDecayOptions {
    /// The last value as a part of the first one. 0 by default.
    pub alpha: f64,
    /// The exponent of the cosine wave. 1 by default.
    pub exponent: f64,
}

impl Default for CosineDecayOptions {
    fn default() -> CosineDecayOptions {
        CosineDecayOptions { alpha: 0.0, exponent: 1.0 }
    }
}

/// Creates a cosine decay as [`cosine_decay_schedule`], with options.
///
/// ```
/// use oxidax::optim::CosineDecayOptions;
/// use oxidax::prelude::*;
/// let options = CosineDecayOptions { exponent: 2.0, ..CosineDecayOptions::default() };
/// let rate = optim::cosine_decay_schedule_with(1.0, 100, options);
/// assert!((rate.value(&scalar(50)).item::<f32>()? - 0.25).abs() < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cosine_decay_schedule_with(
    init_value: f64,
    decay_steps: u32,
    options: CosineDecayOptions,
) -> Schedule {
    let CosineDecayOptions { alpha, exponent } = options;
    if decay_steps == 0 {
        let message = "decay_steps is 0, it must be positive".to_owned();
        throw_operands("cosine_decay_schedule", RuleError::value(message), &[]);
    }
    Schedule::from_kind(ScheduleKind::Cosine {
        first: init_value,
        steps: decay_steps,
        alpha,
        exponent,
    })
}

/// Creates a linear warm-up to `peak_value` in `warmup_steps`, then a cosine decay to `end_value`,
/// which it reaches `decay_steps` after the start.
///
/// [`WarmupCosineDecay`] also has an exponent.
///
/// Throws `Op` (value) unless the warm-up has fewer steps than the whole.
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

/// Creates a linear warm-up to `peak_value` in `warmup_steps`, then a constant.
pub fn warmup_constant_schedule(init_value: f64, peak_value: f64, warmup_steps: u32) -> Schedule {
    linear_schedule(init_value, peak_value, warmup_steps)
}

/// Creates a linear warm-up to `peak_value` in `warmup_steps`, then the exponential decay
/// `peak_value · decay_rate^(count / transition_steps)`.
pub fn warmup_exponential_decay_schedule(
    init_value: f64,
    peak_value: f64,
    warmup_steps: u32,
    transition_steps: u32,
    decay_rate: f64,
    options: ExponentialDecayOptions,
) -> Schedule {
    let rise = linear_schedule(init_value, peak_value, warmup_steps);
    let decay = exponential_decay_with(peak_value, transition_steps, decay_rate, options);
    join_schedules([rise, decay], [warmup_steps])
}

/// Creates a sequence of cosine decays with warm restarts.
///
/// Throws `Op` (value) if there are no cycles.
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

/// Creates a warm-up-stable-decay schedule: linear from 0 to `peak_value`, constant for
/// `stable_steps`, linear to `end_value` in `decay_steps`.
///
/// To extend a run, make the stable part longer.
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

/// Options of [`linear_onecycle_schedule_with`] and [`cosine_onecycle_schedule_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnecycleOptions {
    /// The part of the steps with rising values. 0.3 by default.
    pub pct_start: f64,
    /// The part of the steps after which a linear cycle is back at its first value. 0.85 by
    /// default. Cosine cycles do not use it.
    pub pct_final: f64,
    /// The peak over the first value. 25 by default.
    pub div_factor: f64,
    /// The first value over the last one. 10,000 by default.
    pub final_div_factor: f64,
}

impl Default for OnecycleOptions {
    fn default() -> OnecycleOptions {
        OnecycleOptions { pct_start: 0.3, pct_final: 0.85, div_factor: 25.0, final_div_factor: 1e4 }
    }
}

/// Creates one linear cycle: from `peak_value / 25` to `peak_value` at 30 % of `transition_steps`,
/// back at 85 %, and to a 10,000th of that at the end.
///
/// # Reference
/// Smith, Topin: Super-convergence: very fast training of neural networks using large learning
/// rates (2018).
#[track_caller]
pub fn linear_onecycle_schedule(transition_steps: u32, peak_value: f64) -> Schedule {
    linear_onecycle_schedule_with(transition_steps, peak_value, OnecycleOptions::default())
}

/// Creates one linear cycle as [`linear_onecycle_schedule`], with options.
#[track_caller]
pub fn linear_onecycle_schedule_with(
    transition_steps: u32,
    peak_value: f64,
    options: OnecycleOptions,
) -> Schedule {
    let OnecycleOptions { pct_start, pct_final, div_factor, final_div_factor } = options;
    let step = |fraction: f64| (fraction * f64::from(transition_steps)) as u32;
    let pairs = [
        (step(pct_start), div_factor),
        (step(pct_final), 1.0 / div_factor),
        (transition_steps, 1.0 / final_div_factor),
    ];
    piecewise_interpolate_schedule(Interpolation::Linear, peak_value / div_factor, pairs)
}

/// Creates one cosine cycle: from `peak_value / 25` to `peak_value` at 30 % of `transition_steps`,
/// then to `peak_value / 250000` at the end.
///
/// # Reference
/// Smith, Topin: Super-convergence: very fast training of neural networks using large learning
/// rates (2018).
#[track_caller]
pub fn cosine_onecycle_schedule(transition_steps: u32, peak_value: f64) -> Schedule {
    cosine_onecycle_schedule_with(transition_steps, peak_value, OnecycleOptions::default())
}

/// Creates one cosine cycle as [`cosine_onecycle_schedule`], with options.
#[track_caller]
pub fn cosine_onecycle_schedule_with(
    transition_steps: u32,
    peak_value: f64,
    options: OnecycleOptions,
) -> Schedule {
    let OnecycleOptions { pct_start, div_factor, final_div_factor, .. } = options;
    let rise = (pct_start * f64::from(transition_steps)) as u32;
    let pairs = [(rise, div_factor), (transition_steps, 1.0 / (div_factor * final_div_factor))];
    piecewise_interpolate_schedule(Interpolation::Cosine, peak_value / div_factor, pairs)
}

/// Joins schedules: each starts, with count 0, at the boundary before it.
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
    Schedule::from_kind(ScheduleKind::Joined { schedules, boundaries })
}
