//! Broadcast, reshape and transpose.

use super::reduce::reduce_sum;
use super::rules::{arity, batched, linear_jvp, move_axis, one_cotangent, resolve_axis};
use crate::core::sharding_rule::reshaped;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, Loc, LowerCtx,
    Operand, Primitive, Registered, RuleError, RuleResult, Sample, Shape, ShardingRule, Spmd,
    Tangent, bind1, trace,
};
use crate::ensure_shape;
use crate::stablehlo::{Value, i64_array};
use serde::{Deserialize, Serialize};

/// Maps each operand axis to an axis of the result and repeats along the others.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`, shape `shape`; operand axis `i` is result axis `broadcast_dimensions[i]`, of equal size or 1 |
/// | lowering   | [`stablehlo.broadcast_in_dim`](https://openxla.org/stablehlo/spec#broadcast_in_dim) |
/// | derivative | linear; transposes to a sum |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BroadcastInDim {
    /// The shape of the result.
    pub shape: Vec<usize>,
    /// For each operand axis, the result axis; strictly increasing.
    pub broadcast_dimensions: Vec<usize>,
}

impl Primitive for BroadcastInDim {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let axes = &self.broadcast_dimensions;
        ensure_shape!(
            axes.len() == x.rank(),
            "broadcast_dimensions {axes:?} name {} axes, the operand has {}",
            axes.len(),
            x.rank()
        );
        ensure_shape!(
            axes.windows(2).all(|pair| pair[0] < pair[1])
                && axes.iter().all(|&axis| axis < self.shape.len()),
            "broadcast_dimensions {axes:?} must increase and lie below {}",
            self.shape.len()
        );
        for (axis, (&size, &to)) in x.shape.iter().zip(axes).enumerate() {
            ensure_shape!(
                size == 1 || size == self.shape[to],
                "operand axis {axis} of size {size} does not broadcast to result axis {to} of size \
                {}",
                self.shape[to]
            );
        }
        Ok(vec![x.with_shape(self.shape.as_slice())])
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
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        let mut shape = vec![axis.size];
        shape.extend(&self.shape);
        let mut dimensions = vec![0];
        dimensions.extend(self.broadcast_dimensions.iter().map(|axis| axis + 1));
        Ok(batched(broadcast_in_dim(&x, shape, &dimensions), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dimensions =
            format!("broadcast_dimensions = {}", i64_array(&self.broadcast_dimensions));
        let ty = results[0].stablehlo();
        Ok(vec![ctx.op_as("broadcast_in_dim", operands, &dimensions, &ty)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let x = operands[0].aval();
        let mapped = |axis: &usize| {
            let source = self.broadcast_dimensions.iter().position(|to| to == axis);
            source.is_some_and(|source| x.shape[source] == self.shape[*axis])
        };
        let summed: Vec<isize> =
            (0..self.shape.len()).filter(|axis| !mapped(axis)).map(|axis| axis as isize).collect();
        let ct = reduce_sum(one_cotangent(cts)?, &summed);
        Ok(vec![Some(reshape_to(&ct, &x.shape).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for BroadcastInDim {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        let source = |axis: usize| {
            let from = self.broadcast_dimensions.iter().position(|&to| to == axis)?;
            (operands[0].shape[from] == self.shape[axis]).then_some(from)
        };
        Some(ShardingRule::moved((0..self.shape.len()).map(source)))
    }
}

/// Broadcasts `x` to `shape`, with its axes at `broadcast_dimensions` of the result. See
/// [`BroadcastInDim`] for its rules.
/// [`BroadcastInDim`] for its rules.
#[track_caller]
pub fn broadcast_in_dim(
    x: &Array,
    shape: impl Into<Shape>,
    broadcast_dimensions: &[usize],
) -> Array {
    let shape = shape.into().to_vec();
    let broadcast_dimensions = broadcast_dimensions.to_vec();
    bind1(BroadcastInDim { shape, broadcast_dimensions }, [x])
}

/// Broadcasts `x` to `shape` by NumPy's rules: axes are aligned at the last, sizes are equal or 1.
#[track_caller]
pub fn broadcast_to(x: &Array, shape: impl Into<Shape>) -> Array {
    Loc::caller().scope(|| {
        let shape = shape.into();
        if *x.shape() == shape {
            return x.clone();
        }
        if x.rank() > shape.rank() || x.shape().broadcast(&shape).as_ref() != Some(&shape) {
            let message = format!("{} does not broadcast to {shape}", x.shape());
            trace::throw_operands("broadcast_to", RuleError::shape(message), &[x]);
        }
        let dimensions: Vec<usize> = (shape.rank() - x.rank()..shape.rank()).collect();
        broadcast_in_dim(x, shape, &dimensions)
    })
}

impl Registered for BroadcastInDim {
    const NAME: &'static str = "broadcast_in_dim";
    fn exemplars() -> Vec<Exemplar> {
        let to = |shape: &[usize], axes: &[usize], sample| {
            let broadcast_dimensions = axes.to_vec();
            Exemplar::new(BroadcastInDim { shape: shape.to_vec(), broadcast_dimensions }, [sample])
        };
        vec![
            to(&[2, 3], &[1], Sample::uniform(DType::F32, [3], -1.0, 1.0)),
            to(&[4, 2, 3], &[0, 2], Sample::uniform(DType::F32, [1, 3], -1.0, 1.0)),
            to(&[0], &[], Sample::uniform(DType::I32, [], 0.0, 9.0)),
            to(&[1, 2], &[0, 1], Sample::uniform(DType::C64, [1, 1], 0.0, 1.0)),
        ]
    }
}

/// Changes the shape; elements keep their row-major order.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`, shape `shape`, of equal size |
/// | lowering   | [`stablehlo.reshape`](https://openxla.org/stablehlo/spec#reshape) |
/// | derivative | linear |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reshape {
    /// The shape of the result.
    pub shape: Vec<usize>,
}

impl Primitive for Reshape {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let result = x.with_shape(self.shape.as_slice());
        ensure_shape!(
            result.size() == x.size(),
            "cannot reshape {} with {} elements to {} with {}",
            x.shape,
            x.size(),
            result.shape,
            result.size()
        );
        Ok(vec![result])
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
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        let mut shape = vec![axis.size];
        shape.extend(&self.shape);
        Ok(batched(bind1(Reshape { shape }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op_as("reshape", operands, "", &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(vec![Some(reshape_to(one_cotangent(cts)?, &operands[0].aval().shape).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for Reshape {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reshaped(&operands[0].shape, &self.shape))
    }
}

/// Reshapes `x` to this shape; returns `x` itself if it has it.
#[track_caller]
pub(crate) fn reshape_to(x: &Array, shape: &Shape) -> Array {
    if x.shape() == shape { x.clone() } else { bind1(Reshape { shape: shape.to_vec() }, [x]) }
}

/// Reshapes `x` to `shape`, in row-major order. See [`Reshape`] for its rules; the method
/// `reshape_infer` infers one size.
#[track_caller]
pub fn reshape(x: &Array, shape: impl Into<Shape>) -> Array {
    reshape_to(x, &shape.into())
}

impl Registered for Reshape {
    const NAME: &'static str = "reshape";
    fn exemplars() -> Vec<Exemplar> {
        let to =
            |shape: &[usize], sample| Exemplar::new(Reshape { shape: shape.to_vec() }, [sample]);
        vec![
            to(&[3, 2], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            to(&[], Sample::uniform(DType::F32, [1, 1], -1.0, 1.0)),
            to(&[0, 7], Sample::uniform(DType::I32, [2, 0], 0.0, 1.0)),
            to(&[1, 4], Sample::listed(DType::Bool, [4], &[0.0, 1.0])),
        ]
    }
}

/// Permutes axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`; result axis `i` is operand axis `permutation[i]` |
/// | lowering   | [`stablehlo.transpose`](https://openxla.org/stablehlo/spec#transpose) |
/// | derivative | linear; transposes to the inverse permutation |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transpose {
    /// For each result axis, the operand axis.
    pub permutation: Vec<usize>,
}

impl Primitive for Transpose {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let mut sorted = self.permutation.clone();
        sorted.sort_unstable();
        ensure_shape!(
            sorted.iter().copied().eq(0..x.rank()),
            "{:?} is not a permutation of the {} axes of {x}",
            self.permutation,
            x.rank()
        );
        let shape: Shape = self.permutation.iter().map(|&axis| x.shape[axis]).collect();
        Ok(vec![x.with_shape(shape)])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        // The batch axis moves to the front in the same permutation.
        let from = axes[0].unwrap_or(0);
        let mut permutation = vec![from];
        permutation.extend(self.permutation.iter().map(|&axis| axis + usize::from(axis >= from)));
        Ok(batched(transpose(&operands[0], &permutation), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let permutation = format!("permutation = {}", i64_array(&self.permutation));
        Ok(vec![ctx.op_as("transpose", operands, &permutation, &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let mut inverse = vec![0; self.permutation.len()];
        for (to, &from) in self.permutation.iter().enumerate() {
            inverse[from] = to;
        }
        Ok(vec![Some(transpose(one_cotangent(cts)?, &inverse).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Transpose {
    fn permutation(&self) -> Option<&[usize]> {
        Some(&self.permutation)
    }
}

impl Spmd for Transpose {
    fn sharding_rule(&self, _: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(ShardingRule::moved(self.permutation.iter().map(|&axis| Some(axis))))
    }
}

/// Permutes the axes of `x`: result axis `i` is operand axis `permutation[i]`. See [`Transpose`]
/// for its rules.
#[doc(alias = "permute_dims")]
#[track_caller]
pub fn transpose(x: &Array, permutation: &[usize]) -> Array {
    if permutation.len() == x.rank() && permutation.iter().copied().eq(0..x.rank()) {
        x.clone()
    } else {
        bind1(Transpose { permutation: permutation.to_vec() }, [x])
    }
}

/// One axis or a list of axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisList(Vec<isize>);

impl From<isize> for AxisList {
    fn from(axis: isize) -> AxisList {
        AxisList(vec![axis])
    }
}

impl<const N: usize> From<[isize; N]> for AxisList {
    fn from(axes: [isize; N]) -> AxisList {
        AxisList(axes.to_vec())
    }
}

impl From<&[isize]> for AxisList {
    fn from(axes: &[isize]) -> AxisList {
        AxisList(axes.to_vec())
    }
}

impl From<Vec<isize>> for AxisList {
    fn from(axes: Vec<isize>) -> AxisList {
        AxisList(axes)
    }
}

/// Moves axis `from` of `x` to position `to`, or each axis of a list to the position in another.
/// Other axes keep their order. Negative axes count from the back.
///
/// Throws `Op` (shape) for axes out of range or named twice, and for lists of different lengths.
///
/// ```
/// use oxidax::prelude::*;
/// let x = zeros([2, 3, 4]);
/// assert_eq!(moveaxis(&x, 0, -1).shape().dims(), [3, 4, 2]);
/// assert_eq!(moveaxis(&x, [0, 1], [-1, -2]).shape().dims(), [4, 3, 2]);
/// ```
#[track_caller]
pub fn moveaxis(x: &Array, from: impl Into<AxisList>, to: impl Into<AxisList>) -> Array {
    let (AxisList(from), AxisList(to)) = (from.into(), to.into());
    match moved_order(&from, &to, x.rank()) {
        Ok(order) => transpose(x, &order),
        Err(error) => trace::throw_operands("moveaxis", error, &[x]),
    }
}

/// Returns the permutation that moves the axes `from` to the positions `to`.
fn moved_order(from: &[isize], to: &[isize], rank: usize) -> RuleResult<Vec<usize>> {
    let resolved = |axes: &[isize]| -> RuleResult<Vec<usize>> {
        let axes: Vec<usize> =
            axes.iter().map(|&axis| resolve_axis(axis, rank)).collect::<RuleResult<_>>()?;
        match (1..axes.len()).find(|&at| axes[..at].contains(&axes[at])) {
            Some(at) => Err(RuleError::shape(format!("axis {} is named twice", axes[at]))),
            None => Ok(axes),
        }
    };
    let (from_axes, to_axes) = (resolved(from)?, resolved(to)?);
    if from.len() != to.len() {
        let (n, m) = (from.len(), to.len());
        return Err(RuleError::shape(format!("{n} axes to move for {m} positions")));
    }
    let mut rest = (0..rank).filter(|axis| !from_axes.contains(axis));
    let order = (0..rank).map(|position| match to_axes.iter().position(|&to| to == position) {
        Some(moved) => from_axes[moved],
        None => rest.next().expect("as many positions as axes are left"),
    });
    Ok(order.collect())
}

impl Registered for Transpose {
    const NAME: &'static str = "transpose";
    fn exemplars() -> Vec<Exemplar> {
        let by = |permutation: &[usize], sample| {
            Exemplar::new(Transpose { permutation: permutation.to_vec() }, [sample])
        };
        vec![
            by(&[1, 0], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            by(&[2, 0, 1], Sample::uniform(DType::F32, [2, 3, 4], -1.0, 1.0)),
            by(&[], Sample::uniform(DType::U32, [], 0.0, 9.0)),
            by(&[1, 0], Sample::uniform(DType::C64, [0, 3], 0.0, 1.0)),
            by(&[0, 2, 1], Sample::uniform(DType::F32, [1, 3, 1], -1.0, 1.0)),
        ]
    }
}
