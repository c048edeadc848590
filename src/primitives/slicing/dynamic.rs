//! Slices at computed start indices.

use super::{check_starts, index_vectors, resolve_starts, widened_indices, with_size};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, CheckSet, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, OperandCheck, Primitive, Registered, RuleError, RuleResult, Sample, Shape,
    Tangent, bind, trace,
};
use crate::ensure_shape;
use crate::primitives::array_list::{ArrayList, ListEntry};
use crate::primitives::checks::{Starts, inside};
use crate::primitives::constant::zeros_of;
use crate::primitives::gather::{Gather, GatherDimensionNumbers, GatherScatterMode};
use crate::primitives::promote::ArrayLike;
use crate::primitives::rules::{batched, move_axis, one_cotangent, resolve_axis};
use crate::primitives::slicing::DynamicUpdateSlice;
use crate::primitives::structural::squeeze;
use crate::stablehlo::{Value, i64_array};
use serde::{Deserialize, Serialize};

/// Slice of fixed size at computed start indices.
///
/// | | |
/// |-|-|
/// | operands   | `x: any[…]`, then one start index per axis: scalars of one integer dtype |
/// | result     | dtype of `x`, shape `slice_sizes`; starts are clamped so that the slice is within `x` |
/// | lowering   | [`stablehlo.dynamic_slice`](https://openxla.org/stablehlo/spec#dynamic_slice) |
/// | derivative | linear in `x`; transposes to [`DynamicUpdateSlice`] of zeros |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DynamicSlice {
    /// The shape of the result.
    pub slice_sizes: Vec<usize>,
}

impl DynamicSlice {
    #[track_caller]
    fn apply(&self, x: &Array, starts: &[Array]) -> Array {
        let operands: Vec<&Array> = std::iter::once(x).chain(starts).collect();
        bind(self.clone(), &operands).swap_remove(0)
    }
}

