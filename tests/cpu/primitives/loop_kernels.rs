//! Every primitive in a loop that is one kernel, beside the same loop operation by operation.

use oxidax::control_flow::{Call, HOLDERS};
use oxidax::core::{Exemplar, Loc, Program, bind};
use oxidax::jit::{LoopForm, disable_loop_kernels};
use oxidax::kernel::KERNEL_PRIMITIVES;
use oxidax::prelude::*;
use oxidax::primitives::PRIMITIVES;
use oxidax::testing::{numbers, sample};
use std::sync::Arc;

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

/// Applies an exemplar in each of three steps, and compares the results of a kernel with those of
/// separate operations. Returns the form of the loop.
fn compare(exemplar: &Exemplar) -> Result<LoopForm, String> {
    let text = |error: Error| error.to_string();
    let name = exemplar.primitive.name().to_string();
    let call = Call { name, program: Arc::new(program_of(exemplar).map_err(text)?) };
    let samples = exemplar.operands.iter().zip(1..);
    let operands: Vec<Array> =
        samples.map(|(of, seed)| sample(of, seed)).collect::<Result<_, _>>().map_err(text)?;
    let step = move |carry: Vec<Array>, ()| {
        let results = bind(call.clone(), &carry.iter().collect::<Vec<_>>());
        (carry, results)
    };
    let looped = jit(move |operands: Vec<Array>| scan(&step, operands, 3).1);
    let lowered = looped.lower(&operands).map_err(text)?;
    let form = lowered.loops().map_err(text)?[0].form.clone();
    if form != LoopForm::Kernel {
        return Ok(form);
    }
    let run = || lowered.compile().map_err(text)?.call(&operands).map_err(|e| text(e.into()));
    let (kernel, plain) = (run()?, disable_loop_kernels(run)?);
    for (index, (x, y)) in kernel.iter().zip(&plain).enumerate() {
        let (tolerance, y) = (tolerance(x.dtype()), numbers(y).map_err(text)?);
        if let Some(difference) = numbers(x).map_err(text)?.difference(&y, tolerance) {
            return Err(format!("result {index}: {difference}"));
        }
    }
    let refused = lowered.loops().map_err(text)?.remove(0);
    if refused.form != form {
        return Err(refused.to_string());
    }
    Ok(form)
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
            for (position, exemplar) in (entry.exemplars)().iter().enumerate() {
                if !exemplar.axes.is_empty() {
                    continue;
                }
                match compare(exemplar) {
                    Ok(LoopForm::Kernel) => {
                        in_kernels.insert(entry.name);
                    }
                    Ok(_) => {}
                    Err(why) => failures.push(format!("{} {position}: {why}", entry.name)),
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
                let profile = match compiled.line_profile(&operands) {
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
