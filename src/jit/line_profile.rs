//! [`Compiled::line_profile`]: the time of a compiled function by source line.

use super::compiled::Compiled;
use super::explained::ExplainedCollective;
use crate::core::{Eqn, Error, Program, SourceLine};
use crate::profile::{
    ArgumentValue, LineProfile, Profile, ProfileSession, ProfiledCollective, ProfiledOperation,
    StepMemory,
};
use crate::runtime::OperationTime;
use crate::tree::{Args, Tree, for_each_arity, leaves_of};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Executions whose median is the time of a step: at least, and at most.
const STEPS: (usize, usize) = (5, 50);

/// Time for the executions.
const STEP_EFFORT: Duration = Duration::from_secs(1);

/// Executions that the profiler of a plugin records.
const RECORDED: usize = 10;

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
    /// Measures the step with `call`, and its operations: by the profiler of the plugin, or each
    /// alone.
    fn measure_lines(
        &self,
        mut call: impl FnMut() -> Result<O, Error>,
    ) -> Result<LineProfile, Error> {
        let executable = self.local_executable()?;
        let mut once = || -> Result<Duration, Error> {
            let start = Instant::now();
            leaves_of(&call()?).iter().try_for_each(|leaf| leaf.block_until_ready().map(drop))?;
            Ok(start.elapsed())
        };
        let mut recorded_on = None;
        let mut operations = if executable.has_profiler() {
            once()?;
            let session = ProfileSession::start()?;
            for _ in 0..RECORDED {
                once()?;
            }
            let profile = session.stop();
            recorded_on = Some(recorded_devices(&profile));
            executable.recorded_operation_times(&recorded_operations(&profile), RECORDED)?
        } else {
            executable.operation_times()?
        };
        if let Some(program) = self.program() {
            restore_lines(&mut operations, program);
        }
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
        let mut profile =
            LineProfile { name, step, apart, operations, recorded_on, ..LineProfile::default() };
        if self.mesh().is_some() {
            add_collectives(&mut profile, self.collectives()?);
            profile.memory = self.device_memory()?;
        } else {
            profile.memory = self.peak_memory().map(|peak| StepMemory::of(&peak));
        }
        Ok(profile)
    }
}

/// Adds the collectives among the operations of a profile, with their causes. Their lines are those
/// of the operations that need them.
fn add_collectives(profile: &mut LineProfile, explained: Vec<ExplainedCollective>) {
    for found in explained {
        let mut operations = profile.operations.iter_mut();
        let Some(operation) = operations.find(|other| other.name == found.name) else { continue };
        if let Some(place) = &found.place {
            operation.lines = vec![(place.clone(), 1.0)];
        }
        profile.collectives.push(ProfiledCollective {
            kind: found.kind.to_string(),
            axes: found.axes,
            size: found.group_size,
            bytes: found.bytes,
            runs: found.runs.unwrap_or(1),
            time: operation.time,
            line: found.place,
            scope: found.scope,
            cause: found.cause,
        });
    }
}

/// Returns the devices of a profile, in words.
fn recorded_devices(profile: &Profile) -> String {
    let mut devices: Vec<&str> =
        profile.devices().iter().map(|events| events.device.as_str()).collect();
    devices.dedup();
    match &devices[..] {
        [] => "no device".to_owned(),
        [device] => (*device).to_owned(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// Returns the runs and the time of each operation of a profile, on all devices together, by the
/// compiler's name.
fn recorded_operations(profile: &Profile) -> FxHashMap<String, (u64, Duration)> {
    let mut operations: FxHashMap<String, (u64, Duration)> = FxHashMap::default();
    let lines = profile.devices().iter().filter(|device| device.has_operations());
    for event in lines.flat_map(|device| &device.events) {
        let name = match event.argument("hlo_op") {
            Some(ArgumentValue::Text(name)) => name.as_str(),
            _ => event.name.as_str(),
        };
        // A TPU's name can be the whole instruction: `%fusion.3 = f32[8] fusion(…)`.
        let name = name.split(" = ").next().unwrap_or(name).trim_start_matches('%');
        let (runs, time) = operations.entry(name.to_owned()).or_default();
        *runs += 1;
        *time += event.duration();
    }
    operations
}

/// Defines `Compiled::line_profile`.
macro_rules! line_profile {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree> Compiled<($($name,)*), O> {
            /// Measures the time of one call by source line.
            ///
            /// Calls the function at least six times, with arguments that are never donated. On a
            /// TPU or GPU, the profiler of the plugin records ten of the calls. The CPU plugin has
            /// none: there, each operation of the optimized program is compiled apart, such as a
            /// fusion, a product or a collective, and measured on other arguments of the same
            /// types; of a program on several devices, on all of them at once. The times are
            /// scaled so that they add up to that of a call. Equal operations are measured once.
            /// An operation that calls the host, or is in a loop whose number of steps is not
            /// known, is not measured: it gets what the others leave. docs/profiling.md says how
            /// far this is from the truth.
            ///
            /// # Errors
            /// As those of a call; `Plugin` if the program runs on devices of several processes,
            /// or if the profiler of its platform recorded none of its operations; `Op` (value) if
            /// a profile is being recorded on such a platform.
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

#[cfg(test)]
mod tests {
    use super::*;

    mod on_cpu {
        use super::*;
        use crate::prelude::*;

        /// The operations of a program of the CPU plugin, with times as from a profiler.
        #[test]
        fn recorded_times_are_those_of_operations_with_the_same_name() -> Result<(), Error> {
            let f = jit(|x: Array| fori_loop(0, 4, |_, x: Array| x.matmul(&x), x.sort(0)));
            let compiled = f.lower(Aval::new(DType::F32, [256, 256]))?.compile()?;
            let executable = compiled.local_executable()?;
            let measured = executable.operation_times()?;
            let product = measured.iter().find(|operation| operation.product.is_some());
            let product = &product.expect("a product").name;
            // Ten executions of four runs, each of two kernels of a microsecond.
            let mut recorded = FxHashMap::default();
            recorded.insert(product.clone(), (80, Duration::from_micros(80)));
            let operations = executable.recorded_operation_times(&recorded, 10)?;
            let found = operations.iter().find(|operation| operation.name == *product);
            let found = found.expect("the product");
            assert_eq!(found.runs, Some(4.0));
            let seconds = found.seconds.as_ref().expect("it was recorded");
            assert!((seconds - 2e-6).abs() < 1e-12, "{seconds}");
            let others = operations.iter().filter(|operation| operation.name != *product);
            assert!(others.into_iter().all(|operation| operation.seconds.is_err()));
            let error = executable.recorded_operation_times(&FxHashMap::default(), 10).unwrap_err();
            assert!(error.to_string().contains("recorded no operation of `"), "{error}");
            Ok(())
        }
    }

    #[test]
    fn names_of_recorded_operations_are_the_compilers() {
        let profile = crate::profile::recorded_example();
        let found = recorded_operations(&profile);
        assert_eq!(found["fusion.1"], (1, Duration::from_nanos(500)));
        assert_eq!(found["while.2"], (1, Duration::from_nanos(3000)));
        assert_eq!(recorded_devices(&profile), "TPU:0");
    }
}
