//! This process's membership: joining, barriers, leaving.

use super::ClusterConfig;
use super::cluster::Machine;
use super::config::ResolvedConfig;
use super::listen::{listen, reachable};
use super::rendezvous::{Coordinator, Failure, Identity, Link};
use crate::core::Error;
use crate::runtime::{
    self, Exchange, Joined, cluster_variables, host_has_tpu, process_count, process_index,
};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that the coordinator waits at the end for processes to receive its last replies.
const PARTING: Duration = Duration::from_secs(5);

/// The membership of this process.
enum State {
    Apart,
    Joining,
    Together(Arc<Session>),
    /// Joined once, and left.
    Left,
}

static STATE: Mutex<State> = Mutex::new(State::Apart);

fn state() -> MutexGuard<'static, State> {
    // Each change is a single assignment.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The session of a process that has joined.
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) timeout: Duration,
    shutdown_timeout: Duration,
    coordinator: Mutex<Option<Coordinator>>,
    /// Number of the next collective operation.
    round: AtomicU64,
}

/// Joins the other processes of this program, and waits until all have joined.
///
/// Call it once per process, before the first array: the plugin's client learns the process number
/// when it is created. Process 0 becomes the coordinator and serves the others until [`shutdown`].
/// A single process may call it too, at little cost.
///
/// # Errors
/// `Distributed`: `Setup` if settings are missing or contradictory, the coordinator cannot listen
/// at its address, or a device was used before. `Refused` if the coordinator expects another number
/// of processes, or another process has the same id. `Timeout` with the missing processes and the
/// port that a firewall must open. `Lost` if a process died. After an error it may be called again.
///
/// ```
/// use oxidax::distributed::{self, ClusterConfig};
/// // A single process. Port 0 selects any free port.
/// distributed::initialize(
///     ClusterConfig::new().coordinator_address("127.0.0.1:0").num_processes(1).process_id(0),
/// )?;
/// assert!(distributed::is_initialized());
/// distributed::barrier("everybody is here")?;
/// distributed::shutdown()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "torch_xla.launch")]
#[doc(alias = "jax.distributed.initialize")]
pub fn initialize(config: ClusterConfig) -> Result<(), Error> {
    let doing = "initialize";
    match &mut *state() {
        at @ State::Apart => *at = State::Joining,
        State::Joining | State::Together(_) => {
            return Err(Failure::setup("`initialize` was already called").error(doing));
        }
        State::Left => {
            let message = "this process has left, and cannot join again";
            return Err(Failure::setup(message).error(doing));
        }
    }
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let machine = Machine { has_tpu: host_has_tpu(), hosts: &hosts };
    let joined = config.resolve(&cluster_variables(), machine).and_then(join);
    let mut state = state();
    match joined {
        Ok(session) => {
            *state = State::Together(session);
            Ok(())
        }
        Err(error) => {
            *state = State::Apart;
            Err(error)
        }
    }
}

