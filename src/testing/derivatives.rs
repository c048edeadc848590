//! Laws of derivatives.

use super::axes::of_all;
use super::jobs::{Job, Jobs};
use super::laws::Check;
use super::numbers::{Numbers, Stream, array, numbers};
use super::subject::{Subject, compare, direction, fail, of_dense, with_directions};
use crate::core::{Array, Aval, Dense, Error, Marks, Program, Tangent};
use crate::transforms::jvp::jvp_program;
use crate::transforms::linearize::linearize_program;
use crate::transforms::staging::trace_rules;
use num_complex::Complex64;

/// Step of the central differences, in `f64`.
const STEP: f64 = 1e-5;

/// Returns `(f(x + h·v) - f(x - h·v)) / 2h` of the inexact results, as numbers.
fn central_differences(above: &[Array], below: &[Array]) -> Result<Vec<Numbers>, Error> {
    let pairs = above.iter().zip(below).filter(|(a, _)| a.dtype().is_inexact());
    pairs
        .map(|(above, below)| {
            let (above, below) = (numbers(above)?.0, numbers(below)?.0);
            let slopes = above.iter().zip(below).map(|(a, b)| (a - b) / (2.0 * STEP));
            Ok(Numbers(slopes.collect()))
        })
        .collect()
}

fn compare_slopes(tangents: &[Array], slopes: &[Numbers], tolerance: f64) -> Result<(), Error> {
    for (position, (tangent, slopes)) in tangents.iter().zip(slopes).enumerate() {
        if let Some(difference) = numbers(tangent)?.difference(slopes, tolerance) {
            return fail(format!("tangent {position}: {difference}"));
        }
    }
    Ok(())
}

/// Law 7: symbolic zeros equal dense zeros.
pub(super) fn symbolic_zeros<'a>(
    subject: &'a Subject,
    jobs: &mut Jobs,
) -> Result<Check<'a>, Error> {
    let varies = subject.varies();
    let full = subject.directions(7)?;
    let mut pairs = Vec::new();
    // With one varying operand, there is no other tangent to compare.
    let several = varies.iter().filter(|varies| **varies).count() > 1;
    for absent in (0..varies.len()).filter(|&index| several && varies[index]) {
        let x = &subject.operands[absent];
        let mut symbolic = full.clone();
        symbolic[absent] = Tangent::zero_like(x);
        let mut explicit = full.clone();
        let zeros = vec![Complex64::default(); x.size()];
        explicit[absent] = Tangent::Dense(array(x.aval(), &zeros)?);
        let mut queue = |directions: &[Tangent]| {
            let program = subject.jvp_of(&subject.program, directions);
            subject.run(jobs, &program, with_directions(&subject.operands, directions))
        };
        pairs.push((absent, queue(&symbolic), queue(&explicit)));
    }
    Ok(Box::new(move |results| {
        for (absent, symbolic, explicit) in pairs {
            let context = format!("operand {absent} with a zero tangent");
            compare(&context, results.of(symbolic)?, results.of(explicit)?, 1e-3)?;
        }
        Ok(())
    }))
}

/// Law 2: `jvp` equals central differences.
pub(super) fn jvp<'a>(subject: &'a Subject, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
    let directions = subject.directions(11)?;
    let jvp = subject.jvp_of(&subject.program, &directions);
    let tangents = subject.run(jobs, &jvp, with_directions(&subject.operands, &directions));
    let above = subject.run(jobs, &subject.program, subject.moved(&directions, STEP)?);
    let below = subject.run(jobs, &subject.program, subject.moved(&directions, -STEP)?);
    Ok(Box::new(move |results| {
        let slopes = central_differences(results.of(above)?, results.of(below)?)?;
        compare_slopes(results.of(tangents)?, &slopes, subject.tolerance)
    }))
}

