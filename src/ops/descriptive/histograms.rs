//! Histograms.

use super::super::{Index, diff, linspace, ravel_multi_index};
use super::counts::{SearchsortedOptions, Side, searchsorted_with};
use crate::core::{Array, DType, Loc, RuleError, Scalar, trace};
use crate::primitives::{
    add, convert_element_type, div, eq, fill_of, inexact, ones, ones_like, reshape, slice, sub,
    where_, zeros,
};

/// Bins of a histogram: their number, a range, or their edges.
#[derive(Clone, Debug)]
pub enum Bins {
    /// This number of bins of equal width between the smallest and the largest element. If these
    /// are equal, the range extends half a unit to both sides.
    Count(usize),
    /// This number of bins of equal width between two numbers.
    Between(usize, f64, f64),
    /// Bins between neighbouring elements of an increasing vector, `[n + 1]`.
    Edges(Array),
}

impl From<usize> for Bins {
    fn from(count: usize) -> Bins {
        Bins::Count(count)
    }
}

impl From<&Array> for Bins {
    fn from(edges: &Array) -> Bins {
        Bins::Edges(edges.clone())
    }
}

/// Returns the edges of `n` bins, `[n + 1]`, for the elements of `x`. Integers become floats.
///
/// Throws `Op` (value) for 0 bins, and `Op` (shape) unless edges are a vector of at least two or if
/// `x` is empty and the bins have no range.
#[track_caller]
pub fn histogram_bin_edges(x: &Array, bins: impl Into<Bins>) -> Array {
    let x = inexact(x);
    let bins = bins.into();
    let error = match &bins {
        Bins::Count(0) | Bins::Between(0, ..) => {
            Some(RuleError::value("takes at least one bin, got 0"))
        }
        Bins::Count(_) if x.size() == 0 => Some(
            RuleError::shape("an empty array does not determine a range")
                .help("set the range with `Bins::Between`"),
        ),
        Bins::Edges(edges) if edges.rank() != 1 || edges.size() < 2 => Some(RuleError::shape(
            format!("edges must be a vector of at least two elements, got {}", edges.shape()),
        )),
        _ => None,
    };
    if let Some(error) = error {
        trace::throw_operands("histogram_bin_edges", error, &[&x]);
    }
    match bins {
        Bins::Edges(edges) => convert_element_type(&edges, x.dtype()),
        Bins::Between(count, low, high) => {
            let half = if low == high { 0.5 } else { 0.0 };
            let aval = x.aval().strong().with_shape([]);
            let low = fill_of(Scalar::Float(low - half), &aval);
            linspace(low, fill_of(Scalar::Float(high + half), &aval), count + 1)
        }
        Bins::Count(count) => {
            let (low, high) = (x.min(), x.max());
            let single = eq(&low, &high);
            let low = where_(&single, sub(&low, 0.5), &low);
            let high = where_(&single, add(&high, 0.5), &high);
            linspace(low, high, count + 1)
        }
    }
}

/// Returns the bin of each element of a vector, from 1 to `n` for edges `[n + 1]`: 0 below and `n +
/// 1` above the edges. The last bin includes its upper edge.
#[track_caller]
fn bin_indices(x: &Array, edges: &Array) -> Array {
    let n = edges.size() as i32;
    let number =
        searchsorted_with(edges, x, SearchsortedOptions { side: Side::Right, sorter: None });
    where_(eq(x, edges.index([Index::At(-1)])), n - 1, number)
}

/// Options of [`histogram_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct HistogramOptions<'a> {
    /// Weights of the elements, in their shape. All are 1 if `None`.
    pub weights: Option<&'a Array>,
    /// Divides by the sum and by the widths of the bins, so that the integral is 1. The default is
    /// false.
    pub density: bool,
}

/// Counts the elements of the flattened array in each of `n` bins. Returns the counts, `[n]`, in
/// the dtype of the array, and the edges, `[n + 1]`. Integers become floats. A bin includes its
/// lower edge, the last bin also its upper edge.
///
/// ```
/// use oxidax::prelude::*;
/// let (counts, edges) = eval_shape(
///     |x: Array| histogram(&x, Bins::Between(10, 0.0, 1.0)),
///     Aval::new(DType::F32, [1000]),
/// )?;
/// assert_eq!((counts.size(), edges.size()), (10, 11));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn histogram(x: &Array, bins: impl Into<Bins>) -> (Array, Array) {
    histogram_with(x, bins, HistogramOptions::default())
}

/// Returns a histogram, as [`histogram`], of weighted elements or as a density. Throws `Op` (shape)
/// if the shapes of elements and weights differ.
#[track_caller]
pub fn histogram_with(
    x: &Array,
    bins: impl Into<Bins>,
    options: HistogramOptions<'_>,
) -> (Array, Array) {
    let weights = match options.weights {
        Some(weights) => weights.clone(),
        None => ones_like(&inexact(x)),
    };
    if x.shape() != weights.shape() {
        let message = format!("weights {} for elements {}", weights.shape(), x.shape());
        trace::throw_operands("histogram", RuleError::shape(message), &[x, &weights]);
    }
    let edges = histogram_bin_edges(x, bins);
    let n = edges.size();
    let x = reshape(&inexact(x), [x.size()]);
    let weights = reshape(&inexact(&weights), [weights.size()]);
    let bins = Index::Array(bin_indices(&x, &edges));
    let counts = zeros(([n], weights.dtype())).at([bins]).add(&weights);
    let counts = slice(&counts, &[1], &[n], &[1]);
    if !options.density {
        return (counts, edges);
    }
    let total = counts.sum();
    (div(div(&counts, diff(&edges, 0)), total), edges)
}

