//! Ordinary differential equations: `jax.experimental.ode`.

mod adjoint;
mod dormand_prince;

use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::prelude::*;
use std::sync::Arc;

/// Options of [`odeint_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OdeOptions {
    /// The relative tolerance of the error of a step. 1.4e-8 by default.
    pub rtol: f64,
    /// The absolute tolerance of the error of a step. 1.4e-8 by default.
    pub atol: f64,
    /// The largest number of steps between two times, after which the value of the last step is
    /// extrapolated. No limit by default.
    pub mxstep: Option<usize>,
    /// The largest step size. No limit by default.
    pub hmax: Option<f64>,
}

impl Default for OdeOptions {
    fn default() -> Self {
        OdeOptions { rtol: 1.4e-8, atol: 1.4e-8, mxstep: None, hmax: None }
    }
}

/// Integrates `dy/dt = f(y, t, args)` from `y0` at `t[0]`. Returns the values at all times `t`,
/// `[n]`, which increase: trees like `y0` with a new first axis of `n`.
///
/// `f` returns a tree like `y0`. Its steps are those of Dormand and Prince, of order 5, with a step
/// size that adapts to the tolerances; values between steps are those of a polynomial of order 4.
/// Under `vmap` all examples take as many steps as the slowest one.
///
/// Reverse mode integrates the adjoint equation backwards instead of storing steps. It reaches
/// `y0`, `t`, `args` and the traced arrays that `f` captures. `args` may be any tree, `()` if there
/// are none. `f` may borrow: it is traced once, during the call. There is no forward mode.
///
/// Throws `Op` if `t` is not a vector of floats, `Tree` if `f` returns another structure, and
/// whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::ode::odeint;
/// // Exponential decay, at three times.
/// let t = array![0.0, 0.5, 1.0];
/// let decay = |y: &Array, _t: &Array, rate: &Array| -(y * rate);
/// let y = odeint(decay, &scalar(1.0f32), &t, &scalar(2.0f32));
/// let options = CloseOptions { rtol: 1e-4, ..Default::default() };
/// assert!(allclose_with(&y, exp(&t * -2.0), options).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Dormand and Prince, "A family of embedded Runge-Kutta formulae" (1980); Shampine,
/// "Some practical Runge-Kutta formulas" (1986), for values between steps; Chen, Rubanova,
/// Bettencourt and Duvenaud, "Neural ordinary differential equations" (2018), appendix C, for the
/// adjoint.
#[track_caller]
pub fn odeint<T: Tree, A: Tree>(f: impl Fn(&T, &Array, &A) -> T, y0: &T, t: &Array, args: &A) -> T {
    odeint_with(f, y0, t, args, OdeOptions::default())
}

/// As [`odeint`], with options.
#[track_caller]
pub fn odeint_with<T: Tree, A: Tree>(
    f: impl Fn(&T, &Array, &A) -> T,
    y0: &T,
    t: &Array,
    args: &A,
    options: OdeOptions,
) -> T {
    if t.rank() != 1 || !t.dtype().is_float() || t.size() == 0 {
        let error =
            RuleError::shape(format!("needs a vector of times in floats, got {}", t.aval()));
        throw_operands("odeint", error, &[t]);
    }
    let loc = Loc::caller();
    loc.scope(|| {
        let as_inexact = |x: &Array| {
            if x.dtype().is_inexact() { x.clone() } else { x.astype(DType::F32) }
        };
        let y0 = tree::map(y0, as_inexact);
        let (flat, unravel) = tree::ravel(&y0);
        let unravel = Arc::new(unravel);
        let mut leaves = tree::leaves(args);
        let avals = leaves.iter().map(|leaf| Array::of_type(leaf.aval().clone()));
        let template = tree::unflatten(args, avals);
        let slopes = |y: &T, t: &Array, args: &A| f(y, t, args);
        let (slopes, captures) = closure_convert(slopes, (&y0, &t.index(i![0]), args));
        // Nothing differentiates by concrete arrays, so the adjoint equation does without them.
        let n_args = leaves.len();
        leaves.extend(captures.iter().filter(|capture| capture.is_traced()).cloned());
        let dtype = flat.dtype();
        let unravel_state = unravel.clone();
        let dynamics: adjoint::Dynamics = Arc::new(move |y: &Array, t: &Array, args: &[Array]| {
            let (args, traced) = args.split_at(n_args);
            let mut traced = traced.iter();
            let captures = captures.iter().map(|capture| match capture.is_traced() {
                true => traced.next().expect("one per traced capture").clone(),
                false => capture.clone(),
            });
            let args: A = tree::unflatten(&template, args.iter().cloned());
            let arguments = (unravel_state(y), t.clone(), args);
            let slope = slopes.apply(&arguments, &captures.collect::<Vec<_>>());
            tree::ravel(&slope).0.astype(dtype)
        });
        let ys = with_matmul_precision(Precision::Highest, || {
            adjoint::solve(dynamics, options, &flat, t, leaves, adjoint::REVERSE_ORDER)
        });
        vmap(move |y: &Array| unravel(y)).apply(&ys)
    })
}
