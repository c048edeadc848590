//! Collectives along a named axis: of a mesh, or of `vmap(f).axis_name("batch")`.
//!
//! Collectives take a tree and apply to each leaf. Several names stand for one axis composed of
//! them, of which the first varies slowest. Every function throws `Op` (value) for a name that is
//! not in scope; the error lists the names in scope.

mod exchange;
mod psum;

pub use exchange::{Tiling, all_gather, all_to_all, ppermute, pshuffle, psum_scatter, pswapaxes};
pub use psum::{axis_index, pmax, pmean, pmin, psum};

use crate::core::named_axes::{NamedAxis, named_axes};
use crate::core::{AxisNames, Loc, OpErrorKind, trace};

/// Resolves axis names with [`named_axes`]. Throws if there are none.
#[track_caller]
fn some_axes(function: &str, axis_name: AxisNames) -> Vec<NamedAxis> {
    let axes = named_axes(function, &axis_name);
    if axes.is_empty() {
        let message = "the list of axis names is empty".to_string();
        trace::throw_op(OpErrorKind::Value, function, message, Loc::caller());
    }
    axes
}
