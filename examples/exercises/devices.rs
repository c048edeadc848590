//! Measures compilation, the first call and later calls of the same program on every device.

use super::{SIZES, model};
use anyhow::{Context, ensure};
use oxidax::prelude::*;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The names of all platforms.
const ALL: [&str; 3] = ["cpu", "tpu", "cuda"];

#[derive(clap::Args)]
pub struct Options {
    /// Measure only these: cpu, tpu, cuda [all that have a plugin].
    #[arg(long, num_args = 1..)]
    platform: Vec<String>,
    #[arg(long, default_value_t = 1024)]
    batch: usize,
    /// Number of later calls to average over.
    #[arg(long, default_value_t = 20)]
    steps: u32,
    /// Time limit per platform in seconds. Without a device, a platform may wait forever.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Measure in this process, on its own platform.
    #[arg(long, hide = true)]
    here: bool,
}

impl Options {
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.batch > 0 && self.steps > 0, "a batch and steps of at least 1 are needed");
        if self.here {
            return self.measure();
        }
        println!("device    compile/s  first call/ms  later calls/ms  images/s");
        let platforms: Vec<&str> = match self.platform.as_slice() {
            [] => ALL.to_vec(),
            some => some.iter().map(String::as_str).collect(),
        };
        let mut measured = 0;
        for platform in &platforms {
            let (output, is_late) = self.measure_in_child(platform)?;
            if output.status.success() {
                measured += 1;
                print!("{}", String::from_utf8_lossy(&output.stdout));
            } else {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let reason = stderr.lines().find_map(|line| line.strip_prefix("Error: "));
                let late = format!("no result within {} s", self.limit);
                let reason = if is_late { &late } else { reason.unwrap_or("it failed") };
                println!("{platform:8}  not measured: {reason}");
            }
        }
        ensure!(
            measured > 0 && (self.platform.is_empty() || measured == platforms.len()),
            "{measured} of {} platforms measured: {}",
            platforms.len(),
            platforms.join(", ")
        );
        Ok(())
    }

    /// Measures a platform in its own process, which is killed after the time limit. Returns
    /// its output, and whether it was killed.
    fn measure_in_child(&self, platform: &str) -> anyhow::Result<(Output, bool)> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["devices", "--here", "--batch", &self.batch.to_string()])
            .args(["--steps", &self.steps.to_string()])
            .env("OXIDAX_PLATFORM", platform)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the program cannot start itself")?;
        let clock = Instant::now();
        let mut is_late = false;
        while !is_late && child.try_wait()?.is_none() {
            thread::sleep(Duration::from_millis(50));
            is_late = clock.elapsed().as_secs() >= self.limit;
        }
        // Has no effect on a process that has ended.
        child.kill()?;
        Ok((child.wait_with_output()?, is_late))
    }

    /// Prints a row for each device of this process.
    fn measure(&self) -> anyhow::Result<()> {
        let model = model()?;
        let images = random::normal(random::key(1), [self.batch, SIZES[0]]);
        for device in devices()? {
            let inputs = device_put(&(model.clone(), images.clone()), &device)?;
            for leaf in tree::leaves(&inputs) {
                leaf.block_until_ready()?;
            }
            let (model, images) = inputs;
            let forward = jit(|model: &nn::Mlp, images: &Array| model.forward(images));
            let clock = Instant::now();
            forward.call(&model, &images)?.block_until_ready()?;
            let stats = forward.stats();
            let compile = stats.trace_time + stats.lower_time + stats.compile_time;
            let first = clock.elapsed().saturating_sub(compile);
            // Calls are dispatched without waiting; the clock stops when the last one has ended.
            let clock = Instant::now();
            for _ in 1..self.steps {
                forward.call(&model, &images)?;
            }
            forward.call(&model, &images)?.block_until_ready()?;
            let later = clock.elapsed().as_secs_f64() / f64::from(self.steps);
            println!(
                "{:8}  {:9.3}  {:13.3}  {:14.3}  {:8.0}",
                format!("{}:{}", device.platform(), device.id().0),
                compile.as_secs_f64(),
                1e3 * first.as_secs_f64(),
                1e3 * later,
                self.batch as f64 / later
            );
        }
        Ok(())
    }
}
