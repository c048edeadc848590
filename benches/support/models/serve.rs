//! Models that are measured in a separate process, which answers requests.
//!
//! Each line of standard input is a request in JSON. The answer is a line of numbers:
//!
//! - `start` creates a model and calls it once. The answer is the number of parameters, the seconds
//!   of that call and some results. It is empty if the model is not implemented.
//! - `run` repeats the call. The answer is the milliseconds per call, as wall time and as processor
//!   time.
//! - `version` is answered by a string instead.

use super::clock::cpu_millis;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::time::Instant;

/// Runs once, waits, and returns some results: a loss, or a part of the output.
pub type Call = Box<dyn FnMut() -> Result<Vec<f64>>>;

/// A model before its first call.
pub struct Model {
    /// Number of parameters.
    pub parameters: usize,
    pub call: Call,
}

/// Answers requests until standard input ends. `start` creates a model from the request's `start`.
pub fn serve(version: &str, mut start: impl FnMut(&Value) -> Result<Option<Model>>) -> Result<()> {
    let mut running: Option<Model> = None;
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match request["what"].as_str() {
            Some("start") => {
                // Frees the memory of the last model first.
                drop(running.take());
                running = start(&request["start"])?;
                json!(running.as_mut().map_or(Ok(Vec::new()), first_call)?)
            }
            Some("version") => json!(version),
            _ => {
                let model = running.as_mut().context("no model runs")?;
                let calls = request["calls"].as_u64().context("a number of calls")?;
                json!(timed(&mut model.call, calls)?)
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn first_call(model: &mut Model) -> Result<Vec<f64>> {
    // The peak of resident memory counts from here on. Only Linux has this file.
    std::fs::write("/proc/self/clear_refs", "5").ok();
    let begin = Instant::now();
    let values = (model.call)()?;
    Ok([vec![model.parameters as f64, begin.elapsed().as_secs_f64()], values].concat())
}

/// Returns the milliseconds per call: wall time and processor time.
pub fn timed(call: &mut Call, calls: u64) -> Result<[f64; 2]> {
    let (begin, cpu) = (Instant::now(), cpu_millis()?);
    for _ in 0..calls {
        call()?;
    }
    let each = 1.0 / calls as f64;
    Ok([begin.elapsed().as_secs_f64() * 1e3 * each, (cpu_millis()? - cpu) * each])
}
