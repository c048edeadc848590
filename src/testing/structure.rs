//! Laws of types, batching, evaluation, text and cost.

use super::axes::{CopyForm, close, close_over_copies, of_all};
use super::jobs::{Job, Jobs};
use super::laws::Check;
use super::numbers::sample;
use super::subject::{Subject, compare, fail};
use crate::control_flow::registries;
use crate::core::{Array, Aval, BatchAxis, Error, Program, RegistryEntry, Sample};
use crate::passes;
use crate::primitives::rules::move_axis;
use crate::transforms::batch::batch_program;
use crate::transforms::staging::trace_rules;

/// The number of examples in a batch.
const SIZE: usize = 3;

/// Law 1: results have the declared types.
pub(super) fn types<'a>(subject: &'a Subject, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
    let job = subject.queue(jobs);
    Ok(Box::new(move |results| {
        let avals = subject.program.avals_out();
        let avals = avals.iter().map(|aval| of_all(aval, &subject.axes));
        for (array, aval) in results.of(job)?.iter().zip(avals) {
            let bytes = array.to_bytes()?;
            if *array.aval() != aval || bytes.len() != aval.size() * aval.dtype.host_bytes() {
                return fail(format!("expected {aval}, found {} bytes", bytes.len()));
            }
        }
        Ok(())
    }))
}

/// Law 6: the compiled program equals the operation.
pub(super) fn program_equals_operation<'a>(
    subject: &'a Subject,
    jobs: &mut Jobs,
) -> Result<Check<'a>, Error> {
    let job = subject.queue(jobs);
    Ok(Box::new(move |results| {
        // A program of the operation alone, unless named axes need more.
        let eager = passes::eval(&close(&subject.program, &subject.axes), &subject.operands);
        compare("operation and program", &eager, results.of(job)?, 0.0)
    }))
}

/// Law 8: the program prints, parses and verifies.
pub(super) fn text<'a>(subject: &'a Subject, _: &mut Jobs) -> Result<Check<'a>, Error> {
    passes::verify(&subject.program)?;
    let text = subject.program.to_string();
    let own = [subject.entry];
    let entries: Vec<&[RegistryEntry]> = [&own[..]].into_iter().chain(registries()).collect();
    let parsed = passes::parse(&text, &entries);
    if subject.primitive.is_opaque() {
        return match parsed {
            Ok(_) => fail(format!("holds a closure, and yet its text was read back:\n{text}")),
            Err(_) => Ok(Box::new(|_| Ok(()))),
        };
    }
    let parsed = parsed?;
    if parsed != subject.program || parsed.to_string() != text {
        return fail(format!("parses to another program:\n{text}\n{parsed}"));
    }
    Ok(Box::new(|_| Ok(())))
}

/// The law of cost: counts are finite and plausible.
pub(super) fn cost<'a>(subject: &'a Subject, _: &mut Jobs) -> Result<Check<'a>, Error> {
    let cost = passes::cost(&subject.program);
    // Slices and in-place updates touch a part of their operands, but all of the smallest operand
    // or result.
    let sizes = [subject.program.avals_in(), subject.program.avals_out()].concat();
    let size = sizes.iter().map(Aval::bytes).min().unwrap_or_default();
    if cost.bytes >= size as u64 || subject.operands.is_empty() {
        Ok(Box::new(|_| Ok(())))
    } else {
        fail(format!("{} bytes moved, the smallest operand or result has {size}", cost.bytes))
    }
}

/// The law of sharding rules: each result dimension corresponds to existing operand dimensions.
pub(super) fn sharding_rule<'a>(subject: &'a Subject, _: &mut Jobs) -> Result<Check<'a>, Error> {
    let program = &subject.program;
    for eqn in program.eqns() {
        let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
        let rule = eqn.primitive.sharding_rule(&operands, &results);
        for (index, result) in results.iter().enumerate() {
            let mut along: Vec<(usize, usize)> =
                (0..result.rank()).flat_map(|dim| rule.along(index, dim)).copied().collect();
            let strange =
                along.iter().find(|(x, dim)| operands.get(*x).is_none_or(|x| *dim >= x.rank()));
            if let Some((operand, dim)) = strange {
                return fail(format!(
                    "result {index} runs along dimension {dim} of operand {operand}"
                ));
            }
            along.sort_unstable();
            if let Some(pair) = along.windows(2).find(|pair| pair[0] == pair[1]) {
                return fail(format!("two dimensions of result {index} run along {:?}", pair[0]));
            }
        }
    }
    Ok(Box::new(|_| Ok(())))
}

/// A choice of mapped operands: true for each mapped operand, and true for each whose batch axis is
/// last.
struct Mapping {
    mapped: Vec<bool>,
    last: Vec<bool>,
}

impl Mapping {
    /// Returns every subset of operands: single operands with the batch axis first and last,
    /// several with both in turn.
    fn all(n: usize) -> Vec<Mapping> {
        let mut all = Vec::new();
        for subset in 1..1u32 << n {
            let mapped: Vec<bool> = (0..n).map(|index| subset & (1 << index) != 0).collect();
            match subset.count_ones() {
                1 => {
                    for last in [false, true] {
                        all.push(Mapping { mapped: mapped.clone(), last: vec![last; n] });
                    }
                }
                _ => {
                    let mut last = subset.count_ones() % 2 == 1;
                    let in_turn = mapped.iter().map(|&mapped| {
                        last ^= mapped;
                        last
                    });
                    all.push(Mapping { last: in_turn.collect(), mapped });
                }
            }
        }
        all
    }

