//! Optimizers: chains of transformations, run as one program.

use super::leaves::{Leaf, Leaves, pair, rebuild, throw_tree};
use super::schedule::Hyperparams;
use super::slots::{Links, Slots, Step, Transformation};
use super::state::{Paths, State, number};
use crate::core::{Array, DType, Error, Loc, throw};
use crate::jit::{Jit, jit};
use crate::primitives::{convert_element_type, zeros, zeros_like};
use crate::tree::{self, Tree};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A transformation of gradients to updates, or a chain of them.
///
/// Create one with [`adamw`](super::adamw()), [`sgd`](super::sgd) and so on, or with
/// [`chain`](super::chain()) from transformations such as [`scale_by_adam`](super::scale_by_adam).
/// It holds no arrays, so a training step may capture it.
#[derive(Clone)]
#[doc(alias = "GradientTransformation")]
pub struct Optimizer {
    links: Links,
    compiled: Arc<OnceLock<UpdateStep>>,
}

/// The update of all leaves, compiled for calls outside of a trace.
type UpdateStep = Jit<'static, (Leaves, State), (Vec<Array>, State)>;

impl fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Optimizer ")?;
        f.debug_list().entries(self.links.iter()).finish()
    }
}

/// Chains transformations: each one takes the updates of the one before.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::chain([
///     optim::clip_by_global_norm(1.0),
///     optim::scale_by_adam(),
///     optim::add_decayed_weights(0.1),
///     optim::scale_by_learning_rate(optim::cosine_decay_schedule(6e-4, 2000, 0.1)),
/// ]);
/// ```
pub fn chain(links: impl IntoIterator<Item = Optimizer>) -> Optimizer {
    Optimizer::from_links(links.into_iter().flat_map(|link| link.links.to_vec()))
}

impl Optimizer {
    pub(super) fn from_links(
        links: impl IntoIterator<Item = Arc<dyn Transformation>>,
    ) -> Optimizer {
        Optimizer { links: links.into_iter().collect(), compiled: Arc::default() }
    }

