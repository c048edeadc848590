//! The compiler option that makes XLA optimize functions before it copies them for their calls.

use super::compiler_options::CompilerOptions;
use crate::passes::StableHloModule;
use oxidax_pjrt::CompileOptions;

/// An option of XLA's CPU compiler. The pinned plugin has it, older ones (C API 0.81) do not.
pub(super) const PRESET: &str = "xla_cpu_opt_preset";

/// Makes the compiler optimize repeated parts once.
///
/// The memory of a program is planned for copies of its functions, one for each call. By default
/// XLA's CPU compiler makes the copies first, so that each pass works on all of them. With this
/// value it makes them after fusion. The kernels are equal, except that `rsqrt` is the quotient
/// `1 / sqrt(x)` instead of an approximation that is refined.
pub(super) fn with_late_copies(
    options: CompileOptions,
    module: &StableHloModule,
) -> CompileOptions {
    match module.facts.repeated_parts.is_empty() {
        true => options,
        false => options.with_override(PRESET, "CPU_OPT_PRESET_FAST_COMPILE"),
    }
}

/// Returns the options for a plugin whose error shows that it does not have this one; `None` for
/// other errors, and if the user set the option.
pub(super) fn without_late_copies(
    mut options: CompileOptions,
    error: &str,
    by_user: &CompilerOptions,
) -> Option<CompileOptions> {
    let is_unknown = error.contains("No such compile option") && error.contains(PRESET);
    (is_unknown && !by_user.sets(PRESET) && options.overrides.remove(PRESET).is_some())
        .then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: &str = "INVALID_ARGUMENT: No such compile option: 'xla_cpu_opt_preset'";

    #[test]
    fn an_unknown_option_is_left_out() {
        let options = || {
            let options = CompileOptions::default().with_override("xla_a", true);
            options.with_override(PRESET, "CPU_OPT_PRESET_FAST_COMPILE")
        };
        let none = CompilerOptions::new();
        let left = without_late_copies(options(), UNKNOWN, &none).unwrap();
        assert_eq!(left, CompileOptions::default().with_override("xla_a", true));
        // There is nothing to leave out a second time.
        assert_eq!(without_late_copies(left, UNKNOWN, &none), None);
        let other = "INVALID_ARGUMENT: No such compile option: 'xla_b'";
        assert_eq!(without_late_copies(options(), other, &none), None);
        let user = CompilerOptions::from([(PRESET, "CPU_OPT_PRESET_DEFAULT")]);
        assert_eq!(without_late_copies(options(), UNKNOWN, &user), None);
    }
}