fn join(resolved: ResolvedConfig) -> Result<Arc<Session>, Error> {
    let doing = "initialize";
    let too_late = || {
        Failure::setup("a device was used before, and its client was created for a single process")
            .help("call `distributed::initialize` before the first array is made")
            .error(doing)
    };
    if runtime::is_too_late() {
        return Err(too_late());
    }
    let deadline = Instant::now() + resolved.initialization_timeout;
    let (mut coordinator, mut target) = (None, resolved.coordinator.clone());
    if resolved.index == 0 {
        let started = listen(&resolved, deadline)?;
        target = reachable(started.address()).to_string();
        coordinator = Some(started);
    }
    let identity = Identity {
        index: resolved.index,
        count: resolved.count,
        run: resolved.run.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        // A number that differs from start to start. It is not a secret.
        incarnation: RandomState::new().build_hasher().finish(),
    };
    let on_lost = resolved.on_lost.clone();
    let tell = move |failure: &Failure| {
        tracing::error!("{}", failure.error("distributed"));
        if let Some(on_lost) = on_lost {
            let error = failure.error("distributed");
            // On its own thread, because it may block. If the thread cannot start, later calls
            // still fail.
            let named = std::thread::Builder::new().name("oxidax-on-lost".into());
            drop(named.spawn(move || on_lost(&error)));
        }
    };
    let wait = deadline.saturating_duration_since(Instant::now());
    let link = match Link::join(&target, &identity, wait, tell) {
        Ok(link) => link,
        Err(failure) => {
            if let Some(coordinator) = coordinator {
                coordinator.stop(PARTING);
            }
            return Err(with_port(failure, &target).error(doing));
        }
    };
    let session = Arc::new(Session {
        link,
        timeout: resolved.timeout,
        shutdown_timeout: resolved.shutdown_timeout,
        coordinator: Mutex::new(coordinator),
        round: AtomicU64::new(0),
    });
    let (index, count, exchange) = (resolved.index, resolved.count, session.clone());
    let (local_device_ids, slice_index) = (resolved.local_device_ids, resolved.slice_index);
    if !runtime::join(Joined { index, count, local_device_ids, slice_index, exchange }) {
        // Not a regular goodbye: the other processes cannot continue without this one.
        return Err(too_late());
    }
    tracing::info!("process {index} of {count} has joined the coordinator at {target}");
    Ok(session)
}

/// Adds the port that a firewall must open to the failure of processes that did not meet.
fn with_port(failure: Failure, target: &str) -> Failure {
    let Some((_, port)) = target.rsplit_once(':').filter(|_| failure.is_timeout()) else {
        return failure;
    };
    failure.and_help(&format!(
        "the firewall must let the other hosts reach TCP port {port} of process 0's host"
    ))
}

/// Leaves the other processes, and waits for them to leave too.
///
/// A process that ends without calling it is reported to the others as dead. Afterwards
/// [`process_index`] and [`process_count`] keep their values. Everything else here requires a new
/// process.
///
/// # Errors
/// `Distributed`: `Setup` if this process has not joined. `Timeout` if others do not shut down
/// within [`ClusterConfig::shutdown_timeout`]. `Lost` if a process died. This process has left in
/// any case.
pub fn shutdown() -> Result<(), Error> {
    let doing = "shutdown";
    let session = {
        let mut state = state();
        let State::Together(session) = &*state else {
            return Err(Failure::setup("this process has not joined any others").error(doing));
        };
        let session = session.clone();
        *state = State::Left;
        session
    };
    let met = session.meet(doing, "oxidax/shutdown", &[], session.shutdown_timeout, Vec::new());
    session.link.leave();
    let coordinator = session.coordinator.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(coordinator) = coordinator {
        coordinator.stop(PARTING);
    }
    met.map(drop)
}

/// Returns true if this process has joined and not left.
pub fn is_initialized() -> bool {
    matches!(*state(), State::Together(_))
}

/// Returns the names of the processes, such as `process 2 (host-b:4711)` with the operating
/// system's process id. Without other processes, returns this process only.
pub fn process_names() -> Vec<String> {
    match &*state() {
        State::Together(session) => session.link.roster().to_vec(),
        _ => vec![format!("process 0 ({})", std::process::id())],
    }
}

/// Waits until all processes have reached the barrier of this name, up to
/// [`ClusterConfig::timeout`].
///
/// A name can be used again after all processes have passed. With a single process it returns
/// immediately. It does not wait for devices.
///
/// # Errors
/// `Distributed`: `Timeout` with the missing processes, `Lost` if a process died, `Refused` if
/// another thread of this process waits at the same barrier.
///
/// ```
/// use oxidax::distributed;
/// distributed::barrier("configuration read")?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn barrier(name: &str) -> Result<(), Error> {
    barrier_with(name, BarrierOptions::default())
}

/// Options of [`barrier_with`].
#[derive(Clone, Debug, Default)]
pub struct BarrierOptions {
    /// The participating processes. By default all of them.
    pub processes: Option<Vec<usize>>,
    /// The time-out. By default [`ClusterConfig::timeout`].
    pub timeout: Option<Duration>,
}

