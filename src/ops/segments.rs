//! Reductions of segments: rows that share an id.

use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::{
    Combiner, GatherScatterMode, ScatterDimensionNumbers, ScatterOptions, concatenate,
    convert_element_type, fill_of, highest, iota, lax_div, lowest, reduce_max, reduce_min,
    reduce_prod, reduce_sum, reshape, scatter_with,
};

/// Options of [`segment_sum_with`], [`segment_prod_with`], [`segment_max_with`] and
/// [`segment_min_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Promises that the ids are sorted. The default is false.
    pub indices_are_sorted: bool,
    /// Promises that no id occurs twice. The default is false.
    pub unique_indices: bool,
    /// The treatment of ids out of range. The default is [`GatherScatterMode::FillOrDrop`].
    pub mode: GatherScatterMode,
    /// Reduces this many rows at a time and then their results, which loses less accuracy for large
    /// segments. `None`, the default, reduces all rows at once.
    pub bucket_size: Option<usize>,
}

/// Returns the sum of the rows of each segment: `data` `[n, …]` and `segment_ids` `[n]` give
/// `[num_segments, …]`. Row `i` of the result is the sum of the rows of `data` whose id is `i`, and
/// 0 if there are none.
///
/// Ids need no order; rows with ids outside `0..num_segments` are dropped. JAX computes
/// `num_segments` from concrete ids; here it is always written. This is the aggregation of messages
/// in a graph network.
///
/// Throws `Op` unless `segment_ids` is a vector of integers with one id for each row.
///
/// ```
/// use oxidax::prelude::*;
/// let (messages, receivers) = (Aval::new(DType::F32, [64, 8]), Aval::new(DType::I32, [64]));
/// let nodes = eval_shape(
///     |messages: Array, receivers: Array| segment_sum(&messages, &receivers, 10),
///     (messages, receivers),
/// )?;
/// assert_eq!(nodes.aval().to_string(), "f32[10,8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.ops.segment_sum")]
#[track_caller]
pub fn segment_sum(data: &Array, segment_ids: &Array, num_segments: usize) -> Array {
    segment_sum_with(data, segment_ids, num_segments, SegmentOptions::default())
}

/// As [`segment_sum`], with options.
///
/// ```
/// use oxidax::prelude::*;
/// let options = SegmentOptions { indices_are_sorted: true, ..Default::default() };
/// let y = segment_sum_with(&array![2.0, 3.0, 5.0], &array![0, 0, 2], 3, options);
/// assert_eq!(y.to_vec::<f32>()?, [5.0, 0.0, 5.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn segment_sum_with(
    data: &Array,
    segment_ids: &Array,
    num_segments: usize,
    options: SegmentOptions,
) -> Array {
    reduce_segments("segment_sum", data, segment_ids, num_segments, Combiner::Add, options)
}

/// Returns the product of the rows of each segment, and 1 for a segment without rows. See
/// [`segment_sum`] for operands and errors.
///
/// ```
/// use oxidax::prelude::*;
/// let y = segment_prod(&array![2.0, 3.0, 5.0], &array![0, 0, 2], 3);
/// assert_eq!(y.to_vec::<f32>()?, [6.0, 1.0, 5.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.ops.segment_prod")]
#[track_caller]
pub fn segment_prod(data: &Array, segment_ids: &Array, num_segments: usize) -> Array {
    segment_prod_with(data, segment_ids, num_segments, SegmentOptions::default())
}

/// As [`segment_prod`], with options.
#[track_caller]
pub fn segment_prod_with(
    data: &Array,
    segment_ids: &Array,
    num_segments: usize,
    options: SegmentOptions,
) -> Array {
    reduce_segments("segment_prod", data, segment_ids, num_segments, Combiner::Mul, options)
}

/// Returns the largest element of each segment, and for a segment without rows the lowest value of
/// the dtype, which is `-∞` for floats. See [`segment_sum`] for operands and errors.
///
/// ```
/// use oxidax::prelude::*;
/// let y = segment_max(&array![2.0, 3.0, 5.0], &array![0, 0, 1], 2);
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 5.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.ops.segment_max")]
#[track_caller]
pub fn segment_max(data: &Array, segment_ids: &Array, num_segments: usize) -> Array {
    segment_max_with(data, segment_ids, num_segments, SegmentOptions::default())
}

/// As [`segment_max`], with options.
#[track_caller]
pub fn segment_max_with(
    data: &Array,
    segment_ids: &Array,
    num_segments: usize,
    options: SegmentOptions,
) -> Array {
    reduce_segments("segment_max", data, segment_ids, num_segments, Combiner::Max, options)
}

/// Returns the smallest element of each segment, and for a segment without rows the highest value
/// of the dtype, which is `∞` for floats. See [`segment_sum`] for operands and errors.
///
/// ```
/// use oxidax::prelude::*;
/// let y = segment_min(&array![2.0, 3.0, 5.0], &array![0, 0, 1], 2);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 5.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.ops.segment_min")]
#[track_caller]
pub fn segment_min(data: &Array, segment_ids: &Array, num_segments: usize) -> Array {
    segment_min_with(data, segment_ids, num_segments, SegmentOptions::default())
}

