//! Assertions about shapes, dtypes, values and devices, which throw `Op` errors with the caller's
//! line.
//!
//! Assertions about types hold for traced arrays too. Assertions about values check concrete arrays
//! at once. For traced arrays they become a [`check`](oxidax::debug::check) in the program, whose
//! call returns the error.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax_flax::asserts::{assert_rank, assert_shape, assert_tree_all_finite};
//! let root = jit(|x: Array| {
//!     assert_rank(&x, 2);
//!     assert_shape(&x, [-1, 3]);
//!     let y = sqrt(&x);
//!     assert_tree_all_finite(&y);
//!     y
//! });
//! assert!(root.call(ones([4, 3])).is_ok());
//! let error = root.call(ones([3])).unwrap_err().to_string();
//! assert!(error.contains("assert_rank"));
//! assert!(root.call(full([1, 3], -1.0f32)).is_err());
//! # Ok::<(), oxidax::Error>(())
//! ```

mod devices;
mod failure;
mod gradients;
mod scalars;
mod shapes;
mod traces;
mod trees;
mod types;

pub use devices::{
    assert_devices_available, assert_gpu_available, assert_tpu_available, assert_tree_is_on_device,
    assert_tree_is_on_host, assert_tree_is_sharded,
};
pub use failure::{disable_asserts, enable_asserts};
pub use gradients::{NumericalGradsOptions, assert_numerical_grads, assert_numerical_grads_with};
pub use scalars::{
    assert_scalar, assert_scalar_in, assert_scalar_negative, assert_scalar_non_negative,
    assert_scalar_positive,
};
pub use shapes::{
    ExpectedDim, assert_axis_dimension, assert_axis_dimension_comparator, assert_axis_dimension_gt,
    assert_axis_dimension_gteq, assert_axis_dimension_lt, assert_axis_dimension_lteq,
    assert_equal_rank, assert_equal_shape, assert_equal_shape_prefix, assert_equal_shape_suffix,
    assert_equal_size, assert_is_broadcastable, assert_is_divisible, assert_rank, assert_rank_in,
    assert_shape, assert_shape_prefix, assert_shape_suffix, assert_size,
};
pub use traces::{TraceCounter, assert_max_traces};
pub use trees::{
    assert_tree_all_finite, assert_tree_shape_prefix, assert_tree_shape_suffix,
    assert_trees_all_close, assert_trees_all_close_ulp, assert_trees_all_close_with,
    assert_trees_all_equal, assert_trees_all_equal_comparator, assert_trees_all_equal_dtypes,
    assert_trees_all_equal_shapes, assert_trees_all_equal_shapes_and_dtypes,
    assert_trees_all_equal_sizes, assert_trees_all_equal_structs,
};
pub use types::{ExpectedType, assert_type};
