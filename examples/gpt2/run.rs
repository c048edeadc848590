//! A training run: its steps, what it measures, and where it goes on when it was stopped.

use super::model::Gpt2;
use super::text::Corpus;
use super::{Train, train};
use anyhow::ensure;
use checkpoint::{Folder, Snapshot};
use oxidax::prelude::*;
use oxidax::train::{Interrupt, Metrics};
use std::time::Instant;

/// All that changes from step to step.
#[derive(Tree)]
struct Run {
    model: Gpt2,
    optimizer: optim::State,
}

/// Trains to the last step, or until Ctrl-C; with a folder, from its newest checkpoint on.
pub(crate) fn train(options: &Train, model: Gpt2, corpus: &Corpus) -> anyhow::Result<Gpt2> {
    let Train { recipe, seed, .. } = options;
    ensure!(
        recipe.warmup < recipe.steps,
        "a warm-up of {} in {} steps",
        recipe.warmup,
        recipe.steps
    );
    let schedule = recipe.schedule();
    let mut run = Run { optimizer: recipe.optimizer().init(&model), model };
    let placed = options.spread.place(&run.model, &run.optimizer)?;
    let step = match &placed {
        None => recipe.step(),
        Some(placed) => {
            let state = placed.state.bytes_per_device();
            println!("{}\n{state} bytes of optimizer state besides", placed.model);
            placed.step(recipe)?
        }
    };
    let mut batches = corpus.batches(options.batch, u64::from(*seed))?;
    let (mut folder, mut metrics, mut done) = (None, Metrics::new(), 0);
    if let Some(path) = &options.run {
        let mut checkpoints = Folder::open(path.join("checkpoints"))?.keep_last(2);
        if let Some(restored) = checkpoints.restore_latest(&run)? {
            (run, done) = (restored.state, restored.step as u32);
            batches = batches.resume(&restored.position.unwrap_or_default())?;
            println!("resumed   after step {done}");
        }
        metrics = metrics.from_step(done.into());
        metrics = metrics.csv(path.join("metrics.csv"), ["loss", "held_out"])?.tensorboard(path)?;
        folder = Some(checkpoints);
    }
    if let Some(placed) = &placed {
        run.model = device_put(&run.model, &placed.model)?;
        run.optimizer = device_put(&run.optimizer, &placed.state)?;
    }
    let interrupt = Interrupt::catch()?;
    let measure = held_out_loss(options, corpus);
    let (mut since, mut before, first) = (Instant::now(), done, done + 1);
    while done < recipe.steps {
        let Some(batch) = batches.next() else { break };
        let (drops, seed) = (options.dropout > 0.0, random::key(i64::from(*seed)));
        let key = drops.then(|| random::fold_in(seed, i64::from(done) + 1));
        let (model, optimizer, loss) = step.call(run.model, run.optimizer, batch?, key)?; // moved: donated
        run = Run { model, optimizer };
        metrics.scalar(done.into(), "loss", &loss)?;
        done += 1;
        let stopped = interrupt.requested();
        let is_last = done == recipe.steps || stopped;
        if done == first || done.is_multiple_of(options.log_every.max(1)) || is_last {
            let loss = loss.item::<f32>()?; // waits for the step
            let rate = schedule.value(&full([], done as i32 - 1)).item::<f32>()?;
            let each = since.elapsed().as_secs_f64() / f64::from(done - before);
            let tokens = (options.batch * options.block) as f64 / each;
            match done == first {
                true => println!("compiled  {:.2} s", step.stats().compile_time.as_secs_f64()),
                false => println!(
                    "step {done:>6}  loss {loss:.4}  rate {rate:.1e}  {:.2} ms/step  {tokens:.0} tokens/s",
                    1e3 * each
                ),
            }
            (since, before) = (Instant::now(), done);
        }
        if done.is_multiple_of(options.eval_every.max(1)) && !is_last {
            let loss = measure(&run.model, 20)?;
            metrics.scalar(u64::from(done) - 1, "held_out", loss)?;
            println!("step {done:>6}  held out {loss:.4}");
            (since, before) = (Instant::now(), done);
        }
        if let Some(folder) = &mut folder
            && (is_last || done.is_multiple_of(options.save_every.max(1)))
        {
            let snapshot = Snapshot::new(done.into(), &run).position(batches.position());
            folder.save(snapshot)?;
            metrics.flush()?;
        }
        if stopped {
            println!("stopped   after step {done}");
            break;
        }
    }
    if let Some(folder) = &mut folder {
        folder.wait()?;
    }
    if options.held_out > 0 && done == recipe.steps {
        println!("held out  {:.4}", measure(&run.model, options.held_out)?);
    }
    let history = metrics.finish()?;
    if let Some(path) = &options.run
        && !history.get("loss").is_empty()
    {
        history.chart("GPT-2", history.names()).save(path.join("loss.svg"))?;
    }
    if let Some(path) = &options.losses {
        let lines: Vec<String> =
            history.get("loss").iter().map(|(_, loss)| loss.to_string()).collect();
        std::fs::write(path, lines.join("\n") + "\n")?;
    }
    Ok(run.model)
}

/// The mean loss of so many held-out batches at most.
fn held_out_loss(options: &Train, corpus: &Corpus) -> impl Fn(&Gpt2, u64) -> anyhow::Result<f64> {
    let (policy, batch) = (options.recipe.policy(), options.batch / options.recipe.accumulate);
    let loss =
        jit(move |model: Gpt2, batch: (Array, Array)| train::loss(&model, &batch, None, policy));
    let loss = loss.name("held_out");
    move |model, most| {
        let mut losses = Vec::new();
        for batch in corpus.held_out(batch)?.take(most).to_device(2) {
            losses.push(loss.call(model, batch?)?.item::<f32>()?);
        }
        Ok(losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64)
    }
}
