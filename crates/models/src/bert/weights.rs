//! Folders in Hugging Face's layout: `config.json`, `model.safetensors` or its shards, and the
//! optional `1_Pooling/config.json` of `sentence-transformers`.

use super::{Bert, BertConfig};
use oxidax::prelude::*;
use std::path::Path;

impl Bert {
    /// Loads an encoder from a folder or an address with `config.json`, and `model.safetensors` or
    /// `model.safetensors.index.json` with its shards.
    ///
    /// Leaves are `f32`: `f16` and `bf16` weights are widened. The prefix `bert.` is optional. Task
    /// heads, position ids, and the names `gamma` and `beta` of older files are understood. The
    /// pooler may be missing.
    ///
    /// # Errors
    /// `Io` if a file cannot be read. `Checkpoint` if the configuration is not supported, or leaves
    /// are missing or have other types; the error names them.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use oxidax_models::bert::{Bert, TextBatch};
    /// let model = Bert::load("bert-base-uncased")?;
    /// let texts = TextBatch {
    ///     tokens: Array::from_slice(&[101, 7592, 2088, 102], [1, 4])?,
    ///     segments: zeros(([1, 4], DType::I32)),
    ///     lengths: Array::from_slice(&[4], [1])?,
    /// };
    /// let features = jit(|model: Bert, texts: TextBatch| model.forward(&texts));
    /// println!("{}", features.call(&model, &texts)?);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "from_pretrained")]
    pub fn load(folder: impl AsRef<Path>) -> Result<Bert, Error> {
        let config = BertConfig::load(&folder)?;
        Bert::load_with(folder, &config)
    }

    /// Loads an encoder from the weights in a folder, with the configuration of the caller: usually
    /// [`BertConfig::load`] with another pooling.
    ///
    /// # Errors
    /// Like [`load`](Self::load); `config.json` is not read. `Op` (value) if the heads do not
    /// divide the width.
    pub fn load_with(folder: impl AsRef<Path>, config: &BertConfig) -> Result<Bert, Error> {
        let (stored, config) = (open(folder.as_ref())?, *config);
        let new = move |key: random::Key| Bert::new(key, &config);
        stored.load(&eval_shape(new, random::Key::of_type())?)
    }
}

/// Opens the weights under the paths of [`Bert`].
pub(super) fn open(folder: &Path) -> Result<checkpoint::Reader, Error> {
    Ok(checkpoint::open(folder)?
        // Full language models store the encoder under `bert.`, beside task heads.
        .rename("bert.*", "*")
        .ignore(["cls.*", "classifier.*", "qa_outputs.*"])
        // Constant position ids in older files.
        .ignore(["embeddings.position_ids"])
        // Names converted from TensorFlow.
        .rename("*LayerNorm.gamma", "*LayerNorm.weight")
        .rename("*LayerNorm.beta", "*LayerNorm.bias")
        .rename("*LayerNorm.weight", "*norm.scale")
        .rename("*LayerNorm.bias", "*norm.bias")
        .rename("embeddings.*_embeddings.*", "embeddings.*.*")
        .rename("encoder.layer.*.*", "layers[*].*")
        .rename("layers[*].attention.self.*", "layers[*].attention.*")
        .rename("layers[*].attention.output.norm.*", "layers[*].attention.norm.*")
        .rename("layers[*].attention.output.dense.*", "layers[*].attention.output.*")
        .rename("layers[*].intermediate.dense.*", "layers[*].up.*")
        .rename("layers[*].output.dense.*", "layers[*].down.*")
        .rename("layers[*].output.norm.*", "layers[*].norm.*")
        .rename("pooler.dense.*", "pooler.*")
        // Matrices are stored `[out, in]`.
        .transpose("layers*.weight", [1, 0])
        .transpose("pooler.weight", [1, 0])
        .convert(["*"]))
}
