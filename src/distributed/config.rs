//! Configuration of the processes: explicit settings, the environment, and defaults.

use super::cluster::{
    ClusterDetection, KUBERNETES, Machine, Variables, count_of_kubernetes, detect,
    detect_by_metadata,
};
use super::rendezvous::Failure;
use crate::core::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The processes of this program, their coordinator, and time-outs.
///
/// Settings that are missing are read from the environment: from `OXIDAX_COORDINATOR`,
/// `OXIDAX_PROCESSES` and `OXIDAX_PROCESS_ID`, otherwise from the variables of Cloud TPU, Open MPI,
/// SLURM or Kubernetes, otherwise from the metadata server of a Cloud TPU VM (all listed in
/// `docs/several-hosts.md`). With the feature `kubernetes`, the number of pods comes from the
/// Kubernetes API. The metadata server is asked only if the host has TPU chips or
/// `GCE_METADATA_HOST` is set, and has 20 seconds.
///
/// ```
/// use oxidax::distributed::ClusterConfig;
/// use std::time::Duration;
/// let config = ClusterConfig::new()
///     .coordinator_address("10.0.0.1:7400")
///     .num_processes(4)
///     .process_id(2)
///     .initialization_timeout(Duration::from_secs(120));
/// # drop(config);
/// ```
#[derive(Clone, Default)]
#[must_use = "a configuration has no effect until it is passed to `initialize`"]
pub struct ClusterConfig {
    coordinator_address: Option<String>,
    coordinator_bind_address: Option<String>,
    num_processes: Option<usize>,
    process_id: Option<usize>,
    local_device_ids: Option<Vec<u32>>,
    cluster_detection_method: ClusterDetection,
    slice_index: Option<u32>,
    initialization_timeout: Option<Duration>,
    timeout: Option<Duration>,
    heartbeat_timeout: Option<Duration>,
    shutdown_timeout: Option<Duration>,
    store_limit: Option<u64>,
    on_lost: Option<Arc<OnLost>>,
}

/// A function called when a process is lost.
pub(super) type OnLost = dyn Fn(&Error) + Send + Sync;

/// A complete configuration.
#[derive(Clone)]
pub(super) struct ResolvedConfig {
    /// `host:port`.
    pub(super) coordinator: String,
    /// The address that the coordinator listens at.
    pub(super) bind: String,
    pub(super) count: u32,
    pub(super) index: u32,
    /// The GPUs of this process. By default all of the host.
    pub(super) local_device_ids: Option<Vec<u32>>,
    /// The slice of the GPUs of this process.
    pub(super) slice_index: Option<u32>,
    pub(super) run: String,
    pub(super) initialization_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) heartbeat_timeout: Duration,
    pub(super) shutdown_timeout: Duration,
    pub(super) store_limit: u64,
    pub(super) on_lost: Option<Arc<OnLost>>,
}

/// Limits of time-outs.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);

impl ClusterConfig {
    /// Creates a configuration without settings: everything is read from the environment.
    pub fn new() -> ClusterConfig {
        ClusterConfig::default()
    }

    /// Sets the address of process 0 for the other processes, as `host:port`. IPv6 addresses need
    /// brackets.
    pub fn coordinator_address(mut self, address: impl Into<String>) -> ClusterConfig {
        self.coordinator_address = Some(address.into());
        self
    }

    /// Sets the address that process 0 listens at, if it differs, for example behind network
    /// address translation. `[::]:PORT` means every address of the host, which exposes the
    /// coordinator to every network of the host.
    pub fn coordinator_bind_address(mut self, address: impl Into<String>) -> ClusterConfig {
        self.coordinator_bind_address = Some(address.into());
        self
    }

    /// Sets the number of processes.
    pub fn num_processes(mut self, count: usize) -> ClusterConfig {
        self.num_processes = Some(count);
        self
    }

    /// Sets the number of this process, from 0.
    pub fn process_id(mut self, index: usize) -> ClusterConfig {
        self.process_id = Some(index);
        self
    }

