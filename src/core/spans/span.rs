//! [`Span`]: a guard that records the work until it is dropped.

use super::activity::{self, Pushed};
use super::event::{ArgumentValue, Details, EventKind};
use super::recorder::{self, Begun, is_observed};
use crate::core::error::Loc;
use std::marker::PhantomData;

/// Records the work from its creation until it is dropped, on the thread that created it, and shows
/// it as current work meanwhile.
///
/// If nothing is recorded or tracked, creating and dropping it costs one relaxed load of an atomic
/// number.
#[must_use = "a span ends when it is dropped"]
#[derive(Default)]
pub(crate) struct Span {
    begun: Option<Begun>,
    pushed: Option<Pushed>,
    /// A span ends on the thread on which it began.
    on_thread: PhantomData<*const ()>,
}

impl Span {
    /// Begins work for `name` at the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn begin<D: Into<Details>>(kind: EventKind, details: impl FnOnce() -> D) -> Span {
        if !is_observed() {
            return Span::default();
        }
        Span::begun(kind, details().into(), Loc::caller())
    }

    /// Begins work at the line that a scope has set, if one has. Functions without
    /// `#[track_caller]` use it.
    #[inline]
    pub(crate) fn within<D: Into<Details>>(kind: EventKind, details: impl FnOnce() -> D) -> Span {
        if !is_observed() {
            return Span::default();
        }
        Span::begun(kind, details().into(), Loc::scoped())
    }

    /// Begins work at the line `loc`.
    #[inline]
    pub(crate) fn at<D: Into<Details>>(
        kind: EventKind,
        loc: Loc,
        details: impl FnOnce() -> D,
    ) -> Span {
        if !is_observed() {
            return Span::default();
        }
        Span::begun(kind, details().into(), loc)
    }

    #[inline(never)]
    fn begun(kind: EventKind, details: Details, loc: Loc) -> Span {
        let pushed = activity::push(kind, &details.name, loc);
        let begun = recorder::begin(kind, details, loc);
        Span { begun, pushed, on_thread: PhantomData }
    }

    /// Adds an argument, such as the number of bytes.
    pub(crate) fn add(&self, name: &'static str, value: impl Into<ArgumentValue>) {
        if let Some(begun) = self.begun {
            recorder::add_argument(begun, (name, value.into()));
        }
    }

    /// Adds an argument and returns the span.
    pub(crate) fn with(self, name: &'static str, value: impl Into<ArgumentValue>) -> Span {
        self.add(name, value);
        self
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            recorder::end(begun);
        }
        if let Some(pushed) = self.pushed {
            activity::pop(pushed);
        }
    }
}
