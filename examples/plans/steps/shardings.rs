//! Shardings on a mesh of three axes: `data` and `fsdp` split the batch, `tensor` splits layers,
//! and `fsdp` also splits parameters and optimizer state.

use oxidax::core::AxisSpec;
use oxidax::parallel::TreeSharding;
use oxidax::prelude::*;

/// Devices along `fsdp` and `tensor`; the rest is `data`.
const FSDP: usize = 2;
const TENSOR: usize = 2;

/// A mesh, and the rules that split layers along `tensor`.
pub struct MeshShardings {
    mesh: Mesh,
    layers: PartitionRules,
}

impl MeshShardings {
    /// Builds a mesh. `layers` are patterns of leaf paths, and the array axis that `tensor` splits.
    pub fn new(devices: &[Device], layers: &[(&str, usize)]) -> Result<MeshShardings, Error> {
        let data = devices.len() / (FSDP * TENSOR);
        let mesh = Mesh::new(devices, [("data", data), ("fsdp", FSDP), ("tensor", TENSOR)])?;
        let rules = layers.iter().map(|&(pattern, axis)| {
            let axes = (0..=axis).map(|at| (at == axis).then_some("tensor").into());
            (pattern, PartitionSpec(axes.collect()))
        });
        Ok(MeshShardings { mesh, layers: PartitionRules::new(rules) })
    }

    /// Replicated on every device.
    pub fn replicated(&self) -> NamedSharding {
        self.mesh.replicated()
    }

    /// Sharding of a batch, along its first axis.
    pub fn batch(&self) -> Result<NamedSharding, Error> {
        self.mesh.sharding(p![["data", "fsdp"]])
    }

    /// Shardings of a tree in the forward pass: gathered along `fsdp`.
    pub fn gathered<T: Tree>(&self, tree: &T) -> Result<TreeSharding, Error> {
        self.layers.shardings(tree, &self.mesh)
    }

    /// Shardings of a tree between steps: `fsdp` splits the longest divisible axis that is not
    /// split yet.
    pub fn stored<T: Tree>(&self, tree: &T) -> Result<TreeSharding, Error> {
        let leaves = tree::paths(tree).into_iter().zip(tree::leaves(tree));
        let mut rules: Vec<(String, PartitionSpec)> = leaves
            .map(|(path, leaf)| {
                let shape = leaf.shape();
                let mut spec = self.layers.spec(&path).cloned().unwrap_or_default();
                spec.0.resize(shape.rank(), AxisSpec::default());
                let is_free =
                    |&at: &usize| spec.0[at].names().is_empty() && shape[at].is_multiple_of(FSDP);
                if let Some(at) = (0..shape.rank()).filter(is_free).max_by_key(|&at| shape[at]) {
                    spec.0[at] = "fsdp".into();
                }
                (path, spec)
            })
            .collect();
        // A path can be the suffix of another one, so longer paths come first.
        rules.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        PartitionRules::new(rules).shardings(tree, &self.mesh)
    }
}
