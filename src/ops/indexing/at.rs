//! Updating the elements that an index names.

use super::index::Index;
use super::resolve::{Cut, Place, address, arranged, plan};
use crate::core::{Array, DType, RuleError, Scalar, Shape, trace};
use crate::primitives::{
    ArrayLike, Combiner, GatherScatterMode, Like, ScatterDimensionNumbers, add, broadcast_to,
    convert_element_type, dynamic_update_slice, fill_of, iota, maximum, minimum, mul, reshape,
    scatter,
};

/// Some elements of an array, to be replaced or combined with others: what [`Array::at`] gives.
///
/// Each method gives a new array and takes values that broadcast to the shape of
/// [`Array::index`] with the same index; they are converted to the array's dtype. Elements of index
/// arrays may be negative; updates at places out of range are left out.
#[derive(Clone, Debug)]
pub struct At<'a> {
    x: &'a Array,
    indices: Vec<Index>,
}

/// Functional updates.
impl Array {
    /// The elements that `indices` names, to be updated: `x.at(i![0, 1..3]).set(0.0)`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let (counts, ids) = (Aval::new(DType::I32, [10]), Aval::new(DType::I32, [64]));
    /// let y = eval_shape(|counts: Array, ids: Array| counts.at(i![&ids]).add(1), (counts, ids))?;
    /// assert_eq!(y.aval().to_string(), "i32[10]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn at(&self, indices: impl AsRef<[Index]>) -> At<'_> {
        At { x: self, indices: indices.as_ref().to_vec() }
    }
}

impl At<'_> {
    /// The array with these elements replaced. Which value wins if an element is named twice is up
    /// to the platform.
    ///
    /// Throws `Op` if the index does not fit the array or the values the index.
    #[track_caller]
    pub fn set(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Update)
    }

    /// The array with the values added, as often as an element is named.
    ///
    /// Throws `Op` if the index does not fit the array or the values the index.
    #[track_caller]
    pub fn add(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Add)
    }

    /// The array with the values multiplied in, as often as an element is named.
    ///
    /// Throws `Op` if the index does not fit the array or the values the index.
    #[doc(alias = "multiply")]
    #[track_caller]
    pub fn mul(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Mul)
    }

    /// The array with the smaller of each named element and its values.
    ///
    /// Throws `Op` if the index does not fit the array or the values the index.
    #[track_caller]
    pub fn min(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Min)
    }

    /// The array with the larger of each named element and its values.
    ///
    /// Throws `Op` if the index does not fit the array or the values the index.
    #[track_caller]
    pub fn max(&self, values: impl ArrayLike) -> Array {
        self.update(values.like(), Combiner::Max)
    }

    #[track_caller]
    fn update(&self, values: Like<'_>, combiner: Combiner) -> Array {
        let (cuts, places) = match plan(&self.indices, self.x) {
            Ok(plan) => plan,
            Err(error) => trace::throw_operands("at", error, &[self.x]),
        };
        let picks = places.iter().any(|place| matches!(place, Place::Picked(_)));
        let whole = |axis: usize, cut: &Cut| {
            cut.start == 0 && cut.limit == self.x.shape()[axis] && cut.stride == 1 && !cut.reversed
        };
        let kept_whole = axes_of(&places)
            .zip(cuts.iter().enumerate())
            .all(|(place, (axis, cut))| !matches!(place, Place::Kept) || whole(axis, cut));
        let plain = cuts.iter().all(|cut| cut.stride == 1 && !cut.reversed);
        match picks {
            false if plain => rectangle(self.x, &cuts, &places, values, combiner),
            true if kept_whole => windows(self.x, &places, values, combiner),
            _ => one_by_one(self.x, &cuts, &places, values, combiner),
        }
    }
}

/// The places that stand for an axis of the array.
fn axes_of(places: &[Place]) -> impl Iterator<Item = &Place> {
    places.iter().filter(|place| !matches!(place, Place::New))
}

