//! Every primitive in a loop that is one kernel, beside the same loop operation by operation.

use oxidax::control_flow::{Call, HOLDERS};
use oxidax::core::{Exemplar, Loc, Program, bind};
use oxidax::jit::{LoopForm, LoopReport, disable_loop_kernels, disable_most_optimizations};
use oxidax::kernel::KERNEL_PRIMITIVES;
use oxidax::prelude::*;
use oxidax::primitives::PRIMITIVES;
use oxidax::testing::{numbers, sample};
use std::sync::Arc;

/// Number of exemplars in one program.
const TOGETHER: usize = 24;

/// The largest difference, relative to the largest number, between a kernel and the operations of
/// the same loop: the compiler contracts and reorders sums differently.
fn tolerance(dtype: DType) -> f64 {
    match dtype.bits() / if dtype.is_complex() { 2 } else { 1 } {
        64 => 1e-13,
        32 => 1e-5,
        16 => 2e-2,
        _ => 0.2,
    }
}

/// Returns the program of the exemplar's equation alone.
fn program_of(exemplar: &Exemplar) -> Result<Program, Error> {
    let avals: Vec<Aval> = exemplar.operands.iter().map(|of| of.aval.clone()).collect();
    let results = catch(|| exemplar.primitive.abstract_eval(&avals))?.expect("the types fit");
    let primitive = exemplar.primitive.clone();
    Ok(Program::of_operation(primitive, avals, results, Loc::caller()))
}

/// An operation and the operands of its exemplar.
type Applied = (Call, Vec<Array>);

fn applied(exemplar: &Exemplar) -> Result<Applied, String> {
    let text = |error: Error| error.to_string();
    let name = exemplar.primitive.name().to_string();
    let call = Call { name, program: Arc::new(program_of(exemplar).map_err(text)?) };
    let samples = exemplar.operands.iter().zip(1..);
    let operands = samples.map(|(of, seed)| sample(of, seed)).collect::<Result<_, _>>();
    Ok((call, operands.map_err(text)?))
}

/// Returns a function with a loop for each operation, which applies it in each of three steps.
fn looped(all: &[Applied]) -> impl Fn(Vec<Vec<Array>>) -> Vec<Vec<Array>> + Send + Sync + 'static {
    let calls: Vec<Call> = all.iter().map(|(call, _)| call.clone()).collect();
    move |operands| {
        let each = calls.iter().zip(operands).map(|(call, operands)| {
            let step = |carry: Vec<Array>, ()| {
                let results = bind(call.clone(), &carry.iter().collect::<Vec<_>>());
                (carry, results)
            };
            scan(step, operands, 3).1
        });
        each.collect()
    }
}

/// Returns the reports of the outer loops, which have one line.
fn outer(mut reports: Vec<LoopReport>) -> Vec<LoopReport> {
    let loc = reports[0].loc;
    reports.retain(|report| report.loc == loc);
    reports
}

/// Applies each exemplar in each of three steps, and compares the results of kernels with those of
/// separate operations, in one program, because compilation takes most of the time. Returns the
/// forms of the loops.
fn compare(exemplars: &[&Exemplar]) -> Result<Vec<LoopForm>, String> {
    let text = |error: Error| error.to_string();
    let operands_of = |all: &[Applied]| -> Vec<Vec<Array>> {
        all.iter().map(|(_, operands)| operands.clone()).collect()
    };
    let mut all: Vec<Applied> =
        exemplars.iter().map(|one| applied(one)).collect::<Result<_, _>>()?;
    let lowered = jit(looped(&all)).lower(operands_of(&all)).map_err(text)?;
    let reports = outer(lowered.loops().map_err(text)?);
    if reports.len() != all.len() {
        return Err(format!("{} loops of {} operations", reports.len(), all.len()));
    }
    let forms: Vec<LoopForm> = reports.into_iter().map(|report| report.form).collect();
    let mut is_kernel = forms.iter().map(|form| *form == LoopForm::Kernel);
    all.retain(|_| is_kernel.next().expect("each has a form"));
    if all.is_empty() {
        return Ok(forms);
    }
    let operands = operands_of(&all);
    let lowered = jit(looped(&all)).lower(&operands).map_err(text)?;
    let run = || {
        let compiled = disable_most_optimizations(|| lowered.compile()).map_err(text)?;
        compiled.call(&operands).map_err(|e| text(e.into()))
    };
    let (kernels, plain) = (run()?, disable_loop_kernels(run)?);
    for (kernel, plain) in kernels.iter().zip(&plain) {
        for (index, (x, y)) in kernel.iter().zip(plain).enumerate() {
            let (tolerance, y) = (tolerance(x.dtype()), numbers(y).map_err(text)?);
            if let Some(difference) = numbers(x).map_err(text)?.difference(&y, tolerance) {
                return Err(format!("result {index}: {difference}"));
            }
        }
    }
    let reports = outer(lowered.loops().map_err(text)?);
    match reports.into_iter().find(|report| report.form != LoopForm::Kernel) {
        Some(refused) => Err(refused.to_string()),
        None => Ok(forms),
    }
}

