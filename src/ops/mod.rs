//! Composite functions: what NumPy and `jax.nn` offer, written with primitives.
//!
//! Nothing here has rules of its own: every function is a few primitives, so it works under every
//! transform. Methods of [`Array`](crate::core::Array) live here too: reductions with axes,
//! reshaping, elementwise functions, indexing.

mod activations;
mod arrange;
mod attention;
mod axes;
mod calculus;
mod choosing;
mod collectives;
mod convolve;
mod creation;
mod dtypes;
mod einsum;
mod elementary;
mod elementwise;
pub mod fft;
mod grids;
mod indexing;
mod joining;
pub mod linalg;
mod methods;
mod numeric;
mod polynomials;
mod pooling;
mod products;
mod ragged;
mod reductions;
mod running;
mod shapes;
mod shorthands;
pub mod special;
mod statistics;
pub mod stats;
mod tapers;
mod vectors;

pub use activations::{
    celu, elu, gelu, gelu_exact, glu, hard_sigmoid, hard_silu, hard_tanh, leaky_relu, log_sigmoid,
    log_softmax, log1mexp, logmeanexp, logsumexp, logsumexp_weighted, mish, relu, relu6, selu,
    sigmoid, silu, soft_sign, softmax, softplus, sparse_plus, sparse_sigmoid, squareplus,
    standardize,
};
pub use arrange::{
    diagonal, diff, flip, repeat, roll, split, split_at, stack, swapaxes, tile, trace, tri, tril,
    triu,
};
pub use attention::{Attention, dot_product_attention};
pub use axes::{Axes, Over, axes};
pub use calculus::{
    gradient, gradient_at, interp, interp_outside, interp_periodic, trapezoid, trapezoid_at,
};
pub use choosing::{
    Unique, argwhere, choose, compress, extract, flatnonzero, intersect1d, isin, nonzero,
    piecewise, place, put, put_along_axis, select_first, setdiff1d, setxor1d, union1d, unique,
    unique_all, unique_along, unique_counts, unique_inverse,
};
pub use collectives::{
    Tiling, all_gather, all_to_all, axis_index, pmax, pmean, pmin, ppermute, pshuffle, psum,
    psum_scatter, pswapaxes,
};
pub use convolve::{ConvolveMode, convolve, correlate};
pub use creation::{
    Indexing, arange, eye, eye_offset, geomspace, linspace, linspace_open, logspace, meshgrid,
    one_hot, one_hot_axis,
};
pub use dtypes::{
    DTypeKind, FInfo, IInfo, can_cast, finfo, iinfo, isdtype, promote_types, result_type,
};
pub use einsum::einsum;
pub use elementary::{
    BitOrder, Closeness, allclose, allclose_within, array_equal, array_equal_nan, array_equiv,
    copysign, deg2rad, divmod, fabs, float_power, fmax, fmin, frexp, gcd, heaviside, hypot,
    isclose, isclose_within, iscomplex, isneginf, isposinf, isreal, lcm, ldexp, log2, log10,
    logaddexp2, logical_and, logical_not, logical_or, logical_xor, modf, mulhi, packbits, positive,
    rad2deg, reciprocal, round_to, sinc, spacing, trunc, unpackbits, unwrap,
};
pub use grids::{
    IndexMode, diag, diag_indices, diag_indices_from, diagflat, fill_diagonal, fromfunction,
    indices, ix_, mask_indices, ravel_multi_index, tril_indices, tril_indices_from, triu_indices,
    triu_indices_from, unravel_index, vander,
};
pub use indexing::{At, Ellipsis, Index, NewAxis, by, take, take_along_axis};
pub use joining::{
    append, array_split, atleast_1d, atleast_2d, atleast_3d, block, broadcast_arrays,
    broadcast_shapes, column_stack, delete, dsplit, dstack, ediff1d, fliplr, flipud, hsplit,
    hstack, insert, matrix_transpose, resize, rollaxis, rot90, unstack, vsplit, vstack,
};
pub use numeric::{
    clip, floor_divide, isfinite, isinf, isnan, nan_to_num, power, remainder, signbit,
};
pub use polynomials::{
    poly, polyadd, polyder, polydiv, polyfit, polyint, polymul, polysub, polyval, roots,
};
pub use pooling::{AverageOver, avg_pool, max_pool, min_pool};
pub use products::{TensorDotAxes, dot, inner, matmul, outer, tensordot, vdot};
pub use ragged::{RaggedDot, ragged_dot, ragged_dot_general};
pub use running::{cumulative_prod, cumulative_sum};
pub use shapes::OpenShape;
pub use statistics::{
    Bins, Covariance, QuantileMethod, Side, argpartition, average, bincount, bincount_weighted,
    corrcoef, cov, cov_with, digitize, histogram, histogram_bin_edges, histogram_density,
    histogram_weighted, histogram2d, histogramdd, lexsort, median, nanargmax, nanargmin, nanmax,
    nanmean, nanmedian, nanmin, nanpercentile, nanprod, nanquantile, nanquantile_by, nanstd,
    nansum, nanvar, partition, percentile, ptp, quantile, quantile_by, searchsorted,
    searchsorted_side, sort_complex,
};
pub use tapers::{bartlett, blackman, hamming, hanning, kaiser};
pub use vectors::{apply_over_axes, cross, kron, matvec, vecdot, vecmat};
