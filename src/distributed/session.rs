//! This process among the others: joining, waiting, leaving.

use super::Config;
use super::config::Settled;
use super::listen::{listen, reachable};
use super::rendezvous::{Coordinator, Failure, Identity, Link};
use crate::core::Error;
use crate::runtime::{self, Exchange, Joined, cluster_variables, process_count, process_index};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the coordinator waits at the end for processes that have said goodbye, or were told why they must end.
const PARTING: Duration = Duration::from_secs(5);

/// What this process has done about the others.
enum State {
    Apart,
    Joining,
    Together(Arc<Session>),
    /// Joined once, and left.
    Left,
}

static STATE: Mutex<State> = Mutex::new(State::Apart);

fn state() -> MutexGuard<'static, State> {
    // Each change is one assignment.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that has joined.
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) timeout: Duration,
    shutdown_timeout: Duration,
    coordinator: Mutex<Option<Coordinator>>,
    /// Numbers what all processes do together.
    round: AtomicU64,
}

/// Joins the other processes of this program, and waits until all are there.
///
/// Call it once, on every process, before the first array: the plugin's client is told which process this is when it
/// is made. Process 0 becomes the coordinator, which serves the others until [`shutdown`]. With one process it is
/// allowed and costs little, so that a program need not care.
///
/// # Errors
/// `Distributed`: `Setup` if settings are missing or contradict each other, if the coordinator cannot listen at its
/// address, or if a device was used before; `Refused` if the coordinator was started for another number of processes,
/// or another process has this one's id; `Timeout`, with the names of those who did not come; `Lost` if a process died
/// meanwhile. Afterwards it may be called again.
///
/// ```
/// use oxidax::distributed::{self, Config};
/// // One process by itself. Port 0 is any that is free.
/// distributed::initialize(
///     Config::new().coordinator_address("127.0.0.1:0").num_processes(1).process_id(0),
/// )?;
/// assert!(distributed::is_initialized());
/// distributed::barrier("everybody is here")?;
/// distributed::shutdown()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.distributed.initialize")]
pub fn initialize(config: Config) -> Result<(), Error> {
    let doing = "initialize";
    match &mut *state() {
        at @ State::Apart => *at = State::Joining,
        State::Joining | State::Together(_) => {
            return Err(Failure::setup("it was called before").error(doing));
        }
        State::Left => {
            let message = "this process has left the others, and cannot join again";
            return Err(Failure::setup(message).error(doing));
        }
    }
    let joined = config.settle(&cluster_variables()).and_then(join);
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

fn join(settled: Settled) -> Result<Arc<Session>, Error> {
    let doing = "initialize";
    let too_late = || {
        Failure::setup("a device was used already, and its client made for one process")
            .help("call `distributed::initialize` before the first array is made")
            .error(doing)
    };
    if runtime::is_too_late() {
        return Err(too_late());
    }
    let deadline = Instant::now() + settled.initialization_timeout;
    let (mut coordinator, mut target) = (None, settled.coordinator.clone());
    if settled.index == 0 {
        let started = listen(&settled, deadline)?;
        target = reachable(started.address()).to_string();
        coordinator = Some(started);
    }
    let identity = Identity {
        index: settled.index,
        count: settled.count,
        run: settled.run.clone(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        // A number that differs from start to start, and is no secret.
        incarnation: RandomState::new().build_hasher().finish(),
    };
    let on_lost = settled.on_lost.clone();
    let tell = move |failure: &Failure| {
        tracing::error!("{}", failure.error("distributed"));
        if let Some(on_lost) = on_lost {
            let error = failure.error("distributed");
            // On a thread of its own, because it may take its time. If there is none to be had, later calls fail still.
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
            return Err(failure.error(doing));
        }
    };
    let session = Arc::new(Session {
        link,
        timeout: settled.timeout,
        shutdown_timeout: settled.shutdown_timeout,
        coordinator: Mutex::new(coordinator),
        round: AtomicU64::new(0),
    });
    let (index, count, exchange) = (settled.index, settled.count, session.clone());
    if !runtime::join(Joined { index, count, exchange }) {
        // Not a goodbye: without this process the others cannot go on.
        return Err(too_late());
    }
    tracing::info!("process {index} of {count} has joined the coordinator at {target}");
    Ok(session)
}

/// Leaves the other processes, waiting for them to do so too.
///
/// A process that ends without it is reported to the others as dead. Afterwards [`process_index`] and
/// [`process_count`] are what they were; everything else here needs a new process.
///
/// # Errors
/// `Distributed`: `Setup` if this process has not joined; `Timeout` if others do not come to their own shutdown within
/// [`Config::shutdown_timeout`]; `Lost` if one died before. This process has left in any case.
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

/// Whether this process has joined the others, and not left them.
pub fn is_initialized() -> bool {
    matches!(*state(), State::Together(_))
}

/// The processes by name, `process 2 (host-b:4711)`: the process number stands after the host. Without others, this
/// process alone.
pub fn process_names() -> Vec<String> {
    match &*state() {
        State::Together(session) => session.link.roster().to_vec(),
        _ => vec![format!("process 0 ({})", std::process::id())],
    }
}

/// Waits until all processes have come to the barrier of this name, at most [`Config::timeout`].
///
/// Names may be used again once all have passed. Without other processes there is nothing to wait for. What was
/// started on a device may still run.
///
/// # Errors
/// `Distributed`: `Timeout`, with those who did not come; `Lost` if one died; `Refused` if another thread of this
/// process waits there.
///
/// ```
/// use oxidax::distributed;
/// distributed::barrier("configuration read")?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn barrier(name: &str) -> Result<(), Error> {
    match alone_or_session()? {
        None => Ok(()),
        Some(session) => session.barrier(name, &[], session.timeout),
    }
}

/// Waits until these processes have come to the barrier of this name, at most so long. All of them must name the
/// same ones; the calling process is one of them.
///
/// # Errors
/// As [`barrier`], and `Mismatch` if others name other processes; `Refused` if this process is not among them, or one
/// does not exist.
pub fn barrier_among(name: &str, processes: &[usize], timeout: Duration) -> Result<(), Error> {
    let doing = format!("barrier `{name}`");
    let count = process_count();
    if let Some(none) = processes.iter().find(|index| **index >= count) {
        let message = format!("there is no process {none} of {count}");
        return Err(Failure::refused(message).error(doing));
    }
    if !processes.contains(&process_index()) {
        let message = format!("process {} is not among {processes:?}", process_index());
        return Err(Failure::refused(message).error(doing));
    }
    match alone_or_session()? {
        None => Ok(()),
        Some(session) => {
            let members: Vec<u32> = processes.iter().map(|&index| index as u32).collect();
            session.barrier(name, &members, timeout)
        }
    }
}

/// The session; none if this process is the only one.
pub(super) fn alone_or_session() -> Result<Option<Arc<Session>>, Error> {
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

/// The session of a process that has joined.
pub(super) fn session(doing: &str) -> Result<Arc<Session>, Error> {
    match &*state() {
        State::Together(session) => Ok(session.clone()),
        _ => Err(Failure::setup("this process has not joined any others, or has left them")
            .help("call `distributed::initialize` first")
            .error(doing)),
    }
}

impl Session {
    fn barrier(&self, name: &str, members: &[u32], wait: Duration) -> Result<(), Error> {
        let (doing, place) = (format!("barrier `{name}`"), format!("barrier/{name}"));
        self.meet(&doing, &place, members, wait, Vec::new()).map(drop)
    }

    /// The next thing that all processes do together.
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

/// Where plugins keep what they tell each other.
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
}

fn for_plugin(verb: &str, key: &[u8]) -> String {
    format!("{verb} `{}` for the plugin", String::from_utf8_lossy(key))
}
