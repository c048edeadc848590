//! Trains GPT-2 on a text and continues the text.
//!
//! ```text
//! cargo run --release                        a small model, on the characters of sonnets.txt
//! cargo run --release -- TEXT                the same, on the file TEXT
//! cargo run --release -- TEXT WEIGHTS        fine-tunes the published model in the folder WEIGHTS
//! ```
//!
//! Checkpoints, metrics, a chart of the loss and the trained model are written to the folder `run`.
//! Press Ctrl-C or kill it: the same command continues from the newest checkpoint. Delete `run` to
//! train another model.

use std::fs;
use std::path::{Path, PathBuf};

use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Config, Gpt2Tokenizer, Sampling, TextGenerator};

use checkpoint::{Folder, Snapshot};
use data::{File, Source, Stream, TokenWidth, Tokens};
use train::{History, Interrupt, Metrics, ProgressBar};

const STEPS: u64 = 500;
const BATCH_SIZE: usize = 8;
/// Tokens of a training example.
const N_TOKENS: usize = 64;
const SAVE_EVERY: u64 = 100;
const SONNETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sonnets.txt");

/// A text, and the model to train on it.
struct Task {
    text: String,
    tokenizer: Gpt2Tokenizer,
    config: Gpt2Config,
    model: Gpt2,
    learning_rate: f64,
}

impl Task {
    /// Loads a published model: config.json, model.safetensors and tokenizer.json in a folder.
    fn fine_tune(text: String, weights: &Path) -> Result<Task, Error> {
        Ok(Task {
            text,
            tokenizer: Gpt2Tokenizer::load(weights)?,
            config: Gpt2Config::load(weights)?,
            model: Gpt2::load(weights)?,
            learning_rate: 3e-5,
        })
    }

    /// Creates a small model with random weights, and a token for each character of the text.
    fn from_scratch(text: String) -> Task {
        let tokenizer = Gpt2Tokenizer::characters(&text);
        let config = Gpt2Config {
            vocabulary: tokenizer.len(),
            positions: N_TOKENS,
            width: 64,
            heads: 4,
            layers: 2,
            ..Gpt2Config::small()
        };
        let model = Gpt2::new(random::key(0), &config);
        let learning_rate = 3e-3;
        Task {
            text,
            tokenizer,
            config,
            model,
            learning_rate,
        }
    }

    /// Endless batches of random windows of the text: tokens and next tokens, `i32[b, t]`.
    fn batches(&self) -> Result<Stream<(Array, Array)>, Error> {
        let tokens = self.tokenizer.encode(&self.text)?;
        let n = tokens.len();
        if n <= N_TOKENS {
            let problem = format!(
                "the text has {n} tokens, but an example needs {}",
                N_TOKENS + 1
            );
            return Err(Error::data("batches", problem));
        }
        let bytes: Vec<u8> = tokens.into_iter().flat_map(u32::to_le_bytes).collect();
        let windows = Tokens::open(File::in_memory("text", bytes), TokenWidth::U32, N_TOKENS)?;
        let shuffled = windows.stride(1).shuffled(0).stream().repeat_forever();
        Ok(shuffled.batch(BATCH_SIZE).to_device(2))
    }
}

/// The mean cross entropy of the next tokens, in nats.
fn loss(model: &Gpt2, tokens: &Array, next: &Array) -> Array {
    nn::softmax_cross_entropy_with_integer_labels(&model.forward(tokens, None), next).mean()
}

/// Everything that changes from step to step, and is saved.
#[derive(Tree)]
struct State {
    model: Gpt2,
    optimizer: optim::State,
}

/// Trains up to step `last`, from the newest checkpoint in `folder` if there is one.
fn train(task: &Task, folder: &Path, last: u64) -> Result<(Gpt2, History), Error> {
    let adamw = optim::adamw(task.learning_rate);
    let optimizer = optim::chain([optim::clip_by_global_norm(1.0), adamw]);
    let step = jit(|state: State, tokens: Array, next: Array| {
        let (loss, gradient) = value_and_grad(loss)(&state.model, &tokens, &next);
        let (updates, optimizer) = optimizer.update(&gradient, &state.optimizer, &state.model);
        let model = optim::apply_updates(&state.model, &updates);
        (State { model, optimizer }, loss)
    });

    let model = task.model.clone();
    let mut state = State {
        optimizer: optimizer.init(&model),
        model,
    };
    let (mut done, mut batches) = (0, task.batches()?);
    let mut checkpoints = Folder::open(folder.join("checkpoints"))?.keep_last(2);
    if let Some(restored) = checkpoints.restore_latest(&state)? {
        (done, state) = (restored.step, restored.state);
        batches = batches.resume(&restored.position.unwrap_or_default())?;
        println!("resumed after step {done}");
    }

    let mut metrics = Metrics::new().from_step(done);
    metrics = metrics
        .csv(folder.join("metrics.csv"), ["loss"])?
        .tensorboard(folder)?;
    let mut progress = ProgressBar::new(last).from_step(done);
    let interrupt = Interrupt::catch()?;
    while done < last && !interrupt.requested() {
        let Some(batch) = batches.next() else { break };
        let (tokens, next) = batch?;
        let loss;
        (state, loss) = step.call(state, tokens, next)?; // moved: the new state takes their memory
        metrics.scalar(done, "loss", &loss)?;
        progress.inc(&loss)?;
        done += 1;
        if done % SAVE_EVERY == 0 || done == last || interrupt.requested() {
            checkpoints.save(Snapshot::new(done, &state).position(batches.position()))?;
            metrics.flush()?;
        }
    }
    progress.finish()?;
    checkpoints.wait()?;
    Ok((state.model, metrics.finish()?))
}

/// Continues the first 16 tokens of the text.
fn sample(task: &Task, model: &Gpt2) -> Result<String, Error> {
    let mut tokens = task.tokenizer.encode(&task.text)?;
    tokens.truncate(16);
    let generator = TextGenerator::new(Sampling {
        temperature: 0.8,
        top_k: Some(40),
    });
    tokens.extend(generator.generate(model, &tokens, 200, random::key(1))?);
    task.tokenizer.decode(&tokens)
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::io(path, source))
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let text = read(&arguments.next().unwrap_or_else(|| SONNETS.into()))?;
    let task = match arguments.next() {
        Some(weights) => Task::fine_tune(text, &weights)?,
        None => Task::from_scratch(text),
    };
    let folder = Path::new("run");
    let (model, history) = train(&task, folder, STEPS)?;
    if !history.get("loss").is_empty() {
        history
            .chart("Training", ["loss"])
            .save(folder.join("loss.svg"))?;
    }
    model.save(folder.join("model"), &task.config)?;
    task.tokenizer.save(folder.join("model"))?;
    println!("{}", sample(&task, &model)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_lowers_the_loss_and_continues() -> Result<(), Error> {
        let folder =
            std::env::temp_dir().join(format!("{}-{}", env!("CARGO_PKG_NAME"), std::process::id()));
        let task = Task::from_scratch(read(Path::new(SONNETS))?);
        let (_, history) = train(&task, &folder, 20)?;
        let losses = history.get("loss");
        assert!(losses[19].1 < 0.8 * losses[0].1, "{losses:?}");

        let (model, continued) = train(&task, &folder, 25)?;
        let steps: Vec<u64> = continued
            .get("loss")
            .iter()
            .map(|&(step, _)| step)
            .collect();
        assert_eq!(steps, [20, 21, 22, 23, 24]);
        assert!(sample(&task, &model)?.starts_with("From fairest"));
        fs::remove_dir_all(&folder).expect("training created the folder");
        Ok(())
    }
}
