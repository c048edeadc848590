//! The logarithm of the gamma function and its derivatives, and the Hurwitz zeta function.

use super::incomplete::in_float;
use super::lower_chlo;
use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, RuleError, RuleResult, Sample, Tangent,
    bind1,
};
use crate::primitives::arithmetic::{add, mul, neg};
use crate::primitives::comparison::eq;
use crate::primitives::composite::lower_by;
use crate::primitives::constant::full_like;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::{ArrayLike, inexact, promote_inexact};
use crate::primitives::select::select;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Elementwise logarithm of the absolute value of the gamma function.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x`; ∞ at 0 and at negative integers |
/// | lowering   | [`chlo.lgamma`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `lgamma(x)′ = digamma(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lgamma;

impl Lgamma {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_chlo(ctx, "chlo.lgamma", operands, &results[0])
    }
}

impl Elementwise for Lgamma {
    const NAME: &'static str = "lgamma";
    const TYPE: TypeRule<Lgamma> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Lgamma> = Derivative::Unary(|_, x, _, dx| mul(dx, digamma(x)));
    const LOWERING: Lowering<Lgamma> = Lowering::Custom(Lgamma::lower);
    const COST: CostRule<Lgamma> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        let edges = [0.0, -0.0, -1.0, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-30];
        vec![
            Exemplar::new(Lgamma, [Sample::uniform(DType::F32, [2, 3], 0.5, 5.0)]),
            Exemplar::new(Lgamma, [Sample::uniform(DType::F64, [4], -0.9, -0.1)]),
            Exemplar::new(Lgamma, [Sample::uniform(DType::BF16, [], 1.0, 4.0)]),
            Exemplar::new(Lgamma, [Sample::uniform(DType::F16, [0, 2], 1.0, 4.0)]),
            Exemplar::new(Lgamma, [Sample::uniform(DType::F8E5M2, [2, 1], 1.0, 4.0)]),
            // Poles and infinities have no finite differences.
            Exemplar::new(Lgamma, [Sample::listed(DType::F32, [8], &edges)]).without_derivative(),
            Exemplar::new(Lgamma, [Sample::listed(DType::F64, [8], &edges)]).without_derivative(),
        ]
    }
}

/// Returns the logarithm of `|Γ(x)|` for each element of `x`. Integers become floats. See
/// [`Lgamma`] for its rules.
///
/// Reference: DLMF, section 5.4.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|n: Array| lgamma(&(n + 1)), Aval::new(DType::I32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "gammaln")]
#[track_caller]
pub fn lgamma(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Lgamma, [&inexact(x)])
}

/// Elementwise logarithmic derivative of the gamma function.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x`; NaN at 0 and at negative integers, where it has poles |
/// | lowering   | [`chlo.digamma`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `digamma(x)′ = polygamma(1, x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digamma;

impl Digamma {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        // Plugins differ at the pole at 0: NaN, as at the others, or -∞.
        in_float(ctx, operands, results[0].dtype, |ctx, operands| {
            let y = ctx.op("chlo.digamma", operands);
            lower_by(ctx, &[operands[0].clone(), y], |pair| {
                let zero = eq(&pair[0], full_like(&pair[0], 0.0));
                vec![select(&zero, &full_like(&pair[1], f64::NAN), &pair[1])]
            })
        })
    }
}

impl Elementwise for Digamma {
    const NAME: &'static str = "digamma";
    const TYPE: TypeRule<Digamma> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Digamma> =
        Derivative::Unary(|_, x, _, dx| mul(dx, polygamma(1.0, x)));
    const LOWERING: Lowering<Digamma> = Lowering::Custom(Digamma::lower);
    const COST: CostRule<Digamma> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        let edges = [0.0, -0.0, -1.0, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-30];
        vec![
            Exemplar::new(Digamma, [Sample::uniform(DType::F32, [2, 3], 0.5, 5.0)]),
            Exemplar::new(Digamma, [Sample::uniform(DType::F64, [2], 0.5, 5.0)]),
            Exemplar::new(Digamma, [Sample::uniform(DType::BF16, [], 1.0, 4.0)]),
            Exemplar::new(Digamma, [Sample::uniform(DType::F16, [0, 2], 1.0, 4.0)]),
            Exemplar::new(Digamma, [Sample::uniform(DType::F8E4M3FN, [2, 1], 1.0, 4.0)]),
            // Poles and infinities have no finite differences.
            Exemplar::new(Digamma, [Sample::listed(DType::F32, [8], &edges)]).without_derivative(),
        ]
    }
}

