//! [`trace`], [`start_trace`] and [`stop_trace`]: profiles that are written to a folder.

use super::folder::RunFolder;
use super::session::{ProfileOptions, ProfileSession, error};
use crate::core::{Error, Loc, OpErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A profile that will be written to a folder.
struct Tracing {
    session: ProfileSession,
    folder: RunFolder,
}

impl Tracing {
    #[track_caller]
    fn start(name: &'static str, dir: &Path, options: ProfileOptions) -> Result<Tracing, Error> {
        // First the session: a refused start leaves no folder.
        let session = ProfileSession::start_for(name, options)?;
        Ok(Tracing { session, folder: RunFolder::create_shared(name, dir)? })
    }

    fn stop(self) -> Result<PathBuf, Error> {
        self.folder.write(&self.session.stop())
    }
}

/// The profile of [`start_trace`].
static STARTED: Mutex<Option<Tracing>> = Mutex::new(None);

/// Records a profile while `f` runs, and writes it to a folder below `dir`. See
/// [`Profile::save`](super::Profile::save) for the files.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::profile;
/// let dir = tempfile::tempdir()?;
/// let f = jit(|x: Array| sin(&x) * &x);
/// let y = profile::trace(dir.path(), || f.call(ones([3])))??;
/// let runs = std::fs::read_dir(dir.path().join("plugins/profile"))?;
/// assert_eq!(runs.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If `f` panics or throws, the profile is written all the same. In a program of several processes,
/// profiles that overlap in time are written to one folder.
///
/// # Errors
/// `Op` (value) if a profile is being recorded already; `Op` (runtime) if the folder cannot be
/// written, before `f` runs if it cannot be created.
#[track_caller]
pub fn trace<R>(dir: impl AsRef<Path>, f: impl FnOnce() -> R) -> Result<R, Error> {
    recorded("profile::trace", dir.as_ref(), ProfileOptions::default(), f)
}

/// As [`trace`], with options.
///
/// # Errors
/// As [`trace`].
#[track_caller]
pub fn trace_with<R>(
    dir: impl AsRef<Path>,
    options: ProfileOptions,
    f: impl FnOnce() -> R,
) -> Result<R, Error> {
    recorded("profile::trace_with", dir.as_ref(), options, f)
}

#[track_caller]
fn recorded<R>(
    name: &'static str,
    dir: &Path,
    options: ProfileOptions,
    f: impl FnOnce() -> R,
) -> Result<R, Error> {
    /// Writes the profile of a closure that unwinds.
    struct OnUnwind(Option<Tracing>);
    impl Drop for OnUnwind {
        fn drop(&mut self) {
            let Some(Err(error)) = self.0.take().map(Tracing::stop) else { return };
            tracing::warn!(target: "oxidax::profile", %error, "the profile could not be written");
        }
    }
    let mut tracing = OnUnwind(Some(Tracing::start(name, dir, options)?));
    let result = f();
    if let Some(tracing) = tracing.0.take() {
        tracing.stop()?;
    }
    Ok(result)
}

/// Starts to record a profile that [`stop_trace`] writes to a folder below `dir`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::profile::{start_trace, stop_trace};
/// let dir = tempfile::tempdir()?;
/// start_trace(dir.path())?;
/// let y = sin(&ones([3]));
/// let run = stop_trace()?;
/// assert!(run.starts_with(dir.path()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`trace`].
#[track_caller]
pub fn start_trace(dir: impl AsRef<Path>) -> Result<(), Error> {
    begin("start_trace", dir.as_ref(), ProfileOptions::default())
}

/// As [`start_trace`], with options.
///
/// # Errors
/// As [`trace`].
#[track_caller]
pub fn start_trace_with(dir: impl AsRef<Path>, options: ProfileOptions) -> Result<(), Error> {
    begin("start_trace_with", dir.as_ref(), options)
}

#[track_caller]
fn begin(name: &'static str, dir: &Path, options: ProfileOptions) -> Result<(), Error> {
    let tracing = Tracing::start(name, dir, options)?;
    *STARTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(tracing);
    Ok(())
}

/// Stops the profile of [`start_trace`], writes it, and returns its folder.
///
/// # Errors
/// `Op` (value) if `start_trace` was not called; `Op` (runtime) if the files cannot be written.
#[track_caller]
pub fn stop_trace() -> Result<PathBuf, Error> {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(tracing) = started else {
        let message = "no profile is being recorded".to_owned();
        let help = "call `start_trace` first; a `ProfileSession` has its own `stop`";
        return Err(error("stop_trace", OpErrorKind::Value, message, Loc::caller(), help));
    };
    tracing.stop()
}
