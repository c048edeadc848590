//! [`Recompilation`]: why a compiled function was compiled again.

use super::loc::Loc;
use crate::core::mesh::memory_kind::MemoryKind;
use crate::core::types::dtype::DType;
use std::fmt;
use std::time::Duration;

/// A compilation of a function that had been compiled before, and what had changed.
///
/// The causes are the differences to the most similar earlier signature. Paths of leaves start at
/// `$`, the arguments: `$[1].images` is the field `images` of the second argument.
///
/// ```
/// use oxidax::jit::RecompilationCause;
/// use oxidax::prelude::*;
/// let sum = jit(|batch: (Array, Array)| batch.0.sum() + batch.1.sum());
/// sum.call((ones([32, 8]), ones([32])))?;
/// sum.call((ones([24, 8]), ones([32])))?;
/// let again = &sum.recompilations()[0];
/// let leaf = "$[0][0]".to_string();
/// assert_eq!(again.causes, [RecompilationCause::Axis { leaf, axis: 0, old: 32, new: 24 }]);
/// println!("{again}"); // … was compiled again: $[0][0]: axis 0 has size 24, was 32 …
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recompilation {
    /// The name of the function.
    pub function: String,
    /// The line of the call, or of `compile_ahead`.
    pub call_site: Loc,
    /// The line that created the `Jit`.
    pub created: Loc,
    /// The line that compiled the earlier signature.
    pub earlier: Loc,
    /// The differences to the earlier signature, at most [`Recompilation::MAX_CAUSES`].
    pub causes: Vec<RecompilationCause>,
    /// The number of further differences.
    pub omitted: usize,
    /// The number of programs that the `Jit` had compiled, with this one.
    pub compilations: u64,
    /// True if `compile_ahead` compiled it, or `compile_ahead_all`.
    pub is_ahead: bool,
    /// Time spent tracing, lowering and compiling. Zero if the compilation was refused.
    pub duration: Duration,
}

/// One reason of a [`Recompilation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RecompilationCause {
    /// An axis of a leaf has another size.
    Axis {
        /// The path of the leaf.
        leaf: String,
        /// The axis.
        axis: usize,
        /// The earlier size.
        old: usize,
        /// The new size.
        new: usize,
    },
    /// A leaf has another number of axes.
    Rank {
        /// The path of the leaf.
        leaf: String,
        /// The earlier axis sizes.
        old: Vec<usize>,
        /// The new axis sizes.
        new: Vec<usize>,
    },
    /// A leaf has another dtype.
    DType {
        /// The path of the leaf.
        leaf: String,
        /// The earlier dtype.
        old: DType,
        /// The new dtype.
        new: DType,
    },
    /// A leaf is weakly typed, as Rust numbers are, and was not, or the reverse.
    WeakType {
        /// The path of the leaf.
        leaf: String,
        /// True if it is weakly typed now.
        is_weak: bool,
    },
    /// A leaf is in another memory.
    Memory {
        /// The path of the leaf.
        leaf: String,
        /// The earlier memory.
        old: MemoryKind,
        /// The new memory.
        new: MemoryKind,
    },
    /// A leaf is committed to another device or sharding.
    Placement {
        /// The path of the leaf.
        leaf: String,
        /// The earlier placement; `None` if it was not committed.
        old: Option<String>,
        /// The new placement.
        new: Option<String>,
    },
    /// A static value has changed.
    Static {
        /// The path of the value.
        path: String,
        /// The earlier value, as `Debug` prints it.
        old: String,
        /// The new value.
        new: String,
    },
    /// The arguments have another structure.
    Structure {
        /// The first path that differs.
        path: String,
        /// The earlier node: `` `None` ``, `3 children`, `an array`.
        old: String,
        /// The new node.
        new: String,
        /// Leaves that were not there before.
        added: Vec<String>,
        /// Leaves that were there before, and are not now.
        removed: Vec<String>,
    },
    /// A setting of a scope, of the process or of the `Jit` has changed.
    Setting {
        /// The setting: `matmul precision`, `mesh`, `compiler option xla_cpu_enable_fast_math`.
        name: String,
        /// The earlier value.
        old: String,
        /// The new value.
        new: String,
    },
    /// An equal signature was compiled before, and dropped because the cache was full.
    Evicted {
        /// The number of signatures that are kept: `cache_size`.
        limit: usize,
    },
    /// Another `Jit` of the same line compiled an equal signature: it is created in a loop.
    CreatedAgain {
        /// The line that creates it.
        created: Loc,
        /// The number of `Jit`s of this line that compiled the signature.
        times: u64,
    },
    /// The functions of two `Jit`s of one line captured different arrays.
    CapturedArray {
        /// The index of the captured array, in the order of use.
        index: usize,
        /// The type of the earlier array; `None` if there was none.
        old: Option<String>,
        /// The type of the new array.
        new: Option<String>,
    },
    /// The functions of two `Jit`s of one line captured different numbers, or do different things.
    CapturedValue {
        /// The line of the first operation that differs. Of long programs, the first 512 are
        /// compared.
        at: Loc,
        /// The earlier operation; `None` if there was none.
        old: Option<String>,
        /// The new operation.
        new: Option<String>,
    },
}

