//! [`ProfileEvent`]: one piece of work that a profile recorded.

use crate::core::error::Loc;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The work that a [`ProfileEvent`] measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventKind {
    /// A step of a loop, marked with [`StepTraceAnnotation`](crate::profile::StepTraceAnnotation).
    Step,
    /// Work marked with [`TraceAnnotation`](crate::profile::TraceAnnotation).
    Scope,
    /// A call of a compiled function, with everything that it needs.
    Call,
    /// An operation outside of traces.
    Eager,
    /// Running a function to record its program.
    Trace,
    /// Writing a program as StableHLO.
    Lower,
    /// Compiling a program, or loading it from the disk cache.
    Compile,
    /// Handing a program and its arguments to the device. The device runs it later.
    Dispatch,
    /// Waiting for the device, without reading a result.
    Wait,
    /// Copying from the host to a device.
    ToDevice,
    /// Reading an array: waiting until it is computed, and copying it to the host.
    ToHost,
    /// Copying between devices, or between memories of a device.
    Copy,
    /// Waiting for the next item of a data pipeline.
    DataWait,
    /// Work of a stage of a data pipeline.
    Data,
    /// A closure of the host that a program calls.
    Callback,
    /// Saving or restoring a checkpoint.
    Checkpoint,
    /// An operation of a compiled program, in the profile of a
    /// [`LineProfile`](crate::profile::LineProfile).
    Operation,
}

impl EventKind {
    /// Returns the name of the kind, as profiles show it.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Step => "step",
            EventKind::Scope => "scope",
            EventKind::Call => "call",
            EventKind::Eager => "eager",
            EventKind::Trace => "trace",
            EventKind::Lower => "lower",
            EventKind::Compile => "compile",
            EventKind::Dispatch => "dispatch",
            EventKind::Wait => "wait",
            EventKind::ToDevice => "to_device",
            EventKind::ToHost => "to_host",
            EventKind::Copy => "copy",
            EventKind::DataWait => "data_wait",
            EventKind::Data => "data",
            EventKind::Callback => "callback",
            EventKind::Checkpoint => "checkpoint",
            EventKind::Operation => "operation",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a [`ProfileEvent`]: a constant, or text that several events share.
#[derive(Clone, Debug, Eq)]
pub enum EventName {
    /// A constant, which costs nothing.
    Static(&'static str),
    /// Shared text.
    Shared(Arc<str>),
}

impl EventName {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match self {
            EventName::Static(text) => text,
            EventName::Shared(text) => text,
        }
    }
}

impl PartialEq for EventName {
    fn eq(&self, other: &EventName) -> bool {
        self.as_str() == other.as_str()
    }
}

impl std::hash::Hash for EventName {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&'static str> for EventName {
    fn from(text: &'static str) -> EventName {
        EventName::Static(text)
    }
}

impl From<String> for EventName {
    fn from(text: String) -> EventName {
        EventName::Shared(text.into())
    }
}

impl From<Arc<str>> for EventName {
    fn from(text: Arc<str>) -> EventName {
        EventName::Shared(text)
    }
}

/// The name and the arguments of work that begins.
pub(crate) struct Details {
    pub(super) name: EventName,
    pub(super) arguments: Vec<EventArgument>,
}

impl Details {
    /// Returns the name with an argument.
    pub(crate) fn new(
        name: impl Into<EventName>,
        argument: &'static str,
        value: impl Into<ArgumentValue>,
    ) -> Details {
        Details { name: name.into(), arguments: vec![(argument, value.into())] }
    }
}

impl<N: Into<EventName>> From<N> for Details {
    fn from(name: N) -> Details {
        Details { name: name.into(), arguments: Vec::new() }
    }
}

/// A named value of a [`ProfileEvent`].
pub type EventArgument = (&'static str, ArgumentValue);

/// A value of an argument of a [`ProfileEvent`], such as a number of bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentValue {
    /// A signed number.
    Int(i64),
    /// A count.
    Count(u64),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(EventName),
}

impl fmt::Display for ArgumentValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentValue::Int(value) => value.fmt(f),
            ArgumentValue::Count(value) => value.fmt(f),
            ArgumentValue::Float(value) => value.fmt(f),
            ArgumentValue::Bool(value) => value.fmt(f),
            ArgumentValue::Text(text) => text.fmt(f),
        }
    }
}

