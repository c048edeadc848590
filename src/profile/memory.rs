//! [`memory`]: the live arrays by the line that created them.

use super::memory_growth::MemoryGrowth;
use super::pprof;
use crate::core::{DeviceId, Error, Loc, Placement, units};
use crate::runtime::{LiveArray, live_arrays};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The arrays in the memory of this process's devices at one moment. Returned by [`memory`].
///
/// Prints as a table by line:
///
/// ```text
/// 25.5 MiB in 104 arrays; 25.5 MiB on cpu:0
///   24.0 MiB      96  src/main.rs:41:17  96 × f32[256,256]
///    1.5 MiB       8  src/main.rs:12:9   6 × f32[256,256], 2 × f32[256]
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryProfile {
    arrays: Vec<LiveArray>,
}

/// The live arrays that one line created.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LineMemory {
    /// The line; [`Loc::UNKNOWN`] for arrays that oxidax creates for itself, such as constants.
    pub created_at: Loc,
    /// The bytes of its arrays on this process's devices together.
    pub bytes: u64,
    /// The arrays, largest first.
    pub arrays: Vec<LiveArray>,
}

/// Returns the arrays in the memory of this process's devices, by the line that created them.
///
/// Arrays are listed that were created while they are tracked: `OXIDAX_TRACK_ARRAYS=1`, or
/// [`ProcessConfig::track_arrays`](crate::config::ProcessConfig::track_arrays). The memory that
/// compiled programs need while they run, and their code, are not arrays.
///
/// # Errors
/// `Plugin` if arrays are not tracked.
///
/// ```
/// use oxidax::config::{self, ProcessConfig};
/// use oxidax::prelude::*;
/// use oxidax::profile;
/// config::update(ProcessConfig::new().track_arrays(true))?;
/// let before = profile::memory()?;
/// let mut losses = Vec::new();
/// for step in 0..10 {
///     losses.push(full([256], step as f32)); // never read
/// }
/// let growth = profile::memory()?.since(&before);
/// println!("{growth}"); // +10.0 KiB in +10 arrays … src/main.rs:8:17
/// let line = growth.lines().iter().find(|line| line.arrays == 10).expect("the losses");
/// assert_eq!((line.bytes, line.created_at.get().map(|at| at.file())), (10_240, Some(file!())));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "device_memory_profile")]
#[doc(alias = "save_device_memory_profile")]
pub fn memory() -> Result<MemoryProfile, Error> {
    Ok(MemoryProfile { arrays: live_arrays()? })
}

impl MemoryProfile {
    /// Returns the arrays, largest first.
    pub fn arrays(&self) -> &[LiveArray] {
        &self.arrays
    }

    /// Returns the bytes of all arrays on this process's devices together.
    pub fn bytes(&self) -> u64 {
        self.arrays.iter().map(|array| array.bytes).sum()
    }

    /// Returns the arrays by line, the line with the most bytes first.
    pub fn by_line(&self) -> Vec<LineMemory> {
        let mut lines: Vec<LineMemory> = Vec::new();
        for array in &self.arrays {
            match lines.iter_mut().find(|line| line.created_at == array.created_at) {
                Some(line) => {
                    line.bytes += array.bytes;
                    line.arrays.push(array.clone());
                }
                None => lines.push(LineMemory {
                    created_at: array.created_at,
                    bytes: array.bytes,
                    arrays: vec![array.clone()],
                }),
            }
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
        lines
    }

    /// Returns the bytes on each of this process's devices that stores arrays.
    pub fn by_device(&self) -> Vec<(DeviceId, u64)> {
        let mut devices: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for array in &self.arrays {
            for (device, bytes) in parts(array) {
                *devices.entry(device).or_default() += bytes;
            }
        }
        devices.into_iter().collect()
    }

    /// Returns what has grown since an earlier profile, by line: what a loop leaks between two
    /// points of it.
    pub fn since(&self, earlier: &MemoryProfile) -> MemoryGrowth {
        MemoryGrowth::between(earlier, self)
    }

    /// Returns the profile in the format of pprof, `profile.proto`, without compression: bytes and
    /// numbers of arrays by line, with the labels `device` and `type`. `pprof -http=: FILE`
    /// opens it.
    ///
    /// Format: <https://github.com/google/pprof/blob/main/proto/profile.proto>.
    pub fn to_pprof(&self) -> Vec<u8> {
        pprof::encode(self)
    }

    /// Writes the profile to a file, as [`to_pprof`](Self::to_pprof).
    ///
    /// # Errors
    /// `Io`.
    ///
    /// ```
    /// use oxidax::config::{self, ProcessConfig};
    /// use oxidax::profile;
    /// config::update(ProcessConfig::new().track_arrays(true))?;
    /// let folder = tempfile::tempdir().expect("a folder");
    /// profile::memory()?.save(folder.path().join("memory.pb"))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        std::fs::write(path, self.to_pprof()).map_err(|error| Error::io(path, error))
    }
}

/// Returns the bytes of an array on each of this process's devices.
pub(super) fn parts(array: &LiveArray) -> Vec<(DeviceId, u64)> {
    match &array.placement {
        Placement::Device(device) => vec![(*device, array.bytes)],
        Placement::Mesh(sharding) => {
            let local = sharding.devices().iter().filter(|device| device.is_local());
            let local: Vec<DeviceId> = local.map(|device| device.id()).collect();
            let each = array.bytes / local.len().max(1) as u64;
            local.into_iter().map(|device| (device, each)).collect()
        }
    }
}

/// Returns the text of a line.
pub(super) fn text_of(loc: Loc) -> String {
    loc.get().map_or_else(|| "oxidax itself".into(), ToString::to_string)
}

impl fmt::Display for MemoryProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} arrays", units::size(self.bytes()), self.arrays.len())?;
        let devices = self.by_device();
        let texts = devices.iter().map(|(id, bytes)| format!("{} on {id}", units::size(*bytes)));
        let texts: Vec<String> = texts.collect();
        if !texts.is_empty() {
            write!(f, "; {}", texts.join(", "))?;
        }
        let lines = self.by_line();
        let width = lines.iter().map(|line| text_of(line.created_at).len()).max().unwrap_or(0);
        for line in &lines {
            let types = units::counted(line.arrays.iter().map(|array| array.aval.to_string()));
            let (bytes, count) = (units::size(line.bytes), line.arrays.len());
            let at = text_of(line.created_at);
            write!(f, "\n{bytes:>10}  {count:>6}  {at:width$}  {types}")?;
        }
        Ok(())
    }
}
