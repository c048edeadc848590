//! Transformations of gradients written by users.

use super::extra_args::ExtraArgs;
use super::leaves::{Leaf, Leaves, expect_same_paths, throw_tree};
use super::optimizer::Optimizer;
use super::schedule::Schedule;
use super::slots::{Rate, Slots, Step, Transformation};
use super::state::{State, StatePart, number};
use crate::core::{Array, Loc, throw};
use crate::transforms::eval_shape;
use crate::tree::{self, Tree};
use std::fmt;
use std::marker::PhantomData;

/// A transformation of updates with a state, written by a user.
///
/// [`Optimizer::new`] makes an optimizer of it, which [`chain`](super::chain()),
/// [`masked`](super::masked()) and the other functions compose. [`transformation()`] makes one of
/// two closures.
///
/// ```
/// use oxidax::optim::{GradientTransformation, Leaves, UpdateArgs};
/// use oxidax::prelude::*;
///
/// struct Momentum(f64);
///
/// #[derive(Tree)]
/// struct MomentumState {
///     velocity: Leaves,
/// }
///
/// impl GradientTransformation for Momentum {
///     type State = MomentumState;
///
///     fn init(&self, parameters: &Leaves) -> MomentumState {
///         MomentumState { velocity: tree::zeros_like(parameters) }
///     }
///
///     fn update(
///         &self,
///         updates: Leaves,
///         state: MomentumState,
///         _: &UpdateArgs<'_>,
///     ) -> (Leaves, MomentumState) {
///         let velocity = updates.zip_map([&state.velocity], |g, [v]| g + v * self.0);
///         (velocity.clone(), MomentumState { velocity })
///     }
/// }
///
/// let optimizer = optim::Optimizer::new(Momentum(0.9)).chain(optim::sgd(0.1));
/// let w = ones([3]);
/// let state = optimizer.init(&w);
/// let (updates, state) = optimizer.update(&w, &state, &w);
/// assert_eq!(updates.to_vec::<f32>()?, [-0.1; 3]);
/// assert_eq!(tree::paths(&state), ["count", "velocity"]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub trait GradientTransformation: Send + Sync + 'static {
    /// The state: a tree of arrays whose structure, shapes and dtypes do not change.
    ///
    /// Each field becomes an accumulator of the optimizer's [`State`], named after the field. A
    /// field of type [`Leaves`] has one array per leaf of the model, so rules for shardings and
    /// checkpoints find it by the path of the leaf.
    type State: Tree;

    /// Returns the state before the first update.
    ///
    /// It is also called with arrays that have a type and no elements, so that the structure of the
    /// state is known: it must not read elements.
    fn init(&self, parameters: &Leaves) -> Self::State;

    /// Returns the new updates and the new state.
    fn update(
        &self,
        updates: Leaves,
        state: Self::State,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, Self::State);

    /// Returns the schedules that [`UpdateArgs::rate`] evaluates, so that their
    /// [`hyperparam`](super::hyperparam())s are part of the state. None by default.
    fn schedules(&self) -> Vec<Schedule> {
        Vec::new()
    }
}

