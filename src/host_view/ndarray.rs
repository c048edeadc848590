//! Arrays of the crate `ndarray`: views without a copy, and arrays that keep them.

use super::HostElements;
use crate::core::{Array, Element, Error, FfiInput, FfiOutput};
use ::ndarray::{ArrayBase, ArrayViewD, ArrayViewMutD, Data, Dimension, IxDyn};

impl<T: Element> HostElements<T> {
    /// Returns the elements as an `ndarray` view, without a copy.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = arange(6).reshape([2, 3]);
    /// let elements = x.host_view::<i32>()?;
    /// let view = elements.as_ndarray();
    /// assert_eq!(view.sum_axis(ndarray::Axis(1)).into_iter().collect::<Vec<_>>(), [3, 12]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn as_ndarray(&self) -> ArrayViewD<'_, T> {
        let shape = IxDyn(self.shape().dims());
        ArrayViewD::from_shape(shape, self.as_slice()).expect("the slice has the array's elements")
    }
}

impl<'a> FfiInput<'a> {
    /// Returns the elements as an `ndarray` view, without a copy.
    ///
    /// # Errors
    /// As [`FfiInput::as_slice`].
    pub fn as_ndarray<T: Element>(&self) -> Result<ArrayViewD<'a, T>, String> {
        let shape = IxDyn(self.shape().dims());
        ArrayViewD::from_shape(shape, self.as_slice()?).map_err(|error| error.to_string())
    }
}

impl FfiOutput<'_> {
    /// Returns the elements as an `ndarray` view for writing, without a copy.
    ///
    /// # Errors
    /// As [`FfiOutput::as_mut_slice`].
    ///
    /// ```
    /// use oxidax::ffi::{self, FfiFrame};
    /// use oxidax::prelude::*;
    /// ffi::register_ffi_target("docs.transposed", |frame: &mut FfiFrame| {
    ///     let (inputs, outputs) = frame.buffers();
    ///     outputs[0].as_ndarray_mut::<i32>()?.assign(&inputs[0].as_ndarray::<i32>()?.t());
    ///     Ok(())
    /// })?;
    /// let x = arange(6).reshape([2, 3]);
    /// let y = ffi::ffi_call("docs.transposed", Aval::new(DType::I32, [3, 2]), [&x]);
    /// assert_eq!(y.to_vec::<i32>()?, [0, 3, 1, 4, 2, 5]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn as_ndarray_mut<T: Element>(&mut self) -> Result<ArrayViewMutD<'_, T>, String> {
        let shape = self.shape().to_vec();
        let elements = self.as_mut_slice()?;
        ArrayViewMutD::from_shape(IxDyn(&shape), elements).map_err(|error| error.to_string())
    }
}

impl Array {
    /// Returns an array of the elements of an `ndarray` array, which it keeps. Elements in
    /// row-major order in an owned array are not copied where [`Array::from_vec`] does not copy;
    /// others are copied once.
    ///
    /// # Errors
    /// `Plugin` or `Runtime` if there is no device, or it is out of memory.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Array::from_ndarray(ndarray::array![[1.0f32, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x.aval().to_string(), "f32[2,2]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn from_ndarray<T, S, D>(elements: ArrayBase<S, D>) -> Result<Array, Error>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        let shape = elements.shape().to_vec();
        let owned = elements.into_owned();
        let elements = match owned.is_standard_layout() {
            true => match owned.into_raw_vec_and_offset() {
                (elements, None) => elements,
                (elements, Some(0)) if elements.len() == shape.iter().product::<usize>() => {
                    elements
                }
                (elements, Some(offset)) => {
                    let size = shape.iter().product::<usize>();
                    elements[offset..offset + size].to_vec()
                }
            },
            false => owned.iter().copied().collect(),
        };
        Array::from_vec(elements, shape)
    }
}
