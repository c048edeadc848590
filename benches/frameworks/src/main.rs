//! Measures candle and burn for `benches/models.rs`.
//!
//! ```text
//! cd benches/frameworks && cargo build --release
//! OXIDAX_BENCH_FRAMEWORKS=benches/frameworks/target/release/oxidax-frameworks \
//!     cargo bench --bench models -- mlp bert
//! ```
//!
//! The argument is `candle` or `burn`. `support/models/serve.rs` describes requests and answers.
//!
//! Both frameworks have the MLP, BERT and GPT-2, and burn has ResNet-50: candle's maximum pool has
//! no derivative for windows that overlap. They use their own layers, optimizers and losses, as
//! their users do, and run on the processor.

#![forbid(unsafe_code)]

#[path = "../../support/models/clock.rs"]
mod clock;
#[path = "../../support/models/numbers.rs"]
mod numbers;
mod of_burn;
mod of_candle;
#[path = "../../support/models/serve.rs"]
mod serve;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use serve::Model;

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

/// The sizes of GPT-2, as in `support/models/gpt2.rs`, and the numbers of tokens that decoding
/// reads and generates.
#[derive(Clone, Copy, Deserialize)]
struct Gpt2 {
    layers: usize,
    heads: usize,
    width: usize,
    vocabulary: usize,
    positions: usize,
    batch: usize,
    context: usize,
    prompt: Option<usize>,
    tokens: Option<usize>,
}

/// Number, height and width of images.
#[derive(Clone, Copy, Deserialize)]
struct ResNet {
    batch: usize,
    side: usize,
}

const EPSILON: f64 = 1e-12;
/// The number of elements of the first embedding, or of tokens, that are compared.
const COMPARED: usize = 8;

/// Images `[MLP_BATCH, 784]` and their classes, as in `support/mlp.rs`.
fn images() -> (Vec<f32>, Vec<u8>) {
    let pixels = (0..MLP_BATCH * MLP[0]).map(|at| (at % 255) as f32 / 255.0);
    (pixels.collect(), (0..MLP_BATCH).map(|at| (at % CLASSES) as u8).collect())
}

/// Creates a model, if the framework has it. Neither computes in `bf16` with `f32` parameters.
fn start(framework: &str, start: &Value) -> Result<Option<Model>> {
    let sizes = start["sizes"].clone();
    let bert = || serde_json::from_value::<Bert>(sizes.clone());
    let gpt2 = || serde_json::from_value::<Gpt2>(sizes.clone());
    let resnet = || serde_json::from_value::<ResNet>(sizes.clone());
    if start["bf16"] == true {
        return Ok(None);
    }
    Ok(match (framework, start["model"].as_str().context("the name of a model")?) {
        ("candle", "mlp") => Some(of_candle::mlp()?),
        ("burn", "mlp") => Some(of_burn::mlp()),
        ("candle", "bert") => Some(of_candle::bert(bert()?)?),
        ("burn", "bert") => Some(of_burn::bert(bert()?)),
        ("candle", "gpt2") => Some(of_candle::gpt2::training(gpt2()?)?),
        ("burn", "gpt2") => Some(of_burn::gpt2::training(gpt2()?)),
        ("candle", "decode") => Some(of_candle::gpt2::decoding(gpt2()?)?),
        ("burn", "decode") => Some(of_burn::gpt2::decoding(gpt2()?)?),
        ("burn", "resnet50") => Some(of_burn::resnet::training(resnet()?)),
        ("candle" | "burn", _) => None,
        _ => bail!("`{framework}` is neither candle nor burn"),
    })
}

/// Returns the version of a framework in this package's manifest.
fn version(framework: &str) -> &'static str {
    let name = if framework == "candle" { "candle-core" } else { framework };
    let manifest = include_str!("../Cargo.toml");
    let line = manifest.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split(['=', '"']).find(|part| part.contains('.'))).unwrap_or("?")
}

fn main() -> Result<()> {
    let framework = std::env::args().nth(1).context("say candle or burn")?;
    serve::serve(version(&framework), |wanted| start(&framework, wanted))
}
