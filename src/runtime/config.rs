//! Environment variables of the runtime.
//!
//! `oxidax-plugin` reads those that find plugins, `oxidax-cache` those of the disk cache.

use super::cpu_malloc::CpuMalloc;
use super::cuda::CudaOptions;
use crate::core::options::{
    DTypePromotion, EnvironmentOptions, KeyImpl, RankPromotion, TransferGuard,
};
use crate::core::{CheckSet, Error, Precision};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Settings of the process's clients.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuntimeConfig {
    /// Number of devices of the CPU client: `OXIDAX_CPU_DEVICES`, 1 by default.
    pub(super) cpu_devices: i64,
    /// The allocator of large blocks of CPU memory: `OXIDAX_CPU_MALLOC`.
    pub(super) cpu_malloc: Option<CpuMalloc>,
    /// True if arrays are tracked for `live_arrays`: `OXIDAX_TRACK_ARRAYS`, 0 by default.
    pub(super) track_arrays: bool,
    /// The folder in which failing calls are recorded: `OXIDAX_RECORD_FAILURES`.
    pub(super) record_failures: Option<PathBuf>,
    /// The folder to which lowered programs are written: `OXIDAX_DUMP_IR_TO`.
    pub(super) dump_ir_to: Option<PathBuf>,
    /// The default precision of matrix products: `OXIDAX_DEFAULT_MATMUL_PRECISION`.
    pub(super) matmul_precision: Precision,
    /// Settings of operations, transfers and logs: `OXIDAX_RANK_PROMOTION` and the others of
    /// [`options_from`].
    pub(super) options: EnvironmentOptions,
    /// Options of the CUDA client: `OXIDAX_CUDA_PREALLOCATE` and the others of [`CudaOptions`].
    pub(super) cuda: CudaOptions,
}

