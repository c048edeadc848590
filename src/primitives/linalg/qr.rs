//! QR decomposition.

use super::matrices::{adjoint, expect_matrices, lower_part, product, sizes, upper_part};
use super::triangular_solve::{RIGHT_UPPER, triangular_solve};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleError, RuleResult, Sample, Shape, Tangent, bind,
};
use crate::primitives::composite::lower_by;
use crate::primitives::rules::{arity, move_axis};
use crate::primitives::{resize_axis, slice_in_dim};
use crate::stablehlo::{TensorType, Value};
use serde::{Deserialize, Serialize};

/// QR decomposition by Householder reflections: orthonormal `q` and upper triangular `r` with `q ·
/// r = a`.
///
/// | | |
/// |-|-|
/// | operand    | `a: {f32, f64, c64, c128}[…, m, n]` |
/// | results    | `q: […, m, k]`, `r: […, k, n]`; `k` is `min(m, n)`, or `m` with `full_matrices` |
/// | lowering   | the custom calls `Qr` and `ProductOfElementaryHouseholderReflectors`, which XLA expands |
/// | derivative | for `m ≥ n` without `full_matrices`: with `c = qᴴ da r⁻¹` and `s` the skew part of what stands below its diagonal, `dr = (c − s) r`, `dq = q (s − c) + da r⁻¹` |
///
/// Reference: Walter and Lehmann, "On evaluating higher-order derivatives of the QR decomposition
/// of tall matrices with full column rank in forward and reverse mode algorithmic differentiation",
/// arXiv:1009.6112 (2010).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Qr {
    /// Returns a square `q`.
    pub full_matrices: bool,
}

/// Options of [`qr_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QrOptions {
    /// Returns square orthonormal factors. The default is true, as in `jax.lax.linalg`.
    pub full_matrices: bool,
}

impl Default for QrOptions {
    fn default() -> QrOptions {
        QrOptions { full_matrices: true }
    }
}

impl Qr {
    fn inner(&self, m: usize, n: usize) -> usize {
        if self.full_matrices { m } else { m.min(n) }
    }
}

fn last_two(shape: &Shape, m: usize, n: usize) -> Shape {
    let batch = &shape[..shape.rank() - 2];
    batch.iter().copied().chain([m, n]).collect()
}

