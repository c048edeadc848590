//! Shapes that a user may leave partly open.

use crate::core::{RuleError, Shape};

/// What [`Array::reshape`](crate::core::Array::reshape) takes: axis sizes, one of which may be -1
/// and follows from the others.
///
/// Implemented for arrays, slices and vectors of `usize`, `isize` and `i32`, and for [`Shape`].
#[diagnostic::on_unimplemented(message = "`{Self}` is not a list of axis sizes")]
pub trait OpenShape {
    /// The sizes, `None` for the open one.
    fn open_sizes(&self) -> Vec<Option<usize>>;
}

impl OpenShape for Shape {
    fn open_sizes(&self) -> Vec<Option<usize>> {
        self.iter().copied().map(Some).collect()
    }
}

impl<T: OpenShape + ?Sized> OpenShape for &T {
    fn open_sizes(&self) -> Vec<Option<usize>> {
        (**self).open_sizes()
    }
}

/// One axis size.
trait OpenSize: Copy {
    fn open(self) -> Option<usize>;
}

impl OpenSize for usize {
    fn open(self) -> Option<usize> {
        Some(self)
    }
}

impl OpenSize for isize {
    fn open(self) -> Option<usize> {
        usize::try_from(self).ok()
    }
}

impl OpenSize for i32 {
    fn open(self) -> Option<usize> {
        usize::try_from(self).ok()
    }
}

macro_rules! lists {
    ($($size:ty),*) => {$(
        impl OpenShape for [$size] {
            fn open_sizes(&self) -> Vec<Option<usize>> {
                self.iter().map(|&size| size.open()).collect()
            }
        }

        impl OpenShape for Vec<$size> {
            fn open_sizes(&self) -> Vec<Option<usize>> {
                self.as_slice().open_sizes()
            }
        }

        impl<const N: usize> OpenShape for [$size; N] {
            fn open_sizes(&self) -> Vec<Option<usize>> {
                self.as_slice().open_sizes()
            }
        }
    )*};
}

lists!(usize, isize, i32);

/// The shape of `size` elements that the sizes mean.
pub(super) fn close(sizes: &[Option<usize>], from: &Shape) -> Result<Shape, RuleError> {
    let known: usize = sizes.iter().flatten().product();
    let size = from.size();
    let shown = || {
        let one = |size: &Option<usize>| size.map_or("-1".into(), |size| size.to_string());
        format!("[{}]", sizes.iter().map(one).collect::<Vec<String>>().join(","))
    };
    match sizes.iter().filter(|size| size.is_none()).count() {
        0 => Ok(sizes.iter().flatten().copied().collect()),
        1 if known > 0 && size.is_multiple_of(known) => {
            Ok(sizes.iter().map(|open| open.unwrap_or(size / known)).collect())
        }
        1 => Err(RuleError::shape(format!(
            "{from} with {size} elements does not divide into {} with {known} times the open size",
            shown()
        ))),
        open => Err(RuleError::shape(format!(
            "{} leaves {open} sizes open, at most one may be",
            shown()
        ))),
    }
}
