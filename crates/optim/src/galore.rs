//! GaLore: optimizers of low-rank projections of gradients.

use crate::check::expect_value;
use crate::leaf_arithmetic::select;
use oxidax::optim::{
    AddDecayedWeightsOptions, GradientTransformation, Leaves, Mask, Optimizer, Schedule, State,
    UpdateArgs,
};
use oxidax::prelude::*;
use std::collections::BTreeMap;

/// Options of [`galore_with`].
#[derive(Clone, Debug)]
pub struct GaloreOptions {
    /// The options of the projection.
    pub scaling: ScaleByGaloreOptions,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for GaloreOptions {
    fn default() -> GaloreOptions {
        let scaling = ScaleByGaloreOptions::default();
        GaloreOptions { scaling, weight_decay: 0.0, mask: Mask::all() }
    }
}

/// Options of [`scale_by_galore_with`].
#[derive(Clone, Debug)]
pub struct ScaleByGaloreOptions {
    /// The rank of the projections. 128 by default.
    pub rank: usize,
    /// The number of steps per projection. 200 by default.
    pub update_proj_gap: u32,
    /// A factor of the projected updates. 1 by default.
    pub scale: f64,
    /// The optimizer of the projected gradients. [`optim::scale_by_adam`] by default.
    pub base_optimizer: Optimizer,
    /// The matrices that are projected. All by default.
    pub matrices: Mask,
}

impl Default for ScaleByGaloreOptions {
    fn default() -> ScaleByGaloreOptions {
        ScaleByGaloreOptions {
            rank: 128,
            update_proj_gap: 200,
            scale: 1.0,
            base_optimizer: optim::scale_by_adam(),
            matrices: Mask::all(),
        }
    }
}

/// Creates GaLore: Adam on projections of the gradients of matrices onto their leading singular
/// vectors. Leaves that are not matrices have Adam.
///
/// # Reference
/// Zhao et al.: GaLore: memory-efficient LLM training by gradient low-rank projection (2024),
/// algorithm 2.
pub fn galore(learning_rate: impl Into<Schedule>) -> Optimizer {
    galore_with(learning_rate, GaloreOptions::default())
}

/// Creates GaLore with options.
pub fn galore_with(learning_rate: impl Into<Schedule>, options: GaloreOptions) -> Optimizer {
    let GaloreOptions { scaling, weight_decay, mask } = options;
    optim::chain([
        scale_by_galore_with(scaling),
        optim::add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        optim::scale_by_learning_rate(learning_rate),
    ])
}

/// Scales updates as GaLore does, without weight decay and learning rate.
pub fn scale_by_galore() -> Optimizer {
    scale_by_galore_with(ScaleByGaloreOptions::default())
}

/// Scales updates as GaLore does, with options.
///
/// Throws `Op` (value) if the rank is 0.
#[track_caller]
pub fn scale_by_galore_with(options: ScaleByGaloreOptions) -> Optimizer {
    expect_value(options.rank > 0, "scale_by_galore", || "rank must be positive, got 0".into());
    Optimizer::new(ScaleByGalore(options))
}

struct ScaleByGalore(ScaleByGaloreOptions);

#[derive(Tree)]
struct GaloreState {
    /// The orthonormal columns onto which each matrix is projected.
    projector: BTreeMap<String, Array>,
    base: State,
}

impl ScaleByGalore {
    fn is_projected(&self, path: &str, leaf: &Array) -> bool {
        leaf.rank() == 2 && self.0.matrices.contains(path, leaf.aval())
    }

    /// Returns the gradient in the space of the projector.
    fn project(&self, gradient: &Array, projector: &Array) -> Array {
        match is_tall(gradient) {
            true => matmul(&transpose(projector, &[1, 0]), gradient),
            false => matmul(gradient, projector),
        }
    }
}

/// Returns true if a matrix has at least as many rows as columns.
fn is_tall(matrix: &Array) -> bool {
    let [rows, columns] = matrix.dims();
    rows >= columns
}

impl GradientTransformation for ScaleByGalore {
    type State = GaloreState;

    fn init(&self, parameters: &Leaves) -> GaloreState {
        let mut projector = BTreeMap::new();
        let low = parameters.map_with_path(|path, leaf| {
            if !self.is_projected(path, leaf) {
                return leaf.clone();
            }
            let [rows, columns] = leaf.dims();
            let rank = self.0.rank.min(rows).min(columns);
            let columns_of_projector = zeros(([rows.max(columns), rank], leaf.dtype()));
            let low = self.project(leaf, &columns_of_projector);
            projector.insert(path.to_owned(), columns_of_projector);
            low
        });
        GaloreState { projector, base: self.0.base_optimizer.init(&low) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: GaloreState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, GaloreState) {
        let before = args.count() - 1;
        let is_due = eq(remainder(&before, self.0.update_proj_gap.max(1) as i32), 0);
        let mut projectors = BTreeMap::new();
        let low = updates.map_with_path(|path, gradient| {
            let Some(last) = state.projector.get(path) else { return gradient.clone() };
            let rank = last.shape().dims()[1] as isize;
            let (u, _, vh) = svd(&gradient.astype(DType::F32));
            let columns = if is_tall(gradient) { u } else { transpose(&vh, &[1, 0]) };
            let leading = slice_in_dim(&columns, 0, rank, 1, 1).astype(last.dtype());
            let projector = select(&is_due, &leading, last);
            let low = self.project(gradient, &projector);
            projectors.insert(path.to_owned(), projector);
            low
        });
        // The optimizer of projections has no parameters of their shapes.
        let zeros = tree::zeros_like(&low);
        let (steps, base) = args.update_inner_at(&self.0.base_optimizer, &low, &state.base, &zeros);
        let steps = steps.map_with_path(|path, step| {
            let Some(projector) = projectors.get(path) else { return step.clone() };
            let gradient = updates.get(path).expect("the paths are those of the updates");
            let full = match is_tall(gradient) {
                true => matmul(projector, step),
                false => matmul(step, &transpose(projector, &[1, 0])),
            };
            (full * self.0.scale).astype(gradient.dtype())
        });
        (steps, GaloreState { projector: projectors, base })
    }
}
