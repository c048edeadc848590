//! Functions with user-defined derivatives.

mod captures;
pub(super) mod held_function;
pub(super) mod jvp;
pub(super) mod tangent;
pub(super) mod vjp;

pub use jvp::{CustomJvp, custom_jvp};
pub use tangent::CustomTangent;
pub use vjp::{CustomVjp, custom_vjp};
