//! Elementwise comparison.

use super::promote::{ArrayLike, promote_arrays};
use super::rules::{arity, same_type};
use crate::core::{
    Array, Aval, CounterOp, DType, Exemplar, LowerCtx, RuleError, RuleResult, Sample, bind1,
};
use crate::ensure_dtype;
use crate::primitives::elementwise::{CostRule, Derivative, Elementwise, Lowering, TypeRule};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// The relation that a comparison tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ComparisonDirection {
    /// `x == y`
    Eq,
    /// `x != y`
    Ne,
    /// `x >= y`
    Ge,
    /// `x > y`
    Gt,
    /// `x <= y`
    Le,
    /// `x < y`
    Lt,
}

impl ComparisonDirection {
    fn stablehlo(self) -> &'static str {
        match self {
            ComparisonDirection::Eq => "EQ",
            ComparisonDirection::Ne => "NE",
            ComparisonDirection::Ge => "GE",
            ComparisonDirection::Gt => "GT",
            ComparisonDirection::Le => "LE",
            ComparisonDirection::Lt => "LT",
        }
    }
}

/// Returns the attributes of a `stablehlo.compare` of operands of `dtype`.
pub(super) fn compare_attributes(
    direction: ComparisonDirection,
    dtype: DType,
    total_order: bool,
) -> String {
    let kind = match total_order {
        true if dtype.is_float() => "TOTALORDER",
        _ if dtype.is_inexact() => "FLOAT",
        _ if dtype.is_signed() => "SIGNED",
        _ => "UNSIGNED",
    };
    format!(
        "comparison_direction = #stablehlo<comparison_direction {}>, \
         compare_type = #stablehlo<comparison_type {kind}>",
        direction.stablehlo()
    )
}

/// Elementwise comparison.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: any[…]`, of one shape and dtype; complex only for `EQ` and `NE` |
/// | result     | `bool` of the same shape |
/// | lowering   | [`stablehlo.compare`](https://openxla.org/stablehlo/spec#compare) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Compare {
    /// The tested relation.
    pub direction: ComparisonDirection,
    /// Compares floats in the order of IEEE 754's `totalOrder`: -0 < 0, and NaN comes first or last
    /// by its sign. Otherwise NaN is unequal to everything.
    pub total_order: bool,
}

impl Compare {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let z = same_type(arity::<2>(operands)?)?;
        let equality = matches!(self.direction, ComparisonDirection::Eq | ComparisonDirection::Ne);
        ensure_dtype!(
            equality || !z.dtype.is_complex(),
            "complex numbers have no order, got {} for {}",
            z.dtype,
            self.direction.stablehlo()
        );
        ensure_dtype!(
            !self.total_order || !z.dtype.is_complex(),
            "complex numbers have no total order, got {}",
            z.dtype
        );
        Ok(vec![z.with_dtype(DType::Bool)])
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let [x, _] = operands else {
            return Err(RuleError::value(format!("takes 2 operands, got {}", operands.len())));
        };
        let dtype = DType::all()
            .find(|dtype| dtype.stablehlo() == x.ty().element())
            .expect("values are written with a dtype's own name");
        let attributes = compare_attributes(self.direction, dtype, self.total_order);
        Ok(vec![ctx.op_as("compare", operands, &attributes, &results[0].stablehlo())])
    }
}

impl Elementwise for Compare {
    const NAME: &'static str = "compare";
    const TYPE: TypeRule<Compare> = TypeRule::Custom(Compare::abstract_eval);
    const DERIVATIVE: Derivative<Compare> = Derivative::Zero;
    const LOWERING: Lowering<Compare> = Lowering::Custom(Compare::lower);
    const COST: CostRule<Compare> = CostRule::Arithmetic;
    fn counter_op(&self) -> Option<CounterOp> {
        match self.direction {
            ComparisonDirection::Lt => Some(CounterOp::Less),
            ComparisonDirection::Le => Some(CounterOp::LessOrEqual),
            ComparisonDirection::Gt => Some(CounterOp::Greater),
            ComparisonDirection::Ge => Some(CounterOp::GreaterOrEqual),
            ComparisonDirection::Eq | ComparisonDirection::Ne => None,
        }
    }
    fn exemplars() -> Vec<Exemplar> {
        let pair = |direction, total_order, dtype, x: &[f64], y: &[f64]| {
            let operands = [x, y].map(|elements| Sample::listed(dtype, [elements.len()], elements));
            Exemplar::new(Compare { direction, total_order }, operands)
        };
        let (x, y) = ([1.0, 2.0, -0.0, f64::NAN, f64::NAN], [2.0, 2.0, 0.0, 1.0, f64::NAN]);
        let floats = |direction, total_order| {
            // Comparisons are discontinuous where operands are equal.
            pair(direction, total_order, DType::F32, &x, &y).without_derivative()
        };
        let mut all: Vec<Exemplar> = [
            ComparisonDirection::Eq,
            ComparisonDirection::Ne,
            ComparisonDirection::Ge,
            ComparisonDirection::Gt,
            ComparisonDirection::Le,
            ComparisonDirection::Lt,
        ]
        .map(|direction| floats(direction, false))
        .into();
        all.push(floats(ComparisonDirection::Lt, true));
        all.push(pair(ComparisonDirection::Lt, false, DType::I8, &[-1.0, 1.0], &[1.0, 1.0]));
        all.push(pair(ComparisonDirection::Gt, false, DType::U32, &[4e9, 0.0], &[1.0, 0.0]));
        all.push(pair(ComparisonDirection::Le, false, DType::Bool, &[0.0, 1.0], &[1.0, 0.0]));
        all.push(pair(ComparisonDirection::Ne, false, DType::C64, &[1.0, 2.0], &[1.0, 3.0]));
        all.push(pair(ComparisonDirection::Lt, false, DType::BF16, &[], &[]));
        all
    }
}

