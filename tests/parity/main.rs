//! Values recorded from JAX (`python-compat/`) against ours, within each case's tolerance.

mod fixtures;
mod nn;
mod random;
