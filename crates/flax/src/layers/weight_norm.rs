//! Weight normalization.

use super::sequential::Layer;
use oxidax::nn::Number;
use oxidax::optim::Mask;
use oxidax::prelude::*;
use std::collections::BTreeMap;

/// Weight normalization: the weights of a layer are unit vectors times trained scales.
///
/// Each vector of a weight has a scale: by default there is one for each index of the last axis,
/// the feature axis.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::WeightNorm;
/// let layer = WeightNorm::new(nn::Linear::new(random::key(0), 8, 4));
/// let weight = layer.layer().weight; // columns of norm 1
/// let norms = (&weight * &weight).sum_axes(0).to_vec::<f32>()?;
/// assert!(norms.iter().all(|norm| (norm - 1.0).abs() < 1e-5));
/// assert_eq!(layer.forward(&ones([2, 8])).shape().dims(), [2, 4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Salimans, Kingma: Weight normalization (2016), equation 2.
#[derive(Clone, Debug, Tree)]
pub struct WeightNorm<T> {
    /// The layer, whose weights give the directions.
    #[doc(alias = "layer_instance")]
    pub inner: T,
    /// The scale of each weight by its path, with the shape of the feature axes. A weight without a
    /// scale has norm 1.
    pub scales: BTreeMap<String, Array>,
    /// The paths of the normalized leaves.
    #[tree(static)]
    pub paths: Vec<String>,
    /// The axes that are not reduced. The last one by default.
    #[tree(static)]
    pub feature_axes: Vec<isize>,
    /// A constant added to squared norms. 1e-12 by default.
    #[tree(static)]
    pub epsilon: Number,
}

impl<T: Tree + Clone> WeightNorm<T> {
    /// Normalizes the leaves named `weight` of a layer, with scales of 1.
    #[track_caller]
    pub fn new(layer: T) -> WeightNorm<T> {
        let is_weight = |path: &str| path.split('.').next_back() == Some("weight");
        WeightNorm::with_filter(layer, &[-1], &Mask::new(move |path, _| is_weight(path)))
    }

    /// Normalizes the leaves that a mask selects over all axes but `feature_axes`, with scales
    /// of 1.
    #[doc(alias = "variable_filter")]
    #[track_caller]
    pub fn with_filter(layer: T, feature_axes: &[isize], filter: &Mask) -> WeightNorm<T> {
        let leaves = tree::paths(&layer).into_iter().zip(tree::leaves(&layer));
        let (mut scales, mut paths) = (BTreeMap::new(), Vec::new());
        for (path, leaf) in leaves.filter(|(path, leaf)| filter.contains(path, leaf.aval())) {
            let shape: Vec<usize> =
                features(&leaf, feature_axes).iter().map(|&axis| leaf.shape()[axis]).collect();
            scales.insert(path.clone(), ones((shape, leaf.dtype())));
            paths.push(path);
        }
        let feature_axes = feature_axes.to_vec();
        WeightNorm { inner: layer, scales, paths, feature_axes, epsilon: 1e-12.into() }
    }

    /// Removes the scales, so that every vector has norm 1.
    pub fn without_scales(self) -> WeightNorm<T> {
        WeightNorm { scales: BTreeMap::new(), ..self }
    }

    /// Returns the layer with normalized and scaled weights.
    #[track_caller]
    pub fn layer(&self) -> T {
        tree::map_with_path(&self.inner, |path, leaf| {
            if !self.paths.iter().any(|normalized| normalized == path) {
                return leaf.clone();
            }
            let features = features(leaf, &self.feature_axes);
            let reduced: Vec<isize> = (0..leaf.rank())
                .filter(|axis| !features.contains(axis))
                .map(|a| a as isize)
                .collect();
            let square = (leaf * leaf).sum_axes(axes(reduced).keepdims());
            let unit = leaf * rsqrt(&(square + self.epsilon.get()));
            let Some(scale) = self.scales.get(path) else { return unit };
            let mut dims = vec![1; leaf.rank()];
            for &axis in &features {
                dims[axis] = leaf.shape()[axis];
            }
            unit * scale.reshape(dims)
        })
    }
}

impl<T: Tree + Clone + Layer> WeightNorm<T> {
    /// Applies the normalized layer.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.layer().forward(x)
    }
}

impl<T: Tree + Clone + Layer> Layer for WeightNorm<T> {
    #[track_caller]
    fn forward(&self, x: &Array) -> Array {
        self.layer().forward(x)
    }
}

/// Returns the feature axes of a leaf, counted from the front, in ascending order. Axes that a leaf
/// does not have are left out.
fn features(leaf: &Array, axes: &[isize]) -> Vec<usize> {
    let rank = leaf.rank() as isize;
    let positions = axes.iter().map(|&axis| if axis < 0 { axis + rank } else { axis });
    let mut positions: Vec<usize> =
        positions.filter(|axis| (0..rank).contains(axis)).map(|axis| axis as usize).collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}
