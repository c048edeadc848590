//! The types that every other folder uses: dtypes, shapes, arrays, errors, primitives, programs.
//!
//! Does not perform IO and does not depend on plugins. Concrete arrays are evaluated by the
//! [`Backend`] that `runtime` installs. Read `trace` for how an operation reaches the program it
//! belongs to, and `program` for the [`Primitive`] trait.

mod array;
mod cache;
mod error;
pub(crate) mod foreign;
pub(crate) mod lowering;
mod mesh;
pub(crate) mod monitoring;
pub(crate) mod options;
mod program;
pub(crate) mod scoped;
pub(crate) mod spans;
pub(crate) mod trace;
mod types;
pub(crate) mod units;

pub use array::{Array, ArrayData, Backend, Buffer, HostArray, NestedElements};
pub(crate) use array::{Kind, backend, capture, elements};
pub(crate) use cache::{Cache, Slot};
pub(crate) use error::Derivation;
pub(crate) use error::loc::path as transform_path;
pub use error::{
    CompileLimit, DistributedErrorKind, Error, Loc, OpError, OpErrorKind, Recompilation,
    RecompilationCause, RuleError, RuleResult, SealedError, SourceLine, TracerError, TreeError,
    catch, named_scope, no_collectives, throw,
};
pub use foreign::{
    BufferFunction, FfiAttribute, FfiAttributes, FfiFrame, FfiHandler, FfiInput, FfiOutput,
    FfiScalar, FromFfiAttribute,
};
pub(crate) use lowering::GpuLimits;
pub use lowering::{LoopForm, LoopReport, LowerCtx, LoweringTarget, RepeatedPart};
pub(crate) use lowering::{ModuleFacts, TransferredCall, is_sum, manual_axes};
pub use mesh::{
    AxisSpec, AxisType, Collective, Communication, Device, DeviceId, MemoryKind, Mesh,
    NamedSharding, PartitionSpec, Placement, ShardingRule, Varying, get_mesh, set_mesh, with_mesh,
};
pub(crate) use mesh::{
    PlatformId, explicit, is_platform_name, leaf_error, sharding_over_current, sharding_rule,
    varying, with_stand_ins,
};
pub use program::{
    Access, Analysis, BatchAxis, Batched, Contraction, Cost, CounterOp, Dense, DynKey, Effects,
    Elements, Eqn, Exemplar, FromParameters, Half, HigherOrder, HostError, HostFunction, JvpResult,
    Known, Mapped, Marks, Operand, OperandCheck, Parameters, PartOfArray, Primitive, Program,
    Pruned, ReadPrimitive, Registered, RegistryEntry, RunCount, Sample, SaveHint, ShardingObserver,
    SplitEqn, SplitOperand, Spmd, Tangent, TextForm, Used, Var,
};
pub(crate) use program::{HostFunctionText, ProgramInput, host_function};
pub use trace::{ArrayRef, AxisNames, RefKind, axis_size, bind, bind1, throw_operands};
pub(crate) use trace::{bind_shared, named_axes, nan_check, rebinding};
pub use types::{
    Aval, CheckSet, DType, Element, IntoAval, Layout, LayoutMode, Precision, Scalar, Shape,
    promote, with_matmul_precision,
};
