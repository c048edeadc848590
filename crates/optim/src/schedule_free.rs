//! Schedule-free learning: averages of iterates instead of a decaying learning rate.

use crate::check::expect_state;
use crate::leaf_arithmetic::{copied, number};
use oxidax::optim::{
    GradientTransformation, Leaves, Optimizer, ScaleByRmsOptions, Schedule, State, UpdateArgs,
};
use oxidax::prelude::*;

/// Options of [`schedule_free_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleFreeOptions {
    /// The weight of the average in the parameters at which gradients are taken. 0.9 by default.
    pub b1: f64,
    /// The exponent of the largest learning rate in the weight of an iterate. 2 by default.
    pub weight_lr_power: f64,
    /// The dtype of the iterates in the state. The dtypes of the parameters by default.
    pub state_dtype: Option<DType>,
}

impl Default for ScheduleFreeOptions {
    fn default() -> ScheduleFreeOptions {
        ScheduleFreeOptions { b1: 0.9, weight_lr_power: 2.0, state_dtype: None }
    }
}

/// Wraps an optimizer without momentum so that it needs no decay of the learning rate.
///
/// `learning_rate` is that of `base`. The parameters of the training step are those at which
/// gradients are taken; evaluate the model at [`schedule_free_eval_params`].
///
/// # Reference
/// Defazio et al.: The road less scheduled (2024), equations 5–7.
pub fn schedule_free(base: Optimizer, learning_rate: impl Into<Schedule>) -> Optimizer {
    schedule_free_with(base, learning_rate, ScheduleFreeOptions::default())
}

/// Wraps an optimizer for schedule-free learning, with options.
pub fn schedule_free_with(
    base: Optimizer,
    learning_rate: impl Into<Schedule>,
    options: ScheduleFreeOptions,
) -> Optimizer {
    Optimizer::new(ScheduleFree { base, learning_rate: learning_rate.into(), options })
}

/// Options of [`schedule_free_sgd_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScheduleFreeSgdOptions {
    /// The number of steps in which the learning rate grows from 0. None by default.
    pub warmup_steps: Option<u32>,
    /// The part of a parameter that is added to its gradient. None by default.
    pub weight_decay: Option<f64>,
    /// The options of the wrapper.
    pub schedule_free: ScheduleFreeOptions,
}

/// Creates schedule-free gradient descent. Optax's learning rate is 1 by default.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::{schedule_free_eval_params, schedule_free_sgd};
/// let optimizer = schedule_free_sgd(0.5);
/// let mut w = array![3f32, -4.0];
/// let mut state = optimizer.init(&w);
/// for _ in 0..50 {
///     let updates;
///     (updates, state) = optimizer.update(&w, &state, &w);
///     w = optim::apply_updates(&w, &updates);
/// }
/// let averaged = schedule_free_eval_params(&state, &w);
/// assert!(averaged.abs().max().item::<f32>()? < 0.1);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn schedule_free_sgd(learning_rate: f64) -> Optimizer {
    schedule_free_sgd_with(learning_rate, ScheduleFreeSgdOptions::default())
}

/// Creates schedule-free gradient descent with options.
pub fn schedule_free_sgd_with(learning_rate: f64, options: ScheduleFreeSgdOptions) -> Optimizer {
    let rate = warmed_up(learning_rate, options.warmup_steps);
    let sgd = optim::sgd(rate.clone());
    let base = match options.weight_decay {
        Some(decay) => optim::add_decayed_weights(decay).chain(sgd),
        None => sgd,
    };
    schedule_free_with(base, rate, options.schedule_free)
}

/// Options of [`schedule_free_adamw_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleFreeAdamWOptions {
    /// The number of steps in which the learning rate grows from 0. None by default.
    pub warmup_steps: Option<u32>,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The options of the wrapper.
    pub schedule_free: ScheduleFreeOptions,
}

impl Default for ScheduleFreeAdamWOptions {
    fn default() -> ScheduleFreeAdamWOptions {
        ScheduleFreeAdamWOptions {
            warmup_steps: None,
            b2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            schedule_free: ScheduleFreeOptions::default(),
        }
    }
}

/// Creates schedule-free AdamW. Optax's learning rate is 0.0025 by default.
pub fn schedule_free_adamw(learning_rate: f64) -> Optimizer {
    schedule_free_adamw_with(learning_rate, ScheduleFreeAdamWOptions::default())
}

