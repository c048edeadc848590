//! `--profile DIR`: records some training steps, and measures the time of the step by line.

use super::Train;
use oxidax::prelude::*;
use oxidax::profile::{self, LineProfile, ProfileSession};
use std::ops::Range;
use std::path::PathBuf;

/// Steps before the profile. The first one compiles.
const WARM_UP: u32 = 3;

/// Records the steps after the warm-up.
pub struct StepProfiler {
    /// The steps to record; empty without `--profile`.
    steps: Range<u32>,
    folder: PathBuf,
    session: Option<ProfileSession>,
}

impl StepProfiler {
    /// Returns the profiler of a run that has done `done` of `last` steps.
    pub fn new(options: &Train, done: u32, last: u32) -> StepProfiler {
        let first = done.saturating_add(WARM_UP).min(last.saturating_sub(1));
        let end = first.saturating_add(options.profile_steps).min(last);
        let steps = if options.profile.is_some() { first..end } else { 0..0 };
        StepProfiler { steps, folder: options.profile.clone().unwrap_or_default(), session: None }
    }

    /// Starts to record if this is the first step of the profile. Returns true for a step that is
    /// recorded. Such a step must end with a wait, so that its mark contains its work.
    pub fn begin(&mut self, step: u32) -> anyhow::Result<bool> {
        if self.steps.contains(&step) && self.session.is_none() {
            self.session = Some(ProfileSession::start()?);
        }
        Ok(self.session.is_some())
    }

    /// Ends the profile after its last step, or if the training is stopped, and returns true then.
    /// Adds the time of each line of the step, which `lines` measures, prints the table and writes
    /// the profile, and the arrays in memory if they are tracked.
    pub fn end(
        &mut self,
        done: u32,
        stopped: bool,
        lines: impl FnOnce() -> Result<LineProfile, Error>,
    ) -> anyhow::Result<bool> {
        let Some(session) = self.session.take_if(|_| done >= self.steps.end || stopped) else {
            return Ok(false);
        };
        let mut profile = session.stop();
        // What was recorded is worth keeping without the lines.
        match lines() {
            Ok(lines) => profile = profile.with_lines(lines),
            Err(error) => println!("without the time of each line: {error}"),
        }
        println!("{}", profile.step_lines());
        let folder = profile.save(&self.folder)?;
        println!("profile   {}", folder.display());
        // Arrays are tracked with `OXIDAX_TRACK_ARRAYS=1`.
        if let Ok(memory) = profile::memory() {
            memory.save(folder.join("memory.pb"))?;
            println!("{memory}");
        }
        Ok(true)
    }
}
