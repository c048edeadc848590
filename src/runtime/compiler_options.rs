//! [`CompilerOptions`]: flags and effort of the compiler for one program.

use crate::core::{Error, Loc};
use oxidax_pjrt::{CompileOptions, EffortLevel, OptionValue};
use std::collections::BTreeMap;

/// Flags and effort of the compiler for one program.
///
/// Flags are those of XLA and of the plugin, by name, without leading dashes. Their values are
/// booleans, integers, floats or strings; the value of an enum is its name. A name that the plugin
/// does not know is an error of the compilation. Programs compiled with other options are not
/// reused, in memory or from the disk.
///
/// A list of names and values converts to options.
///
/// ```no_run
/// use oxidax::jit::{CompilerOptions, EffortLevel};
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| sin(&x)).compiler_options([("xla_cpu_enable_fast_math", true)]);
/// f.call(ones([4]))?;
/// let quick = CompilerOptions::new().optimization_level(EffortLevel::O1);
/// jit(|x: Array| sin(&x)).compiler_options(quick).call(ones([4]))?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(alias = "compiler_options")]
pub struct CompilerOptions {
    flags: BTreeMap<String, OptionValue>,
    exec_time_optimization_effort: Option<f32>,
    memory_fitting_effort: Option<f32>,
    optimization_level: Option<EffortLevel>,
    memory_fitting_level: Option<EffortLevel>,
}

impl CompilerOptions {
    /// Returns options without any flag: the compiler's defaults.
    pub fn new() -> CompilerOptions {
        CompilerOptions::default()
    }

    /// Sets a flag.
    ///
    /// ```
    /// use oxidax::jit::CompilerOptions;
    /// let options = CompilerOptions::new().set("xla_backend_optimization_level", 1);
    /// assert_eq!(options, [("xla_backend_optimization_level", 1)].into());
    /// ```
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.flags.insert(name.into(), value.into());
        self
    }

    /// Sets the effort spent on shortening the run time: from -1.0, the least, over 0.0, the
    /// compiler's default, to 1.0. Other numbers are an error of the compilation.
    #[must_use]
    #[doc(alias = "jax_exec_time_optimization_effort")]
    pub fn exec_time_optimization_effort(mut self, effort: f32) -> Self {
        self.exec_time_optimization_effort = Some(effort);
        self
    }

    /// Sets the effort spent on fitting the program into memory: from -1.0, the least, over 0.0,
    /// the compiler's default, to 1.0. Other numbers are an error of the compilation.
    #[must_use]
    #[doc(alias = "jax_memory_fitting_effort")]
    pub fn memory_fitting_effort(mut self, effort: f32) -> Self {
        self.memory_fitting_effort = Some(effort);
        self
    }

    /// Sets the level of optimization.
    #[must_use]
    #[doc(alias = "jax_optimization_level")]
    pub fn optimization_level(mut self, level: EffortLevel) -> Self {
        self.optimization_level = Some(level);
        self
    }

    /// Sets the level of effort spent on fitting the program into memory.
    #[must_use]
    #[doc(alias = "jax_memory_fitting_level")]
    pub fn memory_fitting_level(mut self, level: EffortLevel) -> Self {
        self.memory_fitting_level = Some(level);
        self
    }

    /// Returns true if nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == CompilerOptions::default()
    }

    /// Returns each option with its value as text, for reports.
    pub(crate) fn described(&self) -> Vec<(String, String)> {
        let flags = self.flags.iter();
        let mut all: Vec<(String, String)> = flags
            .map(|(name, value)| (format!("compiler option {name}"), format!("{value:?}")))
            .collect();
        let efforts = [
            ("exec_time_optimization_effort", self.exec_time_optimization_effort),
            ("memory_fitting_effort", self.memory_fitting_effort),
        ];
        all.extend(efforts.iter().filter_map(|(name, effort)| {
            effort.map(|effort| ((*name).to_string(), effort.to_string()))
        }));
        let levels = [
            ("optimization_level", self.optimization_level),
            ("memory_fitting_level", self.memory_fitting_level),
        ];
        all.extend(levels.iter().filter_map(|(name, level)| {
            level.map(|level| ((*name).to_string(), format!("{level:?}")))
        }));
        all
    }

    /// Returns true if the flag is set.
    pub(super) fn sets(&self, flag: &str) -> bool {
        self.flags.contains_key(flag)
    }

    /// Returns these options with those of `other`, which win.
    #[must_use]
    pub(crate) fn merged(&self, other: &CompilerOptions) -> CompilerOptions {
        let mut flags = self.flags.clone();
        flags.extend(other.flags.iter().map(|(name, value)| (name.clone(), value.clone())));
        CompilerOptions {
            flags,
            exec_time_optimization_effort: other
                .exec_time_optimization_effort
                .or(self.exec_time_optimization_effort),
            memory_fitting_effort: other.memory_fitting_effort.or(self.memory_fitting_effort),
            optimization_level: other.optimization_level.or(self.optimization_level),
            memory_fitting_level: other.memory_fitting_level.or(self.memory_fitting_level),
        }
    }

    /// Writes the options over those of the platform.
    ///
    /// # Errors
    /// `Compile` for an empty name and one with leading dashes.
    pub(super) fn apply(
        &self,
        name: &str,
        options: CompileOptions,
    ) -> Result<CompileOptions, Error> {
        if let Some(flag) = self.flags.keys().find(|flag| flag.is_empty() || flag.starts_with('-'))
        {
            let message = format!(
                "{name}: compiler option {flag:?} is not a flag\n  help: write the name without \
                 leading dashes: {:?}",
                flag.trim_start_matches('-')
            );
            return Err(Error::Compile { message, dump: None, loc: Loc::UNKNOWN });
        }
        let mut options = options;
        let flags = self.flags.iter().map(|(name, value)| (name.clone(), value.clone()));
        options.overrides.extend(flags);
        if let Some(effort) = self.exec_time_optimization_effort {
            options.exec_time_optimization_effort = effort;
        }
        if let Some(effort) = self.memory_fitting_effort {
            options.memory_fitting_effort = effort;
        }
        options.optimization_level = self.optimization_level.or(options.optimization_level);
        options.memory_fitting_level = self.memory_fitting_level.or(options.memory_fitting_level);
        Ok(options)
    }

    /// Returns an error that names the flag which the compiler refused, if it names one of them.
    pub(super) fn refused(&self, name: &str, error: &oxidax_pjrt::Error) -> Option<Error> {
        let message = error.to_string();
        let flag = self.flags.keys().find(|flag| message.contains(flag.as_str()))?;
        let message = format!(
            "{name}: the plugin refuses the compiler option `{flag}` = {:?}: {message}\n  help: \
             flags are those of XLA and of this plugin; see docs/ahead-of-time.md",
            self.flags[flag]
        );
        Some(Error::Compile { message, dump: None, loc: Loc::UNKNOWN })
    }
}

