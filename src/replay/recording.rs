//! [`Recording`]: a failing call as a file.
//!
//! A [`DigestedFile`] with a header of function, cause, error, program as text, source lines and
//! the types of the inputs. The elements of each input follow, one after the other, row-major in
//! little-endian order.

use super::interpreter;
use super::lines;
use super::report::Replay;
use super::reproducer;
use crate::control_flow::registries;
use crate::core::{Aval, DType, Device, Error, HostArray, Program, RegistryEntry, with_stand_ins};
use crate::debug::CHECK;
use crate::passes;
use crate::runtime::DigestedFile;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FORMAT: DigestedFile = DigestedFile {
    magic: b"oxidax failure",
    version: b"01",
    content: "a recorded failure",
    writing: "recording a program",
    written: "this failure was recorded",
    remedy: "",
};
/// The largest number of devices of a recorded mesh.
const MAX_DEVICES: usize = 1024;

/// The reason for which a call was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// `nan_check` found a NaN in the results.
    Nan,
    /// `finite_check` found a NaN or an infinity in the results.
    NonFinite,
    /// A `debug::check` failed.
    Check,
    /// The device failed.
    Device,
    /// The program asked for it; see [`Jit::record`](crate::jit::Jit::record).
    Request,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Nan => "`nan_check` found a NaN in its results",
            Cause::NonFinite => "`finite_check` found a NaN or an infinity in its results",
            Cause::Check => "a check failed",
            Cause::Device => "the device failed",
            Cause::Request => "the program asked for it",
        })
    }
}

/// The type and the path of an input.
#[derive(Debug, Serialize, Deserialize)]
struct InputHeader {
    path: String,
    dtype: String,
    shape: Vec<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// The version of oxidax.
    oxidax: String,
    function: String,
    cause: Cause,
    error: Option<String>,
    /// The number of devices of its meshes, 1 without a mesh.
    devices: usize,
    program: String,
    /// The line of each equation, in the order of the text.
    lines: Vec<String>,
    inputs: Vec<InputHeader>,
}

/// An input of a recorded call.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// The path of the leaf, or `capture 0`.
    pub(super) path: String,
    pub(super) elements: HostArray,
}

/// A recorded call: its program, with a source line for each equation, and its inputs.
///
/// [`record_failures`](super::record_failures) writes such files, also
/// [`Jit::record`](crate::jit::Jit::record).
#[derive(Clone, Debug)]
pub struct Recording {
    pub(super) function: String,
    pub(super) cause: Cause,
    pub(super) error: Option<String>,
    pub(super) oxidax: String,
    pub(super) devices: usize,
    pub(super) program: Program,
    pub(super) lines: Vec<String>,
    pub(super) inputs: Vec<Input>,
}

