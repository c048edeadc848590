//! Tokenizers: GPT-2's byte-level BPE from files, or single characters.

use crate::hugging_face::{self, exists, read_json, refused};
use oxidax::Error;
use std::path::Path;
#[cfg(feature = "tokenizers")]
use {std::collections::HashMap, tokenizers::Tokenizer};

const WHOLE: &str = "tokenizer.json";
const PARTS: [&str; 2] = ["vocab.json", "merges.txt"];
const CHARACTERS: &str = "characters.json";

/// Converts text to tokens and back.
///
/// ```
/// use oxidax_models::gpt2::Gpt2Tokenizer;
/// let tokenizer = Gpt2Tokenizer::characters("banana");
/// assert_eq!(tokenizer.encode("nab")?, [2, 0, 1]);
/// assert_eq!(tokenizer.decode(&[1, 0, 2])?, "ban");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "GPT2Tokenizer")]
#[derive(Clone, Debug)]
pub struct Gpt2Tokenizer(Vocabulary);

#[derive(Clone, Debug)]
enum Vocabulary {
    /// Byte-pair encoding: Sennrich, Haddow, Birch: Neural machine translation of rare words with
    /// subword units (2016).
    #[cfg(feature = "tokenizers")]
    BytePairs(Box<Tokenizer>),
    /// Token `n` is the `n`-th character.
    Characters(Vec<char>),
}

impl Gpt2Tokenizer {
    /// Loads from a folder or an address: `tokenizer.json`, or `vocab.json` with `merges.txt`, or a
    /// file written by [`save`](Self::save). The first three files need the feature `tokenizers`.
    ///
    /// # Errors
    /// `Io` if a file cannot be read. `Checkpoint` if the folder has none of the files, a file has
    /// unexpected contents, or the feature is not enabled.
    #[doc(alias = "from_pretrained")]
    pub fn load(folder: impl AsRef<Path>) -> Result<Gpt2Tokenizer, Error> {
        let folder = folder.as_ref();
        let at = |name: &str| folder.join(name);
        if exists(&at(WHOLE))? {
            return byte_pairs_from_file(&at(WHOLE));
        }
        if exists(&at(PARTS[0]))? && exists(&at(PARTS[1]))? {
            return byte_pairs_from_parts(PARTS.map(at));
        }
        if exists(&at(CHARACTERS))? {
            let characters: String = read_json(&at(CHARACTERS))?;
            return Ok(Gpt2Tokenizer(Vocabulary::Characters(characters.chars().collect())));
        }
        let [vocabulary, merges] = PARTS;
        let files = format!("{WHOLE}, {vocabulary} with {merges}, or {CHARACTERS}");
        Err(refused(folder, format!("the folder has no tokenizer: {files}")))
    }

    /// Makes one token for each character of a text, numbered in the order of their code points.
    pub fn characters(text: &str) -> Gpt2Tokenizer {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        Gpt2Tokenizer(Vocabulary::Characters(characters))
    }

    /// Returns the number of tokens, with added ones.
    pub fn len(&self) -> usize {
        match &self.0 {
            #[cfg(feature = "tokenizers")]
            Vocabulary::BytePairs(tokenizer) => tokenizer.get_vocab_size(true),
            Vocabulary::Characters(characters) => characters.len(),
        }
    }

