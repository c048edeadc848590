//! How processes find each other: what is said, what the environment says, and what holds otherwise.

use super::cluster::{Variables, detect};
use super::rendezvous::Failure;
use crate::core::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Which processes run this program, where they meet, and how long they wait.
///
/// What is not set is read from the environment: from `OXIDAX_COORDINATOR`, `OXIDAX_PROCESSES` and
/// `OXIDAX_PROCESS_ID`, or else from what Cloud TPU, SLURM or Kubernetes tell their processes
/// (`docs/several-hosts.md` lists the variables).
///
/// ```
/// use oxidax::distributed::Config;
/// use std::time::Duration;
/// let config = Config::new()
///     .coordinator_address("10.0.0.1:7400")
///     .num_processes(4)
///     .process_id(2)
///     .initialization_timeout(Duration::from_secs(120));
/// # drop(config);
/// ```
#[derive(Clone, Default)]
#[must_use = "a configuration does nothing until it is given to `initialize`"]
pub struct Config {
    coordinator_address: Option<String>,
    coordinator_bind_address: Option<String>,
    num_processes: Option<usize>,
    process_id: Option<usize>,
    initialization_timeout: Option<Duration>,
    timeout: Option<Duration>,
    heartbeat_timeout: Option<Duration>,
    shutdown_timeout: Option<Duration>,
    store_limit: Option<u64>,
    on_lost: Option<Arc<OnLost>>,
}

/// What is called when a process is lost.
pub(super) type OnLost = dyn Fn(&Error) + Send + Sync;

/// A configuration with nothing open.
#[derive(Clone)]
pub(super) struct Settled {
    /// `host:port`.
    pub(super) coordinator: String,
    /// Where the coordinator listens: the same, unless set.
    pub(super) bind: String,
    pub(super) count: u32,
    pub(super) index: u32,
    pub(super) run: String,
    pub(super) initialization_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) heartbeat_timeout: Duration,
    pub(super) shutdown_timeout: Duration,
    pub(super) store_limit: u64,
    pub(super) on_lost: Option<Arc<OnLost>>,
}

/// Bounds of time-outs: shorter ones are mistakes, and a month is forever.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

impl Config {
    /// Nothing set: everything is read from the environment.
    pub fn new() -> Config {
        Config::default()
    }

    /// Where process 0 listens and the others find it, as `host:port`. An address of version 6 goes in brackets.
    pub fn coordinator_address(mut self, address: impl Into<String>) -> Config {
        self.coordinator_address = Some(address.into());
        self
    }

    /// Where process 0 listens if that is another address than the others know, behind a translation of addresses
    /// say. `[::]:PORT` is every address of the host; then every network that reaches the host reaches the coordinator.
    pub fn coordinator_bind_address(mut self, address: impl Into<String>) -> Config {
        self.coordinator_bind_address = Some(address.into());
        self
    }

    /// How many processes there are.
    pub fn num_processes(mut self, count: usize) -> Config {
        self.num_processes = Some(count);
        self
    }

    /// Which of them this is, from 0.
    pub fn process_id(mut self, index: usize) -> Config {
        self.process_id = Some(index);
        self
    }

    /// How long [`initialize`](super::initialize) waits for the others. 5 minutes unless set.
    pub fn initialization_timeout(mut self, timeout: Duration) -> Config {
        self.initialization_timeout = Some(timeout);
        self
    }

    /// How long everything else waits for the others: barriers, gathering, keys. 5 minutes unless set.
    pub fn timeout(mut self, timeout: Duration) -> Config {
        self.timeout = Some(timeout);
        self
    }

