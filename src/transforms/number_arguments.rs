//! Numbers as arguments of functions of arrays, and as initial carries of loops.

use crate::core::{Array, Scalar};
use crate::primitives::scalar;
use crate::tree::{Arg, Owned, Passing};

macro_rules! numbers {
    ($($number:ty),*) => {$(
        /// A number becomes a weakly typed scalar.
        #[diagnostic::do_not_recommend]
        impl Arg<Array> for $number {
            const PASSING: Passing = Passing::Value;
            type Held = Owned<Array>;
            #[track_caller]
            fn hold(self) -> Owned<Array> {
                Owned::new(scalar(self))
            }
            fn release(_: Owned<Array>) -> Option<Array> {
                None
            }
        }
    )*};
}

numbers!(
    bool,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    usize,
    f32,
    f64,
    half::f16,
    half::bf16,
    num_complex::Complex32,
    num_complex::Complex64,
    Scalar
);
