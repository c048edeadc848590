//! The coordinator's state, and what happens to it.

use super::failure::{Failure, listed};
use super::meetings::{Brought, Meetings, Outcome};
use super::members::Members;
use super::message::{Caller, Join};
use super::store::{Store, Value, check_key};
use prost::bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// How far the program has come.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Some have not joined yet.
    Gathering,
    /// All have; these are their names.
    Ready(Arc<Vec<String>>),
    /// It cannot go on. This is for good.
    Lost(Failure),
}

/// What a coordinator is told when it is made.
#[derive(Clone, Debug)]
pub(in crate::distributed) struct Terms {
    pub(in crate::distributed) count: u32,
    pub(in crate::distributed) run: String,
    /// After how long a silence a process is taken for dead.
    pub(in crate::distributed) heartbeat_timeout: Duration,
    /// How many bytes may be kept for processes.
    pub(in crate::distributed) store_limit: u64,
}

/// All that the coordinator knows, shared by its connections.
pub(super) struct Hub {
    pub(super) terms: Terms,
    state: Mutex<State>,
    phase: watch::Sender<Phase>,
    /// How many processes still have to be told of what was lost, or to leave; changes wake whoever waits for that.
    stirred: watch::Sender<()>,
}

struct State {
    members: Members,
    store: Store,
    meetings: Meetings,
    /// Who has heard what was lost.
    heard: BTreeSet<u32>,
}

/// How long processes are given to hear what was lost before the coordinator's own process is told, which may end
/// at once, and the coordinator with it.
const TELLING: Duration = Duration::from_secs(2);

