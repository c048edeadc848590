//! Negation and the four operations.

use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::promote::{ArrayLike, promote_arrays, promote_inexact};
use crate::primitives::rules::{
    add_tangents, arity, batch_elementwise, linear_jvp, one_cotangent, same_numeric_type, same_type,
};
use crate::stablehlo::Value;
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

impl Primitive for Neg {
    fn name(&self) -> &'static str {
        "neg"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_numeric_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("negate", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(vec![Some(neg(one_cotangent(cts)?).into())])
    }
}

/// `-x`, element by element. See [`Neg`] for its rules.
#[doc(alias = "negative")]
#[track_caller]
pub fn neg(x: &Array) -> Array {
    bind1(Neg, [x])
}

pub(in crate::primitives) fn exemplars_neg() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Neg, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
        Exemplar::new(Neg, [Sample::listed(DType::I8, [3], &[-128.0, 0.0, 127.0])]),
        Exemplar::new(Neg, [Sample::uniform(DType::C64, [], -1.0, 1.0)]),
    ]
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

impl Primitive for Add {
    fn name(&self) -> &'static str {
        "add"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_type(arity::<2>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let z = bind1(Add, [&primals[0], &primals[1]]);
        Ok((vec![z], vec![add_tangents(&tangents[0], &tangents[1])]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("add", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = &cts[0];
        Ok(operands.iter().map(|operand| operand.is_linear().then(|| ct.clone())).collect())
    }
}

/// `x + y` with promotion and broadcasting. See [`Add`] for its rules.
#[track_caller]
pub fn add(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("add", [x.like(), y.like()]);
    bind1(Add, [&x, &y])
}

fn pair(dtype: DType, shape: &[usize], low: f64, high: f64) -> [Sample; 2] {
    [Sample::uniform(dtype, shape, low, high), Sample::uniform(dtype, shape, low, high)]
}

pub(in crate::primitives) fn exemplars_add() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Add, pair(DType::F32, &[2, 3], -3.0, 3.0)),
        Exemplar::new(Add, pair(DType::BF16, &[], -3.0, 3.0)),
        Exemplar::new(Add, pair(DType::U8, &[4], 0.0, 255.0)),
        Exemplar::new(Add, pair(DType::C64, &[2], -1.0, 1.0)),
    ]
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

impl Primitive for Sub {
    fn name(&self) -> &'static str {
        "sub"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_numeric_type(arity::<2>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let z = bind1(Sub, [&primals[0], &primals[1]]);
        let dz = match (&tangents[0], &tangents[1]) {
            (Tangent::Dense(dx), Tangent::Dense(dy)) => bind1(Sub, [dx, dy]).into(),
            (dx, Tangent::Zero(_)) => dx.clone(),
            (Tangent::Zero(_), Tangent::Dense(dy)) => neg(dy).into(),
        };
        Ok((vec![z], vec![dz]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("subtract", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        Ok(vec![
            operands[0].is_linear().then(|| ct.clone().into()),
            operands[1].is_linear().then(|| neg(ct).into()),
        ])
    }
}

/// `x - y` with promotion and broadcasting. See [`Sub`] for its rules.
#[doc(alias = "subtract")]
#[track_caller]
pub fn sub(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("sub", [x.like(), y.like()]);
    bind1(Sub, [&x, &y])
}

pub(in crate::primitives) fn exemplars_sub() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Sub, pair(DType::F32, &[2, 3], -3.0, 3.0)),
        Exemplar::new(Sub, pair(DType::I32, &[0, 3], -3.0, 3.0)),
        Exemplar::new(Sub, pair(DType::C128, &[2], -1.0, 1.0)),
    ]
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

impl Primitive for Mul {
    fn name(&self) -> &'static str {
        "mul"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_type(arity::<2>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (x, y) = (&primals[0], &primals[1]);
        let z = bind1(Mul, [x, y]);
        let left = tangents[0].map(z.aval(), |dx| mul(dx, y));
        let right = tangents[1].map(z.aval(), |dy| mul(x, dy));
        Ok((vec![z], vec![add_tangents(&left, &right)]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("multiply", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        Ok(match operands {
            [Operand::Linear(_), Operand::Known(y)] => vec![Some(mul(ct, y).into()), None],
            [Operand::Known(x), Operand::Linear(_)] => vec![None, Some(mul(x, ct).into())],
            _ => return Err(crate::core::RuleError::not_linear("mul")),
        })
    }
}

/// `x * y` with promotion and broadcasting. See [`Mul`] for its rules.
#[doc(alias = "multiply")]
#[track_caller]
pub fn mul(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_arrays("mul", [x.like(), y.like()]);
    bind1(Mul, [&x, &y])
}

pub(in crate::primitives) fn exemplars_mul() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Mul, pair(DType::F32, &[2, 3], -3.0, 3.0)),
        Exemplar::new(Mul, pair(DType::C64, &[2], -1.0, 1.0)),
        Exemplar::new(Mul, pair(DType::I16, &[3], -300.0, 300.0)),
    ]
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

impl Primitive for Div {
    fn name(&self) -> &'static str {
        "div"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_numeric_type(arity::<2>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (x, y) = (&primals[0], &primals[1]);
        let z = bind1(Div, [x, y]);
        let left = tangents[0].map(z.aval(), |dx| bind1(Div, [dx, y]));
        let right = tangents[1].map(z.aval(), |dy| mul(dy, neg(&bind1(Div, [&z, y]))));
        Ok((vec![z], vec![add_tangents(&left, &right)]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("divide", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        match operands {
            [Operand::Linear(_), Operand::Known(y)] => {
                Ok(vec![Some(bind1(Div, [one_cotangent(cts)?, y]).into()), None])
            }
            _ => Err(crate::core::RuleError::not_linear("div")),
        }
    }
}

/// `x / y` with promotion and broadcasting; integers become floats first. See [`Div`].
#[doc(alias = "divide")]
#[doc(alias = "true_divide")]
#[track_caller]
pub fn div(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("div", [x.like(), y.like()]);
    bind1(Div, [&x, &y])
}

pub(in crate::primitives) fn exemplars_div() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Div, pair(DType::F32, &[2, 3], 1.0, 3.0)),
        Exemplar::new(Div, pair(DType::C64, &[2], 1.0, 2.0)),
        Exemplar::new(Div, pair(DType::I32, &[4], 1.0, 9.0)),
    ]
}