/// Compares each exemplar as [`compare`] does, alone if it fails together with others.
fn compare_each(exemplars: &[&Exemplar]) -> Vec<Result<LoopForm, String>> {
    match compare(exemplars) {
        Ok(forms) => forms.into_iter().map(Ok).collect(),
        Err(_) => {
            let alone = |one| compare(&[one]).map(|mut forms| forms.remove(0));
            exemplars.iter().copied().map(alone).collect()
        }
    }
}

mod on_cpu {
    use super::*;
    use expect_test::expect;
    use std::collections::BTreeSet;

    /// All primitives, or those whose names `OXIDAX_LAWS` lists.
    #[test]
    fn every_primitive_computes_the_same_in_a_kernel() {
        let wanted = std::env::var("OXIDAX_LAWS").ok();
        let is_wanted = |name| wanted.as_ref().is_none_or(|all| all.split(',').any(|n| n == name));
        let (mut failures, mut in_kernels) = (Vec::new(), BTreeSet::new());
        let entries = || {
            PRIMITIVES
                .iter()
                .chain(HOLDERS)
                .chain(KERNEL_PRIMITIVES)
                .filter(|entry| is_wanted(entry.name))
        };
        for entry in entries() {
            let exemplars = (entry.exemplars)();
            let alone = exemplars.iter().enumerate().filter(|(_, one)| one.axes.is_empty());
            let (positions, exemplars): (Vec<usize>, Vec<&Exemplar>) = alone.unzip();
            for (positions, exemplars) in positions.chunks(TOGETHER).zip(exemplars.chunks(TOGETHER))
            {
                for (position, outcome) in positions.iter().zip(compare_each(exemplars)) {
                    match outcome {
                        Ok(LoopForm::Kernel) => {
                            in_kernels.insert(entry.name);
                        }
                        Ok(_) => {}
                        Err(why) => failures.push(format!("{} {position}: {why}", entry.name)),
                    }
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        if wanted.is_none() {
            let others =
                entries().map(|entry| entry.name).filter(|name| !in_kernels.contains(name));
            expect!["callback all_gather all_to_all axis_index pmax pmin ppermute psum psum_scatter ragged_all_to_all fft eigh svd scatter sort approx_top_k top_k ffi_call shard_map"].assert_eq(&others.collect::<Vec<_>>().join(" "));
        }
    }

    /// The first exemplar of each primitive; all exemplars of those that `OXIDAX_LAWS` lists.
    #[test]
    fn operations_of_every_primitive_can_be_measured_alone() {
        let wanted = std::env::var("OXIDAX_LAWS").ok();
        let is_wanted = |name| wanted.as_ref().is_none_or(|all| all.split(',').any(|n| n == name));
        let mut refused = BTreeSet::new();
        for entry in PRIMITIVES
            .iter()
            .chain(HOLDERS)
            .chain(KERNEL_PRIMITIVES)
            .filter(|entry| is_wanted(entry.name))
        {
            let exemplars = (entry.exemplars)();
            let first = if wanted.is_some() { exemplars.len() } else { 1 };
            for exemplar in exemplars.iter().filter(|other| other.axes.is_empty()).take(first) {
                let name = entry.name.to_string();
                let call = Call { name, program: Arc::new(program_of(exemplar).unwrap()) };
                let samples = exemplar.operands.iter().zip(1..);
                let operands: Vec<Array> =
                    samples.map(|(of, seed)| sample(of, seed).unwrap()).collect();
                let apply = move |operands: Vec<Array>| {
                    bind(call.clone(), &operands.iter().collect::<Vec<_>>())
                };
                let compiled = jit(apply).lower(&operands).unwrap().compile().unwrap();
                // It compiles every operation.
                let profile = disable_most_optimizations(|| compiled.line_profile(&operands));
                let profile = match profile {
                    Err(error) if error.to_string().contains("it runs on several devices") => {
                        refused.insert(format!("{}: it runs on several devices", entry.name));
                        continue;
                    }
                    profile => profile.unwrap(),
                };
                for reason in profile.operations.iter().filter_map(|op| op.not_measured.clone()) {
                    refused.insert(format!("{}: {reason}", entry.name));
                }
            }
        }
        if wanted.is_none() {
            expect![[r#"
                callback: it calls the host
                eig: it is in a loop whose number of steps is not known
                eigh: it contains a loop whose number of steps is not known
                ffi_call: it calls the host
                igamma: it contains a loop whose number of steps is not known
                igamma_grad_a: it contains a loop whose number of steps is not known
                igamma_grad_a: it is in a loop whose number of steps is not known
                igammac: it contains a loop whose number of steps is not known
                random_gamma_grad: it contains a loop whose number of steps is not known
                random_gamma_grad: it is in a loop whose number of steps is not known
                regularized_incomplete_beta: it contains a loop whose number of steps is not known
                svd: it contains a loop whose number of steps is not known
                while_loop: it contains a loop whose number of steps is not known"#]]
            .assert_eq(&refused.into_iter().collect::<Vec<_>>().join("\n"));
        }
    }
}
