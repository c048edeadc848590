//! Powers with constant and array exponents.

use super::basic::{mul, sub};
use crate::core::{
    Array, Aval, Cost, DType, Exemplar, JvpResult, LowerCtx, RuleError, RuleResult, Sample, Scalar,
    Tangent, bind1, trace,
};
use crate::primitives::comparison::eq;
use crate::primitives::constant::{ones_like, zeros_like};
use crate::primitives::convert::convert_element_type;
use crate::primitives::elementwise::{CostRule, Derivative, Elementwise, Lowering, TypeRule};
use crate::primitives::exponential::log;
use crate::primitives::promote::{ArrayLike, Like, promote_arrays};
use crate::primitives::rules::{arity, same_numeric_type};
use crate::primitives::select::select;
use crate::primitives::shape::broadcast_to;
use crate::stablehlo::Value;
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// Elementwise power with an integer exponent that is a parameter.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]`; no integers if `exponent` is negative |
/// | result     | same shape and dtype as `x`; integers wrap; `x` to the power 0 is 1, 0 and NaN included |
/// | lowering   | [`stablehlo.multiply`](https://openxla.org/stablehlo/spec#multiply), repeated squaring; a reciprocal if `exponent` is negative |
/// | derivative | `exponent · x^(exponent - 1)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IntegerPow {
    /// The exponent, of either sign.
    pub exponent: i32,
}

impl IntegerPow {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let x = same_numeric_type(arity::<1>(operands)?)?;
        ensure!(self.exponent > i32::MIN, "exponent {} is out of range", self.exponent);
        if self.exponent < 0 && x.dtype.is_integer() {
            let message =
                format!("{} has no power {}: it is not an integer", x.dtype, self.exponent);
            return Err(RuleError::dtype(message).help("convert the operand to a float dtype"));
        }
        Ok(vec![x])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let dy = match self.exponent {
            0 => Tangent::zero_like(&y),
            1 => tangents[0].clone(),
            2 => tangents[0].map(y.aval(), |dx| mul(dx, mul(x, 2.0))),
            n => tangents[0].map(y.aval(), |dx| mul(dx, mul(integer_pow(x, n - 1), f64::from(n)))),
        };
        Ok((vec![y], vec![dy]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let one = |ctx: &mut LowerCtx<'_>| {
            let text = Scalar::Int(1).stablehlo(results[0].dtype);
            ctx.constant(&text, &results[0].stablehlo())
        };
        let mut square = operands[0].clone();
        let mut product: Option<Value> = None;
        let mut rest = self.exponent.unsigned_abs();
        while rest > 0 {
            if rest % 2 == 1 {
                product = Some(match product {
                    Some(product) => ctx.op("multiply", &[product, square.clone()]),
                    None => square.clone(),
                });
            }
            rest /= 2;
            if rest > 0 {
                square = ctx.op("multiply", &[square.clone(), square]);
            }
        }
        let power = match product {
            Some(product) => product,
            None => one(ctx),
        };
        Ok(vec![if self.exponent < 0 {
            let one = one(ctx);
            ctx.op("divide", &[one, power])
        } else {
            power
        }])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let n = self.exponent.unsigned_abs();
        // One squaring per binary digit after the first, one product per 1 after the first, and one
        // division.
        let squarings = n.checked_ilog2().unwrap_or(0);
        let products = n.count_ones().saturating_sub(1) + u32::from(self.exponent < 0);
        let one = Cost::elementwise(operands, results);
        Cost { flops: one.flops * u64::from(squarings + products), ..one }
    }
}

impl Elementwise for IntegerPow {
    const NAME: &'static str = "integer_pow";
    const TYPE: TypeRule<IntegerPow> = TypeRule::Custom(IntegerPow::abstract_eval);
    const DERIVATIVE: Derivative<IntegerPow> = Derivative::Custom(IntegerPow::jvp);
    const LOWERING: Lowering<IntegerPow> = Lowering::Custom(IntegerPow::lower);
    const COST: CostRule<IntegerPow> = CostRule::Custom(IntegerPow::cost);
    fn exemplars() -> Vec<Exemplar> {
        let power =
            |exponent: i32, sample: Sample| Exemplar::new(IntegerPow { exponent }, [sample]);
        let sample = || Sample::uniform(DType::F32, [2, 3], 0.5, 2.0);
        let mut all: Vec<Exemplar> =
            [-3, 0, 1, 2, 7].map(|exponent| power(exponent, sample())).into();
        all.push(power(2, Sample::uniform(DType::C64, [2], -1.0, 1.0)));
        all.push(power(-2, Sample::uniform(DType::C128, [], 0.5, 1.0)));
        all.push(power(3, Sample::listed(DType::I8, [3], &[-3.0, 5.0, 6.0])));
        all.push(power(2, Sample::listed(DType::F64, [2], &[0.0, -1.0])));
        all.push(power(5, Sample::uniform(DType::BF16, [0, 2], 0.5, 2.0)));
        all
    }
}

