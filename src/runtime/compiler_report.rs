//! [`CompilerReport`]: the compiler's analysis of a program.

use super::client::runtime_error;
use super::collectives::Collectives;
use super::memory_stats::from_buffer_layout;
use crate::core::{Collective, Error, Layout};
use oxidax_pjrt::{BufferLayout, Fusion, PjrtValue};
use std::collections::BTreeMap;
use std::fmt;

/// Memory that a compiled program uses on one device, in bytes. The fields `host_…` are memory of
/// the host, all others the device's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "CompiledMemoryStats")]
pub struct MemoryAnalysis {
    /// All arguments.
    pub arguments: u64,
    /// All results, including those that reuse the memory of an argument.
    pub results: u64,
    /// The part of the results that reuses the memory of donated arguments.
    pub aliased: u64,
    /// Intermediate values.
    pub temporaries: u64,
    /// The program's code; 0 if the plugin does not report it.
    pub code: u64,
    /// The largest amount in use at one time; 0 if the plugin does not report it.
    pub peak: u64,
    /// Arguments in host memory, which `arguments` does not count.
    pub host_arguments: u64,
    /// Results in host memory, including those that reuse the memory of an argument.
    pub host_results: u64,
    /// The part of the results in host memory that reuses the memory of donated arguments.
    pub host_aliased: u64,
    /// Intermediate values in host memory.
    pub host_temporaries: u64,
}

impl MemoryAnalysis {
    /// Returns the device memory needed at the same time: arguments, results that reuse no
    /// argument's memory, intermediate values and code.
    pub fn total(&self) -> u64 {
        let Self { arguments, results, aliased, temporaries, code, .. } = *self;
        (arguments + results + temporaries + code).saturating_sub(aliased)
    }

    /// Returns the host memory needed at the same time, by the arrays and values that are in it.
    pub fn host_total(&self) -> u64 {
        let all = self.host_arguments + self.host_results + self.host_temporaries;
        all.saturating_sub(self.host_aliased)
    }
}

/// The compiler's analysis of a program: memory, cost, optimized HLO and collectives.
///
/// [`Compiled::report`](crate::jit::Compiled::report) returns it, for a program compiled for this
/// process's devices or for a [topology](crate::parallel::Topology). Clones are cheap.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let (replicated, rows) = (mesh.replicated(), mesh.sharding(p!["data"])?);
/// let mean = jit(|x: Array| x.mean()).in_shardings(&rows).out_shardings(&replicated);
/// let report = mean.lower(Aval::new(DType::F32, [16]))?.compile()?.report();
/// assert_eq!(report.collectives()?.to_string(), "1 all-reduce");
/// println!("{} bytes per device", report.memory_analysis()?.total());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
pub struct CompilerReport {
    executable: oxidax_pjrt::Executable,
    name: String,
}

impl CompilerReport {
    pub(super) fn new(executable: &oxidax_pjrt::Executable, name: &str) -> CompilerReport {
        CompilerReport { executable: executable.clone(), name: name.to_string() }
    }

    fn error(&self, property: &str, error: &oxidax_pjrt::Error) -> Error {
        runtime_error(format!("reading {property} of {}", self.name), error)
    }

    /// Returns the name of the function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the memory that the program uses on each device.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not report it.
    pub fn memory_analysis(&self) -> Result<MemoryAnalysis, Error> {
        let stats = self.executable.memory_stats();
        let stats = stats.map_err(|error| self.error("the memory", &error))?;
        // Plugins write -1 for values that they do not report.
        let bytes = |count: i64| u64::try_from(count).unwrap_or_default();
        Ok(MemoryAnalysis {
            arguments: bytes(stats.arguments),
            results: bytes(stats.results),
            aliased: bytes(stats.aliased),
            temporaries: bytes(stats.temporaries),
            code: bytes(stats.generated_code),
            peak: bytes(stats.peak),
            host_arguments: bytes(stats.host_arguments),
            host_results: bytes(stats.host_results),
            host_aliased: bytes(stats.host_aliased),
            host_temporaries: bytes(stats.host_temporaries),
        })
    }

    /// Returns the compiler's cost estimate for each device, by the compiler's names: `flops`,
    /// `bytes accessed`, and so on. The body of a loop counts once. Not every plugin reports costs;
    /// [`Lowered::cost`](crate::jit::Lowered::cost) counts on the traced program.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not report it.
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, f64>, Error> {
        let costs = self.executable.cost_analysis();
        let costs = costs.map_err(|error| self.error("the cost", &error))?;
        let numbers = costs.into_iter().filter_map(|cost| match cost.value {
            PjrtValue::Float(number) => Some((cost.name, f64::from(number))),
            PjrtValue::Int64(number) => Some((cost.name, number as f64)),
            _ => None,
        });
        Ok(numbers.collect())
    }

    /// Returns the program after the compiler's optimizations: a protocol buffer of type
    /// `HloModuleProtoWithConfig`, which XLA's tools read and print.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide it.
    pub fn optimized_hlo(&self) -> Result<Vec<u8>, Error> {
        let program = self.executable.optimized_program();
        let program = program.map_err(|error| self.error("the optimized HLO", &error))?;
        Ok(program.0)
    }

    /// Returns the program after the compiler's optimizations as text, in the notation of XLA's
    /// dumps: a line for each instruction, with the source line that it was written on. The line of
    /// a fusion ends with the source lines of the operations inside. Constants of more than eight
    /// elements are abridged.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide it.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let f = jit(|x: Array| sin(&x) * 2.0 + 1.0);
    /// let report = f.lower(Aval::new(DType::F32, [64]))?.compile()?.report();
    /// println!("{}", report.as_text()?);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn as_text(&self) -> Result<String, Error> {
        let text = self.executable.optimized_text();
        text.map_err(|error| self.error("the optimized HLO", &error))
    }

    /// Returns the layouts of the arguments of the compiled program, and those of its results.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide the optimized program.
    pub(crate) fn layouts(&self) -> Result<(Vec<Layout>, Vec<Layout>), Error> {
        let layouts = self.executable.entry_layouts();
        let (inputs, outputs) = layouts.map_err(|error| self.error("the layouts", &error))?;
        let all = |layouts: &[BufferLayout]| layouts.iter().map(from_buffer_layout).collect();
        Ok((all(&inputs), all(&outputs)))
    }

    /// Returns the fusions of the optimized program, with the operations inside and the source
    /// lines that they were written on.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide the optimized program.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let f = jit(|x: Array| sin(&x) * 2.0 + 1.0);
    /// let report = f.lower(Aval::new(DType::F32, [64]))?.compile()?.report();
    /// for fusion in report.fusions()? {
    ///     println!("{fusion}");
    /// }
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn fusions(&self) -> Result<Vec<Fusion>, Error> {
        let fusions = self.executable.fusions();
        fusions.map_err(|error| self.error("the optimized HLO", &error))
    }

    /// Returns the collectives of the program after the compiler's optimizations.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide the optimized program.
    pub fn collectives(&self) -> Result<Collectives, Error> {
        let instructions = self.executable.instructions();
        let instructions = instructions.map_err(|error| self.error("the optimized HLO", &error))?;
        // Of an all-reduce in a fusion that scatters, `instructions` changes the opcode only.
        let origins = self.executable.origins(|opcode| Collective::of(opcode).is_some());
        let origins = origins.map_err(|error| self.error("the optimized HLO", &error))?;
        Ok(Collectives::of_instructions(&instructions, origins))
    }
}

impl fmt::Debug for CompilerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompilerReport({})", self.name)
    }
}
