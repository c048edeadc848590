//! Random numbers from explicit keys. The bits equal JAX's default generator.
//!
//! A [`Key`] identifies a stream of bits, the hashes of counters by Threefry-2x32. Equal keys give
//! equal numbers on every platform and under every transform. A sampler therefore *consumes* its
//! key, and a program splits the key first:
//!
//! ```
//! use oxidax::prelude::*;
//! let shapes = eval_shape(
//!     |key: random::Key| {
//!         let [weights, noise] = key.split();
//!         (random::normal(weights, [784, 10]), random::bits(noise, ([3], DType::U8)))
//!     },
//!     random::Key::of_type(),
//! )?;
//! assert_eq!(shapes.1.aval().to_string(), "u8[3]");
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! The bits of an element depend only on the key and its flat index. Sampling on several devices
//! therefore needs no communication, and a larger array begins with the rows of a smaller one.
//!
//! Each sampler is one compiled program, also outside `jit`. Integers, bits and `uniform` are exact
//! on every platform, and in practice so are counts and choices. Samplers that use a logarithm or
//! `erf_inv` give JAX's bits in dtypes up to 32 bits with the pinned CPU plugin; elsewhere the last
//! digits may differ. In `f64` the last digits differ, since the plugin's `log1p` is newer than
//! JAX's and more accurate. Gamma numbers, samplers based on them, and `maxwell` may differ in the
//! last digits of `f32`; vectors and matrices may differ by the rounding of a factorization.
//!
//! The arguments are the key, the shape, alone or in a pair with a dtype ([`IntoAval`](
//! crate::core::IntoAval)), and the parameters, which broadcast to the shape. A shape of `..` is
//! the joint shape of the parameters ([`SampleShape`]).
//!
//! # Reference
//! Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011).

mod bernoulli;
mod binomial;
mod bits;
mod choice;
mod distributions;
mod from_gamma;
mod from_normal;
mod gamma;
mod gumbel;
mod inverse_cdf;
mod key;
mod key_words;
mod multivariate;
mod normal;
mod parameters;
mod permutation;
mod poisson;
mod prng_impl;
mod randint;
mod resample;
mod sampler;
mod stateful;
mod uniform;

pub use bernoulli::*;
pub use binomial::*;
pub use bits::*;
pub use choice::*;
pub use from_gamma::*;
pub use from_normal::*;
pub use gamma::*;
pub use gumbel::*;
pub use inverse_cdf::*;
pub use key::*;
pub use multivariate::*;
pub use normal::*;
pub use parameters::*;
pub use permutation::*;
pub use poisson::*;
pub use prng_impl::{PrngImpl, define_prng_impl};
pub use randint::*;
pub use stateful::{StatefulPrng, stateful_rng, stateful_rng_with};
pub use uniform::*;
