//! Measurements of updates, and numbers with a state.

use super::extra_args::ExtraArgs;
use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::optimizer::Optimizer;
use super::schedule::Schedule;
use super::state::State;
use super::wrappers::EmaOptions;
use crate::core::{Array, DType};
use crate::primitives::{convert_element_type, pow, scalar, zeros, zeros_like};
use crate::tree::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A measurement of updates, for [`monitor`].
#[derive(Clone)]
pub struct Measure {
    f: Arc<dyn Fn(&Leaves) -> Array + Send + Sync>,
    ema: Option<(f64, EmaOptions)>,
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measure").field("ema", &self.ema).finish_non_exhaustive()
    }
}

impl Measure {
    /// Creates a measurement from a function of the updates.
    pub fn new(f: impl Fn(&Leaves) -> Array + Send + Sync + 'static) -> Measure {
        Measure { f: Arc::new(f), ema: None }
    }
}

/// Creates the exponential moving average of a measurement, with its bias corrected.
pub fn measure_with_ema(
    f: impl Fn(&Leaves) -> Array + Send + Sync + 'static,
    decay: f64,
) -> Measure {
    measure_with_ema_with(f, decay, EmaOptions::default())
}

/// Creates the exponential moving average of a measurement, with options.
pub fn measure_with_ema_with(
    f: impl Fn(&Leaves) -> Array + Send + Sync + 'static,
    decay: f64,
    options: EmaOptions,
) -> Measure {
    Measure { f: Arc::new(f), ema: Some((decay, options)) }
}

/// Stores measurements of the updates in the state, by name. Updates are not changed.
///
/// [`State::get`] with the accumulator `measurements` returns them. Before the first update they
/// are zero.
///
/// ```
/// use oxidax::prelude::*;
/// let norms = optim::monitor([
///     ("norm", optim::Measure::new(|updates| tree::norm(updates))),
///     ("mean_norm", optim::measure_with_ema(|updates| tree::norm(updates), 0.9)),
/// ]);
/// let optimizer = norms.chain(optim::adam(1e-3));
/// let w = array![3f32, 4.0];
/// let (_, state) = optimizer.update(&w, &optimizer.init(&w), &w);
/// assert_eq!(state.get("measurements", "norm").unwrap().item::<f32>()?, 5.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn monitor<S: Into<String>>(measures: impl IntoIterator<Item = (S, Measure)>) -> Optimizer {
    let measures = measures.into_iter().map(|(name, measure)| (name.into(), measure)).collect();
    Optimizer::new(Monitor { measures })
}

/// Stores one measurement of the updates in the state; see [`monitor`]. Before the first update it
/// is that of the parameters.
pub fn snapshot(
    name: impl Into<String>,
    f: impl Fn(&Leaves) -> Array + Send + Sync + 'static,
) -> Optimizer {
    let (first, name) = (Arc::new(f), name.into());
    let measure = first.clone();
    let name_of_update = name.clone();
    super::transformation(
        move |parameters| Snapshot { measurements: [(name.clone(), first(parameters))].into() },
        move |updates, _: Snapshot, _| {
            let measurements = [(name_of_update.clone(), measure(&updates))].into();
            (updates, Snapshot { measurements })
        },
    )
}

#[derive(Tree)]
struct Snapshot {
    measurements: BTreeMap<String, Array>,
}

struct Monitor {
    measures: BTreeMap<String, Measure>,
}

#[derive(Tree)]
struct MonitorState {
    measurements: BTreeMap<String, Array>,
    measurement_emas: BTreeMap<String, Array>,
}

impl GradientTransformation for Monitor {
    type State = MonitorState;

    fn init(&self, parameters: &Leaves) -> MonitorState {
        let first = |measure: &Measure| zeros_like(&(measure.f)(parameters));
        let all = self.measures.iter();
        let averaged = all.clone().filter_map(|(name, measure)| {
            let (_, options) = measure.ema?;
            let first = first(measure);
            let dtype = options.accumulator_dtype.unwrap_or(first.dtype());
            Some((name.clone(), convert_element_type(&first, dtype)))
        });
        MonitorState {
            measurements: all.map(|(name, measure)| (name.clone(), first(measure))).collect(),
            measurement_emas: averaged.collect(),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MonitorState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MonitorState) {
        let mut next =
            MonitorState { measurements: BTreeMap::new(), measurement_emas: BTreeMap::new() };
        for (name, measure) in &self.measures {
            let mut value = (measure.f)(&updates);
            if let Some((decay, options)) = measure.ema {
                let mean = &state.measurement_emas[name] * decay + &value * (1.0 - decay);
                value = if options.debias {
                    let count = convert_element_type(args.count(), DType::F32);
                    let correction = 1.0 - pow(scalar(decay as f32), &count);
                    &mean / convert_element_type(&correction, mean.dtype())
                } else {
                    mean.clone()
                };
                next.measurement_emas.insert(name.clone(), mean);
            }
            next.measurements.insert(name.clone(), value);
        }
        (updates, next)
    }
}

/// A number with a state, such as a learning rate that depends on losses.
#[doc(alias = "WrappedSchedule")]
pub trait StatefulSchedule: Send + Sync + 'static {
    /// The state: a tree of arrays.
    type State: Tree;

