//! Programs with and without the passes that prepare them for a CPU.

use crate::random_programs::properties::{Arrays, alike, weights};
use crate::random_programs::recipe::{Recipe, has_reverse};
use oxidax::jit::{disable_loop_kernels, disable_rewrites, enable_program_kernels};
use oxidax::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The passes: kernels of loops, rewrites, and kernels of programs, which are off by default.
const PASSES: usize = 3;

/// The programs that each pass changed.
static COMPARED: [AtomicUsize; PASSES] = [const { AtomicUsize::new(0) }; PASSES];

/// Returns the number of programs that each pass changed so far.
pub(crate) fn compared() -> [usize; PASSES] {
    COMPARED.each_ref().map(|count| count.load(Ordering::Relaxed))
}

/// Calls `f` with one of the passes switched.
fn switched<R>(pass: usize, f: impl FnOnce() -> R) -> R {
    match pass {
        0 => disable_loop_kernels(f),
        1 => disable_rewrites(f),
        _ => enable_program_kernels(f),
    }
}

/// Compares the values and the gradients of a recipe with each pass on and off that changes the
/// text of its program.
pub(crate) fn check(recipe: &Recipe) -> Result<(), String> {
    let of = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let inputs = recipe.inputs(0);
    let reverse = has_reverse(&recipe.steps);
    let f = jit(move |inputs: Arrays| {
        let values = recipe.apply(&inputs);
        let cotangents: Arrays =
            values.iter().enumerate().map(|(at, value)| weights(value.aval(), at)).collect();
        let pulled =
            reverse.then(|| vjp(|x: &Arrays| recipe.apply(x), &inputs).1.apply(&cotangents));
        (values, pulled)
    });
    let lowered = f.lower(&inputs).map_err(of("trace"))?;
    let text = || lowered.as_text("cpu");
    let by_default = text().map_err(of("lower"))?;
    let mut results: Option<Arrays> = None;
    for (pass, count) in COMPARED.iter().enumerate() {
        if switched(pass, text).map_err(of("lower with a pass switched"))? == by_default {
            continue;
        }
        count.fetch_add(1, Ordering::Relaxed);
        let run = || {
            let compiled = lowered.compile().map_err(of("compile"))?;
            let results = compiled.call(&inputs).map_err(|error| of("run")(error.into()))?;
            Ok::<_, String>(tree::leaves(&results))
        };
        let all = match &results {
            Some(results) => results.clone(),
            None => results.insert(run()?).clone(),
        };
        let other = switched(pass, run)?;
        let names = ["kernels of loops", "rewrites", "kernels of programs"];
        alike(&format!("{}, on and off", names[pass]), &all, &other)?;
    }
    Ok(())
}
