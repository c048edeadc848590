//! Optimizers: from gradients to updates, as chains of small gradient transformations.
//!
//! An [`Optimizer`] is a value without arrays; what it remembers between steps is a [`State`], a tree
//! that is passed in and out of the training step like the model. Both work on any tree: leaves are
//! matched by their paths, so a state does not carry the model's type. Leaves of integer or boolean
//! dtype are not trained: their updates are zero.
//!
//! The definitions, and on the same platform the numbers, are those of Optax.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! let optimizer = optim::adamw(1e-3);
//! let mut weights = zeros([3], DType::F32);
//! let mut state = optimizer.init(&weights);
//! let step = jit(move |weights: Array, state: optim::State| {
//!     let gradient = grad(|w: &Array| ((w - 1.0) * (w - 1.0)).sum())(&weights);
//!     let (updates, state) = optimizer.update(&gradient, &state, &weights);
//!     (optim::apply_updates(&weights, &updates), state)
//! });
//! for _ in 0..1000 {
//!     (weights, state) = step.call(weights, state)?;
//! }
//! # Ok::<(), oxidax::Error>(())
//! ```

mod adam;
mod leaves;
mod rules;
mod state;

pub use adam::{Adam, adam, adamw};
pub use rules::{Optimizer, add_decayed_weights, apply_updates, momentum, nesterov, scale, sgd};
pub use state::State;
