//! The coordinator's state and its transitions.

use super::failure::{Failure, listed};
use super::meetings::{Contributions, Meetings, Outcome};
use super::members::Members;
use super::message::{Caller, Join};
use super::store::{Store, Value, check_key};
use prost::bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// The phase of the program.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Some processes have not joined yet.
    Gathering,
    /// All processes have joined. Holds their names.
    Ready(Arc<Vec<String>>),
    /// A process is lost. The program cannot continue.
    Lost(Failure),
}

/// Settings of a coordinator.
#[derive(Clone, Debug)]
pub(in crate::distributed) struct Terms {
    pub(in crate::distributed) count: u32,
    pub(in crate::distributed) run: String,
    /// The silence after which a process is considered dead.
    pub(in crate::distributed) heartbeat_timeout: Duration,
    /// The memory limit for stored data, in bytes.
    pub(in crate::distributed) store_limit: u64,
}

/// The coordinator's state, shared by its connections.
pub(super) struct Hub {
    pub(super) terms: Terms,
    state: Mutex<State>,
    phase: watch::Sender<Phase>,
    /// Signals that a process has left, or has been notified of a loss.
    changed: watch::Sender<()>,
}

struct State {
    members: Members,
    store: Store,
    meetings: Meetings,
    /// Processes that have been notified of the loss.
    acknowledged: BTreeSet<u32>,
}

/// Time for processes to be notified of a loss before the coordinator's own process is, which may
/// end at once together with the coordinator.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);

