//! Writes GGUF files, version 3, little-endian.

use super::reader::{ALIGNMENT, DEFAULT_ALIGNMENT};
use super::{GgmlType, quantize};
use crate::convert::{convert, to_f32};
use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::metadata::WeightMetadata;
use crate::tensor::StoredTensor;
use crate::weights::Weights;
use oxidax_storage::{ObjectWriter, Storage};
use std::path::Path;

/// The element type of written tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GgufDType {
    /// Types that GGUF has stay; others become `f32`.
    #[default]
    Keep,
    /// Floats become this type: `f32`, `f16`, `bf16`, or blocks. Tensors of one axis, and those
    /// whose last axis does not consist of whole blocks, become `f32`.
    Floats(WeightDType),
}

impl Weights {
    /// Writes a GGUF file: the metadata, and the tensors under their names.
    ///
    /// Programs such as llama.cpp need certain names and metadata (`general.architecture`);
    /// [rules](crate::Rules) and [`with_metadata`](Weights::with_metadata) provide them.
    ///
    /// # Errors
    /// If a tensor cannot be read or has a type that cannot be written, or the file cannot be
    /// written.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model.gguf");
    /// use oxidax_weights::{GgmlType, GgufDType, StoredTensor, WeightDType, Weights};
    /// let bytes = (0..64).flat_map(|x| (x as f32).to_le_bytes()).collect();
    /// let tensor = StoredTensor::from_bytes(WeightDType::F32, &[2, 32], bytes)?;
    /// let dtype = GgufDType::Floats(WeightDType::Ggml(GgmlType::Q8_0));
    /// Weights::from_tensors([("w", tensor)])?.save_gguf(&path, dtype)?;
    /// assert_eq!(Weights::open(&path)?.get("w").unwrap().to_string(), "q8_0[2,32]");
    /// # Ok::<(), oxidax_weights::Error>(())
    /// ```
    pub fn save_gguf(&self, path: impl AsRef<Path>, dtype: GgufDType) -> Result<()> {
        let path = Storage::from_env().at(path)?;
        let location = path.to_string();
        let header = self.header(dtype).map_err(|error| error.at(&location))?;
        let mut writer = path.create()?;
        writer.write(&header)?;
        for (name, tensor) in self.tensors() {
            write_tensor(&mut writer, tensor, dtype)
                .map_err(|error| error.within(&format!("tensor `{name}`")).at(&location))?;
        }
        writer.finish()?;
        Ok(())
    }

    fn header(&self, dtype: GgufDType) -> Result<Vec<u8>> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        let metadata: Vec<_> = self.metadata().iter().filter(|pair| pair.0 != ALIGNMENT).collect();
        bytes.extend((self.tensors().len() as u64).to_le_bytes());
        bytes.extend((metadata.len() as u64).to_le_bytes());
        for (key, value) in metadata {
            put_text(&mut bytes, key);
            let kind = kind_of(value);
            bytes.extend(kind.to_le_bytes());
            put_value(&mut bytes, kind, value)?;
        }
        let mut offset = 0u64;
        for (name, tensor) in self.tensors() {
            let written = written_dtype(tensor, dtype)
                .map_err(|error| error.within(&format!("tensor `{name}`")))?;
            put_text(&mut bytes, name);
            bytes.extend((tensor.shape().len() as u32).to_le_bytes());
            for &size in tensor.shape().iter().rev() {
                bytes.extend((size as u64).to_le_bytes());
            }
            bytes.extend(number_of(written)?.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            let size = written.byte_len(tensor.shape()).unwrap_or_default();
            offset += size.next_multiple_of(DEFAULT_ALIGNMENT);
        }
        bytes.resize(bytes.len().next_multiple_of(DEFAULT_ALIGNMENT as usize), 0);
        Ok(bytes)
    }
}

