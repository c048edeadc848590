//! QR decomposition in the form of reflectors.

use super::matrices::expect_matrices;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleError, RuleResult, Sample, Tangent, bind,
};
use crate::primitives::composite::lower_by;
use crate::primitives::rules::{arity, move_axis};
use crate::primitives::zeros_of;
use crate::stablehlo::{TensorType, Value};
use serde::{Deserialize, Serialize};

/// QR decomposition of `a` as LAPACK's `geqrf` stores it.
///
/// | | |
/// |-|-|
/// | operand    | `a: {f32, f64, c64, c128}[…, m, n]` |
/// | results    | `h: […, m, n]`, `r` on and above the diagonal, the reflectors' vectors below it; their factors `tau: […, min(m, n)]` |
/// | lowering   | the custom call `Qr`, which XLA expands |
/// | derivative | none: [`Qr`](super::Qr) has one |
///
/// Reference: Golub and Van Loan, "Matrix Computations" (4th edition, 2013), section 5.2.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Geqrf;

impl Primitive for Geqrf {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [a] = arity(operands)?;
        expect_matrices(a)?;
        let rank = a.rank();
        let k = a.shape[rank - 2].min(a.shape[rank - 1]);
        let taus = a.shape.remove(rank - 1).remove(rank - 2).insert(rank - 2, k);
        Ok(vec![a.clone(), a.with_shape(taus)])
    }
    fn jvp(&self, _: &[Array], _: &[Tangent]) -> JvpResult {
        Err(RuleError::unsupported("the reflectors of a QR decomposition have no derivative")
            .help("differentiate `linalg::qr`"))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let a = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(Batched { outputs: bind(Geqrf, &[&a]), axes: vec![Some(0); 2] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[1].size() == 0 {
            return lower_by(ctx, operands, |_| results.iter().map(zeros_of).collect());
        }
        let types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        let target = "call_target_name = \"Qr\"";
        Ok(ctx.op_full("custom_call", operands, target, Vec::new(), &types))
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let k = results[1].shape[results[1].rank() - 1] as u64;
        Cost { flops: 2 * k * operands[0].size() as u64, ..Cost::whole(operands, results) }
    }
}

/// Returns the reflectors `h` and their factors `tau`. See [`Geqrf`] for its rules.
#[track_caller]
pub fn geqrf(a: &Array) -> (Array, Array) {
    let outputs = bind(Geqrf, &[a]);
    let [h, tau] = <[Array; 2]>::try_from(outputs).expect("two results");
    (h, tau)
}

impl Registered for Geqrf {
    const NAME: &'static str = "geqrf";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |dtype, shape: &[usize]| {
            Exemplar::new(Geqrf, [Sample::uniform(dtype, shape, -2.0, 2.0)]).without_derivative()
        };
        vec![
            exemplar(DType::F32, &[4, 3]),
            exemplar(DType::F64, &[2, 3, 3]),
            exemplar(DType::C64, &[2, 3]),
            exemplar(DType::F32, &[2, 0]),
            exemplar(DType::F32, &[1, 2]),
        ]
    }
}
