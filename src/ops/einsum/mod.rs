//! Einstein summation: [`einsum`], its notation, and how operands are contracted.

mod contract;
mod spec;

pub use contract::einsum;
