//! [`Array`]: the one type that users compute with.

use crate::core::array::backend::backend;
use crate::core::error::throw;
use crate::core::error::{Error, Loc, OpErrorKind};
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::element::Element;
use crate::core::types::shape::Shape;
use std::any::Any;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The elements of a concrete array, wherever they lie. Implemented by `runtime`.
pub trait Buffer: fmt::Debug + Send + Sync {
    /// Waits for the elements and copies them to `dst`, row-major, one byte for sub-byte types, the
    /// signed ones as an `i8`.
    ///
    /// # Errors
    /// What the computation that makes the elements met, or the copy.
    fn read(&self, dst: &mut [u8]) -> Result<(), Error>;
    /// Waits until the elements are there.
    ///
    /// # Errors
    /// What the computation that makes the elements met.
    fn ready(&self) -> Result<(), Error>;
    /// Whether the elements are there, or never will be.
    ///
    /// # Errors
    /// If the plugin cannot tell.
    fn is_ready(&self) -> Result<bool, Error>;
    /// For `runtime` to find its own type again.
    fn as_any(&self) -> &dyn Any;
    /// The same, to be changed by its only owner.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// The trace id of arrays without elements. No trace has this id.
pub(crate) const NO_TRACE: u64 = 0;

#[derive(Clone)]
pub(crate) enum Kind {
    Concrete(Arc<dyn Buffer>),
    Traced { trace: u64, var: u32 },
}

/// An n-dimensional array: concrete (its elements lie on a device) or traced (it stands for a
/// value of a program being built). The type is the same, so one function serves both.
///
/// Cloning is cheap and shares the elements. Dtype and shape are values, not types.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(|x: Array| (&x * 2.0).sum(), Aval::new(DType::F32, [3]))?;
/// assert_eq!(program.avals_out()[0].to_string(), "f32[]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "Tensor")]
#[doc(alias = "ndarray")]
pub struct Array {
    /// Shared, because arrays are cloned far more often than types are made, and a call over hundreds
    /// of leaves should not have to read a type each.
    aval: Arc<Aval>,
    pub(crate) kind: Kind,
}

// Elements never change once they are there, so an array may be looked at after a panic.
impl UnwindSafe for Array {}
impl RefUnwindSafe for Array {}

impl Array {
    pub(crate) fn traced(aval: impl Into<Arc<Aval>>, trace: u64, var: u32) -> Array {
        Array { aval: aval.into(), kind: Kind::Traced { trace, var } }
    }

    /// An array that has a type and no elements: what `eval_shape` gives, and what `make_program` and
    /// `lower` take in place of an array. No operation can be applied to it.
    #[doc(alias = "ShapeDtypeStruct")]
    pub fn of_type(aval: Aval) -> Array {
        Array::of_shared_type(Arc::new(aval))
    }

    pub(crate) fn of_shared_type(aval: Arc<Aval>) -> Array {
        Array::traced(aval, NO_TRACE, 0)
    }

    /// A concrete array over a buffer that `runtime` holds.
    pub(crate) fn concrete(aval: impl Into<Arc<Aval>>, buffer: Arc<dyn Buffer>) -> Array {
        Array { aval: aval.into(), kind: Kind::Concrete(buffer) }
    }

    /// The type, to be shared with other arrays.
    pub(crate) fn shared_aval(&self) -> &Arc<Aval> {
        &self.aval
    }

    /// Copies `elements`, row-major, to the default device as an array of shape `shape`.
    ///
    /// # Errors
    /// [`Error::Op`] (shape) if the number of elements is not that of the shape; `Plugin` and
    /// `Runtime` if there is no device or no room on it.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(x.shape().dims(), [2, 2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn from_slice<T: Element>(elements: &[T], shape: impl Into<Shape>) -> Result<Array, Error> {
        Array::from_bytes(T::as_bytes(elements), T::DTYPE, shape)
    }