impl Recording {
    /// Reads a recording from a file. Needs no plugin.
    ///
    /// Devices of other platforms in its meshes become CPU devices with the same numbers.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Plugin`] if the file is of another format or version, truncated or
    /// changed.
    pub fn open(path: impl AsRef<Path>) -> Result<Recording, Error> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        Recording::from_bytes(&bytes).map_err(|error| match error {
            Error::Plugin(message) => Error::Plugin(format!("{}: {message}", path.display())),
            other => other,
        })
    }

    /// Reads a recording, as [`open`](Self::open).
    ///
    /// # Errors
    /// [`Error::Plugin`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Recording, Error> {
        let (header, elements) = FORMAT.read(bytes)?;
        // Rules of primitives may panic on parameters that no program has.
        catch_unwind(AssertUnwindSafe(|| Recording::from_header(header, elements)))
            .unwrap_or_else(|_| Err(FORMAT.damaged("a rule of an operation panicked")))
    }

    /// Reads the program and the elements of the inputs.
    fn from_header(header: Header, mut rest: &[u8]) -> Result<Recording, Error> {
        if header.devices > MAX_DEVICES {
            return Err(FORMAT.damaged(format!("they need {} devices", header.devices)));
        }
        let mut inputs = Vec::new();
        for InputHeader { path, dtype, shape } in header.inputs {
            let dtype = DType::from_name(&dtype)
                .ok_or_else(|| FORMAT.damaged(format!("no dtype is called `{dtype}`")))?;
            let bytes =
                shape.iter().try_fold(dtype.host_bytes(), |bytes, &size| bytes.checked_mul(size));
            let split = bytes.and_then(|bytes| rest.split_at_checked(bytes));
            let (elements, others) =
                split.ok_or_else(|| FORMAT.damaged(format!("elements of {path} are missing")))?;
            rest = others;
            let elements = HostArray::from_bytes(elements.to_vec(), Aval::new(dtype, shape))?;
            inputs.push(Input { path, elements });
        }
        if !rest.is_empty() {
            return Err(FORMAT.damaged(format!("{} bytes are left over", rest.len())));
        }
        let devices: Arc<[Device]> = (0..header.devices)
            .map(|number| Device::new(number as i32, 0, "cpu", "cpu", true))
            .collect();
        let entries: Vec<&[RegistryEntry]> =
            [&[CHECK][..]].into_iter().chain(registries()).collect();
        let program = with_stand_ins(devices, || passes::parse(&header.program, &entries));
        let program = program.map_err(|error| FORMAT.damaged(error))?;
        let avals = program.avals_in();
        let fits = |(aval, input): (&Aval, &Input)| {
            aval.dtype == input.elements.dtype() && aval.shape == *input.elements.shape()
        };
        if avals.len() != inputs.len() || !avals.iter().zip(&inputs).all(fits) {
            return Err(FORMAT.damaged("the inputs do not have the types of the program"));
        }
        let count = lines::count(&program);
        if header.lines.len() != count {
            let lines = header.lines.len();
            return Err(FORMAT.damaged(format!("{count} equations have {lines} source lines")));
        }
        Ok(Recording {
            function: header.function,
            cause: header.cause,
            error: header.error,
            oxidax: header.oxidax,
            devices: header.devices,
            program,
            lines: header.lines,
            inputs,
        })
    }

    /// Writes the recording to bytes.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let header = Header {
            oxidax: self.oxidax.clone(),
            function: self.function.clone(),
            cause: self.cause,
            error: self.error.clone(),
            devices: self.devices,
            program: self.program.to_string(),
            lines: self.lines.clone(),
            inputs: self
                .inputs
                .iter()
                .map(|input| InputHeader {
                    path: input.path.clone(),
                    dtype: input.elements.dtype().name().to_string(),
                    shape: input.elements.shape().to_vec(),
                })
                .collect(),
        };
        FORMAT.write(&header, self.inputs.iter().map(|input| input.elements.as_bytes()))
    }

    /// Returns the name of the function.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Returns the reason for which the call was recorded.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the text of the call's error; `None` if it was recorded on request.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the version of oxidax that wrote the recording.
    pub fn version(&self) -> &str {
        &self.oxidax
    }

    /// Returns the number of CPU devices that a replay needs.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Returns the program. Its equations have no locations.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the source line of each equation, as `file:line:column`, empty if it is unknown. An
    /// equation comes before those of the programs that it holds.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the path and the elements of each input: the leaves of the arguments, and the
    /// captures.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &HostArray)> {
        self.inputs.iter().map(|input| (input.path.as_str(), &input.elements))
    }

    /// Runs the program operation by operation on the CPU, up to the first one that makes a NaN of
    /// operands without one, fails a check, or fails. If the cause is `finite_check`, infinities
    /// count as NaN do.
    ///
    /// Loops and branches run compiled. Only those whose results are bad run again step by step.
    ///
    /// # Errors
    /// [`Error::Plugin`] without a CPU plugin, or if the process has fewer CPU devices than
    /// [`devices`](Self::devices).
    pub fn replay(&self) -> Result<Replay, Error> {
        interpreter::replay(self, self.cause == Cause::NonFinite)
    }

    /// As [`replay`](Self::replay), and stops at infinities too.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    #[doc(alias = "debug_infs")]
    pub fn replay_finite(&self) -> Result<Replay, Error> {
        interpreter::replay(self, true)
    }

    /// Writes a reproducer to `folder`, which must not exist or be empty: the StableHLO module, the
    /// inputs as `.npy` files, and a README with the command that runs it. `replay` adds the
    /// failing operation alone, in the folder `operation`. Returns the written files.
    ///
    /// The module does not contain checks. Conditions of checks outside of loops and branches are
    /// additional results.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Op`] if an operation does not lower for CPUs.
    pub fn write_reproducer(
        &self,
        folder: impl AsRef<Path>,
        replay: Option<&Replay>,
    ) -> Result<Vec<PathBuf>, Error> {
        reproducer::write(self, folder.as_ref(), replay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
    use crate::prelude::*;

    fn recording() -> Recording {
        let step = |x: Array, d: Array| {
            debug::check(ge(&x, 0.0), "{}", [&x]);
            (x.reshape([2, 1]).matmul(&d.reshape([1, 2])).sum_axes(0), ())
        };
        let aval = |shape: &[usize]| Aval::new(DType::F32, shape);
        let f = |x: Array, ds: Array| scan(step, x, ds).0;
        let program = make_program(f, (aval(&[2]), aval(&[3, 2]))).expect("it traces");
        let input = |path: &str, shape: &[usize]| Input {
            path: path.to_string(),
            elements: HostArray::from_slice(&vec![1.0f32; shape.iter().product()], shape)
                .expect("it fits"),
        };
        Recording {
            function: "f".into(),
            cause: Cause::Check,
            error: Some("error[value]: check".into()),
            oxidax: "0.0.0".into(),
            devices: 1,
            lines: lines::lines_of(&program),
            program,
            inputs: vec![input("$[0]", &[2]), input("$[1]", &[3, 2])],
        }
    }

    #[test]
    fn recordings_are_read_back() {
        let recording = recording();
        let read = Recording::from_bytes(&recording.to_bytes().expect("it is written"));
        let read = read.expect("it is read");
        assert_eq!(read.program.to_string(), recording.program.to_string());
        assert_eq!(read.lines, recording.lines);
        assert!(read.lines.iter().any(|line| line.contains("recording.rs")));
        assert_eq!(read.inputs[1].elements, recording.inputs[1].elements);
    }

    /// Bytes with a valid digest reach the parser and the rules of the operations.
    #[test]
    fn changed_bytes_with_a_valid_digest_are_read_or_refused() {
        let bytes = recording().to_bytes().expect("it is written");
        let mut state = 1u64;
        let mut random = |limit: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % limit
        };
        let mut refused = 0;
        for _ in 0..2000 {
            let mut changed = bytes.clone();
            for _ in 0..1 + random(3) {
                let at = DigestedFile::LENGTH + random(changed.len() - DigestedFile::LENGTH);
                match random(4) {
                    0 => changed[at] = random(256) as u8,
                    1 => changed[at] = b"0123456789[]{}\":,"[random(17)],
                    2 => changed.truncate(at.max(DigestedFile::HEADER)),
                    _ => changed.insert(at, b'9'),
                }
            }
            let digest = crate::runtime::digest(&changed[DigestedFile::LENGTH..]);
            changed[DigestedFile::DIGEST..DigestedFile::LENGTH].copy_from_slice(&digest);
            refused += usize::from(Recording::from_bytes(&changed).is_err());
        }
        assert!(refused > 1000, "{refused} of 2000 were refused");
    }
}
