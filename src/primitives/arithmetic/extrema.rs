//! Elementwise maximum, minimum and clamp.

use super::basic::mul;
use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, RuleResult, Sample, Tangent, bind1,
};
use crate::ensure_dtype;
use crate::primitives::comparison::{ComparisonDirection, compare_attributes, eq, gt, lt};
use crate::primitives::constant::{full_like, zeros_like};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::logic::bitwise_and;
use crate::primitives::promote::{ArrayLike, promote_arrays};
use crate::primitives::rules::{arity, same_type};
use crate::primitives::select::select;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Returns the weight of one operand's tangent in the tangent of the extremum `z`: 1 where the
/// operand was chosen, 1/2 at ties, else 0.
fn share(z: &Array, own: &Array, other: &Array) -> Array {
    let tie = select(&eq(other, z), &full_like(z, 0.5), &full_like(z, 1.0));
    select(&eq(own, z), &tie, &zeros_like(z))
}

fn extremum_jvp(z: Array, primals: &[Array], tangents: &[Tangent]) -> (Vec<Array>, Vec<Tangent>) {
    let (x, y) = (&primals[0], &primals[1]);
    let left = tangents[0].map(z.aval(), |dx| mul(dx, share(&z, x, y)));
    let right = tangents[1].map(z.aval(), |dy| mul(dy, share(&z, y, x)));
    (vec![z], vec![left.add(&right)])
}

/// Writes the operation `name`. For complex numbers, which StableHLO does not order, writes a
/// comparison by real and then imaginary part, and a selection.
fn lower_extremum(
    ctx: &mut LowerCtx<'_>,
    name: &str,
    direction: ComparisonDirection,
    operands: &[Value],
    result: &Aval,
) -> Value {
    if !result.dtype.is_complex() {
        return ctx.op(name, operands);
    }
    let part = result.dtype.real();
    let real = result.with_dtype(part).stablehlo();
    let bool = result.with_dtype(DType::Bool).stablehlo();
    let mut parts = |name: &str| -> Vec<Value> {
        operands
            .iter()
            .map(|operand| ctx.op_as(name, std::slice::from_ref(operand), "", &real))
            .collect()
    };
    let (re, im) = (parts("real"), parts("imag"));
    let mut compare = |direction, operands: &[Value]| {
        ctx.op_as("compare", operands, &compare_attributes(direction, part, false), &bool)
    };
    let same = compare(ComparisonDirection::Eq, &re);
    let by_imaginary = compare(direction, &im);
    let by_real = compare(direction, &re);
    let first = ctx.op_as("select", &[same, by_imaginary, by_real], "", &bool);
    let chosen = [first, operands[0].clone(), operands[1].clone()];
    ctx.op_as("select", &chosen, "", &result.stablehlo())
}

/// Elementwise maximum.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: any[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; for floats NaN where either is; complex numbers order by real, then imaginary part; booleans: logical or |
/// | lowering   | [`stablehlo.maximum`](https://openxla.org/stablehlo/spec#maximum); complex: comparisons and selections |
/// | derivative | that of the larger operand; half of each where they are equal; 0 at NaN |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Max;

impl Max {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let z = bind1(Max, [&primals[0], &primals[1]]);
        Ok(extremum_jvp(z, primals, tangents))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let direction = ComparisonDirection::Gt;
        Ok(vec![lower_extremum(ctx, "maximum", direction, operands, &results[0])])
    }
}

impl Elementwise for Max {
    const NAME: &'static str = "max";
    const TYPE: TypeRule<Max> = TypeRule::binary(Dtypes::Any);
    const DERIVATIVE: Derivative<Max> = Derivative::Custom(Max::jvp);
    const LOWERING: Lowering<Max> = Lowering::Custom(Max::lower);
    const COST: CostRule<Max> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(Max, operands))
    }
}

/// Returns the elementwise maximum of `x` and `y`, with promotion and broadcasting; NaN where
/// either is NaN. See [`Max`] for its rules.
#[doc(alias = "max")]
#[track_caller]
pub fn maximum(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("maximum", [x.like(), y.like()]);
    bind1(Max, [&x, &y])
}

