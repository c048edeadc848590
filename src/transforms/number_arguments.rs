//! Numbers as arguments of functions of arrays, and as initial carries of loops.

use crate::core::{Array, Scalar};
use crate::primitives::{for_each_number, scalar};
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

for_each_number!(numbers);
