//! Membership: processes that have joined, left, or been refused.

use super::failure::{self, Failure, listed};
use super::message::{Caller, Join, PROTOCOL};

/// The slots of all processes, taken or not.
pub(super) struct Members {
    run: String,
    places: Vec<Option<Member>>,
    /// Messages to the first refused processes, which explain why others are missing.
    turned_away: Vec<String>,
}

struct Member {
    name: String,
    incarnation: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Here,
    /// The process has left regularly.
    Left,
    /// The connection of the process ended, or the process was silent.
    Lost,
}

/// Number of refusals that are kept.
const MAX_REFUSALS: usize = 4;

impl Members {
    pub(super) fn new(count: u32, run: &str) -> Members {
        let places = (0..count).map(|_| None).collect();
        Members { run: run.to_owned(), places, turned_away: Vec::new() }
    }

    /// Accepts a process.
    pub(super) fn join(&mut self, join: &Join) -> Result<(), Failure> {
        let name = failure::name(join.index, &join.host, join.pid);
        match self.objection(join, &name) {
            None => {
                let member = Member { name, incarnation: join.incarnation, state: State::Here };
                self.places[join.index as usize] = Some(member);
                Ok(())
            }
            Some(message) => {
                if self.turned_away.len() < MAX_REFUSALS {
                    self.turned_away.push(message.clone());
                }
                Err(Failure::refused(message).of(&[join.index]))
            }
        }
    }

    fn objection(&self, join: &Join, name: &str) -> Option<String> {
        let count = self.places.len();
        if join.protocol != PROTOCOL {
            return Some(format!(
                "{name} uses version {} of the protocol, the coordinator {PROTOCOL}: build all \
                 processes with one version of oxidax",
                join.protocol
            ));
        }
        if join.run != self.run {
            return Some(format!(
                "{name} belongs to the run `{}`, the coordinator to `{}`",
                join.run, self.run
            ));
        }
        if join.count as usize != count {
            return Some(format!(
                "{name} was started as one of {}, the coordinator as one of {count}",
                join.count
            ));
        }
        let Some(place) = self.places.get(join.index as usize) else {
            return Some(format!("{name} has no place among {count}; they count from 0"));
        };
        let taken = place.as_ref()?;
        Some(match taken.state {
            State::Here => format!("{name} comes second: the id is taken by {}", taken.name),
            State::Left => format!("{name} comes too late: {} has left", taken.name),
            State::Lost => format!(
                "{name} starts after {} died: a single process cannot be replaced, start all of \
                 them again",
                taken.name
            ),
        })
    }

    /// Checks that a request comes from a process that has joined.
    pub(super) fn check(&self, caller: Option<Caller>) -> Result<u32, Failure> {
        let known = |caller: &Caller| {
            self.places.get(caller.index as usize).and_then(Option::as_ref).is_some_and(|member| {
                member.incarnation == caller.incarnation && member.state == State::Here
            })
        };
        match caller {
            Some(caller) if known(&caller) => Ok(caller.index),
            _ => Err(Failure::refused("the request comes from a process that has not joined")),
        }
    }

    /// Records that a process has left.
    pub(super) fn leave(&mut self, index: u32) {
        self.set(index, State::Left);
    }

    /// Records that a process is lost. Returns true if it was present.
    pub(super) fn lose(&mut self, index: u32) -> bool {
        self.set(index, State::Lost)
    }

