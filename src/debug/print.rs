//! Printing from compiled programs.

use super::format::Format;
use super::host::run_or_bind;
use crate::core::{Array, HostFunction, RuleError, throw_operands};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Where lines go; standard output if nothing was set.
static OUTPUT: Mutex<Option<Box<dyn Write + Send>>> = Mutex::new(None);

/// Sends what [`print()`] writes to `output` instead of standard output, for the whole process.
pub fn set_output(output: impl Write + Send + 'static) {
    *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(output));
}

fn write_line(line: &str) -> io::Result<()> {
    match &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(output) => writeln!(output, "{line}").and_then(|()| output.flush()),
        None => writeln!(io::stdout(), "{line}"),
    }
}

/// Prints a line each time the program comes here, with the arrays' elements in the places that `format`
/// has for them: `{}` for the next one, `{0}` for a certain one, `{:.3}` for three digits after the point.
///
/// Throws `Op` (value) if the format does not fit the arrays.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let step = jit(|w: Array| {
///     let loss = (&w * &w).sum();
///     debug::print("loss {:.4} at {}", &[&loss, &w]);
///     w * 0.9
/// });
/// step.call(ones([2], DType::F32))?; // prints: loss 2.0000 at [1. 1.]
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "debug_print")]
#[track_caller]
pub fn print(format: &str, arrays: &[&Array]) {
    let parsed = match Format::parse(format, arrays.len()) {
        Ok(parsed) => parsed,
        Err(message) => throw_operands("print", RuleError::value(message), arrays),
    };
    // Equal formats print alike, so they need not be compiled twice.
    let function = HostFunction::of_type::<Printing>(format, move |arrays| {
        // That nobody reads the output is no reason to stop the program.
        drop(write_line(&parsed.apply(arrays)));
        Ok(Vec::new())
    });
    run_or_bind("print", function, Vec::new(), true, arrays);
}

/// Stands for the type of a printing closure: all are equal whose formats are.
struct Printing;
