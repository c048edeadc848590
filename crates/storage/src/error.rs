//! Errors with the address, the operation, the number of requests and a remedy.

use std::fmt;
use std::io;

/// The error of an operation on a file or an object.
///
/// ```
/// use oxidax_storage::Storage;
/// let error = Storage::from_env().at("gs://").unwrap_err();
/// let text = "gs://: parsing the address: the bucket is missing\n  help: write \
///     gs://bucket/folder/file";
/// assert_eq!(error.to_string(), text);
/// ```
#[derive(Debug)]
pub struct Error(Box<Fields>);

#[derive(Debug)]
struct Fields {
    location: String,
    operation: &'static str,
    problem: Problem,
}

/// The part of an error that does not depend on the operation.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: io::ErrorKind,
    message: String,
    /// Requests sent, including repeated ones. `None` for local files.
    requests: Option<u32>,
    help: Option<String>,
}

impl Problem {
    pub(crate) fn new(kind: io::ErrorKind, message: impl Into<String>) -> Problem {
        Problem { kind, message: message.into(), requests: None, help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Sets the remedy if there is none.
    #[cfg(feature = "remote")]
    pub(crate) fn or_help(mut self, help: &str) -> Problem {
        self.help.get_or_insert_with(|| help.to_owned());
        self
    }

    #[cfg(feature = "remote")]
    pub(crate) fn requests(mut self, requests: u32) -> Problem {
        self.requests = Some(requests);
        self
    }

    #[cfg(feature = "remote")]
    pub(crate) fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::new(error.kind(), error.to_string())
    }
}

impl Error {
    pub(crate) fn new(
        location: impl Into<String>,
        operation: &'static str,
        problem: impl Into<Problem>,
    ) -> Error {
        Error(Box::new(Fields { location: location.into(), operation, problem: problem.into() }))
    }

    /// Returns the kind. `NotFound` means that the object, its bucket or the file does not exist.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.problem.kind
    }

    /// Returns the path or address that the operation was about.
    pub fn location(&self) -> &str {
        &self.0.location
    }

    /// Returns an error without the location, for a caller that prints the location itself.
    pub fn without_location(self) -> io::Error {
        let kind = self.kind();
        io::Error::new(kind, detail(&self.0))
    }
}

fn detail(fields: &Fields) -> String {
    let Fields { operation, problem, .. } = fields;
    let requests = match problem.requests {
        Some(1) => " (after 1 request)".to_owned(),
        Some(count) => format!(" (after {count} requests)"),
        None => String::new(),
    };
    let help = problem.help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default();
    format!("{operation}: {}{requests}{help}", problem.message)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.location, detail(&self.0))
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
