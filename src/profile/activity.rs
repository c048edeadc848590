//! [`ActivityTracker`]: the work that each thread is doing now.

use crate::core::Loc;
use crate::core::spans::{EventKind, EventName, Tracking};
use crate::runtime::unfinished_launches;
use std::fmt;
use std::time::Duration;

/// Number of collectives of a program that are printed.
const LISTED: usize = 12;

/// Tracks the work that threads are doing, until it is dropped: what a
/// [profile](super::ProfileSession) records, but only while it is under way. Takes little memory
/// and can run as long as the process; a piece of work costs about as much as an event of a
/// profile.
///
/// ```
/// use oxidax::profile::{ActivityTracker, TraceAnnotation};
/// let tracker = ActivityTracker::start();
/// let _load = TraceAnnotation::new("load batch");
/// let threads = tracker.threads();
/// assert!(threads.iter().any(|thread| thread.to_string().contains("load batch")));
/// ```
#[derive(Debug)]
#[must_use = "work is tracked until this is dropped"]
pub struct ActivityTracker(Tracking);

/// The work that one thread is doing. Prints as one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadActivity {
    /// The thread's name, if it has one.
    pub thread: Option<String>,
    /// The work, outermost first.
    pub work: Vec<CurrentWork>,
}

/// Work that is under way.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurrentWork {
    /// The kind of work.
    pub kind: EventKind,
    /// The function, operation or stage that it is for. It may be empty.
    pub name: EventName,
    /// The line of the program, if it is known.
    pub loc: Loc,
    /// The time since it began.
    pub elapsed: Duration,
}

/// A program on several devices that some of them have not finished. Prints as a paragraph.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnfinishedProgram {
    /// The name of the function.
    pub name: String,
    /// The line that called it, if it is known.
    pub loc: Loc,
    /// The time since it was launched.
    pub elapsed: Duration,
    /// The number of devices of this process that have not finished.
    pub unfinished: usize,
    /// The number of devices of this process that run it.
    pub devices: usize,
    /// Its collectives, in the compiler's order. A device that has not finished may wait in any of
    /// them: plugins do not tell in which.
    pub collectives: Vec<String>,
}

impl ActivityTracker {
    /// Starts to track work that begins from now on.
    pub fn start() -> ActivityTracker {
        ActivityTracker(Tracking::start())
    }

    /// Returns the programs on several devices that were launched since the tracker has started and
    /// have not finished, the first one first. Decodes the optimized programs, which can take a
    /// second for a large model.
    ///
    /// ```
    /// use oxidax::profile::ActivityTracker;
    /// let tracker = ActivityTracker::start();
    /// assert!(tracker.unfinished_programs().is_empty());
    /// ```
    pub fn unfinished_programs(&self) -> Vec<UnfinishedProgram> {
        let each = unfinished_launches().into_iter().map(|launch| {
            let (unfinished, devices) = launch.devices();
            let found = launch.report.collectives().unwrap_or_default();
            UnfinishedProgram {
                name: launch.report.name().to_owned(),
                loc: launch.loc,
                elapsed: launch.elapsed(),
                unfinished,
                devices,
                collectives: found.each().iter().map(|one| one.describe(&launch.mesh)).collect(),
            }
        });
        each.collect()
    }

    /// Returns the threads that are doing work now.
    pub fn threads(&self) -> Vec<ThreadActivity> {
        let threads = self.0.threads().into_iter().map(|thread| {
            let work = thread.work.into_iter().map(|work| CurrentWork {
                kind: work.kind,
                name: work.name,
                loc: work.loc,
                elapsed: work.elapsed,
            });
            ThreadActivity { thread: thread.name, work: work.collect() }
        });
        threads.collect()
    }
}

impl fmt::Display for CurrentWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.name.as_str()) {
            (EventKind::Scope, name) => f.write_str(name)?,
            (kind, "") => write!(f, "{kind}")?,
            (kind, name) => write!(f, "{kind} {name}")?,
        }
        write!(f, " for {:.1} s", self.elapsed.as_secs_f64())?;
        match self.loc.get() {
            Some(at) => write!(f, " at {}:{}", at.file(), at.line()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UnfinishedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unfinished, devices, .. } = self;
        write!(f, "{unfinished} of {devices} devices have not finished `{name}`")?;
        write!(f, ", launched {:.1} s ago", self.elapsed.as_secs_f64())?;
        if let Some(at) = self.loc.get() {
            write!(f, " at {}:{}", at.file(), at.line())?;
        }
        match &self.collectives[..] {
            [] => Ok(()),
            [only] => write!(f, "; its collective is\n    {only}"),
            several => {
                write!(f, "; its collectives are")?;
                several.iter().take(LISTED).try_for_each(|one| write!(f, "\n    {one}"))?;
                match several.len().checked_sub(LISTED) {
                    Some(more @ 1..) => write!(f, "\n    … and {more} more"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl fmt::Display for ThreadActivity {
    /// Writes `main: step train for 63.2 s at src/main.rs:30, in it to_host for 62.9 s …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.thread.as_deref().unwrap_or("a thread without a name"))?;
        for (position, work) in self.work.iter().enumerate() {
            if position > 0 {
                f.write_str(", in it ")?;
            }
            write!(f, "{work}")?;
        }
        Ok(())
    }
}
