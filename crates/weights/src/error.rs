//! [`Error`]: the reason why weights cannot be read, mapped or written.

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Weights cannot be read, mapped or written.
///
/// ```
/// use oxidax_weights::Weights;
/// let error = Weights::from_bytes(b"GGUF".to_vec()).unwrap_err();
/// assert!(error.to_string().starts_with("bytes in memory: GGUF, byte 4: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if location.is_empty() { String::new() } else { format!("{location}: ") })]
pub struct Error {
    location: String,
    message: String,
}

impl Error {
    /// Creates an error whose location is added later.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { location: String::new(), message: message.into() }
    }

    /// Adds the path of the file, unless there is one.
    pub(crate) fn at(mut self, location: &str) -> Error {
        if self.location.is_empty() {
            self.location = location.to_owned();
        }
        self
    }

    /// Puts a description of the part before the message.
    pub(crate) fn within(mut self, part: &str) -> Error {
        self.message = format!("{part}: {}", self.message);
        self
    }

    /// Returns the file or folder that the error is about, or an empty text.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Returns the message without the location.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<oxidax_storage::Error> for Error {
    fn from(error: oxidax_storage::Error) -> Error {
        let location = error.location().to_owned();
        Error { location, message: error.without_location().to_string() }
    }
}

/// Shortens text of a file for a message.
pub(crate) fn shortened(text: &str) -> String {
    const MAX: usize = 80;
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let short: String = text.chars().take(MAX).map(printable).collect();
    if text.chars().nth(MAX).is_some() { format!("{short}…") } else { short }
}
