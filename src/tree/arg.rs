//! [`Arg`]: one argument of a call, by value, by reference, or as a tuple of both.

use super::{ScalarNumber, Tree, leaves_of, rebuild};
use crate::core::Array;
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
/// keeps it. A tuple of up to four trees may be passed as a tuple of values and references, one of
/// up to twelve as a tuple of references, an array of trees as an array of references, and a scalar
/// as a number, which becomes weakly typed, also in tuples of up to three. A struct may be passed
/// as the struct of references that `#[derive(TreeRef)]` declares.
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
    /// Holds an argument. For implementations of [`Arg`].
    pub fn new(argument: T) -> Owned<T> {
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

/// An array of references is kept.
#[diagnostic::do_not_recommend]
impl<T: Tree, const N: usize> Arg<[T; N]> for [&T; N] {
    const PASSING: Passing = Passing::Reference;
    type Held = Owned<[T; N]>;
    fn hold(self) -> Self::Held {
        Owned(self.map(share))
    }
    fn release(_: Self::Held) -> Option<[T; N]> {
        None
    }
}

/// Returns a tree with the same leaves.
pub(crate) fn share<T: Tree>(tree: &T) -> T {
    rebuild(tree, leaves_of(tree))
}

/// Implements `Arg` for tuples of values (`v`), references (`r`) and numbers for arrays (`n`).
macro_rules! tuples {
    (@passing $($name:ident r)*) => { Passing::Reference };
    (@passing $($rest:tt)*) => { Passing::Mixed };
    (@type $name:ident v) => { $name };
    (@type $name:ident r) => { &$name };
    (@type $name:ident n) => { $name };
    (@tree $name:ident n) => { Array };
    (@tree $name:ident $passing:ident) => { $name };
    (@own $value:expr, v) => { $value };
    (@own $value:expr, r) => { share($value) };
    (@own $value:expr, n) => { $value.scalar() };
    (@bound $bounded:tt [$($all:tt)*]) => {
        tuples!(@impl $bounded $($all)*);
    };
    (@bound [$($bounded:tt)*] $all:tt $name:ident n $($rest:tt)*) => {
        tuples!(@bound [$($bounded)* ($name: ScalarNumber)] $all $($rest)*);
    };
    (@bound [$($bounded:tt)*] $all:tt $name:ident $passing:ident $($rest:tt)*) => {
        tuples!(@bound [$($bounded)* ($name: Tree)] $all $($rest)*);
    };
    (@impl [$(($parameter:ident: $bound:ident))*] $(($name:ident $index:tt $passing:ident))*) => {
        #[diagnostic::do_not_recommend]
        impl<$($parameter: $bound),*> Arg<($(tuples!(@tree $name $passing),)*)>
            for ($(tuples!(@type $name $passing),)*)
        {
            const PASSING: Passing = tuples!(@passing $($name $passing)*);
            type Held = Owned<($(tuples!(@tree $name $passing),)*)>;
            #[track_caller]
            fn hold(self) -> Self::Held {
                Owned(($(tuples!(@own self.$index, $passing),)*))
            }
            fn release(held: Self::Held) -> Option<($(tuples!(@tree $name $passing),)*)> {
                Some(held.0).filter(|_| Self::PASSING != Passing::Reference)
            }
        }
    };
    ($($name:ident $index:tt $passing:ident),*) => {
        tuples!(@bound [] [$(($name $index $passing))*] $($name $passing)*);
    };
}

tuples!(A 0 v, B 1 r);
tuples!(A 0 v, B 1 n);
tuples!(A 0 r, B 1 v);
tuples!(A 0 r, B 1 r);
tuples!(A 0 r, B 1 n);
tuples!(A 0 n, B 1 v);
tuples!(A 0 n, B 1 r);
tuples!(A 0 n, B 1 n);
tuples!(A 0 v, B 1 v, C 2 r);
tuples!(A 0 v, B 1 v, C 2 n);
tuples!(A 0 v, B 1 r, C 2 v);
tuples!(A 0 v, B 1 r, C 2 r);
tuples!(A 0 v, B 1 r, C 2 n);
tuples!(A 0 v, B 1 n, C 2 v);
tuples!(A 0 v, B 1 n, C 2 r);
tuples!(A 0 v, B 1 n, C 2 n);
tuples!(A 0 r, B 1 v, C 2 v);
tuples!(A 0 r, B 1 v, C 2 r);
tuples!(A 0 r, B 1 v, C 2 n);
tuples!(A 0 r, B 1 r, C 2 v);
tuples!(A 0 r, B 1 r, C 2 r);
tuples!(A 0 r, B 1 r, C 2 n);
tuples!(A 0 r, B 1 n, C 2 v);
tuples!(A 0 r, B 1 n, C 2 r);
tuples!(A 0 r, B 1 n, C 2 n);
tuples!(A 0 n, B 1 v, C 2 v);
tuples!(A 0 n, B 1 v, C 2 r);
tuples!(A 0 n, B 1 v, C 2 n);
tuples!(A 0 n, B 1 r, C 2 v);
tuples!(A 0 n, B 1 r, C 2 r);
tuples!(A 0 n, B 1 r, C 2 n);
tuples!(A 0 n, B 1 n, C 2 v);
tuples!(A 0 n, B 1 n, C 2 r);
tuples!(A 0 n, B 1 n, C 2 n);
tuples!(A 0 v, B 1 v, C 2 v, D 3 r);
tuples!(A 0 v, B 1 v, C 2 r, D 3 v);
tuples!(A 0 v, B 1 v, C 2 r, D 3 r);
tuples!(A 0 v, B 1 r, C 2 v, D 3 v);
tuples!(A 0 v, B 1 r, C 2 v, D 3 r);
tuples!(A 0 v, B 1 r, C 2 r, D 3 v);
tuples!(A 0 v, B 1 r, C 2 r, D 3 r);
tuples!(A 0 r, B 1 v, C 2 v, D 3 v);
tuples!(A 0 r, B 1 v, C 2 v, D 3 r);
tuples!(A 0 r, B 1 v, C 2 r, D 3 v);
tuples!(A 0 r, B 1 v, C 2 r, D 3 r);
tuples!(A 0 r, B 1 r, C 2 v, D 3 v);
tuples!(A 0 r, B 1 r, C 2 v, D 3 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 v);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r, G 5 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r, G 5 r, H 6 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r, G 5 r, H 6 r, I 7 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r, G 5 r, H 6 r, I 7 r, J 8 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r, G 5 r, H 6 r, I 7 r, J 8 r, K 9 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r, G 5 r, H 6 r, I 7 r, J 8 r, K 9 r, L 10 r);
tuples!(A 0 r, B 1 r, C 2 r, D 3 r, E 4 r, G 5 r, H 6 r, I 7 r, J 8 r, K 9 r, L 10 r, M 11 r);
