//! [`Array`]: the array type of all computations.

use crate::core::array::backend::backend;
use crate::core::error::throw;
use crate::core::error::{Error, Loc, OpErrorKind};
use crate::core::options::{
    DEVICE_TO_HOST, TransferDirection, TransferGuard, TransferRequest, check_transfer, is_outside,
};
use crate::core::spans::{Details, EventKind, Span};
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::element::Element;
use crate::core::types::shape::Shape;
use std::any::Any;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The elements of a concrete array, on one device or several. Implemented by `runtime`.
pub trait Buffer: fmt::Debug + Send + Sync {
    /// Waits for the elements and copies them to `dst`, row-major. Sub-byte types take one byte,
    /// signed ones an `i8`.
    ///
    /// # Errors
    /// Errors of the computation that produces the elements, or of the copy.
    fn read(&self, dst: &mut [u8]) -> Result<(), Error>;
    /// Notes that the line `loc` is about to read the elements.
    fn note_read(&self, loc: Loc);
    /// Starts to copy the elements to the host, so that a later `read` does not wait for a copy.
    ///
    /// # Errors
    /// If the buffer was donated, or the plugin cannot copy.
    fn copy_to_host_async(&self) -> Result<(), Error>;
    /// Waits until the elements are computed.
    ///
    /// # Errors
    /// Errors of the computation that produces the elements.
    fn ready(&self) -> Result<(), Error>;
    /// Returns true if the elements are computed or their computation has failed.
    ///
    /// # Errors
    /// If the plugin does not report it.
    fn is_ready(&self) -> Result<bool, Error>;
    /// Supports downcasts to the type of `runtime`.
    fn as_any(&self) -> &dyn Any;
    /// Supports downcasts by the only owner, to change the buffer.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// The trace id of arrays without elements. No trace has this id.
pub(crate) const NO_TRACE: u64 = 0;

#[derive(Clone)]
pub(crate) enum Kind {
    Concrete(Arc<dyn Buffer>),
    Traced { trace: u64, var: u32 },
}

/// An n-dimensional array, concrete or traced.
///
/// A concrete array has elements on a device. A traced array represents a value of a program under
/// construction. Both have this type, so one function serves both. Cloning is cheap and shares the
/// elements. Dtype and shape are values, not types.
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
    /// Shared, because arrays are cloned far more often than avals are created.
    aval: Arc<Aval>,
    pub(crate) kind: Kind,
}

// Elements never change once computed, so an array may be read after a panic.
impl UnwindSafe for Array {}
impl RefUnwindSafe for Array {}

impl Array {
    pub(crate) fn traced(aval: impl Into<Arc<Aval>>, trace: u64, var: u32) -> Array {
        Array { aval: aval.into(), kind: Kind::Traced { trace, var } }
    }

    /// Creates an array with a type and without elements, as `eval_shape` returns it and
    /// `make_program` and `lower` accept it. No operation applies to it.
    #[doc(alias = "ShapeDtypeStruct")]
    pub fn of_type(aval: Aval) -> Array {
        Array::of_shared_type(Arc::new(aval))
    }

    pub(crate) fn of_shared_type(aval: Arc<Aval>) -> Array {
        Array::traced(aval, NO_TRACE, 0)
    }

    /// Creates a concrete array over a buffer of `runtime`.
    pub(crate) fn concrete(aval: impl Into<Arc<Aval>>, buffer: Arc<dyn Buffer>) -> Array {
        Array { aval: aval.into(), kind: Kind::Concrete(buffer) }
    }

    /// Returns the aval for sharing with other arrays.
    pub(crate) fn shared_aval(&self) -> &Arc<Aval> {
        &self.aval
    }

    /// Copies `elements`, row-major, to the default device as an array of shape `shape`.
    ///
    /// # Errors
    /// [`Error::Op`] (shape) if the number of elements differs from the size of the shape. `Plugin`
    /// and `Runtime` if there is no device, or it is out of memory.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(x.shape().dims(), [2, 2]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "asarray")]
    #[track_caller]
    pub fn from_slice<T: Element>(elements: &[T], shape: impl Into<Shape>) -> Result<Array, Error> {
        Array::from_bytes(T::as_bytes(elements), T::DTYPE, shape)
    }

