//! Integrals of samples: `jax.scipy.integrate`. The functions are those of oxidax.

pub use oxidax::ops::{TrapezoidOptions, trapezoid, trapezoid_with};
