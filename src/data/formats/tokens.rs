//! Files of tokens.

use crate::core::{Error, HostArray, RuleError, throw_operands};
use crate::data::files::{File, Handle};
use crate::data::origin::RecordOrigin;
use crate::data::source::Source;
use std::fmt;

/// The storage of a token: little-endian, without a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenWidth {
    /// Two bytes, for vocabularies of up to 65,536, as in nanoGPT's `train.bin`.
    U16,
    /// Four bytes.
    U32,
}

impl TokenWidth {
    fn bytes(self) -> u64 {
        match self {
            TokenWidth::U16 => 2,
            TokenWidth::U32 => 4,
        }
    }
}

/// Windows of a file of tokens, to train a language model. A record is a pair of `i32[length]`: the
/// tokens, and the tokens shifted by one. The file is read on demand and may be larger than memory.
///
/// ```
/// use oxidax::data::{File, Source, TokenWidth, Tokens};
/// let bytes: Vec<u8> = (0u16..9).flat_map(u16::to_le_bytes).collect();
/// let windows = Tokens::open(File::in_memory("train.bin", bytes), TokenWidth::U16, 4)?;
/// assert_eq!(windows.len(), 2);
/// let (inputs, targets) = windows.get(1)?;
/// assert_eq!(inputs.to_vec::<i32>()?, [4, 5, 6, 7]);
/// assert_eq!(targets.to_vec::<i32>()?, [5, 6, 7, 8]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct Tokens {
    handle: Handle,
    width: TokenWidth,
    length: usize,
    stride: usize,
    tokens: u64,
}

impl Tokens {
    /// Opens a file as consecutive windows of `length` tokens.
    ///
    /// Throws `Op` (value) if the length is 0.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, or its length is not a multiple of the token's.
    #[track_caller]
    pub fn open(file: impl Into<File>, width: TokenWidth, length: usize) -> Result<Tokens, Error> {
        if length == 0 {
            throw_operands(
                "tokens",
                RuleError::value("needs windows of at least 1 token, got 0"),
                &[],
            );
        }
        let file = file.into();
        let handle = file.open()?;
        let (size, each) = (handle.len(), width.bytes());
        if !size.is_multiple_of(each) {
            let message = format!("{size} bytes are not a multiple of {each}, the size of a token");
            return Err(file.damaged(size, message));
        }
        Ok(Tokens { handle, width, length, stride: length, tokens: size / each })
    }

    /// Sets the distance between the starts of windows. With 1 there is a window at every token.
    /// Shuffled, they are the random crops that nanoGPT trains on, but without repetition in an
    /// epoch.
    ///
    /// Throws `Op` (value) if the stride is 0.
    #[track_caller]
    pub fn stride(mut self, stride: usize) -> Tokens {
        if stride == 0 {
            throw_operands(
                "stride",
                RuleError::value("needs a stride of at least 1 token, got 0"),
                &[],
            );
        }
        self.stride = stride;
        self
    }

    /// Returns the number of tokens in the file.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}

impl Source for Tokens {
    type Record = (HostArray, HostArray);

    fn len(&self) -> usize {
        // A window needs one more token, for its last target.
        let needed = self.length as u64 + 1;
        match self.tokens.checked_sub(needed) {
            Some(spare) => usize::try_from(spare / self.stride as u64 + 1).unwrap_or(usize::MAX),
            None => 0,
        }
    }

    fn get(&self, index: usize) -> Result<(HostArray, HostArray), Error> {
        let (start, each) = (index as u64 * self.stride as u64, self.width.bytes());
        let count = self.length as u64 + 1;
        let bytes = self.handle.exactly(start * each, count * each, "a window of tokens")?;
        let tokens: Vec<i32> = match self.width {
            TokenWidth::U16 => {
                let token = |token: &[u8]| u16::from_le_bytes([token[0], token[1]]).into();
                bytes.chunks_exact(2).map(token).collect()
            }
            TokenWidth::U32 => {
                let token =
                    |token: &[u8]| u32::from_le_bytes([token[0], token[1], token[2], token[3]]);
                let tokens = bytes.chunks_exact(4).map(token).enumerate();
                let checked = tokens.map(|(at, token)| {
                    i32::try_from(token).map_err(|_| {
                        let message =
                            format!("token {token} exceeds {}; is it a u16 file?", i32::MAX);
                        self.handle.file().damaged((start + at as u64) * each, message)
                    })
                });
                checked.collect::<Result<_, _>>()?
            }
        };
        let window =
            |from: usize| HostArray::from_slice(&tokens[from..from + self.length], [self.length]);
        Ok((window(0)?, window(1)?))
    }

    fn origin(&self, index: usize) -> Option<RecordOrigin> {
        let byte = index as u64 * self.stride as u64 * self.width.bytes();
        Some(RecordOrigin::byte(self.handle.file().name().clone(), byte))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tokens { length, tokens, .. } = self;
        write!(f, "Tokens({}, {tokens} tokens, windows of {length})", self.handle.file())
    }
}
