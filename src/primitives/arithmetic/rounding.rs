//! Rounding to integers, and remainders.

use super::basic::{div, mul, neg};
use super::sign::{abs, sign};
use crate::core::{
    Array, Aval, CheckSet, DType, Exemplar, JvpResult, LowerCtx, OperandCheck, RuleResult, Sample,
    Tangent, bind1,
};
use crate::ensure_dtype;
use crate::primitives::checks::nonzero;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::{ArrayLike, promote_arrays};
use crate::primitives::rules::{arity, same_numeric_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Ties, zeros and non-finite numbers, at which rounding is discontinuous or special.
const TIES: [f64; 7] = [-1.5, -0.5, -0.0, 0.5, 2.5, f64::NAN, f64::INFINITY];

/// Rounds every element down to an integer.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x`; zeros, infinities and NaN stay |
/// | lowering   | [`stablehlo.floor`](https://openxla.org/stablehlo/spec#floor) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Floor;

impl Elementwise for Floor {
    const NAME: &'static str = "floor";
    const TYPE: TypeRule<Floor> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Floor> = Derivative::Zero;
    const LOWERING: Lowering<Floor> = Lowering::Op("floor");
    const COST: CostRule<Floor> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Floor, [Sample::listed(DType::F32, [7], &TIES)]).without_derivative(),
            Exemplar::new(Floor, [Sample::listed(DType::F64, [2, 1], &[0.25, -3.75])]),
            Exemplar::new(Floor, [Sample::uniform(DType::BF16, [0], -3.0, 3.0)]),
        ]
    }
}

/// Rounds each element of `x` down to an integer. Integer arrays are returned unchanged. See
/// [`Floor`] for its rules.
#[track_caller]
pub fn floor(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    if x.dtype().is_integer() { x.clone() } else { bind1(Floor, [x]) }
}

/// Rounds every element up to an integer.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x`; zeros, infinities and NaN stay |
/// | lowering   | [`stablehlo.ceil`](https://openxla.org/stablehlo/spec#ceil) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ceil;

impl Elementwise for Ceil {
    const NAME: &'static str = "ceil";
    const TYPE: TypeRule<Ceil> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Ceil> = Derivative::Zero;
    const LOWERING: Lowering<Ceil> = Lowering::Op("ceil");
    const COST: CostRule<Ceil> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Ceil, [Sample::listed(DType::F32, [7], &TIES)]).without_derivative(),
            Exemplar::new(Ceil, [Sample::listed(DType::F64, [2, 1], &[0.25, -3.75])]),
            Exemplar::new(Ceil, [Sample::uniform(DType::BF16, [0], -3.0, 3.0)]),
        ]
    }
}

/// Rounds each element of `x` up to an integer. Integer arrays are returned unchanged. See [`Ceil`]
/// for its rules.
#[track_caller]
pub fn ceil(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    if x.dtype().is_integer() { x.clone() } else { bind1(Ceil, [x]) }
}

/// Rounding of numbers halfway between two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RoundingMethod {
    /// Away from zero: 2.5 to 3.
    AwayFromZero,
    /// To the nearest even integer: 2.5 to 2.
    ToNearestEven,
}

/// Rounds every element to the nearest integer.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x`; zeros, infinities and NaN stay |
/// | lowering   | [`stablehlo.round_nearest_even`](https://openxla.org/stablehlo/spec#round_nearest_even), [`stablehlo.round_nearest_afz`](https://openxla.org/stablehlo/spec#round_nearest_afz) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Round {
    /// The rounding of ties.
    pub rounding_method: RoundingMethod,
}

impl Round {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let name = match self.rounding_method {
            RoundingMethod::AwayFromZero => "round_nearest_afz",
            RoundingMethod::ToNearestEven => "round_nearest_even",
        };
        Ok(vec![ctx.op(name, operands)])
    }
}

impl Elementwise for Round {
    const NAME: &'static str = "round";
    const TYPE: TypeRule<Round> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Round> = Derivative::Zero;
    const LOWERING: Lowering<Round> = Lowering::Custom(Round::lower);
    const COST: CostRule<Round> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        let methods = [RoundingMethod::AwayFromZero, RoundingMethod::ToNearestEven];
        let both = |sample: Sample| {
            methods
                .map(|rounding_method| Exemplar::new(Round { rounding_method }, [sample.clone()]))
        };
        let mut all: Vec<Exemplar> = both(Sample::listed(DType::F32, [7], &TIES))
            .map(Exemplar::without_derivative)
            .into_iter()
            .collect();
        all.extend(both(Sample::listed(DType::F64, [2], &[0.25, -3.75])));
        all.extend(both(Sample::uniform(DType::F16, [], -3.0, 3.0)));
        all
    }
}

