//! First-order operations: one file per family, one struct per primitive, all its rules inside.
//!
//! Families follow the chapters of StableHLO. The public functions (`add`, `sin`, `dot_general`)
//! stand under their primitive. Primitives that hold programs live in `control_flow`.

mod arithmetic;
mod constant;
mod convert;
mod dot;
mod operators;
mod promote;
mod reduce;
mod rng_bits;
pub mod rules;
mod shape;
mod trig;

pub use arithmetic::*;
pub use constant::*;
pub use convert::*;
pub use dot::*;
pub use promote::{ArrayLike, Like, promote_arrays};
pub use reduce::*;
pub use rng_bits::*;
pub use shape::*;
pub use trig::*;

use crate::core::Entry;

/// Every first-order primitive, sorted by name within its family.
pub const PRIMITIVES: &[Entry] = &[
    // arithmetic
    Entry::of::<Add>("add", arithmetic::exemplars_add),
    Entry::of::<Div>("div", arithmetic::exemplars_div),
    Entry::of::<Mul>("mul", arithmetic::exemplars_mul),
    Entry::of::<Neg>("neg", arithmetic::exemplars_neg),
    Entry::of::<Sub>("sub", arithmetic::exemplars_sub),
    // constant
    Entry::of::<Fill>("fill", constant::exemplars_fill),
    // convert
    Entry::of::<ConvertElementType>("convert_element_type", convert::exemplars),
    // dot
    Entry::of::<DotGeneral>("dot_general", dot::exemplars),
    // reduce
    Entry::of::<ArgMax>("argmax", reduce::exemplars_argmax),
    Entry::of::<ArgMin>("argmin", reduce::exemplars_argmin),
    Entry::of::<ReduceAnd>("reduce_and", reduce::exemplars_and),
    Entry::of::<ReduceOr>("reduce_or", reduce::exemplars_or),
    Entry::of::<ReduceSum>("reduce_sum", reduce::exemplars_sum),
    Entry::of::<ReduceXor>("reduce_xor", reduce::exemplars_xor),
    // rng_bits
    Entry::of::<Threefry2x32>("threefry2x32", rng_bits::exemplars_threefry2x32),
    // shape
    Entry::of::<BroadcastInDim>("broadcast_in_dim", shape::exemplars_broadcast_in_dim),
    Entry::of::<Reshape>("reshape", shape::exemplars_reshape),
    Entry::of::<Transpose>("transpose", shape::exemplars_transpose),
    // trig
    Entry::of::<Cos>("cos", trig::exemplars_cos),
    Entry::of::<Sin>("sin", trig::exemplars_sin),
];
