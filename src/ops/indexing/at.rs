//! Functional updates of indexed elements.

use super::index::Index;
use super::mask::{lone_mask, with_mask_axis};
use super::options::IndexOptions;
use super::resolve::{AxisAction, AxisSlice, gather_plan, resolve, shape_after};
use crate::core::{Array, DType, Loc, RuleError, Scalar, Shape, trace};
use crate::primitives::{
    ArrayLike, Combiner, GatherScatterMode, Like, ScatterDimensionNumbers, add, broadcast_to,
    convert_element_type, div, dynamic_update_slice, fill_of, index_of, iota, maximum, minimum,
    mul, neg, reshape, scatter_with, where_,
};

/// Indexed elements of an array, to be updated. Returned by [`Array::at`].
///
/// Each method returns a new array. Its values broadcast to the shape of [`Array::index`] with the
/// same index and are converted to the dtype of the array. Elements of index arrays may be
/// negative; updates out of range are dropped.
///
/// A mask, `x.at(i![&mask]).set(0.0)`, may be traced, if the values do not have an axis for the
/// selected elements: numbers, scalars, and values of the axes after the mask.
#[derive(Clone, Debug)]
pub struct At<'a> {
    x: &'a Array,
    indices: Vec<Index>,
    options: IndexOptions,
}

/// Functional updates.
impl Array {
    /// Selects elements to update: `x.at(i![0, 1..3]).set(0.0)`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let (counts, ids) = (Aval::new(DType::I32, [10]), Aval::new(DType::I32, [64]));
    /// let y = eval_shape(|counts: Array, ids: Array| counts.at(i![&ids]).add(1), (counts, ids))?;
    /// assert_eq!(y.aval().to_string(), "i32[10]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn at(&self, indices: impl AsRef<[Index]>) -> At<'_> {
        self.at_with(indices, IndexOptions::default())
    }

    /// Selects elements to read or update, as [`Array::at`], with a treatment of indices out of
    /// range and promises about the indices.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::primitives::GatherScatterMode;
    /// let x = array![1.0, 2.0, 3.0];
    /// let fill = IndexOptions {
    ///     mode: Some(GatherScatterMode::FillOrDrop),
    ///     fill_value: Some(0.0.into()),
    ///     ..Default::default()
    /// };
    /// let read = x.at_with(i![&array![2, 5]], fill).get();
    /// assert_eq!(read.to_vec::<f32>()?, [3.0, 0.0]);
    /// let clip = IndexOptions { mode: Some(GatherScatterMode::Clip), ..Default::default() };
    /// let updated = x.at_with(i![&array![0, 5]], clip).set(9.0);
    /// assert_eq!(updated.to_vec::<f32>()?, [9.0, 2.0, 9.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn at_with(&self, indices: impl AsRef<[Index]>, options: IndexOptions) -> At<'_> {
        let indices = options.with_dynamic(indices.as_ref().to_vec(), self);
        At { x: self, indices, options }
    }
}

