//! Slices at fixed indices.

use super::with_size;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleError, RuleResult, Sample, Shape, Tangent, bind1, trace,
};
use crate::primitives::constant::zeros_of;
use crate::primitives::rules::{arity, batched, linear_jvp, one_cotangent, resolve_axis};
use crate::primitives::structural::{Pad, PaddingDim};
use crate::stablehlo::{Value, i64_array};
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};

/// Slice with fixed start, limit and stride along each axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | dtype of `x`; along each axis the elements `start, start + stride, …` below `limit` |
/// | lowering   | [`stablehlo.slice`](https://openxla.org/stablehlo/spec#slice) |
/// | derivative | linear; transposes to a pad with zeros |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// The first index along each axis.
    pub start_indices: Vec<usize>,
    /// The first index past the slice along each axis.
    pub limit_indices: Vec<usize>,
    /// The distance between elements along each axis, at least 1.
    pub strides: Vec<usize>,
}

impl Primitive for Slice {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let lengths = [&self.start_indices, &self.limit_indices, &self.strides].map(Vec::len);
        ensure_shape!(
            lengths == [x.rank(); 3],
            "{}, {} and {} starts, limits and strides for the {} axes of {x}",
            lengths[0],
            lengths[1],
            lengths[2],
            x.rank()
        );
        let mut shape = Vec::with_capacity(x.rank());
        for (axis, &size) in x.shape.iter().enumerate() {
            let (start, limit) = (self.start_indices[axis], self.limit_indices[axis]);
            let stride = self.strides[axis];
            ensure!(stride >= 1, "the stride along axis {axis} must be at least 1, got 0");
            ensure_shape!(
                start <= limit && limit <= size,
                "{start}..{limit} is not a range within axis {axis} of size {size}"
            );
            shape.push((limit - start).div_ceil(stride));
        }
        Ok(vec![x.with_shape(shape)])
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
        let batch_axis = axes[0].unwrap_or(0);
        let mut whole = self.clone();
        whole.start_indices.insert(batch_axis, 0);
        whole.limit_indices.insert(batch_axis, axis.size);
        whole.strides.insert(batch_axis, 1);
        Ok(batched(bind1(whole, [&operands[0]]), batch_axis))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        // A stride beyond the range takes one element. Compilers add strides to limits.
        let lengths = self.start_indices.iter().zip(&self.limit_indices);
        let lengths = lengths.map(|(start, limit)| (limit - start).max(1));
        let strides = self.strides.iter().zip(lengths).map(|(&stride, length)| stride.min(length));
        let attributes = format!(
            "start_indices = {}, limit_indices = {}, strides = {}",
            i64_array(&self.start_indices),
            i64_array(&self.limit_indices),
            i64_array(strides)
        );
        Ok(vec![ctx.op_as("slice", operands, &attributes, &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::part(operands, &results[0])
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let padding_config = operands[0].aval().shape.iter().enumerate().map(|(axis, &size)| {
            let low = self.start_indices[axis];
            let interior = self.strides[axis] - 1;
            let n = ct.shape()[axis];
            // Without neighbours there is nothing between them.
            let interior = if n < 2 { 0 } else { interior };
            let covered = low + n + n.saturating_sub(1) * interior;
            PaddingDim { low: low as isize, high: (size - covered) as isize, interior }
        });
        let zero = zeros_of(&ct.aval().with_shape(Shape::scalar()));
        let pad = Pad { padding_config: padding_config.collect() };
        Ok(vec![Some(bind1(pad, [ct, &zero]).into())])
    }
}

/// Returns the elements `start, start + stride, …` below `limit` along each axis of `x`. See
/// [`Slice`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let part = |x: Array| slice(&x, &[1, 0], &[3, 5], &[1, 2]);
/// let y = eval_shape(part, Aval::new(DType::F32, [4, 5]))?;
/// assert_eq!(y.aval().to_string(), "f32[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn slice(
    x: &Array,
    start_indices: &[usize],
    limit_indices: &[usize],
    strides: &[usize],
) -> Array {
    let full = start_indices.iter().all(|&start| start == 0)
        && strides.iter().all(|&stride| stride == 1)
        && [start_indices.len(), strides.len()] == [x.rank(); 2]
        && limit_indices == x.shape().dims();
    if full {
        return x.clone();
    }
    let slice = Slice {
        start_indices: start_indices.to_vec(),
        limit_indices: limit_indices.to_vec(),
        strides: strides.to_vec(),
    };
    bind1(slice, [x])
}

/// Returns the elements `start, start + stride, …` below `limit` along one axis, and everything
/// along the others. Negative `start`, `limit` and `axis` count from the back. Throws `Op` (shape)
/// if they are out of range.
#[track_caller]
pub fn slice_in_dim(x: &Array, start: isize, limit: isize, stride: usize, axis: isize) -> Array {
    let resolved = resolve_axis(axis, x.rank()).and_then(|axis| {
        let size = x.shape()[axis];
        let position = |index: isize| {
            let from_the_front = if index < 0 { index + size as isize } else { index };
            usize::try_from(from_the_front).ok().filter(|&batch_axis| batch_axis <= size)
        };
        position(start).zip(position(limit)).map(|range| (axis, range)).ok_or_else(|| {
            RuleError::shape(format!(
                "{start}..{limit} is not a range within axis {axis} of size {size}"
            ))
        })
    });
    match resolved {
        Ok((axis, (start, limit))) => slice(
            x,
            &with_size(&Shape::from(vec![0; x.rank()]), axis, start),
            &with_size(x.shape(), axis, limit),
            &with_size(&Shape::from(vec![1; x.rank()]), axis, stride),
        ),
        Err(error) => trace::throw_operands("slice_in_dim", error, &[x]),
    }
}

impl Registered for Slice {
    const NAME: &'static str = "slice";
    fn exemplars() -> Vec<Exemplar> {
        let part = |start: &[usize], limit: &[usize], strides: &[usize], sample| {
            let slice = Slice {
                start_indices: start.to_vec(),
                limit_indices: limit.to_vec(),
                strides: strides.to_vec(),
            };
            Exemplar::new(slice, [sample])
        };
        vec![
            part(&[0, 1], &[2, 4], &[1, 2], Sample::uniform(DType::F32, [2, 5], -1.0, 1.0)),
            part(&[1], &[1], &[1], Sample::uniform(DType::F32, [3], -1.0, 1.0)),
            part(&[2], &[7], &[3], Sample::uniform(DType::BF16, [8], -1.0, 1.0)),
            part(&[0], &[0], &[2], Sample::uniform(DType::I32, [0], 0.0, 1.0)),
            part(&[], &[], &[], Sample::uniform(DType::F32, [], 0.0, 1.0)),
            part(&[1], &[3], &[1], Sample::uniform(DType::C64, [3], 0.0, 1.0)),
            part(&[0, 0], &[1, 1], &[1, 3], Sample::uniform(DType::F32, [2, 1], -1.0, 1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catch;
    use crate::core::trace::{Mode, Tracing};
    use expect_test::expect;

    fn first_line(error: &crate::core::Error) -> String {
        error.to_string().lines().next().unwrap_or_default().to_string()
    }

    #[test]
    fn ranges_are_within_the_axis() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(DType::F32, [4]));
        assert_eq!(slice_in_dim(&x, -3, -1, 1, 0).shape().dims(), [2]);
        assert_eq!(slice_in_dim(&x, 0, 4, 3, 0).shape().dims(), [2]);
        let error = catch(|| slice(&x, &[3], &[5], &[1])).unwrap_err();
        expect!["error[shape]: slice: 3..5 is not a range within axis 0 of size 4"]
            .assert_eq(&first_line(&error));
        let error = catch(|| slice_in_dim(&x, -5, 4, 1, 0)).unwrap_err();
        expect!["error[shape]: slice_in_dim: -5..4 is not a range within axis 0 of size 4"]
            .assert_eq(&first_line(&error));
    }

    #[test]
    fn lowers_to_one_operation() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(DType::F32, [4, 5]));
        let (program, _) = tracing.finish(&[slice(&x, &[1, 0], &[3, 5], &[1, 2])]);
        let mut ctx = LowerCtx::new("cpu");
        ctx.function(&program, "main").unwrap();
        let text = ctx.finish("m");
        let line = text.lines().find(|line| line.contains("stablehlo.slice")).unwrap_or_default();
        let line = line.split(" loc(").next().unwrap_or_default().trim();
        expect![[
            r#"%1 = "stablehlo.slice"(%0) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 3, 5>, strides = array<i64: 1, 2>}> : (tensor<4x5xf32>) -> tensor<2x3xf32>"#
        ]]
        .assert_eq(line);
    }
}