    /// Sets the GPUs of this process by their numbers on the host, for several processes per host.
    ///
    /// By default, process `n` of those that SLURM or Open MPI started on a host uses GPU `n`, and
    /// a process that is alone on its host uses all. `visible_devices` of `CudaOptions` has
    /// priority. CPUs and TPUs ignore this setting.
    ///
    /// ```
    /// use oxidax::distributed::ClusterConfig;
    /// let config = ClusterConfig::new().local_device_ids([0, 1]);
    /// # drop(config);
    /// ```
    pub fn local_device_ids(mut self, ids: impl Into<Vec<u32>>) -> ClusterConfig {
        self.local_device_ids = Some(ids.into());
        self
    }

    /// Sets the launcher whose environment describes the processes. By default it is the first that
    /// is found. A SLURM job inside which Kubernetes or Open MPI starts the processes needs it.
    ///
    /// ```
    /// use oxidax::distributed::{ClusterConfig, ClusterDetection};
    /// let config = ClusterConfig::new().cluster_detection_method(ClusterDetection::OpenMpi);
    /// # drop(config);
    /// ```
    pub fn cluster_detection_method(mut self, method: ClusterDetection) -> ClusterConfig {
        self.cluster_detection_method = method;
        self
    }

    /// Sets the slice of this process's GPUs, from 0: hosts of one slice share a fast network. All
    /// processes must set it, or none; by default the plugin derives the slices.
    /// [`Device::slice_index`](crate::core::Device::slice_index) returns it, and
    /// [`Mesh::across_slices`](crate::core::Mesh::across_slices) arranges devices by it. CPUs and
    /// TPUs ignore this setting.
    pub fn slice_index(mut self, index: u32) -> ClusterConfig {
        self.slice_index = Some(index);
        self
    }

    /// Sets the time-out of [`initialize`](super::initialize). The default is 5 minutes.
    pub fn initialization_timeout(mut self, timeout: Duration) -> ClusterConfig {
        self.initialization_timeout = Some(timeout);
        self
    }

    /// Sets the time-out of other operations: barriers, gathering, keys. The default is 5 minutes.
    pub fn timeout(mut self, timeout: Duration) -> ClusterConfig {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long a process may be silent before it is considered dead, although its connection
    /// is open. That happens if its host is unreachable or the process is stopped. The default is
    /// one minute. The coordinator's setting applies to all processes.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> ClusterConfig {
        self.heartbeat_timeout = Some(timeout);
        self
    }

