//! Checks each recipe with each model that it supports.

use crate::model::{Batch, Gpt, Model, Perceptron, Sizes};
use crate::train::{Recipe, Spread, on_mesh, on_one_device};
use crate::{batches, data as data_parallel, experts, fsdp, pipeline, sequence, tensor};
use oxidax::jit::Collective::{self, AllGather, AllReduce, AllToAll, CollectivePermute};
use oxidax::prelude::*;
use std::sync::{Arc, OnceLock};

const STEPS: usize = 20;
const BATCH: usize = 16;
/// Layers of the GPT and of the perceptron.
const LAYERS: [usize; 2] = [2, 4];

fn eight() -> Vec<Device> {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    devices().unwrap()
}

/// A model, its batches, and the losses on one device.
struct Case<M> {
    model: M,
    batches: Vec<Batch>,
    losses: Vec<f32>,
}

impl<M: Model> Case<M> {
    fn new(model: M, batches: Vec<Batch>) -> Case<M> {
        let run = on_one_device(model.clone(), Arc::new(M::loss), &batches).unwrap();
        let (first, last) = (run.losses[0], run.losses[STEPS - 1]);
        assert!(last < 0.9 * first, "it does not learn: {first} to {last}");
        Case { model, batches, losses: run.losses }
    }
}

fn sizes(vocabulary: usize) -> Sizes {
    Sizes { vocabulary, positions: 16, width: 32, heads: 8, layers: LAYERS[0] }
}

fn gpt() -> &'static Case<Gpt<nn::Mlp>> {
    static CASE: OnceLock<Case<Gpt<nn::Mlp>>> = OnceLock::new();
    CASE.get_or_init(|| {
        eight();
        let (vocabulary, batches) = batches::text(STEPS, BATCH, 16).unwrap();
        let sizes = sizes(vocabulary);
        let new = jit(move |key: random::Key| Gpt::new(key, &sizes));
        Case::new(new.call(random::key(0)).unwrap(), batches)
    })
}

fn perceptron() -> &'static Case<Perceptron> {
    static CASE: OnceLock<Case<Perceptron>> = OnceLock::new();
    CASE.get_or_init(|| {
        eight();
        let batches = batches::digits(STEPS, BATCH).unwrap();
        let new = jit(|key: random::Key| Perceptron::new(key, 64, 32, LAYERS[1]));
        Case::new(new.call(random::key(0)).unwrap(), batches)
    })
}

/// Runs a recipe and checks that losses equal `expected` within 2e-5, that the program has exactly
/// the listed kinds of collectives (and counts, where given), and that devices hold the predicted
/// bytes.
#[track_caller]
fn check<P: Tree>(
    parameters: P,
    recipe: Recipe<P>,
    batches: &[Batch],
    expected: &[f32],
    collectives: &[(Collective, Option<usize>)],
) -> Spread {
    let spread = on_mesh(parameters, recipe, batches).unwrap();
    assert_eq!(spread.run.losses.len(), expected.len());
    for (at, (found, expected)) in spread.run.losses.iter().zip(expected).enumerate() {
        let apart = (found / expected - 1.0).abs();
        assert!(apart <= 2e-5, "step {at}: {found}, {expected} on one device");
    }
    let found = &spread.collectives;
    let kinds: Vec<Collective> = collectives.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(found.kinds().collect::<Vec<_>>(), kinds, "{found}");
    for &(kind, count) in collectives {
        assert_eq!(found.count(kind), count.unwrap_or(found.count(kind)), "{kind}");
    }
    let predicted = spread.parameters.bytes_per_device() + spread.state.bytes_per_device();
    assert_eq!(spread.held, predicted);
    assert!(!spread.run.step.is_zero());
    spread
}

/// Returns the fraction of parameters and optimizer state on one device.
fn share(spread: &Spread) -> f64 {
    spread.held as f64 / (spread.parameters.bytes() + spread.state.bytes()) as f64
}

/// Returns the expected fraction on one device if leaves with one of these names are split in
/// `parts`.
fn share_of<T: Tree>(parameters: &T, cut: &[&str], parts: usize) -> f64 {
    let leaves = tree::paths(parameters).into_iter().zip(tree::leaves(parameters));
    let (mut held, mut whole) = (0.0, 0.0);
    for (path, leaf) in leaves {
        let bytes = leaf.aval().bytes() as f64;
        let is_cut = cut.iter().any(|name| path.contains(name));
        held += bytes / if is_cut { parts as f64 } else { 1.0 };
        whole += bytes;
    }
    held / whole
}

