//! Conversions of numbers, rows of numbers and host arrays to [`Array`].

use crate::core::array::array::Array;
use crate::core::array::host_array::HostArray;
use crate::core::error::{Loc, OpErrorKind, throw};
use crate::core::types::element::Element;
use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

/// Elements of an array in rows: numbers or arrays, in arrays, vectors and slices of any depth.
///
/// Used by [`array!`](crate::array) and [`Array::from`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of an array",
    note = "elements are bool, i8 to i64, u8 to u64, half::f16, half::bf16, f32, f64, \
            Complex<f32>, Complex<f64>, arrays, and usize and isize as `i32`"
)]
pub trait NestedElements {
    /// The type of the innermost elements.
    type Leaf: Clone;
    /// The number of levels of rows.
    const RANK: usize;
    /// Returns the length at each level.
    ///
    /// # Errors
    /// A message with the first row that differs, or with a number that does not fit the dtype.
    fn lengths(&self) -> Result<Vec<usize>, String>;
    /// Appends the innermost elements in order.
    fn append_to(&self, leaves: &mut Vec<Self::Leaf>);
}

/// Data that [`Array::from`] accepts: numbers, and arrays, vectors and slices of numbers.
///
/// `f64` is not among them, so that `Array::from([1.0, 2.0])` has JAX's default dtype, `f32`.
#[diagnostic::on_unimplemented(
    message = "`Array::from` does not accept `{Self}`",
    note = "it takes numbers, and arrays, vectors and slices of numbers, nested to any depth",
    note = "`f64` values: `array![x, y]` and `Array::from_slice(&values, [n])?` keep 64 bits, \
            `x as f32` converts"
)]
pub trait ArrayData: NestedElements<Leaf: Element> {}

macro_rules! elements {
    ($($element:ty),*) => {$(
        impl NestedElements for $element {
            type Leaf = $element;
            const RANK: usize = 0;
            fn lengths(&self) -> Result<Vec<usize>, String> {
                Ok(Vec::new())
            }
            fn append_to(&self, leaves: &mut Vec<$element>) {
                leaves.push(*self);
            }
        }
    )*};
}

// Sizes and positions have no dtype. They become `i32`, the default integer, as in JAX.
macro_rules! sizes {
    ($($size:ty),*) => {$(
        impl NestedElements for $size {
            type Leaf = i32;
            const RANK: usize = 0;
            fn lengths(&self) -> Result<Vec<usize>, String> {
                match i32::try_from(*self) {
                    Ok(_) => Ok(Vec::new()),
                    Err(_) => Err(format!("{self} does not fit i32: write it as i64")),
                }
            }
            fn append_to(&self, leaves: &mut Vec<i32>) {
                leaves.push(*self as i32);
            }
        }

        impl ArrayData for $size {}
    )*};
}

macro_rules! data {
    ($($element:ty),*) => {$(
        impl ArrayData for $element {}
    )*};
}

sizes!(usize, isize);
elements!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, Complex32, Complex64);
data!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, Complex32, Complex64);

impl NestedElements for Array {
    type Leaf = Array;
    const RANK: usize = 0;
    fn lengths(&self) -> Result<Vec<usize>, String> {
        Ok(Vec::new())
    }
    fn append_to(&self, leaves: &mut Vec<Array>) {
        leaves.push(self.clone());
    }
}

impl<T: NestedElements> NestedElements for [T] {
    type Leaf = T::Leaf;
    const RANK: usize = T::RANK + 1;
    fn lengths(&self) -> Result<Vec<usize>, String> {
        let mut lengths = vec![self.len()];
        let Some((first, rest)) = self.split_first() else {
            lengths.resize(Self::RANK, 0);
            return Ok(lengths);
        };
        let inner = first.lengths()?;
        for (row, other) in rest.iter().enumerate() {
            let other = other.lengths()?;
            if other != inner {
                return Err(format!(
                    "rows differ: row 0 has shape {inner:?}, row {} has {other:?}",
                    row + 1
                ));
            }
        }
        lengths.extend(inner);
        Ok(lengths)
    }
    fn append_to(&self, leaves: &mut Vec<T::Leaf>) {
        for row in self {
            row.append_to(leaves);
        }
    }
}

macro_rules! through_slices {
    ($([$($generics:tt)*] $list:ty;)*) => {$(
        impl<$($generics)*> NestedElements for $list {
            type Leaf = T::Leaf;
            const RANK: usize = T::RANK + 1;
            fn lengths(&self) -> Result<Vec<usize>, String> {
                self[..].lengths()
            }
            fn append_to(&self, leaves: &mut Vec<T::Leaf>) {
                self[..].append_to(leaves);
            }
        }
    )*};
}

