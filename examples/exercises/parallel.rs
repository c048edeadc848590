//! Computes the loss on all devices with `pmap`, and doubles the batch on each of them until memory
//! is exhausted.

use super::{SIZES, loss, model};
use anyhow::ensure;
use oxidax::prelude::*;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Options {
    /// The first number of images on each device.
    #[arg(long, default_value_t = 256)]
    smallest: usize,
    /// The last number of images on each device.
    #[arg(long, default_value_t = 1 << 20)]
    largest: usize,
    /// Number of later calls to average over.
    #[arg(long, default_value_t = 10)]
    steps: u32,
    /// Memory of each CPU device, in GiB. CPU devices share the memory of the host, and the system
    /// ends a process that needs more, so the exercise stops before. TPUs and GPUs report an error.
    #[arg(long, default_value_t = 0.5)]
    cpu_memory: f64,
}

/// The times of one batch size, or the reason why it does not fit.
enum Row {
    Measured { compile: f64, first: f64, later: f64 },
    OutOfMemory(String),
}

impl Options {
    pub fn run(&self) -> anyhow::Result<()> {
        let Options { smallest, largest, steps, .. } = *self;
        ensure!(
            smallest > 0 && smallest <= largest && steps > 0,
            "batches from {smallest} to {largest} in {steps} steps: nothing to measure"
        );
        if std::env::var_os("OXIDAX_CPU_DEVICES").is_none() {
            oxidax::parallel::set_cpu_devices(8)?;
        }
        let devices = devices()?;
        println!(
            "devices: {}",
            devices.iter().map(Device::to_string).collect::<Vec<_>>().join(" ")
        );
        println!("batch per device  compile/s  first call/ms  later calls/ms  images/s");
        let mut batch = smallest;
        while batch <= largest {
            match self.measure(&devices, batch)? {
                Row::Measured { compile, first, later } => {
                    let (first, millis) = (1e3 * first, 1e3 * later);
                    let rate = (batch * devices.len()) as f64 / later;
                    println!(
                        "{batch:>16}  {compile:>9.3}  {first:>13.3}  {millis:>14.3}  {rate:>8.0}"
                    );
                }
                Row::OutOfMemory(reason) => {
                    println!("{batch:>16}  out of memory here: {reason}");
                    return Ok(());
                }
            }
            batch *= 2;
        }
        println!("the largest batch fits: try `--largest {}`", 2 * largest);
        Ok(())
    }

    /// Measures the loss of `batch` images on each device.
    fn measure(&self, devices: &[Device], batch: usize) -> anyhow::Result<Row> {
        match self.try_measure(devices, batch) {
            Err(Error::TooLarge { needed, available, .. }) => {
                Ok(Row::OutOfMemory(of_available(needed, available)))
            }
            Err(Error::Runtime { code: Some(code), .. }) if code == "RESOURCE_EXHAUSTED" => {
                Ok(Row::OutOfMemory("the device cannot allocate it".into()))
            }
            other => Ok(other?),
        }
    }

    fn try_measure(&self, devices: &[Device], batch: usize) -> Result<Row, Error> {
        let n = devices.len();
        let p_forward = pmap(loss);
        let models = device_put_replicated(&model()?, devices)?;
        // One part of the batch on each device, as `pmap` passes it to them.
        let parts = Mesh::new(devices, [("devices", n)])?.sharding(p!["devices"])?;
        let [pixels, classes] = random::key(1).split();
        let images = catch(|| random::normal(pixels, [n, batch, SIZES[0]]))?;
        let labels = catch(|| random::randint(classes, [n, batch], 0..SIZES[3] as i32))?;
        let (images, labels) = device_put(&(images, labels), &parts)?;

        let clock = Instant::now();
        let p_forward = p_forward.lower(&models, &images, &labels)?.compile()?;
        let compile = clock.elapsed().as_secs_f64();
        if devices[0].platform() == "cpu" {
            let needed = p_forward.report().memory_analysis()?.total();
            let available = (self.cpu_memory * f64::from(1 << 30)) as u64;
            if needed > available {
                return Ok(Row::OutOfMemory(of_available(needed, available)));
            }
        }
        let clock = Instant::now();
        p_forward.call(&models, &images, &labels)?.block_until_ready()?;
        let first = clock.elapsed().as_secs_f64();
        // Calls are dispatched without waiting; the clock stops when the last one has ended.
        let clock = Instant::now();
        for _ in 1..self.steps {
            p_forward.call(&models, &images, &labels)?;
        }
        p_forward.call(&models, &images, &labels)?.block_until_ready()?;
        let later = clock.elapsed().as_secs_f64() / f64::from(self.steps);
        Ok(Row::Measured { compile, first, later })
    }
}

fn of_available(needed: u64, available: u64) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    format!("{:.2} GiB of {:.2} GiB on each device", gib(needed), gib(available))
}
