//! Negation, addition, subtraction, multiplication and division.

use crate::core::{
    Array, CheckSet, CounterOp, DType, Exemplar, Operand, OperandCheck, RuleError, Sample, Tangent,
    bind1,
};
use crate::primitives::checks::nonzero;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TransposeRule, TypeRule,
};
use crate::primitives::promote::{ArrayLike, promote_arrays, promote_inexact};
use crate::primitives::rules::one_cotangent;
use serde::{Deserialize, Serialize};

/// Elementwise negation.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | same shape and dtype as `x`; unsigned integers wrap |
/// | lowering   | [`stablehlo.negate`](https://openxla.org/stablehlo/spec#negate) |
/// | derivative | `(-x)′ = -1` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Neg;

impl Elementwise for Neg {
    const NAME: &'static str = "neg";
    const TYPE: TypeRule<Neg> = TypeRule::unary(Dtypes::Numeric);
    const DERIVATIVE: Derivative<Neg> = Derivative::Linear;
    const LOWERING: Lowering<Neg> = Lowering::Op("negate");
    const COST: CostRule<Neg> = CostRule::Arithmetic;
    const TRANSPOSE: Option<TransposeRule<Neg>> =
        Some(|_, cts, _| Ok(vec![Some(neg(one_cotangent(cts)?).into())]));
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Neg, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Neg, [Sample::listed(DType::I8, [3], &[-128.0, 0.0, 127.0])]),
            Exemplar::new(Neg, [Sample::uniform(DType::C64, [], -1.0, 1.0)]),
        ]
    }
}

/// Negates each element of `x`. See [`Neg`] for its rules.
#[doc(alias = "negative")]
#[track_caller]
pub fn neg(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Neg, [x])
}

/// Elementwise sum.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {int, float, complex}[…]`, `bool` (logical or), of one shape and dtype |
/// | result     | the same shape and dtype; integers wrap |
/// | lowering   | [`stablehlo.add`](https://openxla.org/stablehlo/spec#add) |
/// | derivative | `dx + dy` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Add;

impl Elementwise for Add {
    const NAME: &'static str = "add";
    const TYPE: TypeRule<Add> = TypeRule::binary(Dtypes::Any);
    const DERIVATIVE: Derivative<Add> =
        Derivative::Binary(|_, _, _, _, dx| dx.clone(), |_, _, _, _, dy| dy.clone());
    const LOWERING: Lowering<Add> = Lowering::Op("add");
    const COST: CostRule<Add> = CostRule::Arithmetic;
    fn counter_op(&self) -> Option<CounterOp> {
        Some(CounterOp::Add)
    }
    const TRANSPOSE: Option<TransposeRule<Add>> = Some(|_, cts, operands| {
        Ok(operands.iter().map(|operand| operand.is_linear().then(|| cts[0].clone())).collect())
    });
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Add, pair(DType::F32, &[2, 3], -3.0, 3.0)),
            Exemplar::new(Add, pair(DType::BF16, &[], -3.0, 3.0)),
            Exemplar::new(Add, pair(DType::U8, &[4], 0.0, 255.0)),
            Exemplar::new(Add, pair(DType::C64, &[2], -1.0, 1.0)),
        ]
    }
}

/// Adds two arrays or numbers, with promotion and broadcasting. See [`Add`] for its rules.
#[track_caller]
pub fn add(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("add", [x.like(), y.like()]);
    bind1(Add, [&x, &y])
}

fn pair(dtype: DType, shape: &[usize], low: f64, high: f64) -> [Sample; 2] {
    [Sample::uniform(dtype, shape, low, high), Sample::uniform(dtype, shape, low, high)]
}

/// Elementwise difference.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {int, float, complex}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; integers wrap |
/// | lowering   | [`stablehlo.subtract`](https://openxla.org/stablehlo/spec#subtract) |
/// | derivative | `dx - dy` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sub;

impl Elementwise for Sub {
    const NAME: &'static str = "sub";
    const TYPE: TypeRule<Sub> = TypeRule::binary(Dtypes::Numeric);
    const DERIVATIVE: Derivative<Sub> = Derivative::Custom(|_, primals, tangents| {
        let z = bind1(Sub, [&primals[0], &primals[1]]);
        let dz = match (&tangents[0], &tangents[1]) {
            (Tangent::Dense(dx), Tangent::Dense(dy)) => bind1(Sub, [dx, dy]).into(),
            (dx, Tangent::Zero(_)) => dx.clone(),
            (Tangent::Zero(_), Tangent::Dense(dy)) => neg(dy).into(),
        };
        Ok((vec![z], vec![dz]))
    });
    const LOWERING: Lowering<Sub> = Lowering::Op("subtract");
    const COST: CostRule<Sub> = CostRule::Arithmetic;
    const TRANSPOSE: Option<TransposeRule<Sub>> = Some(|_, cts, operands| {
        let ct = one_cotangent(cts)?;
        Ok(vec![
            operands[0].is_linear().then(|| ct.clone().into()),
            operands[1].is_linear().then(|| neg(ct).into()),
        ])
    });
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Sub, pair(DType::F32, &[2, 3], -3.0, 3.0)),
            Exemplar::new(Sub, pair(DType::I32, &[0, 3], -3.0, 3.0)),
            Exemplar::new(Sub, pair(DType::C128, &[2], -1.0, 1.0)),
        ]
    }
}

