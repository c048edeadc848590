//! Shardings by leaf path: a model need not know its mesh.

use crate::core::{Array, Error, Loc, Mesh, NamedSharding, PartitionSpec, leaf_error};
use crate::tree::{Tree, TreeDef, captures, leaves_of, rooted};
use std::fmt;

/// Which leaves are cut how: patterns of leaf paths, the first that fits decides.
///
/// In a pattern `*` stands for any text, dots included, or none. Leaves that no pattern fits, and those of one element, lie whole on
/// every device.
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
    /// Rules in the order in which they are tried.
    pub fn new<S: Into<String>>(
        rules: impl IntoIterator<Item = (S, PartitionSpec)>,
    ) -> PartitionRules {
        let rules = rules.into_iter().map(|(pattern, spec)| (pattern.into(), spec)).collect();
        PartitionRules { rules }
    }

    /// What the rules say of a leaf.
    pub fn spec(&self, path: &str) -> Option<&PartitionSpec> {
        let fits = |(pattern, _): &&(String, PartitionSpec)| captures(pattern, path).is_some();
        self.rules.iter().find(fits).map(|(_, spec)| spec)
    }

    /// How the leaves of a tree, concrete or of types alone, lie on a mesh.
    ///
    /// # Errors
    /// [`Error::Op`] (value, shape) names the first leaf that cannot be cut as its rule says: an axis that the mesh does not have,
    /// a size that is not divisible.
    #[track_caller]
    pub fn shardings<T: Tree>(&self, tree: &T, mesh: &Mesh) -> Result<TreeSharding, Error> {
        let loc = Loc::caller();
        let structure = TreeDef::of(tree);
        let leaves = structure.paths().iter().zip(leaves_of(tree)).map(|(path, leaf)| {
            let spec = match leaf.size() {
                1 => PartitionSpec::replicated(),
                _ => self.spec(path).cloned().unwrap_or_default(),
            };
            Placed::new(path, &leaf, mesh, spec)
                .map_err(|error| leaf_error("shardings", &rooted(path), error, loc))
        });
        Ok(TreeSharding { leaves: leaves.collect::<Result<_, _>>()? })
    }
}

/// How one leaf lies.
#[derive(Clone, Debug)]
struct Placed {
    path: String,
    aval: String,
    sharding: NamedSharding,
    /// Of one device's part, and of the whole.
    bytes: [usize; 2],
}

impl Placed {
    fn new(
        path: &str,
        leaf: &Array,
        mesh: &Mesh,
        spec: PartitionSpec,
    ) -> crate::core::RuleResult<Placed> {
        let part = spec.shard_shape(mesh, leaf.shape())?;
        let bytes = [leaf.aval().with_shape(part).bytes(), leaf.aval().bytes()];
        let sharding = NamedSharding::checked(mesh, spec)?;
        Ok(Placed { path: path.into(), aval: leaf.aval().to_string(), sharding, bytes })
    }
}

/// A sharding for each leaf of a tree. Prints as a table of leaves, specs and bytes per device.
#[derive(Clone, Debug)]
pub struct TreeSharding {
    leaves: Vec<Placed>,
}

impl TreeSharding {
    /// All leaves of a tree alike.
    ///
    /// # Errors
    /// [`Error::Op`] (shape) names the first leaf that cannot be cut so.
    #[track_caller]
    pub fn all<T: Tree>(tree: &T, sharding: &NamedSharding) -> Result<TreeSharding, Error> {
        let loc = Loc::caller();
        let structure = TreeDef::of(tree);
        let leaves = structure.paths().iter().zip(leaves_of(tree)).map(|(path, leaf)| {
            Placed::new(path, &leaf, sharding.mesh(), sharding.spec().clone())
                .map_err(|error| leaf_error("shardings", &rooted(path), error, loc))
        });
        Ok(TreeSharding { leaves: leaves.collect::<Result<_, _>>()? })
    }

    /// The shardings, in the order of the leaves.
    pub fn shardings(&self) -> impl Iterator<Item = &NamedSharding> {
        self.leaves.iter().map(|leaf| &leaf.sharding)
    }

    /// The sharding of the leaf at a path.
    pub fn get(&self, path: &str) -> Option<&NamedSharding> {
        self.leaves.iter().find(|leaf| leaf.path == path).map(|leaf| &leaf.sharding)
    }

    /// The bytes that one device has of the whole tree.
    pub fn bytes_per_device(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.bytes[0]).sum()
    }

    /// The bytes of the whole tree.
    pub fn bytes(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.bytes[1]).sum()
    }
}

impl fmt::Display for TreeSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 4]> = self
            .leaves
            .iter()
            .map(|leaf| {
                let spec = leaf.sharding.spec().to_string();
                [rooted(&leaf.path), leaf.aval.clone(), spec, leaf.bytes[0].to_string()]
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
        let (each, whole) = (self.bytes_per_device(), self.bytes());
        write!(f, "{each} of {whole} bytes on each device")
    }
}
