//! Reductions over sliding windows: sums, products and extrema, of which pooling is made.
//!
//! On CPU a window is taken together axis by axis and by doubling, in about `log2` of its size steps over
//! all elements; elsewhere `stablehlo.reduce_window` does it.

mod dims;
mod extremum;
mod gather_add;
mod general;
mod lowering;
mod plan;
mod prod;
mod scatter_add;
mod sum;

pub use dims::{Padding, Window};
pub use extremum::{ReduceWindowMax, ReduceWindowMin, reduce_window_max, reduce_window_min};
pub use gather_add::{Extremum, SelectAndGatherAdd};
pub use general::reduce_window;
pub use prod::{ReduceWindowProd, reduce_window_prod};
pub use scatter_add::SelectAndScatterAdd;
pub use sum::{ReduceWindowSum, reduce_window_sum};

pub(super) use dims::{WindowAxis, dilated, meetings, places};

use crate::core::{Aval, RuleResult};

/// The type of a reduction of `x` over windows.
fn reduced(window: &Window, x: &Aval) -> RuleResult<Aval> {
    let axes = window.axes(&x.shape)?;
    Ok(x.with_shape(axes.iter().map(|axis| axis.places).collect::<Vec<_>>()))
}
