//! Functions with user-defined derivatives and batching rules.

mod batching;
mod captures;
mod convert;
pub(super) mod held_function;
pub(super) mod jvp;
mod per_argument;
pub(super) mod remat_opt;
mod symbolic;
pub(super) mod tangent;
pub(super) mod vjp;

pub use batching::{VmapInputs, VmapOutput, custom_vmap, sequential_vmap};
pub use convert::{ClosureConverted, closure_convert, custom_gradient};
pub use jvp::{CustomJvp, custom_jvp, custom_jvp_symbolic};
pub use per_argument::{JvpRule, JvpRules, NoTangent, custom_jvp_per_argument};
pub use remat_opt::RematOpt;
pub use symbolic::{Perturbed, SymbolicZeros};
pub use tangent::CustomTangent;
pub use vjp::{CustomVjp, CustomVjpOptions, custom_vjp, custom_vjp_symbolic, custom_vjp_with};
