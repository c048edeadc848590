//! Exemplars of `linear_solve` for the law tests.

use super::{LinearSolve, LinearSystem};
use crate::core::{Array, Aval, DType, Exemplar, Sample};
use crate::primitives::{
    DotGeneral, TriangularSolve, dot_general, reshape, rev, transpose, triangular_solve,
};
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

const N: usize = 3;

fn matvec(a: &Array, x: &Array) -> Array {
    let dot =
        DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotGeneral::default() };
    dot_general(a, x, dot)
}

fn solve(a: &Array, b: &Array, lower: bool) -> Array {
    let solve = TriangularSolve { left_side: true, lower, ..TriangularSolve::default() };
    reshape(&triangular_solve(a, &reshape(b, [N, 1]), solve), [N])
}

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let (matrix, vector) = (Aval::new(DType::F64, [N, N]), Aval::new(DType::F64, [N]));
    let program = |f: fn(&Array, &Array) -> Array| {
        Arc::new(trace_rules([matrix.clone(), vector.clone()], |x| vec![f(&x[0], &x[1])]))
    };
    // A lower triangular matrix.
    let forward =
        LinearSystem { matvec: program(matvec), solve: program(|a, b| solve(a, b, true)) };
    let transposed = LinearSystem {
        matvec: program(|a, x| matvec(&transpose(a, &[1, 0]), x)),
        solve: program(|a, b| solve(&transpose(a, &[1, 0]), b, false)),
    };
    let a = || Sample::listed(DType::F64, [N, N], &[2.0, 0.0, 0.0, 0.5, 1.5, 0.0, -0.3, 0.4, 3.0]);
    let b = || Sample::uniform(DType::F64, [N], -1.0, 1.0);
    let both = LinearSolve { forward, transposed: Some(transposed) };
    // A system without captures: twice the vector plus the reversed vector.
    let without_captures =
        |f: fn(&Array) -> Array| Arc::new(trace_rules([vector.clone()], |x| vec![f(&x[0])]));
    let reversing = LinearSystem {
        matvec: without_captures(|x| x * 2.0 + rev(x, &[0])),
        solve: without_captures(|b| (b * 2.0 - rev(b, &[0])) / 3.0),
    };
    let symmetric = LinearSolve { forward: reversing.clone(), transposed: Some(reversing.clone()) };
    vec![
        // Four operands are the same matrix, which finite differences would vary independently.
        Exemplar::new(both, [a(), a(), a(), a(), b()]).without_derivative(),
        Exemplar::new(symmetric, [b()]),
        Exemplar::new(LinearSolve { forward: reversing, transposed: None }, [b()]).forward_only(),
    ]
}
