//! Properties that hold for every function.

use crate::random_programs::recipe::{Recipe, has_forward, has_reverse};
use oxidax::jit::{LoopForm, disable_loop_kernels};
use oxidax::prelude::*;

/// Tolerance between two ways of computing the same values, relative to the largest number.
const TOLERANCE: f64 = 1e-9;

/// Tolerance for finite differences, whose error also depends on the third derivative.
const OF_DIFFERENCES: f64 = 1e-5;

/// The two step sizes of central differences.
const STEPS: [f64; 2] = [1e-5, 0.5e-5];

pub(super) type Arrays = Vec<Array>;

/// The values computed by one executable.
#[derive(Tree, Clone)]
struct Report {
    values: Arrays,
    tangents: Option<Arrays>,
    pulled: Option<Arrays>,
    batched: Arrays,
}

/// Returns all values of a report.
fn leaves(report: &Report) -> Arrays {
    let Report { values, tangents, pulled, batched } = report.clone();
    let derivatives = [tangents, pulled].into_iter().flatten().flatten();
    values.into_iter().chain(derivatives).chain(batched).collect()
}

/// A function of the inputs, and the derivatives that it supports.
#[derive(Clone)]
pub(crate) struct Subject<F> {
    pub f: F,
    pub forward: bool,
    pub reverse: bool,
    /// True to compute derivatives operation by operation too.
    pub eager_derivatives: bool,
}

/// Checks every property of a recipe. The error names the first that does not hold and the
/// deviation.
pub(crate) fn check(recipe: &Recipe) -> Result<(), String> {
    let (forward, reverse) = (has_forward(&recipe.steps), has_reverse(&recipe.steps));
    let draws = [0, 1, 2].map(|draw| recipe.inputs(draw));
    let (of, directions) = (recipe.clone(), recipe.inputs(7));
    let f = move |inputs: &Arrays| of.apply(inputs);
    let eager_derivatives = recipe.elements.is_multiple_of(4);
    check_function(Subject { f, forward, reverse, eager_derivatives }, &draws, &directions)
}

/// Checks every property of a function at three lists of inputs, along `directions`.
pub(crate) fn check_function<F>(
    subject: Subject<F>,
    draws: &[Arrays; 3],
    directions: &Arrays,
) -> Result<(), String>
where
    F: Fn(&Arrays) -> Arrays + Clone + Send + Sync + 'static,
{
    let of = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let (inputs, f) = (&draws[0], &subject.f);
    let program = make_program(|inputs: Arrays| f(&inputs), inputs).map_err(of("trace"))?;
    let avals = program.avals_out();
    let cotangents: Arrays = avals.iter().enumerate().map(|(at, aval)| weights(aval, at)).collect();
    let along = |at: usize| draws.iter().map(|draw| &draw[at]).collect::<Vec<_>>();
    let batch: Arrays = (0..inputs.len()).map(|at| stack(along(at), 0)).collect();

    let all = {
        let subject = subject.clone();
        jit(move |inputs: Arrays, directions: Arrays, cotangents: Arrays, batch: Arrays| {
            subject.report(&inputs, &directions, &cotangents, &batch)
        })
    };
    let lowered = all.lower(inputs, directions, &cotangents, &batch).map_err(of("trace"))?;
    text(lowered.program())?;
    let all = lowered.compile().map_err(of("compile"))?;
    let run = |inputs: &Arrays| {
        all.call(inputs, directions, &cotangents, &batch).map_err(|e| of("run")(e.into()))
    };
    let reports: Vec<Report> = draws.iter().map(run).collect::<Result<_, _>>()?;
    let report = &reports[0];

    let loops = lowered.loops().map_err(of("loops"))?;
    if loops.iter().any(|report| report.form == LoopForm::Kernel) {
        let plain = disable_loop_kernels(|| lowered.compile()).map_err(of("compile plain"))?;
        let plain = plain.call(inputs, directions, &cotangents, &batch);
        let plain = plain.map_err(|e| of("run plain")(e.into()))?;
        alike("kernels and operations", &leaves(report), &leaves(&plain))?;
    }

    let eager = catch(|| disable_jit(|| f(inputs))).map_err(of("eager"))?;
    alike("jit and eager", &report.values, &eager)?;
    for (at, one) in reports.iter().enumerate() {
        let rows = report.batched.iter().map(|y| row(y, at)).collect::<Result<_, _>>()?;
        alike(&format!("vmap and row {at}"), &rows, &one.values)?;
    }
    let values_at = |h: f64| {
        let moved = inputs.iter().zip(directions).map(|(x, v)| moved(x, v, h));
        numbers(&run(&moved.collect::<Result<_, _>>()?)?.values)
    };
    report.derivatives(directions, &cotangents, &slopes(values_at)?)?;
    // Most of the time is spent compiling single operations.
    if !subject.eager_derivatives {
        return Ok(());
    }
    if let Some(tangents) = &report.tangents {
        let eager = || disable_jit(|| jvp(f, inputs, directions).1);
        alike("jvp, jit and eager", tangents, &catch(eager).map_err(of("eager jvp"))?)?;
    }
    if let Some(pulled) = &report.pulled {
        let eager = || disable_jit(|| vjp(f, inputs).1.apply(&cotangents));
        alike("vjp, jit and eager", pulled, &catch(eager).map_err(of("eager vjp"))?)?;
    }
    Ok(())
}