/// Returns `Γ′(x) / Γ(x)` for each element of `x`. Integers become floats. See [`Digamma`] for its
/// rules.
///
/// Reference: DLMF, section 5.2.
#[doc(alias = "psi")]
#[track_caller]
pub fn digamma(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Digamma, [&inexact(x)])
}

/// Elementwise derivative of order `m` of [`digamma`].
///
/// | | |
/// |-|-|
/// | operands   | `m, x: float[…]`, of one shape and dtype; `m` holds whole numbers from 0 on |
/// | result     | the same shape and dtype; NaN for other `m` |
/// | lowering   | [`chlo.polygamma`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `polygamma(m, x)′ = polygamma(m + 1, x)` in `x`; none in `m` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Polygamma;

impl Polygamma {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (m, x) = (&primals[0], &primals[1]);
        if !tangents[0].is_zero() {
            return Err(RuleError::unsupported(
                "has no derivative by its order, the first operand",
            ));
        }
        let y = bind1(Polygamma, [m, x]);
        let dy = tangents[1].map(y.aval(), |dx| mul(dx, polygamma(add(m, full_like(m, 1)), x)));
        Ok((vec![y], vec![dy]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_chlo(ctx, "chlo.polygamma", operands, &results[0])
    }
}

impl Elementwise for Polygamma {
    const NAME: &'static str = "polygamma";
    const TYPE: TypeRule<Polygamma> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<Polygamma> = Derivative::Custom(Polygamma::jvp);
    const LOWERING: Lowering<Polygamma> = Lowering::Custom(Polygamma::lower);
    const COST: CostRule<Polygamma> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        let order = |dtype, shape: &[usize]| Sample::listed(dtype, shape, &[0.0, 1.0, 2.0, 5.0]);
        let exemplar = |dtype, shape: &[usize]| {
            let x = Sample::uniform(dtype, shape, 0.5, 5.0);
            // The derivative with respect to the order is not implemented. The other derivative is
            // compared with JAX.
            Exemplar::new(Polygamma, [order(dtype, shape), x]).without_derivative()
        };
        let edges = [0.0, -1.5, f64::INFINITY, f64::NAN, -0.5, 3.0];
        let orders = [1.0, 1.0, 2.0, 1.0, 1.5, -1.0];
        let listed = |list: &[f64]| Sample::listed(DType::F32, [6], list);
        vec![
            exemplar(DType::F32, &[2, 4]),
            exemplar(DType::F64, &[4]),
            exemplar(DType::BF16, &[]),
            exemplar(DType::F16, &[0, 2]),
            exemplar(DType::F8E5M2, &[2, 1]),
            Exemplar::new(Polygamma, [listed(&orders), listed(&edges)]).without_derivative(),
        ]
    }
}

/// Returns the derivative of order `m` of [`digamma`] at `x`, with promotion and broadcasting.
/// Integers become floats. See [`Polygamma`] for its rules.
///
/// Reference: DLMF, section 5.15.
#[track_caller]
pub fn polygamma(m: impl ArrayLike, x: impl ArrayLike) -> Array {
    let [m, x] = promote_inexact("polygamma", [m.like(), x.like()]);
    bind1(Polygamma, [&m, &x])
}

/// Elementwise Hurwitz zeta function, the sum of `(k + q)^-x` over `k = 0, 1, …`.
///
/// | | |
/// |-|-|
/// | operands   | `x, q: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; ∞ at `x = 1`, NaN below |
/// | lowering   | [`chlo.zeta`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `zeta(x, q)′ = -x·zeta(x + 1, q)` in `q`; none in `x` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Zeta;

