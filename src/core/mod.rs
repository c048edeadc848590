//! What everything speaks: dtypes, shapes, avals, arrays, errors, traces, primitives, programs.
//!
//! Does no IO and knows no device: what evaluates concrete arrays is installed below as a
//! [`Backend`]. Read `trace` for how an operation finds the program it belongs to, and `primitive`
//! for what an operation is.

mod array;
mod aval;
mod backend;
mod cache;
mod cost;
mod dtype;
mod element;
mod error;
mod lowering;
mod primitive;
mod program;
mod promotion;
mod registry;
mod scalar;
mod shape;
mod tangent;
pub(crate) mod trace;

pub(crate) use array::Kind;
pub use array::{Array, Buffer};
pub use aval::Aval;
pub use backend::Backend;
pub(crate) use backend::backend;
pub(crate) use cache::Cache;
pub use cost::Cost;
pub use dtype::DType;
pub use element::Element;
pub use error::{Error, Loc, OpError, OpErrorKind, Rule, RuleError, TracerError, TreeError};
pub use lowering::LowerCtx;
pub use primitive::{
    BatchAxis, Batched, DynKey, Effects, HigherOrder, Operand, Params, Primitive, Split,
};
pub use program::{Eqn, Program, Var};
pub use promotion::promote;
pub use registry::{Elements, Entry, Exemplar, Make, Sample};
pub use scalar::Scalar;
pub use shape::Shape;
pub use tangent::Tangent;
pub(crate) use trace::bind_shared;
pub use trace::{bind, bind1, catch, throw, throw_operands};
