//! Functions of the suite `control_flow` that contain reductions, linear systems and roots.

use crate::control_flow_functions::Function;
use oxidax::prelude::*;

pub(crate) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "reduced_pairs" => reduced_pairs,
        "reduced_logsumexp" => reduced_logsumexp,
        "reduced_sum" => reduced_sum,
        "reduced_farthest" => reduced_farthest,
        "solved_symmetric" => solved_symmetric,
        "solved_general" => solved_general,
        "solved_with_aux" => solved_with_aux,
        "cubic_root" => cubic_root,
        "implicit_equilibrium" => implicit_equilibrium,
        _ => return None,
    })
}

type Pair = (Array, Array);

fn reduced_pairs(operands: &[Array]) -> Vec<Array> {
    let times = |x: Pair, y: Pair| (&x.0 * &y.0 - &x.1 * &y.1, &x.0 * &y.1 + &x.1 * &y.0);
    let numbers = (&operands[0] * &operands[1], &operands[0] + &operands[1]);
    let (a, b) = reduce(numbers, (scalar(1.0), scalar(0.0)), times, &[0]);
    vec![a, b]
}

fn reduced_logsumexp(operands: &[Array]) -> Vec<Array> {
    let join = |a: Array, b: Array| logaddexp(&a, &b);
    vec![reduce(&operands[0], scalar(f64::NEG_INFINITY), join, &[-1])]
}

fn reduced_sum(operands: &[Array]) -> Vec<Array> {
    let x = &operands[0];
    let sum = reduce(x, scalar(0.0), |a: Array, b: Array| a + b, &[0, 1]);
    vec![sum, reduce(x, scalar(1.0), |a: Array, b: Array| a * b, &[1])]
}

fn reduced_farthest(operands: &[Array]) -> Vec<Array> {
    let farther = |a: Pair, b: Pair| {
        let first = gt(abs(&a.0), abs(&b.0));
        (select(&first, &a.0, &b.0), select(&first, &a.1, &b.1))
    };
    let pairs = (operands[0].clone(), cos(&operands[0]));
    let (x, y) = reduce(pairs, (scalar(0.0), scalar(0.0)), farther, &[0]);
    vec![x, y]
}

const STEPS: i32 = 100;

type Map<'a> = &'a dyn Fn(&Array) -> Array;

/// Iterates `x + (b - A x) / 5`.
fn richardson(matvec: Map<'_>, b: &Array) -> Array {
    let step = |(n, x): Pair| (n + 1, &x + (b - matvec(&x)) * 0.2);
    while_loop(|(n, _): Pair| lt(&n, STEPS), step, (scalar(0), zeros_like(b))).1
}

fn symmetric(a: &Array) -> Array {
    eye((3, a.dtype())) * 4.0 + (a + matrix_transpose(a)) * 0.3
}

fn solved_symmetric(operands: &[Array]) -> Vec<Array> {
    let m = symmetric(&operands[0]);
    let matvec = |x: &Array| m.matmul(x);
    vec![custom_linear_solve(matvec, &operands[1], richardson, TransposeSolve::Symmetric)]
}

fn solved_general(operands: &[Array]) -> Vec<Array> {
    let m = eye((3, operands[0].dtype())) * 4.0 + &operands[0];
    let matvec = |x: &Array| m.matmul(x);
    let back = TransposeSolve::By(&richardson);
    vec![custom_linear_solve(matvec, &operands[1], richardson, back)]
}

fn solved_with_aux(operands: &[Array]) -> Vec<Array> {
    let m = symmetric(&operands[0]);
    let solve = |matvec: Map<'_>, b: &Array| (richardson(matvec, b), (b * b).sum());
    let matvec = |x: &Array| m.matmul(x);
    let (x, aux) = custom_linear_solve_aux(matvec, &operands[1], solve, TransposeSolve::Symmetric);
    vec![x, aux]
}

fn cubic_root(operands: &[Array]) -> Vec<Array> {
    let a = &operands[0];
    let newton = |f: Map<'_>, x: &Array| {
        let step = |(n, x): Pair| (n + 1, &x - f(&x) / (&x * &x * 3.0 + 2.0));
        while_loop(|(n, _): Pair| lt(&n, 30), step, (scalar(0), x.clone())).1
    };
    let divide = |g: Map<'_>, y: &Array| y / g(&ones_like(y));
    vec![custom_root(|x: &Array| x * x * x + x * 2.0 - a, &ones_like(a), newton, divide)]
}

fn implicit_equilibrium(operands: &[Array]) -> Vec<Array> {
    let (x, w) = (&operands[0], &operands[1]);
    let f = |z: &Array| tanh(&((w * 0.3).matmul(z) + x)) - z;
    let iterate = |f: Map<'_>, z: &Array| {
        let step = |(n, z): Pair| (n + 1, &z + f(&z));
        while_loop(|(n, _): Pair| lt(&n, STEPS), step, (scalar(0), z.clone())).1
    };
    let solve = |g: Map<'_>, y: &Array| linalg::solve(&jacfwd(|x: &Array| g(x))(y), y);
    vec![custom_root(f, &zeros_like(x), iterate, solve)]
}
