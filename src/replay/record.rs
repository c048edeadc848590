//! Recording of calls.

use super::lines;
use super::recording::{Cause, Input, Recording};
use super::text_form::{Checks, text_form};
use crate::core::nan_check::{NanCheck, nan_check};
use crate::core::{Array, Error, Mesh, OpErrorKind, Program};
use crate::runtime::{RecordOptions, recording, with_recording};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The extension of recordings.
const EXTENSION: &str = "failure";

/// Runs `f` and records the calls of `jit` functions in it that fail, at most 16 in `folder`, as
/// `NAME-1.failure` and so on. The error of such a call names the file.
///
/// It holds for calls on this thread. `OXIDAX_RECORD_FAILURES=FOLDER`, or
/// [`ProcessConfig::record_failures`](crate::config::ProcessConfig::record_failures), records those
/// of all threads. See [`replay`](super) for an example, for what is recorded, and for the cost.
pub fn record_failures<R>(folder: impl Into<PathBuf>, f: impl FnOnce() -> R) -> R {
    record_failures_with(RecordOptions::new(folder), f)
}

/// As [`record_failures`], with options.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::replay::{self, RecordOptions};
/// let folder = tempfile::tempdir().expect("a folder");
/// let checked = jit(|x: Array| {
///     debug::check(ge(&x, 0.0), "cannot take the root of {}", [&x]);
///     sqrt(&x)
/// });
/// let options = RecordOptions::new(folder.path()).limit(2);
/// replay::record_failures_with(options, || {
///     for _ in 0..5 {
///         assert!(checked.call(full([], -4.0_f32)).is_err());
///     }
/// });
/// assert_eq!(std::fs::read_dir(folder.path()).expect("it was created").count(), 2);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn record_failures_with<R>(options: RecordOptions, f: impl FnOnce() -> R) -> R {
    with_recording(options, f)
}

/// A call of a function.
pub(crate) struct RecordedCall<'a> {
    /// The name of the function.
    pub(crate) name: &'a str,
    /// The traced program.
    pub(crate) program: &'a Program,
    /// The leaves of the arguments, and the captures.
    pub(crate) inputs: &'a [Array],
    /// The paths of the leaves of the arguments.
    pub(crate) paths: &'a [String],
}

impl Cause {
    /// Returns the cause of an error that the search for a NaN returned.
    pub(crate) fn of_nan_check() -> Cause {
        match nan_check() {
            Some(NanCheck::NonFinite) => Cause::NonFinite,
            _ => Cause::Nan,
        }
    }

    /// Returns the cause of an error of the execution.
    pub(crate) fn of_execution(error: &Error) -> Cause {
        match error {
            Error::Op(error) if error.kind == OpErrorKind::Value && error.primitive == "check" => {
                Cause::Check
            }
            _ => Cause::Device,
        }
    }
}

/// Records a failed call, if failures are recorded. Returns its error with the name of the file, or
/// with the reason why there is none.
#[cold]
pub(crate) fn record_failure(call: &RecordedCall<'_>, cause: Cause, error: Error) -> Error {
    let Some(options) = recording() else { return error };
    let recorded = Recording::of(call, cause, Some(&error))
        .and_then(|recording| save_numbered(&recording, &options));
    let help = match recorded {
        Ok(path) => format!("the call is recorded: `oxidax replay {}`", path.display()),
        Err(reason) => format!("the call is not recorded: {reason}"),
    };
    error.with_added_help(&help)
}

/// Records a call to `path`.
///
/// # Errors
/// `Op` (unsupported) if the program needs a closure of this process; `Io`.
pub(crate) fn record_request(call: &RecordedCall<'_>, path: &Path) -> Result<(), Error> {
    let recording = Recording::of(call, Cause::Request, None)?;
    std::fs::write(path, recording.to_bytes()?).map_err(|error| Error::io(path, error))
}

impl Recording {
    /// Returns the recording of a call. Waits for its inputs and copies them to the host.
    fn of(
        call: &RecordedCall<'_>,
        cause: Cause,
        error: Option<&Error>,
    ) -> Result<Recording, Error> {
        let program = text_form(call.program, Checks::Kept)?;
        let mut inputs = Vec::with_capacity(call.inputs.len());
        for (index, array) in call.inputs.iter().enumerate() {
            let path = match call.paths.get(index) {
                Some(path) => path.clone(),
                None => format!("capture {}", index - call.paths.len()),
            };
            inputs.push(Input { path, elements: array.to_host()? });
        }
        let mut devices = 1;
        count_devices(&program, &mut devices);
        Ok(Recording {
            function: call.name.to_string(),
            cause,
            error: error.map(ToString::to_string),
            oxidax: env!("CARGO_PKG_VERSION").to_string(),
            devices,
            lines: lines::lines_of(&program),
            program,
            inputs,
        })
    }
}

/// Raises `devices` to the largest number of a device in a mesh of the program, plus one.
fn count_devices(program: &Program, devices: &mut usize) {
    let mut add = |mesh: &Mesh| {
        let numbers = mesh.devices().iter().map(|device| device.id().0.max(0) as usize + 1);
        *devices = numbers.fold(*devices, usize::max);
    };
    program.avals().iter().filter_map(|aval| aval.sharding.as_ref()).for_each(|s| add(s.mesh()));
    for eqn in program.eqns() {
        eqn.primitive.mesh().into_iter().for_each(&mut add);
    }
    for eqn in program.eqns() {
        let held = eqn.primitive.as_higher_order().map(|holder| holder.programs());
        for (_, program) in held.unwrap_or_default() {
            count_devices(program, devices);
        }
    }
}

/// Writes a recording to the folder under the first free number.
fn save_numbered(recording: &Recording, options: &RecordOptions) -> Result<PathBuf, Error> {
    let folder = &options.folder;
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))?;
    let is_recording = |path: PathBuf| path.extension().is_some_and(|end| end == EXTENSION);
    let count = entries.flatten().filter(|entry| is_recording(entry.path())).count();
    if count >= options.limit {
        let limit = options.limit;
        let message =
            format!("{} has {count} recordings, and the limit is {limit}", folder.display());
        return Err(Error::Plugin(message));
    }
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = recording.function.chars().map(allowed).take(64).collect();
    for number in 1.. {
        let path = folder.join(format!("{name}-{number}.{EXTENSION}"));
        // Another thread or process may write to the folder.
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(Error::io(path, error)),
        };
        let written = recording.to_bytes().and_then(|bytes| {
            file.write_all(&bytes).map_err(|error| Error::io(path.clone(), error))
        });
        return match written {
            Ok(()) => Ok(path),
            Err(error) => {
                // Only part of it was written.
                drop(std::fs::remove_file(&path));
                Err(error)
            }
        };
    }
    unreachable!("numbers do not end")
}