/// Conversions from the types that have a lossless variant.
macro_rules! values {
    ($($type:ty => $variant:ident($($into:tt)*),)*) => { $(
        impl From<$type> for ArgumentValue {
            fn from(value: $type) -> ArgumentValue {
                ArgumentValue::$variant($($into)*(value))
            }
        }
    )* };
}

values! {
    i32 => Int(i64::from),
    i64 => Int(std::convert::identity),
    u32 => Count(u64::from),
    u64 => Count(std::convert::identity),
    f32 => Float(f64::from),
    f64 => Float(std::convert::identity),
    bool => Bool(std::convert::identity),
    &'static str => Text(EventName::from),
    String => Text(EventName::from),
    EventName => Text(std::convert::identity),
}

impl From<usize> for ArgumentValue {
    fn from(value: usize) -> ArgumentValue {
        ArgumentValue::Count(u64::try_from(value).unwrap_or(u64::MAX))
    }
}

/// One piece of work on one thread, as a profile recorded it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProfileEvent {
    /// The kind of work.
    pub kind: EventKind,
    /// The function, operation or stage that the work is for, or the name that the program gave it.
    /// It may be empty.
    pub name: EventName,
    /// The line of the program that the work is for, if it is known.
    pub loc: Loc,
    /// Nanoseconds from the start of the profile to the start of the work.
    pub start_nanos: u64,
    /// Nanoseconds that the work took.
    pub duration_nanos: u64,
    /// Further facts, such as the number of bytes of a copy.
    pub arguments: Vec<EventArgument>,
}

impl ProfileEvent {
    /// Returns the name that is displayed: that of a step, scope or operation, and otherwise the
    /// kind of work and what it is for.
    ///
    /// ```
    /// use oxidax::profile::{ProfileSession, TraceAnnotation};
    /// use oxidax::prelude::*;
    /// let session = ProfileSession::start()?;
    /// TraceAnnotation::new("load").scope(|| ());
    /// jit(|x: Array| sin(&x)).name("sine").lower(Aval::new(DType::F32, [3]))?;
    /// let profile = session.stop();
    /// let titles: Vec<String> = profile.events().map(|event| event.title()).collect();
    /// assert_eq!(titles, ["load", "trace jit(sine)"]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn title(&self) -> String {
        match (self.kind, self.name.as_str()) {
            (EventKind::Step | EventKind::Scope | EventKind::Operation, name) => name.to_owned(),
            (kind, "") => kind.name().to_owned(),
            (kind, name) => format!("{kind} {name}"),
        }
    }

    /// Returns the time from the start of the profile to the start of the work.
    pub fn start(&self) -> Duration {
        Duration::from_nanos(self.start_nanos)
    }

    /// Returns the time that the work took.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_nanos)
    }

    /// Returns the nanoseconds from the start of the profile to the end of the work.
    pub fn end_nanos(&self) -> u64 {
        self.start_nanos.saturating_add(self.duration_nanos)
    }

    /// Returns the value of an argument.
    pub fn argument(&self, name: &str) -> Option<&ArgumentValue> {
        self.arguments.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Returns an argument that is a count, such as `bytes` or `step_num`.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.argument(name)? {
            ArgumentValue::Count(value) => Some(*value),
            ArgumentValue::Int(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_88_bytes() {
        // docs/profiling.md states it.
        assert_eq!(size_of::<ProfileEvent>(), 88);
    }

    #[test]
    fn equal_names_are_equal_whether_shared_or_not() {
        assert_eq!(EventName::from("a"), EventName::from("a".to_owned()));
        assert_ne!(EventName::from("a"), EventName::from("b"));
    }
}
