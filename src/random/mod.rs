//! Random numbers from explicit keys, equal bit for bit to those of JAX's default generator.
//!
//! A [`Key`] stands for a whole stream of bits, found by hashing counters with Threefry-2x32. Equal
//! keys give equal numbers, on every platform and under every transform; so a key is *consumed* by
//! what draws from it, and a program splits it first:
//!
//! ```
//! use oxidax::prelude::*;
//! let shapes = eval_shape(
//!     |key: random::Key| {
//!         let [weights, noise] = key.split();
//!         (random::normal(weights, [784, 10], DType::F32), random::bits(noise, [3], DType::U8))
//!     },
//!     random::Key::of_type(),
//! )?;
//! assert_eq!(shapes.1.aval().to_string(), "u8[3]");
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! An element's bits depend on the key and on its flat index alone, so that an array drawn on several
//! devices needs no communication, and the first rows of a larger array are those of a smaller one.
//!
//! Each sampler is one compiled program, also outside `jit`. Integers, bits and `uniform` are exact
//! everywhere, and so are counts and choices in practice. Samplers through a logarithm or `erf_inv` give
//! JAX's bits in dtypes of up to 32 bits on the pinned CPU plugin, and differ in the last places on others;
//! in `f64` they differ there too, since its `log1p` is newer, and nearer to the truth, than that of the JAX
//! they were recorded from. Gamma numbers, what is made of them, and `maxwell` may differ in the last places
//! of `f32`, vectors and matrices by what a factorization rounds.
//!
//! Parameters come last, and broadcast to the shape; a shape of `..` is that of the parameters ([`SampleShape`]).
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
mod multivariate;
mod normal;
mod parameters;
mod permutation;
mod poisson;
mod randint;
mod resample;
mod sampler;
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
pub use randint::*;
pub use uniform::*;