impl Primitive for Qr {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [a] = arity(operands)?;
        expect_matrices(a)?;
        let (m, n) = (a.shape[a.rank() - 2], a.shape[a.rank() - 1]);
        let k = self.inner(m, n);
        Ok(vec![a.with_shape(last_two(&a.shape, m, k)), a.with_shape(last_two(&a.shape, k, n))])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (m, n) = sizes(&primals[0]);
        if m < n || (self.full_matrices && m != n) {
            return Err(RuleError::unsupported(format!(
                "the QR decomposition of {m} by {n} matrices{} has no derivative",
                if self.full_matrices { " with full_matrices" } else { "" }
            ))
            .help(
                "it has one where there are at least as many rows as columns, without \
                full_matrices",
            ));
        }
        let outputs = bind(self.clone(), &[&primals[0]]);
        let (q, r) = (&outputs[0], &outputs[1]);
        let Tangent::Dense(da) = &tangents[0] else {
            let zeros = outputs.iter().map(Tangent::zero_like).collect();
            return Ok((outputs, zeros));
        };
        let scaled = triangular_solve(r, da, RIGHT_UPPER);
        let c = product(&adjoint(q), &scaled);
        let below = lower_part(&c, -1);
        // The change of q within the unitary matrices is skew. The imaginary part of a complex
        // diagonal belongs to it, because the diagonal of r stays real.
        let mut skew = &below - adjoint(&below);
        if c.dtype().is_complex() {
            let diagonal = &c * super::matrices::identity(&c);
            skew += (&diagonal - adjoint(&diagonal)) * 0.5;
        }
        let rest = &c - &skew;
        let dr = upper_part(&product(&rest, r), 0);
        let dq = scaled - product(q, &rest);
        let tangents = vec![dq.into(), dr.into()];
        Ok((outputs, tangents))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let a = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(Batched { outputs: bind(self.clone(), &[&a]), axes: vec![Some(0); 2] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let ty = operands[0].ty().clone();
        let (batch, matrix) = ty.dims().split_at(ty.dims().len() - 2);
        let (m, n) = (matrix[0], matrix[1]);
        if results[0].size() == 0 || n == 0 {
            // Without columns q is the identity, and XLA's expansion fails.
            return lower_by(ctx, operands, |_| results.iter().map(identity_like).collect());
        }
        let k = self.inner(m, n);
        let taus = [batch, &[m.min(n)]].concat();
        let types = [ty.clone(), TensorType::new(ty.element(), &taus)];
        let call = |name: &str| format!("call_target_name = \"{name}\"");
        let packed = ctx.op_full("custom_call", operands, &call("Qr"), Vec::new(), &types);
        let reflectors =
            lower_by(ctx, &packed[..1], |x| vec![resize_axis(&x[0], x[0].rank() - 1, k)])?;
        let name = call("ProductOfElementaryHouseholderReflectors");
        let inputs = [reflectors[0].clone(), packed[1].clone()];
        let square = [TensorType::new(ty.element(), &[batch, &[m, k]].concat())];
        let q = ctx.op_full("custom_call", &inputs, &name, Vec::new(), &square);
        let r = lower_by(ctx, &packed[..1], |x| {
            let rows = slice_in_dim(&x[0], 0, k as isize, 1, -2);
            vec![upper_part(&rows, 0)]
        })?;
        Ok(vec![q[0].clone(), r[0].clone()])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let rank = operands[0].rank();
        let k = operands[0].shape[rank - 2].min(operands[0].shape[rank - 1]) as u64;
        Cost { flops: 4 * k * operands[0].size() as u64, ..Cost::whole(operands, results) }
    }
}

fn identity_like(aval: &Aval) -> Array {
    super::matrices::identity(&crate::primitives::zeros_of(aval))
}

/// Returns orthonormal `q` and upper triangular `r` with `q · r = a`. See [`Qr`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let factors = |a: Array| qr_with(&a, QrOptions { full_matrices: false });
/// let (q, r) = eval_shape(factors, Aval::new(DType::F32, [8, 3, 2]))?;
/// assert_eq!((q.shape().dims(), r.shape().dims()), (&[8, 3, 2][..], &[8, 2, 2][..]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn qr(a: &Array) -> (Array, Array) {
    qr_with(a, QrOptions::default())
}

/// Returns the decomposition of [`qr`], with options.
#[track_caller]
pub fn qr_with(a: &Array, options: QrOptions) -> (Array, Array) {
    let QrOptions { full_matrices } = options;
    let outputs = bind(Qr { full_matrices }, &[a]);
    let [q, r] = <[Array; 2]>::try_from(outputs).expect("two results");
    (q, r)
}

impl Registered for Qr {
    const NAME: &'static str = "qr";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |full_matrices, dtype, shape: &[usize]| {
            Exemplar::new(Qr { full_matrices }, [Sample::uniform(dtype, shape, -2.0, 2.0)])
        };
        vec![
            exemplar(false, DType::F32, &[4, 3]),
            exemplar(true, DType::F64, &[2, 3, 3]),
            exemplar(false, DType::C64, &[3, 2]),
            exemplar(true, DType::F32, &[4, 2]).without_derivative(),
            exemplar(false, DType::F32, &[2, 3]).without_derivative(),
            exemplar(true, DType::C128, &[2, 3]).without_derivative(),
            exemplar(false, DType::F32, &[0, 0]),
            exemplar(true, DType::F32, &[2, 0]).without_derivative(),
            exemplar(false, DType::F32, &[1, 1]),
        ]
    }
}