    /// After how long a silence a process is taken for dead whose connection has not ended: its host is cut off, or
    /// the process was stopped. A minute unless set; the coordinator's setting holds for all.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Config {
        self.heartbeat_timeout = Some(timeout);
        self
    }

    /// How long [`shutdown`](super::shutdown) waits for the others. 5 minutes unless set.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Config {
        self.shutdown_timeout = Some(timeout);
        self
    }

    /// How many bytes the coordinator keeps for all processes together: values under keys, and what is being
    /// gathered. 1 GiB unless set; the coordinator's setting holds.
    pub fn store_limit(mut self, bytes: u64) -> Config {
        self.store_limit = Some(bytes);
        self
    }

    /// Calls this, on a thread of its own, as soon as it is known that a process is lost.
    ///
    /// Whatever waits in this module ends by itself then. What waits on a device for a collective of the dead process
    /// does not: such a program should log the error here and end, so that whoever started it can start all anew.
    ///
    /// ```no_run
    /// use oxidax::distributed::{self, Config};
    /// distributed::initialize(Config::new().on_lost(|error| {
    ///     eprintln!("{error}");
    ///     std::process::exit(1);
    /// }))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn on_lost(mut self, call: impl Fn(&Error) + Send + Sync + 'static) -> Config {
        self.on_lost = Some(Arc::new(call));
        self
    }

    /// Everything settled, with the environment's help.
    pub(super) fn settle(self, variables: &Variables) -> Result<Settled, Error> {
        let setup = |message: String| Failure::setup(message);
        // What the environment says wrongly matters only if it is asked.
        let asked = self.coordinator_address.is_none()
            || self.num_processes.is_none()
            || self.process_id.is_none();
        let found = if asked { detect(variables)? } else { Default::default() };
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
                    "set them in `Config`, or OXIDAX_COORDINATOR, OXIDAX_PROCESSES and OXIDAX_PROCESS_ID"
                }
                hint => hint,
            };
            let message = format!("{} must be set; {place}", missing.join(" and "));
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
        let bind = self.coordinator_bind_address.unwrap_or_else(|| coordinator.clone());
        check_address(&bind)?;
        let five_minutes = Duration::from_secs(300);
        let time = |set: Option<Duration>, otherwise: Duration| {
            set.unwrap_or(otherwise).clamp(SHORTEST, LONGEST)
        };
        Ok(Settled {
            coordinator: coordinator.clone(),
            bind,
            count: narrow,
            // Below the count.
            index: index as u32,
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

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("coordinator_address", &self.coordinator_address)
            .field("num_processes", &self.num_processes)
            .field("process_id", &self.process_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Config {
        Config::new().coordinator_address("h:1").num_processes(2).process_id(1)
    }

    fn refused(config: Config) -> String {
        config.settle(&Variables::new()).err().expect("it is wrong").to_string()
    }

    #[test]
    fn what_is_said_goes_before_the_environment() {
        let pairs = [("SLURM_PROCID", "0"), ("SLURM_JOB_NODELIST", "n[1-2]")];
        let more = [("SLURM_NTASKS", "7"), ("SLURM_JOB_ID", "5")];
        let variables: Variables = pairs
            .iter()
            .chain(&more)
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        let settled = Config::new().process_id(3).settle(&variables).unwrap();
        assert_eq!(
            (settled.coordinator.as_str(), settled.count, settled.index),
            ("n1:61445", 7, 3)
        );
        // A broken environment does not matter to who says everything.
        let broken: Variables = [("OXIDAX_PROCESSES".to_owned(), "many".to_owned())].into();
        assert_eq!(whole().settle(&broken).unwrap().bind, "h:1");
        assert!(Config::new().settle(&broken).is_err());
    }

    #[test]
    fn what_is_missing_is_named_with_the_remedy() {
        let said = refused(Config::new().num_processes(2));
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
        let said = Config::new().settle(&pod).err().unwrap().to_string();
        assert!(said.contains("that of Kubernetes") && said.contains("`subdomain`"), "{said}");
    }

    #[test]
    fn numbers_and_addresses_are_checked() {
        assert!(refused(whole().process_id(2)).contains("no process 2 of 2"));
        assert!(refused(whole().num_processes(0)).contains("of 0"));
        for address in ["", "host", "host:", ":1", "host:70000", "::1:80", "a:b:80"] {
            let said = refused(whole().coordinator_address(address));
            assert!(said.contains("like `host:7400`"), "{address}: {said}");
        }
        for address in ["host:0", "10.0.0.1:65535", "[::1]:80"] {
            assert!(whole().coordinator_address(address).settle(&Variables::new()).is_ok());
        }
    }

    #[test]
    fn no_time_is_zero_or_overflows() {
        let config = whole().timeout(Duration::ZERO).heartbeat_timeout(Duration::MAX);
        let settled = config.settle(&Variables::new()).unwrap();
        assert_eq!((settled.timeout, settled.heartbeat_timeout), (SHORTEST, LONGEST));
    }
}
