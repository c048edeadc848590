//! What everything speaks: dtypes, shapes, avals, arrays, errors, traces, primitives, programs.
//!
//! Does no IO and knows no device: what evaluates concrete arrays is installed below as a
//! [`Backend`]. Read `trace` for how an operation finds the program it belongs to, and `primitive`
//! for what an operation is.

mod array;
mod aval;
pub(crate) mod axes;
mod backend;
mod cache;
pub(crate) mod callback;
mod communication;
mod cost;
mod device;
mod display;
mod dtype;
mod element;
mod error;
mod host;
mod lowering;
pub(crate) mod manual;
mod mesh;
mod partition;
mod placement;
mod precision;
mod primitive;
mod program;
mod promotion;
mod regions;
mod registry;
mod scalar;
mod shape;
pub(crate) mod sharding_rule;
pub(crate) mod stand_ins;
mod tangent;
pub(crate) mod trace;
pub(crate) mod units;
pub(crate) mod varying;
pub(crate) mod watch;

pub(crate) use array::Kind;
pub use array::{Array, Buffer};
pub use aval::Aval;
pub use axes::{AxisNames, axis_size};
pub use backend::Backend;
pub(crate) use backend::backend;
pub(crate) use cache::Cache;
pub use callback::HostFunction;
pub use communication::{Collective, Communication};
pub use cost::{Access, Contraction, Cost};
pub use device::Device;
pub use dtype::DType;
pub use element::Element;
pub use error::{
    DistributedErrorKind, Error, Loc, OpError, OpErrorKind, Rule, RuleError, TracerError, TreeError,
};
pub use host::HostArray;
pub use lowering::LowerCtx;
pub use mesh::Mesh;
pub(crate) use partition::leaf_error;
pub use partition::{AxisSpec, NamedSharding, PartitionSpec};
pub use placement::{DeviceId, Placement};
pub(crate) use precision::matmul_precision;
pub use precision::{Precision, with_matmul_precision};
pub use primitive::{
    BatchAxis, Batched, DynKey, Effects, HigherOrder, Operand, Params, Primitive, Pruned, Run,
    SaveHint, Source, Split,
};
pub use program::{Eqn, Program, Var};
pub use promotion::promote;
pub use registry::{Elements, Entry, Exemplar, Make, Sample};
pub use scalar::Scalar;
pub use shape::Shape;
pub use sharding_rule::ShardingRule;
pub use tangent::Tangent;
pub(crate) use trace::bind_shared;
pub use trace::{bind, bind1, catch, from_caller, throw, throw_operands};
pub use varying::Varying;
