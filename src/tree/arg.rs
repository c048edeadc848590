//! [`Arg`]: one argument of a call, by value, by reference, or as a tuple of both.

use super::{Tree, leaves_of, rebuild};
use std::ops::Deref;

/// The form in which an argument was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// By value: it is donated.
    Value,
    /// By reference, or as a tuple of references: it is kept.
    Reference,
    /// As a tuple of values, which are donated, and references, which are kept.
    Mixed,
}

/// An argument of type `T`, passed by value (`T`), which donates it, or by reference (`&T`), which
/// keeps it. A tuple of up to four trees may be passed as a tuple of values and references, and an
/// array as a number, which becomes a weakly typed scalar.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed as the argument `{T}`",
    note = "pass a `{T}`, which is donated, or a `&{T}`, which is kept; for a tuple, pass a tuple \
            of values and references"
)]
pub trait Arg<T: Tree> {
    /// The form in which the argument is passed.
    const PASSING: Passing;
    /// The argument during a call.
    type Held: Deref<Target = T>;
    /// Converts the argument for the duration of a call.
    fn hold(self) -> Self::Held;
    /// Returns the argument after a call that did not consume it, unless it was passed by
    /// reference.
    fn release(held: Self::Held) -> Option<T>;
}

/// An argument passed by value.
#[derive(Debug)]
pub struct Owned<T>(T);

impl<T> Owned<T> {
    /// Holds an argument.
    pub(crate) fn new(argument: T) -> Owned<T> {
        Owned(argument)
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Tree> Arg<T> for T {
    const PASSING: Passing = Passing::Value;
    type Held = Owned<T>;
    fn hold(self) -> Owned<T> {
        Owned(self)
    }
    fn release(held: Owned<T>) -> Option<T> {
        Some(held.0)
    }
}

impl<'a, T: Tree> Arg<T> for &'a T {
    const PASSING: Passing = Passing::Reference;
    type Held = &'a T;
    fn hold(self) -> &'a T {
        self
    }
    fn release(_: &'a T) -> Option<T> {
        None
    }
}

/// Returns a tree with the same leaves.
pub(crate) fn share<T: Tree>(tree: &T) -> T {
    rebuild(tree, leaves_of(tree))
}

/// Implements `Arg` for tuples of values (`v`) and references (`r`).
macro_rules! tuples {
    (@passing $($name:ident r)*) => { Passing::Reference };
    (@passing $($rest:tt)*) => { Passing::Mixed };
    (@type $name:ident v) => { $name };
    (@type $name:ident r) => { &$name };
    (@own $value:expr, v) => { $value };
    (@own $value:expr, r) => { share($value) };
    ($($name:ident $index:tt $passing:ident),*) => {
        #[diagnostic::do_not_recommend]
        impl<$($name: Tree),*> Arg<($($name,)*)> for ($(tuples!(@type $name $passing),)*) {
            const PASSING: Passing = tuples!(@passing $($name $passing)*);
            type Held = Owned<($($name,)*)>;
            fn hold(self) -> Self::Held {
                Owned(($(tuples!(@own self.$index, $passing),)*))
            }
            fn release(held: Self::Held) -> Option<($($name,)*)> {
                Some(held.0).filter(|_| Self::PASSING != Passing::Reference)
            }
        }
    };
}

tuples!(A 0 r, B 1 r);
tuples!(A 0 r, B 1 v);
tuples!(A 0 v, B 1 r);
tuples!(A 0 r, B 1 r, C 2 r);
tuples!(A 0 r, B 1 r, C 2 v);
tuples!(A 0 r, B 1 v, C 2 r);
tuples!(A 0 r, B 1 v, C 2 v);
tuples!(A 0 v, B 1 r, C 2 r);
tuples!(A 0 v, B 1 r, C 2 v);
tuples!(A 0 v, B 1 v, C 2 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 v);
tuples!(A 0 r, B 1 r, C 2 v, D 3 r);
tuples!(A 0 r, B 1 r, C 2 v, D 3 v);
tuples!(A 0 r, B 1 v, C 2 r, D 3 r);
tuples!(A 0 r, B 1 v, C 2 r, D 3 v);
tuples!(A 0 r, B 1 v, C 2 v, D 3 r);
tuples!(A 0 r, B 1 v, C 2 v, D 3 v);
tuples!(A 0 v, B 1 r, C 2 r, D 3 r);
tuples!(A 0 v, B 1 r, C 2 r, D 3 v);
tuples!(A 0 v, B 1 r, C 2 v, D 3 r);
tuples!(A 0 v, B 1 r, C 2 v, D 3 v);
tuples!(A 0 v, B 1 v, C 2 r, D 3 r);
tuples!(A 0 v, B 1 v, C 2 r, D 3 v);
tuples!(A 0 v, B 1 v, C 2 v, D 3 r);