through_slices!(
    [T: NestedElements] Vec<T>;
    [T: NestedElements, const N: usize] [T; N];
);

impl<T: NestedElements + ?Sized> NestedElements for &T {
    type Leaf = T::Leaf;
    const RANK: usize = T::RANK;
    fn lengths(&self) -> Result<Vec<usize>, String> {
        (**self).lengths()
    }
    fn append_to(&self, leaves: &mut Vec<T::Leaf>) {
        (**self).append_to(leaves);
    }
}

impl<T: ArrayData> ArrayData for [T] {}
impl<T: ArrayData> ArrayData for Vec<T> {}
impl<T: ArrayData, const N: usize> ArrayData for [T; N] {}
impl<T: ArrayData + ?Sized> ArrayData for &T {}

/// Returns the innermost elements and the shape. Throws `Op` (value) if rows differ.
#[track_caller]
pub(crate) fn flattened<T: NestedElements + ?Sized>(rows: &T) -> (Vec<T::Leaf>, Vec<usize>) {
    let shape = match rows.lengths() {
        Ok(shape) => shape,
        Err(message) => throw::throw_op(OpErrorKind::Value, "array", message, Loc::caller()),
    };
    let mut leaves = Vec::with_capacity(shape.iter().product());
    rows.append_to(&mut leaves);
    (leaves, shape)
}

/// Copies elements to the default device. Throws what [`Array::from_slice`] returns.
#[track_caller]
pub(crate) fn transferred<T: Element>(elements: &[T], shape: &[usize]) -> Array {
    match Array::from_slice(elements, shape) {
        Ok(x) => x,
        Err(error) => throw::throw(error),
    }
}

/// Copies numbers to the default device: `Array::from([1.0, 2.0])`, `Array::from(rows)` for a
/// vector of rows, `Array::from(0.5)` for a scalar that is strongly typed.
///
/// Float literals are `f32`; integer literals, `usize` and `isize` are `i32`, as in JAX. Values of
/// other types keep theirs; `f64` values do not compile, because a literal would be ambiguous: use
/// [`array!`](crate::array) or [`Array::from_slice`].
///
/// Throws `Op` (value) if the rows of a vector differ in length or a `usize` does not fit, and
/// `Plugin` and `Runtime` as [`Array::from_slice`] returns them.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(x.aval().to_string(), "f32[2,3]");
/// let rows: Vec<Vec<i32>> = vec![vec![1, 2], vec![3, 4]];
/// assert_eq!(Array::from(rows).aval().to_string(), "i32[2,2]");
/// ```
impl<T: ArrayData> From<T> for Array {
    #[track_caller]
    fn from(rows: T) -> Array {
        let (elements, shape) = flattened(&rows);
        transferred(&elements, &shape)
    }
}

/// Copies a host array to the default device: the inverse of [`Array::to_host`]. Throws `Plugin`
/// and `Runtime` if there is no device, or it is out of memory.
///
/// ```
/// use oxidax::core::HostArray;
/// use oxidax::prelude::*;
/// let on_host = HostArray::from_slice(&[1i64, 2], [2])?;
/// assert_eq!(Array::from(&on_host).aval().to_string(), "i64[2]");
/// # Ok::<(), Error>(())
/// ```
impl From<&HostArray> for Array {
    #[track_caller]
    fn from(x: &HostArray) -> Array {
        match Array::from_bytes(x.as_bytes(), x.dtype(), x.shape()) {
            Ok(x) => x,
            Err(error) => throw::throw(error),
        }
    }
}

impl From<HostArray> for Array {
    #[track_caller]
    fn from(x: HostArray) -> Array {
        Array::from(&x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_one_length() {
        assert_eq!([[1.0, 2.0], [3.0, 4.0]].lengths(), Ok(vec![2, 2]));
        assert_eq!(vec![vec![1i32], vec![2]].lengths(), Ok(vec![2, 1]));
        assert_eq!(Vec::<Vec<f32>>::new().lengths(), Ok(vec![0, 0]));
        let error = vec![vec![1i32, 2], vec![3, 4], vec![5]].lengths().unwrap_err();
        assert_eq!(error, "rows differ: row 0 has shape [2], row 2 has [1]");
        let error = [1, 1usize << 40].lengths().unwrap_err();
        assert_eq!(error, "1099511627776 does not fit i32: write it as i64");
    }

    #[test]
    fn elements_are_in_row_major_order() {
        let (elements, shape) = flattened(&vec![[1i32, 2], [3, 4]]);
        assert_eq!((elements, shape), (vec![1, 2, 3, 4], vec![2, 2]));
    }
}