/// Subtracts `y` from `x`, with promotion and broadcasting. See [`Sub`] for its rules.
#[doc(alias = "subtract")]
#[track_caller]
pub fn sub(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("sub", [x.like(), y.like()]);
    bind1(Sub, [&x, &y])
}

/// Elementwise product.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {int, float, complex}[…]`, `bool` (logical and), of one shape and dtype |
/// | result     | the same shape and dtype; integers wrap |
/// | lowering   | [`stablehlo.multiply`](https://openxla.org/stablehlo/spec#multiply) |
/// | derivative | `y·dx + x·dy` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mul;

impl Elementwise for Mul {
    const NAME: &'static str = "mul";
    const TYPE: TypeRule<Mul> = TypeRule::binary(Dtypes::Any);
    const DERIVATIVE: Derivative<Mul> =
        Derivative::Binary(|_, _, y, _, dx| mul(dx, y), |_, x, _, _, dy| mul(x, dy));
    const LOWERING: Lowering<Mul> = Lowering::Op("multiply");
    const COST: CostRule<Mul> = CostRule::Arithmetic;
    const TRANSPOSE: Option<TransposeRule<Mul>> = Some(|_, cts, operands| {
        let ct = one_cotangent(cts)?;
        match operands {
            [Operand::Linear(_), Operand::Known(y)] => Ok(vec![Some(mul(ct, y).into()), None]),
            [Operand::Known(x), Operand::Linear(_)] => Ok(vec![None, Some(mul(x, ct).into())]),
            _ => Err(RuleError::not_linear("mul")),
        }
    });
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Mul, pair(DType::F32, &[2, 3], -3.0, 3.0)),
            Exemplar::new(Mul, pair(DType::C64, &[2], -1.0, 1.0)),
            Exemplar::new(Mul, pair(DType::I16, &[3], -300.0, 300.0)),
        ]
    }
}

/// Multiplies two arrays or numbers, with promotion and broadcasting. See [`Mul`] for its rules.
#[doc(alias = "multiply")]
#[track_caller]
pub fn mul(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("mul", [x.like(), y.like()]);
    bind1(Mul, [&x, &y])
}

/// Elementwise quotient.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: {int, float, complex}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; integers round towards zero, division by zero gives -1 (all bits set) |
/// | lowering   | [`stablehlo.divide`](https://openxla.org/stablehlo/spec#divide) |
/// | derivative | `(dx - (x/y)·dy) / y` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Div;

impl Elementwise for Div {
    const NAME: &'static str = "div";
    const TYPE: TypeRule<Div> = TypeRule::binary(Dtypes::Numeric);
    const DERIVATIVE: Derivative<Div> = Derivative::Binary(
        |_, _, y, _, dx| bind1(Div, [dx, y]),
        |_, _, y, z, dy| mul(dy, neg(bind1(Div, [z, y]))),
    );
    const LOWERING: Lowering<Div> = Lowering::Op("divide");
    const COST: CostRule<Div> = CostRule::Arithmetic;
    const TRANSPOSE: Option<TransposeRule<Div>> = Some(|_, cts, operands| match operands {
        [Operand::Linear(_), Operand::Known(y)] => {
            Ok(vec![Some(bind1(Div, [one_cotangent(cts)?, y]).into()), None])
        }
        _ => Err(RuleError::not_linear("div")),
    });
    fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        nonzero(enabled, operands[1])
    }
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Div, pair(DType::F32, &[2, 3], 1.0, 3.0)),
            Exemplar::new(Div, pair(DType::C64, &[2], 1.0, 2.0)),
            Exemplar::new(Div, pair(DType::I32, &[4], 1.0, 9.0)),
        ]
    }
}

/// Divides `x` by `y`, with promotion and broadcasting. Integers become floats first. See [`Div`]
/// for its rules.
#[doc(alias = "divide")]
#[doc(alias = "true_divide")]
#[track_caller]
pub fn div(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("div", [x.like(), y.like()]);
    bind1(Div, [&x, &y])
}

/// Divides `x` by `y` and keeps the dtype, as `jax.lax.div`: quotients of integers are rounded
/// towards zero, those of floats and complex numbers equal [`div`]. With promotion and
/// broadcasting.
///
/// Integers divided by zero give -1, or the largest value of an unsigned dtype, and the smallest
/// value of a signed dtype divided by -1 stays as it is. `floor_divide` rounds down instead. See
/// [`Div`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let x = array![7, -7, 9];
/// assert_eq!(lax_div(&x, 2).to_vec::<i32>()?, [3, -3, 4]);
/// assert_eq!(lax_div(1.0, &array![4.0]).to_vec::<f32>()?, [0.25]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "lax.div")]
#[track_caller]
pub fn lax_div(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("div", [x.like(), y.like()]);
    bind1(Div, [&x, &y])
}
