//! Updates of slices at computed indices.

use super::dynamic::starts_of;
use super::{DynamicSlice, check_starts, index_vectors, resolve_starts, widened_indices};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, CheckSet, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, OperandCheck, Primitive, Registered, RuleError, RuleResult, Sample, Scalar,
    Tangent, bind, trace,
};
use crate::primitives::array_list::{ArrayList, ListEntry};
use crate::primitives::checks::inside;
use crate::primitives::constant::zeros_of;
use crate::primitives::convert::convert_to;
use crate::primitives::gather::GatherScatterMode;
use crate::primitives::promote::{ArrayLike, Like};
use crate::primitives::rules::{batch_at, batched, one_cotangent, resolve_axis};
use crate::primitives::scatter::{Combiner, Scatter, ScatterDimensionNumbers};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// Overwrites a slice at computed start indices.
///
/// | | |
/// |-|-|
/// | operands   | `x: any[…]`, `update` of that dtype and rank, no larger along any axis, then one start index per axis: scalars of one integer dtype |
/// | result     | the type of `x`; starts are clamped so that the slice is within `x` |
/// | lowering   | [`stablehlo.dynamic_update_slice`](https://openxla.org/stablehlo/spec#dynamic_update_slice); on a CPU the update is computed before, behind an `optimization_barrier` |
/// | derivative | linear in `x` and `update` together |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DynamicUpdateSlice;

#[track_caller]
fn apply(x: &Array, update: &Array, starts: &[Array]) -> Array {
    let operands: Vec<&Array> = [x, update].into_iter().chain(starts).collect();
    bind(DynamicUpdateSlice, &operands).swap_remove(0)
}

impl Primitive for DynamicUpdateSlice {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x, update, starts @ ..] = operands else {
            return Err(RuleError::value(format!(
                "takes an array, an update and start indices, got {} operands",
                operands.len()
            )));
        };
        check_starts(x, starts)?;
        ensure_dtype!(
            x.dtype == update.dtype,
            "the array is {} and the update {}",
            x.dtype,
            update.dtype
        );
        ensure_shape!(
            update.rank() == x.rank()
                && update.shape.iter().zip(x.shape.iter()).all(|(a, b)| a <= b),
            "an update of shape {} does not fit in {x}",
            update.shape
        );
        Ok(vec![Aval { weak: x.weak && update.weak, ..x.clone() }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let starts = &primals[2..];
        let y = apply(&primals[0], &primals[1], starts);
        let dy = apply(&tangents[0].to_dense(), &tangents[1].to_dense(), starts);
        Ok((vec![y], vec![dy.into()]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let starts = &operands[2..];
        let x = batch_at(&operands[0], axes[0], 0, axis);
        let update = batch_at(&operands[1], axes[1], 0, axis);
        if starts.is_empty() {
            return Ok(batched(update, 0));
        }
        if axes[2..].iter().all(Option::is_none) {
            // The batch axis is overwritten whole.
            let zero = zeros_of(starts[0].aval());
            let starts: Vec<Array> = std::iter::once(zero).chain(starts.iter().cloned()).collect();
            return Ok(batched(apply(&x, &update, &starts), 0));
        }
        let (vectors, vector_axis) = index_vectors(starts, &axes[2..], axis.size);
        let every: Vec<usize> = (0..starts.len()).collect();
        let scatter = Scatter {
            combiner: Combiner::Update,
            dimension_numbers: ScatterDimensionNumbers {
                update_window_dims: every.clone(),
                scatter_dims_to_operand_dims: every,
                ..ScatterDimensionNumbers::default()
            },
            indices_are_sorted: true,
            unique_indices: true,
            mode: GatherScatterMode::Clip,
        };
        scatter.batch(&[x, vectors, update], &[Some(0), vector_axis, Some(0)], axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let mut wide = operands[..2].to_vec();
        // XLA's CPU compiler (C API 0.115) fuses the computation of an update with the write, even
        // if the computation reads elements that are overwritten meanwhile.
        if ctx.platform() == "cpu" {
            wide[1] = ctx.op("optimization_barrier", &wide[1..]);
        }
        wide.extend(operands[2..].iter().map(|start| widened_indices(ctx, start)));
        Ok(vec![ctx.op_as("dynamic_update_slice", &wide, "", &results[0].stablehlo())])
    }
    /// In place: only the slice is read and written.
    fn cost(&self, operands: &[Aval], _: &[Aval]) -> Cost {
        Cost::movement(&operands[1..], &operands[1..2])
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let starts: Vec<Array> = operands[2..].iter().filter_map(Operand::known).cloned().collect();
        if starts.len() + 2 != operands.len() {
            return Err(RuleError::not_linear("dynamic_update_slice"));
        }
        let update = operands[1].aval();
        let to_x = operands[0].is_linear().then(|| {
            let zeros = zeros_of(&ct.aval().with_shape(&update.shape));
            apply(ct, &zeros, &starts).into()
        });
        let to_update = operands[1].is_linear().then(|| {
            let slice = DynamicSlice { slice_sizes: update.shape.to_vec() };
            let operands: Vec<&Array> = std::iter::once(ct).chain(&starts).collect();
            bind(slice, &operands).swap_remove(0).into()
        });
        let mut cts = vec![to_x, to_update];
        cts.resize(operands.len(), None);
        Ok(cts)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for DynamicUpdateSlice {
    fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        let starts = starts_of(&operands[2..], operands[1].shape());
        inside(enabled, operands[0].aval(), starts)
    }
}

/// Returns `x` with `update` written at `start_indices`, one integer per axis, as in
/// [`dynamic_slice`](super::dynamic_slice()). A weakly typed update takes the dtype of `x`. See
/// [`DynamicUpdateSlice`] for its rules.
/// [`dynamic_slice`](super::dynamic_slice()). A weakly typed update takes the dtype of `x`. See
/// [`DynamicUpdateSlice`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |x: Array, row: Array| dynamic_update_slice(&x, &row, [-1, 0]),
///     (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [1, 3])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn dynamic_update_slice<F>(
    x: &Array,
    update: &Array,
    start_indices: impl ArrayList<F>,
) -> Array {
    update_from(x, update, &start_indices.into_entries())
}

#[track_caller]
fn update_from(x: &Array, update: &Array, starts: &[ListEntry]) -> Array {
    let update = if update.aval().weak {
        convert_to(update, x.dtype(), x.aval().weak)
    } else {
        update.clone()
    };
    match resolve_starts(x, starts) {
        Ok(starts) => apply(x, &update, &starts),
        Err(error) => trace::throw_operands("dynamic_update_slice", error, &[x, &update]),
    }
}

/// Returns `x` with `update` written from `start` on along one axis. Along the other axes the
/// update starts at 0. `start` is treated as in [`dynamic_slice`](super::dynamic_slice()).
#[track_caller]
pub fn dynamic_update_slice_in_dim(
    x: &Array,
    update: &Array,
    start: impl ArrayLike,
    axis: isize,
) -> Array {
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => dynamic_update_slice(x, update, starts_along(start.like(), axis, x.rank())),
        Err(error) => trace::throw_operands("dynamic_update_slice_in_dim", error, &[x, update]),
    }
}

/// Returns start indices: `start` along one axis, 0 along the others.
#[derive(Clone, Copy)]
pub(super) struct Start<'a>(Like<'a>);

impl ArrayLike for Start<'_> {
    fn like(&self) -> Like<'_> {
        self.0
    }
}