#[track_caller]
fn on_case<M: Model>(
    case: &Case<M>,
    recipe: Recipe<M>,
    collectives: &[(Collective, Option<usize>)],
) -> f64 {
    share(&check(case.model.clone(), recipe, &case.batches, &case.losses, collectives))
}

/// The optimizer state is twice the size of the parameters, plus a counter.
#[track_caller]
fn near(share: f64, expected: f64) {
    assert!((share - expected).abs() < 1e-3, "{share} of all bytes, {expected} expected");
}

#[test]
fn data() {
    fn of<M: Model>(case: &Case<M>) {
        let recipe = data_parallel::recipe(&eight()).unwrap();
        assert_eq!(on_case(case, recipe, &[(AllReduce, None)]), 1.0);
    }
    of(gpt());
    of(perceptron());
}

#[test]
fn fully_sharded() {
    fn of<M: Model>(case: &Case<M>) {
        let recipe = fsdp::recipe(&eight(), &case.model).unwrap();
        let collectives = [(AllReduce, None), (AllGather, None)];
        near(on_case(case, recipe, &collectives), 1.0 / 8.0);
    }
    of(gpt());
    of(perceptron());
}

/// Returns the number of sums over pairs of layers in a block: one forward and one backward each.
fn sums<M: Model>(case: &Case<M>, pairs: usize) -> usize {
    2 * pairs * case.model.blocks().len()
}

/// The weights that `tensor` splits: all of attention and feed-forward except two biases.
const LAYERS_CUT: [&str; 6] =
    ["query", "key", "value", "out.weight", "layers[0]", "layers[1].weight"];

#[test]
fn tensors() {
    fn of<M: Model>(case: &Case<M>, pairs: usize) {
        let recipe = tensor::recipe(&eight()).unwrap();
        let share = on_case(case, recipe, &[(AllReduce, Some(sums(case, pairs)))]);
        near(share, share_of(&case.model, &LAYERS_CUT, 8));
    }
    of(gpt(), 2);
    of(perceptron(), 1);
}

#[test]
fn data_and_tensors() {
    fn of<M: Model>(case: &Case<M>, pairs: usize) {
        let recipe = tensor::with_data(&eight(), 4).unwrap();
        // One more for the gradients.
        let share = on_case(case, recipe, &[(AllReduce, Some(sums(case, pairs) + 1))]);
        near(share, share_of(&case.model, &LAYERS_CUT, 4));
    }
    of(gpt(), 2);
    of(perceptron(), 1);
}

#[test]
fn sequences() {
    // Keys and values of each block, forward and backward.
    let permutes = Some(4 * LAYERS[0]);
    let collectives = [(AllReduce, None), (CollectivePermute, permutes)];
    let recipe = sequence::recipe(&eight()).unwrap();
    assert_eq!(on_case(gpt(), recipe, &collectives), 1.0);
}

#[test]
fn pipelines() {
    fn of<M: Model>(case: &Case<M>) {
        let parameters = pipeline::stacked(case.model.clone());
        let stages = case.model.blocks().len();
        let expected = share_of(&parameters, &["blocks"], stages);
        let recipe = pipeline::recipe(&eight(), &parameters, stages, 4).unwrap();
        // One in the forward loop over ticks, one in the backward loop.
        let collectives = [(AllReduce, None), (CollectivePermute, Some(2))];
        let spread = check(parameters, recipe, &case.batches, &case.losses, &collectives);
        near(share(&spread), expected);
    }
    of(gpt());
    of(perceptron());
}

#[test]
fn mixtures_of_experts() {
    let devices = eight();
    let (vocabulary, batches) = batches::text(STEPS, BATCH, 16).unwrap();
    let sizes = sizes(vocabulary);
    let new = jit(move |key: random::Key| experts::model(key, &sizes, 8));
    let model = new.call(random::key(0)).unwrap();
    let plain = Arc::new(|model: &_, batch: &_| experts::plain_loss(model, batch, 8));
    let run = on_one_device(model.clone(), plain, &batches).unwrap();
    assert!(run.losses[STEPS - 1] < 0.9 * run.losses[0]);
    let expected = share_of(&model, &["feed.up", "feed.down"], 8);
    let recipe = experts::recipe(&devices, &model).unwrap();
    // Dispatch and combine in both blocks, forward and backward.
    let collectives = [(AllReduce, None), (AllToAll, Some(8))];
    near(share(&check(model, recipe, &batches, &run.losses, &collectives)), expected);
}
