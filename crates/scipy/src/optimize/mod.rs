//! Minimization of functions: `jax.scipy.optimize`.
//!
//! [`minimize`] needs the memory of a matrix of all arguments, and few evaluations. For functions
//! of many arguments, or of trees, use [`oxidax::optim::minimize`].

mod bfgs;
mod line_search;

pub use bfgs::{BfgsOptions, OptimizeResults, minimize, minimize_with};
