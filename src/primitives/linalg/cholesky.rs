//! The Cholesky decomposition.

use super::matrices::{expect_square, hermitian, identity, lower_part};
use super::triangular_solve::{LEFT_LOWER, TransposeA, TriangularSolve, triangular_solve};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::composite::lower_by;
use crate::primitives::rules::{arity, batched, move_axis};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Cholesky decomposition: the lower triangular `l` with `l · lᴴ = a`, for Hermitian positive
/// definite `a`.
///
/// | | |
/// |-|-|
/// | operand    | `a: {f32, f64, c64, c128}[…, n, n]`, of which the lower triangle is read |
/// | result     | `l: […, n, n]`, zeros above the diagonal; NaN where `a` is not positive definite |
/// | lowering   | [`stablehlo.cholesky`](https://openxla.org/stablehlo/spec#cholesky) |
/// | derivative | `l · Φ(l⁻¹ da l⁻ᴴ)`, where `Φ` takes the lower triangle and half the diagonal |
///
/// Reference: Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527 (2016).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cholesky;

impl Primitive for Cholesky {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [a] = arity(operands)?;
        expect_square(a)?;
        Ok(vec![a.clone()])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let l = bind1(Cholesky, [&primals[0]]);
        let dl = tangents[0].map(l.aval(), |da| {
            let da = hermitian(da);
            let left = triangular_solve(&l, &da, LEFT_LOWER);
            let how = TriangularSolve {
                left_side: false,
                lower: true,
                transpose_a: TransposeA::Adjoint,
                unit_diagonal: false,
            };
            let middle = triangular_solve(&l, &left, how);
            let half = lower_part(&middle, 0) - &middle * identity(&middle) * 0.5;
            super::matrices::product(&l, &half)
        });
        Ok((vec![l], vec![dl]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let a = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(Cholesky, [&a]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let whole = lower_by(ctx, operands, |a| vec![hermitian(&a[0])])?;
        let l = ctx.op_as("cholesky", &whole, "lower = true", &results[0].stablehlo());
        // The operation leaves the elements above the diagonal unspecified.
        lower_by(ctx, &[l], |l| vec![lower_part(&l[0], 0)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let n = operands[0].shape[operands[0].rank() - 1] as u64;
        Cost { flops: n * results[0].size() as u64 / 3, ..Cost::whole(operands, results) }
    }
}

/// Returns the lower triangular `l` with `l · lᴴ = a`, where `a` is given by its lower triangle.
/// See [`Cholesky`] for its rules; `linalg::cholesky` symmetrizes first, so that gradients are
/// symmetric.
///
/// ```
/// use oxidax::prelude::*;
/// let l = eval_shape(|a: Array| cholesky(&a), Aval::new(DType::F64, [8, 3, 3]))?;
/// assert_eq!(l.aval().to_string(), "f64[8,3,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cholesky(a: &Array) -> Array {
    bind1(Cholesky, [a])
}

impl Registered for Cholesky {
    const NAME: &'static str = "cholesky";
    fn exemplars() -> Vec<Exemplar> {
        let three = [4.0, 9.0, 9.0, 1.0, 3.0, 9.0, -0.5, 0.3, 2.0];
        vec![
            Exemplar::new(Cholesky, [Sample::listed(DType::F32, [3, 3], &three)]),
            Exemplar::new(
                Cholesky,
                [Sample::listed(DType::F64, [2, 2, 2], &[2.0, 0.0, 0.5, 1.0, 3.0, 0.0, -1.0, 2.0])],
            ),
            Exemplar::new(Cholesky, [Sample::listed(DType::C64, [2, 2], &[4.0, 0.0, 0.5, 3.0])]),
            Exemplar::new(Cholesky, [Sample::uniform(DType::F32, [0, 0], 0.0, 1.0)]),
            Exemplar::new(Cholesky, [Sample::listed(DType::F32, [1, 1], &[-1.0])])
                .without_derivative(),
        ]
    }
}
