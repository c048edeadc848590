//! Sparse arrays, as in `jax.experimental.sparse`.
//!
//! [`Bcoo`] has entries with indices, for any number of axes; [`Bcsr`] has compressed rows.
//! [`Coo`], [`Csr`] and [`Csc`] are matrices. All are trees, with a fixed number of entries, so
//! they work inside `jit`, `vmap` and `grad`. [`SparseValue`] and [`sparsify`] let one function
//! take dense and sparse arguments, and [`grad()`] differentiates with respect to the data.
//!
//! JAX's functions `bcoo_…` are methods of [`Bcoo`] without the prefix.

mod bcoo;
mod bcoo_dot;
mod bcoo_index;
mod bcoo_layout;
mod bcoo_math;
mod bcoo_shape;
mod bcsr;
mod create;
mod derivatives;
mod entries;
pub mod linalg;
mod matrices;
mod matrix_products;
mod sparsify;

pub use bcoo::{Bcoo, FromDenseOptions};
pub use bcoo_dot::bcoo_dot_general_sampled;
pub use bcsr::Bcsr;
pub use create::{
    RandomBcooOptions, SparseEyeOptions, empty, eye, eye_with, random_bcoo, random_bcoo_with,
};
pub use derivatives::{
    JacobianArgument, grad, grad_aux, jacfwd, jacrev, value_and_grad, value_and_grad_aux,
};
pub use matrices::{Coo, Csc, Csr};
pub use sparsify::{SparseValue, sparsify};

use crate::operands::throw_value;
use oxidax::core::{RuleError, throw, throw_operands};
use oxidax::prelude::*;

/// A sparse array.
#[doc(alias = "JAXSparse")]
pub trait SparseArray: Tree {
    /// Returns the shape.
    fn shape(&self) -> Shape;
    /// Returns the dtype of the data.
    fn dtype(&self) -> DType;
    /// Returns the number of entries, of each batch if there are several.
    fn nse(&self) -> usize;
    /// Returns the dense array.
    #[track_caller]
    fn todense(&self) -> Array;
    /// Returns the number of axes.
    fn ndim(&self) -> usize {
        self.shape().rank()
    }
    /// Returns the number of elements, zeros included.
    fn size(&self) -> usize {
        self.shape().size()
    }
}

impl SparseArray for Array {
    fn shape(&self) -> Shape {
        self.shape().clone()
    }
    fn dtype(&self) -> DType {
        self.dtype()
    }
    fn nse(&self) -> usize {
        self.size()
    }
    fn todense(&self) -> Array {
        self.clone()
    }
}

/// Returns the dense array of a sparse one, and a dense array as it is.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse;
/// assert_eq!(sparse::todense(&sparse::eye(2)).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn todense(x: &impl SparseArray) -> Array {
    x.todense()
}

/// Returns the largest of concrete counts. Throws `Op` (unsupported) for traced ones.
#[track_caller]
fn traced_count(name: &str, counts: &Array) -> usize {
    if counts.is_traced() {
        let error = RuleError::unsupported("the number of entries depends on a traced array");
        throw_operands(name, error.help("state the number of entries, `nse`"), &[counts]);
    }
    if counts.size() == 0 {
        return 0;
    }
    match counts.max().item::<i32>() {
        Ok(count) => count as usize,
        Err(error) => throw(error),
    }
}

/// Checks that axes are distinct and within the rank.
#[track_caller]
fn expect_axes(name: &str, axes: &[usize], rank: usize) {
    let is_repeated = (1..axes.len()).any(|index| axes[..index].contains(&axes[index]));
    if is_repeated || axes.iter().any(|&axis| axis >= rank) {
        throw_value(name, format!("axes {axes:?} must be distinct and below {rank}"), &[]);
    }
}

/// Checks that a list is a permutation of the axes.
#[track_caller]
fn expect_permutation(name: &str, permutation: &[usize], rank: usize) {
    expect_axes(name, permutation, rank);
    if permutation.len() != rank {
        throw_value(name, format!("{permutation:?} is not a permutation of {rank} axes"), &[]);
    }
}
