//! Primitives that hold programs, and the functions that bind them.

mod associative_scan;
mod call;
mod closure;
mod composite;
mod cond;
mod custom;
mod custom_policy;
mod derive;
mod ffi_call;
mod fori_loop;
mod groups;
mod linear_call;
mod linear_solve;
mod map;
mod memo;
mod parse;
mod partial_eval;
mod policy;
mod pruning;
mod reduce;
mod remat;
mod root;
mod scan;
mod shard_map;
mod threaded_refs;
mod while_loop;
mod xla_metadata;

pub use associative_scan::{AssociativeScanOptions, associative_scan, associative_scan_with};
pub use call::Call;
pub use composite::{Composite, CompositeAttribute, CompositeOptions, composite, composite_with};
pub use cond::{Branches, Cond, cond, platform_dependent, switch};
pub use custom::{
    ClosureConverted, CustomJvp, CustomTangent, CustomVjp, CustomVjpOptions, JvpRule, JvpRules,
    NoTangent, Perturbed, RematOpt, SymbolicZeros, VmapInputs, VmapOutput, closure_convert,
    custom_gradient, custom_jvp, custom_jvp_per_argument, custom_jvp_symbolic, custom_vjp,
    custom_vjp_symbolic, custom_vjp_with, custom_vmap, sequential_vmap,
};
pub use custom_policy::CustomPolicy;
pub(crate) use derive::{batch_call, jvp_call, transpose_call};
pub use ffi_call::{FfiCall, FfiTarget};
pub use fori_loop::{ForiLoopOptions, fori_loop, fori_loop_with};
pub use linear_call::{LinearCall, linear_call};
pub use linear_solve::{
    LinearSolve, LinearSystem, Solver, TransposeSolve, custom_linear_solve, custom_linear_solve_aux,
};
pub use map::{MapOptions, map, map_with};
pub use policy::{Policy, Residual};
pub use reduce::{Reduce, reduce};
pub use remat::{Remat, RematOptions, remat, remat_with};
pub use root::{custom_root, custom_root_aux};
pub use scan::{Scan, ScanInput, ScanOptions, Unroll, scan, scan_with};
pub(crate) use shard_map::map_shards;
pub use shard_map::{ShardMap, ShardMapping};
pub use while_loop::{WhileLoop, while_loop};
pub use xla_metadata::{
    ComputeType, MetadataTarget, XlaMetadataCall, compute_on, compute_on2, scheduling_group,
    set_xla_metadata, xla_metadata_call,
};

use crate::core::{Error, Program, RegistryEntry};
use crate::passes;
use crate::primitives::PRIMITIVES;

/// The primitives that hold programs or are batched by loops, sorted by name.
pub const HOLDERS: &[RegistryEntry] = &[
    RegistryEntry::new("call", call::make, call::exemplars),
    RegistryEntry::new("composite", composite::make, composite::exemplars),
    RegistryEntry::new("cond", cond::make, cond::exemplars),
    RegistryEntry::new("custom_jvp", custom::jvp::make, custom::jvp::exemplars),
    RegistryEntry::new("custom_vjp", custom::vjp::make, custom::vjp::exemplars),
    RegistryEntry::new("ffi_call", ffi_call::make, ffi_call::exemplars),
    RegistryEntry::new("linear_call", linear_call::make, linear_call::exemplars),
    RegistryEntry::new("linear_solve", linear_solve::make, linear_solve::exemplars),
    RegistryEntry::new("reduce", reduce::make, reduce::exemplars),
    RegistryEntry::new("remat", remat::make, remat::exemplars),
    RegistryEntry::new("remat_opt", custom::remat_opt::make, custom::remat_opt::exemplars),
    RegistryEntry::new("scan", scan::make, scan::exemplars),
    RegistryEntry::new("shard_map", shard_map::make, shard_map::exemplars),
    RegistryEntry::new("while_loop", while_loop::make, while_loop::exemplars),
    RegistryEntry::new("xla_metadata_call", xla_metadata::make, xla_metadata::exemplars),
];

/// Parses a program from its printed form.
///
/// # Errors
/// [`Error::Op`] with the line and column of the first error.
///
/// ```
/// use oxidax::prelude::*;
/// let text = "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n  in (b) }";
/// assert_eq!(parse_program(text)?.to_string(), text);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn parse_program(text: &str) -> Result<Program, Error> {
    passes::parse(text, &registries())
}

/// Returns the lists of all primitives.
pub(crate) fn registries() -> [&'static [RegistryEntry]; 3] {
    [PRIMITIVES, HOLDERS, crate::kernel_primitives()]
}