/// Creates a transformation from two functions: `init(parameters)` returns the first state, a tree,
/// and `update(updates, state, args)` the new updates and the new state.
///
/// See [`GradientTransformation`] for the requirements.
///
/// ```
/// use oxidax::prelude::*;
/// // Divides updates by the largest norm so far.
/// let bounded = optim::transformation(
///     |_: &optim::Leaves| zeros([]),
///     |updates, largest: Array, _| {
///         let largest = maximum(tree::norm(&updates), &largest);
///         (updates.map(|update| update / &largest), largest)
///     },
/// );
/// let optimizer = bounded.chain(optim::sgd(0.5));
/// let w = array![3f32, 4.0];
/// let (updates, _) = optimizer.update(&w, &optimizer.init(&w), &w);
/// assert_eq!(updates.to_vec::<f32>()?, [-0.3, -0.4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "GradientTransformation")]
pub fn transformation<S: Tree>(
    init: impl Fn(&Leaves) -> S + Send + Sync + 'static,
    update: impl Fn(Leaves, S, &UpdateArgs<'_>) -> (Leaves, S) + Send + Sync + 'static,
) -> Optimizer {
    Optimizer::new(Closures { init, update, state: PhantomData })
}

struct Closures<S, I, U> {
    init: I,
    update: U,
    state: PhantomData<fn() -> S>,
}

impl<S: Tree, I, U> GradientTransformation for Closures<S, I, U>
where
    I: Fn(&Leaves) -> S + Send + Sync + 'static,
    U: Fn(Leaves, S, &UpdateArgs<'_>) -> (Leaves, S) + Send + Sync + 'static,
{
    type State = S;

    fn init(&self, parameters: &Leaves) -> S {
        (self.init)(parameters)
    }

    fn update(&self, updates: Leaves, state: S, args: &UpdateArgs<'_>) -> (Leaves, S) {
        (self.update)(updates, state, args)
    }
}

/// The arguments of [`GradientTransformation::update`] beyond updates and state.
pub struct UpdateArgs<'a> {
    parameters: Leaves,
    step: &'a Step<'a>,
    loc: Loc,
}

impl fmt::Debug for UpdateArgs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateArgs").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

impl UpdateArgs<'_> {
    /// Returns the parameters.
    pub fn parameters(&self) -> &Leaves {
        &self.parameters
    }

    /// Returns the number of updates, this one included: `i32[]`.
    pub fn count(&self) -> &Array {
        &self.step.count
    }

    /// Returns the value of a schedule for this update: `f32[]`.
    ///
    /// A [`hyperparam`](super::hyperparam()) has the value in the state if
    /// [`GradientTransformation::schedules`] returns the schedule.
    pub fn rate(&self, schedule: &Schedule) -> Array {
        match self.step.rate(schedule) {
            Rate::Number(value) => number(value),
            Rate::Array(value) => value,
        }
    }

    /// Returns the value of a schedule at another number of updates; see [`UpdateArgs::rate`].
    pub fn rate_at(&self, schedule: &Schedule, count: &Array) -> Array {
        schedule.value_with(count, self.step.hyperparams)
    }

    /// Returns `mean / (1 - decay^count)`: the mean with the bias of its start at zero corrected.
    pub fn bias_correction(&self, mean: &Leaves, decay: f64) -> Leaves {
        mean.map(|mean| self.step.debias(mean, decay))
    }

    /// Returns the value of the loss, [`UpdateOptions::value`](super::UpdateOptions::value).
    ///
    /// Throws `Tree` if the caller did not pass one.
    pub fn value(&self) -> Array {
        let value = self.step.extra.arrays.value.clone();
        value.unwrap_or_else(|| self.throw_missing("value"))
    }

    /// Returns the value of the loss, if the caller passed one.
    pub fn optional_value(&self) -> Option<&Array> {
        self.step.extra.arrays.value.as_ref()
    }

    /// Returns the gradient at the parameters,
    /// [`UpdateOptions::gradient`](super::UpdateOptions::gradient).
    ///
    /// Throws `Tree` if the caller did not pass one.
    pub fn gradient(&self) -> Leaves {
        let gradient = self.step.extra.arrays.gradient.as_ref();
        let selected = gradient.and_then(|gradient| gradient.select(&self.parameters));
        selected.unwrap_or_else(|| self.throw_missing("gradient"))
    }

    /// Returns the loss at other parameters. The function is
    /// [`UpdateOptions::value_fn`](super::UpdateOptions::value_fn).
    ///
    /// Throws `Tree` if the caller did not pass one.
    #[doc(alias = "value_fn")]
    pub fn value_at(&self, parameters: &Leaves) -> Array {
        match self.step.extra.value_fn {
            Some(value_fn) => value_fn(parameters),
            None => self.throw_missing("value_fn"),
        }
    }

    /// Returns the array of this name in [`UpdateOptions::extra`](super::UpdateOptions::extra), if
    /// the caller passed one.
    pub fn extra(&self, name: &str) -> Option<&Array> {
        let arrays = &self.step.extra.arrays;
        let index = arrays.names.iter().position(|other| other == name)?;
        arrays.named.get(index)
    }

    /// Updates an inner optimizer, with these parameters and extra arguments.
    pub fn update_inner(
        &self,
        inner: &Optimizer,
        updates: &Leaves,
        state: &State,
    ) -> (Leaves, State) {
        self.update_inner_at(inner, updates, state, &self.parameters)
    }

    /// Updates an inner optimizer at other parameters, with these extra arguments.
    pub fn update_inner_at(
        &self,
        inner: &Optimizer,
        updates: &Leaves,
        state: &State,
        parameters: &Leaves,
    ) -> (Leaves, State) {
        inner.update_leaves(updates, state, parameters, self.step.extra, self.loc)
    }

    pub(super) fn extra_args(&self) -> &ExtraArgs<'_> {
        self.step.extra
    }

    pub(super) fn loc(&self) -> Loc {
        self.loc
    }

    fn throw_missing(&self, name: &str) -> ! {
        let message = format!("a transformation of the optimizer needs the argument `{name}`");
        let help = "call `update_with`, with the argument in `UpdateOptions`";
        throw_tree("", message, help, self.loc)
    }
}

