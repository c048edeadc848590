//! What the compiler knows of a program that it has compiled.

use super::client::runtime_error;
use super::collectives::Collectives;
use super::executable::Executable;
use crate::core::Error;
use oxidax_pjrt::Value;
use std::collections::BTreeMap;

/// The memory that a compiled program takes on one device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "CompiledMemoryStats")]
pub struct MemoryAnalysis {
    /// All arguments.
    pub arguments: u64,
    /// All results, those that may take over an argument's memory included.
    pub results: u64,
    /// The part of the results that may take over memory of donated arguments.
    pub aliased: u64,
    /// Everything in between.
    pub temporaries: u64,
    /// The program's code; 0 where the plugin does not say.
    pub code: u64,
    /// The most that is in use at one time; 0 where the plugin does not say.
    pub peak: u64,
}

impl MemoryAnalysis {
    /// What must be there at the same time: arguments, results that take over no argument's memory, everything in
    /// between, and the code.
    pub fn total(&self) -> u64 {
        let Self { arguments, results, aliased, temporaries, code, .. } = *self;
        (arguments + results + temporaries + code).saturating_sub(aliased)
    }
}

/// A compiled program, to ask what the compiler knows of it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(super) executable: &'a oxidax_pjrt::Executable,
    pub(super) name: &'a str,
}

impl Asked<'_> {
    fn error(&self, what: &str, error: &oxidax_pjrt::Error) -> Error {
        runtime_error(format!("asking for {what} of {}", self.name), error)
    }

    /// The memory that it takes.
    ///
    /// # Errors
    /// `Runtime` where the plugin does not say.
    pub(crate) fn memory(self) -> Result<MemoryAnalysis, Error> {
        let stats = self.executable.memory_stats();
        let stats = stats.map_err(|error| self.error("the memory", &error))?;
        // A plugin that does not know writes -1.
        let bytes = |count: i64| u64::try_from(count).unwrap_or_default();
        Ok(MemoryAnalysis {
            arguments: bytes(stats.arguments),
            results: bytes(stats.results),
            aliased: bytes(stats.aliased),
            temporaries: bytes(stats.temporaries),
            code: bytes(stats.generated_code),
            peak: bytes(stats.peak),
        })
    }

    /// What it costs, by the compiler's own names.
    ///
    /// # Errors
    /// `Runtime` where the plugin does not say.
    pub(crate) fn costs(self) -> Result<BTreeMap<String, f64>, Error> {
        let costs = self.executable.cost_analysis();
        let costs = costs.map_err(|error| self.error("the cost", &error))?;
        let numbers = costs.into_iter().filter_map(|cost| match cost.value {
            Value::Float(number) => Some((cost.name, f64::from(number))),
            Value::Int64(number) => Some((cost.name, number as f64)),
            _ => None,
        });
        Ok(numbers.collect())
    }

    /// The program after the compiler's optimizations, encoded.
    ///
    /// # Errors
    /// `Runtime` where the plugin does not give it.
    pub(crate) fn optimized_hlo(self) -> Result<Vec<u8>, Error> {
        let program = self.executable.optimized_program();
        let program = program.map_err(|error| self.error("the optimized HLO", &error))?;
        Ok(program.0)
    }

    /// The operations between devices in the program after the compiler's optimizations.
    ///
    /// # Errors
    /// `Runtime` where the plugin does not give the program.
    pub(crate) fn collectives(self) -> Result<Collectives, Error> {
        let found = self.executable.instructions();
        let found = found.map_err(|error| self.error("the optimized HLO", &error))?;
        Ok(Collectives::among(&found))
    }
}

impl Executable {
    /// To ask what the compiler knows of it.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { executable: self.loaded.executable(), name: self.name() }
    }
}
