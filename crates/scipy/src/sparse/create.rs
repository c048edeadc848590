//! Creation of sparse arrays.

use super::SparseArray;
use super::bcoo::Bcoo;
use super::entries::all_indices;
use crate::operands::throw_value;
use oxidax::core::Loc;
use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// Options of [`eye_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseEyeOptions {
    /// The number of columns; that of rows if `None`.
    pub m: Option<usize>,
    /// The diagonal: 0 for the main one, positive above it, negative below it.
    pub k: isize,
    /// The dtype of the data. The default is `f32`.
    pub dtype: DType,
    /// The dtype of indices. The default is `i32`.
    pub index_dtype: DType,
    /// The number of batch axes. The default is 0.
    pub n_batch: usize,
    /// The number of dense axes. The default is 0.
    pub n_dense: usize,
}

impl Default for SparseEyeOptions {
    fn default() -> Self {
        let (dtype, index_dtype) = (DType::F32, DType::I32);
        SparseEyeOptions { m: None, k: 0, dtype, index_dtype, n_batch: 0, n_dense: 0 }
    }
}

/// Returns the sparse identity matrix of `n` rows. [`Bcsr::from_bcoo`](super::Bcsr::from_bcoo) and
/// others convert it.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse;
/// assert_eq!(sparse::eye(3).matmul(&array![1.0, 2.0, 3.0]).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn eye(n: usize) -> Bcoo {
    eye_with(n, SparseEyeOptions::default())
}

/// Returns a sparse matrix of `n` rows with ones on a diagonal.
///
/// Throws `Op` (value) for more than two batch and dense axes.
#[track_caller]
pub fn eye_with(n: usize, options: SparseEyeOptions) -> Bcoo {
    let SparseEyeOptions { m, k, dtype, index_dtype, n_batch, n_dense } = options;
    let m = m.unwrap_or(n);
    let (below, right) = (k.min(0).unsigned_abs(), k.max(0).unsigned_abs());
    let count = n.saturating_sub(below).min(m.saturating_sub(right));
    let along = iota(index_dtype, count);
    let indices = stack([&along + below as i32, along + right as i32], -1);
    Bcoo::new(&ones(([count], dtype)), &indices, [n, m])
        .promise(true, true)
        .update_layout(n_batch, n_dense)
}

/// Returns a sparse array of a shape without entries. The dtype is `f32`, or stands beside the
/// shape.
///
/// ```
/// use oxidax_scipy::sparse::{self, SparseArray};
/// assert_eq!(sparse::empty([3, 4]).nse(), 0);
/// ```
#[track_caller]
pub fn empty(shape: impl IntoAval) -> Bcoo {
    let aval = shape.into_aval(DType::F32);
    let indices = zeros(([0, aval.rank()], DType::I32));
    Bcoo::new(&zeros(([0], aval.dtype)), &indices, &aval.shape).promise(true, true)
}

/// Options of [`random_bcoo_with`].
#[derive(Clone, Copy, Debug)]
pub struct RandomBcooOptions {
    /// The number of entries of each batch; a fifth of the elements if `None`, as in JAX.
    pub nse: Option<usize>,
    /// The number of batch axes. The default is 0.
    pub n_batch: usize,
    /// The number of dense axes. The default is 0.
    pub n_dense: usize,
    /// No index occurs twice. The default is true.
    pub unique_indices: bool,
    /// The indices are sorted. The default is false.
    pub sorted_indices: bool,
    /// Draws the data. By default they are uniform between 0 and 1.
    pub generator: fn(Key, Aval) -> Array,
}

impl Default for RandomBcooOptions {
    fn default() -> Self {
        RandomBcooOptions {
            nse: None,
            n_batch: 0,
            n_dense: 0,
            unique_indices: true,
            sorted_indices: false,
            generator: |key, aval| random::uniform(key, aval, 0.0..1.0),
        }
    }
}

/// Draws a sparse array with a fifth of the elements, at different indices, uniform between 0 and
/// 1. The dtype is `f32`, or stands beside the shape.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::{self, SparseArray};
/// let m = sparse::random_bcoo(random::key(0), [5, 4]);
/// assert_eq!(m.nse(), 4);
/// assert_eq!(m.todense().count_nonzero().item::<i32>()?, 4);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn random_bcoo(key: Key, shape: impl IntoAval) -> Bcoo {
    random_bcoo_with(key, shape, RandomBcooOptions::default())
}

/// Draws a sparse array with options.
///
/// Throws `Op` (value) for more entries at different indices than there are, and for more batch and
/// dense axes than axes.
#[track_caller]
pub fn random_bcoo_with(key: Key, shape: impl IntoAval, options: RandomBcooOptions) -> Bcoo {
    const NAME: &str = "random_bcoo";
    let aval = shape.into_aval(DType::F32);
    let RandomBcooOptions { nse, n_batch, n_dense, unique_indices, sorted_indices, generator } =
        options;
    if n_batch + n_dense > aval.rank() {
        let message = format!("{n_batch} batch and {n_dense} dense axes of {}", aval.shape);
        throw_value(NAME, message, &[]);
    }
    let behind = aval.rank() - n_dense;
    let (batch, sizes) = (aval.shape[..n_batch].to_vec(), aval.shape[n_batch..behind].to_vec());
    let size: usize = sizes.iter().product();
    let nse = nse.unwrap_or_else(|| (0.2 * size as f64).ceil() as usize);
    if unique_indices && nse > size {
        throw_value(NAME, format!("{nse} entries at different indices of {size} elements"), &[]);
    }
    Loc::caller().scope(|| {
        let [of_indices, of_data] = key.split();
        let drawn: Vec<usize> =
            batch.iter().copied().chain([if unique_indices { size } else { nse }]).collect();
        let flat = if unique_indices {
            // The order of random numbers is a random permutation.
            let order = argsort(&random::uniform(of_indices, drawn, 0.0..1.0), -1);
            slice_in_dim(&order, 0, nse as isize, 1, -1)
        } else {
            random::randint(of_indices, (drawn, DType::I32), 0..size.max(1) as i32)
        };
        let indices = take(&all_indices(&sizes, DType::I32), &flat, 0);
        let of_entries: Vec<usize> =
            batch.iter().copied().chain([nse]).chain(aval.shape[behind..].to_vec()).collect();
        let data = generator(of_data, Aval::new(aval.dtype, of_entries));
        let x = Bcoo::new(&data, &indices, &aval.shape).promise(false, unique_indices);
        debug_assert_eq!(x.ndim(), aval.rank());
        if sorted_indices { x.sort_indices() } else { x }
    })
}
