//! The step at which all processes save before one of them is stopped.
//!
//! A process that receives `SIGTERM` stores a notice for all. A thread of each process waits for
//! it, holds back further steps of this process, and stores the last step of this process. The
//! next step of the process that is furthest ahead is the one at which all processes save: no
//! process has passed it.

use super::rendezvous::Failure;
use super::session::{Session, joined_session};
use crate::core::Error;
use crate::runtime::{process_count, process_index};
use signal_hook::consts::SIGTERM;
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

const DOING: &str = "reached_preemption_sync_point";

/// The key of the notice. Its value is the number of the process that was signalled.
const NOTICE: &[u8] = b"preemption/notice";

/// The time of one request for the notice. Then the thread asks again.
const PATIENCE: Duration = Duration::from_secs(60);

fn step_key(index: usize) -> Vec<u8> {
    format!("preemption/step/{index}").into_bytes()
}

/// The state of this process.
struct Watch {
    /// Set by the signal handler.
    is_signalled: Arc<AtomicBool>,
    is_announced: AtomicBool,
    agreement: Mutex<Agreement>,
}

#[derive(Default)]
struct Agreement {
    /// The last step for which this process has asked.
    last: Option<u64>,
    /// The step at which all save, or why the processes did not agree on one.
    target: Option<Result<u64, Failure>>,
    has_saved: bool,
}

/// Returns true at the step at which all processes should save, because one of them is about to be
/// stopped.
///
/// Cloud providers send `SIGTERM` some seconds before they reclaim a machine, and so do SLURM and
/// Kubernetes. Call this function once per step with the step's number, in all processes and with
/// increasing numbers: if any of them receives the signal, it returns true at one and the same step
/// in all of them. Afterwards it returns false.
///
/// The first call installs a handler of `SIGTERM`, which no longer ends the process, and starts a
/// thread that waits for the other processes. A call costs no request, except after a signal. With
/// one process, the first call after the signal returns true.
///
/// # Errors
/// `Distributed`: `Lost` if a process died, `Timeout` if a process does not answer a notice within
/// [`ClusterConfig::timeout`](super::ClusterConfig::timeout), `Setup` if this process has left.
/// `Data` if the handler or the thread cannot be started.
///
/// ```
/// use oxidax::distributed::reached_preemption_sync_point;
/// # use oxidax::prelude::*;
/// # let (mut weights, save) = (zeros([3]), |_: u64, _: &Array| Ok::<(), Error>(()));
/// for step in 0..100 {
///     weights = weights + 1.0;
///     if reached_preemption_sync_point(step)? {
///         save(step, &weights)?;
///         break;
///     }
/// }
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "jax.experimental.multihost_utils.reached_preemption_sync_point")]
pub fn reached_preemption_sync_point(step: u64) -> Result<bool, Error> {
    let session = joined_session()?.filter(|_| process_count() > 1);
    let watch = watch(session.as_ref())?;
    let is_signalled = watch.is_signalled.load(Ordering::SeqCst);
    if let Some(session) = &session
        && is_signalled
        && !watch.is_announced.load(Ordering::SeqCst)
    {
        let own = (process_index() as u64).to_le_bytes().to_vec();
        let put = session.link.put(NOTICE, own.into(), session.timeout);
        put.map_err(|failure| failure.error(DOING))?;
        watch.is_announced.store(true, Ordering::SeqCst);
    }
    let mut agreement = watch.agreement.lock().unwrap_or_else(PoisonError::into_inner);
    agreement.last = Some(step);
    if session.is_none() && is_signalled && agreement.target.is_none() {
        agreement.target = Some(Ok(step));
    }
    match &agreement.target {
        None => Ok(false),
        Some(Err(failure)) => Err(failure.error(DOING)),
        Some(Ok(target)) => {
            let is_now = step >= *target && !agreement.has_saved;
            agreement.has_saved |= is_now;
            Ok(is_now)
        }
    }
}

/// Returns the state. The first call starts the handler and the thread.
fn watch(session: Option<&Arc<Session>>) -> Result<&'static Watch, Error> {
    static WATCH: OnceLock<Result<&'static Watch, String>> = OnceLock::new();
    let started = WATCH.get_or_init(|| {
        let is_signalled = Arc::new(AtomicBool::new(false));
        flag::register(SIGTERM, is_signalled.clone())
            .map_err(|error| format!("cannot handle SIGTERM: {error}"))?;
        let (is_announced, agreement) = (AtomicBool::new(false), Mutex::default());
        // Lives as long as the process, like the handler.
        let watch: &Watch = Box::leak(Box::new(Watch { is_signalled, is_announced, agreement }));
        if let Some(session) = session.cloned() {
            let thread = std::thread::Builder::new().name("oxidax-preemption".into());
            let started = thread.spawn(move || watch.wait(&session));
            started.map_err(|error| format!("cannot start a thread: {error}"))?;
        }
        Ok(watch)
    });
    started.as_ref().copied().map_err(|message| Error::data(DOING, message.clone()))
}

impl Watch {
    /// Waits for a notice and agrees with the other processes on a step.
    fn wait(&self, session: &Session) {
        let notice = loop {
            match session.link.get(NOTICE, PATIENCE) {
                Ok(notice) => break Ok(notice),
                Err(failure) if failure.is_timeout() || failure.is_not_found() => {}
                Err(failure) => break Err(failure),
            }
        };
        // The step of this process does not change while its number is on the way.
        let mut agreement = self.agreement.lock().unwrap_or_else(PoisonError::into_inner);
        let target = notice.and_then(|notice| {
            let target = agree(session, agreement.last)?;
            let process = notice.try_into().map_or(0, u64::from_le_bytes);
            tracing::info!("process {process} will be stopped: all save at step {target}");
            Ok(target)
        });
        agreement.target = Some(target);
    }
}

/// Returns the first step that no process has asked for.
fn agree(session: &Session, last: Option<u64>) -> Result<u64, Failure> {
    let next = |last: Option<u64>| last.map_or(0, |last| last.saturating_add(1));
    let own = next(last).to_le_bytes().to_vec();
    session.link.put(&step_key(process_index()), own.into(), session.timeout)?;
    let mut target = next(last);
    for index in 0..process_count() {
        let other = session.link.get(&step_key(index), session.timeout)?;
        let other = other.try_into().map_err(|_| Failure::setup("a step has a wrong length"))?;
        target = target.max(u64::from_le_bytes(other));
    }
    Ok(target)
}
