//! [`Compiled::line_profile`]: the time of a compiled function by source line.

use super::compiled::Compiled;
use crate::core::{Eqn, Error, Program, SourceLine};
use crate::profile::{LineProfile, ProfiledOperation};
use crate::runtime::OperationTime;
use crate::tree::{Args, Tree, for_each_arity, leaves_of};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Executions whose median is the time of a step: at least, and at most.
const STEPS: (usize, usize) = (5, 50);

/// Time for the executions.
const STEP_EFFORT: Duration = Duration::from_secs(1);

/// The sizes of a matrix product, independent of the order of its operands.
type ProductKey = (u64, [u64; 2], u64);

fn product_key([batch, m, n, k]: [u64; 4]) -> ProductKey {
    (batch, [m.min(n), m.max(n)], k)
}

/// Counts the matrix products of a program by sizes and line.
fn count_products(program: &Program, counts: &mut HashMap<(ProductKey, SourceLine), f64>) {
    for eqn in program.eqns() {
        let holder = eqn.primitive.as_higher_order();
        for (_, inner) in holder.map(|holder| holder.programs()).unwrap_or_default() {
            count_products(inner, counts);
        }
        if let Some((key, line)) = product_of(program, eqn) {
            *counts.entry((key, line)).or_default() += 1.0;
        }
    }
}

fn product_of(program: &Program, eqn: &Eqn) -> Option<(ProductKey, SourceLine)> {
    let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
    let product = eqn.primitive.analysis()?.contraction(&operands, &results)?;
    let sizes = [product.batch, product.m, product.n, product.k].map(|size| size as u64);
    Some((product_key(sizes), SourceLine::of(eqn.loc)?))
}

/// Finds the lines of products that lost theirs when XLA exchanged their operands: among the
/// products of these sizes in the traced program, those that no other operation has.
fn restore_lines(operations: &mut [OperationTime], program: &Program) {
    let mut counts = HashMap::new();
    count_products(program, &mut counts);
    for operation in operations.iter().filter(|operation| !operation.is_inferred) {
        let Some(product) = operation.product else { continue };
        for (line, _) in &operation.lines {
            if let Some(count) = counts.get_mut(&(product_key(product), line.clone())) {
                *count -= operation.runs.unwrap_or(1.0);
            }
        }
    }
    for operation in operations.iter_mut().filter(|operation| operation.is_inferred) {
        let Some(key) = operation.product.map(product_key) else { continue };
        let left = counts.iter().filter(|((other, _), count)| *other == key && **count > 0.0);
        let left: Vec<(SourceLine, f64)> =
            left.map(|((_, line), count)| (line.clone(), *count)).collect();
        let total: f64 = left.iter().map(|(_, count)| count).sum();
        if total > 0.0 {
            operation.lines = left.into_iter().map(|(line, n)| (line, n / total)).collect();
        }
    }
}

/// Returns the seconds of each operation in one execution that takes `step` seconds, and the sum of
/// their measured times. Operations that were not measured share what the others leave; without
/// them, all are scaled to the step.
fn scaled(operations: &[OperationTime], step: f64) -> (Vec<f64>, f64) {
    let measured = |operation: &OperationTime| {
        let seconds = operation.seconds.as_ref().ok()?;
        Some(seconds * operation.runs?)
    };
    let times: Vec<Option<f64>> = operations.iter().map(measured).collect();
    let apart: f64 = times.iter().flatten().sum();
    let unknown = times.iter().filter(|time| time.is_none()).count();
    let factor = match unknown {
        0 if apart > 0.0 => step / apart,
        _ if apart > step => step / apart,
        _ => 1.0,
    };
    let rest = (step - apart).max(0.0) / unknown.max(1) as f64;
    (times.into_iter().map(|time| time.map_or(rest, |time| time * factor)).collect(), apart)
}

impl<A: Args, O: Tree> Compiled<A, O> {
    /// Measures the step with `call`, and each operation alone.
    fn measure_lines(
        &self,
        mut call: impl FnMut() -> Result<O, Error>,
    ) -> Result<LineProfile, Error> {
        let mut operations = self.operation_times()?;
        if let Some(program) = self.program() {
            restore_lines(&mut operations, program);
        }
        let mut once = || -> Result<Duration, Error> {
            let start = Instant::now();
            leaves_of(&call()?).iter().try_for_each(|leaf| leaf.block_until_ready().map(drop))?;
            Ok(start.elapsed())
        };
        once()?;
        let start = Instant::now();
        let mut steps = Vec::new();
        while steps.len() < STEPS.0 || (start.elapsed() < STEP_EFFORT && steps.len() < STEPS.1) {
            steps.push(once()?);
        }
        steps.sort_unstable();
        let step = steps[steps.len() / 2];
        let (times, apart) = scaled(&operations, step.as_secs_f64());
        let each = operations.into_iter().zip(times).map(|(operation, seconds)| {
            let OperationTime { name, scope, lines, runs, flops, bytes, .. } = operation;
            let not_measured = match (operation.seconds, runs) {
                (Err(reason), _) => Some(reason),
                (Ok(_), None) => Some("it is in a loop whose number of steps is not known".into()),
                (Ok(_), Some(_)) => None,
            };
            let times = runs.unwrap_or(1.0);
            let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            let (flops, bytes) = (times * flops, times * bytes);
            ProfiledOperation { name, scope, lines, time, runs, flops, bytes, not_measured }
        });
        let name = self.name().to_owned();
        let operations = each.collect();
        let apart = Duration::try_from_secs_f64(apart).unwrap_or_default();
        let profile = LineProfile { name, step, apart, operations, ..LineProfile::default() };
        Ok(match self.peak_memory() {
            Some(peak) => profile.with_memory(&peak),
            None => profile,
        })
    }
}

/// Defines `Compiled::line_profile`.
macro_rules! line_profile {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree> Compiled<($($name,)*), O> {
            /// Measures the time of one call by source line. For programs on one device of the CPU
            /// plugin, which does not have a profiler.
            ///
            /// Calls the function at least six times, with arguments that are never donated. Then
            /// it compiles each operation of the optimized program apart, such as a fusion or a
            /// product, measures it on other arguments of the same types, and scales the times so
            /// that they add up to that of a call. Equal operations are measured once. An
            /// operation that calls the host, or is in a loop whose number of steps is not known,
            /// is not measured: it gets what the others leave. docs/profiling.md says how far this
            /// is from the truth.
            ///
            /// # Errors
            /// As those of a call; `Plugin` for a program on several devices, or another platform.
            ///
            /// ```
            /// use oxidax::prelude::*;
            /// let layer = |x: &Array, w: &Array| tanh(x.matmul(w)).sum();
            /// let (x, w) = (ones([64, 256]), ones([256, 256]));
            /// let profile = jit(layer).lower(&x, &w)?.compile()?.line_profile(&x, &w)?;
            /// assert!(profile.attributed() > 0.95, "{profile}");
            /// # Ok::<(), oxidax::Error>(())
            /// ```
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn line_profile(&self, $($value: &$name),*) -> Result<LineProfile, Error> {
                self.measure_lines(|| Ok(self.call($($value),*)?))
            }
        }
    };
}

for_each_arity!(0..=8 line_profile []);
