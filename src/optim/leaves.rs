//! Leaves of models, gradients and states, matched by path.

use super::state::Paths;
use crate::core::{Array, DType, Error, Loc, TreeError, throw};
use crate::tree::{self, PathKey, Tag, Tree, Visitor};

/// A trained leaf of a model with its update, which is the gradient at the start of a chain.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) parameter: Array,
    pub(super) update: Array,
}

/// All trained leaves with their updates, as a tree whose type is the same for all models.
#[derive(Clone, Debug)]
pub(super) struct LeafList {
    pub(super) paths: Paths,
    pub(super) list: Vec<Leaf>,
}

impl Tree for LeafList {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Static(&self.paths));
        for leaf in &self.list {
            visitor.enter(PathKey::Entry(&leaf.path));
            visitor.leaf(&leaf.parameter);
            visitor.leaf(&leaf.update);
            visitor.exit();
        }
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> LeafList {
        let mut list = self.list.clone();
        for leaf in &mut list {
            leaf.parameter = leaf.parameter.unflatten(leaves);
            leaf.update = leaf.update.unflatten(leaves);
        }
        LeafList { paths: self.paths.clone(), list }
    }
}

/// Arrays of the trained leaves of a model, by path: its parameters, their updates, or
/// accumulators.
///
/// A [`GradientTransformation`](super::GradientTransformation) takes and returns them. They are a
/// tree, so the functions of [`tree`](crate::tree) apply: `tree::norm`, `tree::zeros_like`,
/// `tree::zip_map` and so on.
///
/// ```
/// use oxidax::prelude::*;
/// let model = (ones([2]), scalar(3.0));
/// let leaves = optim::Leaves::new(&model);
/// assert_eq!(leaves.iter().map(|(path, _)| path).collect::<Vec<_>>(), ["[0]", "[1]"]);
/// assert_eq!(tree::sum(&leaves.map(|x| x * 2.0)).item::<f32>()?, 10.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "Updates")]
#[doc(alias = "Params")]
pub struct Leaves {
    paths: Paths,
    values: Vec<Array>,
}

impl Leaves {
    /// Takes the float and complex leaves of a model. Integer and boolean leaves are not trained.
    pub fn new<T: Tree>(model: &T) -> Leaves {
        let pairs = tree::paths(model).into_iter().zip(tree::leaves(model));
        let trained = pairs.filter(|(_, leaf)| leaf.dtype().is_inexact());
        let (paths, values): (Vec<String>, Vec<Array>) = trained.unzip();
        Leaves { paths: Paths::new(paths.into_iter()), values }
    }

    pub(super) fn from_parts(paths: Paths, values: Vec<Array>) -> Leaves {
        Leaves { paths, values }
    }

    pub(super) fn parameters(leaves: &[Leaf]) -> Leaves {
        let values = leaves.iter().map(|leaf| leaf.parameter.clone()).collect();
        Leaves { paths: Paths::of(leaves), values }
    }

    pub(super) fn updates(&self, leaves: &[Leaf]) -> Leaves {
        let values = leaves.iter().map(|leaf| leaf.update.clone()).collect();
        Leaves { paths: self.paths.clone(), values }
    }

    pub(super) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Returns each path and its array, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Array)> + '_ {
        self.paths.list().iter().map(String::as_str).zip(&self.values)
    }

    /// Returns the arrays, in order.
    pub fn values(&self) -> &[Array] {
        &self.values
    }

    /// Returns the array at `path`.
    pub fn get(&self, path: &str) -> Option<&Array> {
        self.iter().find(|(other, _)| *other == path).map(|(_, value)| value)
    }

    /// Returns the number of leaves.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no leaves.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Applies `f` to every array.
    #[must_use]
    pub fn map(&self, f: impl FnMut(&Array) -> Array) -> Leaves {
        Leaves { paths: self.paths.clone(), values: self.values.iter().map(f).collect() }
    }

    /// Applies `f` to every path and array.
    #[must_use]
    pub fn map_with_path(&self, mut f: impl FnMut(&str, &Array) -> Array) -> Leaves {
        let values = self.iter().map(|(path, value)| f(path, value)).collect();
        Leaves { paths: self.paths.clone(), values }
    }

    /// Applies `f` to every array and those of `others` at the same path.
    ///
    /// Throws `Tree`, naming the leaf, if the paths differ.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let [g, m] = [1.0, 2.0].map(|x| optim::Leaves::new(&full([3], x)));
    /// let mean = g.zip_map([&m], |g, [m]| g * 0.1 + m * 0.9);
    /// assert_eq!(tree::sum(&mean).item::<f32>()?, 5.7);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn zip_map<const N: usize>(
        &self,
        others: [&Leaves; N],
        mut f: impl FnMut(&Array, [&Array; N]) -> Array,
    ) -> Leaves {
        let loc = Loc::caller();
        for other in others {
            expect_same_paths(self.paths.list(), other.paths.list(), "the other tree", loc);
        }
        let indexed = self.values.iter().enumerate();
        let values = indexed.map(|(i, value)| f(value, others.map(|other| &other.values[i])));
        Leaves { paths: self.paths.clone(), values: values.collect() }
    }

    /// Returns the dtype of numbers that belong to all leaves: `f64` if a leaf has it, or `f32`.
    pub(super) fn scalar_dtype(&self) -> DType {
        let is_wide = self.values.iter().any(|value| value.dtype().real() == DType::F64);
        if is_wide { DType::F64 } else { DType::F32 }
    }

    /// Returns the arrays at the paths of `others`.
    pub(super) fn select(&self, others: &Leaves) -> Option<Leaves> {
        let values = others.iter().map(|(path, _)| self.get(path).cloned());
        Some(Leaves { paths: others.paths.clone(), values: values.collect::<Option<_>>()? })
    }
}

