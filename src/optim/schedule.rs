//! Numbers that change from step to step.

use super::state::State;
use crate::core::{Array, DType, Loc};
use crate::primitives::{
    convert_element_type, cos, full_like, le, lt, maximum, minimum, pow, where_,
};
use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

/// A number that may change from step to step: a learning rate, above all.
///
/// An `f64` is a constant one. Others are made by [`cosine_decay_schedule`](super::cosine_decay_schedule),
/// [`join_schedules`](super::join_schedules) and their kin, by [`hyperparam`](hyperparam()), or from any
/// function of the count by [`Schedule::new`]. The first update has count 0.
///
/// ```
/// use oxidax::prelude::*;
/// let rate = optim::linear_schedule(1.0, 0.0, 10);
/// let at = eval_shape(move |count: Array| rate.value(&count), Aval::new(DType::I32, []))?;
/// assert_eq!(at.aval().to_string(), "f32[]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule(Arc<Kind>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
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
    /// `first`, multiplied by each scale from its boundary on.
    Piecewise {
        first: f64,
        scales: Vec<(u32, f64)>,
    },
    /// Through the points `(count, value)`, of which the first has count 0.
    Interpolated {
        points: Vec<(u32, f64)>,
        cosine: bool,
    },
    /// The first up to the first boundary, then the next with a count from there.
    Joined {
        schedules: Vec<Schedule>,
        boundaries: Vec<u32>,
    },
    Delayed {
        inner: Schedule,
        steps: u32,
    },
    Held {
        name: Arc<str>,
        first: f64,
    },
    Function(Function),
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

/// What the hyper-parameters in a state are now.
#[derive(Clone, Copy)]
pub(super) struct Hyperparams<'a>(&'a [(Arc<str>, Array)]);

impl<'a> Hyperparams<'a> {
    pub(super) fn of(state: &'a State) -> Hyperparams<'a> {
        Hyperparams(&state.hyperparams)
    }
}

/// A number that lies in the optimizer's state under `hyperparams.NAME`, and begins as `value`.
///
/// A checkpoint holds it, and [`State::set_hyperparam`] changes it between steps without compiling
/// anew. Two of the same name in one optimizer are one number.
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
    Schedule::of(Kind::Held { name: name.into().into(), first: value })
}

impl From<f64> for Schedule {
    fn from(value: f64) -> Schedule {
        Schedule::of(Kind::Constant(value))
    }
}

impl Schedule {
    pub(super) fn of(kind: Kind) -> Schedule {
        Schedule(Arc::new(kind))
    }

    /// Any function from the count of updates made, `i32[]`, to a number, `f32[]`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// // Noam's: up for 400 steps, then down with the root.
    /// let rate = optim::Schedule::new(|count| {
    ///     let step = count.astype(DType::F32) + 1.0;
    ///     minimum(rsqrt(&step), &step * 400f64.powf(-1.5)) * 0.01
    /// });
    /// let optimizer = optim::adamw(rate);
    /// ```
    pub fn new(f: impl Fn(&Array) -> Array + Send + Sync + 'static) -> Schedule {
        Schedule::of(Kind::Function(Function(Arc::new(f))))
    }

    /// The same, `steps` later: until then the value for count 0.
    #[doc(alias = "transition_begin")]
    pub fn delayed(self, steps: u32) -> Schedule {
        Schedule::of(Kind::Delayed { inner: self, steps })
    }

    /// The number for a count of updates, `i32[]`: `f32[]`. A [`hyperparam`](hyperparam()) has its first
    /// value here.
    #[track_caller]
    pub fn value(&self, count: &Array) -> Array {
        Loc::caller().scope(|| self.at(count, Hyperparams(&[])))
    }

