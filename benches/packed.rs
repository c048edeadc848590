//! Measures training steps whose state is packed beside the same steps with separate leaves.
//!
//! ```text
//! cargo bench --bench packed
//! cargo bench --bench packed -- --quick     fewer rounds
//! ```
//!
//! The model is a perceptron of equal layers with residual connections, trained by AdamW on a
//! batch of 8. *Separate* passes each leaf of parameters and optimizer state, *packed* one array of
//! each (`tree::PackedTree`). Both sides start from equal weights; their first losses are compared.
//! They alternate in rounds. Times are lower quartiles over rounds in microseconds, ratios medians.

#[path = "support/figures.rs"]
mod figures;

use anyhow::{Result, anyhow, ensure};
use figures::{lower_quartile, micros_per_call, print_heading, print_table, ratio};
use oxidax::prelude::*;
use oxidax::tree::PackedTree;

/// Layers and width of each model.
const MODELS: [(usize, usize); 4] = [(2, 16), (12, 16), (48, 16), (12, 256)];

const BATCH: usize = 8;

/// Steps of which both sides must have the same losses. Later ones differ, because both sides round
/// differently and Adam divides small gradients by small numbers.
const COMPARED: usize = 5;

type Layers = Vec<nn::Linear>;

/// A training step, which takes and returns parameters and state.
struct Training<M: Tree> {
    step: Jit<'static, (M, optim::State, Array), (M, optim::State, Array)>,
    state: Option<(M, optim::State)>,
    batch: Array,
    loss: f32,
}

impl<M: Tree + Clone> Training<M> {
    fn new(model: M, layers: fn(&M) -> Layers, width: usize) -> Result<Training<M>> {
        let optimizer = optim::adamw(1e-3);
        let state = Some((model.clone(), optimizer.init(&model)));
        let step = jit(move |model: M, state: optim::State, batch: Array| {
            let loss = |model: &M| {
                let layer = |x: Array, layer: &nn::Linear| &x + tanh(layer.forward(&x));
                square(&(layers(model).iter().fold(batch.clone(), layer) - 1.0)).mean()
            };
            let (loss, gradients) = value_and_grad(loss)(&model);
            let (updates, state) = optimizer.update(&gradients, &state, &model);
            (optim::apply_updates(&model, &updates), state, loss)
        });
        let batch = random::normal(random::key(1), [BATCH, width]);
        Ok(Training { step, state, batch, loss: 0.0 })
    }

    fn run(&mut self) -> Result<()> {
        let (model, state) = self.state.take().expect("each step returns the state");
        let results = self.step.call(model, state, &self.batch);
        let (model, state, loss) = results.map_err(|failed| anyhow!(failed.error))?;
        self.state = Some((model, state));
        self.loss = loss.item::<f32>()?;
        Ok(())
    }
}

fn measure((layers, width): (usize, usize), rounds: usize) -> Result<Vec<String>> {
    let keys = random::split(random::key(0), layers);
    let model: Layers = keys.into_iter().map(|key| nn::Linear::new(key, width, width)).collect();
    let mut packed = Training::new(PackedTree::new(&model), PackedTree::unpack, width)?;
    let mut separate = Training::new(model, Clone::clone, width)?;
    let n_leaves = tree::leaves(&separate.state.as_ref().expect("the state").1).len();
    for _ in 0..COMPARED {
        separate.run()?;
        packed.run()?;
        let [a, b] = [separate.loss, packed.loss];
        ensure!((a - b).abs() <= 1e-4 * a.abs(), "the losses are {a} and {b}");
    }
    let (mut times, calls) = ([Vec::new(), Vec::new()], 20);
    for _ in 0..rounds {
        let of_round =
            [micros_per_call(calls, || separate.run())?, micros_per_call(calls, || packed.run())?];
        times.iter_mut().zip(of_round).for_each(|(times, time)| times.push(time));
    }
    let [separate, packed] = times;
    Ok(vec![
        format!("{layers} layers of {width}"),
        (n_leaves + 2 * layers).to_string(),
        format!("{:.1}", lower_quartile(&separate)),
        format!("{:.1}", lower_quartile(&packed)),
        format!("{:.2}", ratio(&packed, &separate)),
    ])
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    let rounds = if words.iter().any(|word| word == "--quick") { 3 } else { 20 };
    print_heading("Training steps with a packed state, microseconds");
    let rows = MODELS.iter().map(|&model| measure(model, rounds)).collect::<Result<Vec<_>>>()?;
    print_table(&["model", "leaves", "separate", "packed", "packed/separate"], &rows);
    Ok(())
}