impl Recompilation {
    /// The largest number of causes that are listed.
    pub const MAX_CAUSES: usize = 16;

    /// Returns the causes, as one line of text.
    pub fn reason(&self) -> String {
        let mut reason = self.causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if self.omitted > 0 {
            reason += &format!("; and {} more differences", self.omitted);
        }
        reason
    }

    /// Returns the remedies of the causes, each once.
    pub fn remedies(&self) -> Vec<&'static str> {
        let mut remedies = Vec::new();
        for cause in &self.causes {
            if !remedies.contains(&cause.remedy()) {
                remedies.push(cause.remedy());
            }
        }
        remedies
    }

    /// Writes the lines below the first.
    fn fmt_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.call_site.get() {
            write!(f, "\n   --> {at}")?;
        }
        if let Some(at) = self.earlier.get() {
            write!(f, "\n  compared with the program that {at} compiled")?;
        }
        if let Some(at) = self.created.get() {
            write!(f, "\n  the function is compiled by `jit` at {at}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Recompilation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` was compiled again: {}", self.function, self.reason())?;
        self.fmt_details(f)?;
        self.remedies().iter().try_for_each(|remedy| write!(f, "\n  help: {remedy}"))
    }
}

impl RecompilationCause {
    /// Returns what to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            RecompilationCause::Axis { .. } => {
                "pad the axis to one of a few sizes, as `jit::Buckets` does, or pass the sizes to \
                 `compile_ahead_all`"
            }
            RecompilationCause::Rank { .. } => "reshape the leaf before the call",
            RecompilationCause::DType { .. } => "convert the leaf with `astype` before the call",
            RecompilationCause::WeakType { .. } => {
                "pass either a Rust number at every call, or an array"
            }
            RecompilationCause::Memory { .. } | RecompilationCause::Placement { .. } => {
                "place the leaf once with `device_put`, before the first call"
            }
            RecompilationCause::Static { .. } => {
                "every static value has its own program; pass what varies as an `Array`"
            }
            RecompilationCause::Structure { .. } => {
                "pass the same structure at every call, for example zeros instead of `None`"
            }
            RecompilationCause::Setting { .. } => {
                "make all calls with the same settings: inside one scope, or set for the process"
            }
            RecompilationCause::Evicted { .. } => "raise `cache_size`",
            RecompilationCause::CreatedAgain { .. } => {
                "create it once, before the loop, and call that"
            }
            RecompilationCause::CapturedArray { .. } | RecompilationCause::CapturedValue { .. } => {
                "pass what the function captures as an argument"
            }
        }
    }
}

/// A value that may be missing, as text.
fn or_nothing<'a>(value: &'a Option<String>, nothing: &'a str) -> &'a str {
    value.as_deref().unwrap_or(nothing)
}

