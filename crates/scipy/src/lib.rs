//! The functions of `jax.scipy` and `jax.experimental.sparse` for oxidax.
//!
//! All are written with the functions of oxidax, so they work inside `jit`, `grad` and `vmap`.
//! `jax.scipy.special` and `jax.scipy.stats` are [`oxidax::special`] and [`oxidax::stats`].

#![forbid(unsafe_code)]

pub mod integrate;
pub mod linalg;
pub mod ode;
pub mod optimize;
pub mod sparse;