impl At<'_> {
    /// Replaces the elements. If an index occurs several times, the platform determines which value
    /// is stored.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[track_caller]
    pub fn set(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Update)
    }

    /// Adds the values, once for each occurrence of an index.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[track_caller]
    pub fn add(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Add)
    }

    /// Subtracts the values, once for each occurrence of an index.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[doc(alias = "subtract")]
    #[track_caller]
    pub fn sub(&self, values: impl ArrayLike) -> Array {
        let values = values.to_array();
        Loc::caller().scope(|| self.update(neg(&values).like(), Combiner::Add))
    }

    /// Multiplies by the values, once for each occurrence of an index.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[doc(alias = "multiply")]
    #[track_caller]
    pub fn mul(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Mul)
    }

    /// Divides by the values; an index may not occur several times.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[doc(alias = "divide")]
    #[track_caller]
    pub fn div(&self, values: impl ArrayLike) -> Array {
        let values = values.like();
        Loc::caller().scope(|| self.replace(n_axes(values), |x| div(x, values)))
    }

    /// Raises the elements to the powers `values`; an index may not occur several times.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[doc(alias = "power")]
    #[track_caller]
    pub fn pow(&self, values: impl ArrayLike) -> Array {
        let values = values.like();
        Loc::caller().scope(|| self.replace(n_axes(values), |x| x.pow(values)))
    }

    /// Replaces the elements by `f` of them; an index may not occur several times. For a traced
    /// mask, `f` gets all elements, and its derivative must be finite at all of them: see
    /// [`where_`].
    ///
    /// Throws `Op` for an index out of range, and whatever `f` throws.
    #[track_caller]
    pub fn apply(&self, f: impl FnOnce(Array) -> Array) -> Array {
        self.replace(0, |x| f(x.clone()))
    }

    /// Replaces the elements by `f` of them and of values with `n_axes` axes.
    #[track_caller]
    fn replace(&self, n_axes: usize, f: impl FnOnce(&Array) -> Array) -> Array {
        match lone_mask(&self.indices, self.x) {
            Some((mask, n_trailing)) if mask.is_traced() && n_axes <= n_trailing => {
                where_(&mask, convert_element_type(&f(self.x), self.x.dtype()), self.x)
            }
            _ => self.set(f(&self.get())),
        }
    }

    /// Returns the elements, as [`Array::index`] if the options do not set another mode.
    ///
    /// Throws `Op` for a static index out of range if no mode is set.
    #[track_caller]
    pub fn get(&self) -> Array {
        if let Some((indices, x)) = with_mask_axis(&self.indices, self.x) {
            return At { x: &x, indices, options: self.options }.get();
        }
        match resolve(&self.indices, self.x) {
            Ok((slices, actions)) => {
                let mode = GatherScatterMode::Clip;
                self.x.gather_resolved(&slices, &actions, mode, self.options)
            }
            Err(error) => trace::throw_operands("index", error, &[self.x]),
        }
    }

    /// Takes the minimum of the elements and the values.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[track_caller]
    pub fn min(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Min)
    }

    /// Takes the maximum of the elements and the values.
    ///
    /// Throws `Op` for an index out of range and for values that do not broadcast.
    #[track_caller]
    pub fn max(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Max)
    }

    #[track_caller]
    fn update(&self, values: Like<'_>, combiner: Combiner) -> Array {
        if let Some((mask, n_trailing)) = lone_mask(&self.indices, self.x)
            && n_axes(values) <= n_trailing
        {
            let values = broadcast_values(self.x, values, self.x.shape());
            let updated = combined(self.x, values, combiner);
            return where_(&mask, convert_element_type(&updated, self.x.dtype()), self.x);
        }
        if let Some((indices, x)) = with_mask_axis(&self.indices, self.x) {
            let at = At { x: &x, indices, options: self.options };
            return reshape(&at.update(values, combiner), self.x.shape().clone());
        }
        let (slices, actions) = match resolve(&self.indices, self.x) {
            Ok(resolved) => resolved,
            Err(error) => trace::throw_operands("at", error, &[self.x]),
        };
        let gathers = actions.iter().any(|action| matches!(action, AxisAction::Gather(_)));
        let is_whole = |axis: usize, slice: &AxisSlice| {
            slice.start == 0
                && slice.limit == self.x.shape()[axis]
                && slice.stride == 1
                && !slice.reversed
        };
        let keeps_whole_axes =
            operand_axes(&actions).zip(slices.iter().enumerate()).all(|(action, (axis, slice))| {
                !matches!(action, AxisAction::Keep) || is_whole(axis, slice)
            });
        let contiguous = slices.iter().all(|slice| slice.stride == 1 && !slice.reversed);
        match gathers {
            false if contiguous => update_block(self.x, &slices, &actions, values, combiner),
            true if keeps_whole_axes => {
                scatter_windows(self.x, &actions, values, combiner, self.options)
            }
            _ => scatter_elements(self.x, (&slices, &actions), values, combiner, self.options),
        }
    }
}

/// Returns the actions that apply to an axis of the operand.
fn operand_axes(actions: &[AxisAction]) -> impl Iterator<Item = &AxisAction> {
    actions.iter().filter(|action| !matches!(action, AxisAction::Insert))
}

/// Converts `values` to the dtype of `x` and broadcasts them to `shape`.
#[track_caller]
fn broadcast_values(x: &Array, values: Like<'_>, shape: &Shape) -> Array {
    Loc::caller().scope(|| {
        let values = match values {
            Like::Scalar(value) => return fill_of(value, &x.aval().with_shape(shape).strong()),
            Like::Array(values) => values,
        };
        if values.shape().broadcast(shape).as_ref() != Some(shape) || values.rank() > shape.rank() {
            let message =
                format!("values {} do not broadcast to the {shape} elements", values.aval());
            trace::throw_operands("at", RuleError::shape(message), &[x, values]);
        }
        broadcast_to(&convert_element_type(values, x.dtype()), shape)
    })
}

/// Returns the number of axes of an operand.
fn n_axes(values: Like<'_>) -> usize {
    match values {
        Like::Array(values) => values.rank(),
        Like::Scalar(_) => 0,
    }
}