fn write_tensor(writer: &mut ObjectWriter, tensor: &StoredTensor, dtype: GgufDType) -> Result<()> {
    let written = written_dtype(tensor, dtype)?;
    let bytes = tensor.read()?;
    let mut bytes = match written {
        _ if written == tensor.dtype() => bytes,
        WeightDType::Ggml(kind) => quantize(kind, &to_f32(bytes, tensor.dtype())?)?,
        _ => convert(bytes, tensor.dtype(), written)?,
    };
    bytes.resize(bytes.len().next_multiple_of(DEFAULT_ALIGNMENT as usize), 0);
    writer.write(&bytes)?;
    Ok(())
}

/// Returns the type in which a tensor is written.
fn written_dtype(tensor: &StoredTensor, dtype: GgufDType) -> Result<WeightDType> {
    let own = tensor.dtype();
    match dtype {
        GgufDType::Floats(wanted) if own.is_float() => {
            let is_vector = tensor.shape().len() < 2;
            let fits = wanted.byte_len(tensor.shape()).is_some();
            let written = if is_vector || !fits { WeightDType::F32 } else { wanted };
            number_of(written).map(|_| written)
        }
        _ if number_of(own).is_ok() => Ok(own),
        _ if own == WeightDType::I4 || own == WeightDType::Bool => Err(unsupported(own)),
        _ if crate::convert::is_convertible(own, WeightDType::F32) => Ok(WeightDType::F32),
        _ => Err(unsupported(own)),
    }
}

fn unsupported(dtype: WeightDType) -> Error {
    Error::new(format!("GGUF cannot hold {dtype}; a rule `cast` converts it, or drop it"))
}

fn number_of(dtype: WeightDType) -> Result<u32> {
    Ok(match dtype {
        WeightDType::F32 => 0,
        WeightDType::F16 => 1,
        WeightDType::I8 => 24,
        WeightDType::I16 => 25,
        WeightDType::I32 => 26,
        WeightDType::I64 => 27,
        WeightDType::F64 => 28,
        WeightDType::BF16 => 30,
        WeightDType::Ggml(kind) => GgmlType::number(kind),
        _ => return Err(unsupported(dtype)),
    })
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Returns the number of a metadata type: `u32` and `f32` if they hold the value exactly.
fn kind_of(value: &WeightMetadata) -> u32 {
    match value {
        WeightMetadata::Bool(_) => 7,
        WeightMetadata::Int(value) if u32::try_from(*value).is_ok() => 4,
        WeightMetadata::Int(value) if i32::try_from(*value).is_ok() => 5,
        WeightMetadata::Int(_) => 11,
        WeightMetadata::Unsigned(_) => 10,
        // Hyperparameters are single precision in every known program.
        WeightMetadata::Float(_) => 6,
        WeightMetadata::Text(_) => 8,
        WeightMetadata::List(_) => 9,
    }
}

fn put_value(bytes: &mut Vec<u8>, kind: u32, value: &WeightMetadata) -> Result<()> {
    match (kind, value) {
        (_, WeightMetadata::Bool(value)) => bytes.push(u8::from(*value)),
        (4, WeightMetadata::Int(value)) => bytes.extend((*value as u32).to_le_bytes()),
        (5, WeightMetadata::Int(value)) => bytes.extend((*value as i32).to_le_bytes()),
        (_, WeightMetadata::Int(value)) => bytes.extend(value.to_le_bytes()),
        (_, WeightMetadata::Unsigned(value)) => bytes.extend(value.to_le_bytes()),
        (_, WeightMetadata::Float(value)) => bytes.extend((*value as f32).to_le_bytes()),
        (_, WeightMetadata::Text(text)) => put_text(bytes, text),
        (_, WeightMetadata::List(values)) => {
            let kinds = values.iter().map(kind_of);
            // Integers of different signs and widths share the widest type.
            let kind = match kinds.clone().all(|kind| Some(kind) == kinds.clone().next()) {
                true => kinds.clone().next().unwrap_or(4),
                false if values.iter().all(|value| matches!(value, WeightMetadata::Int(_))) => 11,
                false => return Err(Error::new("a list of metadata mixes types")),
            };
            bytes.extend(kind.to_le_bytes());
            bytes.extend((values.len() as u64).to_le_bytes());
            for value in values {
                put_value(bytes, kind, value)?;
            }
        }
    }
    Ok(())
}
