//! [`HostElements`]: the elements of an array, borrowed from the plugin's memory.

use crate::core::{Array, Aval, Element, Error, Loc, OpErrorKind, Shape, trace};
use crate::runtime::{self, SharedView};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// The elements of an array, row-major, in the plugin's memory. Dereferences to a slice.
///
/// It keeps the memory alive and unchanged, also if the array is dropped or donated: a program that
/// receives the array as donated while a view exists works on a copy.
///
/// Made by [`Array::host_view`].
pub struct HostElements<T> {
    view: SharedView,
    aval: Arc<Aval>,
    _elements: PhantomData<T>,
}

impl<T: Element> HostElements<T> {
    /// Returns the elements, row-major.
    pub fn as_slice(&self) -> &[T] {
        let bytes = self.view.bytes().unwrap_or_default();
        T::from_bytes(bytes).expect("the view was checked when it was made")
    }

    /// Returns the axis sizes.
    pub fn shape(&self) -> &Shape {
        &self.aval.shape
    }
}

impl<T: Element> Deref for HostElements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T> fmt::Debug for HostElements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostElements({})", self.aval)
    }
}

impl Array {
    /// Waits for the elements and borrows them without a copy. Only arrays on one CPU device have
    /// memory that the host can read.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Op` (dtype) if `T` is not the array's dtype. `Runtime` if the array is on several devices
    /// or not on a CPU, its memory is not row-major, it was donated, or its computation failed.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = arange(3);
    /// let elements = x.host_view::<i32>()?;
    /// assert_eq!(elements.iter().sum::<i32>(), 3);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn host_view<T: Element>(&self) -> Result<HostElements<T>, Error> {
        let loc = Loc::caller();
        let buffer = self.buffer("a view of its elements");
        if T::DTYPE != self.dtype() {
            let message = format!("asked for {}, the array is {}", T::DTYPE, self.aval());
            return Err(trace::op_error(OpErrorKind::DType, "host_view", message, loc));
        }
        let view = runtime::shared_view(buffer, self.aval()).map_err(|error| error.at(loc))?;
        let Some(bytes) = view.bytes() else {
            return Err(Error::Runtime {
                doing: "viewing an array".into(),
                code: None,
                loc,
                message: format!("{} is in memory that the host cannot read", self.aval()),
                help: Some("copy the elements with `to_vec`".into()),
            });
        };
        if T::from_bytes(bytes).is_none() {
            let message = format!("the memory of {} does not hold {}", self.aval(), T::DTYPE);
            return Err(trace::op_error(OpErrorKind::DType, "host_view", message, loc));
        }
        Ok(HostElements { view, aval: self.shared_aval().clone(), _elements: PhantomData })
    }

    /// Returns an array of the elements of a vector, row-major, which keeps the vector. The default
    /// device uses its memory without a copy if it is a CPU and the memory is aligned to 64 bytes;
    /// otherwise the elements are copied. A program that receives the array as donated works on a
    /// copy.
    ///
    /// # Errors
    /// `Op` (shape) if the number of elements differs from the size of the shape. `Plugin` or
    /// `Runtime` if there is no device, or it is out of memory.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Array::from_vec(vec![1.0f32, 2.0, 3.0], [3])?;
    /// assert_eq!((&x * 2.0).to_vec::<f32>()?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: impl Into<Shape>) -> Result<Array, Error> {
        struct Owned<T>(Vec<T>);
        impl<T: Element> AsRef<[u8]> for Owned<T> {
            fn as_ref(&self) -> &[u8] {
                T::as_bytes(&self.0)
            }
        }
        let loc = Loc::caller();
        let aval = Aval::new(T::DTYPE, shape);
        if aval.size() != elements.len() {
            let message = format!("{aval} has {} elements, got {}", aval.size(), elements.len());
            return Err(trace::op_error(OpErrorKind::Shape, "from_vec", message, loc));
        }
        runtime::put_shared(Arc::new(Owned(elements)), &aval).map_err(|error| error.at(loc))
    }

    /// Returns the address of the elements in the memory of the array's device, once they are
    /// computed. It is valid until the array is dropped or donated, and may be read only by code
    /// that knows the layout of the elements there.
    ///
    /// Throws `Tracer` if the array is traced.
    ///
    /// # Errors
    /// `Runtime` if the array is on several devices or was donated, or its computation failed.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = arange(3);
    /// let elements = x.host_view::<i32>()?;
    /// assert_eq!(x.unsafe_buffer_pointer()?, elements.as_ptr() as usize);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn unsafe_buffer_pointer(&self) -> Result<usize, Error> {
        let loc = Loc::caller();
        let buffer = self.buffer("the address of its elements");
        runtime::buffer_address(buffer, self.aval()).map_err(|error| error.at(loc))
    }
}