/// Combines elements with values of their shape.
#[track_caller]
fn combined(x: &Array, values: Array, combiner: Combiner) -> Array {
    match combiner {
        Combiner::Update => values,
        Combiner::Add => add(x, &values),
        Combiner::Mul => mul(x, &values),
        Combiner::Min => minimum(x, &values),
        Combiner::Max => maximum(x, &values),
    }
}

/// Updates a contiguous block: slices it out, combines it with the values and writes it back.
#[track_caller]
fn update_block(
    x: &Array,
    slices: &[AxisSlice],
    actions: &[AxisAction],
    values: Like<'_>,
    combiner: Combiner,
) -> Array {
    let shape: Shape = slices.iter().map(|slice| slice.limit - slice.start).collect();
    let values = broadcast_values(x, values, &shape_after(&shape, actions));
    if shape.size() == 0 {
        return x.clone();
    }
    let values = reshape(&values, shape);
    let updated = match combiner {
        Combiner::Update => values,
        _ => combined(&x.slice_axes(slices), values, combiner),
    };
    let starts: Vec<usize> = slices.iter().map(|slice| slice.start).collect();
    dynamic_update_slice(x, &convert_element_type(&updated, x.dtype()), &starts)
}

/// Updates whole slices, addressed by index arrays and static indices, with one scatter.
#[track_caller]
fn scatter_windows(
    x: &Array,
    actions: &[AxisAction],
    values: Like<'_>,
    combiner: Combiner,
    options: IndexOptions,
) -> Array {
    // A static index becomes an index array with one element.
    let mut gathers = Vec::with_capacity(actions.len());
    let mut shape = Vec::new();
    let mut axis = 0;
    for action in actions {
        let size = match action {
            AxisAction::Insert => 1,
            _ => x.shape()[axis],
        };
        shape.push(size);
        axis += usize::from(!matches!(action, AxisAction::Insert));
        gathers.push(match action {
            AxisAction::Drop(index) => {
                AxisAction::Gather(index_of(Scalar::from(*index), DType::I32))
            }
            other => other.clone(),
        });
    }
    let expanded = reshape(x, shape);
    let plan = gather_plan(&expanded, &gathers, options);
    let n_index_axes = plan.indices.rank() - 1;
    let rank = expanded.rank() - plan.axes.len() + n_index_axes;
    let in_window = |axis: &usize| *axis < plan.position || *axis >= plan.position + n_index_axes;
    let numbers = ScatterDimensionNumbers {
        update_window_dims: (0..rank).filter(in_window).collect(),
        inserted_window_dims: plan.axes.clone(),
        scatter_dims_to_operand_dims: plan.axes.clone(),
        ..Default::default()
    };
    let kept = (0..expanded.rank()).filter(|axis| !plan.axes.contains(axis));
    let mut shape: Vec<usize> = kept.map(|axis| expanded.shape()[axis]).collect();
    let index_shape = &plan.indices.shape()[..n_index_axes];
    shape.splice(plan.position..plan.position, index_shape.iter().copied());
    let values = broadcast_values(x, values, &shape.into());
    let options = options.scatter();
    let updated = scatter_with(&expanded, &plan.indices, &values, combiner, &numbers, options);
    reshape(&updated, x.shape())
}

/// Updates single elements, addressed by their flat indices, with one scatter.
#[track_caller]
fn scatter_elements(
    x: &Array,
    (slices, actions): (&[AxisSlice], &[AxisAction]),
    values: Like<'_>,
    combiner: Combiner,
    options: IndexOptions,
) -> Array {
    let fits_i32 = x.size() as i128 <= DType::I32.int_range().1;
    let numbers = iota(if fits_i32 { DType::I32 } else { DType::I64 }, x.size());
    // Indices out of range become the lowest integer, which is out of range as well.
    let of_numbers = IndexOptions { fill_value: None, unique_indices: false, ..options };
    let flat_indices = reshape(&numbers, x.shape()).gather_resolved(
        slices,
        actions,
        GatherScatterMode::FillOrDrop,
        of_numbers,
    );
    let values = broadcast_values(x, values, flat_indices.shape());
    let column = reshape(&flat_indices, flat_indices.shape().insert(flat_indices.rank(), 1));
    let numbers = ScatterDimensionNumbers {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        ..Default::default()
    };
    let flat = reshape(x, [x.size()]);
    // The flat indices need not have the order of the index vectors.
    let options = IndexOptions { indices_are_sorted: false, ..options }.scatter();
    reshape(&scatter_with(&flat, &column, &values, combiner, &numbers, options), x.shape())
}