    /// Copies raw elements to the default device: row-major, in the machine's byte order, one byte
    /// per element for sub-byte dtypes, `i4` and `i2` as an `i8`.
    ///
    /// # Errors
    /// As [`Array::from_slice`].
    #[track_caller]
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: impl Into<Shape>) -> Result<Array, Error> {
        let aval = Aval::new(dtype, shape);
        let expected = aval.size().saturating_mul(dtype.host_bytes());
        if bytes.len() != expected {
            let message = format!(
                "{aval} takes {expected} bytes ({} elements of {}), got {}",
                aval.size(),
                dtype.host_bytes(),
                bytes.len()
            );
            let location = Some(Location::caller());
            return Err(throw::op_error(OpErrorKind::Shape, "from_slice", message, location));
        }
        backend().put(bytes, &aval)
    }

    /// The type: dtype, shape, weakness.
    pub fn aval(&self) -> &Aval {
        &self.aval
    }

    /// The axis sizes.
    pub fn shape(&self) -> &Shape {
        &self.aval.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.aval.dtype
    }

    /// Number of axes.
    #[doc(alias = "ndim")]
    pub fn rank(&self) -> usize {
        self.aval.rank()
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.aval.size()
    }

    /// Whether the array stands for a value of a program being traced.
    pub fn is_traced(&self) -> bool {
        matches!(self.kind, Kind::Traced { .. })
    }

    /// The axis sizes as a fixed number of names: `let [b, t, c] = x.dims();`.
    ///
    /// Throws `Op` (shape) if the rank is another.
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> [usize; N] {
        match <[usize; N]>::try_from(self.shape().dims()) {
            Ok(dims) => dims,
            Err(_) => throw::throw_op(
                OpErrorKind::Shape,
                "dims",
                format!("expected {N} axes, got {} in {}", self.rank(), self.aval),
                Some(Location::caller()),
            ),
        }
    }

    /// Gives the array back if it has this shape, and throws `Op` (shape) if not.
    #[track_caller]
    pub fn expect_shape(&self, shape: impl Into<Shape>) -> &Array {
        let expected = shape.into();
        if *self.shape() != expected {
            throw::throw_op(
                OpErrorKind::Shape,
                "expect_shape",
                format!("expected {expected}, got {}", self.aval),
                Some(Location::caller()),
            );
        }
        self
    }

    #[track_caller]
    fn buffer(&self, wanted: &str) -> &Arc<dyn Buffer> {
        match &self.kind {
            Kind::Concrete(buffer) => buffer,
            Kind::Traced { .. } => throw::throw_needs_value(&self.aval, wanted, Location::caller()),
        }
    }

    /// The one element of an array of size 1, waiting for it.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Op` if the array has another size or `T` is not its dtype; `Runtime` if the computation failed.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        let location: Loc = Some(Location::caller());
        if self.size() != 1 {
            let message = format!("needs an array with one element, got {}", self.aval);
            self.buffer("the element");
            return Err(throw::op_error(OpErrorKind::Shape, "item", message, location));
        }
        Ok(self.read::<T>("item", location)?[0])
    }

    /// The elements, row-major, waiting for them.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Op` (dtype) if `T` is not the array's dtype; `Runtime` if the computation failed.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.read::<T>("to_vec", Some(Location::caller()))
    }

    #[track_caller]
    fn read<T: Element>(&self, name: &str, location: Loc) -> Result<Vec<T>, Error> {
        let buffer = self.buffer("the elements");
        if T::DTYPE != self.dtype() {
            let message = format!("asked for {}, the array is {}", T::DTYPE, self.aval);
            return Err(throw::op_error(OpErrorKind::DType, name, message, location));
        }
        T::read(self.size(), |bytes| buffer.read(bytes))
    }

    /// The elements' bytes, row-major, one byte per element for sub-byte dtypes, `i4` and `i2` as an
    /// `i8`.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Runtime` if the computation failed.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let buffer = self.buffer("the elements");
        let mut bytes = vec![0; self.size() * self.dtype().host_bytes()];
        buffer.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits until the elements are there, and gives the array back. Traced arrays do not wait.
    ///
    /// # Errors
    /// `Runtime` if the computation failed.
    pub fn block_until_ready(&self) -> Result<&Array, Error> {
        match &self.kind {
            Kind::Concrete(buffer) => buffer.ready().map(|()| self),
            Kind::Traced { .. } => Ok(self),
        }
    }

    /// Whether reading the elements would not wait: they are there, or their computation has failed, which
    /// reading will tell. Traced arrays are ready.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let y = full([64, 64], 0.5f32).matmul(&full([64, 64], 2.0f32));
    /// y.block_until_ready()?;
    /// assert!(y.is_ready()?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `Runtime` if the plugin cannot tell.
    pub fn is_ready(&self) -> Result<bool, Error> {
        match &self.kind {
            Kind::Concrete(buffer) => buffer.is_ready(),
            Kind::Traced { .. } => Ok(true),
        }
    }
}

impl fmt::Debug for Array {
    /// The type alone, so that a model prints in a few lines; [`Display`](fmt::Display) shows the elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Concrete(_) => write!(f, "Array({})", self.aval),
            Kind::Traced { .. } => write!(f, "Traced({})", self.aval),
        }
    }
}