/// The values as an array of the dtype of `x` and this shape.
#[track_caller]
fn fitted(x: &Array, values: Like<'_>, shape: &Shape) -> Array {
    let values = match values {
        Like::Scalar(value) => return fill_of(value, &x.aval().with_shape(shape).strong()),
        Like::Array(values) => values,
    };
    if values.shape().broadcast(shape).as_ref() != Some(shape) || values.rank() > shape.rank() {
        let message = format!("values {} do not broadcast to the {shape} elements", values.aval());
        trace::throw_operands("at", RuleError::shape(message), &[x, values]);
    }
    broadcast_to(&convert_element_type(values, x.dtype()), shape)
}

/// One block of neighbours: taken out, combined and put back.
#[track_caller]
fn rectangle(
    x: &Array,
    cuts: &[Cut],
    places: &[Place],
    values: Like<'_>,
    combiner: Combiner,
) -> Array {
    let block = x.cut(cuts);
    let values = fitted(x, values, &arranged(&block, places));
    if block.size() == 0 {
        return x.clone();
    }
    let values = reshape(&values, block.shape());
    let updated = match combiner {
        Combiner::Update => values,
        Combiner::Add => add(&block, &values),
        Combiner::Mul => mul(&block, &values),
        Combiner::Min => minimum(&block, &values),
        Combiner::Max => maximum(&block, &values),
    };
    let starts: Vec<usize> = cuts.iter().map(|cut| cut.start).collect();
    dynamic_update_slice(x, &convert_element_type(&updated, x.dtype()), &starts)
}

/// Index arrays and positions among whole axes: whole slices are scattered.
#[track_caller]
fn windows(x: &Array, places: &[Place], values: Like<'_>, combiner: Combiner) -> Array {
    // A position is an index array with one element.
    let mut all = Vec::with_capacity(places.len());
    let mut shape = Vec::new();
    let mut axis = 0;
    for place in places {
        let size = match place {
            Place::New => 1,
            _ => x.shape()[axis],
        };
        shape.push(size);
        axis += usize::from(!matches!(place, Place::New));
        all.push(match place {
            Place::Dropped(position) => Place::Picked(fill_of(
                Scalar::from(*position),
                &crate::core::Aval::new(DType::I32, Shape::scalar()),
            )),
            other => other.clone(),
        });
    }
    let wide = reshape(x, shape);
    let address = address(&wide, &all);
    let n_picked = address.indices.rank() - 1;
    let rank = wide.rank() - address.axes.len() + n_picked;
    let in_window = |axis: &usize| *axis < address.place || *axis >= address.place + n_picked;
    let numbers = ScatterDimensionNumbers {
        update_window_dims: (0..rank).filter(in_window).collect(),
        inserted_window_dims: address.axes.clone(),
        scatter_dims_to_operand_dims: address.axes.clone(),
        ..Default::default()
    };
    let kept = (0..wide.rank()).filter(|axis| !address.axes.contains(axis));
    let mut shape: Vec<usize> = kept.map(|axis| wide.shape()[axis]).collect();
    let picked = &address.indices.shape()[..n_picked];
    shape.splice(address.place..address.place, picked.iter().copied());
    let values = fitted(x, values, &shape.into());
    let mode = GatherScatterMode::FillOrDrop;
    reshape(&scatter(&wide, &address.indices, &values, combiner, &numbers, mode), x.shape())
}

/// Everything else: the flattened array is updated at the flat position of each element.
#[track_caller]
fn one_by_one(
    x: &Array,
    cuts: &[Cut],
    places: &[Place],
    values: Like<'_>,
    combiner: Combiner,
) -> Array {
    let fits = x.size() as i128 <= DType::I32.int_range().1;
    let numbers = iota(if fits { DType::I32 } else { DType::I64 }, x.size());
    // Places out of range get the lowest integer, which is out of range again.
    let positions =
        reshape(&numbers, x.shape()).at_places(cuts, places, GatherScatterMode::FillOrDrop);
    let values = fitted(x, values, positions.shape());
    let column = reshape(&positions, positions.shape().insert(positions.rank(), 1));
    let numbers = ScatterDimensionNumbers {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        ..Default::default()
    };
    let flat = reshape(x, [x.size()]);
    let mode = GatherScatterMode::FillOrDrop;
    reshape(&scatter(&flat, &column, &values, combiner, &numbers, mode), x.shape())
}