impl Primitive for DynamicSlice {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let Some((x, starts)) = operands.split_first() else {
            return Err(RuleError::value("takes an array and start indices, got 0 operands"));
        };
        check_starts(x, starts)?;
        let sizes = Shape::new(&self.slice_sizes);
        ensure_shape!(
            sizes.rank() == x.rank() && sizes.iter().zip(x.shape.iter()).all(|(a, b)| a <= b),
            "a slice of shape {sizes} does not fit in {x}"
        );
        Ok(vec![x.with_shape(sizes)])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let y = self.apply(&primals[0], &primals[1..]);
        let dy = tangents[0].map(y.aval(), |dx| self.apply(dx, &primals[1..]));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let starts = &operands[1..];
        if axes[1..].iter().all(Option::is_none) && !starts.is_empty() {
            // The batch axis is taken whole.
            let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
            let mut slice_sizes = vec![axis.size];
            slice_sizes.extend(&self.slice_sizes);
            let zero = zeros_of(starts[0].aval());
            let starts: Vec<Array> = std::iter::once(zero).chain(starts.iter().cloned()).collect();
            return Ok(batched(DynamicSlice { slice_sizes }.apply(&x, &starts), 0));
        }
        if starts.is_empty() {
            return Ok(batched(operands[0].clone(), axes[0].unwrap_or(0)));
        }
        let (vectors, vector_axis) = index_vectors(starts, &axes[1..], axis.size);
        let every: Vec<usize> = (0..starts.len()).collect();
        let gather = Gather {
            dimension_numbers: GatherDimensionNumbers {
                offset_dims: every.clone(),
                start_index_map: every,
                ..GatherDimensionNumbers::default()
            },
            slice_sizes: self.slice_sizes.clone(),
            unique_indices: true,
            indices_are_sorted: true,
            mode: GatherScatterMode::Clip,
            fill_value: None,
        };
        gather.batch(&[operands[0].clone(), vectors], &[axes[0], vector_axis], axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let mut wide = vec![operands[0].clone()];
        wide.extend(operands[1..].iter().map(|start| widened_indices(ctx, start)));
        let sizes = format!("slice_sizes = {}", i64_array(&self.slice_sizes));
        Ok(vec![ctx.op_as("dynamic_slice", &wide, &sizes, &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::part(operands, &results[0])
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let starts: Vec<&Array> = operands[1..].iter().filter_map(Operand::known).collect();
        if starts.len() + 1 != operands.len() || !operands[0].is_linear() {
            return Err(RuleError::not_linear("dynamic_slice"));
        }
        let zeros = zeros_of(&ct.aval().with_shape(&operands[0].aval().shape));
        let mut all = vec![&zeros, ct];
        all.extend(starts);
        let mut cts = vec![Some(bind(DynamicUpdateSlice, &all).swap_remove(0).into())];
        cts.resize(operands.len(), None);
        Ok(cts)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for DynamicSlice {
    fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        inside(enabled, operands[0].aval(), starts_of(&operands[1..], &self.slice_sizes))
    }
}

/// Returns the start of a slice of these sizes along each axis.
pub(super) fn starts_of(starts: &[&Array], sizes: &[usize]) -> impl Iterator<Item = Starts> {
    let axes = starts.iter().zip(sizes).enumerate();
    axes.map(|(axis, (&start, &size))| Starts { axis, indices: start.clone(), size })
}

/// Returns the slice of `x` of shape `slice_sizes` that starts at `start_indices`, one integer per
/// axis: numbers, scalar arrays, or a tuple of both, `(&i, 0)`. Negative indices count from the end
/// of their axis. Starts are then clamped so that the slice is within `x`. See [`DynamicSlice`] for
/// its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [8, 3]);
/// let i = Aval::new(DType::I32, []);
/// let rows = |x: Array, i: Array| dynamic_slice(&x, (&i, 0), [2, 3]);
/// let y = eval_shape(rows, (x, i))?;
/// assert_eq!(y.aval().to_string(), "f32[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn dynamic_slice<F>(
    x: &Array,
    start_indices: impl ArrayList<F>,
    slice_sizes: impl Into<Shape>,
) -> Array {
    slice_from(x, &start_indices.into_entries(), &slice_sizes.into())
}

#[track_caller]
fn slice_from(x: &Array, starts: &[ListEntry], sizes: &Shape) -> Array {
    match resolve_starts(x, starts) {
        Ok(starts) => DynamicSlice { slice_sizes: sizes.to_vec() }.apply(x, &starts),
        Err(error) => trace::throw_operands("dynamic_slice", error, &[x]),
    }
}

/// Returns `size` elements of `x` from `start` on along one axis, and everything along the others.
/// `start` is treated as in [`dynamic_slice`].
#[track_caller]
pub fn dynamic_slice_in_dim(x: &Array, start: impl ArrayLike, size: usize, axis: isize) -> Array {
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => dynamic_slice(
            x,
            super::update::starts_along(start.like(), axis, x.rank()),
            with_size(x.shape(), axis, size),
        ),
        Err(error) => trace::throw_operands("dynamic_slice_in_dim", error, &[x]),
    }
}

/// Options of [`dynamic_index_in_dim_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicIndexOptions {
    /// Keeps the indexed axis with size 1. The default is true.
    pub keepdims: bool,
}

impl Default for DynamicIndexOptions {
    fn default() -> Self {
        DynamicIndexOptions { keepdims: true }
    }
}

/// Returns the element of `x` at `index` along one axis, which stays with size 1. `index` is
/// treated as in [`dynamic_slice`].
///
/// Throws `Op` (shape) if the axis is empty.
///
/// ```
/// use oxidax::prelude::*;
/// let row = |x: Array, i: Array| dynamic_index_in_dim(&x, &i, 0);
/// let y = eval_shape(row, (Aval::new(DType::F32, [4, 3]), Aval::new(DType::I32, [])))?;
/// assert_eq!(y.aval().to_string(), "f32[1,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn dynamic_index_in_dim(x: &Array, index: impl ArrayLike, axis: isize) -> Array {
    dynamic_index_in_dim_with(x, index, axis, DynamicIndexOptions::default())
}

/// Returns the element of `x` at `index` along one axis, as [`dynamic_index_in_dim`] does. With
/// `keepdims: false` the axis is dropped.
///
/// Throws `Op` (shape) if the axis is empty.
#[track_caller]
pub fn dynamic_index_in_dim_with(
    x: &Array,
    index: impl ArrayLike,
    axis: isize,
    options: DynamicIndexOptions,
) -> Array {
    let element = dynamic_slice_in_dim(x, index, 1, axis);
    if options.keepdims { element } else { squeeze(&element, &[axis]) }
}

