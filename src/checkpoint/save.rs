//! Writing checkpoints.

use super::dtypes::{pack, to_file};
use super::{name_of, refused};
use crate::core::{Array, Error};
use crate::tree::{self, Tree};
use safetensors::tensor::{Dtype, SafeTensorError, View};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Writes a tree's arrays to a safetensors file, waiting for those that are still being computed.
///
/// The file appears whole or not at all: it is written beside its place, then moved there, over a
/// file that may be there already.
///
/// Throws `Tracer` if a leaf is traced.
///
/// # Errors
/// [`Error::Checkpoint`] naming the leaf if two leaves share a path, or if the format has no place
/// for a leaf's dtype (`c128`, the two- and four-bit integers, some small floats); [`Error::Io`] if the
/// file cannot be written; `Runtime` if the computation of a leaf failed.
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
    let mut names = HashSet::new();
    let mut tensors = Vec::new();
    let paths = tree::paths(tree);
    for (leaf_path, leaf) in paths.iter().zip(tree::leaves(tree)) {
        let name = name_of(leaf_path);
        if !names.insert(name) {
            return Err(refused(path, format!("two leaves are called `{name}`")));
        }
        tensors.push((name, tensor(path, name, &leaf)?));
    }
    let temporary = beside(path);
    let written = write(&temporary, path, tensors);
    if written.is_err() {
        // Whatever went wrong is reported; that nothing was there to remove is not.
        drop(fs::remove_file(&temporary));
    }
    written
}

#[track_caller]
fn tensor(path: &Path, name: &str, leaf: &Array) -> Result<Tensor, Error> {
    let unsupported = |why: &str| {
        let help = "convert it with `astype` before saving";
        refused(path, format!("leaf `{name}` is {}: {why}; {help}", leaf.aval()))
    };
    let Some(dtype) = to_file(leaf.dtype()) else {
        return Err(unsupported("safetensors files have no such dtype"));
    };
    if !(leaf.size() * dtype.bitsize()).is_multiple_of(8) {
        return Err(unsupported("four-bit elements are stored in pairs"));
    }
    let bytes = pack(leaf.to_bytes()?, leaf.dtype());
    Ok(Tensor { dtype, shape: leaf.shape().to_vec(), bytes })
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

fn write(temporary: &Path, path: &Path, tensors: Vec<(&str, Tensor)>) -> Result<(), Error> {
    let io_error = |source: io::Error| Error::Io { path: path.to_path_buf(), source };
    // Fails here, with the system's own words, if the folder cannot be written to.
    File::create_new(temporary).map_err(io_error)?;
    safetensors::serialize_to_file(tensors, None, temporary).map_err(|error| match error {
        SafeTensorError::IoError(source) => io_error(source),
        other => refused(path, other.to_string()),
    })?;
    // On the disk before it is moved: a crash must not leave an empty file under the good name.
    File::open(temporary).and_then(|file| file.sync_all()).map_err(io_error)?;
    fs::rename(temporary, path).map_err(io_error)
}
