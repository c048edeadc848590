//! [`Weights`]: the tensors of a file or folder by name.

use crate::detect::{self, WeightFormat};
use crate::error::{Error, Result, shortened};
use crate::metadata::WeightMetadata;
use crate::source::{ByteFolder, ByteSource};
use crate::tensor::StoredTensor;
use oxidax_storage::Storage;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Tensors by name, with their types. Elements are read on demand. Cloning is cheap.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.safetensors");
/// use oxidax_weights::{StoredTensor, WeightDType, Weights};
/// let bytes = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let bias = StoredTensor::from_bytes(WeightDType::F32, &[2], bytes)?;
/// Weights::from_tensors([("bias", bias)])?.save_safetensors(&path)?;
///
/// let weights = Weights::open(&path)?;
/// let bias = weights.get("bias").unwrap();
/// assert_eq!(bias.to_string(), "f32[2]");
/// assert_eq!(bias.read_f32()?, [1.0, 2.0]);
/// # Ok::<(), oxidax_weights::Error>(())
/// ```
#[derive(Clone)]
pub struct Weights {
    location: String,
    format: WeightFormat,
    contents: Contents,
}

/// The parts that readers return.
#[derive(Clone, Default)]
pub(crate) struct Contents {
    pub(crate) tensors: BTreeMap<String, StoredTensor>,
    pub(crate) metadata: BTreeMap<String, WeightMetadata>,
    /// Stored values that are not tensors, with the reason.
    pub(crate) skipped: Vec<String>,
}

impl Contents {
    /// Adds a tensor.
    pub(crate) fn insert(&mut self, name: String, tensor: StoredTensor) -> Result<()> {
        if self.tensors.contains_key(&name) {
            return Err(Error::new(format!("the name `{}` appears twice", shortened(&name))));
        }
        self.tensors.insert(name, tensor);
        Ok(())
    }
}

impl Weights {
    /// Opens a file or folder. Its contents decide about the format, not its name.
    ///
    /// `path` is a file of safetensors, PyTorch, GGUF, NumPy or Flax, an index of several files
    /// (`model.safetensors.index.json`, `pytorch_model.bin.index.json`), a folder with one of them
    /// under the names of Hugging Face, or a checkpoint of Orbax. Addresses `gs://…` and `s3://…`
    /// need the feature `remote` of `oxidax-storage`. Only headers are read.
    ///
    /// # Errors
    /// If a file cannot be read, is damaged, or has an unknown format.
    pub fn open(path: impl AsRef<Path>) -> Result<Weights> {
        let path = Storage::from_env().at(path)?;
        let location = path.to_string();
        let is_folder = match path.as_local() {
            Some(local) => local.is_dir(),
            None => !path.exists()? && !path.folder()?.is_empty(),
        };
        let opened = if is_folder {
            detect::read_folder(&ByteFolder::Storage(path))
        } else {
            let source = ByteSource::open(&path)?;
            let siblings = parent(&location)
                .map(|folder| Storage::from_env().at(folder))
                .transpose()?
                .map(ByteFolder::Storage);
            let name = location.rsplit('/').next().unwrap_or_default();
            detect::read_file(&source, name, siblings.as_ref())
        };
        let (format, contents) = opened.map_err(|error| error.at(&location))?;
        Ok(Weights { location, format, contents })
    }

    /// Reads a file in memory.
    ///
    /// # Errors
    /// If the bytes are damaged or have an unknown format.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Weights> {
        let location = "bytes in memory";
        let (format, contents) = detect::read_file(&ByteSource::memory(bytes), "", None)
            .map_err(|error| error.at(location))?;
        Ok(Weights { location: location.into(), format, contents })
    }

    /// Reads a folder in memory. Names have slashes.
    ///
    /// # Errors
    /// As [`open`](Weights::open).
    pub fn from_files(files: BTreeMap<String, Vec<u8>>) -> Result<Weights> {
        let location = "files in memory";
        let (format, contents) =
            detect::read_folder(&ByteFolder::memory(files)).map_err(|error| error.at(location))?;
        Ok(Weights { location: location.into(), format, contents })
    }

    /// Creates weights from tensors, for writing.
    ///
    /// # Errors
    /// If a name appears twice.
    pub fn from_tensors<S: Into<String>>(
        tensors: impl IntoIterator<Item = (S, StoredTensor)>,
    ) -> Result<Weights> {
        let mut contents = Contents::default();
        for (name, tensor) in tensors {
            contents.insert(name.into(), tensor)?;
        }
        Ok(Weights { location: "tensors in memory".into(), format: WeightFormat::Memory, contents })
    }

    /// Returns weights with other tensors and the metadata of these.
    pub(crate) fn with_tensors(&self, tensors: BTreeMap<String, StoredTensor>) -> Weights {
        let contents = Contents { tensors, ..self.contents.clone() };
        Weights { contents, ..self.clone() }
    }

    /// Returns the file or folder.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Returns the format.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// Returns the tensor of a name.
    pub fn get(&self, name: &str) -> Option<&StoredTensor> {
        self.contents.tensors.get(name)
    }

    /// Returns all tensors, sorted by name.
    pub fn tensors(&self) -> &BTreeMap<String, StoredTensor> {
        &self.contents.tensors
    }

    /// Returns the values beside the tensors: the metadata of GGUF and safetensors.
    pub fn metadata(&self) -> &BTreeMap<String, WeightMetadata> {
        &self.contents.metadata
    }

    /// Sets a value of the metadata, for writing.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl Into<WeightMetadata>) -> Weights {
        self.contents.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Returns stored values that are not tensors, such as the epoch in a PyTorch checkpoint.
    pub fn skipped(&self) -> &[String] {
        &self.contents.skipped
    }
}

/// Returns the folder of a file.
fn parent(location: &str) -> Option<String> {
    match location.rsplit_once('/') {
        Some(("", _)) => Some("/".into()),
        Some((folder, _)) if !folder.ends_with(":/") => Some(folder.into()),
        Some(_) => None,
        None => Some(".".into()),
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensors = self.contents.tensors.len();
        write!(f, "Weights({}: {}, {tensors} tensors)", self.location, self.format)
    }
}