impl Registered for DynamicSlice {
    const NAME: &'static str = "dynamic_slice";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |sizes: &[usize], x: Sample, dtype, starts: &[f64]| {
            let starts = starts.iter().map(|&start| match dtype {
                // Starts that are negative, in range and out of range, different in each example of
                // a batch.
                DType::I32 => Sample::uniform(dtype, [], -2.0, start + 2.0),
                _ => Sample::listed(dtype, [], &[start]),
            });
            let slice = DynamicSlice { slice_sizes: sizes.to_vec() };
            Exemplar::new(slice, std::iter::once(x).chain(starts))
        };
        let floats = |shape: &[usize]| Sample::uniform(DType::F32, shape, -1.0, 1.0);
        vec![
            exemplar(&[2, 1], floats(&[4, 3]), DType::I32, &[2.0, 1.0]),
            exemplar(&[2], floats(&[3]), DType::U8, &[200.0]),
            exemplar(&[3], floats(&[300]), DType::I8, &[100.0]),
            exemplar(&[1, 2], floats(&[2, 2]), DType::I64, &[1.0, 0.0]),
            exemplar(&[0], floats(&[3]), DType::U64, &[1.0]),
            exemplar(&[], floats(&[]), DType::I32, &[]),
            exemplar(&[1], Sample::uniform(DType::C64, [3], -1.0, 1.0), DType::I32, &[1.0]),
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
    fn negative_starts_count_from_the_end() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(DType::F32, [4]));
        let i = tracing.input(Aval::new(DType::I64, []));
        let a = dynamic_slice(&x, [-1], [1]);
        let b = squeeze(&dynamic_index_in_dim(&x, &i, 0), &[0]);
        let (program, _) = tracing.finish(&[a, b]);
        expect![[r#"
            { lambda ; a:f32[4] b:i64[]. let
                c:i32[] = fill[dtype="i32" shape=[] value=3 weak=false]
                d:f32[1] = dynamic_slice[slice_sizes=[1]] a c
                e:i64[] = fill[dtype="i64" shape=[] value=0 weak=false]
                f:bool[] = compare[direction="LT" total_order=false] b e
                g:i64[] = fill[dtype="i64" shape=[] value=4 weak=false]
                h:i64[] = add b g
                i:i64[] = select f h b
                j:f32[1] = dynamic_slice[slice_sizes=[1]] a i
                k:f32[] = reshape[shape=[]] j
              in (d k) }"#]]
        .assert_eq(&program.to_string());
    }

    #[test]
    fn starts_are_integers_one_per_axis() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let x = tracing.input(Aval::new(DType::F32, [4, 2]));
        let first = |error: crate::core::Error| {
            error.to_string().lines().next().unwrap_or_default().to_string()
        };
        let error = catch(|| dynamic_slice(&x, [1], [1, 1])).unwrap_err();
        expect![
            "error[value]: dynamic_slice: takes one start index per axis of f32[4,2], 2 in all, \
             got 1"
        ]
        .assert_eq(&first(error));
        let error = catch(|| dynamic_slice(&x, [1.5, 0.0], [1, 1])).unwrap_err();
        expect!["error[dtype]: dynamic_slice: start indices must be integers, got 1.5"]
            .assert_eq(&first(error));
        let error = catch(|| dynamic_slice(&x, [0, 0], [1, 3])).unwrap_err();
        expect!["error[shape]: dynamic_slice: a slice of shape [1,3] does not fit in f32[4,2]"]
            .assert_eq(&first(error));
    }

    mod on_cpu {
        use super::*;
        use crate::primitives::dynamic_update_slice;

        /// Values recorded from JAX: negative starts wrap once, then everything is clamped.
        #[test]
        fn starts_wrap_and_clamp() {
            let x = Array::from_slice(&[10.0f32, 11.0, 12.0, 13.0], [4]).unwrap();
            let starts = [
                (Array::from_slice(&[-1i32], []).unwrap(), [12.0, 13.0]),
                (Array::from_slice(&[-9i64], []).unwrap(), [10.0, 11.0]),
                (Array::from_slice(&[-3i8], []).unwrap(), [11.0, 12.0]),
                (Array::from_slice(&[200u8], []).unwrap(), [12.0, 13.0]),
            ];
            for (start, expected) in starts {
                let y = dynamic_slice(&x, [&start], [2]).to_vec::<f32>().unwrap();
                assert_eq!(y, expected, "{}", start.aval());
            }
            assert_eq!(dynamic_slice(&x, [-1], [2]).to_vec::<f32>().unwrap(), [12.0, 13.0]);
            let update = Array::from_slice(&[1.0f32, 2.0], [2]).unwrap();
            let y = dynamic_update_slice(&x, &update, [-3]);
            assert_eq!(y.to_vec::<f32>().unwrap(), [10.0, 1.0, 2.0, 13.0]);
        }

        /// Negative starts wrap along an axis longer than the range of the index dtype.
        #[test]
        fn narrow_starts_wrap_along_long_axes() {
            let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
            let x = Array::from_slice(&x, [300]).unwrap();
            let start = Array::from_slice(&[-1i8], []).unwrap();
            let y = dynamic_slice(&x, [&start], [1]).to_vec::<f32>().unwrap();
            assert_eq!(y, [299.0]);
        }
    }
}