/// Law 5: the `jvp` of the `jvp` equals differences, with constant inner directions.
pub(super) fn second<'a>(subject: &'a Subject, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
    let inner = subject.directions(13)?;
    let outer = subject.directions(17)?;
    let first = subject.jvp_of(&subject.program, &inner);
    let second = jvp_of_jvp(&first, &outer);
    let mut arguments = with_directions(&subject.operands, &inner);
    arguments.extend(outer.iter().filter_map(Tangent::array).cloned());
    let tangents = subject.run(jobs, &second, arguments);
    let mut index = |step: f64| -> Result<Job, Error> {
        Ok(subject.run(jobs, &first, with_directions(&subject.moved(&outer, step)?, &inner)))
    };
    let (above, below) = (index(STEP)?, index(-STEP)?);
    Ok(Box::new(move |results| {
        let slopes = central_differences(results.of(above)?, results.of(below)?)?;
        compare_slopes(results.of(tangents)?, &slopes, 10.0 * subject.tolerance)
    }))
}

/// Returns the derivative of `first`, whose first inputs vary along `outer` and whose other inputs
/// are constant.
fn jvp_of_jvp(first: &Program, outer: &[Tangent]) -> Program {
    let primals = first.avals_in();
    let (n, outer_avals) = (primals.len(), of_dense(outer, &primals));
    trace_rules(primals.into_iter().chain(outer_avals), |inputs| {
        let mut rest = inputs[n..].iter();
        let tangents: Vec<Tangent> = inputs[..n]
            .iter()
            .enumerate()
            .map(|(index, input)| match outer.get(index) {
                Some(Tangent::Dense(_)) => {
                    Tangent::Dense(rest.next().expect("one per dense direction").clone())
                }
                _ => Tangent::zero_like(input),
            })
            .collect();
        jvp_program(first, &inputs[..n], &tangents).1.iter().map(Tangent::to_dense).collect()
    })
}

/// Law 3: `<Jv, u> = <v, Jᵀu>`.
pub(super) fn transpose<'a>(subject: &'a Subject, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
    let directions = subject.directions(19)?;
    let cts = cotangents(subject, 23)?;
    let jvp = subject.jvp_of(&subject.program, &directions);
    let tangents = subject.run(jobs, &jvp, with_directions(&subject.operands, &directions));
    let arguments: Vec<Array> = subject.operands.iter().chain(&cts).cloned().collect();
    let pulled = subject.run(jobs, &vjp_of(subject), arguments);
    let pair = |a: &[Array], b: Vec<&Array>| -> Result<f64, Error> {
        a.iter().zip(b).try_fold(0.0, |sum, (a, b)| Ok(sum + numbers(a)?.pair(&numbers(b)?)))
    };
    Ok(Box::new(move |results| {
        let forward = pair(results.of(tangents)?, cts.iter().collect())?;
        let along = directions.iter().filter_map(Tangent::array).collect();
        let backward = pair(results.of(pulled)?, along)?;
        let scale = forward.abs().max(backward.abs()).max(1.0);
        if (forward - backward).abs() <= 1e-9 * scale || !forward.is_finite() {
            Ok(())
        } else {
            fail(format!("<Jv, u> is {forward}, <v, J'u> is {backward}"))
        }
    }))
}

/// Returns random cotangents of the inexact results.
pub(super) fn cotangents(subject: &Subject, seed: u64) -> Result<Vec<Array>, Error> {
    let mut stream = Stream(seed);
    let outputs = subject.program.avals_out();
    let inexact = outputs.iter().filter(|aval| aval.dtype.is_inexact());
    let of_all = inexact.map(|aval| of_all(aval, &subject.axes));
    of_all.map(|aval| direction(&aval, (stream.next() * 1e6) as u64)).collect()
}

/// Returns the program from operands and cotangents of the inexact results to cotangents of the
/// inexact operands.
pub(super) fn vjp_of(subject: &Subject) -> Program {
    let n = subject.operands.len();
    let inexact = |aval: &Aval| aval.dtype.is_inexact();
    let cts = subject.program.avals_out().into_iter().filter(inexact);
    let varying: Marks<Dense> = subject.varies().into_iter().collect();
    trace_rules(subject.program.avals_in().into_iter().chain(cts), |inputs| {
        let avals = subject.program.avals_out();
        let (_, map) = linearize_program(&subject.program, &inputs[..n], &varying, avals.len());
        let inexact: Marks<Dense> = Marks::of(&avals, |aval| aval.dtype.is_inexact());
        let cts = inexact.tangents(avals, inputs[n..].iter().cloned());
        map.pull_back(&cts).iter().map(Tangent::to_dense).collect()
    })
}
