//! [`multiple_of`]: a promise about an index.

use crate::core::{Array, Loc, OpErrorKind, Scalar, bind1, trace};
use crate::primitives::{Div, fill_of, mul};

/// Returns `index` as a multiple of `number`: rounded towards 0 if it is not one.
///
/// A kernel for TPUs reads and writes whole tiles. The start of a slice that the kernel computes
/// must be a multiple of the tile, and the compiler must be able to see that. A start like
/// `i * 8` shows it. This function shows it for other starts, such as those read from memory.
///
/// Throws `Op` (value) if `index` is not an integer scalar, or `number` is 0.
///
/// ```
/// use oxidax::kernel::{self, BlockSpec, Grid, KernelMemory, Output, Ref, ds};
/// use oxidax::prelude::*;
/// // Copies eight rows from an offset that is known when the kernel runs.
/// let rows = kernel::call(
///     |[start, x, y]: [Ref; 3]| {
///         let start = kernel::multiple_of(&start.at((0,)).load(), 8);
///         y.store(x.at((ds(&start, 8), ..)).load());
///     },
///     Grid::new([1]),
///     [BlockSpec::whole().memory(KernelMemory::Smem), BlockSpec::whole()],
///     [Output::new(DType::F32, [8, 128], BlockSpec::whole())],
/// );
/// let (start, x) = (Aval::new(DType::I32, [1]), Aval::new(DType::F32, [64, 128]));
/// let y = eval_shape(|start: Array, x: Array| rows.apply1(&[&start, &x]), (start, x))?;
/// assert_eq!(y.aval().to_string(), "f32[8,128]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "assume_multiple")]
#[track_caller]
pub fn multiple_of(index: &Array, number: usize) -> Array {
    let loc = Loc::caller();
    let name = "multiple_of";
    if index.rank() != 0 || !index.dtype().is_integer() {
        let message = format!("an index is an integer scalar, got {}", index.aval());
        trace::throw_op(OpErrorKind::Value, name, message, loc);
    }
    let number = match i32::try_from(number) {
        Ok(number) if number > 0 => number,
        _ => {
            let message = format!("a multiple of {number}");
            trace::throw_op(OpErrorKind::Value, name, message, loc)
        }
    };
    // The compiler sees the factor of a product.
    loc.scope(|| {
        let quotient = bind1(Div, [index, &fill_of(Scalar::Int(number.into()), index.aval())]);
        mul(&quotient, number)
    })
}