impl RuntimeConfig {
    /// Reads the environment.
    ///
    /// # Errors
    /// `Plugin` if a variable is invalid.
    pub(super) fn from_env() -> Result<RuntimeConfig, Error> {
        RuntimeConfig::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<RuntimeConfig, Error> {
        let cpu_devices = match get("OXIDAX_CPU_DEVICES") {
            None => 1,
            Some(text) => match text.trim().parse() {
                Ok(count @ 1..=1024) => count,
                _ => {
                    return Err(Error::Plugin(format!(
                        "OXIDAX_CPU_DEVICES is `{text}`; it must be a number from 1 to 1024"
                    )));
                }
            },
        };
        let cpu_malloc = CpuMalloc::from_variable(get("OXIDAX_CPU_MALLOC").as_deref())?;
        let track_arrays = choice(&get, "OXIDAX_TRACK_ARRAYS", SWITCH)?.unwrap_or(false);
        let matmul_precision = match get("OXIDAX_DEFAULT_MATMUL_PRECISION")
            .as_deref()
            .map(str::trim)
        {
            None | Some("" | "default") => Precision::Default,
            Some("high") => Precision::High,
            Some("highest") => Precision::Highest,
            Some(text) => {
                return Err(Error::Plugin(format!(
                    "OXIDAX_DEFAULT_MATMUL_PRECISION is `{text}`; it must be `default`, `high` or \
                     `highest`"
                )));
            }
        };
        let cuda = CudaOptions::from_variables(|name| get(&format!("OXIDAX_CUDA_{name}")))?;
        let record_failures = get("OXIDAX_RECORD_FAILURES").filter(|text| !text.is_empty());
        Ok(RuntimeConfig {
            cpu_devices,
            cpu_malloc,
            track_arrays,
            record_failures: record_failures.map(PathBuf::from),
            dump_ir_to: get("OXIDAX_DUMP_IR_TO").filter(|text| !text.is_empty()).map(PathBuf::from),
            matmul_precision,
            options: options_from(&get)?,
            cuda,
        })
    }
}

/// The values of a variable that turns something on.
const SWITCH: &[(&str, bool)] = &[("1", true), ("0", false)];

/// Reads a variable that has one of a few values. Returns `None` if it is not set.
fn choice<T: Copy>(
    get: &impl Fn(&str) -> Option<String>,
    name: &str,
    values: &[(&str, T)],
) -> Result<Option<T>, Error> {
    let Some(text) = get(name) else { return Ok(None) };
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if let Some((_, value)) = values.iter().find(|(name, _)| *name == text) {
        return Ok(Some(*value));
    }
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let message = format!("{name} is `{text}`; it must be {}", names.join(" or "));
    Err(Error::Plugin(message))
}

/// Reads the settings of operations, transfers and logs.
fn options_from(get: &impl Fn(&str) -> Option<String>) -> Result<EnvironmentOptions, Error> {
    const RANKS: &[(&str, RankPromotion)] = &[
        ("allow", RankPromotion::Allow),
        ("warn", RankPromotion::Warn),
        ("raise", RankPromotion::Raise),
    ];
    const DTYPES: &[(&str, DTypePromotion)] =
        &[("standard", DTypePromotion::Standard), ("strict", DTypePromotion::Strict)];
    const GUARDS: &[(&str, TransferGuard)] = &[
        ("allow", TransferGuard::Allow),
        ("log", TransferGuard::Log),
        ("disallow", TransferGuard::Disallow),
        ("log_explicit", TransferGuard::LogExplicit),
        ("disallow_explicit", TransferGuard::DisallowExplicit),
    ];
    const GENERATORS: &[(&str, KeyImpl)] = &[
        ("threefry2x32", KeyImpl::Threefry),
        ("rbg", KeyImpl::Rbg),
        ("unsafe_rbg", KeyImpl::UnsafeRbg),
    ];
    let all = choice(get, "OXIDAX_TRANSFER_GUARD", GUARDS)?.unwrap_or_default();
    let guard = |direction: &str| {
        let name = format!("OXIDAX_TRANSFER_GUARD_{direction}");
        Ok::<_, Error>(choice(get, &name, GUARDS)?.unwrap_or(all))
    };
    let switch = |name: &str| Ok::<_, Error>(choice(get, name, SWITCH)?.unwrap_or(false));
    Ok(EnvironmentOptions {
        rank_promotion: choice(get, "OXIDAX_RANK_PROMOTION", RANKS)?.unwrap_or_default(),
        dtype_promotion: choice(get, "OXIDAX_DTYPE_PROMOTION", DTYPES)?.unwrap_or_default(),
        transfer_guards: [
            guard("HOST_TO_DEVICE")?,
            guard("DEVICE_TO_DEVICE")?,
            guard("DEVICE_TO_HOST")?,
        ],
        debug_nans: switch("OXIDAX_DEBUG_NANS")?,
        debug_infs: switch("OXIDAX_DEBUG_INFS")?,
        disable_jit: switch("OXIDAX_DISABLE_JIT")?,
        log_compiles: switch("OXIDAX_LOG_COMPILES")?,
        explain_cache_misses: switch("OXIDAX_EXPLAIN_CACHE_MISSES")?,
        default_prng_impl: choice(get, "OXIDAX_DEFAULT_PRNG_IMPL", GENERATORS)?.unwrap_or_default(),
        error_checking: error_checking_from(get)?,
        log_checkpoint_residuals: switch("OXIDAX_LOG_CHECKPOINT_RESIDUALS")?,
        raise_persistent_cache_errors: switch("OXIDAX_RAISE_PERSISTENT_CACHE_ERRORS")?,
    })
}

/// Reads the errors that all functions check for.
fn error_checking_from(get: &impl Fn(&str) -> Option<String>) -> Result<CheckSet, Error> {
    const BEHAVIORS: &[(&str, bool)] = &[("ignore", false), ("raise", true)];
    let errors = [("OOB", CheckSet::INDEX), ("NAN", CheckSet::NAN), ("DIVIDE", CheckSet::DIV)];
    let mut all = CheckSet::NONE;
    for (name, errors) in errors {
        let name = format!("OXIDAX_ERROR_CHECKING_BEHAVIOR_{name}");
        if choice(get, &name, BEHAVIORS)?.unwrap_or(false) {
            all = all | errors;
        }
    }
    Ok(all)
}

/// Returns the settings of operations, transfers and logs that the environment sets. An invalid
/// variable is an error once a client is created, and until then has no effect.
pub(crate) fn options() -> EnvironmentOptions {
    RuntimeConfig::from_env()
        .map_or_else(|_| EnvironmentOptions::default(), |config| config.options)
}

/// Returns the default precision of matrix products that the environment sets. An invalid variable
/// is an error once a client is created, and until then has no effect.
pub(crate) fn matmul_precision() -> Precision {
    RuntimeConfig::from_env().map_or(Precision::Default, |config| config.matmul_precision)
}

/// The environment variables that a plugin's compiler reads, as they were when its client was
/// created. Ordered, so that equal variables print equally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompilerVariables(BTreeMap<String, OsString>);

impl CompilerVariables {
    /// Reads the environment.
    pub(super) fn from_env() -> CompilerVariables {
        CompilerVariables::from_variables(std::env::vars_os())
    }

    fn from_variables(all: impl Iterator<Item = (OsString, OsString)>) -> CompilerVariables {
        /// Variables for the number of threads of the CPU client, which its compiler splits loops
        /// by.
        const THREADS: [&str; 2] = ["NPROC", "PJRT_NPROC"];
        let mut variables = BTreeMap::new();
        for (name, value) in all {
            let Some(name) = name.to_str() else { continue };
            let is_compiler_variable =
                ["XLA_", "LIBTPU_", "TF_XLA_"].iter().any(|start| name.starts_with(start));
            if !is_compiler_variable && !THREADS.contains(&name) {
                continue;
            }
            // `XLA_FLAGS` may name a file that contains the flags.
            if name == "XLA_FLAGS"
                && !value.to_string_lossy().trim_start().starts_with('-')
                && let Ok(flags) = std::fs::read_to_string(&value)
            {
                variables.insert("the file of XLA_FLAGS".to_owned(), flags.into());
            }
            variables.insert(name.to_owned(), value);
        }
        CompilerVariables(variables)
    }

