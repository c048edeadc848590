//! Programs and the primitives that their equations apply.

pub(crate) mod cost;
pub(crate) mod host_function;
pub(crate) mod primitive;
pub(crate) mod program;
pub(crate) mod registry;
pub(crate) mod tangent;

pub use cost::{Access, Contraction, Cost};
pub use host_function::HostFunction;
pub use primitive::{
    BatchAxis, Batched, DynKey, Effects, HigherOrder, Operand, Params, Primitive, Pruned, Run,
    SaveHint, Source, Split,
};
pub use program::{Eqn, Program, Var};
pub use registry::{Elements, Entry, Exemplar, Make, Sample};
pub use tangent::Tangent;
