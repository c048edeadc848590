//! [`FfiFrame`]: one call of a handler.

use super::attribute::FromFfiAttribute;
use super::attributes::FfiAttributes;
use crate::core::array::host_array::HostArray;
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::element::Element;
use crate::core::types::shape::Shape;
use std::array;

/// One call of a handler: its inputs, its attributes, and the results that it writes.
///
/// On a CPU the buffers are those of the program, without a copy. On a GPU they are copies in host
/// memory.
#[derive(Debug)]
pub struct FfiFrame<'a> {
    inputs: Vec<FfiInput<'a>>,
    outputs: Vec<FfiOutput<'a>>,
    attributes: FfiAttributes,
    device_ordinal: Option<usize>,
}

/// The elements of `N` inputs and `M` outputs.
type Slices<'f, T, const N: usize, const M: usize> = ([&'f [T]; N], [&'f mut [T]; M]);

/// An input of a call: an array that the handler reads.
#[derive(Clone, Debug)]
pub struct FfiInput<'a> {
    aval: Aval,
    bytes: &'a [u8],
    /// The index of the output that shares its memory.
    aliased: Option<usize>,
}

/// An output of a call: an array that the handler writes. Elements that it does not write have
/// arbitrary values, except for an output that shares the memory of an input.
#[derive(Debug)]
pub struct FfiOutput<'a> {
    aval: Aval,
    bytes: &'a mut [u8],
}

impl<'a> FfiFrame<'a> {
    /// Returns the frame of a call.
    pub(crate) fn new(
        inputs: Vec<FfiInput<'a>>,
        outputs: Vec<FfiOutput<'a>>,
        attributes: FfiAttributes,
        device_ordinal: Option<usize>,
    ) -> FfiFrame<'a> {
        FfiFrame { inputs, outputs, attributes, device_ordinal }
    }

    /// Returns the inputs.
    pub fn inputs(&self) -> &[FfiInput<'a>] {
        &self.inputs
    }

    /// Returns the outputs, to be written.
    pub fn outputs(&mut self) -> &mut [FfiOutput<'a>] {
        &mut self.outputs
    }

    /// Returns the inputs and the outputs.
    pub fn buffers(&mut self) -> (&[FfiInput<'a>], &mut [FfiOutput<'a>]) {
        (&self.inputs, &mut self.outputs)
    }

    /// Returns the elements of `N` inputs and of `M` outputs, all of the host type `T`.
    ///
    /// # Errors
    /// A message if the call has another number of inputs or outputs, or one of another dtype.
    ///
    /// ```
    /// use oxidax::ffi::{self, FfiFrame};
    /// use oxidax::prelude::*;
    /// ffi::register_ffi_target("docs.add", |frame: &mut FfiFrame| {
    ///     let ([x, y], [sum]) = frame.slices::<f32, 2, 1>()?;
    ///     for (sum, (x, y)) in sum.iter_mut().zip(x.iter().zip(y)) {
    ///         *sum = x + y;
    ///     }
    ///     Ok(())
    /// })?;
    /// let x = Array::from([1.0, 2.0]);
    /// assert_eq!(ffi::ffi_call("docs.add", x.aval(), [&x, &x]).to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn slices<T: Element, const N: usize, const M: usize>(
        &mut self,
    ) -> Result<Slices<'_, T, N, M>, String> {
        let counts = (self.inputs.len(), self.outputs.len());
        if counts != (N, M) {
            return Err(format!(
                "the handler takes {N} inputs and {M} outputs, got {} and {}",
                counts.0, counts.1
            ));
        }
        let inputs = self.inputs.iter().enumerate().map(|(index, input)| {
            input.as_slice().map_err(|message| format!("input {index}: {message}"))
        });
        let inputs: Vec<&[T]> = inputs.collect::<Result<_, String>>()?;
        let outputs = self.outputs.iter_mut().enumerate().map(|(index, output)| {
            output.as_mut_slice().map_err(|message| format!("output {index}: {message}"))
        });
        let outputs: Vec<&mut [T]> = outputs.collect::<Result<_, String>>()?;
        let mut outputs = outputs.into_iter();
        let outputs = array::from_fn(|_| outputs.next().expect("the number was checked"));
        Ok((array::from_fn(|index| inputs[index]), outputs))
    }

    /// Returns the attributes of the call.
    pub fn attributes(&self) -> &FfiAttributes {
        &self.attributes
    }

    /// Returns an attribute as a Rust value: `frame.attribute::<f32>("eps")?`.
    ///
    /// # Errors
    /// A message if there is none of this name, or it is of another type.
    pub fn attribute<T: FromFfiAttribute>(&self, name: &str) -> Result<T, String> {
        self.attributes.get(name)
    }

    /// Returns the index of the device that the program runs on, among those of the platform;
    /// `None` if the plugin does not report it.
    pub fn device_ordinal(&self) -> Option<usize> {
        self.device_ordinal
    }
}

