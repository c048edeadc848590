//! [`Function`], which transforms accept, and [`TransformedFn`], which many of them return.

use super::function_name::short_name;
use super::{Args, Tree, for_each_arity};
use crate::tree::{Arguments, leaves_of};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// Marks a [`Function`] that takes its arguments by value.
#[derive(Debug)]
pub struct ByValue;

/// Marks a [`Function`] that takes its arguments by reference.
#[derive(Debug)]
pub struct ByReference;

/// Marks a [`Function`] of two or three arguments, some by value and some by reference. `P` is a
/// tuple of [`ByValue`] and [`ByReference`], one per argument.
#[derive(Debug)]
pub struct Mixed<P>(PhantomData<P>);

/// Marks a [`Function`] that a transform returned, or a reference to one.
#[derive(Debug)]
pub struct Transformed;

/// A function from trees to a tree, which every transform accepts.
///
/// It is a closure or function of values (`|x: Array| …`), a closure or function of references
/// (`|x: &Array| …`), or the result of another transform (`grad(f)`). A function of two or three
/// arguments may take some by value and some by reference. `M` tells these apart and is always
/// inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function from trees of arrays to a tree of arrays",
    note = "write the types of all parameters, all by value, `|w: Array, x: Array| …`, or all by \
            reference, `|w: &Array, x: &Array| …`; up to sixteen are supported, and up to three may \
            mix both",
    note = "there must be as many parameters as arguments: for two, `jvp(f, (&x, &y), (&dx, &dy))`",
    note = "every parameter and the result must be a `Tree`: numbers that vary go in as an \
            `Array`, fixed ones as `Static`"
)]
pub trait Function<A: Args, M> {
    /// The type of the result.
    type Output: Tree;
    /// Applies the function.
    fn apply(&self, arguments: A) -> Self::Output;
    /// Returns the name that errors show.
    fn name(&self) -> String {
        short_name::<Self>()
    }
}

/// Passes calls to a function on to the one that it refers to.
macro_rules! forwarded {
    ($reference:ty) => {
        #[diagnostic::do_not_recommend]
        impl<A: Args, F: Function<A, Transformed>> Function<A, Transformed> for $reference {
            type Output = F::Output;
            #[track_caller]
            fn apply(&self, arguments: A) -> F::Output {
                (**self).apply(arguments)
            }
            fn name(&self) -> String {
                (**self).name()
            }
        }
    };
}

/// Implements `Function` for a transformed function with a method `run` and a field `name`.
macro_rules! applied_as_function {
    ($transformed:ident) => {
        #[diagnostic::do_not_recommend]
        impl<A: Args, O: Tree, F: Fn(A) -> O> Function<A, Transformed> for $transformed<A, F> {
            type Output = O;
            #[track_caller]
            fn apply(&self, arguments: A) -> O {
                self.run(arguments.refs())
            }
            fn name(&self) -> String {
                self.name.clone()
            }
        }
    };
}

pub(crate) use applied_as_function;

forwarded!(&F);
forwarded!(Arc<F>);

/// The arguments of a function that has at least one, with the function that takes them by
/// reference.
pub trait FnArgs: Args {
    /// The first argument, which derivatives are taken with respect to.
    type First: Tree;
    /// `dyn Fn(&A, &B, …) -> O + 'f`.
    type DynFn<'f, O: 'f>: ?Sized + 'f;

    /// Returns the first argument.
    fn first(arguments: Self::Refs<'_>) -> &Self::First;
    /// Returns a function of references to all arguments.
    fn function<'f, O: 'f>(
        f: impl for<'a> Fn(Self::Refs<'a>) -> O + 'f,
    ) -> impl Deref<Target = Self::DynFn<'f, O>>;
    /// Calls such a function.
    fn call<'f, O: 'f>(f: &Self::DynFn<'f, O>, arguments: Self::Refs<'_>) -> O;
}

/// A function that a transform such as [`grad`](crate::transforms::grad()) returned. It is called
/// with references to its arguments, `grad(f)(&x)`, and other transforms accept it.
pub trait TransformedFn<'f, A: FnArgs, O: Tree + 'f>:
    Deref<Target = A::DynFn<'f, O>> + Function<A, Transformed, Output = O>
{
}

impl<'f, A: FnArgs, O: Tree, F> TransformedFn<'f, A, O> for F where
    F: Deref<Target = A::DynFn<'f, O>> + Function<A, Transformed, Output = O>
{
}

/// A [`TransformedFn`]: a pointer to a function of references, and its name.
struct Named<'f, A, O, F> {
    f: F,
    name: String,
    types: PhantomData<fn(A) -> O>,
    lifetime: PhantomData<&'f ()>,
}

/// Returns the function that applies `f` to its borrowed arguments.
pub(crate) fn transformed<'f, A: FnArgs, O: Tree>(
    name: String,
    f: impl for<'a> Fn(A::Refs<'a>) -> O + 'f,
) -> impl TransformedFn<'f, A, O> {
    Named { f: A::function(f), name, types: PhantomData, lifetime: PhantomData }
}

