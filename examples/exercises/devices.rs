//! The same step on one device and on all, the batch of each device larger and larger: where more stops paying.

use super::training;
use anyhow::ensure;
use oxidax::prelude::*;
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The smallest batch of a device; it is doubled until `--largest`.
    #[arg(long, default_value_t = 8)]
    smallest: usize,
    #[arg(long, default_value_t = 1024)]
    largest: usize,
    /// How many steps to take the mean of.
    #[arg(long, default_value_t = 10)]
    steps: u32,
    /// How much more throughput, in percent, a doubled batch must bring to have paid.
    #[arg(long, default_value_t = 10.0)]
    gain: f64,
}

impl Options {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let Options { smallest, largest, steps, gain } = *self;
        ensure!(
            smallest > 0 && smallest <= largest && steps > 0,
            "batches from {smallest} to {largest} in {steps} steps: nothing to measure"
        );
        if std::env::var_os("OXIDAX_CPU_DEVICES").is_none() {
            oxidax::parallel::set_cpu_devices(8)?;
        }
        let devices = devices()?;
        println!("batch of a device  {:>2} devices: images/s  one: images/s  ratio", devices.len());
        let (mut before, mut full) = (None, None);
        let mut batch = smallest;
        while batch <= largest {
            let all = self.throughput(&devices, batch)?;
            let one = self.throughput(&devices[..1], batch)?;
            println!("{batch:>17}  {all:>20.0}  {one:>13.0}  {:>5.2}", all / one);
            if before.is_some_and(|before| all < before * (1.0 + gain / 100.0)) {
                full.get_or_insert(batch / 2);
            }
            (before, batch) = (Some(all), 2 * batch);
        }
        match full {
            Some(batch) => {
                println!("more than {batch} images on a device bring less than {gain} % more");
            }
            None => println!("the largest batch still pays: try `--largest {}`", 2 * largest),
        }
        Ok(())
    }

    /// Images in a second, with so many on each of the devices.
    fn throughput(&self, devices: &[Device], batch: usize) -> anyhow::Result<f64> {
        let mesh = Mesh::new(devices, [("data", devices.len())])?;
        let (whole, rows) = (mesh.replicated(), mesh.sharding(p!["data"])?);
        let (model, state, step) = training()?;
        let step = step.in_shardings((&whole, &whole, &rows)).out_shardings(&whole);
        let images = batch * devices.len();
        let key = random::key(1);
        let batch = (
            random::uniform(key, [images, 784], DType::F32, 0.0..1.0),
            zeros([images], DType::I32),
        );
        let batch = device_put(&batch, &rows)?;
        let (mut model, mut state) = device_put(&(model, state), &whole)?;
        let mut since = Instant::now();
        for at in 0..=self.steps {
            let loss;
            (model, state, loss) = step.call(model, state, &batch)?;
            if at == 0 || at == self.steps {
                loss.item::<f32>()?; // waits for all steps so far
            }
            if at == 0 {
                since = Instant::now(); // the first compiles
            }
        }
        Ok(images as f64 * f64::from(self.steps) / since.elapsed().as_secs_f64())
    }
}
