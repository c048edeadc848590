//! What a compiled program costs, and what became of it.

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args};
use crate::error::Result;
use crate::executable::Executable;
use crate::hlo::{self, Instruction};
use crate::named_value::NamedValue;

/// The memory that a compiled program takes on one device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledMemoryStats {
    /// The code itself.
    pub generated_code: i64,
    /// All arguments.
    pub arguments: i64,
    /// All results, those that share memory with arguments included.
    pub results: i64,
    /// The part of the results that shares memory with arguments.
    pub aliased: i64,
    /// Everything in between.
    pub temporaries: i64,
    /// Arguments in host memory.
    pub host_arguments: i64,
    /// Results in host memory.
    pub host_results: i64,
    /// Everything in between, in host memory.
    pub host_temporaries: i64,
    /// The most that is in use at one time; 0 where the plugin does not say.
    pub peak: i64,
}

impl Executable {
    /// What the compiler thinks that the program costs: `flops`, `bytes accessed`, and so on.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status), with `UNIMPLEMENTED` on many plugins.
    pub fn cost_analysis(&self) -> Result<Vec<NamedValue>> {
        let mut args = sys::PJRT_Executable_GetCostAnalysis_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive, and so are its properties.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(NamedValue::list(args.properties, args.num_properties))
        }
    }

    /// The memory that the program takes.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status).
    pub fn memory_stats(&self) -> Result<CompiledMemoryStats> {
        let mut args = sys::PJRT_Executable_GetCompiledMemoryStats_Args_0_114::new();
        args.base.executable = self.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.plugin().call(&mut args) }?;
        let args = args.base;
        Ok(CompiledMemoryStats {
            generated_code: args.generated_code_size_in_bytes,
            arguments: args.argument_size_in_bytes,
            results: args.output_size_in_bytes,
            aliased: args.alias_size_in_bytes,
            temporaries: args.temp_size_in_bytes,
            host_arguments: args.host_argument_size_in_bytes,
            host_results: args.host_output_size_in_bytes,
            host_temporaries: args.host_temp_size_in_bytes,
            peak: args.peak_memory_in_bytes,
        })
    }

    /// The size of the program's code on the device, in bytes.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status).
    pub fn code_size(&self) -> Result<i64> {
        let mut args = sys::PJRT_Executable_SizeOfGeneratedCodeInBytes_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.plugin().call(&mut args) }?;
        Ok(args.size_in_bytes)
    }

    /// The program after the compiler's own optimizations, and the form that it is in:
    /// `hlo_with_config` is a message whose first field is an `HloModuleProto`.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status).
    pub fn optimized_program(&self) -> Result<(Vec<u8>, String)> {
        let mut program =
            sys::PJRT_Program { struct_size: size_of::<sys::PJRT_Program>(), ..Default::default() };
        let mut args = sys::PJRT_Executable_OptimizedProgram_Args::new();
        args.executable = self.as_ptr();
        args.program = &raw mut program;
        // SAFETY: without a place for the code, only its size and form are written.
        unsafe { self.plugin().call(&mut args) }?;
        // SAFETY: the program is ours and the plugin has written to it through the pointer.
        let size = unsafe { (*args.program).code_size };
        let mut code = vec![0_u8; size];
        // SAFETY: `code` has the size that was asked for, and the form is static text.
        unsafe {
            (*args.program).code = code.as_mut_ptr().cast();
            self.plugin().call(&mut args)?;
            let program = &*args.program;
            code.truncate(program.code_size);
            Ok((code, api::string(program.format, program.format_size)))
        }
    }

    /// The operations of the program after the compiler's own optimizations, those of all its
    /// computations: what a loop or a fusion does is listed once.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); [`Error::Invalid`](crate::Error::Invalid) if the
    /// plugin returns the program in a form that is not known.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        let (code, format) = self.optimized_program()?;
        Ok(hlo::Module::from_optimized("instructions", &code, &format)?.instructions())
    }
}