    /// Copies raw elements, row-major in native byte order, to the default device. Sub-byte dtypes
    /// take one byte per element, `i4` and `i2` an `i8`.
    ///
    /// # Errors
    /// As [`Array::from_slice`].
    #[track_caller]
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: impl Into<Shape>) -> Result<Array, Error> {
        let aval = Aval::new(dtype, shape);
        let loc = Loc::caller();
        aval.check_size("the array")
            .map_err(|error| throw::rule_error("from_slice", error, loc))?;
        let expected = aval.size().saturating_mul(dtype.host_bytes());
        if bytes.len() != expected {
            let message = format!(
                "{aval} takes {expected} bytes ({} elements of {}), got {}",
                aval.size(),
                dtype.host_bytes(),
                bytes.len()
            );
            return Err(throw::op_error(OpErrorKind::Shape, "from_slice", message, loc));
        }
        loc.scope(|| backend().put(bytes, &aval)).map_err(|error| error.at(loc))
    }

    /// Returns the type: dtype, shape, weakness, memory, and sharding over explicit mesh axes.
    #[doc(alias = "typeof")]
    pub fn aval(&self) -> &Aval {
        &self.aval
    }

    /// Returns the axis sizes.
    pub fn shape(&self) -> &Shape {
        &self.aval.shape
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.aval.dtype
    }

    /// Returns the number of axes.
    #[doc(alias = "ndim")]
    pub fn rank(&self) -> usize {
        self.aval.rank()
    }

    /// Returns the number of elements.
    pub fn size(&self) -> usize {
        self.aval.size()
    }

    /// Returns true if the array is a value of a program being traced.
    pub fn is_traced(&self) -> bool {
        matches!(self.kind, Kind::Traced { .. })
    }

    /// Returns the axis sizes as an array of `N` sizes: `let [b, t, c] = x.dims();`.
    ///
    /// Throws `Op` (shape) if the rank is not `N`.
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> [usize; N] {
        match <[usize; N]>::try_from(self.shape().dims()) {
            Ok(dims) => dims,
            Err(_) => throw::throw_op(
                OpErrorKind::Shape,
                "dims",
                format!("expected {N} axes, got {} in {}", self.rank(), self.aval),
                Loc::caller(),
            ),
        }
    }

    /// Returns the array if it has this shape. Throws `Op` (shape) otherwise.
    #[track_caller]
    pub fn expect_shape(&self, shape: impl Into<Shape>) -> &Array {
        let expected = shape.into();
        if *self.shape() != expected {
            throw::throw_op(
                OpErrorKind::Shape,
                "expect_shape",
                format!("expected {expected}, got {}", self.aval),
                Loc::caller(),
            );
        }
        self
    }

    #[track_caller]
    pub(crate) fn buffer(&self, requested: &str) -> &Arc<dyn Buffer> {
        match &self.kind {
            Kind::Concrete(buffer) => buffer,
            Kind::Traced { .. } => throw::throw_needs_value(&self.aval, requested, Loc::caller()),
        }
    }

    /// Waits for the element of an array of size 1 and returns it.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Op` if the size is not 1 or `T` is not the array's dtype. `Runtime` if the computation
    /// failed.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        let loc: Loc = Loc::caller();
        if self.size() != 1 {
            let message = format!("needs an array with one element, got {}", self.aval);
            self.buffer("the element");
            return Err(throw::op_error(OpErrorKind::Shape, "item", message, loc));
        }
        Ok(self.read::<T>("item", loc)?[0])
    }

    /// Waits for the elements and returns them, row-major.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Op` (dtype) if `T` is not the array's dtype. `Runtime` if the computation failed.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.read::<T>("to_vec", Loc::caller())
    }

    #[track_caller]
    fn read<T: Element>(&self, name: &str, loc: Loc) -> Result<Vec<T>, Error> {
        let buffer = self.buffer("the elements");
        self.check_read(Location::caller(), loc)?;
        if T::DTYPE != self.dtype() {
            let message = format!("asked for {}, the array is {}", T::DTYPE, self.aval);
            return Err(throw::op_error(OpErrorKind::DType, name, message, loc));
        }
        let read = T::read(self.size(), |bytes| read_at(&**buffer, bytes, loc));
        read.map_err(|error| error.computing(&self.aval).at(loc))
    }

    /// Waits for the elements and returns their bytes, row-major. Sub-byte dtypes take one byte per
    /// element, `i4` and `i2` an `i8`.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Runtime` if the computation failed.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let loc = Loc::caller();
        self.check_read(Location::caller(), loc)?;
        self.read_bytes(loc).map_err(|error| error.at(loc))
    }

    /// Checks an implicit transfer to the host that the user wrote.
    fn check_read(&self, caller: &Location<'_>, loc: Loc) -> Result<(), Error> {
        if DEVICE_TO_HOST.get() == TransferGuard::Allow || !is_outside(caller) {
            return Ok(());
        }
        let direction = TransferDirection::DeviceToHost;
        check_transfer(direction, TransferRequest::Implicit, self.aval(), loc)
    }

    /// Reads the bytes for the line `loc`, without a location for errors.
    #[track_caller]
    pub(super) fn read_bytes(&self, loc: Loc) -> Result<Vec<u8>, Error> {
        let buffer = self.buffer("the elements");
        let mut bytes = vec![0; self.size() * self.dtype().host_bytes()];
        read_at(&**buffer, &mut bytes, loc).map_err(|error| error.computing(&self.aval))?;
        Ok(bytes)
    }

    /// Waits until the elements are computed and returns the array. Traced arrays do not wait.
    ///
    /// # Errors
    /// `Runtime` if the computation failed.
    #[track_caller]
    pub fn block_until_ready(&self) -> Result<&Array, Error> {
        let loc = Loc::caller();
        match &self.kind {
            Kind::Concrete(buffer) => {
                let _span = Span::at(EventKind::Wait, loc, || "");
                let ready = buffer.ready().map(|()| self);
                ready.map_err(|error| error.computing(&self.aval).at(loc))
            }
            Kind::Traced { .. } => Ok(self),
        }
    }

    /// Starts to copy the elements to the host and returns at once. A later read of the elements
    /// waits for this copy instead of starting one. Traced arrays, and arrays in host memory, are
    /// not copied.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let loss = full([], 2.0f32).sqrt();
    /// loss.copy_to_host_async()?;
    /// // … launch the next step …
    /// println!("{}", loss.item::<f32>()?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `Runtime` if the array was donated, or the plugin cannot copy.
    #[track_caller]
    pub fn copy_to_host_async(&self) -> Result<(), Error> {
        let loc = Loc::caller();
        match &self.kind {
            Kind::Concrete(buffer) => {
                let _span = Span::at(EventKind::ToHost, loc, || "start");
                buffer.copy_to_host_async().map_err(|error| error.at(loc))
            }
            Kind::Traced { .. } => Ok(()),
        }
    }

    /// Returns true if reading the elements would not wait. They are computed, or their computation
    /// has failed, and reading returns the error. Traced arrays are ready.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = full([64, 64], 0.5f32).matmul(&full([64, 64], 2.0f32));
    /// y.block_until_ready()?;
    /// assert!(y.is_ready()?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `Runtime` if the plugin does not report it.
    pub fn is_ready(&self) -> Result<bool, Error> {
        match &self.kind {
            Kind::Concrete(buffer) => buffer.is_ready(),
            Kind::Traced { .. } => Ok(true),
        }
    }
}

/// Reads the elements of a buffer for the line `loc`, after waiting for them.
fn read_at(buffer: &dyn Buffer, bytes: &mut [u8], loc: Loc) -> Result<(), Error> {
    buffer.note_read(loc);
    let _span = Span::at(EventKind::ToHost, loc, || Details::new("", "bytes", bytes.len()));
    buffer.read(bytes)
}

impl fmt::Debug for Array {
    /// Writes the type only, so that a model prints in a few lines. [`Display`](fmt::Display)
    /// writes the elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Concrete(_) => write!(f, "Array({})", self.aval),
            Kind::Traced { .. } => write!(f, "Traced({})", self.aval),
        }
    }
}
