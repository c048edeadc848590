//! The parts of Optax beyond [`oxidax::optim`]: the optimizers of `optax.contrib`, projections onto
//! sets, assignment problems, perturbed functions and second-order quantities.
//!
//! The optimizers are values of [`oxidax::optim::Optimizer`]: chain, mask and wrap them as those of
//! the library.
//!
//! ```
//! use oxidax::prelude::*;
//! let optimizer = optim::clip_by_global_norm(1.0).chain(oxidax_optim::prodigy());
//! let w = array![3f32, -4.0];
//! let (updates, _) = optimizer.update(&w, &optimizer.init(&w), &w);
//! assert_eq!(updates.shape().dims(), [2]);
//! # Ok::<(), oxidax::Error>(())
//! ```

#![forbid(unsafe_code)]

mod ademamix;
mod adopt;
pub mod assignment;
mod check;
mod distance;
mod galore;
mod leaf_arithmetic;
mod linear_algebra;
pub mod losses;
mod mechanic;
mod microbatch;
mod momo;
pub mod perturbations;
mod plateau;
mod privacy;
mod prodigy;
pub mod projections;
mod sam;
mod schedule_free;
pub mod second_order;
mod sophia;
mod split_complex;
pub mod trees;

pub use ademamix::{
    AdemamixOptions, ScaleByAdemamixOptions, ScaleBySimplifiedAdemamixOptions,
    SimplifiedAdemamixOptions, ademamix, ademamix_with, scale_by_ademamix, scale_by_ademamix_with,
    scale_by_simplified_ademamix, scale_by_simplified_ademamix_with, simplified_ademamix,
    simplified_ademamix_with,
};
pub use adopt::{
    AcpropOptions, AdoptOptions, MadgradOptions, ScaleByAcpropOptions, ScaleByMadgradOptions,
    acprop, acprop_with, adopt, adopt_with, madgrad, madgrad_with, scale_by_acprop,
    scale_by_acprop_with, scale_by_adopt, scale_by_adopt_with, scale_by_madgrad,
    scale_by_madgrad_with,
};
pub use distance::{
    CocobOptions, DogInitStep, DogOptions, DowgOptions, ScaleByCocobOptions, cocob, cocob_with,
    dog, dog_with, dowg, dowg_with, scale_by_cocob, scale_by_cocob_with,
};
pub use galore::{
    GaloreOptions, ScaleByGaloreOptions, galore, galore_with, scale_by_galore, scale_by_galore_with,
};
pub use linear_algebra::{
    InverseRootOptions, MultiNormal, PowerIterationOptions, matrix_inverse_pth_root,
    matrix_inverse_pth_root_with, multi_normal, nnls, power_iteration, scale_gradient,
};
pub use mechanic::{MechanizeOptions, mechanize, mechanize_with};
pub use microbatch::{AccumulationType, MicrobatchOptions, micro_grad, micro_vmap, microbatch};
pub use momo::{
    LowerBound, MomoAdamOptions, MomoOptions, momo, momo_adam, momo_adam_with, momo_with,
};
pub use plateau::{ReduceOnPlateauOptions, reduce_on_plateau, reduce_on_plateau_with};
pub use privacy::{
    DpsgdOptions, LayerShare, differentially_private_aggregate, dpsgd, dpsgd_with,
    per_example_global_norm_clip, per_example_layer_norm_clip,
};
pub use prodigy::{
    DadaptAdamWOptions, ProdigyOptions, WarmupSafeguard, dadapt_adamw, dadapt_adamw_with, prodigy,
    prodigy_with,
};
pub use sam::{AdversarialState, SamOptions, normalize, sam, sam_opaque, sam_with};
pub use schedule_free::{
    ScheduleFreeAdamWOptions, ScheduleFreeOptions, ScheduleFreeSgdOptions, schedule_free,
    schedule_free_adamw, schedule_free_adamw_with, schedule_free_eval_params, schedule_free_sgd,
    schedule_free_sgd_with, schedule_free_with,
};
pub use sophia::{
    ScaleBySophiaOptions, SophiaOptions, hutchinson_estimator_diag_hessian, scale_by_sophia_with,
    sophia, sophia_with,
};
pub use split_complex::split_real_and_imaginary;
