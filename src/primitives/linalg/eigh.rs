//! Eigenvalues and eigenvectors of Hermitian matrices.

use super::matrices::{
    adjoint, as_columns, as_rows, diagonal, expect_square, hermitian, identity, product,
};
use super::svd;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx,
    Primitive, Registered, RuleResult, Sample, Tangent, bind,
};
use crate::primitives::composite::{lower_by, lower_while};
use crate::primitives::rules::{arity, move_axis};
use crate::primitives::{
    abs, broadcast_in_dim, convert_element_type, div, eq, real, reduce_max, reduce_sum, rev, sort,
    where_, zeros_of,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Eigendecomposition `a · v = v · diag(w)` of Hermitian `a`, with unitary `v` and increasing real
/// `w`.
///
/// | | |
/// |-|-|
/// | operand    | `a: {f32, f64, c64, c128}[…, n, n]`, of which the lower triangle is read |
/// | results    | `v: […, n, n]`, columns of `a`'s dtype; `w: […, n]`, real |
/// | lowering   | the loop of [`Svd`](super::Svd) on `a` plus a multiple of the identity, whose singular vectors are `a`'s eigenvectors |
/// | derivative | `dw = diag(c)`, `dv = v (f ∘ c)`, with `c = vᴴ da v` and `f_ij = 1 / (w_j − w_i)`; not a number where eigenvalues coincide |
///
/// Each eigenvector is determined up to a factor of modulus 1.
///
/// Reference: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
/// differentiation" (2008), section 3.1.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Eigh;

impl Primitive for Eigh {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [a] = arity(operands)?;
        expect_square(a)?;
        let w = Aval { dtype: a.dtype.real(), ..a.with_shape(a.shape.remove(a.rank() - 1)) };
        Ok(vec![a.clone(), w])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let outputs = bind(Eigh, &[&primals[0]]);
        let (v, w) = (&outputs[0], &outputs[1]);
        let Tangent::Dense(da) = &tangents[0] else {
            let zeros = outputs.iter().map(Tangent::zero_like).collect();
            return Ok((outputs, zeros));
        };
        let da = hermitian(da);
        let c = product(&product(&adjoint(v), &da), v);
        let like = real(&c);
        let gaps = as_columns(w, &like) - as_rows(w, &like);
        let same = eq(identity(&like), 1);
        // The diagonal would change the length of a vector, which is constant.
        let inverse = where_(&same, 0, div(1.0, where_(&same, 1, &gaps)));
        let dv = product(v, &(&c * convert_element_type(&inverse, c.dtype())));
        let dw = real(diagonal(&c));
        Ok((outputs, vec![dv.into(), dw.into()]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let a = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(Batched { outputs: bind(Eigh, &[&a]), axes: vec![Some(0); 2] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].size() == 0 {
            return lower_by(ctx, operands, |_| results.iter().map(zeros_of).collect());
        }
        let shifted = lower_by(ctx, operands, |a| vec![shifted(&hermitian(&a[0]))])?;
        let start = lower_by(ctx, &shifted, |a| svd::start(&a[0]))?;
        let end = lower_while(ctx, &start[1..], svd::has_open_terms, svd::sweep_step)?;
        let last = [shifted[0].clone(), start[0].clone(), end[1].clone(), end[2].clone()];
        let parts = lower_by(ctx, &last, |x| svd::finish(x, false))?;
        lower_by(ctx, &[operands[0].clone(), parts[2].clone()], |x| {
            // Singular values decrease. Rayleigh quotients recover the digits that the shift loses.
            let v = rev(&adjoint(&x[1]), &[-1]);
            let w = real(diagonal(&product(&product(&adjoint(&v), &hermitian(&x[0])), &v)));
            vec![v, sort(&w, -1)]
        })
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let n = operands[0].shape[operands[0].rank() - 1] as u64;
        Cost { flops: 9 * n * results[0].size() as u64, ..Cost::whole(operands, results) }
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Eigh {
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("sorts with a library")
    }
}

/// Adds a multiple of the identity to `a`, so that no eigenvalue is negative. Singular vectors then
/// are eigenvectors.
fn shifted(a: &Array) -> Array {
    let rows = reduce_sum(&abs(a), &[-1]);
    let bound = reduce_max(&rows, &[-1]);
    let axes: Vec<usize> = (0..a.rank() - 2).collect();
    let bound =
        broadcast_in_dim(&convert_element_type(&bound, a.dtype()), a.shape().clone(), &axes);
    a + bound * identity(a)
}

/// Returns eigenvectors and eigenvalues of the Hermitian matrix with the lower triangle of `a`. See
/// [`Eigh`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let (v, w) = eval_shape(|a: Array| eigh(&a), Aval::new(DType::C64, [8, 3, 3]))?;
/// assert_eq!(v.aval().to_string(), "c64[8,3,3]");
/// assert_eq!(w.aval().to_string(), "f32[8,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn eigh(a: &Array) -> (Array, Array) {
    let outputs = bind(Eigh, &[a]);
    let [v, w] = <[Array; 2]>::try_from(outputs).expect("two results");
    (v, w)
}

impl Registered for Eigh {
    const NAME: &'static str = "eigh";
    fn exemplars() -> Vec<Exemplar> {
        let three = [2.0, 9.0, 9.0, 0.5, -1.0, 9.0, 0.3, 0.8, 4.0];
        let exemplar = |dtype, shape: &[usize], list: &[f64]| {
            Exemplar::new(Eigh, [Sample::listed(dtype, shape, list)])
        };
        vec![
            exemplar(DType::F32, &[3, 3], &three),
            exemplar(DType::F64, &[2, 2, 2], &[2.0, 0.0, 0.5, 1.0, 3.0, 0.0, -1.0, 0.2]),
            // The phase of complex eigenvectors is arbitrary, and finite differences see it jump.
            exemplar(DType::C64, &[2, 2], &[2.0, 0.3, 0.5, -1.0]).without_derivative(),
            exemplar(DType::F32, &[0, 0], &[]),
            exemplar(DType::F32, &[1, 1], &[-3.0]),
        ]
    }
}
