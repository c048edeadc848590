//! Errors, with the name and version of the plugin that reported them.

use std::fmt;
use std::path::PathBuf;

use oxidax_pjrt_sys as sys;

use crate::plugin::Plugin;
use crate::types::ArrayType;

/// The result type of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Messages begin with the operation. They end with a remedy if one is
/// known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    #[error("loading plugin {}: {source}", path.display())]
    PluginNotFound {
        /// The requested file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is not a shared library, is damaged, or depends on missing libraries.
    #[error("loading plugin {}: {message}", path.display())]
    NotALibrary {
        /// The requested file.
        path: PathBuf,
        /// The loader's message.
        message: String,
    },
    /// The library was built for another kind of machine.
    #[error("loading plugin {}: built for {built_for}, this machine is {machine}", path.display())]
    WrongMachine {
        /// The requested file.
        path: PathBuf,
        /// The machine that the library was built for.
        built_for: String,
        /// The machine that this program runs on.
        machine: &'static str,
    },
    /// The file is a shared library, but does not export `GetPjrtApi`.
    #[error("loading plugin {}: not a PJRT plugin: it does not export GetPjrtApi", path.display())]
    NotAPlugin {
        /// The requested file.
        path: PathBuf,
    },
    /// The plugin uses a version of the C API that this crate does not support.
    #[error("loading plugin {}: C API {major}.{minor} is not supported, need at least 0.{oldest}", path.display())]
    UnsupportedVersion {
        /// The requested file.
        path: PathBuf,
        /// Major version of the plugin's C API.
        major: i32,
        /// Minor version of the plugin's C API.
        minor: i32,
        /// The oldest supported minor version.
        oldest: i32,
    },
    /// The plugin lacks this function or extension.
    #[error("plugin {plugin} lacks {function}")]
    Missing {
        /// The plugin's file and API version.
        plugin: PluginName,
        /// The C function or extension.
        function: &'static str,
    },
    /// The plugin reported an error.
    #[error("{function}: {code}: {message} (plugin {plugin})")]
    Status {
        /// The plugin's file and API version.
        plugin: PluginName,
        /// The C function that failed.
        function: &'static str,
        /// The status code.
        code: Code,
        /// The plugin's message.
        message: String,
    },
    /// An argument of an execution does not have the type of the program's parameter.
    #[error(
        "execute {executable}: argument {index} has the wrong type: expected {expected}, got {found}"
    )]
    ArgumentType {
        /// Name of the program.
        executable: String,
        /// Index of the argument.
        index: usize,
        /// The parameter's type.
        expected: Box<ArrayType>,
        /// The argument's type.
        found: Box<ArrayType>,
    },
    /// This crate rejected a request that would crash the plugin or be misinterpreted by it.
    #[error("{operation}: {message}")]
    Invalid {
        /// The requested operation.
        operation: &'static str,
        /// The problem, including the numbers involved.
        message: String,
    },
}

impl Error {
    pub(crate) fn invalid(operation: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { operation, message: message.into() }
    }

    /// Returns the status code, if a plugin reported this error.
    ///
    /// ```
    /// # let error = oxidax_pjrt::Plugin::load("/nowhere.so".as_ref()).unwrap_err();
    /// assert_eq!(error.code(), None);
    /// ```
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The name of a plugin in errors: file name and API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginName(Plugin);

impl PluginName {
    pub(crate) fn new(plugin: Plugin) -> Self {
        Self(plugin)
    }

    /// Returns the plugin.
    pub fn plugin(self) -> Plugin {
        self.0
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (API {})", self.0.name(), self.0.api_version())
    }
}

/// A status code, equal to the codes of `absl::StatusCode` and gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The operation was cancelled.
    Cancelled,
    /// No specific code applies; plugins report parse errors of programs with it.
    Unknown,
    /// An argument is wrong, independently of the state of the system.
    InvalidArgument,
    /// The operation timed out.
    DeadlineExceeded,
    /// A requested entity does not exist.
    NotFound,
    /// The entity to be created already exists.
    AlreadyExists,
    /// The caller lacks the permission.
    PermissionDenied,
    /// A resource is exhausted; in most cases memory.
    ResourceExhausted,
    /// The system is not in the state that the operation requires.
    FailedPrecondition,
    /// The operation was aborted, for instance because of a conflict with another operation.
    Aborted,
    /// The operation went past the valid range.
    OutOfRange,
    /// The plugin does not implement the operation.
    Unimplemented,
    /// An invariant of the plugin is broken.
    Internal,
    /// The service is currently unavailable.
    Unavailable,
    /// Data is lost or corrupt.
    DataLoss,
    /// The caller has no valid credentials.
    Unauthenticated,
    /// A code unknown to this crate.
    Other(u32),
}

const CODES: &[(Code, &str)] = &[
    (Code::Cancelled, "CANCELLED"),
    (Code::Unknown, "UNKNOWN"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::NotFound, "NOT_FOUND"),
    (Code::AlreadyExists, "ALREADY_EXISTS"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (Code::Aborted, "ABORTED"),
    (Code::OutOfRange, "OUT_OF_RANGE"),
    (Code::Unimplemented, "UNIMPLEMENTED"),
    (Code::Internal, "INTERNAL"),
    (Code::Unavailable, "UNAVAILABLE"),
    (Code::DataLoss, "DATA_LOSS"),
    (Code::Unauthenticated, "UNAUTHENTICATED"),
];

impl Code {
    pub(crate) fn from_raw(raw: sys::PJRT_Error_Code) -> Self {
        let index = (raw as usize).wrapping_sub(1);
        CODES.get(index).map_or(Self::Other(raw), |(code, _)| *code)
    }

    pub(crate) fn to_raw(self) -> sys::PJRT_Error_Code {
        if let Self::Other(raw) = self {
            return raw;
        }
        let index = CODES.iter().position(|(code, _)| *code == self);
        index.map_or(sys::PJRT_Error_Code_UNKNOWN, |index| index as u32 + 1)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CODES.iter().find(|(code, _)| code == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "status {}", self.to_raw()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_match_the_header() {
        assert_eq!(Code::from_raw(sys::PJRT_Error_Code_CANCELLED), Code::Cancelled);
        assert_eq!(Code::from_raw(sys::PJRT_Error_Code_INVALID_ARGUMENT), Code::InvalidArgument);
        assert_eq!(Code::from_raw(sys::PJRT_Error_Code_UNAUTHENTICATED), Code::Unauthenticated);
        assert_eq!(Code::from_raw(99), Code::Other(99));
        for raw in 1..=16 {
            assert_eq!(Code::from_raw(raw).to_raw(), raw);
        }
        assert_eq!(Code::Other(99).to_string(), "status 99");
    }
}
