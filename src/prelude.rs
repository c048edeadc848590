//! What a program that uses oxidax wants in scope: `use oxidax::prelude::*;`.

#[cfg(feature = "checkpoint")]
pub use crate::checkpoint;
pub use crate::control_flow::{
    AssociativeScanOptions, Policy, ScanOptions, TransposeSolve, associative_scan,
    associative_scan_with, cond, custom_jvp, custom_linear_solve, custom_linear_solve_aux,
    custom_root, custom_root_aux, custom_vjp, fori_loop, map, map_batched, parse_program, reduce,
    remat, remat_with, scan, scan_with, switch, while_loop,
};
pub use crate::core::{
    Array, Aval, AxisNames, DType, Device, Element, Error, Mesh, NamedSharding, PartitionSpec,
    Scalar, Shape, axis_size, catch, with_matmul_precision,
};
#[cfg(feature = "data")]
pub use crate::data;
pub use crate::jit::{CallError, Compiled, Jit, Lowered, jit, pmap};
pub use crate::ops::*;
pub use crate::parallel::{
    PartitionRules, Topology, device_put, device_put_replicated, device_put_sharded, devices,
    local_devices, make_array_from_process_local_data, shard_map, visualize_sharding,
    with_default_device, with_default_sharding, with_sharding_constraint,
};
pub use crate::primitives::*;
#[cfg(feature = "train")]
pub use crate::train;
pub use crate::transforms::*;
pub use crate::tree::{self, Static, Tree};
pub use crate::{debug, nn, optim, random};
pub use crate::{i, p};