    fn set(&mut self, index: u32, state: State) -> bool {
        match self.places.get_mut(index as usize).and_then(Option::as_mut) {
            Some(member) if member.state == State::Here => {
                member.state = state;
                true
            }
            _ => false,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.places.len() as u32
    }

    pub(super) fn all_joined(&self) -> bool {
        self.places.iter().all(Option::is_some)
    }

    /// Returns the processes that have joined and are still present.
    pub(super) fn here(&self) -> Vec<u32> {
        self.in_state(State::Here)
    }

    /// Returns the processes of `among` that have left.
    pub(super) fn left(&self, among: &[u32]) -> Vec<u32> {
        self.in_state(State::Left).into_iter().filter(|index| among.contains(index)).collect()
    }

    fn in_state(&self, state: State) -> Vec<u32> {
        let of = |(index, place): (usize, &Option<Member>)| {
            place.as_ref().is_some_and(|member| member.state == state).then_some(index as u32)
        };
        self.places.iter().enumerate().filter_map(of).collect()
    }

    /// Returns the name of a process, or only its number if it never joined.
    pub(super) fn name(&self, index: u32) -> String {
        let member = self.places.get(index as usize).and_then(Option::as_ref);
        member.map_or_else(|| format!("process {index}"), |member| member.name.clone())
    }

    pub(super) fn names(&self, indices: &[u32]) -> String {
        indices.iter().map(|&index| self.name(index)).collect::<Vec<_>>().join(", ")
    }

    /// Returns the names of all processes, in order.
    pub(super) fn roster(&self) -> Vec<String> {
        (0..self.count()).map(|index| self.name(index)).collect()
    }

    /// Returns the failure of `waiter`, which waited too long for others to join.
    pub(super) fn incomplete(&self, waiter: u32, waited: std::time::Duration) -> Failure {
        let absent: Vec<u32> =
            (0..self.count()).filter(|&index| self.places[index as usize].is_none()).collect();
        let present: Vec<u32> = (0..self.count()).filter(|index| !absent.contains(index)).collect();
        let mut message = format!(
            "{} of {} never joined: {} waited {waited:.0?}; present: {}",
            listed(&absent),
            self.count(),
            self.name(waiter),
            self.names(&present),
        );
        for refusal in &self.turned_away {
            message.push_str("; turned away: ");
            message.push_str(refusal);
        }
        Failure::timeout(message).of(&absent).help(
            "see whether these processes were started, and with the same coordinator's address; \
             `initialization_timeout` sets how long is waited",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn join(index: u32, count: u32) -> Join {
        Join {
            protocol: PROTOCOL,
            index,
            count,
            run: "run".into(),
            incarnation: u64::from(index) + 100,
            host: format!("host-{index}"),
            pid: 7,
            wait_ms: 1000,
        }
    }

    fn refusal(members: &mut Members, join: &Join) -> String {
        members.join(join).expect_err("must be turned away").message().to_owned()
    }

    #[test]
    fn ids_are_unique() {
        let mut members = Members::new(2, "run");
        members.join(&join(1, 2)).unwrap();
        let second = Join { host: "elsewhere".into(), incarnation: 9, ..join(1, 2) };
        let said = refusal(&mut members, &second);
        assert_eq!(
            said,
            "process 1 (elsewhere:7) comes second: the id is taken by process 1 (host-1:7)"
        );
        let waited = members.incomplete(1, Duration::from_secs(5)).message().to_owned();
        assert!(waited.starts_with("process 0 of 2 never joined"), "{waited}");
        assert!(waited.contains("present: process 1 (host-1:7)"), "{waited}");
        assert!(waited.contains("elsewhere"), "{waited}");
    }

    #[test]
    fn counts_runs_and_versions_must_match() {
        let mut members = Members::new(2, "run");
        let said = refusal(&mut members, &join(1, 3));
        assert!(said.ends_with("as one of 3, the coordinator as one of 2"), "{said}");
        let said = refusal(&mut members, &Join { run: "other".into(), ..join(1, 2) });
        assert!(said.contains("`other`") && said.contains("`run`"), "{said}");
        let said = refusal(&mut members, &Join { protocol: 99, ..join(1, 2) });
        assert!(said.contains("version 99"), "{said}");
        let said = refusal(&mut members, &join(2, 2));
        assert!(said.contains("no place among 2"), "{said}");
        assert!(members.here().is_empty());
    }

    #[test]
    fn lost_processes_cannot_rejoin() {
        let mut members = Members::new(2, "run");
        for index in 0..2 {
            members.join(&join(index, 2)).unwrap();
        }
        assert!(members.all_joined());
        assert!(members.lose(1) && !members.lose(1));
        let said = refusal(&mut members, &Join { incarnation: 5, ..join(1, 2) });
        assert!(said.contains("start all of them again"), "{said}");
        members.leave(0);
        assert!(!members.lose(0), "a process that has left cannot be lost");
        assert_eq!(members.left(&[0, 1]), [0]);
        assert!(members.here().is_empty());
    }

    #[test]
    fn requests_require_membership() {
        let mut members = Members::new(1, "run");
        let caller = Caller { index: 0, incarnation: 100 };
        assert!(members.check(Some(caller)).is_err());
        members.join(&join(0, 1)).unwrap();
        assert_eq!(members.check(Some(caller)), Ok(0));
        for stranger in [
            None,
            Some(Caller { incarnation: 1, ..caller }),
            Some(Caller { index: 1, ..caller }),
            Some(Caller { index: u32::MAX, ..caller }),
        ] {
            assert!(members.check(stranger).is_err(), "{stranger:?}");
        }
    }
}
