//! [`BlockTable`]: measured block sizes, and their file.

use super::{BlockChoice, TimeSource, choose_blocks, traced};
use crate::core::{Array, Error};
use crate::kernel::Kernel;
use crate::roofline::DeviceSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Measured block sizes of a kernel: one line of a table's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockEntry {
    /// The device, as [`DeviceSpec::name`]: `v5e`, `h100`; `cpu` for one that is not there.
    pub chip: String,
    /// The name of the kernel.
    pub kernel: String,
    /// The types of the operands, with a space between them: `bf16[512,512] bf16[512,512]`.
    pub operands: String,
    /// The block sizes.
    pub blocks: Vec<usize>,
    /// The measured time of one run, in seconds.
    pub seconds: f64,
}

/// Chip, kernel and operands.
type Key = (String, String, String);

/// Measured block sizes of kernels, by chip, kernel and types of operands.
///
/// The file has a JSON object on each line, sorted, so that changes are easy to read. Empty lines
/// and lines that begin with `#` do not count:
///
/// ```text
/// # Block sizes of kernels, measured.
/// {"chip":"v5e","kernel":"matmul","operands":"bf16[512,512]","blocks":[256,128],"seconds":1e-4}
/// ```
///
/// ```
/// use oxidax::block_sizes::{BlockEntry, BlockTable};
/// let mut table = BlockTable::default();
/// table.insert(BlockEntry {
///     chip: "v5e".into(),
///     kernel: "double".into(),
///     operands: "f32[8192,1024]".into(),
///     blocks: vec![256],
///     seconds: 9e-5,
/// });
/// let path = std::env::temp_dir().join(format!("oxidax-blocks-{}.jsonl", std::process::id()));
/// table.save(&path)?;
/// assert_eq!(BlockTable::load(&path)?, table);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockTable {
    entries: BTreeMap<Key, (Vec<usize>, f64)>,
}

/// The first line of a file.
const HEADER: &str = "# Block sizes of kernels, measured.\n";

/// Returns the key of a kernel on a chip.
pub(super) fn key_of(chip: &str, kernel: &str, operands: &[&Array]) -> Key {
    let types: Vec<String> = operands
        .iter()
        .map(|operand| crate::core::Aval::new(operand.dtype(), operand.shape()).to_string())
        .collect();
    (chip.to_string(), kernel.to_string(), types.join(" "))
}

impl BlockTable {
    /// Reads a file.
    ///
    /// # Errors
    /// `Io` if it cannot be read, and `Data` with the number of a line that is not an entry.
    pub fn load(path: impl AsRef<Path>) -> Result<BlockTable, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
        let mut table = BlockTable::default();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry: BlockEntry = serde_json::from_str(line).map_err(|error| {
                let message = format!("{}:{number}: {error}", path.display());
                Error::data("BlockTable::load", message)
            })?;
            table.insert(entry);
        }
        Ok(table)
    }

    /// Writes a file, sorted. Entries of an existing file remain, except those that the table has
    /// too.
    ///
    /// # Errors
    /// `Io` if it cannot be written, and those of [`BlockTable::load`] for an existing file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let mut merged = match path.exists() {
            true => BlockTable::load(path)?,
            false => BlockTable::default(),
        };
        merged.merge(self);
        let mut text = HEADER.to_string();
        for entry in merged.entries() {
            let line = serde_json::to_string(&entry).map_err(|error| {
                Error::data("BlockTable::save", format!("{}: {error}", path.display()))
            })?;
            text += &line;
            text.push('\n');
        }
        std::fs::write(path, text).map_err(|error| Error::io(path, error))
    }

    /// Adds the entries of another table, which replace those of this one.
    pub fn merge(&mut self, other: &BlockTable) {
        self.entries.extend(other.entries.clone());
    }

    /// Adds an entry, which replaces that of the same chip, kernel and operands.
    pub fn insert(&mut self, entry: BlockEntry) {
        let BlockEntry { chip, kernel, operands, blocks, seconds } = entry;
        self.entries.insert((chip, kernel, operands), (blocks, seconds));
    }

    /// Iterates over the entries in the order of chips, kernels and operands.
    pub fn entries(&self) -> impl Iterator<Item = BlockEntry> {
        self.entries.iter().map(|((chip, kernel, operands), (blocks, seconds))| BlockEntry {
            chip: chip.clone(),
            kernel: kernel.clone(),
            operands: operands.clone(),
            blocks: blocks.clone(),
            seconds: *seconds,
        })
    }

    /// Returns the entry of a kernel for operands of these types.
    pub fn get(&self, chip: &str, kernel: &str, operands: &[&Array]) -> Option<BlockEntry> {
        let key = key_of(chip, kernel, operands);
        let (blocks, seconds) = self.entries.get(&key)?.clone();
        let (chip, kernel, operands) = key;
        Some(BlockEntry { chip, kernel, operands, blocks, seconds })
    }

    /// Returns the measured block sizes, if they are one of the candidates, or else those that
    /// [`choose_blocks`](super::choose_blocks()) chooses. The name is that of the first candidate's
    /// kernel.
    ///
    /// # Errors
    /// Those of [`choose_blocks`](super::choose_blocks()).
    #[track_caller]
    pub fn choose_blocks(
        &self,
        candidates: &[Vec<usize>],
        build: impl Fn(&[usize]) -> Kernel,
        operands: &[&Array],
        device: &DeviceSpec,
    ) -> Result<BlockChoice, Error> {
        let mut kernels =
            candidates.iter().filter_map(|blocks| traced(&build, blocks, operands).ok());
        let measured = kernels
            .next()
            .and_then(|kernel| self.get(device.name, &kernel.name, operands))
            .filter(|entry| candidates.contains(&entry.blocks));
        match measured {
            Some(BlockEntry { blocks, seconds, .. }) => {
                Ok(BlockChoice { blocks, seconds, source: TimeSource::Measured })
            }
            None => choose_blocks(candidates, build, operands, device),
        }
    }
}
