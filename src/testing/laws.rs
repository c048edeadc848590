//! The laws that every primitive keeps, checked on its exemplars.

use super::numbers::{Numbers, Stream, numbers, sample};
use crate::control_flow::parse_program;
use crate::core::{
    Array, Aval, BatchAxis, DType, Entry, Error, Exemplar, Primitive, Program, Sample, Tangent,
    backend, bind_shared, catch,
};
use crate::passes;
use crate::primitives::rules::{dense, move_axis};
use crate::primitives::zeros_of;
use crate::transforms::jvp::jvp_program;
use crate::transforms::linearize::linearize_program;
use crate::transforms::staging::trace_rules;
use crate::transforms::transpose::transpose_program;
use crate::transforms::vmap::batch_program;
use std::sync::Arc;

/// Step of the central differences, in `f64`.
const STEP: f64 = 1e-5;

/// Checks every law on every exemplar of a primitive.
///
/// # Errors
/// A list of the laws that do not hold, each with the exemplar and the numbers.
pub fn check_primitive(entry: &Entry) -> Result<(), String> {
    let exemplars = (entry.exemplars)();
    if exemplars.is_empty() {
        return Err(format!("{}: has no exemplars", entry.name));
    }
    let mut failures = Vec::new();
    for (position, exemplar) in exemplars.iter().enumerate() {
        if exemplar.primitive.name() != entry.name {
            failures.push(format!("{}: listed as {}", exemplar.primitive.name(), entry.name));
        }
        for failure in check_exemplar(exemplar) {
            let primitive = &exemplar.primitive;
            failures.push(format!("{} exemplar {position} {primitive:?}: {failure}", entry.name));
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// Checks every law on one exemplar; gives those that do not hold.
pub fn check_exemplar(exemplar: &Exemplar) -> Vec<String> {
    type Law = (&'static str, fn(&Subject) -> Result<(), Error>);
    const LAWS: [Law; 5] = [
        ("1 types of the compiled results", types),
        ("4 batch = stacked loop", batch),
        ("6 program = operation", program_equals_operation),
        ("8 prints and parses to itself, verifies", text),
        ("cost is finite", cost),
    ];
    const DERIVATIVES: [Law; 3] = [
        ("2 jvp = central differences", jvp_law),
        ("3 transpose is the adjoint", transpose_law),
        ("5 second derivative = differences of the first", second_law),
    ];
    let mut failures = Vec::new();
    let mut run = |subject: &Subject, laws: &[Law]| {
        for (name, law) in laws {
            if let Err(error) = catch(|| law(subject)).and_then(|outcome| outcome) {
                failures.push(format!("law {name}: {error}"));
            }
        }
    };
    match Subject::new(exemplar, &exemplar.operands) {
        Ok(subject) => {
            run(&subject, &LAWS);
            if exemplar.differentiable {
                run(&subject, &[("7 symbolic zeros = dense zeros", symbolic_zeros)]);
            }
        }
        Err(error) => return vec![format!("does not apply to its exemplar: {error}")],
    }
    if exemplar.differentiable {
        let wide: Vec<Sample> = exemplar.operands.iter().map(widened).collect();
        // A primitive that has a dtype among its parameters may not take wider operands.
        if let Ok(subject) = Subject::new(exemplar, &wide)
            && subject.is_double()
        {
            run(&subject, &DERIVATIVES);
        }
    }
    failures
}

fn widened(sample: &Sample) -> Sample {
    let dtype = match sample.aval.dtype {
        dtype if dtype.is_float() => DType::F64,
        dtype if dtype.is_complex() => DType::C128,
        other => other,
    };
    Sample { aval: sample.aval.with_dtype(dtype), ..sample.clone() }
}

/// One primitive on concrete operands, and the program of that one operation.
struct Subject {
    primitive: Arc<dyn Primitive>,
    samples: Vec<Sample>,
    operands: Vec<Array>,
    program: Program,
    tolerance: f64,
}

fn fail<T>(message: String) -> Result<T, Error> {
    Err(Error::Runtime { doing: "checking a law".into(), code: None, message, help: None })
}

fn run(program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Error> {
    backend().run(program, arguments)
}

fn avals(arrays: &[Array]) -> Vec<Aval> {
    arrays.iter().map(|array| array.aval().clone()).collect()
}

fn compare(what: &str, a: &[Array], b: &[Array], tolerance: f64) -> Result<(), Error> {
    if a.len() != b.len() {
        return fail(format!("{what}: {} results against {}", a.len(), b.len()));
    }
    for (position, (a, b)) in a.iter().zip(b).enumerate() {
        if !a.aval().same_type(b.aval()) {
            return fail(format!("{what}: result {position} is {} and {}", a.aval(), b.aval()));
        }
        if let Some(difference) = numbers(a)?.difference(&numbers(b)?, tolerance) {
            return fail(format!("{what}: result {position}: {difference}"));
        }
    }
    Ok(())
}

impl Subject {
    fn new(exemplar: &Exemplar, samples: &[Sample]) -> Result<Subject, Error> {
        let primitive = exemplar.primitive.clone();
        let operands: Vec<Array> = samples
            .iter()
            .enumerate()
            .map(|(at, one)| sample(one, at as u64 + 1))
            .collect::<Result<_, _>>()?;
        let program = catch(|| {
            trace_rules(avals(&operands), |inputs| {
                bind_shared(&primitive, &inputs.iter().collect::<Vec<_>>())
            })
        })?;
        let samples = samples.to_vec();
        Ok(Subject { primitive, samples, operands, program, tolerance: exemplar.tolerance })
    }

    fn is_double(&self) -> bool {
        let double = |aval: &Aval| matches!(aval.dtype, DType::F64 | DType::C128);
        let varies = self.operands.iter().any(|x| double(x.aval()));
        let inexact = |aval: &Aval| aval.dtype.is_inexact();
        let results = self.program.avals_out();
        varies && results.iter().any(inexact) && results.iter().filter(|a| inexact(a)).all(double)
    }

    fn varies(&self) -> Vec<bool> {
        self.operands.iter().map(|x| x.dtype().is_inexact()).collect()
    }

    /// Random tangents, dense for inexact operands.
    fn directions(&self, seed: u64) -> Result<Vec<Tangent>, Error> {
        let each = self.operands.iter().enumerate().map(|(at, x)| match x.dtype().is_inexact() {
            true => Ok(Tangent::Dense(direction(x.aval(), seed + at as u64)?)),
            false => Ok(Tangent::zero_like(x)),
        });
        each.collect()
    }

    /// Moves the inexact operands along the directions by `step`.
    fn moved(&self, directions: &[Tangent], step: f64) -> Result<Vec<Array>, Error> {
        let step_program = |x: &Aval| {
            trace_rules([x.clone(), x.clone()], |inputs| vec![&inputs[0] + &inputs[1] * step])
        };
        self.operands
            .iter()
            .zip(directions)
            .map(|(x, direction)| match direction {
                Tangent::Zero(_) => Ok(x.clone()),
                Tangent::Dense(v) => {
                    Ok(run(&step_program(x.aval()), &[x.clone(), v.clone()])?.swap_remove(0))
                }
            })
            .collect()
    }

    /// The derivative as a program: inputs are primals and dense directions, outputs the tangents
    /// of the inexact results.
    fn jvp_of(&self, program: &Program, directions: &[Tangent]) -> Program {
        let n = self.operands.len();
        let dense_avals = directions.iter().filter_map(Tangent::array).map(|v| v.aval().clone());
        trace_rules(avals(&self.operands).into_iter().chain(dense_avals), |inputs| {
            let mut rest = inputs[n..].iter();
            let tangents: Vec<Tangent> = directions
                .iter()
                .map(|direction| match direction {
                    Tangent::Zero(aval) => Tangent::Zero(aval.clone()),
                    Tangent::Dense(_) => {
                        Tangent::Dense(rest.next().expect("one per dense direction").clone())
                    }
                })
                .collect();
            let (outputs, tangents) = jvp_program(program, &inputs[..n], &tangents);
            let pairs = outputs.iter().zip(&tangents);
            pairs.filter(|(y, _)| y.dtype().is_inexact()).map(|(_, t)| dense(t)).collect()
        })
    }
}

fn direction(aval: &Aval, seed: u64) -> Result<Array, Error> {
    let uniform = Sample::uniform(aval.dtype, &aval.shape, -1.0, 1.0);
    sample(&uniform, seed.wrapping_mul(0x1234_5678_9ABC_DEF1))
}

fn with_directions(operands: &[Array], directions: &[Tangent]) -> Vec<Array> {
    operands.iter().chain(directions.iter().filter_map(Tangent::array)).cloned().collect()
}

/// `(f(x + h·v) - f(x - h·v)) / 2h` of the inexact results, as numbers.
fn central_differences(
    subject: &Subject,
    directions: &[Tangent],
    f: impl Fn(&[Array]) -> Result<Vec<Array>, Error>,
) -> Result<Vec<Numbers>, Error> {
    let above = f(&subject.moved(directions, STEP)?)?;
    let below = f(&subject.moved(directions, -STEP)?)?;
    let pairs = above.iter().zip(&below).filter(|(a, _)| a.dtype().is_inexact());
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

fn types(subject: &Subject) -> Result<(), Error> {
    for (array, aval) in
        run(&subject.program, &subject.operands)?.iter().zip(subject.program.avals_out())
    {
        let bytes = array.to_bytes()?;
        if *array.aval() != aval || bytes.len() != aval.size() * aval.dtype.host_bytes() {
            return fail(format!("expected {aval}, found {} bytes", bytes.len()));
        }
    }
    Ok(())
}

fn program_equals_operation(subject: &Subject) -> Result<(), Error> {
    let operands: Vec<&Array> = subject.operands.iter().collect();
    let eager = bind_shared(&subject.primitive, &operands);
    compare("operation and program", &eager, &run(&subject.program, &subject.operands)?, 0.0)
}

fn text(subject: &Subject) -> Result<(), Error> {
    passes::verify(&subject.program)?;
    let text = subject.program.to_string();
    if subject.primitive.is_opaque() {
        return match parse_program(&text) {
            Ok(_) => fail(format!("holds a closure, and yet its text was read back:\n{text}")),
            Err(_) => Ok(()),
        };
    }
    let parsed = parse_program(&text)?;
    if parsed != subject.program || parsed.to_string() != text {
        return fail(format!("parses to another program:\n{text}\n{parsed}"));
    }
    Ok(())
}

fn cost(subject: &Subject) -> Result<(), Error> {
    let cost = passes::cost(&subject.program);
    let size: usize = subject.operands.iter().map(|x| x.aval().bytes()).sum();
    match cost.bytes >= size as u64 || subject.operands.is_empty() {
        true => Ok(()),
        false => fail(format!("{} bytes moved, the operands alone are {size}", cost.bytes)),
    }
}

/// The batch rule against a loop, for every subset of mapped operands, the batch axis first and last.
fn batch(subject: &Subject) -> Result<(), Error> {
    const SIZE: usize = 3;
    let n = subject.operands.len();
    for subset in 1..1u32 << n {
        let mapped = |at: usize| subset & (1 << at) != 0;
        // Other random elements in each example of the batch.
        let examples: Vec<Vec<Array>> = (0..SIZE as u64)
            .map(|example| {
                let each = subject.samples.iter().enumerate().map(|(at, one)| {
                    let seed = if mapped(at) { 100 * (example + 1) } else { 0 };
                    sample(one, seed + at as u64 + 1)
                });
                each.collect::<Result<Vec<_>, _>>()
            })
            .collect::<Result<_, _>>()?;
        for last in [false, true] {
            let mut axes = Vec::new();
            let mut batched = Vec::new();
            for at in 0..n {
                let axis = if last { examples[0][at].rank() } else { 0 };
                axes.push(mapped(at).then_some(axis));
                batched.push(match mapped(at) {
                    true => stack(examples.iter().map(|example| &example[at]), axis)?,
                    false => examples[0][at].clone(),
                });
            }
            let mut out_axes = Vec::new();
            let program = trace_rules(avals(&batched), |inputs| {
                let axis = BatchAxis { size: SIZE };
                let (outputs, axes) = batch_program(&subject.program, inputs, &axes, &axis);
                out_axes = axes;
                let placed = outputs.iter().zip(&out_axes);
                placed.map(|(y, at)| at.map_or(y.clone(), |at| move_axis(y, at, 0))).collect()
            });
            let outputs = run(&program, &batched)?;
            let rows: Vec<Vec<Array>> = examples
                .iter()
                .map(|example| run(&subject.program, example))
                .collect::<Result<_, _>>()?;
            for (position, (output, axis)) in outputs.iter().zip(&out_axes).enumerate() {
                let expected = match axis {
                    Some(_) => stack(rows.iter().map(|row| &row[position]), 0)?,
                    None => rows[0][position].clone(),
                };
                let what = format!("operands {subset:b} mapped, axis last: {last}");
                compare(&what, std::slice::from_ref(output), &[expected], 1e-5)?;
            }
        }
    }
    Ok(())
}

/// Stacks arrays along a new axis, on the host.
fn stack<'a>(arrays: impl Iterator<Item = &'a Array>, axis: usize) -> Result<Array, Error> {
    let arrays: Vec<&Array> = arrays.collect();
    let aval = arrays[0].aval();
    let mut bytes = Vec::new();
    for array in &arrays {
        bytes.extend(array.to_bytes()?);
    }
    let stacked = Array::from_bytes(&bytes, aval.dtype, aval.shape.insert(0, arrays.len()))?;
    Ok(move_axis(&stacked, 0, axis))
}

fn symbolic_zeros(subject: &Subject) -> Result<(), Error> {
    let varies = subject.varies();
    let count = varies.iter().filter(|varies| **varies).count();
    if count < 2 {
        return Ok(());
    }
    let full = subject.directions(7)?;
    for absent in (0..varies.len()).filter(|&at| varies[at]) {
        let mut symbolic = full.clone();
        symbolic[absent] = Tangent::zero_like(&subject.operands[absent]);
        let mut explicit = full.clone();
        let zeros = trace_rules([], |_| vec![zeros_of(subject.operands[absent].aval())]);
        explicit[absent] = Tangent::Dense(run(&zeros, &[])?.swap_remove(0));
        let derivative = |directions: &[Tangent]| {
            let program = subject.jvp_of(&subject.program, directions);
            run(&program, &with_directions(&subject.operands, directions))
        };
        let what = format!("operand {absent} with a zero tangent");
        compare(&what, &derivative(&symbolic)?, &derivative(&explicit)?, 1e-3)?;
    }
    Ok(())
}

fn jvp_law(subject: &Subject) -> Result<(), Error> {
    let directions = subject.directions(11)?;
    let program = subject.jvp_of(&subject.program, &directions);
    let tangents = run(&program, &with_directions(&subject.operands, &directions))?;
    let slopes = central_differences(subject, &directions, |x| run(&subject.program, x))?;
    compare_slopes(&tangents, &slopes, subject.tolerance)
}

fn second_law(subject: &Subject) -> Result<(), Error> {
    let inner = subject.directions(13)?;
    let outer = subject.directions(17)?;
    let first = subject.jvp_of(&subject.program, &inner);
    let n = subject.operands.len();
    // The second derivative: jvp of the first, the inner directions held constant.
    let avals_in = avals(&with_directions(&subject.operands, &inner));
    let n_first = avals_in.len();
    let outer_avals = outer.iter().filter_map(Tangent::array).map(|v| v.aval().clone());
    let second = trace_rules(avals_in.into_iter().chain(outer_avals), |inputs| {
        let mut rest = inputs[n_first..].iter();
        let tangents: Vec<Tangent> = inputs[..n_first]
            .iter()
            .enumerate()
            .map(|(at, input)| match outer.get(at) {
                Some(Tangent::Dense(_)) if at < n => {
                    Tangent::Dense(rest.next().expect("one per dense direction").clone())
                }
                _ => Tangent::zero_like(input),
            })
            .collect();
        jvp_program(&first, &inputs[..n_first], &tangents).1.iter().map(dense).collect()
    });
    let mut arguments = with_directions(&subject.operands, &inner);
    arguments.extend(outer.iter().filter_map(Tangent::array).cloned());
    let tangents = run(&second, &arguments)?;
    let slopes =
        central_differences(subject, &outer, |x| run(&first, &with_directions(x, &inner)))?;
    compare_slopes(&tangents, &slopes, 10.0 * subject.tolerance)
}

fn transpose_law(subject: &Subject) -> Result<(), Error> {
    let directions = subject.directions(19)?;
    let varies = subject.varies();
    let outputs = subject.program.avals_out();
    let mut stream = Stream(23);
    let cts: Vec<Array> = outputs
        .iter()
        .filter(|aval| aval.dtype.is_inexact())
        .map(|aval| direction(aval, (stream.next() * 1e6) as u64))
        .collect::<Result<_, _>>()?;
    let jvp = subject.jvp_of(&subject.program, &directions);
    let tangents = run(&jvp, &with_directions(&subject.operands, &directions))?;
    let n = subject.operands.len();
    let n_varying = varies.iter().filter(|varies| **varies).count();
    let arguments: Vec<Array> = subject.operands.iter().chain(&cts).cloned().collect();
    let vjp = trace_rules(avals(&arguments), |inputs| {
        let lin = linearize_program(&subject.program, &inputs[..n], &varies);
        let mut rest = inputs[n..].iter();
        let mut wanted = Vec::new();
        for (aval, position) in outputs.iter().zip(&lin.tangents) {
            let ct = if aval.dtype.is_inexact() { rest.next() } else { None };
            if position.is_some() {
                wanted.push(match ct {
                    Some(ct) => Tangent::Dense(ct.clone()),
                    None => Tangent::Zero(aval.clone()),
                });
            }
        }
        let mut linear = vec![true; n_varying];
        linear.resize(n_varying + lin.residuals.len(), false);
        let pulled = transpose_program(&lin.linear, &linear, &lin.residuals, &wanted);
        pulled.iter().map(dense).collect()
    });
    let pulled = run(&vjp, &arguments)?;
    let pair = |a: &[Array], b: Vec<&Array>| -> Result<f64, Error> {
        a.iter().zip(b).try_fold(0.0, |sum, (a, b)| Ok(sum + numbers(a)?.pair(&numbers(b)?)))
    };
    let forward = pair(&tangents, cts.iter().collect())?;
    let backward = pair(&pulled, directions.iter().filter_map(Tangent::array).collect())?;
    let scale = forward.abs().max(backward.abs()).max(1.0);
    match (forward - backward).abs() <= 1e-9 * scale || !forward.is_finite() {
        true => Ok(()),
        false => fail(format!("<Jv, u> is {forward}, <v, J'u> is {backward}")),
    }
}
