//! [`Error`] and its parts: the kind, the operands, the user's line, and the help.

use super::loc::Loc;
use super::recompilation::SealedError;
use crate::core::types::aval::Aval;
use crate::core::units;
use std::fmt;
use std::path::PathBuf;

/// PJRT's status of exhausted memory, as in [`Error::Runtime`].
const RESOURCE_EXHAUSTED: &str = "RESOURCE_EXHAUSTED";

/// The result of a primitive's rule.
pub type RuleResult<T> = Result<T, RuleError>;

/// The kind of an operation's error. Printed in brackets: `error[shape]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpErrorKind {
    #[doc = include_str!("pages/shape.md")]
    Shape,
    #[doc = include_str!("pages/dtype.md")]
    DType,
    #[doc = include_str!("pages/value.md")]
    Value,
    #[doc = include_str!("pages/sharding.md")]
    Sharding,
    #[doc = include_str!("pages/collective.md")]
    Collective,
    #[doc = include_str!("pages/unsupported.md")]
    Unsupported,
    #[doc = include_str!("pages/runtime.md")]
    Runtime,
    #[doc = include_str!("pages/bug.md")]
    Bug,
}

impl OpErrorKind {
    /// Returns the word in brackets: `shape`. [`Error::manual`] has its manual page.
    pub fn code(self) -> &'static str {
        match self {
            OpErrorKind::Shape => "shape",
            OpErrorKind::DType => "dtype",
            OpErrorKind::Value => "value",
            OpErrorKind::Sharding => "sharding",
            OpErrorKind::Collective => "collective",
            OpErrorKind::Unsupported => "unsupported",
            OpErrorKind::Runtime => "runtime",
            OpErrorKind::Bug => "bug",
        }
    }
}

impl fmt::Display for OpErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The error of a rule. `bind` adds the operation's name, operands, location and scope path.
#[derive(Clone, Debug)]
pub struct RuleError {
    /// The kind of the error.
    pub kind: OpErrorKind,
    /// The problem, with the numbers. Lower case, no full stop.
    pub message: String,
    /// A line below the operands, for example how parameters pair their axes.
    pub note: Option<String>,
    /// The remedy, if it is certain.
    pub help: Option<String>,
}

impl RuleError {
    /// Creates an error of the given kind.
    pub fn new(kind: OpErrorKind, message: impl Into<String>) -> RuleError {
        RuleError { kind, message: message.into(), note: None, help: None }
    }

    /// Creates an error about shapes.
    pub fn shape(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::Shape, message)
    }

    /// Creates an error about a dtype.
    pub fn dtype(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::DType, message)
    }

    /// Creates an error about a parameter.
    pub fn value(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::Value, message)
    }

    /// Creates an error about shardings over explicit axes of a mesh.
    pub fn sharding(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::Sharding, message)
    }

    /// Creates an error about a missing rule.
    pub fn unsupported(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::Unsupported, message)
    }

    /// Creates the error of transposing a primitive that is not linear in any operand.
    pub fn not_linear(name: &str) -> RuleError {
        RuleError::new(
            OpErrorKind::Bug,
            format!("`{name}` is not linear in any operand, so it cannot be transposed"),
        )
    }

    /// Adds a line below the operands.
    pub fn note(mut self, note: impl Into<String>) -> RuleError {
        self.note = Some(note.into());
        self
    }

    /// Adds a remedy.
    pub fn help(mut self, help: impl Into<String>) -> RuleError {
        self.help = Some(help.into());
        self
    }
}

/// Returns a `Value` rule error unless the condition holds.
#[macro_export]
#[doc(hidden)]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition { return Err($crate::core::RuleError::value(format!($($message)+))); }
    };
}

/// Returns a `Shape` rule error unless the condition holds.
#[macro_export]
#[doc(hidden)]
macro_rules! ensure_shape {
    ($condition:expr, $($message:tt)+) => {
        if !$condition { return Err($crate::core::RuleError::shape(format!($($message)+))); }
    };
}

/// Returns a `DType` rule error unless the condition holds.
#[macro_export]
#[doc(hidden)]
macro_rules! ensure_dtype {
    ($condition:expr, $($message:tt)+) => {
        if !$condition { return Err($crate::core::RuleError::dtype(format!($($message)+))); }
    };
}