impl Optimizer {
    /// Creates an optimizer from a transformation.
    #[doc(alias = "with_extra_args_support")]
    pub fn new(transformation: impl GradientTransformation) -> Optimizer {
        Optimizer::one(Typed(transformation))
    }
}

/// Stores the typed state of a user's transformation in slots.
struct Typed<T>(T);

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        let name = name.split('<').next().unwrap_or(name);
        write!(f, "{}(..)", name.rsplit("::").next().unwrap_or(name))
    }
}

impl<T: GradientTransformation> Transformation for Typed<T> {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        let state = self.0.init(&Leaves::parameters(leaves));
        let mut values = &tree::leaves(&state)[..];
        for part in StatePart::all_of(&state) {
            let (own, rest) = values.split_at(part.n_leaves);
            slots.create_part(&part, own);
            values = rest;
        }
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let loc = slots.loc;
        let parameters = Leaves::parameters(leaves);
        // The structure of the state; its arrays are in the slots.
        let template = match eval_shape(|parameters: Leaves| self.0.init(&parameters), &parameters)
        {
            Ok(template) => template,
            Err(error) => throw(error),
        };
        let parts = StatePart::all_of(&template);
        let first = tree::leaves(&template);
        let (mut rest, mut values) = (&first[..], Vec::with_capacity(first.len()));
        for part in &parts {
            let (own, others) = rest.split_at(part.n_leaves);
            values.extend(slots.take_part(part, own));
            rest = others;
        }
        let state = tree::unflatten(&template, values);
        let updates = parameters.updates(leaves);
        let args = UpdateArgs { parameters, step, loc };
        let (updates, state) = self.0.update(updates, state, &args);
        let paths = args.parameters.paths().list();
        expect_same_paths(paths, updates.paths().list(), "the update", loc);
        for (leaf, update) in leaves.iter_mut().zip(updates.values()) {
            leaf.update = update.clone();
        }
        let mut values = tree::leaves(&state).into_iter();
        if values.len() != first.len() {
            let message =
                format!("`init` returns {} arrays, the update {}", first.len(), values.len());
            throw_tree("", message, "return a state of the same structure", loc);
        }
        for part in &parts {
            slots.put_part(part, values.by_ref().take(part.n_leaves).collect());
        }
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        self.0.schedules().iter().for_each(visit);
    }
}
