//! A stack of layers of the same type, unrolled or as a loop.

use crate::control_flow::scan;
use crate::core::{Array, RuleError, throw_operands};
use crate::ops::stack;
use crate::random::{self, Key};
use crate::tree::{self, Tree};

/// Layers of the same type, applied one after the other.
///
/// An unrolled program contains the operations of every layer. A stacked program contains those of
/// one layer in a [`scan`], so it compiles in a fraction of the time at any depth.
///
/// Values that belong to the layers, such as caches or random keys, are `Layers` too.
/// [`Layers::scan`] passes its own to each layer.
///
/// ```
/// use oxidax::prelude::*;
/// let forward = |key: random::Key, x: Array| {
///     let layers = nn::Layers::new(key, 12, |key| nn::Linear::new(key, 64, 64)).stacked();
///     layers.fold(x, |x, layer| relu(&layer.forward(&x)))
/// };
/// let y = eval_shape(forward, (random::Key::of_type(), Aval::new(DType::F32, [8, 64])))?;
/// assert_eq!(y.aval().to_string(), "f32[8,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
pub enum Layers<T> {
    /// Every layer has its own arrays.
    Unrolled {
        /// The layers, first to last.
        layers: Vec<T>,
    },
    /// The arrays of all layers are stacked along a new leading axis.
    Stacked {
        /// One value of the layers' type that holds the stacked arrays.
        stack: T,
    },
}

impl<T: Tree + Clone> Layers<T> {
    /// Creates `n` unrolled layers, each from its own key.
    #[track_caller]
    pub fn new(key: Key, n: usize, f: impl Fn(Key) -> T) -> Layers<T> {
        Layers::Unrolled { layers: random::split(key, n).into_iter().map(f).collect() }
    }

    /// Stacks the layers. Stacked layers are returned unchanged.
    ///
    /// Throws `Op`: (value) if there are no layers, (shape) if their arrays differ in shape.
    #[track_caller]
    pub fn stacked(&self) -> Layers<T> {
        let Layers::Unrolled { layers } = self else { return self.clone() };
        let Some(first) = layers.first() else {
            throw_operands("Layers", RuleError::value("no layers to stack"), &[]);
        };
        let leaves: Vec<Vec<Array>> = layers.iter().map(tree::leaves).collect();
        let mut stacked = Vec::with_capacity(leaves[0].len());
        for i in 0..leaves[0].len() {
            stacked.push(stack(leaves.iter().map(|layer| &layer[i]).collect::<Vec<_>>(), 0));
        }
        Layers::Stacked { stack: tree::unflatten(first, stacked) }
    }

    /// Gives every layer its own arrays. Unrolled layers are returned unchanged.
    #[track_caller]
    pub fn unrolled(&self) -> Layers<T> {
        let Layers::Stacked { stack } = self else { return self.clone() };
        let layer = |i: usize| tree::map(stack, |leaf| row(leaf, i));
        Layers::Unrolled { layers: (0..self.len()).map(layer).collect() }
    }

    /// Returns the number of layers. Stacked layers without arrays count as none.
    pub fn len(&self) -> usize {
        match self {
            Layers::Unrolled { layers } => layers.len(),
            Layers::Stacked { stack } => {
                tree::leaves(stack).first().map_or(0, |leaf| leaf.shape()[0])
            }
        }
    }

    /// Returns true if there are no layers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies `f` to every layer. The result is unrolled or stacked, as `self` is.
    #[track_caller]
    pub fn map<Y: Tree>(&self, f: impl Fn(&T) -> Y) -> Layers<Y> {
        match self {
            Layers::Unrolled { layers } => {
                Layers::Unrolled { layers: layers.iter().map(f).collect() }
            }
            Layers::Stacked { stack } => {
                Layers::Stacked { stack: scan(|(), layer: T| ((), f(&layer)), (), stack).1 }
            }
        }
    }

    /// Passes `x` through the layers, first to last, and returns the last result.
    #[track_caller]
    pub fn fold<X: Tree>(&self, x: X, f: impl Fn(X, &T) -> X) -> X {
        match self {
            Layers::Unrolled { layers } => layers.iter().fold(x, f),
            Layers::Stacked { stack } => scan(|x: X, layer: T| (f(x, &layer), ()), x, stack).0,
        }
    }

    /// Passes `x` through the layers, first to last, together with one of `xs` for each layer.
    ///
    /// Returns the last `x`, and the second result of `f` for each layer.
    ///
    /// Throws `Op` (value) unless `self` and `xs` are both unrolled, with equal length, or both
    /// stacked.
    #[track_caller]
    pub fn scan<X: Tree, U: Tree + Clone, Y: Tree>(
        &self,
        x: X,
        xs: &Layers<U>,
        f: impl Fn(X, &T, U) -> (X, Y),
    ) -> (X, Layers<Y>) {
        match (self, xs) {
            (Layers::Unrolled { layers }, Layers::Unrolled { layers: xs })
                if layers.len() == xs.len() =>
            {
                let (mut x, mut ys) = (x, Vec::with_capacity(layers.len()));
                for (layer, layer_x) in layers.iter().zip(xs) {
                    let (next, y) = f(x, layer, layer_x.clone());
                    x = next;
                    ys.push(y);
                }
                (x, Layers::Unrolled { layers: ys })
            }
            (Layers::Stacked { stack }, Layers::Stacked { stack: xs }) => {
                let step = |x: X, (layer, layer_x): (T, U)| f(x, &layer, layer_x);
                let (x, stack) = scan(step, x, (stack.clone(), xs.clone()));
                (x, Layers::Stacked { stack })
            }
            _ => {
                let message = format!("{} layers with {}", describe(self), describe(xs));
                throw_operands("Layers", RuleError::value(message), &[])
            }
        }
    }

    /// Splits a key into one for each layer. Without a key every layer gets `None`.
    ///
    /// Stacked and unrolled layers get equal keys.
    #[track_caller]
    pub fn split_key(&self, key: Option<Key>) -> Layers<Option<Key>> {
        let n = self.len();
        let keys = key.map(|key| random::split(key, [n]));
        match self {
            Layers::Unrolled { .. } => {
                let key = |i: usize| {
                    let keys = keys.as_ref()?;
                    Some(Key::from_data_with(row(keys.data(), i), keys.implementation()))
                };
                Layers::Unrolled { layers: (0..n).map(key).collect() }
            }
            Layers::Stacked { .. } => Layers::Stacked { stack: keys },
        }
    }
}

/// Returns `x[i]`.
#[track_caller]
fn row(x: &Array, i: usize) -> Array {
    x.index(crate::i![i as isize])
}

fn describe<T: Tree + Clone>(layers: &Layers<T>) -> String {
    match layers {
        Layers::Unrolled { layers } => format!("{} unrolled", layers.len()),
        Layers::Stacked { .. } => "stacked".into(),
    }
}
