//! Programs and the primitives that their equations apply.

pub(crate) mod cost;
pub(crate) mod host_function;
pub(crate) mod marks;
pub(crate) mod primitive;
pub(crate) mod program;
pub(crate) mod registry;
pub(crate) mod sharding_observer;
pub(crate) mod spmd;
pub(crate) mod tangent;

pub use cost::{Access, Contraction, Cost};
pub(crate) use host_function::HostFunctionText;
pub use host_function::{HostError, HostFunction};
pub use marks::{Dense, Known, Mapped, Marks, Used};
pub use primitive::{
    Analysis, BatchAxis, Batched, CounterOp, DynKey, Effects, FromParameters, Half, HigherOrder,
    JvpResult, Operand, OperandCheck, Parameters, PartOfArray, Primitive, Pruned, RunCount,
    SaveHint, SplitEqn, SplitOperand, TextForm,
};
pub(crate) use program::ProgramInput;
pub use program::{Eqn, Program, Var};
pub use registry::{Elements, Exemplar, ReadPrimitive, Registered, RegistryEntry, Sample};
pub use sharding_observer::ShardingObserver;
pub use spmd::Spmd;
pub use tangent::Tangent;
