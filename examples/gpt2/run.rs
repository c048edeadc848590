//! The training loop: metrics, checkpoints, and continuing an interrupted run.

use super::Train;
use super::profile::StepProfiler;
use super::text::Corpus;
use super::train::{self, Batch};
use anyhow::ensure;
use checkpoint::{Folder, Snapshot};
use oxidax::prelude::*;
use oxidax::profile::{StepTraceAnnotation, TraceAnnotation, start_server};
use oxidax::train::{Interrupt, Metrics};
use oxidax_models::gpt2::Gpt2;
use std::time::Instant;

/// All state that changes from step to step.
#[derive(Tree)]
struct Run {
    model: Gpt2,
    optimizer: optim::State,
}

/// Trains to the last step or until Ctrl-C. With `--run`, continues from the newest checkpoint.
pub fn train(options: &Train, model: Gpt2, corpus: &Corpus) -> anyhow::Result<Gpt2> {
    let Train { recipe, seed, batch, block, log_every, eval_every, save_every, .. } = options;
    let (steps, warmup) = (recipe.steps, recipe.warmup);
    ensure!(warmup < steps, "a warm-up of {warmup} in {steps} steps");
    let mut run = Run { optimizer: recipe.first_state(&model), model };
    let mesh = options.spread.plan(&run.model, &run.optimizer)?;
    let step = mesh.as_ref().map_or_else(|| Ok(recipe.step()), |mesh| mesh.step(recipe))?;
    let mut batches = corpus.batches(*batch, u64::from(*seed))?;
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
    if let Some(mesh) = &mesh {
        let bytes = mesh.state.bytes_per_device();
        println!("{}\n{bytes} bytes of optimizer state per device", mesh.model);
        run.model = device_put(&run.model, &mesh.model)?;
        run.optimizer = device_put(&run.optimizer, &mesh.state)?;
    }
    let server = options.profile_port.map(start_server).transpose()?;
    if let Some(server) = &server {
        println!("profiles  oxidax profile capture {}", server.address());
    }
    let (interrupt, held_out) = (Interrupt::catch()?, held_out_loss(options, corpus));
    let due = |done: u32, every: u32| done.is_multiple_of(every.max(1));
    let (schedule, first) = (recipe.schedule(), done + 1);
    let (mut clock, mut logged, mut stopped) = (Instant::now(), done, false);
    let mut profiler = StepProfiler::new(options, done, steps);
    while done < steps && !stopped {
        let is_profiled = profiler.begin(done)?;
        let mark = StepTraceAnnotation::new("train", done.into());
        let next = TraceAnnotation::new("next batch").scope(|| batches.next().transpose())?;
        let Some(inputs) = next else { break };
        let key = TraceAnnotation::new("dropout key").scope(|| {
            let key = || random::fold_in(random::key(i64::from(*seed)), i64::from(done) + 1);
            (options.dropout > 0.0).then(key)
        });
        let loss;
        // Donates model and optimizer, which are moved.
        (run.model, run.optimizer, loss) = step.call(run.model, run.optimizer, &inputs, &key)?;
        metrics.scalar(done.into(), "loss", &loss)?;
        done += 1;
        stopped = interrupt.requested();
        let is_last = done == steps || stopped;
        let is_logged = done == first || due(done, *log_every) || is_last;
        if is_logged || is_profiled {
            let read = TraceAnnotation::new("read loss"); // waits for the step
            let loss = read.scope(|| loss.item::<f32>())?;
            if done == first {
                println!("compiled  {:.2} s", step.stats().compile_time.as_secs_f64());
            } else if is_logged {
                let rate = schedule.value(&full([], done as i32 - 1)).item::<f32>()?;
                let seconds = clock.elapsed().as_secs_f64() / f64::from(done - logged);
                let (ms, tokens) = (1e3 * seconds, (batch * block) as f64 / seconds);
                println!(
                    "step {done:>6}  loss {loss:.4}  rate {rate:.1e}  {ms:.2} ms/step  {tokens:.0} tokens/s"
                );
            }
            if is_logged {
                (clock, logged) = (Instant::now(), done);
            }
        }
        if due(done, *eval_every) && !is_last {
            let loss = TraceAnnotation::new("evaluate").scope(|| held_out(&run.model, 20))?;
            metrics.scalar(u64::from(done) - 1, "held_out", loss)?;
            println!("step {done:>6}  held out {loss:.4}");
            (clock, logged) = (Instant::now(), done);
        }
        if let Some(folder) = folder.as_mut().filter(|_| is_last || due(done, *save_every)) {
            folder.save(Snapshot::new(done.into(), &run).position(batches.position()))?;
            metrics.flush()?;
        }
        drop(mark);
        let lines = || {
            let Run { model, optimizer } = &run;
            let compiled = step.lower(model, optimizer, &inputs, &key)?.compile()?;
            compiled.line_profile(model, optimizer, &inputs, &key)
        };
        if profiler.end(done, stopped, lines)? {
            (clock, logged) = (Instant::now(), done);
        }
    }
    if stopped {
        println!("stopped   after step {done}");
    }
    if let Some(folder) = &mut folder {
        folder.wait()?;
    }
    if options.held_out > 0 && done == steps {
        println!("held out  {:.4}", held_out(&run.model, options.held_out)?);
    }
    let history = metrics.finish()?;
    let losses = history.get("loss");
    if let Some(path) = options.run.as_ref().filter(|_| !losses.is_empty()) {
        history.chart("GPT-2", history.names()).save(path.join("loss.svg"))?;
    }
    if let Some(path) = &options.losses {
        let lines: String = losses.iter().map(|(_, loss)| format!("{loss}\n")).collect();
        std::fs::write(path, lines)?;
    }
    Ok(run.model)
}

/// Returns a function that computes the mean loss of at most `limit` held-out batches.
fn held_out_loss(options: &Train, corpus: &Corpus) -> impl Fn(&Gpt2, u64) -> anyhow::Result<f64> {
    let (policy, batch) = (options.recipe.policy(), options.batch / options.recipe.accumulate);
    let loss = jit(move |model: Gpt2, batch: Batch| train::loss(&model, &batch, None, policy));
    let loss = loss.name("held_out");
    move |model, limit| {
        let (mut sum, mut n) = (0.0, 0.0);
        for batch in corpus.held_out(batch)?.take(limit).to_device(2) {
            sum += f64::from(loss.call(model, batch?)?.item::<f32>()?);
            n += 1.0;
        }
        Ok(sum / n)
    }
}