    /// Returns true if there are no tokens: [`characters`](Self::characters) of an empty text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts text to tokens. No start or end tokens are added.
    ///
    /// # Errors
    /// `Data` if the text has a character that is not a token.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        match &self.0 {
            #[cfg(feature = "tokenizers")]
            Vocabulary::BytePairs(tokenizer) => match tokenizer.encode(text, false) {
                Ok(encoding) => Ok(encoding.get_ids().to_vec()),
                Err(error) => Err(tokenizer_error(error.to_string())),
            },
            Vocabulary::Characters(characters) => text
                .chars()
                .map(|c| match characters.binary_search(&c) {
                    Ok(token) => Ok(token as u32),
                    Err(_) => {
                        let n = characters.len();
                        Err(tokenizer_error(format!("{c:?} is not among the {n} characters")))
                    }
                })
                .collect(),
        }
    }

    /// Converts tokens to text. Incomplete UTF-8 sequences become replacement characters.
    ///
    /// # Errors
    /// `Data` if there is no such character.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        match &self.0 {
            #[cfg(feature = "tokenizers")]
            Vocabulary::BytePairs(tokenizer) => {
                tokenizer.decode(tokens, false).map_err(|error| tokenizer_error(error.to_string()))
            }
            Vocabulary::Characters(characters) => tokens
                .iter()
                .map(|&token| {
                    characters.get(token as usize).copied().ok_or_else(|| {
                        tokenizer_error(format!("token {token} of {} characters", characters.len()))
                    })
                })
                .collect(),
        }
    }

    /// Writes the tokenizer to a folder, for [`load`](Self::load): `tokenizer.json`, or
    /// `characters.json`.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    #[doc(alias = "save_pretrained")]
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        let (name, text) = match &self.0 {
            #[cfg(feature = "tokenizers")]
            Vocabulary::BytePairs(tokenizer) => {
                let text = tokenizer.to_string(false);
                (WHOLE, text.map_err(|error| tokenizer_error(error.to_string()))?)
            }
            Vocabulary::Characters(characters) => {
                let characters: String = characters.iter().collect();
                (CHARACTERS, serde_json::Value::from(characters).to_string() + "\n")
            }
        };
        hugging_face::write(&folder.as_ref().join(name), &text)
    }
}

fn tokenizer_error(message: String) -> Error {
    Error::data("tokenizer", message)
}

/// Loads `tokenizer.json`.
#[cfg(feature = "tokenizers")]
fn byte_pairs_from_file(path: &Path) -> Result<Gpt2Tokenizer, Error> {
    let tokenizer = Tokenizer::from_bytes(hugging_face::read(path)?);
    let tokenizer = tokenizer.map_err(|error| refused(path, error.to_string()))?;
    Ok(Gpt2Tokenizer(Vocabulary::BytePairs(Box::new(tokenizer))))
}

/// Builds the published tokenizer from its vocabulary and merges.
#[cfg(feature = "tokenizers")]
fn byte_pairs_from_parts(paths: [std::path::PathBuf; 2]) -> Result<Gpt2Tokenizer, Error> {
    use tokenizers::AddedToken;
    use tokenizers::models::bpe::{BPE, Vocab};
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    const END_OF_TEXT: &str = "<|endoftext|>";

    let wrong = |error: tokenizers::Error| refused(&paths[0], error.to_string());
    let vocabulary: HashMap<String, u32> = read_json(&paths[0])?;
    let merges = String::from_utf8(hugging_face::read(&paths[1])?)
        .map_err(|error| refused(&paths[1], error.to_string()))?;
    let pairs = parse_merges(&merges).map_err(|line| {
        refused(&paths[1], format!("line {line} is not a pair of tokens with a space between"))
    })?;
    let vocabulary: Vocab = vocabulary.into_iter().collect();
    let model = BPE::builder().vocab_and_merges(vocabulary, pairs).build().map_err(wrong)?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    if tokenizer.token_to_id(END_OF_TEXT).is_some() {
        tokenizer.add_special_tokens([AddedToken::from(END_OF_TEXT, true)]).map_err(wrong)?;
    }
    Ok(Gpt2Tokenizer(Vocabulary::BytePairs(Box::new(tokenizer))))
}

/// Parses the pairs of `merges.txt`, one a line, after a line with the version. Returns the number
/// of a wrong line.
#[cfg(feature = "tokenizers")]
fn parse_merges(text: &str) -> Result<Vec<(String, String)>, usize> {
    let is_pair = |line: &str| !line.starts_with("#version");
    let pair = |(at, line): (usize, &str)| match line.split_once(' ') {
        Some((left, right)) if !right.contains(' ') => Ok((left.to_owned(), right.to_owned())),
        _ => Err(at + 1),
    };
    text.lines().enumerate().filter(|(_, line)| is_pair(line)).map(pair).collect()
}

#[cfg(not(feature = "tokenizers"))]
fn byte_pairs_from_file(path: &Path) -> Result<Gpt2Tokenizer, Error> {
    let help = "enable the feature `tokenizers` of oxidax-models";
    Err(refused(path, format!("byte-pair encoding is not compiled: {help}")))
}

#[cfg(not(feature = "tokenizers"))]
fn byte_pairs_from_parts([vocabulary, _]: [std::path::PathBuf; 2]) -> Result<Gpt2Tokenizer, Error> {
    byte_pairs_from_file(&vocabulary)
}
