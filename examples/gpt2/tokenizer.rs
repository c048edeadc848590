//! Tokenizers: GPT-2's byte-level BPE from files, or single characters.

use anyhow::{Context, anyhow, bail};
use std::fs;
use std::path::Path;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer as Bpe};

const WHOLE: &str = "tokenizer.json";
const PARTS: [&str; 2] = ["vocab.json", "merges.txt"];
const CHARACTERS: &str = "characters.json";
const END_OF_TEXT: &str = "<|endoftext|>";

/// Maps text to tokens and back.
pub enum Tokenizer {
    /// Byte-pair encoding: Sennrich, Haddow, Birch: Neural machine translation of rare words with
    /// subword units (2016).
    Bpe(Box<Bpe>),
    /// Token `n` is the `n`-th character.
    Characters(Vec<char>),
}

impl Tokenizer {
    /// Loads `tokenizer.json`, or `vocab.json` with `merges.txt`, or a file written by
    /// [`save`](Self::save).
    pub fn open(folder: &Path) -> anyhow::Result<Tokenizer> {
        let at = |name: &str| folder.join(name);
        let wrong = |name: &str, error| anyhow!("{}: {error}", at(name).display());
        if at(WHOLE).exists() {
            let bpe = Bpe::from_file(at(WHOLE)).map_err(|error| wrong(WHOLE, error))?;
            return Ok(Tokenizer::Bpe(Box::new(bpe)));
        }
        if PARTS.iter().all(|name| at(name).exists()) {
            let [vocabulary, merges] = PARTS.map(|name| at(name).to_string_lossy().into_owned());
            let model = BPE::from_file(&vocabulary, &merges).build();
            let mut bpe = Bpe::new(model.map_err(|error| wrong(PARTS[0], error))?);
            bpe.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
            bpe.with_decoder(Some(ByteLevel::default()));
            if bpe.token_to_id(END_OF_TEXT).is_some() {
                let added = bpe.add_special_tokens([AddedToken::from(END_OF_TEXT, true)]);
                added.map_err(|error| wrong(PARTS[0], error))?;
            }
            return Ok(Tokenizer::Bpe(Box::new(bpe)));
        }
        if at(CHARACTERS).exists() {
            let text = fs::read_to_string(at(CHARACTERS))?;
            let characters: String = serde_json::from_str(&text).with_context(|| CHARACTERS)?;
            return Ok(Tokenizer::Characters(characters.chars().collect()));
        }
        let [vocabulary, merges] = PARTS;
        let folder = folder.display();
        bail!("{folder} has no tokenizer: {WHOLE}, {vocabulary} with {merges}, or {CHARACTERS}")
    }

    /// Makes one token for each character of a text.
    pub fn characters(text: &str) -> Tokenizer {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        Tokenizer::Characters(characters)
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        match self {
            Tokenizer::Bpe(bpe) => bpe.get_vocab_size(true),
            Tokenizer::Characters(characters) => characters.len(),
        }
    }

    pub fn encode(&self, text: &str) -> anyhow::Result<Vec<u32>> {
        match self {
            Tokenizer::Bpe(bpe) => {
                let encoding = bpe.encode(text, false).map_err(|error| anyhow!("{error}"))?;
                Ok(encoding.get_ids().to_vec())
            }
            Tokenizer::Characters(characters) => text
                .chars()
                .map(|c| match characters.binary_search(&c) {
                    Ok(token) => Ok(token as u32),
                    Err(_) => {
                        Err(anyhow!("{c:?} is not among the {} characters", characters.len()))
                    }
                })
                .collect(),
        }
    }

    pub fn decode(&self, tokens: &[u32]) -> anyhow::Result<String> {
        match self {
            Tokenizer::Bpe(bpe) => bpe.decode(tokens, false).map_err(|error| anyhow!("{error}")),
            Tokenizer::Characters(characters) => tokens
                .iter()
                .map(|&token| {
                    let of = || anyhow!("token {token} of {} characters", characters.len());
                    characters.get(token as usize).copied().ok_or_else(of)
                })
                .collect(),
        }
    }

    /// Writes the tokenizer to a folder, for [`open`](Self::open).
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        match self {
            Tokenizer::Bpe(bpe) => {
                bpe.save(folder.join(WHOLE), false).map_err(|error| anyhow!("{WHOLE}: {error}"))
            }
            Tokenizer::Characters(characters) => {
                let characters: String = characters.iter().collect();
                fs::write(folder.join(CHARACTERS), serde_json::to_string(&characters)? + "\n")?;
                Ok(())
            }
        }
    }
}
