//! How an index is carried out: slices and reshapes first, one gather for all index arrays.

use super::index::Index;
use super::take::{gather_axes, wrapped};
use crate::core::{Array, RuleError, Shape, trace};
use crate::primitives::{GatherScatterMode, broadcast_to, concatenate, reshape, rev, slice};

/// What one axis of the sliced array becomes.
#[derive(Clone)]
pub(super) enum Place {
    /// It stays.
    Kept,
    /// It disappears: this position was given.
    Dropped(usize),
    /// A new axis of size 1.
    New,
    /// It is picked from by an index array.
    Picked(Array),
}

/// The slice of one axis: start, limit and stride as the primitive takes them, and whether the
/// result is reversed.
#[derive(Clone)]
pub(super) struct Cut {
    pub(super) start: usize,
    pub(super) limit: usize,
    pub(super) stride: usize,
    pub(super) reversed: bool,
}

impl Cut {
    fn whole(size: usize) -> Cut {
        Cut { start: 0, limit: size, stride: 1, reversed: false }
    }

    /// Python's rule: negative bounds count from the back, bounds beyond the axis are cut off.
    fn python(size: usize, start: Option<isize>, stop: Option<isize>, step: isize) -> Cut {
        let n = size as isize;
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let bound = |given: Option<isize>, open: isize| match given {
            Some(given) => (if given < 0 { given + n } else { given }).clamp(low, high),
            None => open,
        };
        let (start, stop) = match step > 0 {
            true => (bound(start, low), bound(stop, high)),
            false => (bound(start, high), bound(stop, low)),
        };
        let distance = if step > 0 { stop - start } else { start - stop };
        if distance <= 0 {
            return Cut { start: 0, limit: 0, stride: 1, reversed: false };
        }
        let stride = step.unsigned_abs();
        let count = (distance as usize).div_ceil(stride);
        let last = start + (count as isize - 1) * step;
        let (first, end) = if step > 0 { (start, last) } else { (last, start) };
        Cut { start: first as usize, limit: end as usize + 1, stride, reversed: step < 0 }
    }
}

/// The index with its ellipsis replaced by whole axes and one entry or more for every axis.
fn expanded(indices: &[Index], rank: usize) -> Result<Vec<Index>, RuleError> {
    let ellipses = indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count();
    if ellipses > 1 {
        return Err(RuleError::value(format!("takes one ellipsis, got {ellipses}")));
    }
    let taken =
        indices.iter().filter(|index| !matches!(index, Index::Ellipsis | Index::NewAxis)).count();
    if taken > rank {
        return Err(RuleError::shape(format!("{taken} indices for an array of rank {rank}")));
    }
    let whole =
        || std::iter::repeat_n(Index::Slice { start: None, stop: None, step: 1 }, rank - taken);
    let mut full = Vec::new();
    for index in indices {
        match index {
            Index::Ellipsis => full.extend(whole()),
            other => full.push(other.clone()),
        }
    }
    if ellipses == 0 {
        full.extend(whole());
    }
    Ok(full)
}

/// The plan: a cut for each axis, and what becomes of it.
pub(super) fn plan(indices: &[Index], x: &Array) -> Result<(Vec<Cut>, Vec<Place>), RuleError> {
    let (mut cuts, mut places) = (Vec::new(), Vec::new());
    for index in expanded(indices, x.rank())? {
        let axis = cuts.len();
        let size = x.shape().get(axis).copied().unwrap_or(0);
        match index {
            Index::NewAxis => places.push(Place::New),
            Index::At(position) => {
                let from_start = if position < 0 { position + size as isize } else { position };
                let start = usize::try_from(from_start).ok().filter(|&start| start < size);
                let start = start.ok_or_else(|| {
                    RuleError::value(format!(
                        "index {position} is out of range for axis {axis} of size {size}"
                    ))
                })?;
                cuts.push(Cut { start, limit: start + 1, stride: 1, reversed: false });
                places.push(Place::Dropped(start));
            }
            Index::Slice { step: 0, .. } => {
                return Err(RuleError::value(format!("the slice of axis {axis} has step 0")));
            }
            Index::Slice { start, stop, step } => {
                cuts.push(Cut::python(size, start, stop, step));
                places.push(Place::Kept);
            }
            Index::Array(array) => {
                check_index_array(&array, axis)?;
                if size == 0 && array.size() > 0 {
                    return Err(RuleError::shape(format!(
                        "axis {axis} is empty, so there is nothing to pick {} elements from",
                        array.size()
                    )));
                }
                cuts.push(Cut::whole(size));
                places.push(Place::Picked(array));
            }
            Index::Ellipsis => {}
        }
    }
    Ok((cuts, places))
}

fn check_index_array(array: &Array, axis: usize) -> Result<(), RuleError> {
    if array.dtype().is_bool() {
        return Err(RuleError::unsupported(format!(
            "axis {axis} is indexed by a boolean mask {}, whose result would have a size that depends on its elements: not yet",
            array.aval()
        ))
        .help("keep the shape with `where_(mask, x, 0.0)`"));
    }
    match array.dtype().is_integer() {
        true => Ok(()),
        false => Err(RuleError::dtype(format!(
            "axis {axis} is indexed by {}, indices are integers",
            array.aval()
        ))),
    }
}