    /// Returns the first state.
    fn init(&self) -> Self::State;

    /// Returns the number for this update: `f32[]`.
    fn value(&self, state: &Self::State, args: &UpdateArgs<'_>) -> Array;

    /// Returns the state after this update.
    fn update(&self, state: Self::State, args: &UpdateArgs<'_>) -> Self::State;
}

/// Builds an optimizer with a number that a [`StatefulSchedule`] computes at every step.
///
/// The state of the optimizer has the last value as `NAME.value`. A [`Schedule`] may be given as
/// well, so that its value can be logged; [`hyperparam`](super::hyperparam()) is a number that the
/// training loop sets.
///
/// ```
/// use oxidax::prelude::*;
/// let schedule = optim::linear_schedule(0.1, 0.0, 4);
/// let optimizer = optim::inject_stateful_hyperparams("rate", schedule, optim::adam);
/// let w = ones([1]);
/// let mut state = optimizer.init(&w);
/// for expected in [0.1, 0.075, 0.05] {
///     state = optimizer.update(&w, &state, &w).1;
///     assert_eq!(state.value("rate.value").unwrap().item::<f32>()?, expected);
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// ```
/// use oxidax::optim::{StatefulSchedule, UpdateArgs, UpdateOptions};
/// use oxidax::prelude::*;
/// /// Halves the rate whenever the loss rises.
/// struct Halving;
/// impl StatefulSchedule for Halving {
///     type State = (Array, Array);
///     fn init(&self) -> (Array, Array) {
///         (full([], 0.1), full([], f64::INFINITY))
///     }
///     fn value(&self, (rate, last): &(Array, Array), args: &UpdateArgs<'_>) -> Array {
///         where_(gt(args.value(), last), rate * 0.5, rate)
///     }
///     fn update(&self, state: (Array, Array), args: &UpdateArgs<'_>) -> (Array, Array) {
///         (self.value(&state, args), args.value())
///     }
/// }
/// let optimizer = optim::inject_stateful_hyperparams("rate", Halving, optim::sgd);
/// let w = ones([1]);
/// let mut state = optimizer.init(&w);
/// for loss in [1.0, 2.0] {
///     let value = scalar(loss);
///     let options = UpdateOptions { value: Some(&value), ..UpdateOptions::default() };
///     let updates;
///     (updates, state) = optimizer.update_with(&w, &state, &w, options);
///     assert_eq!(updates.to_vec::<f32>()?, [-0.1 / loss as f32]);
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn inject_stateful_hyperparams<S: StatefulSchedule>(
    name: impl Into<String>,
    schedule: S,
    build: impl FnOnce(Schedule) -> Optimizer,
) -> Optimizer {
    let name: Arc<str> = name.into().into();
    let inner = build(Schedule::injected(name.clone()));
    super::named_chain([(name.to_string(), Optimizer::new(Injected { name, schedule, inner }))])
}

/// A schedule of the number of updates.
impl StatefulSchedule for Schedule {
    type State = ();

    fn init(&self) {}

    fn value(&self, (): &(), args: &UpdateArgs<'_>) -> Array {
        args.rate(self)
    }

    fn update(&self, (): (), _: &UpdateArgs<'_>) {}
}

struct Injected<S> {
    name: Arc<str>,
    schedule: S,
    inner: Optimizer,
}

#[derive(Tree)]
struct InjectedState<T: Tree> {
    value: Array,
    schedule: T,
    inner: State,
}

impl<S: StatefulSchedule> GradientTransformation for Injected<S> {
    type State = InjectedState<S::State>;

    fn init(&self, parameters: &Leaves) -> Self::State {
        InjectedState {
            value: zeros(([], DType::F32)),
            schedule: self.schedule.init(),
            inner: self.inner.init(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: Self::State,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, Self::State) {
        let value = self.schedule.value(&state.schedule, args);
        let value = convert_element_type(&value, DType::F32);
        let outer = args.extra_args();
        let mut injected = vec![(self.name.clone(), value.clone())];
        injected.extend(outer.injected.iter().cloned());
        let extra = ExtraArgs { arrays: outer.arrays.clone(), value_fn: outer.value_fn, injected };
        let (updates, inner) =
            self.inner.update_leaves(&updates, &state.inner, args.parameters(), &extra, args.loc());
        let schedule = self.schedule.update(state.schedule, args);
        (updates, InjectedState { value, schedule, inner })
    }
}
