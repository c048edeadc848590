//! Constant arrays.

use super::collective::vary;
use super::device_put::in_memory;
use super::reshard::sharded_like;
use super::rules::zero_jvp;
use super::shape::broadcast_to;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, IntoAval, JvpResult, Loc,
    LowerCtx, MemoryKind, Primitive, Registered, RuleError, RuleResult, Scalar, Shape, Tangent,
    backend, bind1, trace,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// An array filled with one number.
///
/// | | |
/// |-|-|
/// | operands   | none |
/// | result     | the given dtype, weakness and shape; the number is rounded or wrapped to the dtype |
/// | lowering   | [`stablehlo.constant`](https://openxla.org/stablehlo/spec#constant) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fill {
    /// The fill value.
    pub value: Scalar,
    /// The dtype of the result.
    pub dtype: DType,
    /// The result is weakly typed.
    pub weak: bool,
    /// The shape of the result.
    pub shape: Vec<usize>,
}

impl Primitive for Fill {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        super::rules::arity::<0>(operands)?;
        Ok(vec![Aval { weak: self.weak, ..Aval::new(self.dtype, &self.shape[..]) }])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(&self, _: &[Array], _: &[Option<usize>], _: &BatchAxis) -> RuleResult<Batched> {
        Ok(Batched { outputs: vec![bind1(self.clone(), [])], axes: vec![None] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        _: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let [result] = results else {
            return Err(RuleError::value("a constant has one result"));
        };
        let text = self.value.stablehlo(self.dtype);
        Ok(vec![ctx.constant(&text, &result.stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn constant_bytes(&self) -> Option<Vec<u8>> {
        let size = Shape::new(&self.shape).size();
        let one = self.value.host_bytes(self.dtype)?;
        (size.checked_mul(one.len())? <= FROM_HOST).then(|| one.repeat(size))
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Fill {
    fn fills_with_zero(&self) -> bool {
        matches!(self.value, Scalar::Int(0) | Scalar::Bool(false) | Scalar::Float(0.0))
    }
}

/// Size limit in bytes of constants that are copied from the host outside of programs. The device
/// fills larger ones.
const FROM_HOST: usize = 64 << 10;

/// Throws `Op` (value) for an integer beyond the range of a dtype. Numbers of 8 and 16 bits wrap
/// within 32 bits, as in JAX.
#[track_caller]
fn expect_in_range(value: Scalar, dtype: DType) {
    let Scalar::Int(number) = value else { return };
    if !dtype.is_integer() {
        return;
    }
    let bits = dtype.bits().max(32) as u32;
    let range = -(1i128 << (bits - 1))..1i128 << bits;
    if !range.contains(&number) {
        let error = RuleError::value(format!("{number} does not fit in {dtype}")).help(format!(
            "numbers have the dtype of the arrays beside them, else 32 bits; write an array with \
             a dtype: `full(([], DType::I64), {number}i64)`"
        ));
        trace::throw_operands("number", error, &[]);
    }
}

/// Returns an array of type `aval` filled with `value`.
///
/// Throws `Op` (value) for an integer beyond the range of the dtype.
#[track_caller]
pub fn fill_of(value: Scalar, aval: &Aval) -> Array {
    expect_in_range(value, aval.dtype);
    if aval.sharding.is_some() {
        return sharded_like(&fill_of(value, &aval.unsharded()), aval);
    }
    if aval.memory.is_host() {
        let scalar = Aval { shape: Shape::scalar(), memory: MemoryKind::Device, ..aval.clone() };
        return broadcast_to(&in_memory(&fill_of(value, &scalar), aval.memory), &aval.shape);
    }
    // Outside of traces, small arrays are copied from the host, and compile nothing.
    let is_large = || aval.size().saturating_mul(aval.dtype.host_bytes()) > FROM_HOST;
    if trace::are_operands()
        && (trace::is_tracing() || is_large())
        && let Some(number) = operand(value, aval)
    {
        return vary(&broadcast_to(&number, &aval.shape), &aval.varying);
    }
    let shape = aval.shape.to_vec();
    vary(&bind1(Fill { value, dtype: aval.dtype, weak: aval.weak, shape }, []), &aval.varying)
}

/// Returns an index as a scalar: a concrete one where indices are operands, else a constant.
#[track_caller]
pub(crate) fn index_of(index: Scalar, dtype: DType) -> Array {
    let aval = Aval::new(dtype, Shape::scalar());
    match index.host_bytes(dtype).filter(|_| trace::are_operands()) {
        Some(bytes) => shared_number(&bytes, &aval),
        None => fill_of(index, &aval),
    }
}

/// Returns the number as a concrete scalar, which the program that is being traced captures.
/// Returns `None` for 0 and 1, which the compiler simplifies, and for dtypes that the host cannot
/// write.
fn operand(value: Scalar, aval: &Aval) -> Option<Array> {
    let bytes = value.host_bytes(aval.dtype)?;
    if [0, 1]
        .iter()
        .any(|&simple| Scalar::Int(simple).host_bytes(aval.dtype).as_ref() == Some(&bytes))
    {
        return None;
    }
    let scalar = Aval { weak: aval.weak, ..Aval::new(aval.dtype, Shape::scalar()) };
    Some(shared_number(&bytes, &scalar))
}

/// Returns a number on the device, which later calls may share.
fn shared_number(bytes: &[u8], aval: &Aval) -> Array {
    backend().number(bytes, aval).unwrap_or_else(|error| trace::throw(error.at(Loc::caller())))
}

/// Returns zeros of type `aval`, including its weakness.
#[track_caller]
pub fn zeros_of(aval: &Aval) -> Array {
    fill_of(Scalar::Int(0), aval)
}

/// Returns an array of shape `shape` filled with `value`, of the value's dtype: `i32` or `f32`.
///
/// Throws `Op` (value) for an integer beyond the range of the dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|_: ()| full([2, 3], 0.5f32), ())?;
/// assert_eq!(y.aval().to_string(), "f32[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn full(shape: impl IntoAval, value: impl Into<Scalar>) -> Array {
    let value = value.into();
    fill_of(value, &shape.into_aval(value.default_dtype()))
}

/// Returns zeros of this shape, `f32` unless a dtype is given, as in `zeros(([2], DType::I32))`.
/// See [`IntoAval`].
#[track_caller]
pub fn zeros(shape: impl IntoAval) -> Array {
    fill_of(Scalar::Int(0), &shape.into_aval(DType::F32))
}

/// Returns ones of this shape, `f32` unless a dtype is given. See [`IntoAval`].
#[track_caller]
pub fn ones(shape: impl IntoAval) -> Array {
    fill_of(Scalar::Int(1), &shape.into_aval(DType::F32))
}

/// Returns zeros of the shape and dtype of `x`.
#[track_caller]
pub fn zeros_like(x: &Array) -> Array {
    zeros_of(x.aval())
}

/// Returns ones of the shape and dtype of `x`.
#[track_caller]
pub fn ones_like(x: &Array) -> Array {
    fill_of(Scalar::Int(1), x.aval())
}

/// Returns an array of the shape and dtype of `x` filled with `value`.
#[track_caller]
pub fn full_like(x: &Array, value: impl Into<Scalar>) -> Array {
    fill_of(value.into(), x.aval())
}

/// Returns a weakly typed scalar, as `2.0` in `&x * 2.0` is.
#[track_caller]
pub fn scalar(value: impl Into<Scalar>) -> Array {
    let value = value.into();
    let weak = !matches!(value, Scalar::Bool(_));
    fill_of(value, &Aval { weak, ..Aval::new(value.default_dtype(), Shape::scalar()) })
}

impl Registered for Fill {
    const NAME: &'static str = "fill";
    fn exemplars() -> Vec<Exemplar> {
        let fill = |value, dtype, shape: &[usize]| {
            Exemplar::new(Fill { value, dtype, weak: false, shape: shape.to_vec() }, [])
        };
        let mut all: Vec<Exemplar> =
            DType::all().map(|dtype| fill(Scalar::Int(1), dtype, &[2])).collect();
        all.push(fill(Scalar::Float(f64::NEG_INFINITY), DType::F32, &[]));
        all.push(fill(Scalar::Float(f64::NAN), DType::BF16, &[0, 3]));
        all.push(fill(Scalar::Complex(0.5, -0.0), DType::C64, &[1]));
        all
    }
}