/// Creates schedule-free AdamW with options.
pub fn schedule_free_adamw_with(
    learning_rate: f64,
    options: ScheduleFreeAdamWOptions,
) -> Optimizer {
    let rate = warmed_up(learning_rate, options.warmup_steps);
    let rms = ScaleByRmsOptions {
        decay: options.b2,
        eps: options.eps,
        eps_in_sqrt: false,
        bias_correction: true,
        ..ScaleByRmsOptions::default()
    };
    let base = optim::chain([
        optim::scale_by_rms_with(rms),
        optim::add_decayed_weights(options.weight_decay),
        optim::scale_by_learning_rate(rate.clone()),
    ]);
    schedule_free_with(base, rate, options.schedule_free)
}

fn warmed_up(learning_rate: f64, warmup_steps: Option<u32>) -> Schedule {
    match warmup_steps {
        Some(steps) => optim::warmup_constant_schedule(0.0, learning_rate, steps),
        None => Schedule::from(learning_rate),
    }
}

/// Returns the parameters at which a model trained with [`schedule_free`] is evaluated: the average
/// of the iterates.
///
/// Throws `Op` (value) if the state is not that of a [`schedule_free`] optimizer.
#[track_caller]
pub fn schedule_free_eval_params<T: Tree>(state: &State, parameters: &T) -> T {
    let leaves = Leaves::new(parameters);
    let (name, optimizer) = ("schedule_free_eval_params", "schedule_free");
    let b1 = expect_state(name, state.value("b1"), optimizer);
    let z = expect_state(name, state.accumulator("z", &leaves), optimizer);
    let x = leaves.zip_map([&z], |y, [z]| {
        let b1 = b1.astype(z.dtype());
        ((y - (1.0 - &b1) * z) / b1).astype(y.dtype())
    });
    tree::map_with_path(parameters, |path, leaf| x.get(path).unwrap_or(leaf).clone())
}

struct ScheduleFree {
    base: Optimizer,
    learning_rate: Schedule,
    options: ScheduleFreeOptions,
}

#[derive(Tree)]
struct ScheduleFreeState {
    b1: Array,
    weight_sum: Array,
    max_lr: Array,
    z: Leaves,
    base: State,
}

impl GradientTransformation for ScheduleFree {
    type State = ScheduleFreeState;

    fn init(&self, parameters: &Leaves) -> ScheduleFreeState {
        let z = copied(parameters);
        ScheduleFreeState {
            b1: number(parameters, self.options.b1),
            weight_sum: number(parameters, 0.0),
            max_lr: number(parameters, 0.0),
            z: match self.options.state_dtype {
                Some(dtype) => z.map(|leaf| leaf.astype(dtype)),
                None => z,
            },
            base: self.base.init(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: ScheduleFreeState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, ScheduleFreeState) {
        let b1 = self.options.b1;
        let dtype = state.max_lr.dtype();
        // The first step has count 1.
        let rate = args.rate_at(&self.learning_rate, args.count()).astype(dtype);
        let max_lr = maximum(&state.max_lr, &rate);
        let weight = pow(&max_lr, self.options.weight_lr_power);
        let weight_sum = &state.weight_sum + &weight;
        let ratio = &weight / &weight_sum;
        let is_invalid = bitwise_or(isnan(&weight), isnan(&weight_sum));
        let is_empty = bitwise_and(isnan(&ratio), bitwise_not(is_invalid));
        // Before the learning rate is positive, the sum is 0.
        let part = where_(is_empty, zeros_like(&ratio), &ratio);
        let (steps, base) = args.update_inner(&self.base, &updates, &state.base);
        let z = state.z.zip_map([&steps], |z, [step]| (z + step).astype(z.dtype()));
        let updates = args.parameters().zip_map([&state.z, &z], |y, [last, z]| {
            let part = part.astype(z.dtype().real());
            let x = (y - last * (1.0 - b1)) / b1;
            let x = x * (1.0 - &part) + z * &part;
            x * b1 + z * (1.0 - b1) - y
        });
        (updates, ScheduleFreeState { b1: state.b1, weight_sum, max_lr, z, base })
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.learning_rate.clone()]
    }
}