/// Waits at a barrier with options: a subset of the processes, or another time-out. All
/// participants must pass the same processes, and the calling process must be one of them.
///
/// # Errors
/// As [`barrier`], `Mismatch` if others pass other processes, `Refused` if this process is not
/// among them or a listed process does not exist.
pub fn barrier_with(name: &str, options: BarrierOptions) -> Result<(), Error> {
    let BarrierOptions { processes, timeout } = options;
    if let Some(processes) = &processes {
        let doing = format!("barrier `{name}`");
        let count = process_count();
        if let Some(index) = processes.iter().find(|index| **index >= count) {
            let message = format!("there is no process {index}; there are {count}");
            return Err(Failure::refused(message).error(doing));
        }
        if !processes.contains(&process_index()) {
            let message = format!("process {} is not among {processes:?}", process_index());
            return Err(Failure::refused(message).error(doing));
        }
    }
    let Some(session) = joined_session()? else { return Ok(()) };
    let members: Vec<u32> =
        processes.unwrap_or_default().into_iter().map(|index| index as u32).collect();
    session.barrier(name, &members, timeout.unwrap_or(session.timeout))
}

/// Returns the session, or `None` if this is the only process.
pub(super) fn joined_session() -> Result<Option<Arc<Session>>, Error> {
    match &*state() {
        State::Together(session) => Ok(Some(session.clone())),
        State::Apart | State::Joining => Ok(None),
        State::Left if process_count() == 1 => Ok(None),
        State::Left => {
            let message = "this process has left the others with `distributed::shutdown`";
            Err(Failure::setup(message).error("distributed"))
        }
    }
}

/// Returns the session of a process that has joined.
pub(super) fn session(doing: &str) -> Result<Arc<Session>, Error> {
    match &*state() {
        State::Together(session) => Ok(session.clone()),
        _ => Err(Failure::setup("this process has not joined others, or has left them")
            .help("call `distributed::initialize` first")
            .error(doing)),
    }
}

impl Session {
    fn barrier(&self, name: &str, members: &[u32], wait: Duration) -> Result<(), Error> {
        let (doing, place) = (format!("barrier `{name}`"), format!("barrier/{name}"));
        self.meet(&doing, &place, members, wait, Vec::new()).map(drop)
    }

    /// Returns the number of the next collective operation.
    pub(super) fn next_round(&self) -> u64 {
        self.round.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn meet(
        &self,
        doing: &str,
        place: &str,
        members: &[u32],
        wait: Duration,
        brought: Vec<u8>,
    ) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
        let met = self.link.meet(place, members, wait, brought.into());
        met.map_err(|failure| failure.error(doing))
    }

    pub(super) fn name(&self, index: u32) -> &str {
        self.link.roster().get(index as usize).map_or("an unknown process", String::as_str)
    }
}

/// Prefix of the meetings of the runtime.
const RUNTIME: &str = "runtime/";

/// Prefix of the keys that plugins use.
const PLUGINS: &[u8] = b"pjrt/";

impl Exchange for Session {
    fn get(&self, key: &[u8], wait: Duration) -> Result<Vec<u8>, Error> {
        let got = self.link.get(&[PLUGINS, key].concat(), wait);
        got.map_err(|failure| failure.error(for_plugin("get", key)))
    }

    fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.link.get(&[PLUGINS, key].concat(), Duration::ZERO) {
            Ok(value) => Ok(Some(value)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure.error(for_plugin("try_get", key))),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let put = self.link.put(&[PLUGINS, key].concat(), value.to_vec().into(), self.timeout);
        put.map_err(|failure| failure.error(for_plugin("put", key)))
    }

    fn meet(
        &self,
        topic: &str,
        members: &[u32],
        mine: Vec<u8>,
    ) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
        let place = format!("{RUNTIME}{topic}");
        Session::meet(self, topic, &place, members, self.timeout, mine)
    }
}

fn for_plugin(verb: &str, key: &[u8]) -> String {
    format!("{verb} `{}` for the plugin", String::from_utf8_lossy(key))
}