    /// Returns the batch axes of operands of these types.
    fn axes(&self, avals: &[Aval]) -> Vec<Option<usize>> {
        let axis = |index: usize| if self.last[index] { avals[index].rank() } else { 0 };
        (0..avals.len()).map(|index| self.mapped[index].then(|| axis(index))).collect()
    }
}

/// Law 4: a batch equals a loop over examples with different random elements.
pub(super) fn batch<'a>(subject: &'a Subject, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
    let (n, n_named) = (subject.operands.len(), subject.axes.len());
    let example = |seed: u64| -> Result<Vec<Array>, Error> {
        let samples = subject.samples.iter().enumerate();
        samples.map(|(index, one)| sample(one, seed + index as u64 + 1)).collect()
    };
    let same = example(0)?;
    let others: Vec<Vec<Array>> =
        (1..=SIZE as u64).map(|seed| example(100 * seed)).collect::<Result<_, _>>()?;
    let mut batches = Vec::new();
    for mapping in Mapping::all(n) {
        let axes = mapping.axes(&subject.program.avals_in());
        let rows = others.iter().map(|other| {
            let pick =
                |index: usize| if mapping.mapped[index] { &other[index] } else { &same[index] };
            subject.run(jobs, &subject.program, (0..n).map(|index| pick(index).clone()).collect())
        });
        let rows: Vec<Job> = rows.collect();
        let batched = axes.iter().enumerate().map(|(index, axis)| match axis {
            Some(axis) => stack(others.iter().map(|other| &other[index]), n_named + *axis),
            None => Ok(same[index].clone()),
        });
        let batched = batched.collect::<Result<Vec<_>, _>>()?;
        let (program, out_axes) = batched_program(&subject.program, &axes);
        batches.push((axes, rows, subject.run(jobs, &program, batched), out_axes));
    }
    Ok(Box::new(move |results| {
        for (axes, rows, job, out_axes) in batches {
            let rows: Vec<&[Array]> =
                rows.into_iter().map(|row| results.of(row)).collect::<Result<_, _>>()?;
            for (position, (output, axis)) in results.of(job)?.iter().zip(&out_axes).enumerate() {
                let expected = match axis {
                    Some(_) => stack(rows.iter().map(|row| &row[position]), n_named)?,
                    None => rows[0][position].clone(),
                };
                let context = format!("operands mapped along {axes:?}, result {position}");
                compare(&context, std::slice::from_ref(output), &[expected], 1e-5)?;
            }
        }
        Ok(())
    }))
}

/// Returns the batched program with the batch axis of its outputs in front, and the batch axis of
/// each output.
fn batched_program(program: &Program, axes: &[Option<usize>]) -> (Program, Vec<Option<usize>>) {
    let mut out_axes = Vec::new();
    let batched = program.avals_in().into_iter().zip(axes).map(|(aval, axis)| match axis {
        Some(axis) => aval.with_shape(aval.shape.insert(*axis, SIZE)),
        None => aval,
    });
    let program = trace_rules(batched, |inputs| {
        let (outputs, axes) = batch_program(program, inputs, axes, &BatchAxis::new(SIZE));
        out_axes = axes;
        let placed = outputs.iter().zip(&out_axes);
        placed.map(|(y, axis)| axis.map_or(y.clone(), |axis| move_axis(y, axis, 0))).collect()
    });
    (program, out_axes)
}

/// The law of copies, for operations inside named axes: an operand that is equal for all examples
/// is equivalent to copies of it, wherever their axis is.
pub(super) fn copies<'a>(subject: &'a Subject, jobs: &mut Jobs) -> Result<Check<'a>, Error> {
    if subject.axes.is_empty() {
        return Ok(Box::new(|_| Ok(())));
    }
    let n = subject.operands.len();
    let outer = subject.axes[..subject.axes.len() - 1].to_vec();
    let avals = subject.program.avals_in();
    let operands: Vec<Array> = avals
        .iter()
        .zip(&subject.samples)
        .enumerate()
        .map(|(index, (aval, one))| {
            let one = Sample { aval: of_all(aval, &outer), ..one.clone() };
            sample(&one, index as u64 + 31)
        })
        .collect::<Result<_, _>>()?;
    let mut queue = |copies: CopyForm| {
        let program = close_over_copies(&subject.program, &subject.axes, &vec![copies; n]);
        jobs.add(&program, operands.clone())
    };
    let (once, front, behind) =
        (queue(CopyForm::Once), queue(CopyForm::Copied), queue(CopyForm::CopiedBehind));
    Ok(Box::new(move |results| {
        compare("once and copied", results.of(once)?, results.of(front)?, 1e-5)?;
        compare("copied in front and behind", results.of(front)?, results.of(behind)?, 1e-5)
    }))
}

/// Stacks arrays along a new axis, on the host.
fn stack<'a>(arrays: impl Iterator<Item = &'a Array>, axis: usize) -> Result<Array, Error> {
    let arrays: Vec<&Array> = arrays.collect();
    let aval = arrays[0].aval();
    let inner = aval.shape[axis..].iter().product::<usize>() * aval.dtype.host_bytes();
    let outer: usize = aval.shape[..axis].iter().product();
    let bytes: Vec<Vec<u8>> = arrays.iter().map(|x| x.to_bytes()).collect::<Result<_, _>>()?;
    let rows = (0..outer).flat_map(|row| bytes.iter().map(move |x| &x[row * inner..][..inner]));
    let stacked: Vec<u8> = rows.flatten().copied().collect();
    Array::from_bytes(&stacked, aval.dtype, aval.shape.insert(axis, arrays.len()))
}