    /// The number, if it never changes.
    pub(super) fn constant(&self) -> Option<f64> {
        match *self.0 {
            Kind::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Adds the names and first values of the hyper-parameters in it.
    pub(super) fn hyperparams(&self, found: &mut Vec<(Arc<str>, f64)>) {
        match &*self.0 {
            Kind::Held { name, first } => found.push((name.clone(), *first)),
            Kind::Joined { schedules, .. } => {
                schedules.iter().for_each(|inner| inner.hyperparams(found));
            }
            Kind::Delayed { inner, .. } => inner.hyperparams(found),
            Kind::Constant(_)
            | Kind::Polynomial { .. }
            | Kind::Cosine { .. }
            | Kind::Exponential { .. }
            | Kind::Piecewise { .. }
            | Kind::Interpolated { .. }
            | Kind::Function(_) => {}
        }
    }

    pub(super) fn at(&self, count: &Array, hyperparams: Hyperparams<'_>) -> Array {
        match &*self.0 {
            Kind::Constant(value) => number(*value),
            Kind::Polynomial { first, last, power, steps } => {
                let left = 1.0 - float(&clamp(count, *steps)) / f64::from(*steps);
                let curve = if *power == 1.0 { left } else { pow(&left, *power) };
                curve * (first - last) + *last
            }
            Kind::Cosine { first, steps, alpha, exponent } => {
                let done = minimum(float(count), f64::from(*steps));
                let wave = (cos(&(done * PI / f64::from(*steps))) + 1.0) * 0.5;
                let wave = if *exponent == 1.0 { wave } else { pow(&wave, *exponent) };
                (wave * (1.0 - alpha) + *alpha) * *first
            }
            Kind::Exponential { first, steps, rate, staircase, last } => {
                let periods = float(count) / f64::from(*steps);
                let periods = if *staircase { crate::primitives::floor(&periods) } else { periods };
                let decayed = pow(number(*rate), &periods) * *first;
                let value = where_(&le(count, 0), full_like(&decayed, *first), &decayed);
                match last {
                    Some(last) if *rate < 1.0 => maximum(&value, *last),
                    Some(last) => minimum(&value, *last),
                    None => value,
                }
            }
            Kind::Piecewise { first, scales } => {
                let mut value = number(*first);
                for (boundary, scale) in scales {
                    value = where_(&lt(count, int(*boundary)), &value, &value * *scale);
                }
                value
            }
            Kind::Interpolated { points, cosine } => interpolated(points, *cosine, count),
            Kind::Joined { schedules, boundaries } => {
                let mut value = schedules[0].at(count, hyperparams);
                for (boundary, next) in boundaries.iter().zip(&schedules[1..]) {
                    let boundary = int(*boundary);
                    let next = next.at(&(count - boundary), hyperparams);
                    value = where_(&lt(count, boundary), &value, &next);
                }
                value
            }
            Kind::Delayed { inner, steps } => {
                inner.at(&maximum(count - int(*steps), 0), hyperparams)
            }
            Kind::Held { name, first } => {
                let held = hyperparams.0.iter().find(|(known, _)| known == name);
                held.map_or_else(|| number(*first), |(_, value)| value.clone())
            }
            Kind::Function(f) => float(&f.0(count)),
        }
    }
}

fn number(value: f64) -> Array {
    super::state::number(value)
}

fn float(x: &Array) -> Array {
    convert_element_type(x, DType::F32)
}

/// Counts are `i32`: what is beyond is as good as never.
fn int(steps: u32) -> i32 {
    i32::try_from(steps).unwrap_or(i32::MAX)
}

fn clamp(count: &Array, steps: u32) -> Array {
    minimum(maximum(count, 0), int(steps))
}

fn interpolated(points: &[(u32, f64)], cosine: bool, count: &Array) -> Array {
    let (_, last) = points.last().expect("there is a point at 0");
    let mut value = number(*last);
    for pair in points.windows(2).rev() {
        let [(from, start), (to, end)] = [pair[0], pair[1]];
        let done = (float(count) - f64::from(from)) / f64::from((to - from).max(1));
        let here = match cosine {
            true => (cos(&(done * PI)) + 1.0) * ((start - end) / 2.0) + end,
            false => done * (end - start) + start,
        };
        value = where_(&lt(count, int(to)), &here, &value);
    }
    value
}
