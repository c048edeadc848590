//! The reference interpreter of kernels: it runs the programs of a grid one after the other on the
//! host, and detects mistakes that compilers cannot see.
//!
//! Each reference has its elements, and beside each element the last program that wrote it and the
//! line of the store (`memory`). The body is evaluated equation by equation (`evaluator`); loads
//! and stores access this memory, and the rest is ordinary arithmetic.

mod check;
mod evaluator;
mod memory;
mod report;
mod run;
mod schedule;
mod stores;

pub use check::{CheckOptions, check};

use super::kernel::Kernel;
use super::kernel_call::KernelCall;
use crate::core::scoped::scoped;
use crate::core::{Array, Error, HostArray, Loc, OpErrorKind, catch};
use crate::transforms::disable_jit;
use report::Report;
use run::{Fill, Run};

impl Kernel {
    /// Runs the kernel on the host, program by program, and detects mistakes: the tool for finding
    /// out why a kernel is wrong, and for tests of kernels. It is slow. Use small arrays.
    ///
    /// Programs along parallel axes run in a shuffled order, the same in every run. Errors are:
    /// - a load or store beyond a block, and a block beyond its array;
    /// - a load of memory that was not written: scratch memory, which is lost when the index along
    ///   a parallel axis changes, and blocks of outputs. Elements that a mask leaves out do not
    ///   count;
    /// - two programs that differ along a parallel axis and write one element, or one that reads
    ///   what the other writes;
    /// - a load from an input after a store to the output that shares its memory;
    /// - a program that comes back to the block of an output that the grid had left, whose elements
    ///   a TPU does not load again;
    /// - an element of an output that no program writes;
    /// - an element of an output that depends on elements beyond the end of an input, where the
    ///   last block is larger than the rest of the array.
    ///
    /// Each names the program, the reference, the indices and the line. Wrong numbers are the
    /// subject of [`check`]. Another kernel for CPUs is not used.
    ///
    /// # Errors
    /// `Op` (value) for each of these mistakes, whatever [`Kernel::trace`] throws, and `Op`
    /// (unsupported) inside of a function that is traced.
    ///
    /// ```
    /// use oxidax::kernel::{self, BlockSpec, Grid, Output, Ref};
    /// use oxidax::prelude::*;
    /// let rows = || BlockSpec::new([8, 128], |[i]| (i, 0));
    /// // The output is read before it is written.
    /// let sum = kernel::call(
    ///     |[x, sum]: [Ref; 2]| sum.add_assign(x.load()),
    ///     Grid::new([4]),
    ///     [rows()],
    ///     [Output::new(DType::F32, [32, 128], rows())],
    /// );
    /// let error = sum.run_checked(&[&ones([32, 128])]).unwrap_err();
    /// assert!(error.to_string().contains("output 0 at [16, 0], which is not initialized"));
    /// ```
    #[track_caller]
    #[doc(alias = "interpret")]
    pub fn run_checked(&self, operands: &[&Array]) -> Result<Vec<Array>, Error> {
        let loc = Loc::caller();
        catch(|| self.run_at(operands, loc)?.outputs())?
    }

    /// Runs the kernel for operands at the top level.
    fn run_at(&self, operands: &[&Array], loc: Loc) -> Result<Run, Error> {
        let kernel = self.traced_at(operands, loc);
        if crate::core::trace::is_tracing() {
            let report = Report { name: kernel.name.clone() };
            let message = "the interpreter runs outside of functions that are traced";
            let help = "call `run_checked` with concrete arrays, or `Kernel::apply` here";
            return Err(report.error(OpErrorKind::Unsupported, message, help, loc));
        }
        let operands: Vec<HostArray> =
            operands.iter().map(|operand| operand.to_host()).collect::<Result<_, _>>()?;
        run_checked(&kernel, &self.spec_locs(), &operands)
    }
}

scoped!(
    /// True inside of [`with_checks`].
    static IS_CHECKED: bool = false
);

