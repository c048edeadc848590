//! Reductions over sliding windows: sums, products and extrema, on which pooling is built.
//!
//! On CPU a window is reduced axis by axis and by doubling, in about `log2` of its size steps over
//! all elements. On other platforms it is lowered to `stablehlo.reduce_window`.

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
pub(crate) use general::reduce_windows;
pub use prod::{ReduceWindowProd, reduce_window_prod};
pub use scatter_add::SelectAndScatterAdd;
pub use sum::{ReduceWindowSum, reduce_window_sum};

pub(super) use dims::{WindowAxis, check_extents, count_windows, dilated, overlaps};

use crate::core::{Aval, RuleResult};

/// Returns the type of a reduction of `x` over windows.
fn reduced(window: &Window, x: &Aval) -> RuleResult<Aval> {
    let axes = window.axes(&x.shape)?;
    Ok(x.with_shape(axes.iter().map(|axis| axis.windows).collect::<Vec<_>>()))
}
