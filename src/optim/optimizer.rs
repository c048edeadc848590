//! Optimizers: chains of transformations, run as one program.

use super::extra_args::{ExtraArgs, ExtraArrays, UpdateOptions};
use super::leaves::{Leaf, LeafList, Leaves, pair, rebuild, throw_tree};
use super::schedule::{Hyperparams, Schedule};
use super::slots::{Links, Slots, Step, Transformation};
use super::state::{Paths, State, number};
use crate::core::{Array, DType, Error, Loc, throw};
use crate::jit::{Jit, jit};
use crate::ops::remainder;
use crate::primitives::{convert_element_type, eq, where_, zeros, zeros_like};
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
type UpdateStep = Jit<'static, (LeafList, State, ExtraArrays), (Vec<Array>, State)>;

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

/// Chains transformations whose accumulators have the name of the transformation as a prefix, as in
/// `adam.mu`.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::named_chain([
///     ("clip", optim::clip_by_global_norm(1.0)),
///     ("adam", optim::scale_by_adam()),
///     ("rate", optim::scale_by_learning_rate(1e-3)),
/// ]);
/// assert_eq!(tree::paths(&optimizer.init(&ones([2]))), ["count", "adam.mu", "adam.nu"]);
/// ```
pub fn named_chain<S: Into<String>>(links: impl IntoIterator<Item = (S, Optimizer)>) -> Optimizer {
    let named = links.into_iter().map(|(name, optimizer)| {
        let named = Named { name: name.into(), links: optimizer.links };
        Arc::new(named) as Arc<dyn Transformation>
    });
    Optimizer::from_links(named)
}

/// Transformations whose slots have a prefix.
#[derive(Debug)]
struct Named {
    name: String,
    links: Links,
}

impl Transformation for Named {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        slots.within(&self.name, |slots| init_all(&self.links, leaves, slots));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        slots.within(&self.name, |slots| update_all(&self.links, step, leaves, slots));
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        self.links.iter().for_each(|link| link.schedules(visit));
    }
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
        self.update_with(gradients, state, parameters, UpdateOptions::default())
    }

    /// Returns the updates and the next state, with further arguments for transformations that
    /// need them: the value of the loss, the loss as a function, and arrays by name.
    ///
    /// Transformations that do not need an argument ignore it. With a function and concrete arrays
    /// the operations run one by one; call it under [`jit`](crate::jit::jit()).
    ///
    /// Throws as [`Optimizer::update`], and `Tree` if a transformation needs an argument that is
    /// missing.
    ///
    /// ```
    /// use oxidax::optim::UpdateOptions;
    /// use oxidax::prelude::*;
    /// let optimizer = optim::polyak_sgd();
    /// let loss = |w: &Array| w.square().sum();
    /// let w = array![3f32, 4.0];
    /// let state = optimizer.init(&w);
    /// let (value, gradient) = value_and_grad(loss)(&w);
    /// let options = UpdateOptions { value: Some(&value), ..UpdateOptions::default() };
    /// let (updates, _) = optimizer.update_with(&gradient, &state, &w, options);
    /// assert_eq!(updates.to_vec::<f32>()?, [-1.5, -2.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "GradientTransformationExtraArgs")]
    #[track_caller]
    pub fn update_with<T: Tree>(
        &self,
        gradients: &T,
        state: &State,
        parameters: &T,
        options: UpdateOptions<'_, T>,
    ) -> (T, State) {
        let loc = Loc::caller();
        Loc::caller().scope(|| {
            let (list, trained) = pair(parameters, gradients, loc);
            let arrays = options.arrays();
            let is_traced = tree::leaves(state).iter().any(Array::is_traced)
                || tree::leaves(&arrays).iter().any(Array::is_traced)
                || list.iter().any(|leaf| leaf.update.is_traced() || leaf.parameter.is_traced());
            let (updates, state) = if is_traced || options.value_fn.is_some() {
                let of_leaves = options
                    .value_fn
                    .map(|f| move |leaves: &Leaves| f(&with_leaves(parameters, leaves)));
                let value_fn = of_leaves.as_ref().map(|f| f as &dyn Fn(&Leaves) -> Array);
                let extra = ExtraArgs { arrays, value_fn, injected: Vec::new() };
                transform(&self.links, list, state, &extra, loc)
            } else {
                let step = self.compiled.get_or_init(|| {
                    let links = self.links.clone();
                    jit(move |leaves: LeafList, state: State, arrays: ExtraArrays| {
                        let extra = ExtraArgs { arrays, value_fn: None, injected: Vec::new() };
                        transform(&links, leaves.list, &state, &extra, Loc::caller())
                    })
                });
                let leaves = LeafList { paths: Paths::of(&list), list };
                match step.call(&leaves, state, arrays) {
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

    /// Returns the updates and the next state inside of another transformation, with its extra
    /// arguments.
    pub(super) fn update_leaves(
        &self,
        updates: &Leaves,
        state: &State,
        parameters: &Leaves,
        extra: &ExtraArgs<'_>,
        loc: Loc,
    ) -> (Leaves, State) {
        let (list, _) = pair(parameters, updates, loc);
        let (values, state) = transform(&self.links, list, state, extra, loc);
        (Leaves::from_parts(parameters.paths().clone(), values), state)
    }
}

/// Replaces the leaves of a model that `leaves` contains.
pub(super) fn with_leaves<T: Tree>(model: &T, leaves: &Leaves) -> T {
    tree::map_with_path(model, |path, leaf| leaves.get(path).unwrap_or(leaf).clone())
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
fn transform(
    links: &Links,
    mut leaves: Vec<Leaf>,
    state: &State,
    extra: &ExtraArgs<'_>,
    loc: Loc,
) -> (Vec<Array>, State) {
    let numbers: Vec<_> = extra.injected.iter().chain(&state.hyperparams).cloned().collect();
    let step = Step::after(&state.count, Hyperparams::new(&numbers), extra);
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

/// Returns `new` if `steps` is a multiple of `update_period`, and `old` otherwise.
///
/// Use it for the target network of reinforcement learning. `steps: i32[]` counts updates.
///
/// ```
/// use oxidax::prelude::*;
/// let (new, old) = (ones([2]), zeros([2]));
/// let target = optim::periodic_update(&new, &old, &scalar(10), 5);
/// assert_eq!(target.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Throws `Tree` if the two models differ in structure.
#[track_caller]
pub fn periodic_update<T: Tree>(new: &T, old: &T, steps: &Array, update_period: u32) -> T {
    Loc::caller().scope(|| {
        let period = i32::try_from(update_period.max(1)).unwrap_or(i32::MAX);
        let is_due = eq(remainder(steps, period), 0);
        tree::zip_map(new, old, |new, old| where_(&is_due, new, old))
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
