//! The parts of Optax beyond [`oxidax::optim`]: the optimizers of `optax.contrib`, projections onto
//! sets, assignment problems, perturbed functions and second-order quantities.

#![forbid(unsafe_code)]
