//! [`TraceAnnotation`] and [`StepTraceAnnotation`]: guards that name work of the program.

use crate::core::Loc;
use crate::core::spans::{ArgumentValue, Details, EventKind, EventName, Span};

/// Marks work in profiles, from its creation until it is dropped.
///
/// Without a profile, it costs one load of an atomic number. It belongs to the thread that created
/// it; guards of one thread end in reverse order of their creation, as local variables do.
///
/// ```
/// use oxidax::profile::{ProfileSession, TraceAnnotation};
/// let session = ProfileSession::start()?;
/// {
///     let _load = TraceAnnotation::new("load batch").with("rows", 32_u64);
///     // … the work …
/// }
/// let sum: u32 = TraceAnnotation::new("sum").scope(|| (0..10).sum());
/// assert_eq!(sum, 45);
/// let profile = session.stop();
/// let names: Vec<&str> = profile.events().map(|event| event.name.as_str()).collect();
/// assert_eq!(names, ["load batch", "sum"]);
/// assert_eq!(profile.events().next().and_then(|event| event.count("rows")), Some(32));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "annotate_function")]
#[must_use = "the work is marked until this is dropped; name it `_load`, not `_`"]
pub struct TraceAnnotation(Span);

impl TraceAnnotation {
    /// Begins to mark work under a name.
    #[inline]
    #[track_caller]
    pub fn new(name: impl Into<EventName>) -> TraceAnnotation {
        TraceAnnotation(Span::begin(EventKind::Scope, || name))
    }

    /// Begins to mark work of another kind, for the line `loc`.
    ///
    /// A data pipeline of your own marks the time in which the program waits for it, so that XProf
    /// counts the time as waiting for data:
    ///
    /// ```
    /// use oxidax::core::Loc;
    /// use oxidax::profile::{EventKind, TraceAnnotation};
    /// let wait = TraceAnnotation::of_kind(EventKind::DataWait, Loc::caller(), "my loader");
    /// let batch = wait.scope(|| [0.0_f32; 8]);
    /// assert_eq!(batch.len(), 8);
    /// ```
    #[inline]
    pub fn of_kind(kind: EventKind, loc: Loc, name: impl Into<EventName>) -> TraceAnnotation {
        TraceAnnotation(Span::at(kind, loc, || name))
    }

    /// Adds an argument, which profiles show beside the name.
    pub fn with(self, name: &'static str, value: impl Into<ArgumentValue>) -> TraceAnnotation {
        TraceAnnotation(self.0.with(name, value))
    }

    /// Marks the work of a closure and returns its result.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        let _annotation = self;
        f()
    }
}

/// Marks one step of a training or evaluation loop, from its creation until it is dropped.
///
/// XProf divides a profile into steps by these marks: it shows the time of each, and how much of it
/// the program waited for data or the device. It expects a name that begins with `train` or `test`.
/// The cost is that of [`TraceAnnotation`].
///
/// ```
/// use oxidax::profile::{EventKind, ProfileSession, StepTraceAnnotation};
/// let session = ProfileSession::start()?;
/// for index in 0..3 {
///     let _step = StepTraceAnnotation::new("train", index);
/// }
/// let profile = session.stop();
/// let steps = profile.events().filter(|event| event.kind == EventKind::Step);
/// assert_eq!(steps.filter_map(|step| step.count("step_num")).collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[must_use = "the step is marked until this is dropped; name it `_step`, not `_`"]
pub struct StepTraceAnnotation(TraceAnnotation);

impl StepTraceAnnotation {
    /// Begins to mark the step with this number.
    #[inline]
    #[track_caller]
    pub fn new(name: impl Into<EventName>, step_num: u64) -> StepTraceAnnotation {
        let span = Span::begin(EventKind::Step, || Details::new(name, "step_num", step_num));
        StepTraceAnnotation(TraceAnnotation(span))
    }

    /// Adds an argument, which profiles show beside the name.
    pub fn with(self, name: &'static str, value: impl Into<ArgumentValue>) -> StepTraceAnnotation {
        StepTraceAnnotation(self.0.with(name, value))
    }

    /// Marks the work of a closure and returns its result.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        self.0.scope(f)
    }
}
