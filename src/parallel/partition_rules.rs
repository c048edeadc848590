//! [`PartitionRules`]: shardings of a model's leaves by their paths.

use crate::core::{Array, Error, Loc, MemoryKind, Mesh, NamedSharding, PartitionSpec, leaf_error};
use crate::tree::{Tree, TreeDef, captures, leaves_of, rooted};
use std::fmt;

/// Partition specs by patterns of leaf paths; the first matching pattern decides.
///
/// In a pattern `*` matches any text, including dots and the empty text. Leaves that match no
/// pattern, and leaves of one element, are replicated.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let rules = PartitionRules::new([
///     ("*attn.qkv.weight", p![None, "model"]),
///     ("*attn.out.weight", p!["model", None]),
///     ("*embedding", p!["model"]),
/// ]);
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// let model = nn::Linear::new(random::key(0), 64, 64);
/// let shardings = rules.shardings(&model, &mesh)?;
/// println!("{shardings}"); // leaf, spec, bytes per device
/// let model = device_put(&model, shardings)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PartitionRules {
    rules: Vec<(String, PartitionSpec)>,
}

impl PartitionRules {
    /// Creates rules from patterns and specs, tried in this order.
    pub fn new<S: Into<String>>(
        rules: impl IntoIterator<Item = (S, PartitionSpec)>,
    ) -> PartitionRules {
        let rules = rules.into_iter().map(|(pattern, spec)| (pattern.into(), spec)).collect();
        PartitionRules { rules }
    }

    /// Returns the spec of the leaf at `path`; `None` if no pattern matches.
    pub fn spec(&self, path: &str) -> Option<&PartitionSpec> {
        let matches = |(pattern, _): &&(String, PartitionSpec)| captures(pattern, path).is_some();
        self.rules.iter().find(matches).map(|(_, spec)| spec)
    }

    /// Returns the shardings of a tree's leaves over a mesh, each in the memory of the leaf. The
    /// leaves can be arrays or types.
    ///
    /// # Errors
    /// [`Error::Op`] (value, shape) names the first leaf whose spec does not fit: the mesh lacks an
    /// axis, or a size is not divisible.
    #[track_caller]
    pub fn shardings<T: Tree>(&self, tree: &T, mesh: &Mesh) -> Result<TreeSharding, Error> {
        let loc = Loc::caller();
        let structure = TreeDef::of(tree);
        let leaves = structure.paths().iter().zip(leaves_of(tree)).map(|(path, leaf)| {
            let spec = match leaf.size() {
                1 => PartitionSpec::replicated(),
                _ => self.spec(path).cloned().unwrap_or_default(),
            };
            LeafSharding::new(path, &leaf, mesh, spec)
                .map_err(|error| leaf_error("shardings", &rooted(path), error, loc))
        });
        Ok(TreeSharding { leaves: leaves.collect::<Result<_, _>>()? })
    }
}

/// The sharding of one leaf.
#[derive(Clone, Debug)]
struct LeafSharding {
    path: String,
    aval: String,
    sharding: NamedSharding,
    bytes_per_device: usize,
    bytes: usize,
}

impl LeafSharding {
    fn new(
        path: &str,
        leaf: &Array,
        mesh: &Mesh,
        spec: PartitionSpec,
    ) -> crate::core::RuleResult<LeafSharding> {
        let shard = spec.shard_shape(mesh, leaf.shape())?;
        Ok(LeafSharding {
            path: path.into(),
            aval: leaf.aval().to_string(),
            bytes_per_device: leaf.aval().with_shape(shard).bytes(),
            bytes: leaf.aval().bytes(),
            sharding: NamedSharding::checked(mesh, spec)?.with_memory_kind(leaf.aval().memory),
        })
    }
}

/// A sharding for each leaf of a tree. Prints as a table of leaves, specs and bytes per device.
#[derive(Clone, Debug)]
pub struct TreeSharding {
    leaves: Vec<LeafSharding>,
}

impl TreeSharding {
    /// Creates shardings that assign one sharding to all leaves of a tree.
    ///
    /// # Errors
    /// [`Error::Op`] (shape) names the first leaf that the sharding does not divide.
    #[track_caller]
    pub fn all<T: Tree>(tree: &T, sharding: &NamedSharding) -> Result<TreeSharding, Error> {
        let loc = Loc::caller();
        let structure = TreeDef::of(tree);
        let leaves = structure.paths().iter().zip(leaves_of(tree)).map(|(path, leaf)| {
            LeafSharding::new(path, &leaf, sharding.mesh(), sharding.spec().clone())
                .map_err(|error| leaf_error("shardings", &rooted(path), error, loc))
        });
        let all = TreeSharding { leaves: leaves.collect::<Result<_, _>>()? };
        Ok(all.with_memory_kind(sharding.memory_kind()))
    }

    /// Returns the shardings with all leaves in another memory of the devices.
    pub fn with_memory_kind(mut self, memory: MemoryKind) -> TreeSharding {
        for leaf in &mut self.leaves {
            leaf.sharding = leaf.sharding.with_memory_kind(memory);
        }
        self
    }

    /// Returns the shardings, in the order of the leaves.
    pub fn shardings(&self) -> impl Iterator<Item = &NamedSharding> {
        self.leaves.iter().map(|leaf| &leaf.sharding)
    }

    /// Returns the sharding of the leaf at a path.
    pub fn get(&self, path: &str) -> Option<&NamedSharding> {
        self.leaves.iter().find(|leaf| leaf.path == path).map(|leaf| &leaf.sharding)
    }

    /// Returns the number of bytes that one device stores.
    pub fn bytes_per_device(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.bytes_per_device).sum()
    }

    /// Returns the number of bytes of the whole tree.
    pub fn bytes(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.bytes).sum()
    }
}

impl fmt::Display for TreeSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 4]> = self
            .leaves
            .iter()
            .map(|leaf| {
                let spec = leaf.sharding.spec().to_string();
                [rooted(&leaf.path), leaf.aval.clone(), spec, leaf.bytes_per_device.to_string()]
            })
            .collect();
        let head = ["leaf", "type", "spec", "bytes per device"].map(str::to_string);
        let all = || std::iter::once(&head).chain(&rows);
        let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        for [leaf, aval, spec, bytes] in all() {
            let [a, b, c, d] = widths;
            writeln!(f, "{leaf:a$}  {aval:b$}  {spec:c$}  {bytes:>d$}")?;
        }
        write!(f, "{} of {} bytes on each device", self.bytes_per_device(), self.bytes())
    }
}
