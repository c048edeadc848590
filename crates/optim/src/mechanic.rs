//! Mechanic, a tuner of learning rates.

use crate::leaf_arithmetic::{copied, number, select};
use oxidax::optim::{GradientTransformation, Leaves, Optimizer, State, UpdateArgs};
use oxidax::prelude::*;

/// Options of [`mechanize_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MechanizeOptions {
    /// The weight decay in the gradient of the tuner. 0.01 by default.
    pub weight_decay: f64,
    /// A constant added to denominators. 1e-8 by default.
    pub eps: f64,
    /// The first learning rate. 1e-6 by default.
    pub s_init: f64,
    /// The number of tuners, whose decays are `1 - 0.1ⁿ`. 6 by default.
    pub num_betas: usize,
}

impl Default for MechanizeOptions {
    fn default() -> MechanizeOptions {
        MechanizeOptions { weight_decay: 0.01, eps: 1e-8, s_init: 1e-6, num_betas: 6 }
    }
}

/// Tunes the learning rate of an optimizer, which needs a schedule whose largest value is 1.
///
/// # Reference
/// Cutkosky, Defazio, Mehta: Mechanic: a learning rate tuner (2023), algorithm 1.
pub fn mechanize(base: Optimizer) -> Optimizer {
    mechanize_with(base, MechanizeOptions::default())
}

/// Tunes the learning rate of an optimizer, with options.
pub fn mechanize_with(base: Optimizer, options: MechanizeOptions) -> Optimizer {
    Optimizer::new(Mechanic { base, options })
}

struct Mechanic {
    base: Optimizer,
    options: MechanizeOptions,
}

#[derive(Tree)]
struct MechanicState {
    r: Array,
    m: Array,
    v: Array,
    s: Array,
    x0: Leaves,
    base: State,
}

impl GradientTransformation for Mechanic {
    type State = MechanicState;

    fn init(&self, parameters: &Leaves) -> MechanicState {
        let dtype = number(parameters, 0.0).dtype();
        let each = |value: f64| full(([self.options.num_betas], dtype), value);
        MechanicState {
            r: each(0.0),
            m: each(0.0),
            v: each(0.0),
            s: each(self.options.s_init),
            x0: copied(parameters),
            base: self.base.init(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MechanicState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MechanicState) {
        let MechanizeOptions { weight_decay, eps, s_init, num_betas } = self.options;
        let parameters = args.parameters();
        let dtype = state.s.dtype();
        let (steps, base) = args.update_inner(&self.base, &updates, &state.base);
        let is_first = eq(args.count(), 1);
        let x0 = select(&is_first, parameters, &state.x0);
        let sum = state.s.sum();
        let ratio =
            tree::norm(&updates).astype(dtype) / (tree::norm(parameters).astype(dtype) + eps);
        let decay = &sum * weight_decay * ratio;
        let gradients = updates.zip_map([parameters], |g, [p]| g + decay.astype(p.dtype()) * p);
        let before = parameters.zip_map([&x0], |x, [x0]| (x0 - x) / (&sum + eps).astype(x.dtype()));
        let after = before.zip_map([&steps], |delta, [step]| delta - step);
        let h = tree::vdot(&gradients, &before).astype(dtype);
        let clipped = maximum(minimum(&h, &state.m), -&state.m);
        let decays: Vec<f64> = (1..=num_betas).map(|n| 1.0 - 0.1f64.powi(n as i32)).collect();
        let betas = Array::from_slice(&decays, [num_betas])
            .expect("the length is the number of decays")
            .astype(dtype);
        let m = maximum(&betas * &state.m, abs(&h) + eps);
        let v = betas.square() * &state.v + h.square();
        let r = &betas * &state.r + clipped * &state.s;
        let wealth = &m * (s_init / num_betas as f64) + maximum(&r, zeros_like(&r));
        let s = wealth / (sqrt(&v) + eps);
        let total = s.sum();
        let updates = parameters
            .zip_map([&x0, &after], |x, [x0, delta]| x0 - total.astype(x.dtype()) * delta - x);
        (updates, MechanicState { r, m, v, s, x0, base })
    }
}
