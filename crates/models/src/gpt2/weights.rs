//! Folders in Hugging Face's layout: `config.json`, and `model.safetensors` or its shards.
//!
//! GPT-2's matrices are stored `[in, out]`, as in `nn::Linear`. The head is not stored, because it
//! is the token embedding.

use super::config::StoredConfig;
use super::{Gpt2, Gpt2Config};
use crate::hugging_face::{self, refused};
use oxidax::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the token embedding, which is also the head.
const TABLE: &str = "wte.weight";
const HEAD: &str = "lm_head.weight";

impl Gpt2 {
    /// Loads a model from a folder or an address with `config.json`, and `model.safetensors` or
    /// `model.safetensors.index.json` with its shards.
    ///
    /// Leaves are `f32`: `f16` and `bf16` weights are widened. The prefix `transformer.` is
    /// optional, and attention masks in older files are ignored. The dropout rate is 0;
    /// [`load_with`](Self::load_with) sets another one.
    ///
    /// # Errors
    /// `Io` if a file cannot be read. `Checkpoint` if the configuration is not supported, leaves
    /// are missing or have other types, or the head differs from the token embedding; the error
    /// names them.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use oxidax_models::gpt2::Gpt2;
    /// let model = Gpt2::load("gpt2")?;
    /// let tokens = Array::from_slice(&[2514, 307, 11], [1, 3])?;
    /// let logits = jit(|model: Gpt2, tokens: Array| model.forward(&tokens, None));
    /// println!("{}", logits.call(&model, &tokens)?);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "from_pretrained")]
    pub fn load(folder: impl AsRef<Path>) -> Result<Gpt2, Error> {
        let config = Gpt2Config::load(&folder)?;
        Gpt2::load_with(folder, &config)
    }

    /// Loads a model from the weights in a folder, with the configuration of the caller: usually
    /// [`Gpt2Config::load`] with a dropout rate.
    ///
    /// # Errors
    /// Like [`load`](Self::load); `config.json` is not read. `Op` (value) if the heads do not
    /// divide the width.
    ///
    /// ```no_run
    /// use oxidax_models::gpt2::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { dropout: 0.1, ..Gpt2Config::load("gpt2")? };
    /// let model = Gpt2::load_with("gpt2", &config)?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn load_with(folder: impl AsRef<Path>, config: &Gpt2Config) -> Result<Gpt2, Error> {
        let (folder, config) = (folder.as_ref(), *config);
        let weights = stored(folder)?;
        if let Some(head) = weights.types()?.get(HEAD) {
            let names = [TABLE, HEAD];
            let pair = BTreeMap::from(names.map(|name| (name, Array::of_type(head.clone()))));
            let pair = stored(folder)?.only(names).load(&pair)?;
            if pair[TABLE].to_bytes()? != pair[HEAD].to_bytes()? {
                return Err(refused(folder, format!("`{HEAD}` is not `{TABLE}`")));
            }
        }
        let template =
            eval_shape(move |key: random::Key| Gpt2::new(key, &config), random::Key::of_type())?;
        weights.ignore([HEAD]).load(&template)
    }

    /// Saves the model to a folder, for [`load`](Self::load) and `transformers`: `config.json` and
    /// `model.safetensors`. Stacked layers are saved one by one.
    ///
    /// # Errors
    /// `Io` if a file cannot be written. `Runtime` if an array cannot be read.
    ///
    /// ```
    /// # use oxidax::prelude::*;
    /// # let temporary = tempfile::tempdir().unwrap();
    /// # let folder = temporary.path();
    /// use oxidax_models::gpt2::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { layers: 2, heads: 2, width: 64, ..Gpt2Config::small() };
    /// let model = Gpt2::new(random::key(0), &config);
    /// model.save(folder, &config)?;
    /// assert_eq!(Gpt2Config::load(folder)?, config);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "save_pretrained")]
    pub fn save(&self, folder: impl AsRef<Path>, config: &Gpt2Config) -> Result<(), Error> {
        let folder = folder.as_ref();
        let path = folder.join("config.json");
        let text = serde_json::to_string_pretty(&StoredConfig::new(config))
            .map_err(|error| refused(&path, error.to_string()))?;
        hugging_face::write(&path, &(text + "\n"))?;
        let model = Gpt2 { h: self.h.unrolled(), ..self.clone() };
        let names = tree::paths(&model)
            .into_iter()
            .map(|path| format!("transformer.{}", hugging_face_name(&path)));
        let leaves: BTreeMap<String, Array> = names.zip(tree::leaves(&model)).collect();
        checkpoint::save(folder.join("model.safetensors"), &leaves)
    }
}

/// Returns Hugging Face's name of the leaf at a path of an unrolled [`Gpt2`], without the prefix
/// `transformer.`.
///
/// ```
/// use oxidax_models::gpt2::hugging_face_name;
/// assert_eq!(hugging_face_name("h.layers[3].ln_1.scale"), "h.3.ln_1.weight");
/// ```
pub fn hugging_face_name(path: &str) -> String {
    path.replace("h.layers[", "h.").replace(']', "").replace(".scale", ".weight")
}

/// Opens the weights under the paths of [`Gpt2`].
fn stored(folder: &Path) -> Result<checkpoint::Reader, Error> {
    Ok(checkpoint::open(folder)?
        // Full language models have this prefix, bare transformers do not.
        .rename("transformer.*", "*")
        .rename("h.*.*", "h.layers[*].*")
        .rename("*ln_*.weight", "*ln_*.scale")
        // Causal masks in older files.
        .ignore(["*.attn.bias", "*.attn.masked_bias"])
        .convert(["*"]))
}
