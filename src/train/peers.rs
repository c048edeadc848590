//! [`Peers`]: what the watchdogs of a program's other processes know.
//!
//! Each watchdog writes the step and the work of its process to the coordinator's store every few
//! seconds. One that sees a stall reads what the others have written.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A process counts as silent if it has written nothing for so many times the interval.
const SILENT: u32 = 3;

/// A process of the program, as its watchdog described it last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessProgress {
    /// The process's index.
    pub process: usize,
    /// The process, its host and its process id: `process 2 (host-b:4711)`.
    pub name: String,
    /// The step under way; `None` between steps, or if the process has no watchdog.
    pub step: Option<u64>,
    /// The time since the step began.
    pub elapsed: Duration,
    /// The work of its threads, a line for each.
    pub work: Vec<String>,
    /// The time since the process wrote this, as far as the clocks of the hosts agree; `None` if it
    /// has written nothing.
    pub age: Option<Duration>,
}

/// The processes for which a stalled step can wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Late<'p> {
    /// Processes in an earlier step.
    pub(super) behind: Vec<&'p ProcessProgress>,
    /// Processes that have written nothing for some time.
    pub(super) silent: Vec<&'p ProcessProgress>,
    /// The number of the others.
    pub(super) others: usize,
}

impl<'p> Late<'p> {
    /// Finds the processes that may keep this one from ending its step.
    pub(super) fn of(step: u64, processes: &'p [ProcessProgress], interval: Duration) -> Late<'p> {
        let mut late = Late::default();
        for process in processes {
            let is_silent = process.age.is_none_or(|age| age > interval * SILENT);
            if is_silent {
                late.silent.push(process);
            } else if process.step.is_none_or(|other| other < step) {
                late.behind.push(process);
            } else {
                late.others += 1;
            }
        }
        late
    }
}

impl fmt::Display for ProcessProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let Some(age) = self.age else {
            return f.write_str(" has not reported: it has no watchdog, or did not get that far");
        };
        match self.step {
            Some(step) => {
                let elapsed = self.elapsed.as_secs_f64();
                write!(f, " has been in step {step} for {elapsed:.1} s")?;
            }
            None => f.write_str(" is between two steps")?,
        }
        write!(f, ", {:.1} s ago", age.as_secs_f64())?;
        for line in &self.work {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

#[cfg(not(feature = "distributed"))]
pub(super) use alone::Peers;
#[cfg(feature = "distributed")]
pub(super) use joined::Peers;

#[cfg(not(feature = "distributed"))]
mod alone {
    use super::ProcessProgress;
    use std::time::Duration;

    /// A process that cannot join others.
    pub(in crate::train) struct Peers;

    impl Peers {
        pub(in crate::train) fn find() -> Option<Peers> {
            None
        }

        pub(in crate::train) fn write(&self, _: Option<(u64, Duration)>, _: Vec<String>) {}

        pub(in crate::train) fn read(&self) -> Vec<ProcessProgress> {
            Vec::new()
        }
    }
}

#[cfg(feature = "distributed")]
mod joined {
    use super::ProcessProgress;
    use crate::core::spans::unix_nanos;
    use crate::distributed::{self, process_count, process_index};
    use std::time::{Duration, SystemTime};

    /// Access to the coordinator's store.
    pub(in crate::train) struct Peers {
        own: usize,
        names: Vec<String>,
    }

    /// Nanoseconds since 1970, and what the process wrote then.
    type Entry = (u64, ProcessProgress);

    fn now() -> u64 {
        unix_nanos(SystemTime::now())
    }

    impl Peers {
        /// Returns the other processes, if there are any and this one has joined them.
        pub(in crate::train) fn find() -> Option<Peers> {
            let joined = distributed::is_initialized() && process_count() > 1;
            joined.then(|| Peers { own: process_index(), names: distributed::process_names() })
        }

        /// Writes what this process is doing, for the others.
        pub(in crate::train) fn write(&self, step: Option<(u64, Duration)>, work: Vec<String>) {
            let (step, elapsed) = step.unzip();
            let own = ProcessProgress {
                process: self.own,
                step,
                elapsed: elapsed.unwrap_or_default(),
                work,
                ..ProcessProgress::default()
            };
            // A lost coordinator is the error of another call, and this thread goes on watching.
            if let Ok(text) = serde_json::to_vec::<Entry>(&(now(), own)) {
                drop(distributed::put(&key(self.own), &text));
            }
        }

        /// Reads what the other processes are doing, in order of their indices.
        pub(in crate::train) fn read(&self) -> Vec<ProcessProgress> {
            let others = (0..self.names.len()).filter(|process| *process != self.own);
            others.map(|process| self.read_one(process)).collect()
        }

        fn read_one(&self, process: usize) -> ProcessProgress {
            let written = distributed::try_get(&key(process)).ok().flatten();
            let entry = written.and_then(|text| serde_json::from_slice::<Entry>(&text).ok());
            let unnamed = || format!("process {process}");
            let name = self.names.get(process).cloned().unwrap_or_else(unnamed);
            match entry {
                Some((time, progress)) => {
                    let age = Some(Duration::from_nanos(now().saturating_sub(time)));
                    ProcessProgress { process, name, age, ..progress }
                }
                None => ProcessProgress { process, name, ..ProcessProgress::default() },
            }
        }
    }

    fn key(process: usize) -> String {
        format!("oxidax/watchdog/{process}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(process: usize, step: Option<u64>, age: Option<u64>) -> ProcessProgress {
        ProcessProgress {
            process,
            name: format!("process {process} (host-b:7)"),
            step,
            elapsed: Duration::from_secs(70),
            work: vec!["main: data_wait for 70.0 s at src/main.rs:21".to_owned()],
            age: age.map(Duration::from_secs),
        }
    }

    #[test]
    fn processes_behind_and_silent_ones_are_told_apart() {
        let all = [
            process(1, Some(412), Some(1)),
            process(2, Some(410), Some(2)),
            process(3, None, Some(3)),
            process(4, Some(412), Some(60)),
            process(5, None, None),
        ];
        let late = Late::of(412, &all, Duration::from_secs(5));
        assert_eq!(
            late,
            Late { behind: vec![&all[1], &all[2]], silent: vec![&all[3], &all[4]], others: 1 }
        );
        assert_eq!(
            all[1].to_string(),
            "process 2 (host-b:7) has been in step 410 for 70.0 s, 2.0 s ago\n    \
             main: data_wait for 70.0 s at src/main.rs:21"
        );
        assert!(all[4].to_string().contains("has not reported"));
    }
}