/// Raises each element of `x` to the power `exponent`. See [`IntegerPow`] for its rules.
#[track_caller]
pub fn integer_pow(x: &Array, exponent: i32) -> Array {
    bind1(IntegerPow { exponent }, [x])
}

/// Squares each element of `x`.
#[track_caller]
pub fn square(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    integer_pow(x, 2)
}

/// Returns the partial derivative of `x^y` with respect to `x`.
fn base_slope(x: &Array, y: &Array) -> Array {
    if !y.dtype().is_integer() {
        return mul(y, bind1(Pow, [x, &sub(y, 1.0)]));
    }
    let slope = mul(convert_element_type(y, x.dtype()), bind1(Pow, [x, &sub(y, 1)]));
    select(&eq(y, 0), &zeros_like(&slope), &slope)
}

/// Elementwise power.
///
/// | | |
/// |-|-|
/// | operands   | `x: {int, float, complex}[…]`, `y` of the same shape and dtype, or of an integer dtype if `x` is float or complex |
/// | result     | the shape and dtype of `x`; NaN for a negative float to a fractional power; 1 for `y` = 0; integers wrap, and to a negative power are 0 unless `x` is ±1 |
/// | lowering   | [`stablehlo.power`](https://openxla.org/stablehlo/spec#power) |
/// | derivative | `y·x^(y-1)·dx + log(x)·x^y·dy` |
///
/// Follows JAX at the edges. The logarithm of a base 0 counts as 0, so that `0^y` has derivative 0
/// with respect to `y`. The derivative of `x^0` with respect to `x` is 0 for an integer exponent;
/// for a float exponent it is NaN at `x` = 0, where `0 · 0^(-1)` has no value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pow;

impl Pow {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x, y] = arity(operands)?;
        ensure_dtype!(!x.dtype.is_bool(), "needs a numeric base, got {}", x.dtype);
        ensure_dtype!(
            y.dtype == x.dtype || (x.dtype.is_inexact() && y.dtype.is_integer()),
            "the exponent must be {} as the base is, or an integer under a float: got {}",
            x.dtype,
            y.dtype
        );
        ensure_shape!(
            x.shape == y.shape,
            "operands must have one shape, got {} and {}",
            x.shape,
            y.shape
        );
        Ok(vec![Aval { weak: x.weak && y.weak, ..x.clone() }])
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let [x, y] = operands else {
            return Err(RuleError::value(format!("takes 2 operands, got {}", operands.len())));
        };
        let y = if y.ty() == x.ty() {
            y.clone()
        } else {
            ctx.op_as("convert", std::slice::from_ref(y), "", &results[0].stablehlo())
        };
        Ok(vec![ctx.op("power", &[x.clone(), y])])
    }
}

impl Elementwise for Pow {
    const NAME: &'static str = "pow";
    const TYPE: TypeRule<Pow> = TypeRule::Custom(Pow::abstract_eval);
    const DERIVATIVE: Derivative<Pow> = Derivative::Binary(
        |_, x, y, _, dx| mul(dx, base_slope(x, y)),
        |_, x, _, z, dy| {
            let x = select(&eq(x, 0.0), &ones_like(x), x);
            mul(dy, mul(log(&x), z))
        },
    );
    const LOWERING: Lowering<Pow> = Lowering::Custom(Pow::lower);
    const COST: CostRule<Pow> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        let power = |x: Sample, y: Sample| Exemplar::new(Pow, [x, y]);
        let uniform = |dtype: DType, low: f64, high: f64| Sample::uniform(dtype, [2, 3], low, high);
        let listed =
            |dtype: DType, elements: &[f64]| Sample::listed(dtype, [elements.len()], elements);
        vec![
            power(uniform(DType::F32, 0.5, 2.0), uniform(DType::F32, -2.0, 2.0)),
            power(uniform(DType::F64, 0.5, 2.0), uniform(DType::I32, -2.0, 3.0)),
            power(uniform(DType::C64, 0.5, 1.0), uniform(DType::C64, 0.5, 1.0)),
            power(
                listed(DType::I32, &[3.0, -2.0, 2.0, -1.0]),
                listed(DType::I32, &[4.0, 3.0, -1.0, -3.0]),
            ),
            power(listed(DType::BF16, &[]), listed(DType::BF16, &[])),
            power(
                listed(DType::F64, &[0.0, 0.0, 2.0, 1.0]),
                listed(DType::F64, &[1.0, 2.0, 0.0, 0.0]),
            )
            // Central differences are not defined next to base 0.
            .without_derivative(),
            power(
                listed(DType::F64, &[0.0, 0.0, 0.0, -1.0, -2.0]),
                listed(DType::I8, &[0.0, 1.0, 2.0, -1.0, 3.0]),
            ),
        ]
    }
}

