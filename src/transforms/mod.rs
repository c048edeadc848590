//! Function transformations: each traces the user's closure into a program and interprets that with
//! the primitives' rules. No transform depends on which primitive an equation holds.

pub(crate) mod batch;
mod checks;
mod eval_shape;
mod forward_backward;
mod grad;
mod jacobian;
pub(crate) mod jet;
pub(crate) mod jvp;
mod linear_transpose;
pub(crate) mod linearize;
mod mapped_axes;
mod residuals;
pub(crate) mod staging;
pub(crate) mod transpose;
mod vectorize;
mod vjp;
mod vmap;

pub use eval_shape::{eval_shape, make_program};
pub use forward_backward::fwd_and_bwd;
pub use grad::{
    grad, grad_aux, grad_aux_with, grad_with, value_and_grad, value_and_grad_aux,
    value_and_grad_aux_with, value_and_grad_with,
};
pub use jacobian::{
    TwiceNested, hessian, hessian_aux, hessian_aux_with, hessian_with, hvp, jacfwd, jacfwd_aux,
    jacfwd_aux_with, jacfwd_with, jacrev, jacrev_aux, jacrev_aux_with, jacrev_with,
};
pub use jet::jet;
pub use jvp::{jvp, jvp_aux};
pub use linear_transpose::{LinearTranspose, linear_transpose};
pub use linearize::{Linearized, linearize, linearize_aux};
pub use mapped_axes::{IntoMappedAxes, MappedAxes};
pub use residuals::{ResidualSource, SavedResidual, SavedResiduals, saved_residuals};
pub use staging::{disable_jit, ensure_compile_time_eval};
pub use vectorize::{apply_along_axis, pad_by, vectorize};
pub use vjp::{GradOptions, Vjp, vjp, vjp_aux};
pub use vmap::{VMap, vmap};
