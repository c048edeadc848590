//! Writes safetensors files.

use crate::convert::{convert, is_convertible};
use crate::error::Result;
use crate::metadata::WeightMetadata;
use crate::safetensors::{METADATA, name_of, written_dtype};
use crate::weights::Weights;
use crate::{WeightDType, error::Error};
use oxidax_storage::Storage;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(serde::Serialize)]
struct Entry<'a> {
    dtype: &'a str,
    shape: &'a [usize],
    data_offsets: (u64, u64),
}

impl Weights {
    /// Writes a safetensors file. Types that the format lacks, such as the blocks of GGUF, become
    /// `f32`. Of the metadata, text is written.
    ///
    /// # Errors
    /// If a tensor cannot be read, a type cannot be written, or the file cannot be written.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model.safetensors");
    /// use oxidax_weights::{StoredTensor, WeightDType, Weights};
    /// let tensor = StoredTensor::from_bytes(WeightDType::U8, &[2], vec![1, 2])?;
    /// Weights::from_tensors([("w", tensor)])?.save_safetensors(&path)?;
    /// assert_eq!(Weights::open(&path)?.get("w").unwrap().read()?, [1, 2]);
    /// # Ok::<(), oxidax_weights::Error>(())
    /// ```
    pub fn save_safetensors(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = Storage::from_env().at(path)?;
        let location = path.to_string();
        // The format recommends wide types first, so that elements are aligned.
        let mut tensors: Vec<_> = self.tensors().iter().collect();
        let width = |dtype: WeightDType| dtype.width().unwrap_or_default();
        tensors.sort_by_key(|(name, tensor)| (std::cmp::Reverse(width(tensor.dtype())), *name));
        let mut object = Vec::new();
        let texts: BTreeMap<&str, &str> = self
            .metadata()
            .iter()
            .filter_map(|(key, value)| match value {
                WeightMetadata::Text(text) => Some((key.as_str(), text.as_str())),
                _ => None,
            })
            .collect();
        if !texts.is_empty() {
            object.push(format!("{}:{}", json(&METADATA), json(&texts)));
        }
        let mut end = 0;
        for (name, tensor) in &tensors {
            let part = |error: Error| error.within(&format!("tensor `{name}`")).at(&location);
            if name.as_str() == METADATA {
                return Err(part(Error::new("the format reserves this name")));
            }
            let dtype = written_dtype(tensor.dtype()).map_err(part)?;
            let bytes = dtype.byte_len(tensor.shape()).unwrap_or_default();
            let entry = Entry {
                dtype: name_of(dtype).unwrap_or_default(),
                shape: tensor.shape(),
                data_offsets: (end, end + bytes),
            };
            end += bytes;
            object.push(format!("{}:{}", json(name), json(&entry)));
        }
        let mut text = format!("{{{}}}", object.join(",")).into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut writer = path.create()?;
        writer.write(&(text.len() as u64).to_le_bytes())?;
        writer.write(&text)?;
        for (name, tensor) in tensors {
            let part = |error: Error| error.within(&format!("tensor `{name}`")).at(&location);
            let dtype = written_dtype(tensor.dtype()).map_err(part)?;
            let bytes = tensor.read().map_err(part)?;
            let bytes = match is_convertible(tensor.dtype(), dtype) {
                true => convert(bytes, tensor.dtype(), dtype).map_err(part)?,
                // Four-bit integers take a byte in both types.
                false => bytes,
            };
            writer.write(&bytes)?;
        }
        writer.finish()?;
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("names, numbers and lists of them are JSON")
}
