//! Meetings: points at which processes wait for each other and exchange contributions.

use super::failure::{Failure, listed};
use prost::bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::oneshot::{self, Receiver, Sender};

/// The contributions to a meeting, by process.
pub(super) type Contributions = BTreeMap<u32, Bytes>;

/// The result of a meeting.
pub(super) type Outcome = Result<Arc<Contributions>, Failure>;

/// Incomplete meetings, by name.
#[derive(Default)]
pub(super) struct Meetings(HashMap<String, Meeting>);

struct Meeting {
    members: Vec<u32>,
    present: BTreeMap<u32, Present>,
}

struct Present {
    brought: Bytes,
    reply: Sender<Outcome>,
}

impl Meetings {
    /// Adds a process. The last one completes the meeting for all and frees the name.
    ///
    /// `members` are sorted and contain `index`.
    pub(super) fn arrive(
        &mut self,
        name: &str,
        members: &[u32],
        index: u32,
        brought: Bytes,
    ) -> Result<Receiver<Outcome>, Failure> {
        if !members.contains(&index) {
            let message =
                format!("process {index} is not among those who meet here: {}", listed(members));
            return Err(Failure::refused(message).of(&[index]));
        }
        let meeting = self
            .0
            .entry(name.to_owned())
            .or_insert_with(|| Meeting { members: members.to_vec(), present: BTreeMap::new() });
        if meeting.members != members {
            let others: Vec<u32> = meeting.present.keys().copied().collect();
            let message = format!(
                "{} meet here, says process {index}; {}, say others",
                listed(members),
                listed(&meeting.members)
            );
            return Err(Failure::mismatch(message).of(&others));
        }
        if meeting.present.get(&index).is_some_and(|present| !present.reply.is_closed()) {
            let message = format!("process {index} waits here already, in another thread");
            return Err(Failure::refused(message).of(&[index]));
        }
        let (reply, receiver) = oneshot::channel();
        meeting.present.insert(index, Present { brought, reply });
        if meeting.present.len() == meeting.members.len()
            && let Some(complete) = self.0.remove(name)
        {
            let brought = |(&index, present): (&u32, &Present)| (index, present.brought.clone());
            let all: Arc<Contributions> = Arc::new(complete.present.iter().map(brought).collect());
            complete.notify(&Ok(all));
        }
        Ok(receiver)
    }

    /// Removes processes that have given up waiting.
    pub(super) fn tidy(&mut self, name: &str) {
        if let Some(meeting) = self.0.get_mut(name) {
            meeting.present.retain(|_, present| !present.reply.is_closed());
            if meeting.present.is_empty() {
                self.0.remove(name);
            }
        }
    }

    /// Ends a meeting for all participants, because one has waited long enough.
    ///
    /// Otherwise the next one to give up would blame those who gave up before.
    pub(super) fn end(&mut self, name: &str, failure: Failure) {
        if let Some(meeting) = self.0.remove(name) {
            meeting.notify(&Err(failure));
        }
    }

    /// Returns the expected and the present processes of a meeting.
    pub(super) fn state(&self, name: &str) -> (Vec<u32>, Vec<u32>) {
        let Some(meeting) = self.0.get(name) else { return Default::default() };
        let is_there = |index: &u32| meeting.present.contains_key(index);
        meeting.members.iter().copied().partition(|index| !is_there(index))
    }
}

impl Meeting {
    fn notify(self, outcome: &Outcome) {
        for present in self.present.into_values() {
            // The receiver may be gone.
            drop(present.reply.send(outcome.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(meetings: &mut Meetings, index: u32) -> Receiver<Outcome> {
        let brought = Bytes::from(vec![index as u8]);
        meetings.arrive("here", &[0, 1, 2], index, brought).unwrap()
    }

    #[test]
    fn last_process_completes_and_frees_the_name() {
        let mut meetings = Meetings::default();
        for _ in 0..3 {
            let mut first = arrive(&mut meetings, 2);
            let mut second = arrive(&mut meetings, 0);
            assert!(first.try_recv().is_err());
            assert_eq!(meetings.state("here"), (vec![1], vec![0, 2]));
            let mut last = arrive(&mut meetings, 1);
            let all = last.try_recv().unwrap().unwrap();
            let expected = [0, 1, 2].map(|index| (index, Bytes::from(vec![index as u8])));
            assert_eq!(*all, Contributions::from(expected));
            assert!(first.try_recv().is_ok() && second.try_recv().is_ok());
            assert!(meetings.0.is_empty());
        }
    }

    #[test]
    fn processes_that_gave_up_are_expected_again() {
        let mut meetings = Meetings::default();
        let first = arrive(&mut meetings, 0);
        let mut second = arrive(&mut meetings, 1);
        drop(first);
        meetings.tidy("here");
        let mut last = arrive(&mut meetings, 2);
        assert!(last.try_recv().is_err(), "process 0 is no longer there");
        let _again = arrive(&mut meetings, 0);
        assert!(last.try_recv().is_ok() && second.try_recv().is_ok());
        drop(arrive(&mut meetings, 0));
        meetings.tidy("here");
        assert!(meetings.0.is_empty());
    }

    #[test]
    fn one_timeout_ends_the_meeting_for_all() {
        let mut meetings = Meetings::default();
        let (mut first, mut second) = (arrive(&mut meetings, 0), arrive(&mut meetings, 1));
        meetings.end("here", Failure::timeout("process 2 did not arrive"));
        for waiter in [&mut first, &mut second] {
            let failure = waiter.try_recv().unwrap().unwrap_err();
            assert_eq!(failure.message(), "process 2 did not arrive");
        }
        assert!(arrive(&mut meetings, 2).try_recv().is_err(), "the next meeting is empty");
    }

    #[test]
    fn members_must_agree() {
        let mut meetings = Meetings::default();
        let _first = arrive(&mut meetings, 0);
        let mut wrong =
            |members: &[u32], index| meetings.arrive("here", members, index, Bytes::new());
        let said = wrong(&[0, 1], 1).unwrap_err().message().to_owned();
        assert_eq!(
            said,
            "processes 0 and 1 meet here, says process 1; processes 0, 1 and 2, say others"
        );
        assert!(wrong(&[0, 1, 2], 0).unwrap_err().message().contains("already"));
        assert!(wrong(&[1, 2], 0).unwrap_err().message().contains("not among"));
    }
}
