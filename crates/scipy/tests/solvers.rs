//! Compares solvers with results recorded from JAX.

#![allow(clippy::unwrap_used, reason = "a case without its parameters fails")]

mod reports;

use oxidax::prelude::*;
use oxidax_scipy::ode::{OdeOptions, odeint_with};
use oxidax_scipy::optimize::minimize;
use oxidax_scipy::sparse::linalg::{
    IterativeOptions, bicgstab_with, cg_with, gmres_incremental, gmres_with,
};
use serde_json::Value;

type Pair = (Array, Array);

fn linear(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    let [a, b] = operands else { return None };
    let tol = params["tol"].as_f64()?;
    let options = || IterativeOptions { tol, ..IterativeOptions::default() };
    let matvec = |x: &Array| a.matmul(x);
    let inverse = |x: &Array| x / a.diagonal();
    let preconditioned = || IterativeOptions { preconditioner: Some(&inverse), ..options() };
    // The system as one of a vector and a matrix.
    let split = |x: &Array| (x.index(i![..2]), x.index(i![2..]).reshape([2, 2]));
    let join = |(x, y): &Pair| concatenate([x, &y.flatten()], 0);
    let of_trees = |x: &Pair| split(&a.matmul(&join(x)));
    let tree_options = || IterativeOptions::<Pair> { tol, ..IterativeOptions::default() };
    Some(vec![match op {
        "cg" => cg_with(matvec, b, options()),
        "cg_preconditioned" => cg_with(matvec, b, preconditioned()),
        "bicgstab" => bicgstab_with(matvec, b, options()),
        "bicgstab_preconditioned" => bicgstab_with(matvec, b, preconditioned()),
        "bicgstab_tree" => join(&bicgstab_with(of_trees, &split(b), tree_options())),
        "gmres" => gmres_with(matvec, b, options()),
        "gmres_incremental" => gmres_incremental(matvec, b, options()),
        "gmres_tree" => join(&gmres_with(of_trees, &split(b), tree_options())),
        _ => return None,
    }])
}

fn himmelblau(x: &Array) -> Array {
    let (x, y) = (x.index(i![0]), x.index(i![1]));
    (x.square() + &y - 11.0).square() + (&x + y.square() - 7.0).square()
}

fn quartic(x: &Array) -> Array {
    (x - 1.5).powi(4).sum() + x.square().sum()
}

fn minimized(op: &str, params: &Value, x0: &Array) -> Vec<Array> {
    let f = match params["function"].as_str().unwrap() {
        "himmelblau" => himmelblau,
        _ => quartic,
    };
    let result = minimize(f, x0);
    match op {
        "minimize" => vec![result.x, result.fun, result.success],
        _ => vec![result.nit, result.nfev, result.status],
    }
}

fn pendulum((angle, speed): &Pair, t: &Array, rates: &Array) -> Pair {
    let (friction, pull) = (rates.index(i![0]), rates.index(i![1]));
    let change = -(friction * speed) - pull * sin(angle) + cos(t) * 0.1;
    (speed.clone(), change)
}

fn system(y: &Array, t: &Array, m: &Array) -> Array {
    sin(m.matmul(y)) - y * t * 0.2
}

fn swing(y0: &Array, t: &Array, rates: &Array, options: OdeOptions) -> Array {
    let start = (y0.index(i![0]), y0.index(i![1]));
    let (angle, speed) = odeint_with(pendulum, &start, t, rates, options);
    stack([angle, speed], 1)
}

/// The gradient by a matrix that the right-hand side captures.
fn captured(y0: &Array, t: &Array, m: &Array, options: OdeOptions) -> Array {
    let loss = |m: &Array| {
        let slope = |y: &Array, t: &Array, (): &()| system(y, t, m);
        odeint_with(slope, y0, t, &(), options).sum()
    };
    grad(loss)(m)
}

fn integrated(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    let [y0, t, args] = operands else { panic!("three operands") };
    let tol = params["tol"].as_f64().unwrap_or(1.4e-8);
    let options = OdeOptions { rtol: tol, atol: tol, ..OdeOptions::default() };
    let mapped = |m: &Array| {
        let (t, m) = (t.clone(), m.clone());
        vmap(move |y: &Array| odeint_with(system, y, &t, &m, options)).apply(y0)
    };
    match op {
        "odeint_pendulum" => vec![swing(y0, t, args, options)],
        "odeint_gradient" => {
            let weights = (arange(10).astype(y0.dtype()) + 1.0).reshape([5, 2]);
            let loss = |(y0, t, args): &(Array, Array, Array)| {
                (swing(y0, t, args, options) * &weights).sum()
            };
            let (y0, t, args) = grad(loss)(&(y0.clone(), t.clone(), args.clone()));
            vec![y0, t, args]
        }
        "odeint_mapped" => vec![mapped(args)],
        "odeint_mapped_gradient" => vec![grad(|m: &Array| mapped(m).sum())(args)],
        "odeint_captured_gradient" => vec![captured(y0, t, args, options)],
        "odeint_captured_mapped" => {
            let one = |y: &Array| captured(y, t, args, options);
            vec![vmap(one).apply(y0)]
        }
        "odeint_hmax" => {
            let options = OdeOptions { hmax: Some(0.05), ..options };
            vec![odeint_with(system, y0, t, args, options)]
        }
        "odeint_complex" => {
            let turn = |y: &Array, _t: &Array, m: &Array| m.matmul(y);
            vec![odeint_with(turn, y0, t, args, options)]
        }
        _ => panic!("no function is called {op}"),
    }
}

fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    if op.starts_with("minimize") {
        return minimized(op, params, &operands[0]);
    }
    linear(op, params, operands).unwrap_or_else(|| integrated(op, params, operands))
}

mod on_cpu {
    #[test]
    fn solvers_are_those_of_jax() {
        super::reports::expect_equal("scipy_solvers", super::apply);
    }
}