/// The error of an operation and its operands.
#[derive(Clone, Debug)]
pub struct OpError {
    /// The kind of the error.
    pub kind: OpErrorKind,
    /// The name of the operation.
    pub primitive: String,
    /// The problem.
    pub message: String,
    /// The operands: name and aval.
    pub operands: Vec<(String, Aval)>,
    /// A line below the operands, for example how parameters pair their axes.
    pub note: Option<String>,
    /// The location of the call.
    pub loc: Loc,
    /// The transforms that were tracing, outermost first: `jit(train_step)`, `grad(loss)`.
    pub path: Vec<String>,
    /// The remedy.
    pub help: Option<String>,
}

/// The error of using a traced array where it has no value, or outside of its trace.
#[derive(Clone, Debug)]
pub struct TracerError {
    /// The problem.
    pub message: String,
    /// The aval of the traced array.
    pub aval: Aval,
    /// The location of the use.
    pub loc: Loc,
    /// The transforms that were tracing, outermost first.
    pub path: Vec<String>,
    /// The remedy.
    pub help: String,
}

/// The error of trees that differ in structure or in the type of a leaf.
#[derive(Clone, Debug)]
pub struct TreeError {
    /// The leaf or node, as `$.blocks[3].weight`.
    pub path: String,
    /// The problem at this node.
    pub message: String,
    /// The location of the call.
    pub loc: Loc,
    /// The remedy.
    pub help: Option<String>,
}

/// The kind of an error between the processes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DistributedErrorKind {
    /// Settings are missing or wrong, or a function was called too early or too late.
    Setup,
    /// The coordinator rejected a request: wrong number of processes, duplicate id, too much data.
    Refused,
    /// The key does not exist.
    NotFound,
    /// A process did not respond in time.
    Timeout,
    /// A process died or is unreachable. Every later call fails with the same error.
    Lost,
    /// The processes called different functions, or passed different values.
    Mismatch,
}

/// An error of oxidax.
///
/// Inside traced closures operations *throw*: they unwind to the nearest boundary (`jit(f).call`,
/// `make_program`, `eval_shape`, [`catch`](crate::catch)), which returns this type.
#[non_exhaustive]
pub enum Error {
    /// An operation does not accept its operands. Each [`OpErrorKind`] is a code with a page of
    /// its own.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [3]);
    /// let error = make_program(|x: Array| x.reshape([4]), x).unwrap_err();
    /// assert!(error.to_string().starts_with("error[shape]: reshape: "));
    /// ```
    /// Why: shapes, dtypes or parameters do not match. Fix: change the operand at the reported
    /// line.
    Op(Box<OpError>),
    #[doc = include_str!("pages/tracer.md")]
    Tracer(Box<TracerError>),
    #[doc = include_str!("pages/tree.md")]
    Tree(Box<TreeError>),
    #[doc = include_str!("pages/compile.md")]
    Compile {
        /// The compiler's message.
        message: String,
        /// The file with the StableHLO text.
        dump: Option<PathBuf>,
        /// The location of the call.
        loc: Loc,
    },
    #[doc = include_str!("pages/memory.md")]
    TooLarge {
        /// The largest values, and the remedy.
        message: String,
        /// The required bytes per device, as rounded by the compiler.
        needed: u64,
        /// The available bytes per device.
        available: u64,
        /// The file with the StableHLO text.
        dump: Option<PathBuf>,
        /// The location of the call.
        loc: Loc,
    },
    #[doc = include_str!("pages/recompile.md")]
    Sealed(Box<SealedError>),
    #[doc = include_str!("pages/runtime.md")]
    Runtime {
        /// The operation in progress.
        doing: String,
        /// PJRT's status code, if known. `RESOURCE_EXHAUSTED` is out of memory.
        code: Option<String>,
        /// PJRT's message.
        message: String,
        /// The location of the call, or of the operation outside of traces.
        loc: Loc,
        /// The remedy.
        help: Option<Box<str>>,
    },
    #[doc = include_str!("pages/plugin.md")]
    Plugin(String),
    #[doc = include_str!("pages/io.md")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
        /// The line that added the source to an input pipeline. Unknown for other files.
        loc: Loc,
    },
    #[doc = include_str!("pages/checkpoint.md")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The problem and its leaf.
        message: String,
    },
    #[doc = include_str!("pages/data.md")]
    Data {
        /// The stage: `map`, `batch`, `resume`.
        doing: String,
        /// The record: its file, with byte offset or row.
        place: Option<String>,
        /// The problem.
        message: String,
        /// The line that added the stage to the pipeline. Unknown outside of pipelines.
        loc: Loc,
        /// The remedy.
        help: Option<String>,
    },
    #[doc = include_str!("pages/exchange.md")]
    Exchange {
        /// The file, the function or the operation.
        place: String,
        /// The problem.
        message: String,
        /// The location of the call.
        loc: Loc,
        /// The remedy.
        help: Option<String>,
    },
    #[doc = include_str!("pages/distributed.md")]
    Distributed {
        /// The kind of the error.
        kind: DistributedErrorKind,
        /// The operation in progress: ``barrier `checkpoint` ``.
        doing: String,
        /// The problem.
        message: String,
        /// The indices of the processes concerned.
        processes: Vec<usize>,
        /// The remedy.
        help: Option<String>,
    },
}

