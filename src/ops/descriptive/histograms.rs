//! Histograms: how many elements fall between edges.

use super::super::{Index, diff, linspace, ravel_multi_index};
use super::counts::{Side, searchsorted_side};
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::{
    add, convert_element_type, div, eq, fill_of, inexact, ones_like, reshape, slice, sub, where_,
    zeros,
};

/// The bins of a histogram: how many, or between which edges.
#[derive(Clone, Debug)]
pub enum Bins {
    /// So many of equal width from the smallest to the largest element; half a unit to both sides if
    /// they are one.
    Count(usize),
    /// So many of equal width between two numbers.
    Between(usize, f64, f64),
    /// Between neighbours of an increasing vector `[n + 1]`.
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

/// The edges of `n` bins, `[n + 1]`, for the elements of `x`. Integers become floats.
///
/// Throws `Op` (value) for no bins and `Op` (shape) for edges that are no vector of at least two, or if
/// edges are asked of an empty array.
#[track_caller]
pub fn histogram_bin_edges(x: &Array, bins: impl Into<Bins>) -> Array {
    let x = inexact(x);
    let bins = bins.into();
    let wrong = match &bins {
        Bins::Count(0) | Bins::Between(0, ..) => {
            Some(RuleError::value("takes at least one bin, got 0"))
        }
        Bins::Count(_) if x.size() == 0 => Some(
            RuleError::shape("no elements have no smallest and largest")
                .help("give the range with `Bins::Between`"),
        ),
        Bins::Edges(edges) if edges.rank() != 1 || edges.size() < 2 => Some(RuleError::shape(
            format!("edges must be a vector of two and more, got {}", edges.shape()),
        )),
        _ => None,
    };
    if let Some(error) = wrong {
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

/// The bin of each element of a vector: 0 for what lies below, `n + 1` above the edges `[n + 1]`. The
/// last bin holds its upper edge too.
#[track_caller]
fn bin_numbers(x: &Array, edges: &Array) -> Array {
    let n = edges.size() as i32;
    let number = searchsorted_side(edges, x, Side::Right);
    where_(&eq(x, edges.index([Index::At(-1)])), n - 1, number)
}

/// How many elements of the flattened array fall into each of `n` bins, `[n]` in its dtype (integers
/// become floats), and the edges, `[n + 1]`. A bin holds its lower edge; the last one also its upper.
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
    let x = inexact(x);
    histogram_weighted(&x, &ones_like(&x), bins)
}

/// As [`histogram`], each element counting as much as its weight. Throws `Op` (shape) if the shapes
/// differ.
#[track_caller]
pub fn histogram_weighted(x: &Array, weights: &Array, bins: impl Into<Bins>) -> (Array, Array) {
    if x.shape() != weights.shape() {
        let message = format!("weights {} for elements {}", weights.shape(), x.shape());
        trace::throw_operands("histogram", RuleError::shape(message), &[x, weights]);
    }
    let edges = histogram_bin_edges(x, bins);
    let n = edges.size();
    let x = reshape(&inexact(x), [x.size()]);
    let weights = reshape(&inexact(weights), [weights.size()]);
    let at = Index::Array(bin_numbers(&x, &edges));
    let counts = zeros([n], weights.dtype()).at([at]).add(&weights);
    (slice(&counts, &[1], &[n], &[1]), edges)
}

/// As [`histogram`], divided by the widths of the bins and the number of elements in them, so that the
/// integral is 1.
#[track_caller]
pub fn histogram_density(x: &Array, bins: impl Into<Bins>) -> (Array, Array) {
    let (counts, edges) = histogram(x, bins);
    let total = counts.sum();
    (div(div(&counts, diff(&edges, 0)), total), edges)
}

/// How many rows of `x`, `[n, d]`, fall into each of the bins of all `d` columns: `i32` with one axis for
/// each column, and each column's edges. Throws `Op` (shape) if `x` is no matrix and `Op` (value) if there
/// are not as many bins as columns.
#[track_caller]
pub fn histogramdd(x: &Array, bins: &[Bins]) -> (Array, Vec<Array>) {
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
        numbers.push(bin_numbers(column, &edges));
        // Below, the bins, above.
        sizes.push(edges.size() + 1);
        all_edges.push(edges);
    }
    let places: Vec<&Array> = numbers.iter().collect();
    let flat = ravel_multi_index(places, &sizes, super::super::IndexMode::Clip);
    let counts = zeros([sizes.iter().product::<usize>()], DType::I32);
    let counts = counts.at([Index::Array(flat)]).add(1);
    let counts = reshape(&counts, sizes.as_slice());
    let starts = vec![1; sizes.len()];
    let limits: Vec<usize> = sizes.iter().map(|&size| size - 1).collect();
    (slice(&counts, &starts, &limits, &vec![1; sizes.len()]), all_edges)
}

/// [`histogramdd`] of two vectors: counts `i32[n, m]`, the edges of `x` and those of `y`. Throws `Op`
/// (shape) if they are no vectors of one size.
#[track_caller]
pub fn histogram2d(
    x: &Array,
    y: &Array,
    x_bins: impl Into<Bins>,
    y_bins: impl Into<Bins>,
) -> (Array, Array, Array) {
    if x.rank() != 1 || x.shape() != y.shape() {
        let message = format!("takes two vectors of one size, got {} and {}", x.shape(), y.shape());
        trace::throw_operands("histogram2d", RuleError::shape(message), &[x, y]);
    }
    let points = super::super::column_stack([x, y]);
    let (counts, mut edges) = histogramdd(&points, &[x_bins.into(), y_bins.into()]);
    let y_edges = edges.swap_remove(1);
    (counts, edges.swap_remove(0), y_edges)
}