impl Hub {
    pub(super) fn new(terms: Terms) -> Hub {
        let state = State {
            members: Members::new(terms.count, &terms.run),
            store: Store::new(terms.store_limit),
            meetings: Meetings::default(),
            acknowledged: BTreeSet::new(),
        };
        let (phase, changed) = (watch::Sender::new(Phase::Gathering), watch::Sender::new(()));
        Hub { terms, state: Mutex::new(state), phase, changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Accepts a process, unless the program is lost.
    pub(super) fn join(&self, join: &Join) -> Result<(), Failure> {
        if let Phase::Lost(failure) = &*self.phase.borrow() {
            return Err(failure.clone());
        }
        let mut state = self.state();
        state.members.join(join)?;
        let complete = state.members.all_joined().then(|| state.members.roster());
        drop(state);
        if let Some(roster) = complete {
            self.advance(Phase::Ready(Arc::new(roster)));
        }
        Ok(())
    }

    /// Returns the name of a process.
    pub(super) fn name(&self, index: u32) -> String {
        self.state().members.name(index)
    }

    /// Ends the program because a process has waited too long for the others to join.
    pub(super) fn give_up_gathering(&self, waiter: u32, waited: Duration) {
        let failure = self.state().members.incomplete(waiter, waited);
        self.phase.send_if_modified(|phase| {
            let gathering = matches!(phase, Phase::Gathering);
            if gathering {
                *phase = Phase::Lost(failure);
            }
            gathering
        });
    }

    /// Records that a process leaves regularly.
    pub(super) fn leave(&self, index: u32) {
        self.state().members.leave(index);
        self.changed.send_replace(());
    }

    /// Records that a process is gone without leaving.
    pub(super) fn lose(&self, index: u32, why: &str) {
        let mut state = self.state();
        if state.members.lose(index) {
            let message = format!("{} {why}", state.members.name(index));
            drop(state);
            self.advance(Phase::Lost(Failure::lost(message).of(&[index]).help(
                "see what this process wrote last; a process that is done says so with \
                 `distributed::shutdown`",
            )));
            self.changed.send_replace(());
        }
    }

    /// Moves to another phase, unless the program is lost: the first loss explains the others.
    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let lost = matches!(phase, Phase::Lost(_));
            if !lost {
                *phase = to;
            }
            !lost
        });
    }

    /// Records that a process was notified of the loss.
    pub(super) fn acknowledged(&self, index: u32) {
        self.state().acknowledged.insert(index);
        self.changed.send_replace(());
    }

    /// Waits briefly until all processes except `but` have been notified of the loss.
    pub(super) async fn others_acknowledged(&self, but: u32) {
        let acknowledged = |state: &State| {
            state
                .members
                .here()
                .iter()
                .all(|index| *index == but || state.acknowledged.contains(index))
        };
        // Processes that are not notified in time detect the end of the coordinator.
        drop(timeout(NOTIFY_TIMEOUT, self.until(acknowledged)).await);
    }

    /// Waits until all processes have left, up to `wait`. Processes that remain are notified that
    /// the coordinator ends before them.
    pub(super) async fn empty(&self, wait: Duration) {
        if timeout(wait, self.until(|state| state.members.here().is_empty())).await.is_err() {
            let message = {
                let state = self.state();
                format!(
                    "{}, the coordinator, shut down while others had not: {}",
                    state.members.name(0),
                    state.members.names(&state.members.here())
                )
            };
            self.advance(Phase::Lost(Failure::lost(message).of(&[0])));
            self.others_acknowledged(0).await;
        }
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !is_so(&self.state()) {
            // The sender lives as long as the hub.
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn check(&self, caller: Option<Caller>) -> Result<u32, Failure> {
        self.state().members.check(caller)
    }

    /// Reserves memory for expected bytes, until the reservation is dropped.
    pub(super) fn reserve(self: &Arc<Hub>, bytes: u64, what: &str) -> Result<Reserved, Failure> {
        let cost = self.state().store.reserve(bytes, what)?;
        Ok(Reserved { hub: self.clone(), cost })
    }

    /// Stores a value in its reserved memory.
    pub(super) fn put(&self, key: Vec<u8>, value: Bytes, mut reserved: Reserved) {
        reserved.cost = 0;
        self.state().store.put(key, value);
    }

    /// Waits for the value of a key. After a loss, waiting requests are cancelled elsewhere.
    pub(super) async fn get(&self, key: &[u8], wait: Duration) -> Result<Bytes, Failure> {
        check_key(key)?;
        if wait.is_zero() {
            let none = || Failure::not_found("there is no such key");
            return self.state().store.try_get(key).ok_or_else(none);
        }
        let value = self.state().store.get(key);
        let later = match value {
            Value::Here(value) => return Ok(value),
            Value::Later(later) => later,
        };
        let _tidy = OnDrop(|| self.state().store.tidy(key));
        // Taken by value: dropping it on time-out precedes the cleanup.
        match timeout(wait, later).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err(Failure::lost("the coordinator is shutting down")),
            Err(_) => Err(Failure::timeout(format!("no process put a value within {wait:.0?}"))),
        }
    }

    pub(super) fn delete(&self, key: &[u8]) -> bool {
        self.state().store.delete(key)
    }

    pub(super) fn list(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.state().store.list(prefix)
    }

    /// Contributes to a meeting, and waits for the contributions of the others.
    pub(super) async fn meet(
        &self,
        name: &str,
        members: Vec<u32>,
        index: u32,
        brought: Bytes,
        wait: Duration,
    ) -> Result<Arc<Contributions>, Failure> {
        // Dropped after `all`: only then has this process given up waiting.
        let _tidy = OnDrop(|| self.state().meetings.tidy(name));
        let mut all = self.arrive(name, members, index, brought)?;
        match timeout(wait, &mut all).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Failure::lost("the coordinator is shutting down")),
            Err(_) => {
                let mut state = self.state();
                // The others may have met at this moment. All must see the same outcome.
                if let Ok(outcome) = all.try_recv() {
                    return outcome;
                }
                let (awaited, there) = state.meetings.state(name);
                let message = format!(
                    "{} did not arrive; {} waited {wait:.0?}; present: {}",
                    state.members.names(&awaited),
                    state.members.name(index),
                    listed(&there)
                );
                let failure = Failure::timeout(message).of(&awaited);
                state.meetings.end(name, failure.clone());
                Err(failure)
            }
        }
    }

    fn arrive(
        &self,
        name: &str,
        mut members: Vec<u32>,
        index: u32,
        brought: Bytes,
    ) -> Result<oneshot::Receiver<Outcome>, Failure> {
        let mut state = self.state();
        let count = state.members.count();
        if members.is_empty() {
            members = (0..count).collect();
        }
        members.sort_unstable();
        members.dedup();
        if let Some(none) = members.iter().find(|index| **index >= count) {
            return Err(Failure::refused(format!("there is no process {none} of {count}")));
        }
        let left = state.members.left(&members);
        // After a loss all processes leave, and the loss is the better explanation.
        if !left.is_empty() && !matches!(*self.phase.borrow(), Phase::Lost(_)) {
            let message = format!("nobody will come: {} has shut down", state.members.names(&left));
            return Err(Failure::timeout(message).of(&left));
        }
        state.meetings.arrive(name, &members, index, brought)
    }
}

/// Reserved memory, released on drop.
pub(super) struct Reserved {
    hub: Arc<Hub>,
    cost: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.cost > 0 {
            self.hub.state().store.release(self.cost);
        }
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::PROTOCOL;
    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    fn hub(count: u32, joined: u32) -> Arc<Hub> {
        let terms =
            Terms { count, run: String::new(), heartbeat_timeout: LONG, store_limit: 1 << 20 };
        let hub = Arc::new(Hub::new(terms));
        (0..joined).for_each(|index| join(&hub, index, count).unwrap());
        hub
    }