/// Indexing.
impl Array {
    /// The elements that `indices` names, as NumPy and JAX index; write the list with
    /// [`i!`](crate::i): `x.index(i![0, .., -3.., None])`.
    ///
    /// Axes that are not named stay whole. Several index arrays broadcast against each other and
    /// pick together; their axes stand where the first of them stood, or in front if something else
    /// stands between them. Elements of index arrays may be negative; those out of range are clamped
    /// to the nearest position, and so are their cotangents (a position given as a number is checked
    /// instead).
    ///
    /// Throws `Op` for too many indices, positions and axes out of range, and boolean masks.
    #[doc(alias = "getitem")]
    #[track_caller]
    pub fn index(&self, indices: impl AsRef<[Index]>) -> Array {
        match plan(indices.as_ref(), self) {
            Ok((cuts, places)) => self.at_places(&cuts, &places, GatherScatterMode::Clip),
            Err(error) => trace::throw_operands("index", error, &[self]),
        }
    }

    /// The elements at the places of a plan; `mode` says what stands for those out of range.
    #[track_caller]
    pub(super) fn at_places(
        &self,
        cuts: &[Cut],
        places: &[Place],
        mode: GatherScatterMode,
    ) -> Array {
        let cut = self.cut(cuts);
        let arranged = reshape(&cut, arranged(&cut, places));
        if !places.iter().any(|place| matches!(place, Place::Picked(_))) {
            return arranged;
        }
        let address = address(&arranged, places);
        gather_axes(&arranged, &address.axes, &address.indices, address.place, mode)
    }

    #[track_caller]
    pub(super) fn cut(&self, cuts: &[Cut]) -> Array {
        let starts: Vec<usize> = cuts.iter().map(|cut| cut.start).collect();
        let limits: Vec<usize> = cuts.iter().map(|cut| cut.limit).collect();
        let strides: Vec<usize> = cuts.iter().map(|cut| cut.stride).collect();
        let whole = starts.iter().all(|&start| start == 0)
            && limits == self.shape().dims()
            && strides.iter().all(|&stride| stride == 1);
        let cut = if whole { self.clone() } else { slice(self, &starts, &limits, &strides) };
        let reversed: Vec<isize> =
            (0..cuts.len()).filter(|&axis| cuts[axis].reversed).map(|axis| axis as isize).collect();
        if reversed.is_empty() { cut } else { rev(&cut, &reversed) }
    }
}

/// The shape after dropping and inserting axes, without index arrays.
pub(super) fn arranged(x: &Array, places: &[Place]) -> Shape {
    let mut axis = 0;
    let mut shape = Vec::new();
    for place in places {
        match place {
            Place::New => shape.push(1),
            Place::Dropped(_) => axis += 1,
            Place::Kept | Place::Picked(_) => {
                shape.push(x.shape()[axis]);
                axis += 1;
            }
        }
    }
    shape.into()
}

/// Where index arrays address an array: which of its axes, with which index vectors (along the last
/// axis), and before which axis of what is left their own axes stand.
pub(super) struct Address {
    pub(super) axes: Vec<usize>,
    pub(super) indices: Array,
    pub(super) place: usize,
}

/// Brings all index arrays together. `x` has the axes that `places` keeps, adds or picks from.
#[track_caller]
pub(super) fn address(x: &Array, places: &[Place]) -> Address {
    // Positions given as numbers count as index arrays when it comes to where the axes stand.
    let advanced: Vec<usize> = (0..places.len())
        .filter(|&at| matches!(places[at], Place::Picked(_) | Place::Dropped(_)))
        .collect();
    let together = advanced.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let (mut arrays, mut axes) = (Vec::new(), Vec::new());
    let (mut axis, mut before_first) = (0, 0);
    for (at, place) in places.iter().enumerate() {
        if at == advanced[0] {
            before_first = axis;
        }
        match place {
            Place::Dropped(_) => {}
            Place::Kept | Place::New => axis += 1,
            Place::Picked(array) => {
                arrays.push(wrapped(array, x.shape()[axis]));
                axes.push(axis);
                axis += 1;
            }
        }
    }
    let mut joint = Shape::scalar();
    for array in &arrays {
        joint = match joint.broadcast(array.shape()) {
            Some(joint) => joint,
            None => {
                let shapes: Vec<String> = arrays.iter().map(|a| a.shape().to_string()).collect();
                let message = format!("index arrays do not broadcast: {}", shapes.join(", "));
                trace::throw_operands("index", RuleError::shape(message), &[x])
            }
        };
    }
    let column = joint.insert(joint.rank(), 1);
    let mut columns = Vec::new();
    for array in &arrays {
        columns.push(reshape(&broadcast_to(array, &joint), column.clone()));
    }
    let indices = concatenate(&columns.iter().collect::<Vec<_>>(), -1);
    Address { axes, indices, place: if together { before_first } else { 0 } }
}