/// Raises `x` to the power `y`, with promotion and broadcasting. See [`Pow`] for its rules.
///
/// A Rust integer as exponent becomes a parameter of the program, see [`IntegerPow`]. An integer
/// array under a float base stays integer, so that the derivative is defined at base 0.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(|x: Array| pow(&x, 3), Aval::new(DType::F32, [3]))?;
/// assert!(program.to_string().contains("integer_pow"));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "power")]
#[doc(alias = "float_power")]
#[track_caller]
pub fn pow(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    match (x.like(), y.like()) {
        (Like::Array(x), Like::Scalar(Scalar::Int(n))) if i32::try_from(n).is_ok() => {
            integer_pow(x, i32::try_from(n).expect("the guard checked the range"))
        }
        (Like::Array(x), Like::Array(y)) if x.dtype().is_inexact() && y.dtype().is_integer() => {
            let Some(shape) = x.shape().broadcast(y.shape()) else {
                let message = format!("shapes {} and {} do not broadcast", x.shape(), y.shape());
                trace::throw_operands("pow", RuleError::shape(message), &[x, y]);
            };
            bind1(Pow, [&broadcast_to(x, shape.clone()), &broadcast_to(y, shape)])
        }
        (x, y) => {
            let [x, y] = promote_arrays("pow", [x, y]);
            bind1(Pow, [&x, &y])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn integer_powers_are_products() {
        let power = |exponent| module_of(IntegerPow { exponent }, [Aval::new(DType::F32, [2])]);
        expect![[r#"
            func.func public @main(%0: tensor<2xf32>) -> (tensor<2xf32>) {
            %1 = "stablehlo.multiply"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %2 = "stablehlo.multiply"(%1, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %3 = "stablehlo.multiply"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            "func.return"(%3) : (tensor<2xf32>) -> ()
            }
        "#]]
        .assert_eq(&power(6));
        expect![[r#"
            func.func public @main(%0: tensor<2xf32>) -> (tensor<2xf32>) {
            %1 = "stablehlo.constant"() <{value = dense<0x3F800000> : tensor<2xf32>}> : () -> tensor<2xf32>
            %2 = "stablehlo.divide"(%1, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            "func.return"(%2) : (tensor<2xf32>) -> ()
            }
        "#]].assert_eq(&power(-1));
        expect![[r#"
            func.func public @main(%0: tensor<2xf32>) -> (tensor<2xf32>) {
            %1 = "stablehlo.constant"() <{value = dense<0x3F800000> : tensor<2xf32>}> : () -> tensor<2xf32>
            "func.return"(%1) : (tensor<2xf32>) -> ()
            }
        "#]].assert_eq(&power(0));
    }

    #[test]
    fn an_integer_exponent_is_converted_to_the_base() {
        let avals = [Aval::new(DType::F32, []), Aval::new(DType::I64, [])];
        expect![[r#"
            func.func public @main(%0: tensor<f32>, %1: tensor<i64>) -> (tensor<f32>) {
            %2 = "stablehlo.convert"(%1) : (tensor<i64>) -> tensor<f32>
            %3 = "stablehlo.power"(%0, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            "func.return"(%3) : (tensor<f32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Pow, avals));
    }

    #[test]
    fn rejects_operands_that_do_not_fit() {
        expect![[r#"
            error[dtype]: integer_pow: i32 has no power -2: it is not an integer
              operand: i32[]
              help: convert the operand to a float dtype"#]]
        .assert_eq(&error_of(IntegerPow { exponent: -2 }, [Aval::new(DType::I32, [])]));
        let avals = [Aval::new(DType::I32, []), Aval::new(DType::F32, [])];
        expect![[r#"
            error[dtype]: pow: the exponent must be i32 as the base is, or an integer under a float: got f32
              lhs: i32[]
              rhs: f32[]"#]].assert_eq(&error_of(Pow, avals));
    }

    #[test]
    fn an_integer_power_costs_its_products() {
        let aval = [Aval::new(DType::F32, [10])];
        let flops = |exponent| IntegerPow { exponent }.cost(&aval, &aval).flops;
        assert_eq!([0, 1, 2, 3, -1, 10].map(flops), [0, 0, 10, 20, 10, 40]);
    }
}
