//! Functions whose derivatives the user wrote.

pub(super) mod held;
pub(super) mod jvp;
pub(super) mod tangent;
pub(super) mod vjp;

pub use jvp::{CustomJvp, custom_jvp};
pub use tangent::CustomTangent;
pub use vjp::{CustomVjp, custom_vjp};
