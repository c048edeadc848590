//! Arguments of traced functions: tuples of trees, each passed by value or by reference.

use super::{PathKey, Tag, Tree, Visitor, Walk, count_leaves, for_each_arity, share};
use crate::core::{Array, Aval};

/// The arguments of a function, as a tuple of trees.
pub trait Args: Send + Sync + Sized + 'static {
    /// The tuple of borrowed arguments.
    type Refs<'a>: Copy;
    /// The tuple of optional arguments, which an error returns.
    type Returned: Send + Sync + 'static;
    /// `T` itself, for every `T`.
    ///
    /// [`jit`](crate::jit::jit) and other transforms return an `A::Callable<T>`. rustc does not
    /// know this type before it has inferred `A`. If it never infers `A`, because the closure is
    /// not a [`Function`](super::Function), it reports that alone, and not that it finds a `call`
    /// for each number of arguments.
    type Callable<T>;

    /// Visits structure and leaves, as [`Tree::flatten`] does.
    fn flatten(arguments: Self::Refs<'_>, visitor: &mut dyn Visitor);
    /// Returns these structures with other leaves.
    fn unflatten(arguments: Self::Refs<'_>, leaves: &mut dyn Iterator<Item = Array>) -> Self;
    /// Returns the number of leaves of each argument.
    fn leaf_counts(arguments: Self::Refs<'_>) -> Vec<usize>;
    /// Borrows each argument.
    fn refs(&self) -> Self::Refs<'_>;
    /// Returns `function`.
    fn callable<T>(function: T) -> Self::Callable<T>;
}

/// The borrowed arguments of a call as one tree.
pub struct Arguments<'a, A: Args>(pub A::Refs<'a>);

impl<A: Args> Walk for Arguments<'_, A> {
    fn walk(&self, visitor: &mut dyn Visitor) {
        A::flatten(self.0, visitor);
    }
}

/// An example of an argument of type `T`, of which only the structure and leaf types matter: a `T`,
/// a `&T`, or an [`Aval`] for an array.
pub trait Example<T: Tree> {
    /// Returns a `T` with this structure and these leaf types.
    fn example(self) -> T;
}

impl<T: Tree> Example<T> for T {
    fn example(self) -> T {
        self
    }
}

impl<T: Tree> Example<T> for &T {
    fn example(self) -> T {
        share(self)
    }
}

impl Example<Array> for Aval {
    fn example(self) -> Array {
        Array::of_type(self)
    }
}

impl Example<Array> for &Aval {
    fn example(self) -> Array {
        Array::of_type(self.clone())
    }
}

/// Examples of all arguments: one [`Example`] for a function of one argument, a tuple for several.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not give the types of the arguments `{A}`",
    note = "give one array, tree or `Aval` for a function of one argument, a tuple of them for several"
)]
pub trait Examples<A: Args> {
    /// Returns the arguments.
    fn examples(self) -> A;
}

impl<A: Tree, E: Example<A>> Examples<(A,)> for E {
    fn examples(self) -> (A,) {
        (self.example(),)
    }
}

macro_rules! arguments {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        #[allow(clippy::unused_unit, reason = "the empty tuple expands like the others")]
        impl<$($name: Tree),*> Args for ($($name,)*) {
            type Refs<'a> = ($(&'a $name,)*);
            type Returned = ($(Option<$name>,)*);
            type Callable<T> = T;

            fn flatten(arguments: Self::Refs<'_>, visitor: &mut dyn Visitor) {
                visitor.tag(Tag::Len(<[usize]>::len(&[$($index),*])));
                $(
                    visitor.enter(PathKey::Index($index));
                    arguments.$index.flatten(visitor);
                    visitor.exit();
                )*
                let () = { let _ = arguments; };
            }
            fn unflatten(
                arguments: Self::Refs<'_>,
                leaves: &mut dyn Iterator<Item = Array>,
            ) -> Self {
                let _ = (&arguments, &leaves);
                ($(arguments.$index.unflatten(leaves),)*)
            }
            fn leaf_counts(arguments: Self::Refs<'_>) -> Vec<usize> {
                let _ = &arguments;
                vec![$(count_leaves(arguments.$index)),*]
            }
            fn refs(&self) -> Self::Refs<'_> {
                ($(&self.$index,)*)
            }
            fn callable<T>(function: T) -> T {
                function
            }
        }
    };
}

for_each_arity!(0..=16 arguments []);

impl Examples<()> for () {
    fn examples(self) {}
}

macro_rules! examples {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree, $param: Example<$name>),*> Examples<($($name,)*)> for ($($param,)*) {
            fn examples(self) -> ($($name,)*) {
                ($(self.$index.example(),)*)
            }
        }
    };
}

for_each_arity!(2..=16 examples []);
