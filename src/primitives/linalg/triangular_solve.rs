//! Triangular solves.

use super::matrices::{adjoint, expect_square, identity, lower_part, product, swapped, upper_part};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::rules::{arity, batch_at_front, batched, one_cotangent};
use crate::primitives::{conj, neg};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// The operation `op` that is applied to the matrix first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TransposeA {
    /// The identity.
    #[default]
    NoTranspose,
    /// Transposition.
    Transpose,
    /// Transposition and conjugation.
    Adjoint,
}

/// Solves `op(a) · x = b` or `x · op(a) = b` for triangular `a`.
///
/// | | |
/// |-|-|
/// | operands   | `a: {f32, f64, c64, c128}[…, n, n]`, `b: […, n, m]`, or `[…, m, n]` if `a` stands on the right; the same batch axes |
/// | result     | `x`, of `b`'s type |
/// | lowering   | [`stablehlo.triangular_solve`](https://openxla.org/stablehlo/spec#triangular_solve) |
/// | derivative | `op(a)⁻¹ (db − op(da) x)`, with the triangle of `da` that is read |
///
/// Only the named triangle of `a` is read, without the diagonal if it is assumed to be ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TriangularSolve {
    /// `a` is on the left of `x`.
    pub left_side: bool,
    /// `a` is lower triangular.
    pub lower: bool,
    /// The operation that is applied to `a` first.
    pub transpose_a: TransposeA,
    /// The diagonal of `a` is assumed to be ones.
    pub unit_diagonal: bool,
}

impl TriangularSolve {
    fn op(&self, a: &Array) -> Array {
        match self.transpose_a {
            TransposeA::NoTranspose => a.clone(),
            TransposeA::Transpose => swapped(a),
            TransposeA::Adjoint => adjoint(a),
        }
    }

    /// Returns the elements of `a` that are read.
    fn read(&self, a: &Array) -> Array {
        let off = i32::from(self.unit_diagonal);
        if self.lower { lower_part(a, -off) } else { upper_part(a, off) }
    }

    /// Returns the transpose of the solve with respect to `b`, and its matrix.
    fn transposed(&self, a: &Array) -> (TriangularSolve, Array) {
        let (transpose_a, a) = match self.transpose_a {
            TransposeA::NoTranspose => (TransposeA::Transpose, a.clone()),
            TransposeA::Transpose => (TransposeA::NoTranspose, a.clone()),
            // The transpose of the adjoint is the conjugate.
            TransposeA::Adjoint => (TransposeA::NoTranspose, conj(a)),
        };
        (TriangularSolve { transpose_a, ..self.clone() }, a)
    }
}