macro_rules! types {
    ($($buffer:ident),*) => {$(
        impl $buffer<'_> {
            /// Returns the type.
            pub fn aval(&self) -> &Aval {
                &self.aval
            }

            /// Returns the axis sizes.
            pub fn shape(&self) -> &Shape {
                &self.aval.shape
            }

            /// Returns the dtype.
            pub fn dtype(&self) -> DType {
                self.aval.dtype
            }
        }
    )*};
}

types!(FfiInput, FfiOutput);

impl<'a> FfiInput<'a> {
    /// Returns an input of type `aval`. `aliased` is the output that shares its memory, whose
    /// initial elements it has.
    pub(crate) fn new(aval: Aval, bytes: &'a [u8], aliased: Option<usize>) -> FfiInput<'a> {
        FfiInput { aval, bytes, aliased }
    }

    /// Returns the elements, row-major.
    ///
    /// # Errors
    /// A message if `T` is not the host type of the dtype, or an output shares the memory of the
    /// input. That output then holds the elements until they are overwritten.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], String> {
        self.expect::<T>()?;
        let bytes = self.bytes()?;
        T::from_bytes(bytes).ok_or_else(|| format!("{} is not aligned", self.aval))
    }

    /// Returns the bytes of the elements, row-major. Dtypes below 8 bits are packed, the first
    /// element in the lowest bits.
    ///
    /// # Errors
    /// A message if an output shares the memory of the input.
    pub fn bytes(&self) -> Result<&'a [u8], String> {
        match self.aliased {
            None => Ok(self.bytes),
            Some(output) => Err(format!(
                "the memory of {} is that of output {output}: read it there",
                self.aval
            )),
        }
    }

    /// Copies the elements to a host array.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), and for dtypes below 8 bits.
    pub fn to_host(&self) -> Result<HostArray, String> {
        let bytes = self.bytes()?.to_vec();
        HostArray::from_bytes(bytes, self.aval.clone()).map_err(|error| error.to_string())
    }

    fn expect<T: Element>(&self) -> Result<(), String> {
        expect::<T>(&self.aval)
    }
}

impl<'a> FfiOutput<'a> {
    /// Returns an output of type `aval`.
    pub(crate) fn new(aval: Aval, bytes: &'a mut [u8]) -> FfiOutput<'a> {
        FfiOutput { aval, bytes }
    }

    /// Returns the elements for writing, row-major.
    ///
    /// # Errors
    /// A message if `T` is not the host type of the dtype.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], String> {
        expect::<T>(&self.aval)?;
        T::from_bytes_mut(self.bytes).ok_or_else(|| format!("{} is not aligned", self.aval))
    }

    /// Returns the bytes of the elements for writing, row-major. Dtypes below 8 bits are packed,
    /// the first element in the lowest bits.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Writes the elements of a host array.
    ///
    /// # Errors
    /// A message if it has another type.
    pub fn write(&mut self, elements: &HostArray) -> Result<(), String> {
        if !elements.aval().same_type(&self.aval) || elements.as_bytes().len() != self.bytes.len() {
            return Err(format!("the output is {}, got {}", self.aval, elements.aval()));
        }
        self.bytes.copy_from_slice(elements.as_bytes());
        Ok(())
    }
}

fn expect<T: Element>(aval: &Aval) -> Result<(), String> {
    match aval.dtype == T::DTYPE {
        true => Ok(()),
        false => Err(format!("it is {aval}, not {}", T::DTYPE)),
    }
}
