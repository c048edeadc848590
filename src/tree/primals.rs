//! [`PrimalArgs`] and [`Primals`]: the arguments of a function that derivatives are taken by.

use super::{Arg, FnArgs, Tree, for_each_arity, share};

/// The arguments of a function as one tree: the argument itself if there is one, else a tuple.
pub trait PrimalArgs: FnArgs {
    /// The tree.
    type Primals: Tree;
    /// Returns the arguments in the tree.
    fn from_primals(primals: Self::Primals) -> Self;
    /// Returns the arguments as a tree.
    fn into_primals(self) -> Self::Primals;
}

impl<A: Tree> PrimalArgs for (A,) {
    type Primals = A;
    fn from_primals(primals: A) -> (A,) {
        (primals,)
    }
    fn into_primals(self) -> A {
        self.0
    }
}

/// Values for all arguments of a function, or tangents of them: `&x` for a function of one
/// argument, a tuple `(&x, &y)` for several. Each is a tree, a reference, a tuple of both, or a
/// number for an array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not values for the arguments `{A}`",
    note = "pass `&x` for a function of one argument, `(&x, &y)` for a function of two"
)]
pub trait Primals<A: PrimalArgs> {
    /// Returns the values as one tree.
    fn tree(self) -> A::Primals;
}

impl<A: Tree, P: Arg<A>> Primals<(A,)> for P {
    #[track_caller]
    fn tree(self) -> A {
        share(&*self.hold())
    }
}

macro_rules! several {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree),*> PrimalArgs for ($($name,)*) {
            type Primals = ($($name,)*);
            fn from_primals(primals: ($($name,)*)) -> ($($name,)*) {
                primals
            }
            fn into_primals(self) -> ($($name,)*) {
                self
            }
        }

        impl<$($name: Tree, $param: Arg<$name>),*> Primals<($($name,)*)> for ($($param,)*) {
            #[track_caller]
            fn tree(self) -> ($($name,)*) {
                ($(share(&*self.$index.hold()),)*)
            }
        }
    };
}

for_each_arity!(2..=16 several []);