/// Returns copies of borrowed arguments, which share their arrays.
pub(crate) fn shared_arguments<A: Args>(arguments: A::Refs<'_>) -> A {
    A::unflatten(arguments, &mut leaves_of(&Arguments::<A>(arguments)).into_iter())
}

/// Returns `f` as a function of its first argument, with the others fixed.
pub(crate) fn of_first<A: FnArgs, M, F: Function<A, M>>(
    f: &F,
    arguments: A::Refs<'_>,
) -> impl Fn(A::First) -> F::Output {
    let rest = leaves_of(&Arguments::<A>(arguments)).split_off(A::leaf_counts(arguments)[0]);
    move |first| {
        let mut leaves = leaves_of(&first).into_iter().chain(rest.iter().cloned());
        f.apply(A::unflatten(arguments, &mut leaves))
    }
}

impl<'f, A: FnArgs, O: 'f, F: Deref<Target = A::DynFn<'f, O>>> Deref for Named<'f, A, O, F> {
    type Target = A::DynFn<'f, O>;
    fn deref(&self) -> &A::DynFn<'f, O> {
        &self.f
    }
}

#[diagnostic::do_not_recommend]
impl<'f, A: FnArgs, O: Tree, F> Function<A, Transformed> for Named<'f, A, O, F>
where
    F: Deref<Target = A::DynFn<'f, O>>,
{
    type Output = O;
    fn apply(&self, arguments: A) -> O {
        A::call(&self.f, arguments.refs())
    }
    fn name(&self) -> String {
        self.name.clone()
    }
}

/// A closure `F` of references to `A`, as the trait object that it implements.
struct Unsized<'f, F, A, O> {
    f: F,
    types: PhantomData<fn(A) -> O>,
    lifetime: PhantomData<&'f ()>,
}

macro_rules! functions {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree, F> Function<($($name,)*), ByReference> for F
        where
            F: Fn($(&$name),*) -> O,
        {
            type Output = O;
            #[track_caller]
            fn apply(&self, arguments: ($($name,)*)) -> O {
                self($(&arguments.$index),*)
            }
        }

        impl<'f, Func, $($name: 'f,)* O: 'f> Deref for Unsized<'f, Func, ($($name,)*), O>
        where
            Func: Fn($(&$name),*) -> O + 'f,
        {
            type Target = dyn Fn($(&$name),*) -> O + 'f;
            fn deref(&self) -> &Self::Target {
                &self.f
            }
        }

        impl<$($name: Tree),*> FnArgs for ($($name,)*) {
            type First = A;
            type DynFn<'f, O: 'f> = dyn Fn($(&$name),*) -> O + 'f;

            fn first(arguments: Self::Refs<'_>) -> &A {
                arguments.0
            }
            fn function<'f, O: 'f>(
                f: impl for<'a> Fn(Self::Refs<'a>) -> O + 'f,
            ) -> impl Deref<Target = Self::DynFn<'f, O>> {
                let f = move |$($value: &$name),*| f(($($value,)*));
                Unsized { f, types: PhantomData, lifetime: PhantomData }
            }
            fn call<'f, O: 'f>(f: &Self::DynFn<'f, O>, arguments: Self::Refs<'_>) -> O {
                f($(arguments.$index),*)
            }
        }
    };
}

for_each_arity!(1..=16 functions []);

macro_rules! functions_of_values {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree, F> Function<($($name,)*), ByValue> for F
        where
            F: Fn($($name),*) -> O,
        {
            type Output = O;
            #[track_caller]
            fn apply(&self, ($($value,)*): ($($name,)*)) -> O {
                self($($value),*)
            }
        }
    };
}

for_each_arity!(0..=16 functions_of_values []);

/// Implements `Function` for functions that take arguments by value (`v`) and by reference (`r`).
macro_rules! mixed_functions {
    (@marker v) => { ByValue };
    (@marker r) => { ByReference };
    (@type $name:ident v) => { $name };
    (@type $name:ident r) => { &$name };
    (@pass $value:ident v) => { $value };
    (@pass $value:ident r) => { &$value };
    ($($name:ident $value:ident $passing:ident),*) => {
        #[diagnostic::do_not_recommend]
        impl<$($name: Tree,)* O: Tree, F>
            Function<($($name,)*), Mixed<($(mixed_functions!(@marker $passing),)*)>> for F
        where
            F: Fn($(mixed_functions!(@type $name $passing)),*) -> O,
        {
            type Output = O;
            #[track_caller]
            fn apply(&self, ($($value,)*): ($($name,)*)) -> O {
                self($(mixed_functions!(@pass $value $passing)),*)
            }
        }
    };
}

mixed_functions!(A a v, B b r);
mixed_functions!(A a r, B b v);
mixed_functions!(A a v, B b v, C c r);
mixed_functions!(A a v, B b r, C c v);
mixed_functions!(A a v, B b r, C c r);
mixed_functions!(A a r, B b v, C c v);
mixed_functions!(A a r, B b v, C c r);
mixed_functions!(A a r, B b r, C c v);
