//! Splitting along an axis.

use super::concatenate;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleResult, Sample, Tangent, bind, trace,
};
use crate::ensure_shape;
use crate::primitives::rules::{arity, resolve_axis};
use crate::primitives::slicing::Slice;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Splits an array into parts of given sizes along one axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | results    | one part per size, of the dtype of `x`, in order |
/// | lowering   | one [`stablehlo.slice`](https://openxla.org/stablehlo/spec#slice) per part |
/// | derivative | linear; transposes to a concatenation |
///
/// The gradient of separate [slices](Slice) is a sum of padded arrays instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SplitSizes {
    /// The axis along which the operand is split.
    pub axis: usize,
    /// The size of each part along the axis. They add up to its size.
    pub sizes: Vec<usize>,
}

impl SplitSizes {
    #[track_caller]
    fn apply(&self, x: &Array) -> Vec<Array> {
        bind(self.clone(), &[x])
    }
}

impl Primitive for SplitSizes {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let SplitSizes { axis, sizes } = self;
        ensure_shape!(
            *axis < x.rank(),
            "axis {axis} must be less than the rank {} of {x}",
            x.rank()
        );
        let total = sizes.iter().try_fold(0usize, |total, &size| total.checked_add(size));
        ensure_shape!(
            total == Some(x.shape[*axis]),
            "sizes {sizes:?} do not add up to {}, the size of axis {axis} of {x}",
            x.shape[*axis]
        );
        let part = |&size: &usize| {
            let mut shape = x.shape.to_vec();
            shape[*axis] = size;
            x.with_shape(shape)
        };
        Ok(sizes.iter().map(part).collect())
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let parts = self.apply(&primals[0]);
        let tangents = match tangents[0].array() {
            Some(dx) => self.apply(dx).into_iter().map(Tangent::from).collect(),
            None => parts.iter().map(Tangent::zero_like).collect(),
        };
        Ok((parts, tangents))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let batch_axis = axes[0].unwrap_or(0);
        let axis = self.axis + usize::from(batch_axis <= self.axis);
        let outputs = SplitSizes { axis, sizes: self.sizes.clone() }.apply(&operands[0]);
        let axes = vec![Some(batch_axis); outputs.len()];
        Ok(Batched { outputs, axes })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dims = operands[0].ty().dims().to_vec();
        let mut slice = Slice {
            start_indices: vec![0; dims.len()],
            strides: vec![1; dims.len()],
            limit_indices: dims,
        };
        let mut parts = Vec::with_capacity(results.len());
        for part in results {
            slice.limit_indices[self.axis] = slice.start_indices[self.axis] + part.shape[self.axis];
            parts.extend(slice.lower(ctx, operands, std::slice::from_ref(part))?);
            slice.start_indices[self.axis] = slice.limit_indices[self.axis];
        }
        Ok(parts)
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let parts: Vec<Array> = cts.iter().map(Tangent::to_dense).collect();
        Ok(vec![Some(concatenate(&parts, self.axis as isize).into())])
    }
}

/// Splits `x` along `axis` into parts of the given sizes. Negative axes count from the back. See
/// [`SplitSizes`] for its rules. Without sizes or with one, nothing is computed.
///
/// Throws `Op` (shape) if the sizes do not add up to the size of the axis.
///
/// ```
/// use oxidax::prelude::*;
/// let parts = eval_shape(|x: Array| split_sizes(&x, &[1, 4], -1), Aval::new(DType::F32, [2, 5]))?;
/// assert_eq!(parts[0].aval().to_string(), "f32[2,1]");
/// assert_eq!(parts[1].aval().to_string(), "f32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "lax_split")]
#[track_caller]
pub fn split_sizes(x: &Array, sizes: &[usize], axis: isize) -> Vec<Array> {
    match resolve_axis(axis, x.rank()) {
        Ok(axis) if *sizes == [x.shape()[axis]] => vec![x.clone()],
        Ok(axis) if sizes.is_empty() && x.shape()[axis] == 0 => Vec::new(),
        Ok(axis) => SplitSizes { axis, sizes: sizes.to_vec() }.apply(x),
        Err(error) => trace::throw_operands("split", error, &[x]),
    }
}

impl Registered for SplitSizes {
    const NAME: &'static str = "split";
    fn exemplars() -> Vec<Exemplar> {
        let along = |axis, sizes: &[usize], sample| {
            Exemplar::new(SplitSizes { axis, sizes: sizes.to_vec() }, [sample])
        };
        vec![
            along(1, &[1, 3], Sample::uniform(DType::F32, [2, 4], -1.0, 1.0)),
            along(0, &[2, 0, 1], Sample::uniform(DType::F32, [3, 2], -1.0, 1.0)),
            along(0, &[4], Sample::uniform(DType::F64, [4], -1.0, 1.0)),
            along(0, &[1, 2], Sample::uniform(DType::I32, [3], 0.0, 9.0)),
            along(2, &[1, 2], Sample::uniform(DType::C64, [1, 2, 3], -1.0, 1.0)),
            along(0, &[2, 3], Sample::uniform(DType::BF16, [5], -1.0, 1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catch;
    use crate::core::trace::{Mode, Tracing};
    use expect_test::expect;

    #[test]
    fn sizes_add_up_to_the_axis() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(DType::F32, [2, 5]));
        let first_line = |sizes: &[usize], axis| {
            let error = catch(|| split_sizes(&x, sizes, axis)).unwrap_err().to_string();
            error.lines().next().unwrap_or_default().to_string()
        };
        expect![[
            "error[shape]: split: sizes [2, 2] do not add up to 5, the size of axis 1 of f32[2,5]"
        ]]
        .assert_eq(&first_line(&[2, 2], 1));
        expect![[
            "error[shape]: split: sizes [] do not add up to 5, the size of axis 1 of f32[2,5]"
        ]]
        .assert_eq(&first_line(&[], 1));
        assert!(first_line(&[usize::MAX, 6], 1).contains("do not add up"));
        assert_eq!(split_sizes(&x, &[5], -1)[0].shape().dims(), [2, 5]);
    }
}
