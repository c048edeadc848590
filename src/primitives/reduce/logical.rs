//! Logical and bitwise reductions.

use super::axes::{lower_reduce, reduced, reduction_rule, resolve_axes, shifted};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Scalar, ShardingRule, Spmd, Tangent, bind1,
};
use crate::ensure_dtype;
use crate::primitives::rules::{arity, batched, move_axis, zero_jvp};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

fn reduced_bits(operands: &[Aval], axes: &[usize]) -> RuleResult<Vec<Aval>> {
    let [x] = arity(operands)?;
    ensure_dtype!(
        x.dtype.is_bool() || x.dtype.is_integer(),
        "needs a bool or integer operand, got {}",
        x.dtype
    );
    Ok(vec![reduced(x, axes)?])
}

fn samples() -> Vec<(Vec<usize>, Sample)> {
    let bits = [0.0, 1.0, 1.0, 1.0, 0.0, 0.0];
    vec![
        (vec![1], Sample::listed(DType::Bool, [2, 3], &bits)),
        (vec![0, 1], Sample::listed(DType::Bool, [2, 3], &[1.0])),
        (vec![0], Sample::listed(DType::U8, [3, 2], &[255.0, 3.0, 6.0, 129.0, 7.0, 0.0])),
        (vec![0], Sample::listed(DType::I32, [0, 2], &[0.0])),
        (vec![], Sample::listed(DType::I8, [], &[-128.0])),
    ]
}

/// And along axes: logical for booleans, bitwise for integers.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int}[…]` |
/// | result     | dtype of `x`, without the axes `axes`; all bits set over an empty axis |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) with `and` |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceAnd {
    /// The axes to reduce, increasing.
    pub axes: Vec<usize>,
}

impl Primitive for ReduceAnd {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        reduced_bits(operands, &self.axes)
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ReduceAnd { axes: shifted(&self.axes) }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        // -1 wraps to all bits set. A boolean is true for every number but 0.
        let ones = Scalar::Int(-1).stablehlo(results[0].dtype);
        let x = &operands[0];
        Ok(vec![lower_reduce(ctx, x, &self.axes, &ones, |ctx, pair| ctx.op("and", pair))])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ReduceAnd {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &self.axes))
    }
}

/// Returns the and of the elements of `x` along `axes`: logical for booleans, bitwise for integers.
/// Negative axes count from the back. See [`ReduceAnd`] for its rules.
#[track_caller]
pub fn reduce_and(x: &Array, axes: &[isize]) -> Array {
    bind1(ReduceAnd { axes: resolve_axes("reduce_and", x, axes) }, [x])
}

impl Registered for ReduceAnd {
    const NAME: &'static str = "reduce_and";
    fn exemplars() -> Vec<Exemplar> {
        samples().into_iter().map(|(axes, x)| Exemplar::new(ReduceAnd { axes }, [x])).collect()
    }
}

/// Or along axes: logical for booleans, bitwise for integers.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int}[…]` |
/// | result     | dtype of `x`, without the axes `axes`; 0 over an empty axis |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) with `or` |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceOr {
    /// The axes to reduce, increasing.
    pub axes: Vec<usize>,
}

impl Primitive for ReduceOr {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        reduced_bits(operands, &self.axes)
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ReduceOr { axes: shifted(&self.axes) }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let zero = Scalar::Int(0).stablehlo(results[0].dtype);
        let x = &operands[0];
        Ok(vec![lower_reduce(ctx, x, &self.axes, &zero, |ctx, pair| ctx.op("or", pair))])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ReduceOr {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &self.axes))
    }
}

/// Returns the or of the elements of `x` along `axes`: logical for booleans, bitwise for integers.
/// Negative axes count from the back. See [`ReduceOr`] for its rules.
#[track_caller]
pub fn reduce_or(x: &Array, axes: &[isize]) -> Array {
    bind1(ReduceOr { axes: resolve_axes("reduce_or", x, axes) }, [x])
}

impl Registered for ReduceOr {
    const NAME: &'static str = "reduce_or";
    fn exemplars() -> Vec<Exemplar> {
        samples().into_iter().map(|(axes, x)| Exemplar::new(ReduceOr { axes }, [x])).collect()
    }
}

/// Exclusive or along axes: parity for booleans, bitwise for integers.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int}[…]` |
/// | result     | dtype of `x`, without the axes `axes`; 0 over an empty axis |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) with `xor` |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceXor {
    /// The axes to reduce, increasing.
    pub axes: Vec<usize>,
}

impl Primitive for ReduceXor {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        reduced_bits(operands, &self.axes)
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ReduceXor { axes: shifted(&self.axes) }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let zero = Scalar::Int(0).stablehlo(results[0].dtype);
        let x = &operands[0];
        Ok(vec![lower_reduce(ctx, x, &self.axes, &zero, |ctx, pair| ctx.op("xor", pair))])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ReduceXor {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &self.axes))
    }
}

/// Returns the exclusive or of the elements of `x` along `axes`: parity for booleans, bitwise for
/// integers. Negative axes count from the back. See [`ReduceXor`] for its rules.
#[track_caller]
pub fn reduce_xor(x: &Array, axes: &[isize]) -> Array {
    bind1(ReduceXor { axes: resolve_axes("reduce_xor", x, axes) }, [x])
}

impl Registered for ReduceXor {
    const NAME: &'static str = "reduce_xor";
    fn exemplars() -> Vec<Exemplar> {
        samples().into_iter().map(|(axes, x)| Exemplar::new(ReduceXor { axes }, [x])).collect()
    }
}
