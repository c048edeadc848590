//! The type of schedules and their evaluation.

use super::constructors::Interpolation;
use crate::core::{Array, DType, Loc};
use crate::primitives::{
    convert_element_type, cos, floor, full_like, le, lt, maximum, minimum, pow, where_,
};
use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

/// A number that may change from step to step, such as a learning rate.
///
/// An `f64` converts to a constant schedule. Other schedules are created by
/// [`cosine_decay_schedule`](super::cosine_decay_schedule),
/// [`join_schedules`](super::join_schedules) and similar functions, by
/// [`hyperparam`](hyperparam()), or by [`Schedule::new`] from a function of the count. The first
/// update has count 0.
///
/// ```
/// use oxidax::prelude::*;
/// let rate = optim::linear_schedule(1.0, 0.0, 10);
/// let value = eval_shape(move |count: Array| rate.value(&count), Aval::new(DType::I32, []))?;
/// assert_eq!(value.aval().to_string(), "f32[]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule(Arc<ScheduleKind>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScheduleKind {
    Constant(f64),
    /// `(first - last)·(1 - count/steps)^power + last`.
    Polynomial {
        first: f64,
        last: f64,
        power: f64,
        steps: u32,
    },
    /// `first·((1 - alpha)·(0.5·(1 + cos(π·count/steps)))^exponent + alpha)`.
    Cosine {
        first: f64,
        steps: u32,
        alpha: f64,
        exponent: f64,
    },
    /// `first·rate^(count/steps)`.
    Exponential {
        first: f64,
        steps: u32,
        rate: f64,
        staircase: bool,
        last: Option<f64>,
    },
    /// `first`, multiplied by each scale from its boundary onwards.
    Piecewise {
        first: f64,
        scales: Vec<(u32, f64)>,
    },
    /// An interpolation of points `(count, value)`. The first point has count 0.
    Interpolated {
        points: Vec<(u32, f64)>,
        interpolation: Interpolation,
    },
    /// The first schedule up to the first boundary, then the next with a count from there, and so
    /// on.
    Joined {
        schedules: Vec<Schedule>,
        boundaries: Vec<u32>,
    },
    Delayed {
        inner: Schedule,
        steps: u32,
    },
    Hyperparam {
        name: Arc<str>,
        first: f64,
    },
    /// A number that an outer transformation computes.
    Injected {
        name: Arc<str>,
    },
    Function(Function),
    /// A function of the value of another schedule.
    Mapped {
        inner: Schedule,
        f: Function,
    },
}

/// A function of the count.
#[derive(Clone)]
pub(super) struct Function(Arc<dyn Fn(&Array) -> Array + Send + Sync>);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function(..)")
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The current hyperparameters in a state.
#[derive(Clone, Copy)]
pub(in crate::optim) struct Hyperparams<'a>(&'a [(Arc<str>, Array)]);

impl<'a> Hyperparams<'a> {
    pub(in crate::optim) fn new(numbers: &'a [(Arc<str>, Array)]) -> Hyperparams<'a> {
        Hyperparams(numbers)
    }
}

/// Creates a number that is stored in the state of the optimizer as `hyperparams.NAME`, with the
/// first value `value`.
///
/// Checkpoints contain it, and
/// [`State::set_hyperparam`](crate::optim::State::set_hyperparam) changes it between steps without
/// recompiling. Two of the same name in one optimizer are one number.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::momentum(optim::hyperparam("learning_rate", 0.1), 0.9);
/// let state = eval_shape(move |w: Array| optimizer.init(&w), Aval::new(DType::F32, [3]))?;
/// assert_eq!(tree::paths(&state), ["count", "hyperparams.learning_rate", "trace"]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "inject_hyperparams")]
pub fn hyperparam(name: impl Into<String>, value: f64) -> Schedule {
    Schedule::from_kind(ScheduleKind::Hyperparam { name: name.into().into(), first: value })
}

impl From<f64> for Schedule {
    fn from(value: f64) -> Schedule {
        Schedule::from_kind(ScheduleKind::Constant(value))
    }
}

impl Schedule {
    pub(super) fn from_kind(kind: ScheduleKind) -> Schedule {
        Schedule(Arc::new(kind))
    }

    /// Creates a schedule from a function of the number of updates, `i32[]`, to a number, `f32[]`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// // Linear warm-up for 400 steps, then decay with the inverse square root.
    /// let rate = optim::Schedule::new(|count| {
    ///     let step = count.astype(DType::F32) + 1.0;
    ///     minimum(rsqrt(&step), &step * 400f64.powf(-1.5)) * 0.01
    /// });
    /// let optimizer = optim::adamw(rate);
    /// ```
    pub fn new(f: impl Fn(&Array) -> Array + Send + Sync + 'static) -> Schedule {
        Schedule::from_kind(ScheduleKind::Function(Function(Arc::new(f))))
    }

    /// Applies `f` to the value, `f32[]`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let rate = optim::linear_schedule(1.0, 0.0, 10).map(|rate| rate.square());
    /// assert_eq!(rate.value(&scalar(5)).item::<f32>()?, 0.25);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn map(self, f: impl Fn(&Array) -> Array + Send + Sync + 'static) -> Schedule {
        let f = Function(Arc::new(f));
        Schedule::from_kind(ScheduleKind::Mapped { inner: self, f })
    }

    /// Delays the schedule by `steps` steps. Until then it has its value at count 0.
    #[doc(alias = "transition_begin")]
    pub fn delayed(self, steps: u32) -> Schedule {
        Schedule::from_kind(ScheduleKind::Delayed { inner: self, steps })
    }

