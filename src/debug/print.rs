//! Printing from compiled programs.

use super::fields::Fields;
use super::format::Format;
use super::host::run_or_bind;
use super::host::{CallbackOptions, HostCall};
use crate::core::{Array, HostFunction, RuleError, capture, throw_operands};
use crate::primitives::CallbackFailure;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Destination of lines. `None` is standard output.
static OUTPUT: Mutex<Option<Box<dyn Write + Send>>> = Mutex::new(None);

/// Redirects the output of [`print()`] from standard output, for the whole process.
pub fn set_output(output: impl Write + Send + 'static) {
    *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(output));
}

/// The destination of a line.
#[derive(Clone, Copy, Debug)]
enum Destination {
    /// The output that [`set_output`] sets.
    Output,
    /// The subscriber of `tracing`.
    Log,
}

impl Destination {
    fn write(self, line: &str) {
        match self {
            // A closed output must not stop the program.
            Destination::Output => drop(write_line(line)),
            Destination::Log => tracing::info!(target: "oxidax::debug", "{line}"),
        }
    }
}

fn write_line(line: &str) -> io::Result<()> {
    match &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(output) => writeln!(output, "{line}").and_then(|()| output.flush()),
        None => writeln!(io::stdout(), "{line}"),
    }
}

/// Prints a line each time the program reaches this point. The placeholders of `format` stand for
/// the arrays' elements: `{}` for the next array, `{0}` for the first, `{loss}` for the field with
/// this name, `{:.3}` for three digits after the decimal point. A line without placeholders takes
/// `()`. [`debug_print!`](crate::debug_print) finds the arrays itself.
///
/// Prints are unordered: the compiler may exchange the lines of one run, and a call returns before
/// they are printed. [`effects_barrier`](crate::jit::effects_barrier) waits for them.
/// [`print_with`] prints in program order.
///
/// Under `vmap` a line is printed for each example, in `shard_map` and `pmap` by each device for
/// its shards. In other programs over a mesh it is printed once, with whole arrays, which every
/// device gathers.
///
/// Throws `Op` (value) if the format does not match the arrays.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let step = jit(|w: Array| {
///     let loss = (&w * &w).sum();
///     debug::print("loss {loss:.4}", [("loss", &loss)]);
///     debug::print("{} at {}", [&loss, &w]);
///     w * 0.9
/// });
/// step.call(ones([2]))?; // prints: loss 2.0000
/// effects_barrier()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.debug.print")]
#[track_caller]
pub fn print<F>(format: &str, fields: impl Fields<F>) {
    let options = CallbackOptions::default();
    print_fields(Destination::Output, format, fields.into_fields(), options);
}

/// As [`print()`], with options.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::debug::CallbackOptions;
/// let f = jit(|x: Array| {
///     debug::print_with("first {}", [&x], CallbackOptions { ordered: true });
///     debug::print_with("second {}", [&sin(&x)], CallbackOptions { ordered: true });
///     x
/// });
/// f.call(ones([2]))?; // prints both lines, in this order, before it returns
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn print_with<F>(format: &str, fields: impl Fields<F>, options: CallbackOptions) {
    print_fields(Destination::Output, format, fields.into_fields(), options);
}

/// Logs a line each time the program reaches this point: as [`print()`], but to the subscriber of
/// `tracing`, at level `INFO` with the target `oxidax::debug`.
///
/// Throws as [`print()`] does.
///
/// ```no_run
/// use oxidax::prelude::*;
/// tracing_subscriber::fmt().init();
/// let step = jit(|w: Array| {
///     debug::log("norm {:.3}", [&w.norm()]);
///     w * 0.9
/// });
/// step.call(ones([4]))?; // logs: INFO oxidax::debug: norm 2.000
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.debug.log")]
#[track_caller]
pub fn log<F>(format: &str, fields: impl Fields<F>) {
    let options = CallbackOptions::default();
    print_fields(Destination::Log, format, fields.into_fields(), options);
}

#[track_caller]
fn print_fields(
    destination: Destination,
    format: &str,
    fields: Vec<(String, Array)>,
    options: CallbackOptions,
) {
    let (names, arrays): (Vec<String>, Vec<Array>) = fields.into_iter().unzip();
    let arrays: Vec<&Array> = arrays.iter().collect();
    match Format::parse(format, &names) {
        Ok(parsed) => print_all(destination, parsed, &arrays, options),
        Err(message) => throw_operands("print", RuleError::value(message), &arrays),
    }
}

/// Prints captured arguments; see [`debug_print!`](crate::debug_print).
#[doc(hidden)]
#[track_caller]
pub fn print_captured(arguments: fmt::Arguments<'_>, options: CallbackOptions) {
    let (pieces, captured) = capture::capture(arguments);
    let format = Format::captured(pieces, &captured);
    let arrays: Vec<&Array> = captured.iter().map(|captured| &captured.array).collect();
    print_all(Destination::Output, format, &arrays, options);
}

#[track_caller]
fn print_all(
    destination: Destination,
    format: Format,
    arrays: &[&Array],
    options: CallbackOptions,
) {
    // Equal formats print equal lines, so they share compiled programs.
    let key = format!("{destination:?} {format:?}");
    let function = HostFunction::of_type::<Printing>(key, move |arrays| {
        destination.write(&format.apply(arrays));
        Ok(Vec::new())
    });
    let call = HostCall {
        failure: CallbackFailure::Never,
        ..HostCall::with_effects("print", function, options)
    };
    run_or_bind(call, arrays);
}

/// The type that identifies printing closures: those with equal formats are equal.
struct Printing;

/// Prints a line each time the program reaches this point, as
/// [`debug::print`](crate::debug::print()). Takes the arguments of `println!`: `{loss:.3}` prints
/// the variable `loss`. Values that are not arrays are printed as they are while tracing.
///
/// `debug_print!(ordered; …)` prints in program order.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let step = jit(|w: Array| {
///     let loss = (&w * &w).sum();
///     let name = "squares";
///     debug_print!("{name}: loss {loss:.3}, norm {:.2}", w.norm());
///     debug_print!(ordered; "w = {w}");
///     w * 0.9
/// });
/// step.call(ones([2]))?; // prints: squares: loss 2.000, norm 1.41
/// # Ok::<(), oxidax::Error>(())
/// ```
#[macro_export]
macro_rules! debug_print {
    (ordered; $($arguments:tt)*) => {
        $crate::debug::print_captured(
            ::core::format_args!($($arguments)*),
            $crate::debug::CallbackOptions { ordered: true },
        )
    };
    ($($arguments:tt)*) => {
        $crate::debug::print_captured(
            ::core::format_args!($($arguments)*),
            $crate::debug::CallbackOptions { ordered: false },
        )
    };
}
