//! The training step, which is the same whatever the recipe, and what a run of it shows.

use super::model::Batch;
use anyhow::ensure;
use oxidax::jit::Collectives;
use oxidax::optim::AdamWOptions;
use oxidax::parallel::TreeSharding;
use oxidax::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The mean loss of a batch.
pub(crate) type Loss<P> = Arc<dyn Fn(&P, &Batch) -> Array + Send + Sync>;

/// How a training run is spread over a mesh.
pub(crate) struct Recipe<P> {
    pub(crate) mesh: Mesh,
    /// How parameters lie, and what the optimizer remembers of them.
    pub(crate) rules: PartitionRules,
    /// How both arrays of a batch lie.
    pub(crate) batch: PartitionSpec,
    pub(crate) loss: Loss<P>,
}

/// Parameters, optimizer state, batch: the same after a step, and the loss before.
type Step<P> = Jit<(P, optim::State, Batch), (P, optim::State, Array)>;

pub(crate) fn optimizer() -> optim::Optimizer {
    optim::adamw_with(1e-3, AdamWOptions { weight_decay: 0.1, ..AdamWOptions::default() })
}

fn step<P: Tree>(loss: Loss<P>) -> Step<P> {
    let optimizer = optimizer();
    jit(move |parameters: P, state: optim::State, batch: Batch| {
        let loss = |parameters: &P| loss(parameters, &batch);
        let (value, gradients) = value_and_grad(loss)(&parameters);
        let (updates, state) = optimizer.update(&gradients, &state, &parameters);
        (optim::apply_updates(&parameters, &updates), state, value)
    })
    .name("train_step")
}

/// A step between arguments that lie as a recipe says, and how they lie.
pub(crate) struct Placed<P: Tree> {
    pub(crate) step: Step<P>,
    parameters: TreeSharding,
    state: TreeSharding,
    batch: NamedSharding,
}

impl<P: Tree> Recipe<P> {
    /// Of arrays with elements or without.
    pub(crate) fn place(self, parameters: &P, state: &optim::State) -> Result<Placed<P>, Error> {
        let Recipe { mesh, rules, batch, loss } = self;
        // A path of the state ends in that of its parameter: one set of rules serves both.
        let parameters = rules.shardings(parameters, &mesh)?;
        let state = rules.shardings(state, &mesh)?;
        let batch = mesh.sharding(batch)?;
        let step = step(loss).in_shardings((&parameters, &state, &batch)).out_shardings((
            &parameters,
            &state,
            mesh.replicated(),
        ));
        Ok(Placed { step, parameters, state, batch })
    }
}

/// What a run showed.
pub(crate) struct Run {
    pub(crate) losses: Vec<f32>,
    /// The mean of all steps but the first.
    pub(crate) step: Duration,
}

/// What else is known of one on a mesh.
pub(crate) struct Spread {
    pub(crate) run: Run,
    /// How parameters and optimizer state lie.
    pub(crate) parameters: TreeSharding,
    pub(crate) state: TreeSharding,
    /// The bytes of both that the first device held in the end.
    pub(crate) held: usize,
    pub(crate) collectives: Collectives,
}

/// One step for each batch, on the default device.
pub(crate) fn on_one_device<P: Tree>(
    parameters: P,
    loss: Loss<P>,
    batches: &[Batch],
) -> anyhow::Result<Run> {
    let (step, state) = (step(loss), optimizer().init(&parameters));
    let (run, _) = steps((parameters, state), batches, |(parameters, state), batch| {
        let (parameters, state, loss) = step.call(parameters, state, batch)?;
        Ok(((parameters, state), loss))
    })?;
    Ok(run)
}

/// One step for each batch, spread as the recipe says.
pub(crate) fn on_mesh<P: Tree>(
    parameters: P,
    recipe: Recipe<P>,
    batches: &[Batch],
) -> anyhow::Result<Spread> {
    ensure!(!batches.is_empty(), "a run needs a batch at least");
    let state = optimizer().init(&parameters);
    let Placed { step, parameters: parameters_at, state: state_at, batch: batch_at } =
        recipe.place(&parameters, &state)?;
    let step = step.lower((&parameters, &state, &batches[0]))?.compile()?;

    let held = (device_put(&parameters, &parameters_at)?, device_put(&state, &state_at)?);
    drop((parameters, state));
    let batches: Vec<Batch> =
        batches.iter().map(|batch| device_put(batch, &batch_at)).collect::<Result<_, _>>()?;
    let (run, (parameters, state)) = steps(held, &batches, |(parameters, state), batch| {
        let (parameters, state, loss) = step.call(parameters, state, batch)?; // moved: donated
        Ok(((parameters, state), loss))
    })?;
    Ok(Spread {
        run,
        held: held_by_first(&parameters)? + held_by_first(&state)?,
        parameters: parameters_at,
        state: state_at,
        collectives: step.report().collectives()?,
    })
}

fn steps<S>(
    mut held: S,
    batches: &[Batch],
    step: impl Fn(S, &Batch) -> anyhow::Result<(S, Array)>,
) -> anyhow::Result<(Run, S)> {
    let (mut losses, mut since) = (Vec::new(), Instant::now());
    for (at, batch) in batches.iter().enumerate() {
        let loss;
        (held, loss) = step(held, batch)?;
        losses.push(loss.item::<f32>()?); // waits for the step
        if at == 0 {
            since = Instant::now();
        }
    }
    let later = losses.len().saturating_sub(1).max(1) as u32;
    Ok((Run { losses, step: since.elapsed() / later }, held))
}

/// The bytes that the first device of its mesh has of a tree.
fn held_by_first<T: Tree>(tree: &T) -> Result<usize, Error> {
    let mut bytes = 0;
    for leaf in tree::leaves(tree) {
        bytes += leaf.addressable_shards()?[0].data.aval().bytes();
    }
    Ok(bytes)
}
