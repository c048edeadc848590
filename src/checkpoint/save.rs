//! Writing safetensors files.

use super::dtypes::{form, pack};
use super::fault::{io_error, refused};
use super::file::sync_folder;
use super::header::{self, LONGEST_HEADER};
use super::manifest::{Pieces, Whole};
use super::name_of;
use crate::core::{Array, Aval, Error};
use crate::tree::{self, Tree};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An array on its way to a file.
pub(super) struct Leaf {
    name: String,
    aval: Aval,
    /// As the file has them.
    bytes: Vec<u8>,
}

/// Whether arrays that are spread over a mesh are saved whole, or in the pieces that devices have.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Spread {
    Whole,
    Pieces,
}

/// Arrays on their way to a file, and which of them are parts of others.
pub(super) struct Gathered {
    pub(super) leaves: Vec<Leaf>,
    pub(super) pieces: Pieces,
}

/// What was written: checksums, for the manifest.
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) header_crc: u32,
    pub(super) crcs: BTreeMap<String, u32>,
}

/// Writes a tree's arrays to a safetensors file, waiting for those that are still being computed.
///
/// The file appears whole or not at all: it is written beside its place, then moved there, over a
/// file that may be there already. When this returns, it is on the disk.
///
/// Dtypes that the format has no name for (`c128`, the two- and four-bit integers, some small floats) are
/// written as integers or pairs of the same bits, with a note in the file's metadata: [`load`](super::load)
/// gives back what was saved, other programs see the bits. For a whole training run, with its step and
/// without waiting for the disk, see [`Folder`](super::Folder).
///
/// Throws `Tracer` if a leaf is traced.
///
/// # Errors
/// [`Error::Checkpoint`] naming the leaf if two leaves share a path; [`Error::Io`] if the file cannot be
/// written; `Runtime` if the computation of a leaf failed.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let model = nn::Linear::new(random::key(0), 784, 10);
/// checkpoint::save("linear.safetensors", &model)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn save<T: Tree>(path: impl AsRef<Path>, tree: &T) -> Result<(), Error> {
    let path = path.as_ref();
    let Gathered { leaves, .. } = gather(path, tree, Spread::Whole)?;
    let temporary = beside(path);
    // Names are used once by a process, so this is left of one that had our number and was killed.
    drop(fs::remove_file(&temporary));
    let moved = write(&temporary, leaves).map_err(|error| io_error(path, error)).and_then(|_| {
        fs::rename(&temporary, path).map_err(|error| io_error(path, error))?;
        sync_folder(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    });
    if moved.is_err() {
        // Whatever went wrong is reported; that nothing was there to remove is not.
        drop(fs::remove_file(&temporary));
    }
    moved
}

/// Copies a tree's arrays to the host, waiting for them.
#[track_caller]
pub(super) fn gather<T: Tree>(path: &Path, tree: &T, spread: Spread) -> Result<Gathered, Error> {
    let mut leaves: BTreeMap<String, Leaf> = BTreeMap::new();
    let mut pieces = Pieces::new();
    for (leaf_path, array) in tree::paths(tree).iter().zip(tree::leaves(tree)) {
        let name = name_of(leaf_path).to_owned();
        if name == "__metadata__" {
            let message =
                "a leaf is called `__metadata__`, which means something else in the format";
            return Err(refused(path, format!("{message}\n  help: rename the field or key")));
        }
        if leaves.contains_key(&name) || pieces.contains_key(&name) {
            let help = "a map's keys are printed as they are, dots included: rename one of them";
            return Err(refused(path, format!("two leaves are called `{name}`\n  help: {help}")));
        }
        let parts = match spread {
            Spread::Pieces
                if array.sharding().is_some_and(|sharding| !sharding.is_replicated()) =>
            {
                array.addressable_shards()?.into_iter().filter(|shard| shard.replica == 0).collect()
            }
            _ => Vec::new(),
        };
        if parts.is_empty() {
            let leaf = leaf(name.clone(), &array)?;
            leaves.insert(name, leaf);
            continue;
        }
        let mut whole = Whole { shape: array.shape().to_vec(), pieces: BTreeMap::new() };
        for (number, shard) in parts.into_iter().enumerate() {
            let piece = format!("{name}@{number}");
            let start = shard.index.iter().map(|along| along.start).collect();
            whole.pieces.insert(piece.clone(), start);
            leaves.insert(piece.clone(), leaf(piece, &shard.data)?);
        }
        pieces.insert(name, whole);
    }
    let mut leaves: Vec<Leaf> = leaves.into_values().collect();
    // As other writers do: by alignment, widest first, then by name.
    leaves.sort_by_key(|leaf| std::cmp::Reverse(form(leaf.aval.dtype, &leaf.aval.shape).dtype));
    Ok(Gathered { leaves, pieces })
}

#[track_caller]
fn leaf(name: String, array: &Array) -> Result<Leaf, Error> {
    let aval = array.aval().strong();
    let bytes = pack(array.to_bytes()?, form(aval.dtype, &aval.shape).dtype);
    Ok(Leaf { name, aval, bytes })
}

/// A name in the same folder that no other save uses.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Writes a new file through to the disk. The leaves' memory is given back one by one.
pub(super) fn write(path: &Path, leaves: Vec<Leaf>) -> io::Result<Written> {
    let types = leaves.iter().map(|leaf| (&leaf.name[..], leaf.aval.dtype, &leaf.aval.shape[..]));
    let header = header::write(types);
    if header.len() as u64 > LONGEST_HEADER {
        let message = format!(
            "the names and shapes of {} leaves take {} bytes, and the format reads {LONGEST_HEADER}",
            leaves.len(),
            header.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut file = File::create_new(path)?;
    let header_crc = crc32c::crc32c(&header);
    file.write_all(&header)?;
    let mut bytes = header.len() as u64;
    let mut crcs = BTreeMap::new();
    // A write of its own for each small leaf would cost more than the leaf.
    let mut small = Vec::new();
    for leaf in leaves {
        bytes += leaf.bytes.len() as u64;
        crcs.insert(leaf.name, crc32c::crc32c(&leaf.bytes));
        small.extend_from_slice(if leaf.bytes.len() < SMALL { &leaf.bytes } else { &[] });
        if small.len() >= SMALL || leaf.bytes.len() >= SMALL {
            file.write_all(&small)?;
            small.clear();
        }
        if leaf.bytes.len() >= SMALL {
            file.write_all(&leaf.bytes)?;
        }
    }
    file.write_all(&small)?;
    // On the disk before it is moved: a crash must not leave an empty file under the good name.
    file.sync_all()?;
    Ok(Written { bytes, header_crc, crcs })
}

/// Bytes from which a leaf is written by itself.
const SMALL: usize = 1 << 18;
