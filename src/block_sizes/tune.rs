//! Measurements of candidates on the default device.

use super::table::{BlockEntry, BlockTable, key_of};
use super::{BlockChoice, TimeSource, traced};
use crate::core::{Array, Error, Loc, OpErrorKind, trace};
use crate::jit::jit;
use crate::kernel::Kernel;
use crate::parallel::default_device;
use crate::roofline::DeviceSpec;
use std::time::{Duration, Instant};

/// Options of [`BlockTable::tune`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuneOptions {
    /// The number of measured runs of each candidate, of which the median counts. The default is 5.
    pub n_runs: usize,
    /// The number of runs before them. The default is 1.
    pub n_warmup: usize,
}

impl Default for TuneOptions {
    fn default() -> TuneOptions {
        TuneOptions { n_runs: 5, n_warmup: 1 }
    }
}

impl BlockTable {
    /// Measures candidates on the default device, stores the fastest one in the table, and returns
    /// all that run, the fastest first.
    ///
    /// A measurement is the median of the times from the call of the compiled kernel to the end of
    /// the computation. Candidates that break a rule of a compiler, or that it refuses, are left
    /// out.
    ///
    /// # Errors
    /// `Op` (value) if none runs, with the error of the last one.
    #[track_caller]
    pub fn tune(
        &mut self,
        candidates: &[Vec<usize>],
        build: impl Fn(&[usize]) -> Kernel,
        operands: &[&Array],
        options: TuneOptions,
    ) -> Result<Vec<BlockChoice>, Error> {
        let loc = Loc::caller();
        let device = default_device()?;
        let chip = DeviceSpec::named(device.kind())
            .map_or_else(|| device.kind().to_lowercase(), |spec| spec.name.to_string());
        let mut measured: Vec<BlockChoice> = Vec::new();
        let mut reason = "there are no candidates".to_string();
        let mut key = None;
        for blocks in candidates {
            let outcome = traced(&build, blocks, operands).and_then(|kernel| {
                let seconds = measure(&build(blocks), operands, options)?;
                key.get_or_insert_with(|| key_of(&chip, &kernel.name, operands));
                Ok(seconds)
            });
            match outcome {
                Ok(seconds) => {
                    let (blocks, source) = (blocks.clone(), TimeSource::Measured);
                    measured.push(BlockChoice { blocks, seconds, source });
                }
                Err(error) => reason = format!("{blocks:?}: {error}"),
            }
        }
        measured.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        match (measured.first(), key) {
            (Some(best), Some((chip, kernel, operands))) => {
                let (blocks, seconds) = (best.blocks.clone(), best.seconds);
                self.insert(BlockEntry { chip, kernel, operands, blocks, seconds });
                Ok(measured)
            }
            _ => {
                let message = format!("none of {} candidates runs: {reason}", candidates.len());
                Err(trace::op_error(OpErrorKind::Value, "tune", message, loc))
            }
        }
    }
}

/// Returns the median of the times of one run, in seconds.
fn measure(kernel: &Kernel, operands: &[&Array], options: TuneOptions) -> Result<f64, Error> {
    let owned: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
    let kernel = kernel.clone();
    let compiled = jit(move |operands: Vec<Array>| {
        let operands: Vec<&Array> = operands.iter().collect();
        kernel.apply_list(&operands)
    });
    let run = || -> Result<Duration, Error> {
        let start = Instant::now();
        for output in compiled.call(&owned)? {
            output.block_until_ready()?;
        }
        Ok(start.elapsed())
    };
    for _ in 0..options.n_warmup.max(1) {
        run()?;
    }
    let mut times = (0..options.n_runs.max(1)).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64())
}
