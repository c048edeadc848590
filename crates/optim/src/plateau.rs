//! The reduction of the learning rate on plateaus.

use crate::check::expect_value;
use crate::leaf_arithmetic::{number, scaled};
use oxidax::optim::{GradientTransformation, Leaves, Optimizer, UpdateArgs};
use oxidax::prelude::*;

/// Options of [`reduce_on_plateau_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReduceOnPlateauOptions {
    /// The factor of a reduction. 0.1 by default.
    pub factor: f64,
    /// The number of values without improvement before a reduction. 10 by default.
    pub patience: u32,
    /// The relative improvement that counts. 1e-4 by default.
    pub rtol: f64,
    /// The absolute improvement that counts. 0 by default.
    pub atol: f64,
    /// The number of values after a reduction that are not counted. 0 by default.
    pub cooldown: u32,
    /// The number of values that are averaged. 1 by default.
    pub accumulation_size: u32,
    /// The least scale. 0 by default.
    pub min_scale: f64,
}

impl Default for ReduceOnPlateauOptions {
    fn default() -> ReduceOnPlateauOptions {
        ReduceOnPlateauOptions {
            factor: 0.1,
            patience: 10,
            rtol: 1e-4,
            atol: 0.0,
            cooldown: 0,
            accumulation_size: 1,
            min_scale: 0.0,
        }
    }
}

/// Scales updates by a number that is reduced when the value of the loss does not improve.
///
/// Put it at the end of a chain, and call [`Optimizer::update_with`] with the value. The state has
/// the number as `scale`.
///
/// ```
/// use oxidax::optim::UpdateOptions;
/// use oxidax::prelude::*;
/// use oxidax_optim::{ReduceOnPlateauOptions, reduce_on_plateau_with};
/// let options = ReduceOnPlateauOptions { patience: 2, ..Default::default() };
/// let optimizer = optim::sgd(1.0).chain(reduce_on_plateau_with(options));
/// let w = ones([1]);
/// let mut state = optimizer.init(&w);
/// for _ in 0..3 {
///     let value = scalar(1.0);
///     let options = UpdateOptions { value: Some(&value), ..UpdateOptions::default() };
///     (_, state) = optimizer.update_with(&w, &state, &w, options);
/// }
/// assert_eq!(state.value("scale").unwrap().item::<f32>()?, 0.1);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn reduce_on_plateau() -> Optimizer {
    reduce_on_plateau_with(ReduceOnPlateauOptions::default())
}

/// Reduces updates on plateaus, with options.
///
/// Throws `Op` (value) if `factor` is not between 0 and 1, if a tolerance is negative, if both are
/// 0, or if `rtol` is above 1.
#[track_caller]
pub fn reduce_on_plateau_with(options: ReduceOnPlateauOptions) -> Optimizer {
    let ReduceOnPlateauOptions { factor, rtol, atol, .. } = options;
    expect_value(factor > 0.0 && factor < 1.0, "reduce_on_plateau", || {
        format!("factor must be between 0 and 1, got {factor}")
    });
    let are_tolerances = rtol >= 0.0 && atol >= 0.0 && rtol + atol > 0.0 && rtol <= 1.0;
    expect_value(are_tolerances, "reduce_on_plateau", || {
        format!(
            "tolerances must not be negative, one must be positive, and rtol at most 1: got rtol \
             {rtol}, atol {atol}"
        )
    });
    Optimizer::new(ReduceOnPlateau(options))
}

struct ReduceOnPlateau(ReduceOnPlateauOptions);

#[derive(Tree)]
struct PlateauState {
    scale: Array,
    best_value: Array,
    plateau_count: Array,
    cooldown_count: Array,
    values: Array,
    avg_value: Array,
}

impl GradientTransformation for ReduceOnPlateau {
    type State = PlateauState;

    fn init(&self, parameters: &Leaves) -> PlateauState {
        let zero = || zeros(([], DType::I32));
        PlateauState {
            scale: number(parameters, 1.0),
            best_value: number(parameters, f64::INFINITY),
            plateau_count: zero(),
            cooldown_count: zero(),
            values: zero(),
            avg_value: number(parameters, 0.0),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: PlateauState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, PlateauState) {
        let ReduceOnPlateauOptions { factor, rtol, atol, min_scale, .. } = self.0;
        let dtype = state.avg_value.dtype();
        let values = &state.values + 1;
        let total = state.values.astype(dtype) * &state.avg_value + args.value().astype(dtype);
        let avg_value = total / values.astype(dtype);
        let is_due = eq(&values, self.0.accumulation_size.max(1) as i32);

        let improves = lt(&avg_value, &state.best_value * (1.0 - rtol) - atol);
        let best_value = where_(&improves, &avg_value, &state.best_value);
        let zero = zeros_like(&values);
        let plateau = where_(&improves, &zero, &state.plateau_count + 1);
        let cools = gt(&state.cooldown_count, 0);
        let is_over = eq(&plateau, self.0.patience as i32);
        let reduces = bitwise_and(&is_over, bitwise_not(&cools));
        let reduced = maximum(&state.scale * factor, full_like(&state.scale, min_scale));
        let floored = maximum(&state.scale, full_like(&state.scale, min_scale));
        let scale = where_(&reduces, &reduced, where_(&cools, &state.scale, &floored));
        let plateau = where_(bitwise_or(&cools, &is_over), &zero, &plateau);
        let rest = full_like(&zero, self.0.cooldown as i32);
        let cooldown = where_(&reduces, &rest, &zero);
        let cooldown = where_(&cools, &state.cooldown_count - 1, &cooldown);

        let state = PlateauState {
            scale: where_(&is_due, &scale, &state.scale),
            best_value: where_(&is_due, &best_value, &state.best_value),
            plateau_count: where_(&is_due, &plateau, &state.plateau_count),
            cooldown_count: where_(&is_due, &cooldown, &state.cooldown_count),
            values: where_(&is_due, &zero, &values),
            avg_value: where_(&is_due, zeros_like(&avg_value), &avg_value),
        };
        (scaled(&updates, &state.scale), state)
    }
}
