//! The optimizer: a chain of transformations, run as one program.

use super::leaves::{Leaf, Leaves, Place, pair, rebuild, throw_tree};
use super::memory::{Memory, Rule, Rules, Step};
use super::schedule::Hyperparams;
use super::state::{Paths, State, number};
use crate::core::{Array, DType, Error, Loc, throw};
use crate::jit::{Jit, jit};
use crate::primitives::{convert_element_type, zeros, zeros_like};
use crate::tree::{self, Tree};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Turns gradients into updates: a transformation, or a chain of them.
///
/// Made by [`adamw`](super::adamw()), [`sgd`](super::sgd) and the like, or put together with
/// [`chain`](super::chain()) from parts such as [`scale_by_adam`](super::scale_by_adam). Holds numbers only,
/// so a training step may capture it.
#[derive(Clone)]
#[doc(alias = "GradientTransformation")]
pub struct Optimizer {
    rules: Rules,
    program: Arc<OnceLock<Program>>,
}

type Program = Jit<(Leaves, State), (Vec<Array>, State)>;

impl fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Optimizer ")?;
        f.debug_list().entries(self.rules.iter()).finish()
    }
}

/// One transformation after the other, each on the updates of the one before.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::chain([
///     optim::clip_by_global_norm(1.0),
///     optim::scale_by_adam(0.9, 0.95, 1e-8),
///     optim::add_decayed_weights(0.1),
///     optim::scale_by_learning_rate(optim::warmup_cosine_decay_schedule(0.0, 6e-4, 100, 2000, 6e-5)),
/// ]);
/// ```
pub fn chain(links: impl IntoIterator<Item = Optimizer>) -> Optimizer {
    Optimizer::of(links.into_iter().flat_map(|link| link.rules.to_vec()))
}

impl Optimizer {
    pub(super) fn of(rules: impl IntoIterator<Item = Arc<dyn Rule>>) -> Optimizer {
        Optimizer { rules: rules.into_iter().collect(), program: Arc::default() }
    }