impl<N: Into<String>, V: Into<OptionValue>, const COUNT: usize> From<[(N, V); COUNT]>
    for CompilerOptions
{
    fn from(flags: [(N, V); COUNT]) -> CompilerOptions {
        let set = |options: CompilerOptions, (name, value)| options.set(name, value);
        flags.into_iter().fold(CompilerOptions::new(), set)
    }
}

impl From<&CompilerOptions> for CompilerOptions {
    fn from(options: &CompilerOptions) -> CompilerOptions {
        options.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_options_win_and_change_the_encoding() {
        let first = CompilerOptions::from([("a", 1)]).optimization_level(EffortLevel::O1);
        let both = first.merged(&CompilerOptions::from([("a", 2), ("b", 3)]));
        assert_eq!(both.flags, [("a".into(), 2.into()), ("b".into(), 3.into())].into());
        assert_eq!(both.optimization_level, Some(EffortLevel::O1));
        let encoded = |options: &CompilerOptions| {
            options.apply("f", CompileOptions::default()).unwrap().encode().unwrap()
        };
        // The bytes are part of the disk cache's keys.
        let distinct = [CompilerOptions::new(), first.clone(), both]
            .iter()
            .map(encoded)
            .collect::<std::collections::BTreeSet<_>>();
        assert_eq!(distinct.len(), 3);
        assert!(CompilerOptions::new().is_empty() && !first.is_empty());
    }

    #[test]
    fn names_with_dashes_are_refused() {
        let options = CompilerOptions::from([("--xla_dump_to", "x")]);
        let error = options.apply("f", CompileOptions::default()).unwrap_err().to_string();
        assert!(error.contains("\"xla_dump_to\""), "{error}");
    }
}
