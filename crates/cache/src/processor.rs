//! The host properties that machine code depends on.

use std::collections::BTreeSet;
use std::fs;

/// Fields of `/proc/cpuinfo` that affect instruction selection on x86-64, Arm, RISC-V and POWER.
/// Fields that change at run time or with firmware, such as the frequency, are excluded.
const FIELDS: &[&str] = &[
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "flags",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "Features",
    "isa",
    "uarch",
    "cpu",
];

/// Describes the processors of this host: model, features, and the number that this process may
/// use, because compilers split loops by that number. `None` on systems without this information,
/// where machine code cannot be stored.
///
/// ```
/// if cfg!(target_os = "linux") {
///     let processor = oxidax_cache::processor().expect("/proc/cpuinfo is there");
///     let again = oxidax_cache::processor();
///     assert_eq!(Some(processor), again, "it does not change from call to call");
/// }
/// ```
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let threads = std::thread::available_parallelism().ok()?;
    let allowed = allowed(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    Some(format!("{}\n{allowed:?} {threads}\n{}", std::env::consts::ARCH, described(&text)?))
}

/// Returns the relevant lines without repetition. Cores of two kinds give two sets.
fn described(text: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        FIELDS.contains(&name.trim()).then(|| format!("{}:{}", name.trim(), value.trim()))
    });
    let lines: BTreeSet<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.into_iter().collect::<Vec<_>>().join("\n"))
}

/// Returns the number of processors in the process's affinity mask.
fn allowed(status: &str) -> Option<u32> {
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    mask.trim().chars().filter(|c| *c != ',').map(|c| Some(c.to_digit(16)?.count_ones())).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    #[test]
    fn fields_that_change_at_run_time_are_excluded() {
        let text = "processor\t: 0\nmodel name\t: Fast 1\ncpu MHz\t: 2600.1\nflags\t: avx2 fma\n\n\
                    processor\t: 1\nmodel name\t: Fast 1\ncpu MHz\t: 800.0\nflags\t: avx2 fma\n";
        assert_eq!(described(text).unwrap(), "flags:avx2 fma\nmodel name:Fast 1");
        let later = text.replace("2600.1", "3100.0");
        assert_eq!(described(&later), described(text));
        assert_ne!(described(&text.replace("fma", "")), described(text));
        assert_eq!(described("processor : 0\n"), None, "nothing is known of it");
    }

    #[test]
    fn processors_of_two_kinds_are_both_described() {
        let text = "CPU part\t: 0xd05\n\nCPU part\t: 0xd0a\n\nCPU part\t: 0xd05\n";
        assert_eq!(described(text).unwrap(), "CPU part:0xd05\nCPU part:0xd0a");
    }

    #[test]
    fn affinity_mask_gives_the_number_of_cpus() {
        assert_eq!(allowed("Name:\tx\nCpus_allowed:\tffff,0000000f\n"), Some(20));
        assert_eq!(allowed("Name:\tx\n"), None);
        assert_eq!(allowed("Cpus_allowed:\tzz\n"), None);
    }
}