fn exemplars(extremum: impl Fn([Sample; 2]) -> Exemplar) -> Vec<Exemplar> {
    let pair = |dtype: DType, x: &[f64], y: &[f64]| {
        extremum([x, y].map(|elements| Sample::listed(dtype, [elements.len()], elements)))
    };
    vec![
        pair(DType::F32, &[1.0, -2.0, 3.0], &[2.0, -3.0, -1.0]),
        pair(DType::F64, &[], &[]),
        pair(DType::U8, &[255.0, 0.0], &[1.0, 128.0]),
        pair(DType::Bool, &[0.0, 0.0, 1.0, 1.0], &[0.0, 1.0, 0.0, 1.0]),
        pair(DType::C64, &[1.0, 2.0], &[1.5, -2.0]),
        // Ties and NaN have no derivative.
        pair(DType::F32, &[1.0, -0.0, f64::NAN, 1.0], &[1.0, 0.0, 1.0, f64::NAN])
            .without_derivative(),
    ]
}

/// Elementwise minimum.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: any[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; for floats NaN where either is; complex numbers order by real, then imaginary part; booleans: logical and |
/// | lowering   | [`stablehlo.minimum`](https://openxla.org/stablehlo/spec#minimum); complex: comparisons and selections |
/// | derivative | that of the smaller operand; half of each where they are equal; 0 at NaN |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Min;

impl Min {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let z = bind1(Min, [&primals[0], &primals[1]]);
        Ok(extremum_jvp(z, primals, tangents))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let direction = ComparisonDirection::Lt;
        Ok(vec![lower_extremum(ctx, "minimum", direction, operands, &results[0])])
    }
}

impl Elementwise for Min {
    const NAME: &'static str = "min";
    const TYPE: TypeRule<Min> = TypeRule::binary(Dtypes::Any);
    const DERIVATIVE: Derivative<Min> = Derivative::Custom(Min::jvp);
    const LOWERING: Lowering<Min> = Lowering::Custom(Min::lower);
    const COST: CostRule<Min> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|operands| Exemplar::new(Min, operands))
    }
}

/// Returns the elementwise minimum of `x` and `y`, with promotion and broadcasting; NaN where
/// either is NaN. See [`Min`] for its rules.
#[doc(alias = "min")]
#[track_caller]
pub fn minimum(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("minimum", [x.like(), y.like()]);
    bind1(Min, [&x, &y])
}

/// Elementwise clamp to a range.
///
/// | | |
/// |-|-|
/// | operands   | `min, x, max: {bool, int, float}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; `max` where the bounds cross, NaN where any is |
/// | lowering   | [`stablehlo.clamp`](https://openxla.org/stablehlo/spec#clamp); of booleans `(x or min) and max`, as TPUs clamp only numbers |
/// | derivative | that of the chosen operand; 0 where `x` is on a bound |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clamp;

impl Clamp {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let z = same_type(arity::<3>(operands)?)?;
        ensure_dtype!(!z.dtype.is_complex(), "needs real operands, got {}", z.dtype);
        Ok(vec![z])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (low, x, high) = (&primals[0], &primals[1], &primals[2]);
        let z = bind1(Clamp, [low, x, high]);
        let zero = zeros_like(&z);
        let at_low = tangents[0]
            .map(z.aval(), |dlow| select(&bitwise_and(gt(low, x), lt(low, high)), dlow, &zero));
        let between = tangents[1]
            .map(z.aval(), |dx| select(&bitwise_and(gt(x, low), lt(x, high)), dx, &zero));
        let at_high = tangents[2].map(z.aval(), |dhigh| select(&lt(high, x), dhigh, &zero));
        Ok((vec![z], vec![at_low.add(&between).add(&at_high)]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].dtype != DType::Bool {
            return Ok(vec![ctx.op("clamp", operands)]);
        }
        let at_least = ctx.op("or", &[operands[1].clone(), operands[0].clone()]);
        Ok(vec![ctx.op("and", &[at_least, operands[2].clone()])])
    }
}

