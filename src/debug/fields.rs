//! [`Fields`]: the arrays that a format string prints.

use crate::core::Array;
use crate::primitives::{ArrayLike, ArrayList};
use std::fmt;

/// Arrays for the placeholders of a format string.
///
/// Either a list or tuple of arrays, whose placeholders are `{}` and `{0}`, or a list of pairs of a
/// name and an array, whose placeholders may also be `{name}`. `()` stands for no arrays.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let (loss, step) = (scalar(0.5), scalar(3));
/// debug::print("{} at {}", [&loss, &step]);
/// debug::print("{loss:.3} at {step}", [("loss", &loss), ("step", &step)]);
/// ```
pub trait Fields<Form> {
    /// Returns the arrays with their names. Arrays without a name have an empty one.
    fn into_fields(self) -> Vec<(String, Array)>;
}

/// The form of [`Fields`] without names.
pub struct Unnamed<Form>(std::marker::PhantomData<Form>);

impl<Form> fmt::Debug for Unnamed<Form> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unnamed")
    }
}

/// The form of [`Fields`] with names.
#[derive(Debug)]
pub enum Named {}

impl<Form, L: ArrayList<Form>> Fields<Unnamed<Form>> for L {
    #[track_caller]
    fn into_fields(self) -> Vec<(String, Array)> {
        self.into_arrays().into_iter().map(|array| (String::new(), array)).collect()
    }
}

impl<'n, I, A> Fields<Named> for I
where
    I: IntoIterator<Item = (&'n str, A)>,
    A: ArrayLike,
{
    fn into_fields(self) -> Vec<(String, Array)> {
        self.into_iter().map(|(name, x)| (name.to_string(), x.to_array())).collect()
    }
}