#[track_caller]
fn round_by(x: &Array, rounding_method: RoundingMethod) -> Array {
    if x.dtype().is_integer() { x.clone() } else { bind1(Round { rounding_method }, [x]) }
}

/// Rounds each element of `x` to the nearest integer, ties to even as in NumPy. Integer arrays are
/// returned unchanged. See [`Round`] for its rules.
/// [`Round`] for its rules.
#[doc(alias = "rint")]
#[doc(alias = "round_half_even")]
#[track_caller]
pub fn round(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    round_by(x, RoundingMethod::ToNearestEven)
}

/// Rounds each element of `x` to the nearest integer, ties away from zero as `f32::round` does.
/// Integer arrays are returned unchanged. See [`Round`] for its rules.
#[track_caller]
pub fn round_half_away(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    round_by(x, RoundingMethod::AwayFromZero)
}

/// Elementwise remainder of the division that rounds towards zero.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {int, float}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; has the sign of `x`; an integer's by 0 is `x`, a float's NaN |
/// | lowering   | [`stablehlo.remainder`](https://openxla.org/stablehlo/spec#remainder) |
/// | derivative | `dx - trunc(x/y)·dy` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rem;

impl Rem {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let z = same_numeric_type(arity::<2>(operands)?)?;
        ensure_dtype!(!z.dtype.is_complex(), "needs an integer or float operand, got {}", z.dtype);
        Ok(vec![z])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (x, y) = (&primals[0], &primals[1]);
        let z = bind1(Rem, [x, y]);
        let right = tangents[1].map(z.aval(), |dy| {
            let quotient = div(x, y);
            mul(dy, neg(mul(sign(&quotient), floor(abs(&quotient)))))
        });
        Ok((vec![z], vec![tangents[0].add(&right)]))
    }
}

impl Elementwise for Rem {
    const NAME: &'static str = "rem";
    const TYPE: TypeRule<Rem> = TypeRule::Custom(Rem::abstract_eval);
    const DERIVATIVE: Derivative<Rem> = Derivative::Custom(Rem::jvp);
    const LOWERING: Lowering<Rem> = Lowering::Op("remainder");
    const COST: CostRule<Rem> = CostRule::Arithmetic;
    fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        nonzero(enabled, operands[1])
    }
    fn exemplars() -> Vec<Exemplar> {
        let pair = |dtype: DType, x: &[f64], y: &[f64]| {
            let operands = [x, y].map(|elements| Sample::listed(dtype, [elements.len()], elements));
            Exemplar::new(Rem, operands)
        };
        vec![
            pair(DType::F32, &[2.5, -2.5, 7.0, -0.5], &[1.5, 1.5, -2.0, -2.0]),
            pair(DType::I32, &[7.0, -7.0, 7.0, -7.0, 5.0], &[3.0, 3.0, -3.0, -3.0, 0.0]),
            pair(DType::U8, &[255.0, 7.0], &[16.0, 0.0]),
            pair(DType::BF16, &[], &[]),
            // Exact quotients, where the remainder is discontinuous.
            pair(DType::F32, &[-0.0, 6.0, -6.0], &[2.0, -3.0, 1.5]).without_derivative(),
        ]
    }
}

/// Returns the remainder of `x / y` rounded towards zero, as Rust's `%` does: it has the sign of
/// `x`. With promotion and broadcasting. Python's `%` is a different function. See [`Rem`] for its
/// rules.
#[track_caller]
pub fn rem(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("rem", [x.like(), y.like()]);
    bind1(Rem, [&x, &y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn the_rounding_method_chooses_the_operation() {
        for rounding_method in [RoundingMethod::AwayFromZero, RoundingMethod::ToNearestEven] {
            let text = module_of(Round { rounding_method }, [Aval::new(DType::F32, [3])]);
            let name = match rounding_method {
                RoundingMethod::AwayFromZero => "stablehlo.round_nearest_afz",
                RoundingMethod::ToNearestEven => "stablehlo.round_nearest_even",
            };
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn remainders_are_real() {
        expect![[r#"
            error[dtype]: rem: needs an integer or float operand, got c64
              lhs: c64[2]
              rhs: c64[2]"#]]
        .assert_eq(&error_of(Rem, [DType::C64; 2].map(|c64| Aval::new(c64, [2]))));
    }
}