    pub(super) fn one(rule: impl Rule + 'static) -> Optimizer {
        Optimizer::of([Arc::new(rule) as Arc<dyn Rule>])
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// This optimizer, then another on its updates.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let decayed = optim::add_decayed_weights(1e-4).chain(optim::momentum(0.1, 0.9));
    /// ```
    pub fn chain(self, next: Optimizer) -> Optimizer {
        chain([self, next])
    }

    /// The state before the first update: mostly zeros, and a count of 0.
    ///
    /// Throws `Tree` if two hyper-parameters of one name begin with different numbers, or if a
    /// [`partition`](super::partition()) has no part for a leaf.
    #[track_caller]
    pub fn init<T: Tree>(&self, parameters: &T) -> State {
        let loc = Loc::caller();
        Loc::caller().scope(|| {
            let (leaves, _) = pair(parameters, parameters, loc);
            let mut memory = Memory::new(&[], loc);
            init_all(&self.rules, &leaves, &mut memory);
            State {
                count: zeros([], DType::I32),
                hyperparams: self.first_hyperparams(loc),
                slots: memory.finish(),
            }
        })
    }

    fn first_hyperparams(&self, loc: Place) -> Vec<(Arc<str>, Array)> {
        let mut first: Vec<(Arc<str>, f64)> = Vec::new();
        for rule in self.rules.iter() {
            rule.schedules(&mut |schedule| schedule.hyperparams(&mut first));
        }
        let mut known: Vec<(Arc<str>, f64)> = Vec::new();
        for (name, value) in first {
            match known.iter().find(|(other, _)| *other == name) {
                None => known.push((name, value)),
                Some((_, other)) if *other == value => {}
                Some((_, other)) => {
                    let message = format!("it begins with {other} and with {value}");
                    let help = "one name is one number: give the other another name";
                    throw_tree(&format!("hyperparams.{name}"), message, help, loc);
                }
            }
        }
        known.into_iter().map(|(name, value)| (name, number(value))).collect()
    }

    /// The updates for these gradients, and the next state. Apply them with [`apply_updates`].
    ///
    /// Called with concrete arrays it runs as one compiled program, compiled once per model; while tracing
    /// it becomes part of what is traced. Leaves of integer or boolean dtype get updates of zero.
    ///
    /// Throws `Tree` if `gradients` or `state` do not belong to `parameters`, naming the leaf.
    #[track_caller]
    pub fn update<T: Tree>(&self, gradients: &T, state: &State, parameters: &T) -> (T, State) {
        let loc = Loc::caller();
        Loc::caller().scope(|| {
            let (list, trained) = pair(parameters, gradients, loc);
            let is_traced = tree::leaves(state).iter().any(Array::is_traced)
                || list.iter().any(|leaf| leaf.update.is_traced() || leaf.parameter.is_traced());
            let (updates, state) = match is_traced {
                true => updated(&self.rules, list, state, loc),
                false => {
                    let rules = self.rules.clone();
                    let program = self.program.get_or_init(|| {
                        jit(move |leaves: Leaves, state: State| {
                            updated(&rules, leaves.list, &state, Loc::caller())
                        })
                    });
                    let leaves = Leaves { paths: Paths::of(&list), list };
                    match program.call(&leaves, state) {
                        Ok(result) => result,
                        Err(failed) => throw(blame(failed.error, loc)),
                    }
                }
            };
            let mut updates = updates.into_iter();
            let mut all = Vec::with_capacity(trained.len());
            for (gradient, trained) in tree::leaves(gradients).iter().zip(trained) {
                all.push(match trained {
                    true => updates.next().expect("one update for every trained leaf"),
                    false => zeros_like(gradient),
                });
            }
            (rebuild(gradients, all), state)
        })
    }
}

/// The error with the user's place, which the program that was being compiled does not know.
fn blame(error: Error, loc: Place) -> Error {
    match error {
        Error::Tree(mut about) => {
            about.loc = loc;
            Error::Tree(about)
        }
        other => other,
    }
}

pub(super) fn init_all(rules: &Rules, leaves: &[Leaf], memory: &mut Memory<'_>) {
    for rule in rules.iter() {
        rule.init(leaves, memory);
    }
}

pub(super) fn update_all(
    rules: &Rules,
    step: &Step<'_>,
    leaves: &mut [Leaf],
    memory: &mut Memory<'_>,
) {
    for rule in rules.iter() {
        rule.update(step, leaves, memory);
    }
}

fn updated(rules: &Rules, mut leaves: Vec<Leaf>, state: &State, loc: Place) -> (Vec<Array>, State) {
    let step = Step::after(&state.count, Hyperparams::of(state));
    let mut memory = Memory::new(&state.slots, loc);
    update_all(rules, &step, &mut leaves, &mut memory);
    let next = State {
        count: step.count.clone(),
        hyperparams: state.hyperparams.clone(),
        slots: memory.finish(),
    };
    (leaves.into_iter().map(|leaf| leaf.update).collect(), next)
}

/// The parameters plus the updates, in the parameters' dtypes.
///
/// Throws `Tree`, naming the leaf, if `updates` do not fit `parameters`.
#[track_caller]
pub fn apply_updates<T: Tree>(parameters: &T, updates: &T) -> T {
    let loc = Loc::caller();
    Loc::caller().scope(|| {
        let (leaves, trained) = pair(parameters, updates, loc);
        let mut leaves = leaves.iter();
        let mut all = Vec::with_capacity(trained.len());
        for (parameter, trained) in tree::leaves(parameters).into_iter().zip(trained) {
            all.push(match trained {
                true => {
                    let leaf = leaves.next().expect("one for every trained leaf");
                    convert_element_type(&(&leaf.parameter + &leaf.update), parameter.dtype())
                }
                false => parameter,
            });
        }
        rebuild(parameters, all)
    })
}

/// `new · step_size + old · (1 - step_size)`, leaf by leaf in the dtypes of `old`: a running mean of
/// parameters.
///
/// Leaves of integer or boolean dtype are those of `new`. Throws `Tree` if the two do not fit.
///
/// # Reference
/// Polyak, Juditsky: Acceleration of stochastic approximation by averaging (1992).
#[track_caller]
pub fn incremental_update<T: Tree>(new: &T, old: &T, step_size: f64) -> T {
    let loc = Loc::caller();
    Loc::caller().scope(|| {
        let (_, trained) = pair(old, new, loc);
        let pairs = tree::leaves(new).into_iter().zip(tree::leaves(old)).zip(trained);
        let mixed = pairs.map(|((new, old), trained)| match trained {
            true => {
                let mixed = new * step_size + &old * (1.0 - step_size);
                convert_element_type(&mixed, old.dtype())
            }
            false => new,
        });
        rebuild(old, mixed.collect())
    })
}
