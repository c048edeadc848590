//! Names for programs that use oxidax: `use oxidax::prelude::*;`.
//!
//! The prelude holds the functions of arrays, the transforms, control flow, and the modules of a
//! training program. The types of primitives, such as
//! [`DotGeneral`](crate::primitives::DotGeneral), are in [`primitives`](crate::primitives).

#[cfg(feature = "checkpoint")]
pub use crate::checkpoint;
pub use crate::control_flow::{
    AssociativeScanOptions, CustomVjpOptions, ForiLoopOptions, MapOptions, Policy, RematOptions,
    ScanOptions, TransposeSolve, Unroll, associative_scan, associative_scan_with, closure_convert,
    composite, composite_with, cond, custom_gradient, custom_jvp, custom_jvp_per_argument,
    custom_jvp_symbolic, custom_linear_solve, custom_linear_solve_aux, custom_root,
    custom_root_aux, custom_vjp, custom_vjp_symbolic, custom_vjp_with, custom_vmap, fori_loop,
    fori_loop_with, linear_call, map, map_with, parse_program, platform_dependent, reduce, remat,
    remat_with, scan, scan_with, sequential_vmap, switch, while_loop,
};
pub use crate::core::{
    Array, ArrayRef, Aval, AxisNames, DType, Device, Element, Error, IntoAval, Mesh, NamedSharding,
    PartitionSpec, RefKind, Scalar, Shape, axis_size, catch, with_matmul_precision,
};
#[cfg(feature = "data")]
pub use crate::data;
pub use crate::jit::{
    CallError, Compiled, Jit, Lowered, block_until_ready, copy_to_host_async, effects_barrier, jit,
    pmap,
};
pub use crate::nn::{
    AttentionImplementation, AttentionOptions, dot_product_attention, dot_product_attention_with,
};
pub use crate::ops::*;
pub use crate::parallel::{
    MemoryKind, PartitionRules, Topology, device_get, device_put, device_put_replicated,
    device_put_sharded, devices, local_devices, make_array_from_callback,
    make_array_from_process_local_data, make_array_from_single_device_arrays, make_mesh,
    no_collectives, shard_map, visualize_sharding, with_default_device, with_default_sharding,
    with_memory_kind, with_sharding_constraint,
};
pub use crate::primitives::{
    ArgmaxOptions, ArrayLike, ArrayList, DynamicIndexOptions, Padding, Precision, QrOptions,
    RunningTotalOptions, SvdOptions, abs, acos, acosh, add, angle, approx_max_k, approx_min_k,
    arange_dtype, arange_step, argmax, argmax_with, argmin, argmin_with, argsort,
    argsort_descending, asin, asinh, atan, atan2, atanh, bessel_i0e, bessel_i1e, betainc,
    bitcast_convert_type, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, broadcast_in_dim,
    broadcast_to, broadcasted_iota, cbrt, ceil, cholesky, clamp, complex, concatenate, conj, conv,
    conv_general_dilated, conv_general_dilated_local, conv_general_dilated_patches, conv_transpose,
    conv_with_general_padding, convert_element_type, cos, cosh, count_leading_zeros, cumlogsumexp,
    cumlogsumexp_with, cummax, cummax_with, cummin, cummin_with, cumprod, cumprod_with, cumsum,
    cumsum_with, digamma, div, dot_general, dynamic_index_in_dim, dynamic_index_in_dim_with,
    dynamic_slice, dynamic_slice_in_dim, dynamic_update_slice, dynamic_update_slice_in_dim, eig,
    eigh, eq, erf, erf_inv, erfc, exp, exp2, expand_dims, expm1, fft, floor, full, full_like,
    gather, ge, gt, igamma, igammac, imag, integer_pow, iota, is_finite, lax_div, lax_pad, le,
    lgamma, linear_recurrence, linear_recurrence_with, log, log1p, logaddexp, logistic, lt, lu,
    maximum, minimum, moveaxis, mul, ne, neg, nextafter, ones, ones_like, polygamma,
    population_count, pow, qr, qr_with, real, reduce_and, reduce_max, reduce_min, reduce_or,
    reduce_precision, reduce_prod, reduce_sum, reduce_window, reduce_window_max, reduce_window_min,
    reduce_window_prod, reduce_window_sum, reduce_xor, rem, reshape, rev, round, round_half_away,
    rsqrt, scalar, scatter, select, select_n, shift_left, shift_right, shift_right_arithmetic,
    shift_right_logical, sign, sin, sinh, slice, slice_in_dim, sort, sort_descending, sort_key_val,
    sort_multi, split_sizes, sqrt, square, squeeze, sub, svd, svd_with, tan, tanh, top_k,
    transpose, triangular_solve, where_, zeros, zeros_like, zeta,
};
#[cfg(feature = "train")]
pub use crate::train;
pub use crate::transforms::*;
pub use crate::tree::{self, Static, Tree, TreeOps, TreeRef};
pub use crate::{array, debug_print, i, p};
pub use crate::{debug, nn, optim, random};
