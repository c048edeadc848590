//! Rotations in three dimensions, as in `jax.scipy.spatial.transform`.

mod euler;
mod rotation;
mod slerp;

pub use euler::AngleUnit;
pub use rotation::{QuaternionOrder, Rotation};
pub use slerp::Slerp;
