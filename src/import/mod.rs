//! Functions of other frameworks: what `jax.export` has serialized, and modules of StableHLO.

mod arguments;
mod evaluation;
mod exported;
mod module;
mod pytree;
mod translate;
mod variables;

pub use exported::ImportedFunction;
pub use module::{ImportedModule, ModuleFormat, module};
pub use pytree::PyTree;
