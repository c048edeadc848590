//! How a step lies on a mesh of three axes: the batch is cut along `data` and `fsdp`, layers along `tensor`, and parameters
//! with all that the optimizer remembers of them along `fsdp` besides.

use oxidax::core::AxisSpec;
use oxidax::parallel::TreeSharding;
use oxidax::prelude::*;

/// Devices along `fsdp` and along `tensor`; the others lie along `data`.
const FSDP: usize = 2;
const TENSOR: usize = 2;

/// A mesh, and how a model's layers are cut along `tensor`.
pub struct Cut {
    mesh: Mesh,
    layers: PartitionRules,
}

impl Cut {
    /// Over these devices. `layers` are patterns of leaf paths and the axis of the leaf that is cut.
    pub fn new(devices: &[Device], layers: &[(&str, usize)]) -> Result<Cut, Error> {
        let data = devices.len() / (FSDP * TENSOR);
        let mesh = Mesh::new(devices, [("data", data), ("fsdp", FSDP), ("tensor", TENSOR)])?;
        let rules = layers.iter().map(|&(pattern, axis)| {
            let axes = (0..=axis).map(|at| (at == axis).then_some("tensor").into());
            (pattern, PartitionSpec(axes.collect()))
        });
        Ok(Cut { mesh, layers: PartitionRules::new(rules) })
    }

    /// Whole on every device.
    pub fn whole(&self) -> NamedSharding {
        self.mesh.replicated()
    }

    /// A batch, along its first axis.
    pub fn batch(&self) -> Result<NamedSharding, Error> {
        self.mesh.sharding(p![["data", "fsdp"]])
    }

    /// A tree while it computes: layers cut, and each put together from its parts along `fsdp`.
    pub fn computing<T: Tree>(&self, tree: &T) -> Result<TreeSharding, Error> {
        self.layers.shardings(tree, &self.mesh)
    }

    /// A tree as it is kept: each leaf's longest axis that is whole and can be is cut along `fsdp`.
    pub fn kept<T: Tree>(&self, tree: &T) -> Result<TreeSharding, Error> {
        let leaves = tree::paths(tree).into_iter().zip(tree::leaves(tree));
        let mut rules: Vec<(String, PartitionSpec)> = leaves
            .map(|(path, leaf)| {
                let shape = leaf.shape();
                let mut spec = self.layers.spec(&path).cloned().unwrap_or_default();
                spec.0.resize(shape.rank(), AxisSpec::default());
                let is_free =
                    |&at: &usize| spec.0[at].0.is_empty() && shape[at].is_multiple_of(FSDP);
                if let Some(at) = (0..shape.rank()).filter(is_free).max_by_key(|&at| shape[at]) {
                    spec.0[at] = "fsdp".into();
                }
                (path, spec)
            })
            .collect();
        // The path of one leaf may be the end of another's, which then comes first.
        rules.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        PartitionRules::new(rules).shardings(tree, &self.mesh)
    }
}