    /// Returns the value, `f32[]`, for a number of updates, `i32[]`.
    ///
    /// A [`hyperparam`](hyperparam()) has its first value here.
    #[track_caller]
    pub fn value(&self, count: &Array) -> Array {
        Loc::caller().scope(|| self.value_with(count, Hyperparams(&[])))
    }

    /// Creates the number that an outer transformation computes.
    pub(in crate::optim) fn injected(name: Arc<str>) -> Schedule {
        Schedule::from_kind(ScheduleKind::Injected { name })
    }

    /// Returns the value of a constant schedule.
    pub(in crate::optim) fn constant(&self) -> Option<f64> {
        match *self.0 {
            ScheduleKind::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Appends the names and first values of the hyperparameters in the schedule.
    pub(in crate::optim) fn hyperparams(&self, first_values: &mut Vec<(Arc<str>, f64)>) {
        match &*self.0 {
            ScheduleKind::Hyperparam { name, first } => first_values.push((name.clone(), *first)),
            ScheduleKind::Joined { schedules, .. } => {
                schedules.iter().for_each(|inner| inner.hyperparams(first_values));
            }
            ScheduleKind::Delayed { inner, .. } | ScheduleKind::Mapped { inner, .. } => {
                inner.hyperparams(first_values);
            }
            ScheduleKind::Constant(_)
            | ScheduleKind::Polynomial { .. }
            | ScheduleKind::Cosine { .. }
            | ScheduleKind::Exponential { .. }
            | ScheduleKind::Piecewise { .. }
            | ScheduleKind::Interpolated { .. }
            | ScheduleKind::Injected { .. }
            | ScheduleKind::Function(_) => {}
        }
    }

    /// Returns the value for a number of updates and the current hyperparameters.
    pub(in crate::optim) fn value_with(
        &self,
        count: &Array,
        hyperparams: Hyperparams<'_>,
    ) -> Array {
        match &*self.0 {
            ScheduleKind::Constant(value) => number(*value),
            ScheduleKind::Polynomial { first, last, power, steps } => {
                let remaining = 1.0 - to_f32(&clamp(count, *steps)) / f64::from(*steps);
                let curve = if *power == 1.0 { remaining } else { pow(&remaining, *power) };
                curve * (first - last) + *last
            }
            ScheduleKind::Cosine { first, steps, alpha, exponent } => {
                let elapsed = minimum(to_f32(count), f64::from(*steps));
                let wave = (cos(&(elapsed * PI / f64::from(*steps))) + 1.0) * 0.5;
                let wave = if *exponent == 1.0 { wave } else { pow(&wave, *exponent) };
                (wave * (1.0 - alpha) + *alpha) * *first
            }
            ScheduleKind::Exponential { first, steps, rate, staircase, last } => {
                let periods = to_f32(count) / f64::from(*steps);
                let periods = if *staircase { floor(&periods) } else { periods };
                let decayed = pow(number(*rate), &periods) * *first;
                let value = where_(le(count, 0), full_like(&decayed, *first), &decayed);
                match last {
                    Some(last) if *rate < 1.0 => maximum(&value, *last),
                    Some(last) => minimum(&value, *last),
                    None => value,
                }
            }
            ScheduleKind::Piecewise { first, scales } => {
                let mut value = number(*first);
                for (boundary, scale) in scales {
                    value = where_(lt(count, count_of(*boundary)), &value, &value * *scale);
                }
                value
            }
            ScheduleKind::Interpolated { points, interpolation } => {
                interpolate(points, *interpolation, count)
            }
            ScheduleKind::Joined { schedules, boundaries } => {
                let mut value = schedules[0].value_with(count, hyperparams);
                for (boundary, next) in boundaries.iter().zip(&schedules[1..]) {
                    let boundary = count_of(*boundary);
                    let next = next.value_with(&(count - boundary), hyperparams);
                    value = where_(lt(count, boundary), &value, &next);
                }
                value
            }
            ScheduleKind::Delayed { inner, steps } => {
                inner.value_with(&maximum(count - count_of(*steps), 0), hyperparams)
            }
            ScheduleKind::Hyperparam { name, first } => {
                let current = hyperparams.0.iter().find(|(other, _)| other == name);
                current.map_or_else(|| number(*first), |(_, value)| value.clone())
            }
            ScheduleKind::Injected { name } => {
                let current = hyperparams.0.iter().find(|(other, _)| other == name);
                current.map_or_else(|| number(f64::NAN), |(_, value)| value.clone())
            }
            ScheduleKind::Function(f) => to_f32(&f.0(count)),
            ScheduleKind::Mapped { inner, f } => {
                to_f32(&f.0(&inner.value_with(count, hyperparams)))
            }
        }
    }
}

fn number(value: f64) -> Array {
    super::super::state::number(value)
}

fn to_f32(x: &Array) -> Array {
    convert_element_type(x, DType::F32)
}

/// Converts a number of steps to the dtype of counts, saturating.
fn count_of(steps: u32) -> i32 {
    i32::try_from(steps).unwrap_or(i32::MAX)
}

fn clamp(count: &Array, steps: u32) -> Array {
    minimum(maximum(count, 0), count_of(steps))
}

fn interpolate(points: &[(u32, f64)], interpolation: Interpolation, count: &Array) -> Array {
    let (_, last) = points.last().expect("there is a point at 0");
    let mut value = number(*last);
    for pair in points.windows(2).rev() {
        let [(from, start), (to, end)] = [pair[0], pair[1]];
        let fraction = (to_f32(count) - f64::from(from)) / f64::from((to - from).max(1));
        let interpolated = match interpolation {
            Interpolation::Cosine => (cos(&(fraction * PI)) + 1.0) * ((start - end) / 2.0) + end,
            Interpolation::Linear => fraction * (end - start) + start,
        };
        value = where_(lt(count, count_of(to)), &interpolated, &value);
    }
    value
}
