//! Measures candle and burn for `benches/models.rs`.
//!
//! ```text
//! cd benches/frameworks && cargo build --release
//! OXIDAX_BENCH_FRAMEWORKS=benches/frameworks/target/release/oxidax-frameworks \
//!     cargo bench --bench models -- mlp bert
//! ```
//!
//! The argument is `candle` or `burn`. Each line of standard input is a request in JSON, answered
//! by a line of numbers, as in `python-compat/models_bench.py`:
//!
//! - `start` creates a model and calls it once. The answer is the number of parameters, the seconds
//!   of that call and some results. It is empty if the model is not implemented.
//! - `run` repeats the call. The answer is the milliseconds per call, as wall time and as processor
//!   time.
//!
//! Both frameworks have the step of the MLP and the embeddings of BERT. They use their own layers,
//! optimizers and losses, as their users do, and run on the processor.

#![forbid(unsafe_code)]

#[path = "../../support/models/clock.rs"]
mod clock;
#[path = "../../support/models/numbers.rs"]
mod numbers;
mod of_burn;
mod of_candle;

use anyhow::{Context as _, Result, bail};
use clock::cpu_millis;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::time::Instant;

/// The sizes of the MLP and of its batch.
const MLP: [usize; 4] = [784, 1024, 1024, 10];
const MLP_BATCH: usize = 128;
const CLASSES: usize = 10;
const LEARNING_RATE: f64 = 1e-3;
const WEIGHT_DECAY: f64 = 1e-4;

/// The sizes of BERT, as in `support/models/bert.rs`.
#[derive(Clone, Copy, Deserialize)]
struct Bert {
    layers: usize,
    heads: usize,
    width: usize,
    inner: usize,
    vocabulary: usize,
    positions: usize,
    batch: usize,
    context: usize,
}

const EPSILON: f64 = 1e-12;
/// The number of elements of the first embedding that are compared.
const COMPARED: usize = 8;

/// Computes once, waits for the end, and returns some of the results.
type Call = Box<dyn FnMut() -> Result<Vec<f64>>>;

/// A model that is ready to run.
struct Model {
    parameters: usize,
    call: Call,
}

#[derive(Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
enum Request {
    Start { start: Start },
    Run { calls: usize },
}

#[derive(Deserialize)]
struct Start {
    model: String,
    sizes: Value,
}

/// Images `[MLP_BATCH, 784]` and their classes, as in `support/mlp.rs`.
fn images() -> (Vec<f32>, Vec<u8>) {
    let pixels = (0..MLP_BATCH * MLP[0]).map(|at| (at % 255) as f32 / 255.0);
    (pixels.collect(), (0..MLP_BATCH).map(|at| (at % CLASSES) as u8).collect())
}

fn start(framework: &str, start: Start) -> Result<Option<Model>> {
    Ok(match (framework, start.model.as_str()) {
        ("candle", "mlp") => Some(of_candle::mlp()?),
        ("burn", "mlp") => Some(of_burn::mlp()),
        ("candle", "bert") => Some(of_candle::bert(serde_json::from_value(start.sizes)?)?),
        ("burn", "bert") => Some(of_burn::bert(serde_json::from_value(start.sizes)?)),
        ("candle" | "burn", _) => None,
        _ => bail!("`{framework}` is neither candle nor burn"),
    })
}

fn main() -> Result<()> {
    let framework = std::env::args().nth(1).context("say candle or burn")?;
    let mut running: Option<Model> = None;
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?)? {
            Request::Start { start: wanted } => {
                running = None;
                let mut model = start(&framework, wanted)?;
                let begin = Instant::now();
                let answer = match &mut model {
                    Some(model) => {
                        let values = (model.call)()?;
                        let seconds = begin.elapsed().as_secs_f64();
                        [vec![model.parameters as f64, seconds], values].concat()
                    }
                    None => Vec::new(),
                };
                running = model.or(running);
                json!(answer)
            }
            Request::Run { calls } => {
                let model = running.as_mut().context("no model runs")?;
                let (begin, cpu) = (Instant::now(), cpu_millis()?);
                for _ in 0..calls {
                    (model.call)()?;
                }
                let each = 1.0 / calls as f64;
                let wall = begin.elapsed().as_secs_f64() * 1e3;
                json!([wall * each, (cpu_millis()? - cpu) * each])
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
