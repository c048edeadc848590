//! The functions of `jax.scipy` and `jax.experimental.sparse` for oxidax.
//!
//! All are written with the functions of oxidax, so they work inside `jit`, `grad` and `vmap`.
//! `jax.scipy.special` and `jax.scipy.stats` are [`oxidax::special`] and [`oxidax::stats`].

#![forbid(unsafe_code)]

pub mod cluster;
pub mod fft;
pub mod integrate;
pub mod interpolate;
pub mod linalg;
pub mod ndimage;
pub mod ode;
mod operands;
pub mod optimize;
pub mod signal;
pub mod sparse;
pub mod spatial;
