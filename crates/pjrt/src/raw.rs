//! The cost of the C API alone, for benchmarks: executions without the checks, allocations and
//! handles of this crate.
//!
//! A [`BareCall`] is prepared once, with all checks. It then runs like a C program: one `Execute`,
//! and one `Destroy` for each buffer after its last use. Use it only for comparison with
//! [`LoadedExecutable::execute`].

use oxidax_pjrt_sys as sys;

use crate::api::Args;
use crate::buffer::PjrtBuffer;
use crate::error::{Error, Result};
use crate::executable::LoadedExecutable;
use crate::ffi;

/// A program with its arguments, prepared for repeated execution.
///
/// ```no_run
/// # use oxidax_pjrt::{LoadedExecutable, PjrtBuffer, raw::BareCall};
/// # fn bench(executable: &LoadedExecutable, x: &PjrtBuffer) -> oxidax_pjrt::Result<()> {
/// let mut call = BareCall::new(executable, &[x])?;
/// let start = std::time::Instant::now();
/// for _ in 0..1000 {
///     call.run()?;
/// }
/// let per_call = start.elapsed() / 1000;
/// # Ok(())
/// # }
/// ```
pub struct BareCall {
    executable: LoadedExecutable,
    arguments: Vec<*mut sys::PJRT_Buffer>,
    outputs: Vec<*mut sys::PJRT_Buffer>,
    /// Keeps the first arguments alive; `arguments` may have been replaced by results.
    _kept: Vec<PjrtBuffer>,
    /// The number of `arguments` that are results owned by this call.
    owned: usize,
    /// Indices of arguments that must not be donated.
    kept: Vec<i64>,
}

// SAFETY: the pointers are buffers of the executable's client, which are usable from any thread.
unsafe impl Send for BareCall {}

impl BareCall {
    /// Checks the arguments and prepares the call.
    ///
    /// # Errors
    /// The errors of [`LoadedExecutable::execute`].
    pub fn new(executable: &LoadedExecutable, arguments: &[&PjrtBuffer]) -> Result<Self> {
        Ok(Self {
            arguments: executable.checked_pointers(arguments)?.into_vec(),
            outputs: vec![std::ptr::null_mut(); executable.results().len()],
            executable: executable.clone(),
            _kept: arguments.iter().copied().cloned().collect(),
            owned: 0,
            kept: Vec::new(),
        })
    }

    /// Marks all arguments as not donatable, for a program that may donate them.
    #[must_use]
    pub fn keeping_arguments(mut self) -> Self {
        self.kept = (0..self.arguments.len() as i64).collect();
        self
    }

    /// Runs the program and destroys its results.
    ///
    /// # Errors
    /// [`Error::Status`].
    #[inline]
    pub fn run(&mut self) -> Result<()> {
        self.execute()?;
        for output in &mut self.outputs {
            // SAFETY: the execution created the buffer, and no other code uses it.
            unsafe { destroy(&self.executable, std::mem::replace(output, std::ptr::null_mut())) };
        }
        Ok(())
    }

    /// Runs the program and replaces its first arguments by its results, as in a training step. The
    /// replaced arguments are destroyed.
    ///
    /// # Errors
    /// [`Error::Status`]; [`Error::Invalid`] if the results do not have the types of the first
    /// parameters.
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        let count = self.outputs.len();
        let parameters = self.executable.parameters();
        let results = self.executable.results();
        if self.owned == 0
            && (count > parameters.len() || results.iter().zip(parameters).any(|(r, p)| r != p))
        {
            return Err(Error::invalid("bare call", "the results do not fit the first parameters"));
        }
        self.execute()?;
        for index in 0..count {
            let output = std::mem::replace(&mut self.outputs[index], std::ptr::null_mut());
            let old = std::mem::replace(&mut self.arguments[index], output);
            if index < self.owned {
                // SAFETY: the buffer came from an earlier execution, and no other code uses it.
                unsafe { destroy(&self.executable, old) };
            }
        }
        self.owned = count;
        Ok(())
    }

    #[inline]
    fn execute(&mut self) -> Result<()> {
        ffi::refuse_inside_handler("execute")?;
        let mut options = sys::PJRT_ExecuteOptions {
            struct_size: size_of::<sys::PJRT_ExecuteOptions>(),
            non_donatable_input_indices: self.kept.as_ptr(),
            num_non_donatable_input_indices: self.kept.len(),
            ..Default::default()
        };
        let argument_list = self.arguments.as_ptr();
        let output_list = self.outputs.as_mut_ptr();
        let mut args = sys::PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = self.executable.as_ptr();
        args.options = &raw mut options;
        args.argument_lists = &raw const argument_list;
        args.num_devices = 1;
        args.num_args = self.arguments.len();
        args.output_lists = &raw const output_list;
        // SAFETY: the arguments were checked when the call was prepared, or are results of equal
        // types; the list of outputs has space for every result.
        unsafe { self.executable.client().plugin().call(&mut args) }
    }
}

impl Drop for BareCall {
    fn drop(&mut self) {
        for &argument in &self.arguments[..self.owned] {
            // SAFETY: these are results of an execution, and no other code uses them.
            unsafe { destroy(&self.executable, argument) };
        }
    }
}

impl std::fmt::Debug for BareCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BareCall").field(&self.executable).finish()
    }
}

/// # Safety
/// The buffer is alive and not used afterwards.
#[inline]
unsafe fn destroy(executable: &LoadedExecutable, buffer: *mut sys::PJRT_Buffer) {
    let mut args = sys::PJRT_Buffer_Destroy_Args::new();
    args.buffer = buffer;
    // SAFETY: the caller guarantees it.
    unsafe { executable.client().plugin().release(&mut args) }
}
