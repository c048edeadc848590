//! [`WeightFormat`]: formats of files and folders, recognised by their contents.

use crate::error::{Error, Result};
use crate::source::{ByteFolder, ByteSource};
use crate::weights::Contents;
use crate::{flax, gguf, npy, npz, orbax, pytorch, pytorch_legacy, safetensors, shards};
use std::fmt;

/// The format of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightFormat {
    /// A safetensors file, or several with an index.
    Safetensors,
    /// A file of `torch.save`, or several with an index.
    PyTorch,
    /// A GGUF file.
    Gguf,
    /// An `.npy` file.
    Npy,
    /// An `.npz` file.
    Npz,
    /// A file of `flax.serialization`.
    Flax,
    /// A folder of Orbax, in OCDBT or in zarr arrays.
    Orbax,
    /// Tensors that a program made.
    Memory,
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            WeightFormat::Safetensors => "safetensors",
            WeightFormat::PyTorch => "PyTorch",
            WeightFormat::Gguf => "GGUF",
            WeightFormat::Npy => "npy",
            WeightFormat::Npz => "npz",
            WeightFormat::Flax => "Flax msgpack",
            WeightFormat::Orbax => "Orbax",
            WeightFormat::Memory => "memory",
        })
    }
}

/// Bytes at the start that decide about the format.
const FIRST: u64 = 16;

/// Reads a file. `siblings` is its folder, for the other files of an index.
pub(crate) fn read_file(
    source: &ByteSource,
    name: &str,
    siblings: Option<&ByteFolder>,
) -> Result<(WeightFormat, Contents)> {
    let first = source.read_up_to(0, FIRST)?;
    if first.starts_with(b"GGUF") {
        return Ok((WeightFormat::Gguf, gguf::read(source, name, siblings)?));
    }
    if first.starts_with(b"PK") {
        return match pytorch::read(source)? {
            Some(contents) => Ok((WeightFormat::PyTorch, contents)),
            None => Ok((WeightFormat::Npz, npz::read(source)?)),
        };
    }
    if first.starts_with(npy::MAGIC) {
        return Ok((WeightFormat::Npy, npy::read(source, name)?));
    }
    if safetensors::is_safetensors(&first, source.size()) {
        return Ok((WeightFormat::Safetensors, safetensors::read(source)?));
    }
    if first.starts_with(b"\x89HDF\r\n\x1a\n") {
        return Err(Error::new(
            "HDF5 files (Keras `.h5`) are not supported yet\n  help: write the weights with \
             `numpy.savez` or `safetensors.numpy.save_file` in Python",
        ));
    }
    if first.first() == Some(&b'{') {
        let Some(folder) = siblings else {
            return Err(Error::new("an index of several files needs the folder with the files"));
        };
        return shards::read_index(source, folder);
    }
    if matches!(first[..], [0x80, 2..=5, ..]) {
        return Ok((WeightFormat::PyTorch, pytorch_legacy::read(source)?));
    }
    if matches!(first.first(), Some(0x80..=0x8f | 0xde | 0xdf)) {
        return Ok((WeightFormat::Flax, flax::read(source)?));
    }
    Err(Error::new(format!(
        "a file that begins with {:02x?} has no known format\n  help: readable are safetensors, \
         PyTorch, GGUF, NumPy, Flax msgpack and folders of Orbax",
        &first[..first.len().min(8)]
    )))
}

/// Files that a folder of Hugging Face's layout may have. The single file wins, as in
/// `transformers`.
const FILES: [&str; 6] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "flax_model.msgpack",
    "flax_model.msgpack.index.json",
];

/// Reads a folder.
pub(crate) fn read_folder(folder: &ByteFolder) -> Result<(WeightFormat, Contents)> {
    for name in FILES {
        if let Some(source) = folder.file(name)? {
            return read_file(&source, name, Some(folder)).map_err(|error| error.within(name));
        }
    }
    if let Some(contents) = orbax::read(folder)? {
        return Ok((WeightFormat::Orbax, contents));
    }
    Err(Error::new(format!(
        "the folder has neither {} nor a checkpoint of Orbax\n  help: name a file",
        FILES.join(", ")
    )))
}