impl Error {
    /// Creates an error of an input pipeline, which adds the record and the line of the stage.
    pub fn data(doing: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Data {
            doing: doing.into(),
            place: None,
            message: message.into(),
            loc: Loc::UNKNOWN,
            help: None,
        }
    }

    /// Creates an error of a file, to which an input pipeline adds the line of the stage.
    ///
    /// ```
    /// use oxidax::Error;
    /// let error = Error::io("train.csv", std::io::Error::other("the disk is full"));
    /// assert_eq!(error.to_string(), "error[io]: train.csv: the disk is full");
    /// ```
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        Error::Io { path: path.into(), source, loc: Loc::UNKNOWN }
    }

    /// Creates an error about a function or a module of another framework.
    #[cfg(feature = "import")]
    pub(crate) fn exchange(place: impl Into<String>, message: impl Into<String>) -> Error {
        let (place, message) = (place.into(), message.into());
        Error::Exchange { place, message, loc: Loc::UNKNOWN, help: None }
    }

    /// Returns the word in brackets with which the error begins: `shape` of `error[shape]`.
    /// [`Error::manual`] has its manual page.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [3]);
    /// let error = make_program(|x: Array| x.reshape([4]), x).unwrap_err();
    /// assert!(error.to_string().starts_with(&format!("error[{}]", error.code())));
    /// ```
    pub fn code(&self) -> &'static str {
        match self {
            Error::Op(error) => error.kind.code(),
            Error::Tracer(_) => "tracer",
            Error::Tree(_) => "tree",
            Error::Sealed(_) => "recompile",
            Error::Compile { .. } => "compile",
            Error::TooLarge { .. } => "memory",
            Error::Runtime { .. } => "runtime",
            Error::Plugin(_) => "plugin",
            Error::Io { .. } => "io",
            Error::Checkpoint { .. } => "checkpoint",
            Error::Data { .. } => "data",
            Error::Exchange { .. } => "exchange",
            Error::Distributed { .. } => "distributed",
        }
    }

    /// Sets the location of an error that has none. Errors about processes have no location, and
    /// those about files and data have that of a pipeline's stage.
    pub(crate) fn at(mut self, caller: Loc) -> Error {
        match &mut self {
            Error::Op(error) => error.loc = error.loc.or(caller),
            Error::Tracer(error) => error.loc = error.loc.or(caller),
            Error::Tree(error) => error.loc = error.loc.or(caller),
            Error::Sealed(error) => {
                error.refused.call_site = error.refused.call_site.or(caller);
            }
            Error::Compile { loc, .. }
            | Error::TooLarge { loc, .. }
            | Error::Exchange { loc, .. }
            | Error::Runtime { loc, .. } => *loc = loc.or(caller),
            _ => {}
        }
        self
    }

    /// Returns true for an error of exhausted memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::Runtime { code: Some(code), .. } if code == RESOURCE_EXHAUSTED)
    }

    /// Adds to an error of exhausted memory the type and size of the array that was computed. The
    /// program that computes it runs after the call has returned, so its values are not known.
    pub(crate) fn computing(mut self, aval: &Aval) -> Error {
        let is_out_of_memory = self.is_out_of_memory();
        if let Error::Runtime { message, .. } = &mut self
            && is_out_of_memory
        {
            let size = units::size(aval.bytes() as u64);
            *message += &format!(
                "\n  the array is {aval}, {size}; `memory_analysis` of the compiled function's \
                 `report` tells what its whole program needs"
            );
        }
        self
    }

    /// Adds a line of help after that of the error, if errors of this kind have one.
    pub(crate) fn with_added_help(mut self, line: &str) -> Error {
        let added = |first: Option<&str>| match first {
            Some(first) => format!("{first}\n  help: {line}"),
            None => line.to_string(),
        };
        match &mut self {
            Error::Op(error) => error.help = Some(added(error.help.as_deref())),
            Error::Runtime { help, .. } => *help = Some(added(help.as_deref()).into()),
            _ => {}
        }
        self
    }

    /// Adds a remedy to an error of an operation, or about another framework. Other errors are
    /// unchanged.
    pub(crate) fn with_help(mut self, remedy: &str) -> Error {
        match &mut self {
            Error::Op(error) => error.help = Some(remedy.into()),
            Error::Exchange { help, .. } => *help = Some(remedy.into()),
            _ => {}
        }
        self
    }
}