pub(super) fn starts_along(start: Like<'_>, axis: usize, rank: usize) -> Vec<Start<'_>> {
    let mut starts = vec![Start(Like::Scalar(Scalar::Int(0))); rank];
    starts[axis] = Start(start);
    starts
}

impl Registered for DynamicUpdateSlice {
    const NAME: &'static str = "dynamic_update_slice";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |dtype, shape: &[usize], update: &[usize], index: DType, starts: &[f64]| {
            let arrays = [shape, update].map(|shape| Sample::uniform(dtype, shape, -1.0, 1.0));
            let starts = starts.iter().map(|&start| match index {
                DType::I32 => Sample::uniform(index, [], -2.0, start + 2.0),
                _ => Sample::listed(index, [], &[start]),
            });
            Exemplar::new(DynamicUpdateSlice, arrays.into_iter().chain(starts))
        };
        vec![
            exemplar(DType::F32, &[4, 3], &[2, 2], DType::I32, &[2.0, 1.0]),
            exemplar(DType::F32, &[3], &[2], DType::U8, &[200.0]),
            exemplar(DType::F32, &[3], &[0], DType::I64, &[1.0]),
            exemplar(DType::F32, &[], &[], DType::I32, &[]),
            exemplar(DType::C64, &[3], &[1], DType::I32, &[1.0]),
            exemplar(DType::I32, &[2, 2], &[2, 1], DType::U32, &[0.0, 1.0]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn rejects_updates_that_do_not_fit() {
        let avals =
            [Aval::new(DType::F32, [4]), Aval::new(DType::F32, [5]), Aval::new(DType::I32, [])];
        let error = DynamicUpdateSlice.abstract_eval(&avals).unwrap_err();
        expect!["an update of shape [5] does not fit in f32[4]"].assert_eq(&error.message);
    }
}