    /// Returns true if the flags make the compiler dump its programs to files.
    pub(super) fn request_dumps(&self) -> bool {
        let flags = self.0.iter().filter(|(name, _)| name.ends_with("XLA_FLAGS"));
        flags.into_iter().any(|(_, value)| value.to_string_lossy().contains("xla_dump_"))
    }
}

/// Returns the environment variables that describe the processes of a program.
#[cfg(feature = "distributed")]
pub(crate) fn cluster_variables() -> std::collections::BTreeMap<String, String> {
    const NAMES: [&str; 32] = [
        "CUDA_VISIBLE_DEVICES",
        "GCE_METADATA_HOST",
        "HOSTNAME",
        "JOB_COMPLETION_INDEX",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "MEGASCALE_COORDINATOR_ADDRESS",
        "MEGASCALE_NUM_SLICES",
        "MEGASCALE_SLICE_ID",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_MCA_orte_hnp_uri",
        "OXIDAX_COORDINATOR",
        "OXIDAX_LOCAL_DEVICE_IDS",
        "OXIDAX_PROCESSES",
        "OXIDAX_PROCESS_ID",
        "OXIDAX_SERVICE",
        "SLURM_JOB_ID",
        "SLURM_JOB_NODELIST",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_STEP_ID",
        "SLURM_STEP_NODELIST",
        "SLURM_STEP_TASKS_PER_NODE",
        "TPU_PROCESS_ADDRESSES",
        "TPU_SKIP_MDS_QUERY",
        "TPU_WORKER_HOSTNAMES",
        "TPU_WORKER_ID",
    ];
    let set = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    // Schedulers set variables that do not apply to the empty string.
    NAMES.iter().filter_map(|name| set(name)).filter(|(_, text)| !text.is_empty()).collect()
}

/// Returns true if the host has TPU chips, without loading a plugin.
#[cfg(feature = "distributed")]
pub(crate) fn host_has_tpu() -> bool {
    let config = oxidax_plugin::Config::from_env();
    config.is_ok_and(|config| oxidax_plugin::devices::TpuHost::detect(&config).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compilers(variables: &[(&str, &str)]) -> CompilerVariables {
        let pair = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
        CompilerVariables::from_variables(variables.iter().map(pair))
    }

    #[test]
    fn only_compiler_variables_are_compared() {
        let flags = compilers(&[("XLA_FLAGS", "--xla_a=1"), ("HOME", "/home/ada")]);
        assert_eq!(flags, compilers(&[("PATH", "/bin"), ("XLA_FLAGS", "--xla_a=1")]));
        assert_ne!(flags, compilers(&[("XLA_FLAGS", "--xla_a=2")]));
        assert_ne!(flags, compilers(&[]));
        for name in ["LIBTPU_INIT_ARGS", "NPROC", "PJRT_NPROC", "XLA_PYTHON_CLIENT_ALLOCATOR"] {
            assert_ne!(compilers(&[(name, "1")]), compilers(&[]), "{name}");
        }
    }

    #[test]
    fn flags_file_is_compared_by_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("flags");
        let flags = |text: &str| {
            std::fs::write(&file, text).expect("written");
            compilers(&[("XLA_FLAGS", file.to_str().expect("a path in UTF-8"))])
        };
        assert_ne!(flags("--xla_a=1"), flags("--xla_a=2"));
        assert!(flags("--xla_dump_to=here").request_dumps());
        assert!(!flags("--xla_a=1").request_dumps());
        assert!(compilers(&[("XLA_FLAGS", "--xla_a=1 --xla_dump_hlo_as_text")]).request_dumps());
    }

    #[test]
    fn invalid_number_of_cpu_devices_is_an_error() {
        let devices = |text: Option<&str>| {
            let get = |name: &str| text.filter(|_| name == "OXIDAX_CPU_DEVICES").map(str::to_owned);
            RuntimeConfig::from_variables(get).map(|config| config.cpu_devices)
        };
        assert_eq!(devices(None).expect("unset is fine"), 1);
        assert_eq!(devices(Some("8")).expect("8 is fine"), 8);
        for wrong in ["0", "-1", "many", "", "100000"] {
            let error = devices(Some(wrong)).expect_err("out of range").to_string();
            assert!(error.contains("from 1 to 1024"), "{error}");
        }
    }
}