fn trailer(
    f: &mut fmt::Formatter<'_>,
    loc: Loc,
    path: &[String],
    help: Option<&str>,
) -> fmt::Result {
    if let Some(location) = loc.get() {
        write!(f, "\n   --> {location}")?;
    }
    if !path.is_empty() {
        write!(f, "\n  while tracing: {}", path.join(" > "))?;
    }
    if let Some(help) = help {
        write!(f, "\n  help: {help}")?;
    }
    Ok(())
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}: {}", self.kind, self.primitive, self.message)?;
        for (name, aval) in &self.operands {
            write!(f, "\n  {name}: {aval}")?;
        }
        if let Some(note) = &self.note {
            write!(f, "\n  {note}")?;
        }
        trailer(f, self.loc, &self.path, self.help.as_deref())
    }
}

impl fmt::Display for TracerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[tracer]: {}\n  traced array: {}", self.message, self.aval)?;
        trailer(f, self.loc, &self.path, Some(&self.help))
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[tree]: {}: {}", self.path, self.message)?;
        trailer(f, self.loc, &[], self.help.as_deref())
    }
}

/// The message of `Display`: `fn main() -> Result<(), Error>` prints an error with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Op(error) => error.fmt(f),
            Error::Tracer(error) => error.fmt(f),
            Error::Tree(error) => error.fmt(f),
            Error::Sealed(error) => error.fmt(f),
            Error::Compile { message, dump, loc } | Error::TooLarge { message, dump, loc, .. } => {
                write!(f, "error[{}]: {message}", self.code())?;
                trailer(f, *loc, &[], None)?;
                match dump {
                    Some(dump) => write!(f, "\n  program: {}", dump.display()),
                    None => Ok(()),
                }
            }
            Error::Runtime { doing, code, message, loc, help } => {
                write!(f, "error[runtime]: {doing}: {message}")?;
                if let Some(code) = code {
                    write!(f, "\n  PJRT status: {code}")?;
                }
                trailer(f, *loc, &[], help.as_deref())
            }
            Error::Plugin(message) => write!(f, "error[plugin]: {message}"),
            Error::Io { path, source, loc } => {
                write!(f, "error[io]: {}: {source}", path.display())?;
                trailer(f, *loc, &[], None)
            }
            Error::Checkpoint { path, message } => {
                write!(f, "error[checkpoint]: {}: {message}", path.display())
            }
            Error::Data { doing, place, message, loc, help } => {
                write!(f, "error[data]: {doing}: ")?;
                if let Some(place) = place {
                    write!(f, "{place}: ")?;
                }
                f.write_str(message)?;
                trailer(f, *loc, &[], help.as_deref())
            }
            Error::Exchange { place, message, loc, help } => {
                write!(f, "error[exchange]: {place}: {message}")?;
                trailer(f, *loc, &[], help.as_deref())
            }
            Error::Distributed { doing, message, help, .. } => {
                write!(f, "error[distributed]: {doing}: {message}")?;
                trailer(f, Loc::UNKNOWN, &[], help.as_deref())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
