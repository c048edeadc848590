//! [`PackedTree`]: a tree stored as one array per dtype.

use super::{PathKey, Tag, Tree, TreeDef, Visitor, def, leaves_of, rebuild};
use crate::core::{Array, Aval, DType, Loc};
use crate::primitives::{concatenate, reshape, split_sizes};
use rustc_hash::FxHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A tree stored as one flat array per dtype of its leaves.
///
/// Passing an array to a compiled program costs about a microsecond, so a step of a small model
/// with hundreds of leaves spends much of its time on them. The leaves of a packed tree are the
/// flat arrays. A step takes and returns a packed state, and calls [`unpack`](PackedTree::unpack)
/// to get the tree, whose leaves are parts of the flat arrays. The gradient with respect to a
/// packed tree is packed. Optimizers that treat all elements alike update it as it is.
///
/// ```
/// use oxidax::prelude::*;
/// let params = vec![(ones([2, 3]), zeros([3])), (ones([3, 1]), zeros([1]))];
/// let loss = |params: &tree::PackedTree<Vec<(Array, Array)>>, x: &Array| {
///     let layer = |x: Array, (weight, bias): &(Array, Array)| tanh(&(x.matmul(weight) + bias));
///     params.unpack().iter().fold(x.clone(), layer).mean()
/// };
/// let step = jit(move |params: tree::PackedTree<Vec<(Array, Array)>>, x: Array| {
///     let (loss, gradients) = value_and_grad(|params: &_| loss(params, &x))(&params);
///     (tree::add_scaled(&params, -0.1, &gradients), loss)
/// });
/// let (params, _) = step.call(tree::PackedTree::new(&params), ones([4, 2]))?;
/// assert_eq!(params.arrays().len(), 1);
/// assert_eq!(params.unpack()[1].0.shape().dims(), [3, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// All leaves must have the same sharding. Save `unpack()` in checkpoints, and pack what they
/// return, so that files have a name per leaf. Masks and rules by path apply to the unpacked tree.
///
/// The gradient is concatenated, which takes time too: on a CPU, a step with 289 leaves took 0.80
/// of the time, and one with 73 took 1.12 (`docs/benchmarks.md`). Large models gain nothing.
pub struct PackedTree<T> {
    arrays: Vec<Array>,
    layout: Arc<Layout<T>>,
}

/// The structure of a packed tree.
struct Layout<T> {
    /// The tree with types instead of arrays.
    template: T,
    key: LayoutKey,
}

/// The positions of the leaves, which decide whether two packed trees have equal structures.
#[derive(Clone)]
struct LayoutKey(Arc<Positions>);

struct Positions {
    structure: TreeDef,
    leaves: Vec<Aval>,
    /// The array of each leaf.
    arrays_of_leaves: Vec<usize>,
    /// The hash of the types and paths.
    hash: u64,
}

impl PartialEq for LayoutKey {
    fn eq(&self, other: &LayoutKey) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        let is_same = Arc::ptr_eq(&self.0, &other.0);
        is_same || (a.hash == b.hash && a.leaves == b.leaves && a.structure == b.structure)
    }
}

impl Eq for LayoutKey {}

impl Hash for LayoutKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl fmt::Debug for LayoutKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaves = self.0.structure.paths().iter().zip(&self.0.leaves);
        f.debug_map().entries(leaves.map(|(path, aval)| (path, aval.to_string()))).finish()
    }
}

impl<T: Tree> PackedTree<T> {
    /// Packs a tree: concatenates its leaves, each row by row.
    #[track_caller]
    pub fn new(tree: &T) -> PackedTree<T> {
        Loc::caller().scope(|| {
            let leaves = leaves_of(tree);
            let avals: Vec<Aval> = leaves.iter().map(|leaf| leaf.aval().clone()).collect();
            let mut kinds: Vec<(DType, bool)> = Vec::new();
            let arrays_of_leaves: Vec<usize> = avals
                .iter()
                .map(|aval| {
                    let kind = (aval.dtype, aval.weak);
                    kinds.iter().position(|other| *other == kind).unwrap_or_else(|| {
                        kinds.push(kind);
                        kinds.len() - 1
                    })
                })
                .collect();
            let array = |array: usize| {
                let parts = leaves.iter().zip(&arrays_of_leaves).filter(|(_, of)| **of == array);
                let parts: Vec<Array> =
                    parts.map(|(leaf, _)| reshape(leaf, [leaf.size()])).collect();
                concatenate(&parts, 0)
            };
            let arrays = (0..kinds.len()).map(array).collect();
            let structure = def::TreeDef::of(tree);
            let mut hasher = FxHasher::default();
            avals.hash(&mut hasher);
            structure.paths().hash(&mut hasher);
            let hash = hasher.finish();
            let template = rebuild(tree, avals.iter().cloned().map(Array::of_type).collect());
            let positions = Positions { structure, leaves: avals, arrays_of_leaves, hash };
            let key = LayoutKey(Arc::new(positions));
            PackedTree { arrays, layout: Arc::new(Layout { template, key }) }
        })
    }

    /// Returns the tree. Its leaves are parts of the flat arrays.
    #[track_caller]
    pub fn unpack(&self) -> T {
        Loc::caller().scope(|| {
            let Positions { leaves, arrays_of_leaves, .. } = &*self.layout.key.0;
            let parts = self.arrays.iter().enumerate().map(|(array, flat)| {
                let of_array = leaves.iter().zip(arrays_of_leaves).filter(|(_, of)| **of == array);
                let sizes: Vec<usize> = of_array.map(|(leaf, _)| leaf.size()).collect();
                split_sizes(flat, &sizes, 0).into_iter()
            });
            let mut parts: Vec<_> = parts.collect();
            let leaves = leaves.iter().zip(arrays_of_leaves).map(|(leaf, &array)| {
                let part = parts[array].next().expect("each leaf has a part");
                reshape(&part, leaf.shape.clone())
            });
            rebuild(&self.layout.template, leaves.collect())
        })
    }
}

impl<T> PackedTree<T> {
    /// Returns the flat arrays, `any[n]`, in the order in which the dtypes occur in the tree.
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }
}

impl<T> Clone for PackedTree<T> {
    fn clone(&self) -> PackedTree<T> {
        PackedTree { arrays: self.arrays.clone(), layout: self.layout.clone() }
    }
}

impl<T> fmt::Debug for PackedTree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedTree").field("arrays", &self.arrays).finish_non_exhaustive()
    }
}

impl<T: Tree> Tree for PackedTree<T> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Name("PackedTree"));
        visitor.tag(Tag::of(&self.layout.key));
        for array in &self.arrays {
            visitor.enter(PathKey::Entry(&array.dtype()));
            visitor.leaf(array);
            visitor.exit();
        }
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> PackedTree<T> {
        PackedTree { arrays: leaves.take(self.arrays.len()).collect(), layout: self.layout.clone() }
    }
}