impl Zeta {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (x, q) = (&primals[0], &primals[1]);
        if !tangents[0].is_zero() {
            return Err(RuleError::unsupported(
                "has no derivative by its exponent, the first operand",
            ));
        }
        let y = bind1(Zeta, [x, q]);
        let dy = tangents[1].map(y.aval(), |dq| {
            let next = zeta(add(x, full_like(x, 1)), q);
            mul(dq, neg(mul(x, next)))
        });
        Ok((vec![y], vec![dy]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_chlo(ctx, "chlo.zeta", operands, &results[0])
    }
}

impl Elementwise for Zeta {
    const NAME: &'static str = "zeta";
    const TYPE: TypeRule<Zeta> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<Zeta> = Derivative::Custom(Zeta::jvp);
    const LOWERING: Lowering<Zeta> = Lowering::Custom(Zeta::lower);
    const COST: CostRule<Zeta> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |dtype, shape: &[usize]| {
            let (x, q) =
                (Sample::uniform(dtype, shape, 1.5, 5.0), Sample::uniform(dtype, shape, 0.5, 4.0));
            // The derivative with respect to the exponent is not implemented. The other derivative
            // is tested below.
            Exemplar::new(Zeta, [x, q]).without_derivative()
        };
        let listed = |list: &[f64]| Sample::listed(DType::F32, [6], list);
        let exponents = [1.0, 0.5, f64::INFINITY, f64::NAN, 2.0, 3.0];
        let starts = [1.0, 1.0, 2.0, 1.0, 0.0, -1.5];
        vec![
            exemplar(DType::F32, &[2, 3]),
            exemplar(DType::F64, &[4]),
            exemplar(DType::BF16, &[]),
            exemplar(DType::F16, &[0, 2]),
            exemplar(DType::F8E5M2, &[2, 1]),
            Exemplar::new(Zeta, [listed(&exponents), listed(&starts)]).without_derivative(),
        ]
    }
}

/// Returns the Hurwitz zeta function, the sum of `(k + q)^-x` over `k = 0, 1, …`, with promotion
/// and broadcasting. The Riemann zeta function is `zeta(x, 1.0)`. See [`Zeta`] for its rules.
///
/// Reference: DLMF, section 25.11.
#[track_caller]
pub fn zeta(x: impl ArrayLike, q: impl ArrayLike) -> Array {
    let [x, q] = promote_inexact("zeta", [x.like(), q.like()]);
    bind1(Zeta, [&x, &q])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn lowering() {
        let avals = || [Aval::new(DType::F8E5M2, [3]), Aval::new(DType::F8E5M2, [3])];
        expect![[r#"
            func.func public @main(%0: tensor<3xf8E5M2>, %1: tensor<3xf8E5M2>) -> (tensor<3xf8E5M2>) {
            %2 = "stablehlo.convert"(%0) : (tensor<3xf8E5M2>) -> tensor<3xf32>
            %3 = "stablehlo.convert"(%1) : (tensor<3xf8E5M2>) -> tensor<3xf32>
            %4 = "chlo.polygamma"(%2, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %5 = "stablehlo.convert"(%4) : (tensor<3xf32>) -> tensor<3xf8E5M2>
            "func.return"(%5) : (tensor<3xf8E5M2>) -> ()
            }
        "#]].assert_eq(&module_of(Polygamma, avals()));
    }

    #[test]
    fn rejects_invalid_operands() {
        expect![[r#"
            error[dtype]: lgamma: needs a float operand, got c64
              operand: c64[3]"#]]
        .assert_eq(&error_of(Lgamma, [Aval::new(DType::C64, [3])]));
        let avals = [Aval::new(DType::F32, [3]), Aval::new(DType::F64, [3])];
        expect![[r#"
            error[dtype]: zeta: operands must have one dtype, got f32 and f64
              lhs: f32[3]
              rhs: f64[3]"#]]
        .assert_eq(&error_of(Zeta, avals));
    }

    mod on_cpu {
        use super::*;
        use crate::prelude::grad;
        use crate::primitives::reduce_sum;

        #[test]
        fn slopes_of_zeta_are_differences() {
            let q = Array::from_slice(&[0.7f64, 1.0, 2.5], [3]).unwrap();
            let index = |q: &Array| zeta(full_like(q, 2.5), q);
            let slopes = grad(|q: &Array| reduce_sum(&index(q), &[0]))(&q).to_vec::<f64>().unwrap();
            let step = full_like(&q, 1e-5);
            let above = index(&add(&q, &step)).to_vec::<f64>().unwrap();
            let below = index(&add(&q, neg(&step))).to_vec::<f64>().unwrap();
            for ((slope, above), below) in slopes.iter().zip(above).zip(below) {
                assert!((slope - (above - below) / 2e-5).abs() < 1e-6 * slope.abs());
            }
        }
    }
}