impl fmt::Display for RecompilationCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecompilationCause::Axis { leaf, axis, old, new } => {
                write!(f, "{leaf}: axis {axis} has size {new}, was {old}")
            }
            RecompilationCause::Rank { leaf, old, new } => {
                write!(f, "{leaf}: the shape is {new:?}, was {old:?}")
            }
            RecompilationCause::DType { leaf, old, new } => {
                write!(f, "{leaf}: the dtype is {new}, was {old}")
            }
            RecompilationCause::WeakType { leaf, is_weak } => {
                let [old, new] = match is_weak {
                    true => ["strongly", "weakly"],
                    false => ["weakly", "strongly"],
                };
                write!(f, "{leaf}: {new} typed, was {old} typed")
            }
            RecompilationCause::Memory { leaf, old, new } => {
                write!(f, "{leaf}: the memory is {new}, was {old}")
            }
            RecompilationCause::Placement { leaf, old, new } => {
                let [old, new] = [old, new].map(|value| or_nothing(value, "not committed"));
                write!(f, "{leaf}: the placement is {new}, was {old}")
            }
            RecompilationCause::Static { path, old, new } => {
                write!(f, "{path}: the static value is {new}, was {old}")
            }
            RecompilationCause::Structure { path, old, new, added, removed } => {
                write!(f, "{path}: the structure is {new}, was {old}")?;
                for (what, leaves) in [("new leaves", added), ("removed leaves", removed)] {
                    let shown: Vec<&str> = leaves.iter().map(String::as_str).take(4).collect();
                    if let Some(rest) = leaves.len().checked_sub(shown.len())
                        && !leaves.is_empty()
                    {
                        write!(f, ", {what} {}", shown.join(", "))?;
                        if rest > 0 {
                            write!(f, " and {rest} more")?;
                        }
                    }
                }
                Ok(())
            }
            RecompilationCause::Setting { name, old, new } => {
                write!(f, "{name}: {new}, was {old}")
            }
            RecompilationCause::Evicted { limit } => write!(
                f,
                "this signature was compiled before and dropped, because {limit} are kept"
            ),
            RecompilationCause::CreatedAgain { created, times } => {
                write!(f, "created in a loop at {created}: {times} of them compiled this signature")
            }
            RecompilationCause::CapturedArray { index, old, new } => {
                let [old, new] = [old, new].map(|value| or_nothing(value, "nothing"));
                write!(f, "captured array {index} is another one: {new}, was {old}")
            }
            RecompilationCause::CapturedValue { old: None, new: None, .. } => {
                f.write_str("captured values have changed the program")
            }
            RecompilationCause::CapturedValue { at, old, new } => {
                let [old, new] = [old, new].map(|value| or_nothing(value, "nothing"));
                write!(f, "a captured value has changed: {new}, was {old}")?;
                match at.get() {
                    Some(at) => write!(f, " (at {at})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The rule of a `Jit` that a compilation would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileLimit {
    /// `Jit::sealed`: no compilation after the first.
    Sealed,
    /// `Jit::max_specializations`: at most so many signatures.
    MaxSpecializations(usize),
}

/// The error of a call that would compile a function again, against its [`CompileLimit`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SealedError {
    /// The rule.
    pub limit: CompileLimit,
    /// The compilation that was refused.
    pub refused: Recompilation,
}

impl SealedError {
    /// Creates the error.
    pub(crate) fn new(limit: CompileLimit, refused: Recompilation) -> SealedError {
        SealedError { limit, refused }
    }
}

impl fmt::Display for SealedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = &self.refused;
        let compiled = refused.compilations.saturating_sub(1);
        write!(f, "error[recompile]: {}: ", refused.function)?;
        match self.limit {
            CompileLimit::Sealed => write!(
                f,
                "it is sealed, {compiled} programs were compiled, and this call needs another: {}",
                refused.reason()
            )?,
            CompileLimit::MaxSpecializations(max) => write!(
                f,
                "this call needs signature {} of at most {max}: {}",
                max.saturating_add(1),
                refused.reason()
            )?,
        }
        refused.fmt_details(f)?;
        refused.remedies().iter().try_for_each(|remedy| write!(f, "\n  help: {remedy}"))?;
        f.write_str(match self.limit {
            CompileLimit::Sealed => {
                "\n  help: `compile_ahead` compiles this signature in spite of `sealed`"
            }
            CompileLimit::MaxSpecializations(_) => {
                "\n  help: if the function has more signatures, raise `max_specializations`"
            }
        })
    }
}