    pub(super) fn one(link: impl Transformation + 'static) -> Optimizer {
        Optimizer::from_links([Arc::new(link) as Arc<dyn Transformation>])
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Chains another optimizer, which takes the updates of this one.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let decayed = optim::add_decayed_weights(1e-4).chain(optim::momentum(0.1, 0.9));
    /// ```
    pub fn chain(self, next: Optimizer) -> Optimizer {
        chain([self, next])
    }

    /// Returns the state before the first update: a count of 0, and mostly zeros.
    ///
    /// Throws `Tree` if two hyperparameters of the same name have different first values, or if a
    /// [`partition`](super::partition()) does not have a part for a leaf.
    #[track_caller]
    pub fn init<T: Tree>(&self, parameters: &T) -> State {
        let loc = Loc::caller();
        Loc::caller().scope(|| {
            let (leaves, _) = pair(parameters, parameters, loc);
            let mut slots = Slots::new(&[], loc);
            init_all(&self.links, &leaves, &mut slots);
            State {
                count: zeros(([], DType::I32)),
                hyperparams: self.first_hyperparams(loc),
                slots: slots.finish(),
            }
        })
    }

    fn first_hyperparams(&self, loc: Loc) -> Vec<(Arc<str>, Array)> {
        let mut first: Vec<(Arc<str>, f64)> = Vec::new();
        for link in self.links.iter() {
            link.schedules(&mut |schedule| schedule.hyperparams(&mut first));
        }
        let mut unique: Vec<(Arc<str>, f64)> = Vec::new();
        for (name, value) in first {
            match unique.iter().find(|(other, _)| *other == name) {
                None => unique.push((name, value)),
                Some((_, other)) if *other == value => {}
                Some((_, other)) => {
                    let message = format!("its first value is {other} and {value}");
                    let help = "one name is one number: rename one of the two";
                    throw_tree(&format!("hyperparams.{name}"), message, help, loc);
                }
            }
        }
        unique.into_iter().map(|(name, value)| (name, number(value))).collect()
    }

    /// Returns the updates for these gradients and the next state. Apply the updates with
    /// [`apply_updates`].
    ///
    /// With concrete arrays it runs as one program, compiled once per model. Under tracing it is
    /// part of the traced program. The updates of integer and boolean leaves are zero.
    ///
    /// Throws `Tree`, naming the leaf, if `gradients` or `state` do not belong to `parameters`.
    #[doc(alias = "optimizer_step")]
    #[doc(alias = "backward_step")]
    #[track_caller]
    pub fn update<T: Tree>(&self, gradients: &T, state: &State, parameters: &T) -> (T, State) {
        let loc = Loc::caller();
        Loc::caller().scope(|| {
            let (list, trained) = pair(parameters, gradients, loc);
            let is_traced = tree::leaves(state).iter().any(Array::is_traced)
                || list.iter().any(|leaf| leaf.update.is_traced() || leaf.parameter.is_traced());
            let (updates, state) = if is_traced {
                transform(&self.links, list, state, loc)
            } else {
                let step = self.compiled.get_or_init(|| {
                    let links = self.links.clone();
                    jit(move |leaves: Leaves, state: State| {
                        transform(&links, leaves.list, &state, Loc::caller())
                    })
                });
                let leaves = Leaves { paths: Paths::of(&list), list };
                match step.call(&leaves, state) {
                    Ok(result) => result,
                    Err(failed) => throw(with_location(failed.error, loc)),
                }
            };
            let mut updates = updates.into_iter();
            let mut leaves = Vec::with_capacity(trained.len());
            for (gradient, is_trained) in tree::leaves(gradients).iter().zip(trained) {
                leaves.push(if is_trained {
                    updates.next().expect("one update for every trained leaf")
                } else {
                    zeros_like(gradient)
                });
            }
            (rebuild(gradients, leaves), state)
        })
    }
}

/// Sets the location of an error to that of the caller, which the compiled step does not have.
fn with_location(error: Error, loc: Loc) -> Error {
    match error {
        Error::Tree(mut tree_error) => {
            tree_error.loc = loc;
            Error::Tree(tree_error)
        }
        other => other,
    }
}

pub(super) fn init_all(links: &Links, leaves: &[Leaf], slots: &mut Slots<'_>) {
    for link in links.iter() {
        link.init(leaves, slots);
    }
}

pub(super) fn update_all(
    links: &Links,
    step: &Step<'_>,
    leaves: &mut [Leaf],
    slots: &mut Slots<'_>,
) {
    for link in links.iter() {
        link.update(step, leaves, slots);
    }
}

/// Runs the chain. Returns the updates of trained leaves and the next state.
fn transform(links: &Links, mut leaves: Vec<Leaf>, state: &State, loc: Loc) -> (Vec<Array>, State) {
    let step = Step::after(&state.count, Hyperparams::of(state));
    let mut slots = Slots::new(&state.slots, loc);
    update_all(links, &step, &mut leaves, &mut slots);
    let next = State {
        count: step.count.clone(),
        hyperparams: state.hyperparams.clone(),
        slots: slots.finish(),
    };
    (leaves.into_iter().map(|leaf| leaf.update).collect(), next)
}

/// Adds updates to parameters, in the dtypes of the parameters.
///
/// Throws `Tree`, naming the leaf, if `updates` do not belong to `parameters`.
#[track_caller]
pub fn apply_updates<T: Tree>(parameters: &T, updates: &T) -> T {
    let loc = Loc::caller();
    Loc::caller().scope(|| {
        let (leaves, trained) = pair(parameters, updates, loc);
        let mut leaves = leaves.iter();
        let mut updated = Vec::with_capacity(trained.len());
        for (parameter, is_trained) in tree::leaves(parameters).into_iter().zip(trained) {
            updated.push(if is_trained {
                let leaf = leaves.next().expect("one for every trained leaf");
                convert_element_type(&(&leaf.parameter + &leaf.update), parameter.dtype())
            } else {
                parameter
            });
        }
        rebuild(parameters, updated)
    })
}

/// Returns `new · step_size + old · (1 - step_size)`, leaf by leaf, in the dtypes of `old`.
///
/// Use it for a running mean of parameters. Integer and boolean leaves are those of `new`. Throws
/// `Tree` if the two models differ in structure.
///
/// # Reference
/// Polyak, Juditsky: Acceleration of stochastic approximation by averaging (1992).
#[track_caller]
pub fn incremental_update<T: Tree>(new: &T, old: &T, step_size: f64) -> T {
    let loc = Loc::caller();
    Loc::caller().scope(|| {
        let (_, trained) = pair(old, new, loc);
        let pairs = tree::leaves(new).into_iter().zip(tree::leaves(old)).zip(trained);
        let mut means = Vec::new();
        for ((new, old), is_trained) in pairs {
            means.push(if is_trained {
                let mean = new * step_size + &old * (1.0 - step_size);
                convert_element_type(&mean, old.dtype())
            } else {
                new
            });
        }
        rebuild(old, means)
    })
}