impl Elementwise for Clamp {
    const NAME: &'static str = "clamp";
    const TYPE: TypeRule<Clamp> = TypeRule::Custom(Clamp::abstract_eval);
    const DERIVATIVE: Derivative<Clamp> = Derivative::Custom(Clamp::jvp);
    const LOWERING: Lowering<Clamp> = Lowering::Custom(Clamp::lower);
    const COST: CostRule<Clamp> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        let triple = |dtype: DType, min: &[f64], x: &[f64], max: &[f64]| {
            let sample = |elements: &[f64]| Sample::listed(dtype, [x.len()], elements);
            Exemplar::new(Clamp, [sample(min), sample(x), sample(max)])
        };
        vec![
            triple(DType::F32, &[-1.0], &[-2.0, 0.5, 2.0], &[1.0]),
            triple(DType::I8, &[-100.0], &[-128.0, 0.0, 127.0], &[100.0]),
            triple(DType::BF16, &[0.0], &[], &[1.0]),
            // Values on a bound, crossed bounds and NaN have no derivative.
            triple(DType::F32, &[0.0, 0.0, 3.0, 0.0], &[0.0, 1.0, 2.0, f64::NAN], &[1.0])
                .without_derivative(),
        ]
    }
}

/// Clamps each element of `x` to the range from `min` to `max`, with promotion and broadcasting.
/// The result is `max` where the bounds cross. See [`Clamp`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(|x: Array| clamp(0.0, &x, 6.0), Aval::new(DType::F32, [3]))?;
/// assert_eq!(program.avals_out()[0].to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "clip")]
#[track_caller]
pub fn clamp(min: impl ArrayLike, x: impl ArrayLike, max: impl ArrayLike) -> Array {
    let [min, x, max] = promote_arrays("clamp", [min.like(), x.like(), max.like()]);
    bind1(Clamp, [&min, &x, &max])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn complex_numbers_compare_by_their_parts() {
        expect![[r#"
            func.func public @main(%0: tensor<complex<f32>>, %1: tensor<complex<f32>>) -> (tensor<complex<f32>>) {
            %2 = "stablehlo.real"(%0) : (tensor<complex<f32>>) -> tensor<f32>
            %3 = "stablehlo.real"(%1) : (tensor<complex<f32>>) -> tensor<f32>
            %4 = "stablehlo.imag"(%0) : (tensor<complex<f32>>) -> tensor<f32>
            %5 = "stablehlo.imag"(%1) : (tensor<complex<f32>>) -> tensor<f32>
            %6 = "stablehlo.compare"(%2, %3) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %7 = "stablehlo.compare"(%4, %5) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %8 = "stablehlo.compare"(%2, %3) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %9 = "stablehlo.select"(%6, %7, %8) : (tensor<i1>, tensor<i1>, tensor<i1>) -> tensor<i1>
            %10 = "stablehlo.select"(%9, %0, %1) : (tensor<i1>, tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
            "func.return"(%10) : (tensor<complex<f32>>) -> ()
            }
        "#]].assert_eq(&module_of(Max, [DType::C64; 2].map(|c64| Aval::new(c64, []))));
    }

    #[test]
    fn bounds_are_of_the_operands_type() {
        let avals = [DType::F32, DType::F32, DType::F16].map(|dtype| Aval::new(dtype, [2]));
        expect![[r#"
            error[dtype]: clamp: operands must have one dtype, got f32 and f16
              operand 0: f32[2]
              operand 1: f32[2]
              operand 2: f16[2]"#]]
        .assert_eq(&error_of(Clamp, avals));
        let shapes = [vec![2], vec![2], vec![]].map(|shape| Aval::new(DType::F32, shape));
        expect![[r#"
            error[shape]: clamp: operands must have one shape, got [2] and []
              operand 0: f32[2]
              operand 1: f32[2]
              operand 2: f32[]"#]]
        .assert_eq(&error_of(Clamp, shapes));
    }
}
