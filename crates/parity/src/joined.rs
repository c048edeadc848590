//! Computes many cases in one compiled program, because compilation takes most of the time.

use crate::fixtures::Apply;
use oxidax::prelude::*;
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// Number of cases in one program.
pub(crate) const CHUNK: usize = 32;

/// The computation of one case.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) apply: Apply,
    pub(crate) op: String,
    pub(crate) params: Value,
    /// Indices of the differentiated inputs; empty if only values are computed.
    pub(crate) wrt: Vec<usize>,
    pub(crate) n_inputs: usize,
    /// The inputs, then a tangent for each differentiated input, then cotangents of the results.
    pub(crate) operands: Vec<Array>,
}

/// Values, tangents and cotangents of the inputs.
pub(crate) type Computed = (Vec<Array>, Vec<Array>, Vec<Array>);

/// Returns the results of each case, or its error.
pub(crate) fn compute(works: &[Work]) -> Vec<Result<Computed, String>> {
    let chunks = works.chunks(CHUNK).map(|chunk| match together(chunk) {
        Ok(results) => results,
        // A case that does not compile must not fail the others.
        Err(_) => chunk.iter().flat_map(|work| alone(work.clone())).collect(),
    });
    chunks.flatten().collect()
}

fn alone(work: Work) -> Vec<Result<Computed, String>> {
    together(&[work]).unwrap_or_else(|message| vec![Err(message)])
}

/// Computes all cases in one program. Returns an error only if the program cannot be compiled or
/// run.
fn together(works: &[Work]) -> Result<Vec<Result<Computed, String>>, String> {
    let thrown: Arc<Mutex<Vec<Option<String>>>> = Arc::new(Mutex::new(vec![None; works.len()]));
    let (all, errors) = (works.to_vec(), thrown.clone());
    let program = jit(move |operands: Vec<Vec<Array>>| -> Vec<Computed> {
        let each = all.iter().zip(operands).enumerate().map(|(at, (work, operands))| {
            oxidax::catch(|| work.on(&operands)).unwrap_or_else(|error| {
                errors.lock().unwrap()[at] = Some(error.to_string());
                Computed::default()
            })
        });
        each.collect()
    });
    let operands: Vec<Vec<Array>> = works.iter().map(|work| work.operands.clone()).collect();
    let results = program.call(operands).map_err(|error| error.to_string())?;
    let thrown = std::mem::take(&mut *thrown.lock().unwrap());
    Ok(results
        .into_iter()
        .zip(thrown)
        .map(|(result, error)| error.map_or(Ok(result), Err))
        .collect())
}

impl Work {
    /// Computes values and derivatives inside a trace.
    fn on(&self, operands: &[Array]) -> Computed {
        let (inputs, directions) = operands.split_at(self.n_inputs);
        if self.wrt.is_empty() {
            return ((self.apply)(&self.op, &self.params, inputs), Vec::new(), Vec::new());
        }
        let (tangents, cotangents) = directions.split_at(self.wrt.len());
        let chosen: Vec<Array> = self.wrt.iter().map(|&at| inputs[at].clone()).collect();
        let function = |chosen: &Vec<Array>| {
            let mut inputs = inputs.to_vec();
            self.wrt.iter().zip(chosen).for_each(|(&at, value)| inputs[at] = value.clone());
            (self.apply)(&self.op, &self.params, &inputs)
        };
        let (values, pullback) = vjp(function, &chosen);
        let (_, tangents) = jvp(function, &chosen, tangents.to_vec());
        (values, tangents, pullback.apply(&cotangents.to_vec()))
    }
}
