//! Systems on which the laws of `linear_solve` are checked.

use super::{LinearSolve, LinearSystem};
use crate::core::{Array, Aval, DType, Exemplar, Sample};
use crate::primitives::{
    DotGeneral, TriangularSolve, dot_general, reshape, rev, transpose, triangular_solve,
};
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

const N: usize = 3;

fn times(a: &Array, x: &Array) -> Array {
    let how =
        DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotGeneral::default() };
    dot_general(a, x, how)
}

fn solved(a: &Array, b: &Array, lower: bool) -> Array {
    let how = TriangularSolve { left_side: true, lower, ..TriangularSolve::default() };
    reshape(&triangular_solve(a, &reshape(b, [N, 1]), how), [N])
}

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let (matrix, vector) = (Aval::new(DType::F64, [N, N]), Aval::new(DType::F64, [N]));
    let program = |f: fn(&Array, &Array) -> Array| {
        Arc::new(trace_rules([matrix.clone(), vector.clone()], |x| vec![f(&x[0], &x[1])]))
    };
    // A lower triangular matrix: what stands above the diagonal is zero.
    let forward =
        LinearSystem { matvec: program(times), solve: program(|a, b| solved(a, b, true)) };
    let transposed = LinearSystem {
        matvec: program(|a, x| times(&transpose(a, &[1, 0]), x)),
        solve: program(|a, b| solved(&transpose(a, &[1, 0]), b, false)),
    };
    let a = || Sample::listed(DType::F64, [N, N], &[2.0, 0.0, 0.0, 0.5, 1.5, 0.0, -0.3, 0.4, 3.0]);
    let b = || Sample::uniform(DType::F64, [N], -1.0, 1.0);
    let both = LinearSolve { forward, transposed: Some(transposed) };
    // A system that captures nothing: twice the vector, and the vector turned round.
    let alone =
        |f: fn(&Array) -> Array| Arc::new(trace_rules([vector.clone()], |x| vec![f(&x[0])]));
    let turning = LinearSystem {
        matvec: alone(|x| x * 2.0 + rev(x, &[0])),
        solve: alone(|b| (b * 2.0 - rev(b, &[0])) / 3.0),
    };
    let symmetric = LinearSolve { forward: turning.clone(), transposed: Some(turning.clone()) };
    vec![
        // The operands are one matrix several times, and differences would vary each for itself.
        Exemplar::new(both, [a(), a(), a(), a(), b()]).without_derivative(),
        Exemplar::new(symmetric, [b()]),
        Exemplar::new(LinearSolve { forward: turning, transposed: None }, [b()]).forward_only(),
    ]
}