/// Counts the rows of `x`, `[n, d]`, in the bins of their `d` columns. Returns the counts, `i32`
/// with one axis for each column, and the edges of each column. Throws `Op` (shape) unless `x` is a
/// matrix, and `Op` (value) unless there is one `Bins` for each column.
#[track_caller]
pub fn histogramdd(x: &Array, bins: &[Bins]) -> (Array, Vec<Array>) {
    binned(x, bins, HistogramOptions::default())
}

/// Returns a histogram of rows, as [`histogramdd`], weighted or as a density. The counts have the
/// dtype of the weights, or that of `x`; integers become floats.
///
/// Throws `Op` (shape) unless there is one weight for each row.
#[track_caller]
pub fn histogramdd_with(
    x: &Array,
    bins: &[Bins],
    options: HistogramOptions<'_>,
) -> (Array, Vec<Array>) {
    Loc::caller().scope(|| {
        let (mut counts, edges) = binned(x, bins, options);
        if options.weights.is_none() {
            counts = convert_element_type(&counts, inexact(x).dtype());
        }
        if options.density {
            counts = div(&counts, counts.sum());
            for (axis, edges) in edges.iter().enumerate() {
                let mut shape = vec![1; bins.len()];
                shape[axis] = edges.size() - 1;
                counts = div(&counts, reshape(&diff(edges, 0), shape));
            }
        }
        (counts, edges)
    })
}

/// Returns the sums of the weights in each bin, or `i32` counts, and the edges.
#[track_caller]
fn binned(x: &Array, bins: &[Bins], options: HistogramOptions<'_>) -> (Array, Vec<Array>) {
    Loc::caller().scope(|| {
        let columns = match x.rank() {
            2 => x.shape()[1],
            rank => {
                let message = format!("takes a matrix of one row for each point, got rank {rank}");
                trace::throw_operands("histogramdd", RuleError::shape(message), &[x])
            }
        };
        if columns != bins.len() || columns == 0 {
            let message = format!("{} bins for {columns} columns", bins.len());
            trace::throw_operands("histogramdd", RuleError::value(message), &[x]);
        }
        let x = inexact(x);
        let (mut numbers, mut sizes, mut all_edges) = (Vec::new(), Vec::new(), Vec::new());
        for (column, bins) in super::super::unstack(&x, 1).iter().zip(bins) {
            let edges = histogram_bin_edges(column, bins.clone());
            numbers.push(bin_indices(column, &edges));
            // One more bin below the edges and one above.
            sizes.push(edges.size() + 1);
            all_edges.push(edges);
        }
        let multi_index: Vec<&Array> = numbers.iter().collect();
        let flat = ravel_multi_index(multi_index, &sizes, super::super::IndexMode::Clip);
        let weights = match options.weights {
            Some(weights) if *weights.shape().dims() == [x.shape()[0]] => inexact(weights),
            Some(weights) => {
                let message = format!("weights {} for {} rows", weights.shape(), x.shape()[0]);
                trace::throw_operands("histogramdd", RuleError::shape(message), &[&x, weights])
            }
            // Whole numbers of `i32` are exact where those of a narrow float are not.
            None => ones(([x.shape()[0]], DType::I32)),
        };
        let counts = zeros(([sizes.iter().product::<usize>()], weights.dtype()));
        let counts = counts.at([Index::Array(flat)]).add(&weights);
        let counts = reshape(&counts, sizes.as_slice());
        let starts = vec![1; sizes.len()];
        let limits: Vec<usize> = sizes.iter().map(|&size| size - 1).collect();
        (slice(&counts, &starts, &limits, &vec![1; sizes.len()]), all_edges)
    })
}

/// Returns [`histogramdd`] of two vectors: the counts, `i32[n, m]`, the edges of `x` and the edges
/// of
/// `y`. Throws `Op` (shape) unless they are vectors of one size.
#[track_caller]
pub fn histogram2d(
    x: &Array,
    y: &Array,
    x_bins: impl Into<Bins>,
    y_bins: impl Into<Bins>,
) -> (Array, Array, Array) {
    plane("histogram2d", x, y, [x_bins.into(), y_bins.into()], histogramdd)
}

/// Returns a histogram of points in a plane, as [`histogram2d`], weighted or as a density. See
/// [`histogramdd_with`].
#[track_caller]
pub fn histogram2d_with(
    x: &Array,
    y: &Array,
    x_bins: impl Into<Bins>,
    y_bins: impl Into<Bins>,
    options: HistogramOptions<'_>,
) -> (Array, Array, Array) {
    plane("histogram2d", x, y, [x_bins.into(), y_bins.into()], |points, bins| {
        histogramdd_with(points, bins, options)
    })
}

/// Counts points in a plane as rows of a matrix.
#[track_caller]
fn plane(
    name: &str,
    x: &Array,
    y: &Array,
    bins: [Bins; 2],
    count: impl FnOnce(&Array, &[Bins]) -> (Array, Vec<Array>),
) -> (Array, Array, Array) {
    Loc::caller().scope(|| {
        if x.rank() != 1 || x.shape() != y.shape() {
            let message =
                format!("takes two vectors of one size, got {} and {}", x.shape(), y.shape());
            trace::throw_operands(name, RuleError::shape(message), &[x, y]);
        }
        let points = super::super::column_stack([x, y]);
        let (counts, mut edges) = count(&points, &bins);
        let y_edges = edges.swap_remove(1);
        (counts, edges.swap_remove(0), y_edges)
    })
}