impl Primitive for TriangularSolve {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [a, b] = arity(operands)?;
        expect_square(a)?;
        ensure_dtype!(a.dtype == b.dtype, "dtypes differ: {} and {}", a.dtype, b.dtype);
        ensure_shape!(b.rank() == a.rank(), "ranks differ: {} and {}", a.rank(), b.rank());
        let rank = a.rank();
        ensure_shape!(
            a.shape[..rank - 2] == b.shape[..rank - 2],
            "batch axes differ: {:?} and {:?}",
            &a.shape[..rank - 2],
            &b.shape[..rank - 2]
        );
        let (n, axis) = (a.shape[rank - 1], if self.left_side { rank - 2 } else { rank - 1 });
        ensure_shape!(
            b.shape[axis] == n,
            "axis {axis} of the right-hand side is {}, the matrix has {n} rows",
            b.shape[axis]
        );
        Ok(vec![Aval { weak: a.weak && b.weak, ..b.clone() }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (a, b) = (&primals[0], &primals[1]);
        let x = bind1(self.clone(), [a, b]);
        let of_b = tangents[1].map(x.aval(), |db| bind1(self.clone(), [a, db]));
        let of_a = tangents[0].map(x.aval(), |da| {
            let da = self.op(&self.read(da));
            let change = if self.left_side { product(&da, &x) } else { product(&x, &da) };
            bind1(self.clone(), [a, &neg(&change)])
        });
        Ok((vec![x], vec![of_b.add(&of_a)]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let operands = batch_at_front(operands, axes, axis);
        Ok(batched(bind1(self.clone(), [&operands[0], &operands[1]]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let how = match self.transpose_a {
            TransposeA::NoTranspose => "NO_TRANSPOSE",
            TransposeA::Transpose => "TRANSPOSE",
            TransposeA::Adjoint => "ADJOINT",
        };
        let attributes = format!(
            "left_side = {}, lower = {}, transpose_a = #stablehlo<transpose {how}>, \
             unit_diagonal = {}",
            self.left_side, self.lower, self.unit_diagonal
        );
        Ok(vec![ctx.op_as("triangular_solve", operands, &attributes, &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let n = operands[0].shape[operands[0].rank() - 1] as u64;
        Cost { flops: n * results[0].size() as u64, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let Some(a) = operands[0].known() else {
            return Err(crate::core::RuleError::not_linear("triangular_solve"));
        };
        let (solve, a) = self.transposed(a);
        Ok(vec![None, Some(bind1(solve, [&a, ct]).into())])
    }
}

/// Returns the `x` with `op(a) · x = b` or `x · op(a) = b`, for triangular `a`. See
/// [`TriangularSolve`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::TriangularSolve;
/// let how = TriangularSolve { left_side: true, lower: true, ..Default::default() };
/// let x = eval_shape(
///     move |a: Array, b: Array| triangular_solve(&a, &b, how.clone()),
///     (Aval::new(DType::F32, [8, 3, 3]), Aval::new(DType::F32, [8, 3, 2])),
/// )?;
/// assert_eq!(x.aval().to_string(), "f32[8,3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn triangular_solve(a: &Array, b: &Array, how: TriangularSolve) -> Array {
    bind1(how, [a, b])
}

/// The solve of `a · x = b` with lower triangular `a`.
pub(super) const LEFT_LOWER: TriangularSolve = TriangularSolve {
    left_side: true,
    lower: true,
    transpose_a: TransposeA::NoTranspose,
    unit_diagonal: false,
};

/// The solve of `a · x = b` with lower triangular `a` that has ones on its diagonal.
pub(super) const LEFT_UNIT_LOWER: TriangularSolve =
    TriangularSolve { unit_diagonal: true, ..LEFT_LOWER };

/// The solve of `a · x = b` with upper triangular `a`.
pub(super) const LEFT_UPPER: TriangularSolve = TriangularSolve { lower: false, ..LEFT_LOWER };

/// The solve of `x · a = b` with upper triangular `a`.
pub(super) const RIGHT_UPPER: TriangularSolve = TriangularSolve { left_side: false, ..LEFT_UPPER };

/// Returns `a` with ones on its diagonal, as a solve with `unit_diagonal` assumes.
pub(super) fn with_unit_diagonal(strict: &Array) -> Array {
    strict + identity(strict)
}

impl Registered for TriangularSolve {
    const NAME: &'static str = "triangular_solve";
    fn exemplars() -> Vec<Exemplar> {
        let matrix =
            |dtype| Sample::listed(dtype, [3, 3], &[2.0, 0.5, -0.3, 0.4, 1.5, 0.2, -0.1, 0.3, 1.8]);
        let many =
            |dtype| Sample::listed(dtype, [2, 2, 2], &[2.0, 0.5, -0.3, 1.5, 0.7, 0.2, -0.1, 3.0]);
        let numbers = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -1.0, 1.0);
        let exemplar = |left_side, lower, transpose_a, unit_diagonal| TriangularSolve {
            left_side,
            lower,
            transpose_a,
            unit_diagonal,
        };
        use TransposeA::{Adjoint, NoTranspose, Transpose};
        let (f32, f64, c64) = (DType::F32, DType::F64, DType::C64);
        vec![
            Exemplar::new(
                exemplar(true, true, NoTranspose, false),
                [matrix(f32), numbers(f32, &[3, 2])],
            ),
            Exemplar::new(
                exemplar(false, true, Transpose, false),
                [matrix(f64), numbers(f64, &[2, 3])],
            ),
            Exemplar::new(
                exemplar(true, false, Adjoint, true),
                [matrix(c64), numbers(c64, &[3, 1])],
            ),
            Exemplar::new(
                exemplar(false, false, NoTranspose, true),
                [many(f32), numbers(f32, &[2, 1, 2])],
            ),
            Exemplar::new(
                exemplar(true, true, Transpose, true),
                [many(f64), numbers(f64, &[2, 2, 0])],
            ),
            Exemplar::new(
                exemplar(true, true, NoTranspose, false),
                [numbers(f32, &[0, 0]), numbers(f32, &[0, 2])],
            ),
        ]
    }
}
