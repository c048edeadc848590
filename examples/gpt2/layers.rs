//! A stack of equal layers, run through one by one: written out, or in a loop.

use oxidax::prelude::*;

/// Layers of one kind. Unrolled, a program holds each layer's operations; stacked, those of one layer in a loop,
/// which compiles in a fraction of the time whatever the depth.
#[derive(Tree, Clone, Debug)]
pub(crate) enum Layers<T> {
    /// Each with arrays of its own.
    Unrolled { each: Vec<T> },
    /// One whose arrays have the layers along a leading axis.
    Stacked { all: T },
}

impl<T: Tree + Clone> Layers<T> {
    /// The same layers, stacked; there must be one.
    pub(crate) fn stacked(&self) -> Layers<T> {
        let Layers::Unrolled { each } = self else { return self.clone() };
        let leaves: Vec<Vec<Array>> = each.iter().map(tree::leaves).collect();
        let column =
            |at: usize| stack(leaves.iter().map(|layer| &layer[at]).collect::<Vec<_>>(), 0);
        let columns = (0..leaves[0].len()).map(column);
        Layers::Stacked { all: tree::unflatten(&each[0], columns) }
    }

    /// The same layers, each with arrays of its own.
    pub(crate) fn unrolled(&self) -> Layers<T> {
        let Layers::Stacked { all } = self else { return self.clone() };
        let layer = |at: usize| tree::map(all, |leaf| leaf.index(i![at as isize]));
        Layers::Unrolled { each: (0..self.len()).map(layer).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Layers::Unrolled { each } => each.len(),
            Layers::Stacked { all } => tree::leaves(all)[0].shape()[0],
        }
    }

    /// What `f` makes of each layer.
    pub(crate) fn map<Y: Tree>(&self, f: impl Fn(&T) -> Y) -> Layers<Y> {
        match self {
            Layers::Unrolled { each } => Layers::Unrolled { each: each.iter().map(f).collect() },
            Layers::Stacked { all } => {
                Layers::Stacked { all: scan(|(), layer: T| ((), f(&layer)), (), all).1 }
            }
        }
    }

    /// Takes `x` through the layers, first to last, each with its own of the `others`: the last `x`, and what `f`
    /// gives beside it.
    pub(crate) fn fold<X: Tree, U: Tree + Clone, Y: Tree>(
        &self,
        x: X,
        others: &Layers<U>,
        f: impl Fn(X, &T, U) -> (X, Y),
    ) -> (X, Layers<Y>) {
        match (self, others) {
            (Layers::Unrolled { each }, Layers::Unrolled { each: others }) => {
                let (mut x, mut results) = (x, Vec::with_capacity(each.len()));
                for (layer, other) in each.iter().zip(others) {
                    let (next, y) = f(x, layer, other.clone());
                    x = next;
                    results.push(y);
                }
                (x, Layers::Unrolled { each: results })
            }
            (Layers::Stacked { all }, Layers::Stacked { all: others }) => {
                let step = |x: X, (layer, other): (T, U)| f(x, &layer, other);
                let (x, all) = scan(step, x, (all.clone(), others.clone()));
                (x, Layers::Stacked { all })
            }
            _ => panic!("both must be unrolled, or both stacked"),
        }
    }

    /// Each layer's own of the keys `[n, …]`, if there are any.
    pub(crate) fn keys(&self, keys: Option<random::Key>) -> Layers<Option<random::Key>> {
        match self {
            Layers::Unrolled { each } => {
                let row = |at: usize| keys.as_ref().map(|keys| row(keys, at));
                Layers::Unrolled { each: (0..each.len()).map(row).collect() }
            }
            Layers::Stacked { .. } => Layers::Stacked { all: keys },
        }
    }
}

/// The keys `[…]` at a place of an array of keys, `[n, …]`.
pub(crate) fn row(keys: &random::Key, at: usize) -> random::Key {
    random::Key::from_data(keys.data().index(i![at as isize]))
}