/// As [`segment_min`], with options.
#[track_caller]
pub fn segment_min_with(
    data: &Array,
    segment_ids: &Array,
    num_segments: usize,
    options: SegmentOptions,
) -> Array {
    reduce_segments("segment_min", data, segment_ids, num_segments, Combiner::Min, options)
}

/// Returns the value that a reduction of no elements has.
fn neutral(combiner: Combiner, dtype: DType) -> Scalar {
    match combiner {
        Combiner::Add | Combiner::Update => Scalar::Int(0),
        Combiner::Mul => Scalar::Int(1),
        Combiner::Max => lowest(dtype),
        Combiner::Min => highest(dtype),
    }
}

#[track_caller]
fn reduce_segments(
    name: &str,
    data: &Array,
    segment_ids: &Array,
    num_segments: usize,
    combiner: Combiner,
    options: SegmentOptions,
) -> Array {
    let error = if !segment_ids.dtype().is_integer() {
        let message = format!("segment ids must be integers, got {}", segment_ids.aval());
        Some(RuleError::dtype(message))
    } else if segment_ids.rank() != 1 || data.shape().first() != segment_ids.shape().first() {
        let message = format!(
            "takes data [n, …] and segment ids [n], got {} and {}",
            data.aval(),
            segment_ids.aval()
        );
        Some(RuleError::shape(message))
    } else if options.bucket_size == Some(0) {
        Some(RuleError::value("a bucket has at least one row, got `bucket_size: Some(0)`"))
    } else {
        None
    };
    if let Some(error) = error {
        trace::throw_operands(name, error, &[data, segment_ids]);
    }
    // Narrow ids may not hold the number of segments.
    let ids = match segment_ids.dtype() {
        narrow if narrow.bits() < 32 => convert_element_type(segment_ids, DType::I32),
        _ => segment_ids.clone(),
    };
    let n = ids.size();
    let column = reshape(&ids, [n, 1]);
    let mut shape = data.shape().to_vec();
    shape[0] = num_segments;
    let promises = ScatterOptions {
        mode: options.mode,
        unique_indices: options.unique_indices,
        indices_are_sorted: options.indices_are_sorted,
    };
    let Some(size) = options.bucket_size else {
        return scatter_rows(data, &column, &shape, combiner, promises);
    };
    shape.insert(0, n.div_ceil(size));
    let buckets = lax_div(iota(ids.dtype(), n), size);
    let indices = concatenate([&reshape(&buckets, [n, 1]), &column], 1);
    let of_buckets = scatter_rows(data, &indices, &shape, combiner, promises);
    match combiner {
        Combiner::Add | Combiner::Update => reduce_sum(&of_buckets, &[0]),
        Combiner::Mul => reduce_prod(&of_buckets, &[0]),
        Combiner::Max => reduce_max(&of_buckets, &[0]),
        Combiner::Min => reduce_min(&of_buckets, &[0]),
    }
}

/// Combines the rows of `data` into an array of shape `shape`, at the indices of its first axes.
#[track_caller]
fn scatter_rows(
    data: &Array,
    indices: &Array,
    shape: &[usize],
    combiner: Combiner,
    options: ScatterOptions,
) -> Array {
    let start = fill_of(neutral(combiner, data.dtype()), &data.aval().with_shape(shape).strong());
    let axes: Vec<usize> = (0..indices.shape()[1]).collect();
    let numbers = ScatterDimensionNumbers {
        update_window_dims: (1..data.rank()).collect(),
        inserted_window_dims: axes.clone(),
        scatter_dims_to_operand_dims: axes,
        ..Default::default()
    };
    scatter_with(&start, indices, data, combiner, &numbers, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
    use crate::transforms::eval_shape;
    use expect_test::expect;

    #[test]
    fn rejects_ids_that_do_not_fit() {
        let message = |data: Aval, ids: Aval| {
            let sum = |data: Array, ids: Array| segment_sum(&data, &ids, 3);
            let text = eval_shape(sum, (data, ids)).unwrap_err().to_string();
            text.lines().next().unwrap_or_default().to_string()
        };
        let data = Aval::new(DType::F32, [4, 2]);
        expect!["error[shape]: segment_sum: takes data [n, …] and segment ids [n], got f32[4,2] and i32[3]"]
            .assert_eq(&message(data.clone(), Aval::new(DType::I32, [3])));
        expect!["error[dtype]: segment_sum: segment ids must be integers, got f32[4]"]
            .assert_eq(&message(data, Aval::new(DType::F32, [4])));
    }

    #[test]
    fn rejects_empty_buckets() {
        let options = SegmentOptions { bucket_size: Some(0), ..SegmentOptions::default() };
        let sum = |data: Array, ids: Array| segment_sum_with(&data, &ids, 3, options);
        let types = (Aval::new(DType::F32, [4]), Aval::new(DType::I32, [4]));
        let text = eval_shape(sum, types).unwrap_err().to_string();
        assert!(text.contains("a bucket has at least one row, got `bucket_size: Some(0)`"));
    }
}
