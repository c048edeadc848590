//! Options of XLA's CPU compiler about the copies that it inserts.

use super::compiler_options::CompilerOptions;
use crate::passes::StableHloModule;
use oxidax_pjrt::CompileOptions;

/// Chooses when functions are copied for their calls. The pinned plugin has the option, older ones
/// (C API 0.81) do not.
pub(super) const PRESET: &str = "xla_cpu_opt_preset";

/// Analyses in which regions of a program a buffer is live.
const REGIONS: &str = "xla_cpu_copy_insertion_use_region_analysis";

/// Sets the options about copies for a program.
///
/// - The memory of a program is planned for copies of its functions, one for each call. By default
///   XLA's CPU compiler makes the copies first, so that each pass works on all of them. With
///   [`PRESET`] it makes them after fusion. The kernels are equal, except that `rsqrt` is the
///   quotient `1 / sqrt(x)` instead of an approximation that is refined.
/// - A donated argument can hold a result if nothing reads it later. By default the compiler copies
///   a weight that two operations read, its update and a gradient, although it could run the
///   gradient first. With [`REGIONS`] it orders them, and copies nothing. Programs for one device
///   have the option unless they have loops, branches or calls, see [`is_straight_line`].
pub(super) fn with_copy_options(
    options: CompileOptions,
    module: &StableHloModule,
) -> CompileOptions {
    let options = match module.facts.repeated_parts.is_empty() {
        true => options,
        false => options.with_override(PRESET, "CPU_OPT_PRESET_FAST_COMPILE"),
    };
    let is_alone = options.num_replicas == 1 && options.num_partitions == 1;
    match is_alone && module.donatable && is_straight_line(&module.text) {
        true => options.with_override(REGIONS, true),
        false => options,
    }
}

/// Returns true if a module has no loops, branches or calls. In a loop, the analysis of regions (C
/// API 0.115) lets a step overwrite an array that later steps read.
fn is_straight_line(text: &str) -> bool {
    !["stablehlo.while", "stablehlo.case", "stablehlo.if", "func.call"]
        .iter()
        .any(|name| text.contains(name))
}

/// Returns the options for a plugin whose error shows that it does not have one of these; `None`
/// for other errors, and if the user set the option.
pub(super) fn without_unknown(
    mut options: CompileOptions,
    error: &str,
    by_user: &CompilerOptions,
) -> Option<CompileOptions> {
    if !error.contains("No such compile option") {
        return None;
    }
    let unknown = [PRESET, REGIONS].into_iter().find(|option| error.contains(option))?;
    (!by_user.sets(unknown) && options.overrides.remove(unknown).is_some()).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Program;
    use crate::passes::{LowerOptions, lower_with};
    use crate::prelude::*;

    const UNKNOWN: &str = "INVALID_ARGUMENT: No such compile option: 'xla_cpu_opt_preset'";

    #[test]
    fn modules_with_control_flow_are_told_apart() {
        let lower = |program: &Program| lower_with(program, "f", "cpu", LowerOptions::default());
        let x = || Array::from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let straight = make_program(|x: Array| sin(&x), x()).unwrap();
        assert!(is_straight_line(&lower(&straight).unwrap().text));
        let sums = make_program(|x: Array| cummax(&x, 0), x()).unwrap();
        assert!(!is_straight_line(&lower(&sums).unwrap().text));
        let branches =
            |x: Array| cond(gt(x.sum(), 0.0), |x: Array| sin(&x), |x: Array| x, x.clone());
        let branches = make_program(branches, x()).unwrap();
        assert!(!is_straight_line(&lower(&branches).unwrap().text));
    }

    #[test]
    fn unknown_options_are_left_out() {
        let options = || {
            let options = CompileOptions::default().with_override("xla_a", true);
            let options = options.with_override(REGIONS, true);
            options.with_override(PRESET, "CPU_OPT_PRESET_FAST_COMPILE")
        };
        let none = CompilerOptions::new();
        let left = without_unknown(options(), UNKNOWN, &none).unwrap();
        let expected = CompileOptions::default().with_override("xla_a", true);
        assert_eq!(left, expected.clone().with_override(REGIONS, true));
        // There is nothing to leave out a second time.
        assert_eq!(without_unknown(left.clone(), UNKNOWN, &none), None);
        let error = UNKNOWN.replace(PRESET, REGIONS);
        assert_eq!(without_unknown(left, &error, &none), Some(expected));
        let other = "INVALID_ARGUMENT: No such compile option: 'xla_b'";
        assert_eq!(without_unknown(options(), other, &none), None);
        let user = CompilerOptions::from([(PRESET, "CPU_OPT_PRESET_DEFAULT")]);
        assert_eq!(without_unknown(options(), UNKNOWN, &user), None);
    }
}
