//! What the environment says about the runtime. Read here, once; where plugins are looked for is
//! read in `oxidax-plugin`.

use super::cuda::CudaOptions;
use crate::core::Error;

/// Settings of the process's client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuntimeConfig {
    /// How many devices the CPU client shows: `OXIDAX_CPU_DEVICES`, 1 by default.
    pub(super) cpu_devices: i64,
    /// What the CUDA client is told: `OXIDAX_CUDA_PREALLOCATE` and what else [`CudaOptions`] lists.
    pub(super) cuda: CudaOptions,
}

impl RuntimeConfig {
    /// Reads the environment.
    ///
    /// # Errors
    /// `Plugin` if a variable does not make sense.
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
        let cuda = CudaOptions::from_variables(|name| get(&format!("OXIDAX_CUDA_{name}")))?;
        Ok(RuntimeConfig { cpu_devices, cuda })
    }
}

/// The variables of the environment that say which processes run a program.
#[cfg(feature = "distributed")]
pub(crate) fn cluster_variables() -> std::collections::BTreeMap<String, String> {
    const NAMES: [&str; 19] = [
        "HOSTNAME",
        "JOB_COMPLETION_INDEX",
        "KUBERNETES_SERVICE_HOST",
        "MEGASCALE_COORDINATOR_ADDRESS",
        "MEGASCALE_NUM_SLICES",
        "MEGASCALE_SLICE_ID",
        "OXIDAX_COORDINATOR",
        "OXIDAX_PROCESSES",
        "OXIDAX_PROCESS_ID",
        "OXIDAX_SERVICE",
        "SLURM_JOB_ID",
        "SLURM_JOB_NODELIST",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_STEP_ID",
        "SLURM_STEP_NODELIST",
        "TPU_PROCESS_ADDRESSES",
        "TPU_WORKER_HOSTNAMES",
        "TPU_WORKER_ID",
    ];
    let set = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    // Schedulers set what does not apply to nothing.
    NAMES.iter().filter_map(|name| set(name)).filter(|(_, text)| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_cpu_devices_is_checked() {
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