impl Hub {
    pub(super) fn new(terms: Terms) -> Hub {
        let state = State {
            members: Members::new(terms.count, &terms.run),
            store: Store::new(terms.store_limit),
            meetings: Meetings::default(),
            heard: BTreeSet::new(),
        };
        let (phase, stirred) = (watch::Sender::new(Phase::Gathering), watch::Sender::new(()));
        Hub { terms, state: Mutex::new(state), phase, stirred }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Takes a process in, unless the program is lost already.
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

    /// A process by name.
    pub(super) fn name(&self, index: u32) -> String {
        self.state().members.name(index)
    }

    /// What a process that waited so long for the others is told, and they too.
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

    /// A process says goodbye.
    pub(super) fn leave(&self, index: u32) {
        self.state().members.leave(index);
        self.stirred.send_replace(());
    }

    /// A process is gone without a goodbye.
    pub(super) fn lose(&self, index: u32, why: &str) {
        let mut state = self.state();
        if state.members.lose(index) {
            let message = format!("{} {why}", state.members.name(index));
            drop(state);
            self.advance(Phase::Lost(Failure::lost(message).of(&[index]).help(
                "see what this process wrote last; a process that is done says so with \
                 `distributed::shutdown`",
            )));
            self.stirred.send_replace(());
        }
    }

    /// Moves on, unless the program is lost: the first loss explains the others.
    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let lost = matches!(phase, Phase::Lost(_));
            if !lost {
                *phase = to;
            }
            !lost
        });
    }

    /// A process was told what was lost.
    pub(super) fn heard(&self, index: u32) {
        self.state().heard.insert(index);
        self.stirred.send_replace(());
    }

    /// Waits, not for long, until all processes but this one have heard what was lost.
    pub(super) async fn others_heard(&self, but: u32) {
        let heard = |state: &State| {
            state.members.here().iter().all(|index| *index == but || state.heard.contains(index))
        };
        // If they do not hear it in time, they find out by themselves that the coordinator is gone.
        drop(timeout(TELLING, self.until(heard)).await);
    }

    /// Waits until all that are left have gone, at most so long. If some have not, they are told that the coordinator
    /// goes before them.
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
            self.others_heard(0).await;
        }
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        let mut stirred = self.stirred.subscribe();
        while !is_so(&self.state()) {
            // The sender lives as long as the hub.
            if stirred.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn check(&self, caller: Option<Caller>) -> Result<u32, Failure> {
        self.state().members.check(caller)
    }

    /// Sets room aside for bytes that are to come, until the reservation ends.
    pub(super) fn reserve(self: &Arc<Hub>, bytes: u64, what: &str) -> Result<Reserved, Failure> {
        let cost = self.state().store.reserve(bytes, what)?;
        Ok(Reserved { hub: self.clone(), cost })
    }

    /// Sets a value; the reservation becomes its room.
    pub(super) fn put(&self, key: Vec<u8>, value: Bytes, mut reserved: Reserved) {
        reserved.cost = 0;
        self.state().store.put(key, value);
    }

    /// The value of a key, waiting for it. Who waits when somebody is lost is told so elsewhere, and goes.
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
        // Taken by value, so that whoever gives up has done so before it is tidied away.
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

    /// Brings something to a meeting, and waits for what the others bring.
    pub(super) async fn meet(
        &self,
        name: &str,
        members: Vec<u32>,
        index: u32,
        brought: Bytes,
        wait: Duration,
    ) -> Result<Arc<Brought>, Failure> {
        let all = self.arrive(name, members, index, brought)?;
        let _tidy = OnDrop(|| self.state().meetings.tidy(name));
        match timeout(wait, all).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Failure::lost("the coordinator is shutting down")),
            Err(_) => {
                let mut state = self.state();
                let (awaited, there) = state.meetings.state(name);
                let message = format!(
                    "{} did not come; {} waited {wait:.0?}; who came: {}",
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
        // After a loss everybody leaves, which is not what to tell.
        if !left.is_empty() && !matches!(*self.phase.borrow(), Phase::Lost(_)) {
            let message = format!("nobody will come: {} has shut down", state.members.names(&left));
            return Err(Failure::timeout(message).of(&left));
        }
        state.meetings.arrive(name, &members, index, brought)
    }
}

/// Room that is given back.
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
    fn the_first_loss_is_the_one_that_is_told() {
        let hub = hub(3, 3);
        assert!(matches!(&*hub.phase().borrow(), Phase::Ready(names) if names.len() == 3));
        hub.lose(2, "died");
        hub.lose(1, "died too");
        let Phase::Lost(failure) = hub.phase().borrow().clone() else { panic!("lost") };
        assert_eq!(failure.message(), "process 2 (host-2:1) died");
        assert!(join(&hub, 2, 3).unwrap_err().is_lost());
    }

    #[test]
    fn who_goes_while_waiting_leaves_nothing_behind() {
        let hub = hub(2, 2);
        block_on(async {
            let mut meeting = std::pin::pin!(hub.meet("b", vec![], 0, Bytes::new(), LONG));
            assert!(timeout(SOON, &mut meeting).await.is_err());
            assert_eq!(hub.state().meetings.state("b"), (vec![1], vec![0]));
        });
        assert_eq!(hub.state().meetings.state("b"), (vec![], vec![]));
    }

    #[test]
    fn who_is_missing_is_named() {
        let hub = hub(3, 3);
        let meeting = |index| hub.meet("b", vec![], index, Bytes::new(), SOON);
        let (first, second) = block_on(async { tokio::join!(meeting(0), meeting(2)) });
        let failure = first.unwrap_err();
        assert_eq!(second.unwrap_err(), failure, "whoever gives up does so for all");
        let said = failure.message();
        assert!(said.starts_with("process 1 (host-1:1) did not come; process "), "{said}");
        assert!(said.ends_with("waited 20ms; who came: processes 0 and 2"), "{said}");
        hub.leave(1);
        let said = block_on(meeting(0)).unwrap_err().message().to_owned();
        assert_eq!(said, "nobody will come: process 1 (host-1:1) has shut down");
        let said = block_on(hub.meet("b", vec![0, 9], 0, Bytes::new(), SOON)).unwrap_err();
        assert_eq!(said.message(), "there is no process 9 of 3");
    }

    #[test]
    fn who_never_joined_is_named_to_all() {
        let hub = hub(3, 1);
        hub.give_up_gathering(0, Duration::from_secs(9));
        let Phase::Lost(failure) = hub.phase().borrow().clone() else { panic!("lost") };
        let said = failure.message();
        assert!(said.starts_with("processes 1 and 2 of 3 never joined"), "{said}");
        let late = join(&hub, 1, 3).unwrap_err();
        assert_eq!(late, failure, "who comes later is told the same");
    }

    #[test]
    fn gathering_is_not_given_up_once_all_are_there() {
        let hub = hub(2, 2);
        hub.give_up_gathering(0, SOON);
        assert!(matches!(&*hub.phase().borrow(), Phase::Ready(_)));
    }

    #[test]
    fn the_coordinator_waits_for_the_others_to_hear() {
        let hub = hub(3, 3);
        hub.lose(2, "died");
        block_on(async {
            let mut waiting = std::pin::pin!(hub.others_heard(0));
            assert!(timeout(SOON, &mut waiting).await.is_err());
            hub.heard(1);
            waiting.await;
        });
    }

    #[test]
    fn room_that_was_set_aside_is_given_back() {
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