impl<F: Fn(&Arrays) -> Arrays> Subject<F> {
    fn report(
        &self,
        inputs: &Arrays,
        directions: &Arrays,
        cotangents: &Arrays,
        batch: &Arrays,
    ) -> Report {
        let f = &self.f;
        Report {
            values: f(inputs),
            tangents: self.forward.then(|| jvp(f, inputs, directions).1),
            pulled: self.reverse.then(|| vjp(f, inputs).1.apply(cotangents)),
            batched: vmap(|inputs: Arrays| f(&inputs)).apply(batch),
        }
    }
}

impl Report {
    /// Compares forward mode, reverse mode and finite differences, as far as they are supported.
    fn derivatives(
        &self,
        directions: &Arrays,
        cotangents: &Arrays,
        slopes: &[Option<f64>],
    ) -> Result<(), String> {
        let pulled = match &self.pulled {
            Some(pulled) => Some((pair(pulled, directions)?, norm(pulled)?)),
            None => None,
        };
        let Some(tangents) = &self.tangents else {
            let Some((back, scale)) = pulled else { return Ok(()) };
            let weights = numbers(cotangents)?;
            let slope: Option<f64> = weights.iter().zip(slopes).map(|(w, s)| Some(w * (*s)?)).sum();
            return match slope {
                Some(slope) if !near(back, slope, OF_DIFFERENCES * (1.0 + scale)) => {
                    Err(format!("reverse and differences: {back:e} and {slope:e}"))
                }
                _ => Ok(()),
            };
        };
        if let Some((back, scale)) = pulled {
            let along = pair(cotangents, tangents)?;
            let scale = 1.0 + along.abs() + scale + norm(tangents)?;
            if !near(along, back, TOLERANCE * scale) {
                return Err(format!("reverse and forward: {back:e} and {along:e}"));
            }
        }
        let tangents = numbers(tangents)?;
        let scale = 1.0 + tangents.iter().fold(0.0, |top: f64, x| top.max(x.abs()));
        for (at, (tangent, slope)) in tangents.iter().zip(slopes).enumerate() {
            match slope {
                Some(slope) if !near(*tangent, *slope, OF_DIFFERENCES * scale) => {
                    let numbers = format!("{tangent:e} and {slope:e}");
                    return Err(format!("forward and differences: element {at}: {numbers}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the slope of every element by central differences of `values_at`, or `None` where two
/// step sizes disagree because the function is not smooth there.
fn slopes(values_at: impl Fn(f64) -> Result<Vec<f64>, String>) -> Result<Vec<Option<f64>>, String> {
    let of_step = |h: &f64| {
        let (above, below) = (values_at(*h)?, values_at(-h)?);
        Ok(above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * h)).collect())
    };
    let slopes: Vec<Vec<f64>> = STEPS.iter().map(of_step).collect::<Result<_, String>>()?;
    let top = slopes[1].iter().fold(0.0, |top: f64, x| top.max(x.abs()));
    let agree =
        |(a, b): (&f64, &f64)| near(*a, *b, OF_DIFFERENCES / 10.0 * (1.0 + top)).then_some(*b);
    Ok(slopes[0].iter().zip(&slopes[1]).map(agree).collect())
}

/// Checks that the printed program, which contains the results of transforms, parses to itself.
fn text(program: &oxidax::core::Program) -> Result<(), String> {
    let text = program.to_string();
    if has_closure(&text) {
        return Ok(());
    }
    let parsed = parse_program(&text).map_err(|e| format!("parse: {e}\n{text}"))?;
    match parsed == *program && parsed.to_string() == text {
        true => Ok(()),
        false => Err(format!("print and parse:\n{text}\nis read as\n{parsed}")),
    }
}

/// Returns true if the text contains a closure, which cannot be parsed.
fn has_closure(text: &str) -> bool {
    text.contains("custom_jvp") || text.contains("custom_vjp")
}

pub(super) fn alike(what: &str, a: &Arrays, b: &Arrays) -> Result<(), String> {
    if a.len() != b.len() {
        return Err(format!("{what}: {} results and {}", a.len(), b.len()));
    }
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        if !a.aval().same_type(b.aval()) {
            return Err(format!("{what}: result {at} is {} and {}", a.aval(), b.aval()));
        }
        let (a, b) = (elements(a)?, elements(b)?);
        let scale = a.iter().filter(|x| x.is_finite()).fold(1.0, |top: f64, x| top.max(x.abs()));
        if let Some(i) = (0..a.len()).find(|&i| !near(a[i], b[i], TOLERANCE * scale)) {
            return Err(format!("{what}: result {at}, element {i}: {:e} and {:e}", a[i], b[i]));
        }
    }
    Ok(())
}

/// Compares numbers with a tolerance; NaN equals NaN.
fn near(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance
}

/// Returns one example of a batch, computed on the host because that is faster than compiling.
fn row(batch: &Array, at: usize) -> Result<Array, String> {
    let aval = batch.aval().with_shape(batch.shape().remove(0));
    let all = elements(batch)?;
    let own = &all[at * aval.size()..(at + 1) * aval.size()];
    host(own, &aval)
}

/// Returns `x + h v`, computed on the host.
fn moved(x: &Array, v: &Array, h: f64) -> Result<Array, String> {
    let pairs = elements(x)?.into_iter().zip(elements(v)?);
    host(&pairs.map(|(x, v)| x + v * h).collect::<Vec<_>>(), x.aval())
}

fn host(elements: &[f64], aval: &Aval) -> Result<Array, String> {
    match aval.dtype {
        DType::F64 => Array::from_slice(elements, aval.shape.clone()).map_err(|e| e.to_string()),
        dtype => Err(format!("a value is {dtype}, and programs are of f64 alone")),
    }
}

fn elements(x: &Array) -> Result<Vec<f64>, String> {
    x.to_vec().map_err(|error| error.to_string())
}

fn numbers(arrays: &Arrays) -> Result<Vec<f64>, String> {
    Ok(arrays.iter().map(elements).collect::<Result<Vec<_>, _>>()?.concat())
}

fn pair(a: &Arrays, b: &Arrays) -> Result<f64, String> {
    Ok(numbers(a)?.iter().zip(numbers(b)?).map(|(a, b)| a * b).sum())
}

fn norm(arrays: &Arrays) -> Result<f64, String> {
    Ok(numbers(arrays)?.iter().map(|x| x.abs()).sum())
}

/// Returns a cotangent with distinct elements.
pub(super) fn weights(aval: &Aval, at: usize) -> Array {
    let n = aval.shape.iter().product::<usize>();
    let elements: Vec<f64> = (0..n).map(|i| ((i + 1) as f64 * 1.3 + at as f64).sin()).collect();
    Array::from_slice(&elements, aval.shape.clone()).expect("one element each")
}

#[cfg(test)]
mod tests {
    use super::*;

    mod on_cpu {
        use super::*;

        fn refused(f: fn(&Array) -> Array, forward: bool, property: &str) {
            let draws = [0.3, 0.5, -0.7].map(|x: f64| vec![Array::from_slice(&[x], [1]).unwrap()]);
            let f = move |inputs: &Arrays| vec![f(&inputs[0])];
            let subject = Subject { f, forward, reverse: true, eager_derivatives: true };
            let why = check_function(subject, &draws, &draws[2]).unwrap_err();
            assert!(why.contains(property), "{why}");
        }

        /// The checks detect functions that break a property.
        #[test]
        fn planted_faults_are_detected() {
            let wrong = |x: &Array| {
                let rule = |x: &Array, dx: &Array| (sin(x), dx * cos(x) * 1.01);
                custom_jvp(|x: &Array| sin(x), rule)(x)
            };
            refused(wrong, true, "forward and differences");
            let wrong = |x: &Array| {
                let forward = |x: &Array| (sin(x), x.clone());
                let backward = |x: &Array, ct: &Array| ct * cos(x) * 1.01;
                custom_vjp(|x: &Array| sin(x), forward, backward)(x)
            };
            refused(wrong, false, "reverse and differences");
            refused(|x| if x.is_traced() { sin(x) } else { sin(x) + 1e-6 }, true, "jit and eager");
        }
    }
}
