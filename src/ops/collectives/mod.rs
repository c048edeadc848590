//! Collectives: what examples along a named axis compute together. `vmap(f).axis_name("batch")` names one.
//!
//! All of them take a tree and apply to each leaf. Several names stand for one axis made of all of
//! them, the first varying slowest. Every function throws `Op` (value) if no axis in scope has a name that
//! it is given, and says which are.

mod exchange;
mod psum;

pub use exchange::{Tiling, all_gather, all_to_all, ppermute, pshuffle, psum_scatter, pswapaxes};
pub use psum::{axis_index, pmax, pmean, pmin, psum};

use crate::core::named_axes::{NamedAxis, named_axes};
use crate::core::{AxisNames, Loc, OpErrorKind, trace};

/// As [`named_axes`], of which there must be one at least.
#[track_caller]
fn some_axes(function: &str, axis_name: AxisNames) -> Vec<NamedAxis> {
    let axes = named_axes(function, &axis_name);
    if axes.is_empty() {
        let message = "no axis is named: the list of names is empty".to_string();
        trace::throw_op(OpErrorKind::Value, function, message, Loc::caller());
    }
    axes
}
