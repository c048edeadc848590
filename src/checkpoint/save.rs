//! Writing safetensors files.

use super::dtypes::stored_form;
use super::fault::io_error;
use super::header::{self, MAX_HEADER_BYTES};
use super::local_shards::{HostArray, LocalShards};
use super::manifest::{ChunkSums, FileRecord};
use super::object_storage::storage_of;
use super::span;
use super::storage::Storage;
use crate::core::{Array, Error, Loc};
use crate::tree::{self, Tree, TreeDef};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a tree's arrays to a safetensors file, waiting for those that are still being computed.
///
/// The file is written under a temporary name in the same folder and then renamed, replacing an
/// existing file. It is on the disk when this function returns, and it never exists incomplete. The
/// same is true of an object at `gs://…` or `s3://…` (feature `remote`).
///
/// Dtypes without a name in the format (`c128`, two- and four-bit integers, some small floats) are
/// written as integers or pairs with the same bits, and noted in the file's metadata.
/// [`load`](super::load) restores the dtype, other programs see the bits. To save a training run
/// with its step, without waiting for the disk, use [`Folder`](super::Folder).
///
/// Throws `Tracer` if a leaf is traced.
///
/// # Errors
/// [`Error::Checkpoint`] naming the leaf if two leaves share a path, or if a leaf has shards that
/// are only on devices of other processes: [`Folder`](super::Folder) saves those.
/// [`Error::Io`] if the file cannot be written. `Runtime` if the computation of a leaf failed.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let model = nn::Linear::new(random::key(0), 784, 10);
/// checkpoint::save("linear.safetensors", &model)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn save<T: Tree>(path: impl AsRef<Path>, tree: &T) -> Result<(), Error> {
    let _span = span("save", Loc::caller());
    save_leaves(path.as_ref(), &TreeDef::of(tree), &tree::leaves(tree))
}

#[track_caller]
fn save_leaves(path: &Path, structure: &TreeDef, leaves: &[Array]) -> Result<(), Error> {
    let LocalShards { arrays, .. } = LocalShards::whole(path, structure, leaves)?;
    let failed = |error| io_error(path, error);
    let (storage, path) = &storage_of(path)?;
    if !storage.renames() {
        // The file appears when it is complete.
        return write(&**storage, path, arrays, CHUNK_BYTES).map(drop).map_err(failed);
    }
    let temporary = temporary_path(path);
    // A leftover with this name comes from a killed process that had the same id.
    storage.remove(&temporary).map_err(failed)?;
    let written =
        write(&**storage, &temporary, arrays, CHUNK_BYTES).map_err(failed).and_then(|_| {
            storage.rename(&temporary, path).map_err(failed)?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            storage.sync_folder(parent).map_err(|error| io_error(parent, error))
        });
    if written.is_err() {
        // Best effort: the original error is returned, a missing temporary file is fine.
        drop(storage.remove(&temporary));
    }
    written
}

/// Returns a temporary path in the same folder, unique to this save.
fn temporary_path(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Arrays from this size on are written directly; smaller ones share one write.
const DIRECT_WRITE_BYTES: usize = 1 << 18;

/// Length of the parts of arrays that have their own checksum.
pub(super) const CHUNK_BYTES: usize = 4 << 20;

/// Writes a new file and makes it durable. The arrays' memory is freed one by one.
pub(super) fn write(
    storage: &dyn Storage,
    path: &Path,
    mut arrays: Vec<HostArray>,
    chunk_bytes: usize,
) -> io::Result<FileRecord> {
    // Sorted by alignment, widest first, then by name, as other writers of the format do.
    arrays.sort_by(|a, b| a.name.cmp(&b.name));
    arrays.sort_by_key(|array| {
        std::cmp::Reverse(stored_form(array.aval.dtype, &array.aval.shape).dtype)
    });
    let types = arrays.iter().map(|array| (&*array.name, array.aval.dtype, &*array.aval.shape));
    let header = header::write(types);
    if header.len() as u64 > MAX_HEADER_BYTES {
        let message = format!(
            "the names and shapes of {} leaves take {} bytes, and the format reads \
            {MAX_HEADER_BYTES}",
            arrays.len(),
            header.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut file = storage.create(path)?;
    file.append(&header)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut record = FileRecord {
        name,
        bytes: header.len() as u64,
        header: crc32c::crc32c(&header),
        arrays: BTreeMap::new(),
        chunks: ChunkSums { bytes: chunk_bytes as u64, arrays: BTreeMap::new() },
    };
    let mut pending = Vec::new();
    for HostArray { name, bytes, .. } in arrays {
        record.bytes += bytes.len() as u64;
        let crcs: Vec<u32> = bytes.chunks(chunk_bytes).map(crc32c::crc32c).collect();
        let parts = crcs.iter().zip(bytes.chunks(chunk_bytes));
        let whole =
            parts.fold(0, |whole, (&crc, part)| crc32c::crc32c_combine(whole, crc, part.len()));
        if crcs.len() > 1 {
            record.chunks.arrays.insert(name.clone(), crcs);
        }
        record.arrays.insert(name, whole);
        let is_small = bytes.len() < DIRECT_WRITE_BYTES;
        if is_small {
            pending.extend_from_slice(&bytes);
        }
        if !is_small || pending.len() >= DIRECT_WRITE_BYTES {
            file.append(&pending)?;
            pending.clear();
        }
        if !is_small {
            file.append(&bytes)?;
        }
    }
    file.append(&pending)?;
    file.finish()?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Device, Mesh};

    /// An array of which this process holds one of two shards.
    fn half_local() -> Array {
        let local = crate::prelude::local_devices().unwrap().swap_remove(0);
        let remote = Device::new(1000, 1, local.platform(), local.kind(), false);
        let mesh = Mesh::new([local, remote], [("data", 2)]).unwrap();
        let rows = mesh.sharding(crate::p!["data"]).unwrap();
        let own = crate::prelude::ones([2, 3]);
        crate::prelude::make_array_from_process_local_data(&rows, &own, [4, 3]).unwrap()
    }

    #[test]
    fn saves_refuse_arrays_with_remote_shards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let state = BTreeMap::from([("w".to_string(), half_local())]);
        let error = save(&path, &state).unwrap_err().to_string();
        let error = error.replace(&dir.path().display().to_string(), "DIR");
        expect_test::expect![[
            "error[checkpoint]: DIR/model.safetensors: saving leaf `w`, f32[4,3] with sharding \
             p![\"data\"] on Mesh(data=2): 1 of 2 shards are not on devices of this process:\n  \
             [2..4, 0..3] on cpu:1000 of process 1\n  \
             help: save it with `checkpoint::Folder` in all processes of a program that has called \
             `distributed::initialize`, or replicate it first with `device_put(&state, \
             mesh.replicated())`"
        ]]
        .assert_eq(&error);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn folder_keeps_older_steps_when_a_save_is_refused() {
        use crate::checkpoint::{Folder, Snapshot};
        let dir = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(dir.path()).unwrap().keep_last(1);
        let whole = crate::prelude::ones([4, 3]);
        folder.save(Snapshot::new(1, &whole)).unwrap();
        folder.wait().unwrap();
        let error = folder.save(Snapshot::new(2, &half_local())).unwrap_err();
        assert!(error.to_string().contains("saving leaf `array`"), "{error}");
        folder.wait().unwrap();
        assert_eq!(folder.steps().unwrap(), [1]);
        assert!(folder.restore_latest(&whole).unwrap().is_some());
    }
}