    /// Sets the time-out of [`shutdown`](super::shutdown). The default is 5 minutes.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> ClusterConfig {
        self.shutdown_timeout = Some(timeout);
        self
    }

    /// Sets the memory limit of the coordinator for all processes together: values under keys, and
    /// data being gathered. The default is 1 GiB. The coordinator's setting applies.
    pub fn store_limit(mut self, bytes: u64) -> ClusterConfig {
        self.store_limit = Some(bytes);
        self
    }

    /// Sets a function that is called on its own thread as soon as a process is lost.
    ///
    /// Operations of this module that wait end with an error. A device that waits for a collective
    /// with the dead process does not: the function should log the error and end the process, so
    /// that the cluster can restart the program.
    ///
    /// ```no_run
    /// use oxidax::distributed::{self, ClusterConfig};
    /// distributed::initialize(ClusterConfig::new().on_lost(|error| {
    ///     eprintln!("{error}");
    ///     std::process::exit(1);
    /// }))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn on_lost(mut self, call: impl Fn(&Error) + Send + Sync + 'static) -> ClusterConfig {
        self.on_lost = Some(Arc::new(call));
        self
    }

    /// Completes the configuration from the environment, and if that is not enough, from the
    /// metadata server.
    pub(super) fn resolve(
        self,
        variables: &Variables,
        machine: Machine<'_>,
    ) -> Result<ResolvedConfig, Error> {
        let setup = |message: String| Failure::setup(message);
        // Mistakes in the environment matter only if it is needed.
        let asked = self.coordinator_address.is_none()
            || self.num_processes.is_none()
            || self.process_id.is_none();
        let method = self.cluster_detection_method;
        let mut found =
            if asked { detect(method, variables, machine)? } else { Default::default() };
        let lacks_settings = (self.coordinator_address.is_none() && found.coordinator.is_none())
            || (self.num_processes.is_none() && found.count.is_none())
            || (self.process_id.is_none() && found.index.is_none());
        if found.cluster.is_empty() && lacks_settings {
            found = detect_by_metadata(method, variables, machine)?.unwrap_or(found);
        }
        let mut problem = String::new();
        if found.cluster == KUBERNETES && self.num_processes.is_none() && found.count.is_none() {
            match count_of_kubernetes(variables) {
                Ok(count) => found.count = Some(count),
                Err(reason) => problem = format!("; the Kubernetes API: {reason}"),
            }
        }
        let coordinator = self.coordinator_address.or(found.coordinator);
        let count = self.num_processes.or(found.count);
        let index = self.process_id.or(found.index);
        let (Some(coordinator), Some(count), Some(index)) = (&coordinator, count, index) else {
            let missing = [
                (coordinator.is_none(), "the coordinator's address"),
                (count.is_none(), "the number of processes"),
                (index.is_none(), "this process's id"),
            ];
            let missing: Vec<&str> =
                missing.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
            let place = match found.cluster {
                "" => "no cluster was found in the environment".to_owned(),
                cluster => format!("the environment is that of {cluster}"),
            };
            let help = match found.hint {
                "" => {
                    "set them in `ClusterConfig`, or OXIDAX_COORDINATOR, OXIDAX_PROCESSES and OXIDAX_PROCESS_ID"
                }
                hint => hint,
            };
            let message = format!("{} must be set; {place}{problem}", missing.join(" and "));
            return Err(setup(message).help(help).error("initialize"));
        };
        if index >= count {
            let message = format!("there is no process {index} of {count}; they count from 0");
            return Err(setup(message).error("initialize"));
        }
        let Ok(narrow) = u32::try_from(count) else {
            return Err(setup(format!("{count} processes are too many")).error("initialize"));
        };
        check_address(coordinator)?;
        let local_device_ids = self.local_device_ids.or(found.local_device_ids);
        if local_device_ids.as_ref().is_some_and(Vec::is_empty) {
            let message = "no local device: name one, or leave them out for all";
            return Err(setup(message.into()).error("initialize"));
        }
        let bind = self.coordinator_bind_address.unwrap_or_else(|| coordinator.clone());
        check_address(&bind)?;
        let five_minutes = Duration::from_secs(300);
        let time = |set: Option<Duration>, otherwise: Duration| {
            set.unwrap_or(otherwise).clamp(MIN_TIMEOUT, MAX_TIMEOUT)
        };
        Ok(ResolvedConfig {
            coordinator: coordinator.clone(),
            bind,
            count: narrow,
            // Below the number of processes.
            index: index as u32,
            local_device_ids,
            slice_index: self.slice_index,
            run: found.run,
            initialization_timeout: time(self.initialization_timeout, five_minutes),
            timeout: time(self.timeout, five_minutes),
            heartbeat_timeout: time(self.heartbeat_timeout, Duration::from_secs(60)),
            shutdown_timeout: time(self.shutdown_timeout, five_minutes),
            store_limit: self.store_limit.unwrap_or(1 << 30),
            on_lost: self.on_lost,
        })
    }
}

fn check_address(address: &str) -> Result<(), Error> {
    let fits = address.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (bracketed || !host.contains(':')) && port.parse::<u16>().is_ok()
    });
    if fits {
        return Ok(());
    }
    let message = format!("the coordinator's address is `{address}`; it must be like `host:7400`");
    Err(Failure::setup(message).error("initialize"))
}

impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig")
            .field("coordinator_address", &self.coordinator_address)
            .field("num_processes", &self.num_processes)
            .field("process_id", &self.process_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Machine<'_> = Machine { has_tpu: false, hosts: "" };

    fn whole() -> ClusterConfig {
        ClusterConfig::new().coordinator_address("h:1").num_processes(2).process_id(1)
    }

    fn refused(config: ClusterConfig) -> String {
        config.resolve(&Variables::new(), ALONE).err().expect("it is wrong").to_string()
    }

    #[test]
    fn settings_override_the_environment() {
        let pairs = [("SLURM_PROCID", "0"), ("SLURM_JOB_NODELIST", "n[1-2]")];
        let more = [("SLURM_NTASKS", "7"), ("SLURM_JOB_ID", "5")];
        let variables: Variables = pairs
            .iter()
            .chain(&more)
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        let resolved = ClusterConfig::new().process_id(3).resolve(&variables, ALONE).unwrap();
        assert_eq!(
            (resolved.coordinator.as_str(), resolved.count, resolved.index),
            ("n1:61445", 7, 3)
        );
        let shared = [("SLURM_LOCALID", "1"), ("SLURM_STEP_TASKS_PER_NODE", "2(x2),3")];
        let shared = shared.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let shared: Variables = variables.clone().into_iter().chain(shared).collect();
        let ids = |config: ClusterConfig| config.resolve(&shared, ALONE).unwrap().local_device_ids;
        assert_eq!(ids(ClusterConfig::new()), Some(vec![1]));
        assert_eq!(ids(ClusterConfig::new().local_device_ids([2, 3])), Some(vec![2, 3]));
        assert_eq!(resolved.local_device_ids, None);
        // A broken environment does not matter if everything is set.
        let broken: Variables = [("OXIDAX_PROCESSES".to_owned(), "many".to_owned())].into();
        assert_eq!(whole().resolve(&broken, ALONE).unwrap().bind, "h:1");
        assert!(ClusterConfig::new().resolve(&broken, ALONE).is_err());
    }

    #[test]
    fn missing_settings_are_named() {
        let said = refused(ClusterConfig::new().num_processes(2));
        assert!(
            said.contains("the coordinator's address and this process's id must be set"),
            "{said}"
        );
        assert!(said.contains("OXIDAX_PROCESS_ID"), "{said}");
        let pod: Variables = [
            ("KUBERNETES_SERVICE_HOST", "x"),
            ("JOB_COMPLETION_INDEX", "0"),
            ("HOSTNAME", "job-0"),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
        let said = ClusterConfig::new().resolve(&pod, ALONE).err().unwrap().to_string();
        assert!(said.contains("that of Kubernetes") && said.contains("`subdomain`"), "{said}");
        assert!(said.contains("; the Kubernetes API: "), "{said}");
    }

    #[test]
    fn numbers_and_addresses_are_checked() {
        assert!(refused(whole().process_id(2)).contains("no process 2 of 2"));
        assert!(refused(whole().num_processes(0)).contains("of 0"));
        assert!(refused(whole().local_device_ids([])).contains("no local device"));
        for address in ["", "host", "host:", ":1", "host:70000", "::1:80", "a:b:80"] {
            let said = refused(whole().coordinator_address(address));
            assert!(said.contains("like `host:7400`"), "{address}: {said}");
        }
        for address in ["host:0", "10.0.0.1:65535", "[::1]:80"] {
            assert!(whole().coordinator_address(address).resolve(&Variables::new(), ALONE).is_ok());
        }
    }

    #[test]
    fn timeouts_are_limited() {
        let config = whole().timeout(Duration::ZERO).heartbeat_timeout(Duration::MAX);
        let resolved = config.resolve(&Variables::new(), ALONE).unwrap();
        assert_eq!((resolved.timeout, resolved.heartbeat_timeout), (MIN_TIMEOUT, MAX_TIMEOUT));
    }
}