/// Collects arrays by path.
impl FromIterator<(String, Array)> for Leaves {
    fn from_iter<I: IntoIterator<Item = (String, Array)>>(leaves: I) -> Leaves {
        let (paths, values): (Vec<String>, Vec<Array>) = leaves.into_iter().unzip();
        Leaves { paths: Paths::new(paths.into_iter()), values }
    }
}

/// The name that [`Leaves`] have as a node of a tree.
pub(super) const LEAVES: &str = "Leaves";

impl Tree for Leaves {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Name(LEAVES));
        visitor.tag(Tag::Static(&self.paths));
        for (path, value) in self.paths.list().iter().zip(&self.values) {
            // A model that is one array has no name.
            if path.is_empty() {
                visitor.leaf(value);
                continue;
            }
            visitor.enter(PathKey::Entry(path));
            visitor.leaf(value);
            visitor.exit();
        }
    }

    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Leaves {
        Leaves { paths: self.paths.clone(), values: self.values.unflatten(leaves) }
    }
}

/// Pairs the trained leaves of a model with their updates. Also returns, for every leaf of the
/// model, true if it is trained.
pub(super) fn pair<T: Tree>(parameters: &T, updates: &T, loc: Loc) -> (Vec<Leaf>, Vec<bool>) {
    let (mut paired, mut trained) = (Vec::new(), Vec::new());
    let paths = tree::paths(parameters);
    expect_same_paths(&paths, &tree::paths(updates), "the updates", loc);
    for ((path, parameter), update) in
        paths.into_iter().zip(tree::leaves(parameters)).zip(tree::leaves(updates))
    {
        // The widths of the dtypes may differ.
        let (dtype, other) = (parameter.dtype(), update.dtype());
        let same_kind = dtype == other
            || dtype.is_float() && other.is_float()
            || dtype.is_complex() && other.is_complex();
        if parameter.shape() != update.shape() || !same_kind {
            let message =
                format!("the parameter is {}, its update {}", parameter.aval(), update.aval());
            throw_tree(&path, message, "take the gradient with respect to this model", loc);
        }
        trained.push(parameter.dtype().is_inexact());
        if parameter.dtype().is_inexact() {
            paired.push(Leaf { path, parameter, update });
        }
    }
    (paired, trained)
}

/// Returns the structure of `template` with these leaves.
pub(super) fn rebuild<T: Tree>(template: &T, leaves: Vec<Array>) -> T {
    let mut leaves = leaves.into_iter();
    tree::map(template, |_| leaves.next().expect("as many leaves as the template has"))
}

/// Throws if the two lists differ. The error names the first leaf that differs.
pub(super) fn expect_same_paths(
    expected: &[String],
    actual: &[String],
    actual_name: &str,
    loc: Loc,
) {
    if expected == actual {
        return;
    }
    let common = expected.len().min(actual.len());
    let index = (0..common).find(|&i| expected[i] != actual[i]).unwrap_or(common);
    let describe = |paths: &[String]| match paths.get(index) {
        Some(path) => format!("`{}`", json_path(path)),
        None => format!("no leaf {index}"),
    };
    let path = expected.get(index).or(actual.get(index)).cloned().unwrap_or_default();
    let (expected, actual) = (describe(expected), describe(actual));
    let message = format!("the model has {expected}, {actual_name} {actual}");
    throw_tree(&path, message, "create both from the model that is trained", loc);
}

fn json_path(path: &str) -> String {
    if path.is_empty() || path.starts_with('[') { format!("${path}") } else { format!("$.{path}") }
}

/// Throws `Tree` for the leaf at `path`.
pub(super) fn throw_tree(path: &str, message: String, help: &str, loc: Loc) -> ! {
    throw(Error::Tree(Box::new(TreeError {
        path: json_path(path),
        message,
        loc,
        help: Some(help.into()),
    })))
}