    fn join(hub: &Hub, index: u32, count: u32) -> Result<(), Failure> {
        let (host, run) = (format!("host-{index}"), String::new());
        let (pid, incarnation, wait_ms) = (1, 7, 0);
        hub.join(&Join { protocol: PROTOCOL, index, count, run, incarnation, host, pid, wait_ms })
    }

    fn block_on<T>(future: impl std::future::Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn first_loss_is_reported() {
        let hub = hub(3, 3);
        assert!(matches!(&*hub.phase().borrow(), Phase::Ready(names) if names.len() == 3));
        hub.lose(2, "died");
        hub.lose(1, "died too");
        let Phase::Lost(failure) = hub.phase().borrow().clone() else { panic!("lost") };
        assert_eq!(failure.message(), "process 2 (host-2:1) died");
        assert!(join(&hub, 2, 3).unwrap_err().is_lost());
    }

    #[test]
    fn cancelled_requests_leave_no_state() {
        let hub = hub(2, 2);
        block_on(async {
            let mut meeting = std::pin::pin!(hub.meet("b", vec![], 0, Bytes::new(), LONG));
            assert!(timeout(SOON, &mut meeting).await.is_err());
            assert_eq!(hub.state().meetings.state("b"), (vec![1], vec![0]));
        });
        assert_eq!(hub.state().meetings.state("b"), (vec![], vec![]));
    }

    #[test]
    fn missing_processes_are_named() {
        let hub = hub(3, 3);
        let meeting = |index| hub.meet("b", vec![], index, Bytes::new(), SOON);
        let (first, second) = block_on(async { tokio::join!(meeting(0), meeting(2)) });
        let failure = first.unwrap_err();
        assert_eq!(second.unwrap_err(), failure, "one time-out ends the meeting for all");
        let said = failure.message();
        assert!(said.starts_with("process 1 (host-1:1) did not arrive; process "), "{said}");
        assert!(said.ends_with("waited 20ms; present: processes 0 and 2"), "{said}");
        hub.leave(1);
        let said = block_on(meeting(0)).unwrap_err().message().to_owned();
        assert_eq!(said, "nobody will come: process 1 (host-1:1) has shut down");
        let said = block_on(hub.meet("b", vec![0, 9], 0, Bytes::new(), SOON)).unwrap_err();
        assert_eq!(said.message(), "there is no process 9 of 3");
    }

    #[test]
    fn processes_that_never_joined_are_named() {
        let hub = hub(3, 1);
        hub.give_up_gathering(0, Duration::from_secs(9));
        let Phase::Lost(failure) = hub.phase().borrow().clone() else { panic!("lost") };
        let said = failure.message();
        assert!(said.starts_with("processes 1 and 2 of 3 never joined"), "{said}");
        let late = join(&hub, 1, 3).unwrap_err();
        assert_eq!(late, failure, "later processes get the same failure");
    }

    #[test]
    fn complete_programs_do_not_time_out() {
        let hub = hub(2, 2);
        hub.give_up_gathering(0, SOON);
        assert!(matches!(&*hub.phase().borrow(), Phase::Ready(_)));
    }

    #[test]
    fn coordinator_waits_for_notifications() {
        let hub = hub(3, 3);
        hub.lose(2, "died");
        block_on(async {
            let mut waiting = std::pin::pin!(hub.others_acknowledged(0));
            assert!(timeout(SOON, &mut waiting).await.is_err());
            hub.acknowledged(1);
            waiting.await;
        });
    }

    #[test]
    fn reserved_memory_is_released() {
        let hub = hub(1, 1);
        let reserved = hub.reserve(1 << 19, "a value").unwrap();
        assert!(hub.reserve(1 << 19, "another").is_err());
        drop(reserved);
        let reserved = hub.reserve(3, "a value").unwrap();
        hub.put(b"k".to_vec(), Bytes::from_static(b"vv"), reserved);
        assert_eq!(block_on(hub.get(b"k", LONG)).unwrap(), "vv");
        assert!(hub.delete(b"k"));
        drop(hub.reserve((1 << 20) - 64, "all of it").unwrap());
        let late = block_on(hub.get(b"k", SOON)).unwrap_err();
        assert_eq!(late.message(), "no process put a value within 20ms");
        assert!(block_on(hub.get(b"k", Duration::ZERO)).is_err());
    }
}
