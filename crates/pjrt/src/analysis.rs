//! Cost, memory and optimized code of a compiled program.

use oxidax_pjrt_sys as sys;

use crate::api::{self, Args};
use crate::error::Result;
use crate::executable::Executable;
use crate::hlo::{self, Instruction};
use crate::named_value::NamedValue;

/// Memory use of a compiled program on one device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledMemoryStats {
    /// Size of the generated code.
    pub generated_code: i64,
    /// Size of all arguments.
    pub arguments: i64,
    /// Size of all results, including those that share memory with arguments.
    pub results: i64,
    /// Size of the results that share memory with arguments.
    pub aliased: i64,
    /// Size of all temporaries.
    pub temporaries: i64,
    /// Size of the arguments in host memory.
    pub host_arguments: i64,
    /// Size of the results in host memory.
    pub host_results: i64,
    /// Size of the results in host memory that share memory with arguments.
    pub host_aliased: i64,
    /// Size of the temporaries in host memory.
    pub host_temporaries: i64,
    /// Peak memory use; 0 if the plugin does not report it.
    pub peak: i64,
}

impl Executable {
    /// Returns the compiler's cost estimates for the program: `flops`, `bytes accessed`, and so on.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); many plugins return `UNIMPLEMENTED`.
    pub fn cost_analysis(&self) -> Result<Vec<NamedValue>> {
        let mut args = sys::PJRT_Executable_GetCostAnalysis_Args::new();
        args.executable = self.as_ptr();
        // SAFETY: the executable is alive, and so are its properties.
        unsafe {
            self.plugin().call(&mut args)?;
            Ok(NamedValue::list(args.properties, args.num_properties))
        }
    }

    /// Returns the memory use of the program.
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
            host_aliased: args.host_alias_size_in_bytes,
            host_temporaries: args.host_temp_size_in_bytes,
            peak: args.peak_memory_in_bytes,
        })
    }

    /// Returns the size of the program's code on the device, in bytes.
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

    /// Returns the program after the compiler's optimizations, and the name of its format. In the
    /// format `hlo_with_config`, the first field of the message is an `HloModuleProto`.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status).
    pub fn optimized_program(&self) -> Result<(Vec<u8>, String)> {
        let mut program =
            sys::PJRT_Program { struct_size: size_of::<sys::PJRT_Program>(), ..Default::default() };
        let mut args = sys::PJRT_Executable_OptimizedProgram_Args::new();
        args.executable = self.as_ptr();
        args.program = &raw mut program;
        // SAFETY: if the code pointer is null, the plugin writes only the size and the format.
        unsafe { self.plugin().call(&mut args) }?;
        // SAFETY: this function owns the program struct, and the plugin has written to it through
        // the pointer.
        let size = unsafe { (*args.program).code_size };
        let mut code = vec![0_u8; size];
        // SAFETY: `code` has the size that the plugin reported, and the format is static text.
        unsafe {
            (*args.program).code = code.as_mut_ptr().cast();
            self.plugin().call(&mut args)?;
            let program = &*args.program;
            code.truncate(program.code_size);
            Ok((code, api::string(program.format, program.format_size)))
        }
    }

    /// Returns the operations of all computations of the optimized program. An operation inside a
    /// loop or a fusion is listed once.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); [`Error::Invalid`](crate::Error::Invalid) if the
    /// plugin returns the program in an unknown format.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        let (code, format) = self.optimized_program()?;
        Ok(hlo::Module::from_optimized("instructions", &code, &format)?.instructions())
    }
}
