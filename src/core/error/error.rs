//! Errors: what went wrong, with the numbers, at which line of the user's, and what to do.

use super::loc::Loc;
use crate::core::types::aval::Aval;
use std::fmt;
use std::path::PathBuf;

/// The result of a primitive's rule.
pub type RuleResult<T> = Result<T, RuleError>;

/// What sort of mistake an operation met. Printed in brackets: `error[shape]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpErrorKind {
    /// Shapes, ranks or axes do not fit.
    Shape,
    /// A dtype is not one that the operation takes.
    DType,
    /// A parameter is out of its range.
    Value,
    /// The operation has no such rule: the derivative of a sort key, say.
    Unsupported,
    /// The program was refused or failed on the device.
    Runtime,
    /// oxidax broke a promise of its own.
    Bug,
}

impl fmt::Display for OpErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpErrorKind::Shape => "shape",
            OpErrorKind::DType => "dtype",
            OpErrorKind::Value => "value",
            OpErrorKind::Unsupported => "unsupported",
            OpErrorKind::Runtime => "runtime",
            OpErrorKind::Bug => "bug",
        })
    }
}

/// What a rule's author says when operands do not fit; `bind` adds name, operands, place and path.
#[derive(Clone, Debug)]
pub struct RuleError {
    /// What sort of mistake.
    pub kind: OpErrorKind,
    /// What is wrong, with the numbers: lower case, no full stop.
    pub message: String,
    /// What belongs below the operands: how parameters pair them, say.
    pub note: Option<String>,
    /// The remedy, only if it is certain.
    pub help: Option<String>,
}

impl RuleError {
    /// An error of the given kind.
    pub fn new(kind: OpErrorKind, message: impl Into<String>) -> RuleError {
        RuleError { kind, message: message.into(), note: None, help: None }
    }

    /// Shapes do not fit.
    pub fn shape(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::Shape, message)
    }

    /// A dtype does not fit.
    pub fn dtype(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::DType, message)
    }

    /// A parameter does not fit.
    pub fn value(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::Value, message)
    }

    /// There is no such rule.
    pub fn unsupported(message: impl Into<String>) -> RuleError {
        RuleError::new(OpErrorKind::Unsupported, message)
    }

    /// The answer of a primitive that is linear in none of its operands.
    pub fn not_linear(name: &str) -> RuleError {
        RuleError::new(
            OpErrorKind::Bug,
            format!("`{name}` is not linear in any operand, so it cannot be transposed"),
        )
    }

    /// The same with a line below the operands.
    pub fn note(mut self, note: impl Into<String>) -> RuleError {
        self.note = Some(note.into());
        self
    }

    /// The same with a remedy.
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

/// An operation that could not be applied to its operands.
#[derive(Clone, Debug)]
pub struct OpError {
    /// What sort of mistake.
    pub kind: OpErrorKind,
    /// The operation's name.
    pub primitive: String,
    /// What is wrong.
    pub message: String,
    /// The operands' avals, each with its name.
    pub operands: Vec<(String, Aval)>,
    /// What belongs below the operands: how parameters pair them, say.
    pub note: Option<String>,
    /// Where the user called the operation.
    pub location: Loc,
    /// The transforms that were being traced, outermost first: `jit(train_step)`, `grad(loss)`.
    pub path: Vec<String>,
    /// What to do about it.
    pub help: Option<String>,
}

/// A traced array used where it has no value, or outside the trace that made it.
#[derive(Clone, Debug)]
pub struct TracerError {
    /// What was asked of the traced array.
    pub message: String,
    /// The traced array's aval.
    pub aval: Aval,
    /// Where.
    pub location: Loc,
    /// The transforms that were being traced, outermost first.
    pub path: Vec<String>,
    /// What to do about it.
    pub help: String,
}

/// Trees that should be alike and are not.
#[derive(Clone, Debug)]
pub struct TreeError {
    /// The leaf or node, as `$.blocks[3].weight`.
    pub path: String,
    /// What is wrong there.
    pub message: String,
    /// Where the trees met, if it was in a call of the user's.
    pub location: Loc,
    /// What to do about it.
    pub help: Option<String>,
}

/// What went wrong between the processes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DistributedErrorKind {
    /// Settings are missing or wrong, or a function was called too early or too late.
    Setup,
    /// The coordinator refuses: another number of processes, an id that is taken, too much data.
    Refused,
    /// There is no such key.
    NotFound,
    /// Somebody did not come in time.
    Timeout,
    /// A process died, or cannot be reached any more. Every later call fails in the same way.
    Lost,
    /// The processes called different functions, or the same with values that are unlike.
    Mismatch,
}