#[track_caller]
fn compare<'a>(
    name: &str,
    direction: ComparisonDirection,
    operands: [super::promote::Like<'a>; 2],
) -> Array {
    let [x, y] = promote_arrays(name, operands);
    bind1(Compare { direction, total_order: false }, [&x, &y])
}

/// Tests `x == y` for each element, with promotion and broadcasting. NaN equals nothing. See
/// [`Compare`] for its rules.
#[doc(alias = "equal")]
#[track_caller]
pub fn eq(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    compare("eq", ComparisonDirection::Eq, [x.like(), y.like()])
}

/// Tests `x != y` for each element, with promotion and broadcasting. NaN differs from everything.
/// See [`Compare`] for its rules.
#[doc(alias = "not_equal")]
#[track_caller]
pub fn ne(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    compare("ne", ComparisonDirection::Ne, [x.like(), y.like()])
}

/// Tests `x >= y` for each element, with promotion and broadcasting. See [`Compare`] for its rules.
#[doc(alias = "greater_equal")]
#[track_caller]
pub fn ge(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    compare("ge", ComparisonDirection::Ge, [x.like(), y.like()])
}

/// Tests `x > y` for each element, with promotion and broadcasting. See [`Compare`] for its rules.
#[doc(alias = "greater")]
#[track_caller]
pub fn gt(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    compare("gt", ComparisonDirection::Gt, [x.like(), y.like()])
}

/// Tests `x <= y` for each element, with promotion and broadcasting. See [`Compare`] for its rules.
#[doc(alias = "less_equal")]
#[track_caller]
pub fn le(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    compare("le", ComparisonDirection::Le, [x.like(), y.like()])
}

/// Tests `x < y` for each element, with promotion and broadcasting. See [`Compare`] for its rules.
#[doc(alias = "less")]
#[track_caller]
pub fn lt(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    compare("lt", ComparisonDirection::Lt, [x.like(), y.like()])
}

/// Compares floats by IEEE 754's `totalOrder` (-NaN < -∞ < -0 < 0 < ∞ < NaN), with promotion and
/// broadcasting. Sorts use this order. See [`Compare`] for its rules.
#[doc(alias = "lt_to")]
#[track_caller]
pub fn compare_total(
    direction: ComparisonDirection,
    x: impl ArrayLike,
    y: impl ArrayLike,
) -> Array {
    let [x, y] = promote_arrays("compare_total", [x.like(), y.like()]);
    bind1(Compare { direction, total_order: true }, [&x, &y])
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{error_of, module_of};
    use super::*;
    use expect_test::expect;

    const LT: Compare = Compare { direction: ComparisonDirection::Lt, total_order: false };

    #[test]
    fn the_dtype_decides_how_operands_compare() {
        for (dtype, kind) in
            [(DType::F32, "FLOAT"), (DType::I8, "SIGNED"), (DType::Bool, "UNSIGNED")]
        {
            let text = module_of(LT, [dtype; 2].map(|dtype| Aval::new(dtype, [2])));
            assert!(text.contains(&format!("comparison_type {kind}>")), "{text}");
        }
        let total = Compare { total_order: true, ..LT };
        expect![[r#"
            func.func public @main(%0: tensor<f32>, %1: tensor<f32>) -> (tensor<i1>) {
            %2 = "stablehlo.compare"(%0, %1) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            "func.return"(%2) : (tensor<i1>) -> ()
            }
        "#]].assert_eq(&module_of(total, [DType::F32; 2].map(|f32| Aval::new(f32, []))));
    }

    #[test]
    fn a_comparison_is_strong_even_between_weak_numbers() {
        let weak = Aval { weak: true, ..Aval::new(DType::F32, []) };
        assert!(!LT.abstract_eval(&[weak.clone(), weak]).expect("alike")[0].weak);
    }

    #[test]
    fn rejects_operands_that_do_not_fit() {
        expect![[r#"
            error[dtype]: compare: complex numbers have no order, got c64 for LT
              lhs: c64[2]
              rhs: c64[2]"#]]
        .assert_eq(&error_of(LT, [DType::C64; 2].map(|c64| Aval::new(c64, [2]))));
        expect![[r#"
            error[shape]: compare: operands must have one shape, got [2] and [3]
              lhs: f32[2]
              rhs: f32[3]"#]]
        .assert_eq(&error_of(LT, [[2], [3]].map(|shape| Aval::new(DType::F32, shape))));
    }
}