/// Runs `f`, with every kernel in it run by [`Kernel::run_checked`]: also those that functions of
/// the library call, and those of backward passes. Nothing is compiled, as under
/// [`disable_jit`](crate::transforms::disable_jit). Errors about index maps have the line of the
/// kernel's call.
///
/// # Errors
/// Those of [`Kernel::run_checked`], and whatever `f` throws.
///
/// ```
/// use oxidax::kernel::{self, BlockSpec, Grid, Output, Ref};
/// use oxidax::prelude::*;
/// let rows = || BlockSpec::new([8, 128], |[i]| (i, 0));
/// let double = kernel::call(
///     |[x, y]: [Ref; 2]| y.store(x.load() * 2.0),
///     Grid::new([3]),
///     [rows()],
///     [Output::new(DType::F32, [32, 128], rows())],
/// );
/// let x = ones([32, 128]);
/// let error = kernel::with_checks(|| double.apply1(&[&x]).sum()).unwrap_err();
/// assert!(error.to_string().contains("no program writes output 0 at [24, 0]"));
/// ```
pub fn with_checks<R>(f: impl FnOnce() -> R) -> Result<R, Error> {
    catch(|| IS_CHECKED.scope(true, || disable_jit(f)))
}

/// Runs a kernel that is evaluated inside of [`with_checks`]. Returns `None` outside.
pub(super) fn run_within_checks(
    kernel: &KernelCall,
    operands: &[Array],
) -> Option<Result<Vec<Array>, Error>> {
    if !IS_CHECKED.get() {
        return None;
    }
    let run = || {
        let operands: Vec<HostArray> =
            operands.iter().map(Array::to_host).collect::<Result<_, _>>()?;
        let locs = vec![Loc::UNKNOWN; kernel.inputs.len() + kernel.outputs.len()];
        run_checked(kernel, &locs, &operands)?.outputs()
    };
    Some(run())
}

/// Runs a kernel, and again with other elements beyond the ends of inputs, if they were loaded.
fn run_checked(kernel: &KernelCall, locs: &[Loc], operands: &[HostArray]) -> Result<Run, Error> {
    let fills = vec![Fill::Undefined; kernel.inputs.len()];
    let run = Run::new(kernel, locs, operands, &fills)?;
    if !run.inputs_read_beyond().is_empty() {
        check_masks(kernel, locs, operands, &run, &Report { name: kernel.name.clone() })?;
    }
    Ok(run)
}

/// Fails if outputs depend on elements of inputs beyond their ends: runs the kernel with other
/// elements there.
fn check_masks(
    kernel: &KernelCall,
    locs: &[Loc],
    operands: &[HostArray],
    run: &Run,
    report: &Report,
) -> Result<(), Error> {
    let ones = vec![Fill::One; kernel.inputs.len()];
    let other = Run::new(kernel, locs, operands, &ones)?;
    let Some(difference) = run.first_difference(&other)? else { return Ok(()) };
    let mut found = (None, difference);
    for input in run.inputs_read_beyond() {
        let mut fills = ones.clone();
        fills[input] = Fill::Undefined;
        let changed = Run::new(kernel, locs, operands, &fills)?;
        if let Some(difference) = changed.first_difference(&other)? {
            found = (Some(input), difference);
            break;
        }
    }
    let (input, (output, element)) = found;
    let memory = run.output(output);
    let store = memory.last_store(element);
    let by = store.map_or(String::new(), |store| {
        format!(", stored by program {:?},", run.ids(store.program))
    });
    let of = input.map_or("several inputs".to_string(), |input| {
        format!("input {input}, {}", kernel.inputs[input].array)
    });
    let message = format!(
        "output {output} at {:?}{by} depends on elements beyond the end of {of}",
        memory.indices(element)
    );
    let help = "blocks reach beyond the array, where elements are undefined: mask them with \
                `where_` or `load_masked` before they are reduced";
    let loc = store.map_or(locs[kernel.inputs.len() + output], |store| store.loc);
    Err(report.error(OpErrorKind::Value, message, help, loc))
}
