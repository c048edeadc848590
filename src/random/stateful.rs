//! A generator that derives a new key for each draw.

use super::key::{Key, KeyOptions, SplitShape, fold_in, key_with, split};
use super::{normal, randint, uniform};
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Scalar, Shape, throw_operands, trace};
use crate::primitives::{ArrayLike, add, convert_element_type, fill_of, mul};
use crate::tree::{self, Tree};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// A generator of random numbers with state: a key and the number of draws. Draw number `n` uses
/// the key `fold_in(key, n)`, as JAX's `StatefulPRNG`.
///
/// A draw changes the generator, so it takes `&mut`. A generator is a tree: a traced function takes
/// it as an argument and returns it, and it can be the carry of a loop.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::random::{StatefulPrng, stateful_rng};
/// let mut rng = stateful_rng(42);
/// let noise = rng.normal([3], 0.0, 0.1);
/// let dropped = jit(|(x, mut rng): (Array, StatefulPrng)| {
///     let kept = lt(&rng.uniform([3], 0.0..1.0), 0.5);
///     (where_(&kept, &x, 0.0), rng)
/// });
/// let (x, rng) = dropped.call((noise, rng))?;
/// assert_eq!(rng.draws().item::<i32>()?, 2);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "StatefulPRNG")]
pub struct StatefulPrng {
    base_key: Key,
    draws: Array,
}

impl Tree for StatefulPrng {
    fn flatten(&self, visitor: &mut dyn tree::Visitor) {
        visitor.tag(tree::Tag::Name("StatefulPrng"));
        self.base_key.flatten(visitor);
        visitor.leaf(&self.draws);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> StatefulPrng {
        let base_key = self.base_key.unflatten(leaves);
        StatefulPrng { base_key, draws: self.draws.unflatten(leaves) }
    }
}

/// Returns a generator with the key of a seed. Without a seed, `None`, it differs from run to run.
///
/// Throws `Op` (value) without a seed inside a traced function, which would draw the same numbers
/// in every call.
///
/// ```
/// use oxidax::prelude::*;
/// let mut rng = random::stateful_rng(0);
/// assert_eq!(rng.key().data().to_vec::<u32>()?, [1797259609, 2579123966]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn stateful_rng(seed: impl Into<Option<i64>>) -> StatefulPrng {
    stateful_rng_with(seed, KeyOptions::default())
}

/// Returns a generator, as [`stateful_rng`], whose keys are of another kind.
#[track_caller]
pub fn stateful_rng_with(seed: impl Into<Option<i64>>, options: KeyOptions) -> StatefulPrng {
    let seed = seed.into().unwrap_or_else(|| {
        if trace::is_tracing() {
            let error = RuleError::value("needs a seed inside a traced function")
                .help("pass the generator to the function, or a seed");
            throw_operands("stateful_rng", error, &[]);
        }
        RandomState::new().hash_one(0).cast_signed()
    });
    StatefulPrng { base_key: key_with(seed, options), draws: no_draws(Shape::scalar()) }
}

#[track_caller]
fn no_draws(shape: Shape) -> Array {
    fill_of(Scalar::Int(0), &Aval::new(DType::I32, shape))
}

impl StatefulPrng {
    /// Returns the number of draws so far, `i32`.
    pub fn draws(&self) -> &Array {
        &self.draws
    }

    /// Returns a new key.
    ///
    /// Throws `Op` (shape) for a generator that [`split`](Self::split) returned, outside of the
    /// `vmap` over it.
    #[track_caller]
    pub fn key(&mut self) -> Key {
        let key = fold_in(self.base_key.clone(), &self.draws);
        self.draws = add(&self.draws, 1);
        key
    }

    /// Returns an array of new keys.
    #[track_caller]
    pub fn keys(&mut self, shape: impl SplitShape) -> Key {
        let key = self.key();
        split(key, shape)
    }

    /// Returns uniform numbers in `0.0..1.0`.
    #[track_caller]
    pub fn random(&mut self, shape: impl IntoAval) -> Array {
        let key = self.key();
        uniform(key, shape, 0.0..1.0)
    }

    /// Returns uniform numbers, as [`uniform`](super::uniform()).
    #[track_caller]
    pub fn uniform(&mut self, shape: impl IntoAval, range: Range<impl ArrayLike>) -> Array {
        let key = self.key();
        uniform(key, shape, range)
    }

    /// Returns normal numbers of mean `loc` and standard deviation `scale`, which broadcast to the
    /// shape.
    #[track_caller]
    pub fn normal(
        &mut self,
        shape: impl IntoAval,
        loc: impl ArrayLike,
        scale: impl ArrayLike,
    ) -> Array {
        let aval = shape.into_aval(DType::F32);
        let dtype = aval.dtype;
        let key = self.key();
        let unit = normal(key, aval);
        convert_element_type(&add(loc, mul(scale, unit)), dtype)
    }

    /// Returns integers, as [`randint`](super::randint()).
    #[track_caller]
    pub fn integers(&mut self, shape: impl IntoAval, range: Range<impl ArrayLike>) -> Array {
        let key = self.key();
        randint(key, shape, range)
    }

    /// Returns an array of independent generators as one, for `vmap`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let mut rng = random::stateful_rng(123);
    /// let noisy = |(mut rng, x): (random::StatefulPrng, Array)| x + rng.random([]);
    /// let y = vmap(noisy).apply((rng.split(3), zeros([3]))).to_vec::<f32>()?;
    /// assert!(y[0] != y[1] && y[1] != y[2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn split(&mut self, shape: impl SplitShape) -> StatefulPrng {
        let base_key = self.keys(shape);
        let draws = no_draws(base_key.shape());
        StatefulPrng { base_key, draws }
    }

    /// Returns independent generators.
    #[must_use]
    #[track_caller]
    pub fn spawn(&mut self, count: usize) -> Vec<StatefulPrng> {
        let mut children = Vec::with_capacity(count);
        for base_key in self.keys(count) {
            children.push(StatefulPrng { base_key, draws: no_draws(Shape::scalar()) });
        }
        children
    }
}