/// Any error of oxidax.
///
/// Inside traced closures operations *throw*: they unwind to the nearest boundary (`jit(f).call`,
/// `make_program`, `eval_shape`, [`catch`](crate::catch)), which returns this type.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An operation does not fit its operands.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let error = make_program(|x: Array| x.reshape([4]), Aval::new(DType::F32, [3])).unwrap_err();
    /// assert!(error.to_string().starts_with("error[shape]: reshape: "));
    /// ```
    /// Why: the numbers say. Fix: change the operand named at the user's line, not the operation.
    Op(Box<OpError>),
    /// A traced array was asked for its elements, or used after its trace had ended.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let error = make_program(
    ///     |x: Array| if x.item::<f32>().unwrap() > 0.0 { x.clone() } else { -&x },
    ///     Aval::new(DType::F32, []),
    /// )
    /// .unwrap_err();
    /// assert!(error.to_string().contains("where_"));
    /// ```
    /// Why: while tracing there are no elements yet. Fix: choose with `where_` or `cond`, make the value a
    /// static argument, or return it from the traced function.
    Tracer(Box<TracerError>),
    /// Two trees differ in structure, or a tree's leaf in type.
    ///
    /// Why: the message names the first place where they part. Fix: build both the same way.
    Tree(Box<TreeError>),
    /// The compiler refused a program. The text of the program was kept at `dump`.
    Compile {
        /// The compiler's message.
        message: String,
        /// The file that holds the program's StableHLO.
        dump: Option<PathBuf>,
    },
    /// A program does not fit into the memory of the devices that it was compiled for.
    ///
    /// Why: the message says by how much, and which values, made on which lines, fill the memory. Fix: what its help
    /// says; [`doctor::fit`](crate::doctor::fit) looks for a batch and a `remat` policy that fit.
    TooLarge {
        /// What fills the memory, and what to do.
        message: String,
        /// Bytes that it needs on a device, as the compiler rounds them.
        needed: u64,
        /// Bytes that a device has.
        available: u64,
        /// The file that holds the program's StableHLO.
        dump: Option<PathBuf>,
    },
    /// The plugin reported a failure while copying or executing.
    Runtime {
        /// What oxidax was doing.
        doing: String,
        /// PJRT's status code, if the plugin gave one: `RESOURCE_EXHAUSTED` is out of memory.
        code: Option<String>,
        /// PJRT's message.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// No usable plugin: not found, not a plugin, too old, or not to be installed.
    Plugin(String),
    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A checkpoint does not fit the tree that it is loaded into, or is damaged; or its folder is in use.
    ///
    /// Why: the message names each leaf, what was expected and what was found, or the bytes that were changed. Fix:
    /// load into the tree that was saved, or by rules ([`checkpoint::open`](crate::checkpoint::open)); of a damaged
    /// one, use the one before, as [`Folder`](crate::checkpoint::Folder) does.
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong, and with which leaf.
        message: String,
    },
    /// An input pipeline could not give its next item.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// use oxidax::Error;
    /// let halves = Stream::new([2, 3].map(Ok)).map(|number: u32| match number % 2 {
    ///     0 => Ok(number / 2),
    ///     _ => Err(Error::data("half", format!("{number} is odd"))),
    /// });
    /// let error = halves.collect::<Result<Vec<_>, _>>().unwrap_err();
    /// assert_eq!(error.to_string(), "error[data]: half: 3 is odd");
    /// ```
    /// Why: a record is not what a closure expects, a closure panicked, or a position belongs to another
    /// pipeline. Fix: the place names the record; `on_error` passes over such records and counts them.
    Data {
        /// What was being done: `map`, `batch`, `resume`.
        doing: String,
        /// The record: its file, and the byte or row there.
        place: Option<String>,
        /// What is wrong.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// The processes of a program did not come together (feature `distributed`), or one of them died.
    ///
    /// Why: the message names the processes, each with its host and process number. Fix: look into what these wrote
    /// last; `docs/several-hosts.md` says how processes are started.
    Distributed {
        /// What sort of mistake.
        kind: DistributedErrorKind,
        /// What was being done: ``barrier `checkpoint` ``.
        doing: String,
        /// What is wrong.
        message: String,
        /// The processes that it is about, by index.
        processes: Vec<usize>,
        /// What to do about it.
        help: Option<String>,
    },
}

impl Error {
    /// An error of an input pipeline; the pipeline adds which record it was.
    pub fn data(doing: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Data { doing: doing.into(), place: None, message: message.into(), help: None }
    }

    /// The same with a remedy, if it is an error of an operation.
    pub(crate) fn with_help(mut self, help: &str) -> Error {
        if let Error::Op(error) = &mut self {
            error.help = Some(help.into());
        }
        self
    }
}

fn trailer(
    f: &mut fmt::Formatter<'_>,
    location: Loc,
    path: &[String],
    help: Option<&str>,
) -> fmt::Result {
    if let Some(location) = location {
        write!(f, "\n   --> {}:{}:{}", location.file(), location.line(), location.column())?;
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
        trailer(f, self.location, &self.path, self.help.as_deref())
    }
}

impl fmt::Display for TracerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[tracer]: {}\n  traced array: {}", self.message, self.aval)?;
        trailer(f, self.location, &self.path, Some(&self.help))
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[tree]: {}: {}", self.path, self.message)?;
        trailer(f, self.location, &[], self.help.as_deref())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Op(error) => error.fmt(f),
            Error::Tracer(error) => error.fmt(f),
            Error::Tree(error) => error.fmt(f),
            Error::Compile { message, dump } | Error::TooLarge { message, dump, .. } => {
                let what = if matches!(self, Error::Compile { .. }) { "compile" } else { "memory" };
                write!(f, "error[{what}]: {message}")?;
                match dump {
                    Some(dump) => write!(f, "\n  program: {}", dump.display()),
                    None => Ok(()),
                }
            }
            Error::Runtime { doing, code, message, help } => {
                write!(f, "error[runtime]: {doing}: {message}")?;
                if let Some(code) = code {
                    write!(f, "\n  PJRT status: {code}")?;
                }
                trailer(f, None, &[], help.as_deref())
            }
            Error::Plugin(message) => write!(f, "error[plugin]: {message}"),
            Error::Io { path, source } => write!(f, "error[io]: {}: {source}", path.display()),
            Error::Checkpoint { path, message } => {
                write!(f, "error[checkpoint]: {}: {message}", path.display())
            }
            Error::Data { doing, place, message, help } => {
                write!(f, "error[data]: {doing}: ")?;
                if let Some(place) = place {
                    write!(f, "{place}: ")?;
                }
                f.write_str(message)?;
                trailer(f, None, &[], help.as_deref())
            }
            Error::Distributed { doing, message, help, .. } => {
                write!(f, "error[distributed]: {doing}: {message}")?;
                trailer(f, None, &[], help.as_deref())
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
