//! [`check`]: a comparison of a kernel with a reference.

use super::report::Report;
use super::run::Run;
use crate::core::{Array, DType, Error, HostArray, Loc, OpErrorKind, catch};
use crate::kernel::Kernel;
use num_complex::Complex64;

/// The tolerances of [`check`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckOptions {
    /// The largest difference, as a fraction of the reference's element. The default is 1e-5.
    pub rtol: f64,
    /// The difference that is added to it. The default is 1e-5.
    pub atol: f64,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { rtol: 1e-5, atol: 1e-5 }
    }
}

/// Runs a kernel with [`Kernel::run_checked`], and compares its outputs with those of a function.
/// Returns the outputs of the kernel.
///
/// `reference` takes the operands, with floating-point numbers as `f64`, and returns one array for
/// each output, of its shape and of any dtype. Elements `x` of the kernel and `y` of the reference
/// are equal if `|x - y| <= atol + rtol * |y|`, or if both are NaN. The error of a difference names
/// the output, the indices, the program that stored the element last, and the line of that store.
/// This detects mistakes that are not wrong accesses, such as a maximum that starts from 0.
///
/// # Errors
/// Those of [`Kernel::run_checked`], `Op` (value) if elements differ, `Op` (shape) if the reference
/// returns other shapes, and whatever it throws.
///
/// ```
/// use oxidax::kernel::{self, BlockSpec, CheckOptions, Grid, Output, Ref};
/// use oxidax::prelude::*;
/// let rows = || BlockSpec::new([8, 128], |[i]| (i, 0));
/// let double = kernel::call(
///     |[x, y]: [Ref; 2]| y.store(x.load() * 2.0),
///     Grid::new([4]),
///     [rows()],
///     [Output::new(DType::F32, [32, 128], rows())],
/// );
/// let x = random::normal(random::key(0), [32, 128]);
/// kernel::check(&double, &[&x], |x| vec![&x[0] + &x[0]], CheckOptions::default())?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
#[doc(alias = "assert_allclose")]
pub fn check(
    kernel: &Kernel,
    operands: &[&Array],
    reference: impl FnOnce(&[Array]) -> Vec<Array>,
    options: CheckOptions,
) -> Result<Vec<Array>, Error> {
    let loc = Loc::caller();
    catch(|| {
        let run = kernel.run_at(operands, loc)?;
        let wide = |x: &&Array| match x.dtype() {
            dtype if dtype.is_complex() => x.astype(DType::C128),
            dtype if dtype.is_float() => x.astype(DType::F64),
            _ => Array::clone(x),
        };
        let expected = reference(&operands.iter().map(wide).collect::<Vec<_>>());
        let report = Report { name: kernel.kernel_name().to_string() };
        let outputs = run.host_outputs()?;
        if expected.len() != outputs.len() {
            let message = format!(
                "the reference returns {} arrays, the kernel {}",
                expected.len(),
                outputs.len()
            );
            let help = "return one array for each output";
            return Err(report.error(OpErrorKind::Shape, message, help, loc));
        }
        for (index, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
            if output.shape() != expected.shape() {
                let message = format!(
                    "output {index} is {}, the reference {}",
                    output.aval(),
                    expected.aval()
                );
                let help = "return arrays of the shapes of the outputs";
                return Err(report.error(OpErrorKind::Shape, message, help, loc));
            }
            compare(&report, &run, index, output, &expected.to_host()?, options, loc)?;
        }
        run.outputs()
    })?
}

fn compare(
    report: &Report,
    run: &Run,
    index: usize,
    output: &HostArray,
    expected: &HostArray,
    options: CheckOptions,
    loc: Loc,
) -> Result<(), Error> {
    let is_equal = |(x, y): &(Complex64, Complex64)| {
        x == y
            || (x.is_nan() && y.is_nan())
            || (x - y).norm() <= options.atol + options.rtol * y.norm()
    };
    let pairs = || output.iter_numbers().zip(expected.iter_numbers());
    let n_different = pairs().filter(|pair| !is_equal(pair)).count();
    let Some((element, (x, y))) = pairs().enumerate().find(|(_, pair)| !is_equal(pair)) else {
        return Ok(());
    };
    let memory = run.output(index);
    let offset = memory.array_elements()[element];
    let store = memory.last_store(offset);
    let by = store
        .map_or(String::new(), |store| format!(", stored by program {:?}", run.ids(store.program)));
    let show = |number: Complex64| match output.dtype().is_complex() {
        true => number.to_string(),
        false => number.re.to_string(),
    };
    let message = format!(
        "output {index} at {:?} is {}{by}, the reference {}: {n_different} of {} elements differ",
        memory.indices(offset),
        show(x),
        show(y),
        output.aval().size()
    );
    let help = format!(
        "the tolerance is {:e} + {:e} |reference|; if the accesses are correct, look at the first \
         value of an accumulator, masks and conditions",
        options.atol, options.rtol
    );
    Err(report.value(message, &help, store.map_or(loc, |store| store.loc)))
}
