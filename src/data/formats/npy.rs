//! NumPy's `.npy` files.

use super::npy_header::{Header, parse};
use crate::core::{Aval, DType, Error, HostArray};
use crate::data::files::{File, Handle};
use crate::data::origin::RecordOrigin;
use crate::data::source::Source;
use std::fmt;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads the array of an `.npy` file: versions 1 to 3, either byte order, either memory order.
///
/// # Errors
/// [`Error::Io`] naming the file and the byte if the file is truncated, longer than its header
/// says, or has a dtype that oxidax does not have (text, objects, structures).
///
/// ```no_run
/// use oxidax::data;
/// let images = data::npy("images.npy")?;
/// println!("{}", images.aval());
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// NumPy documentation: numpy.lib.format.
pub fn npy(file: impl Into<File>) -> Result<HostArray, Error> {
    let file = file.into();
    let handle = file.open()?;
    let bytes = handle.exactly(0, handle.len(), "the file")?;
    from_bytes(&bytes).map_err(|(at, message)| file.damaged(at, message))
}

/// Reads an array from the bytes of an `.npy` file. An error holds the offset of the wrong byte.
pub(super) fn from_bytes(bytes: &[u8]) -> Result<HostArray, (u64, String)> {
    let (header, start) = header(bytes)?;
    let size = size_of(&header, start)?;
    let elements = &bytes[start..];
    if elements.len() as u64 != size {
        let (found, shape) = (elements.len(), &header.shape);
        let dtype = header.dtype;
        return Err((
            bytes.len() as u64,
            format!("{found} bytes of elements, the header says {size} for {dtype}{shape:?}"),
        ));
    }
    let bytes = to_native_order(&header, elements, start as u64)?;
    let bytes = if header.fortran && header.shape.len() > 1 {
        row_major(&bytes, &header.shape, header.dtype.host_bytes())
    } else {
        bytes
    };
    let aval = Aval::new(header.dtype, &header.shape[..]);
    HostArray::from_bytes(bytes, aval).map_err(|error| (start as u64, error.to_string()))
}

/// Parses the header, and returns it with the offset of the elements.
fn header(bytes: &[u8]) -> Result<(Header, usize), (u64, String)> {
    if !bytes.starts_with(MAGIC) {
        let found = &bytes[..bytes.len().min(MAGIC.len())];
        let message = format!("an npy file begins with \\x93NUMPY, this one with {found:02x?}");
        return Err((0, message));
    }
    let version = bytes.get(6).copied().unwrap_or_default();
    let width = match version {
        1 => 2,
        2 | 3 => 4,
        other => {
            return Err((
                6,
                format!("unknown version {other} of the format; supported are 1 to 3"),
            ));
        }
    };
    let cut = |at: usize| (bytes.len() as u64, format!("the header should reach byte {at}"));
    let length = bytes.get(8..8 + width).ok_or_else(|| cut(8 + width))?;
    let length = length.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let start = 8 + width + length;
    let text = bytes.get(8 + width..start).ok_or_else(|| cut(start))?;
    let text = std::str::from_utf8(text).map_err(|error| {
        let at = 8 + width + error.valid_up_to();
        (at as u64, "the header is not UTF-8".to_owned())
    })?;
    let header = parse(text).map_err(|message| (8 + width as u64, message))?;
    Ok((header, start))
}

/// Returns the number of bytes of the elements.
fn size_of(header: &Header, start: usize) -> Result<u64, (u64, String)> {
    let width = header.dtype.host_bytes() as u64;
    let sizes = header.shape.iter().map(|&size| size as u64);
    // Zero first: sizes whose product overflows hold nothing if one axis is empty.
    if header.shape.contains(&0) {
        return Ok(0);
    }
    let size = sizes.clone().try_fold(width, |product, size| product.checked_mul(size));
    size.filter(|&size| isize::try_from(size).is_ok())
        .ok_or_else(|| (start as u64, format!("axis sizes {:?} overflow", header.shape)))
}

/// Converts elements to the host's byte order.
fn to_native_order(header: &Header, bytes: &[u8], start: u64) -> Result<Vec<u8>, (u64, String)> {
    if header.dtype.is_bool()
        && let Some(at) = bytes.iter().position(|&byte| byte > 1)
    {
        return Err((start + at as u64, format!("{} is not a bool", bytes[at])));
    }
    let mut bytes = bytes.to_vec();
    if header.swapped {
        let width = header.dtype.host_bytes();
        let part = match header.dtype {
            DType::C64 | DType::C128 => width / 2,
            _ => width,
        };
        bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}

/// Converts column-major elements to row-major order.
fn row_major(bytes: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut strides = vec![width; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let mut index = vec![0; shape.len()];
    let mut rows = Vec::with_capacity(bytes.len());
    while rows.len() < bytes.len() {
        let at: usize = index.iter().zip(&strides).map(|(index, stride)| index * stride).sum();
        rows.extend_from_slice(&bytes[at..at + width]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    rows
}

/// The rows of an `.npy` file with random access. The file may be larger than memory.
///
/// ```no_run
/// use oxidax::data::{Npy, Source};
/// let rows = Npy::open("embeddings.npy")?.shuffled(1).stream().batch(256);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct Npy {
    handle: Handle,
    header: Header,
    start: u64,
    /// Bytes per row.
    row: u64,
}

impl Npy {
    /// Opens an array of at least one axis, stored in row-major order.
    ///
    /// # Errors
    /// As [`npy`], and [`Error::Io`] if the array has no axes or is stored in Fortran order.
    pub fn open(file: impl Into<File>) -> Result<Npy, Error> {
        let file = file.into();
        let handle = file.open()?;
        // A header of version 1 is shorter. Later versions store its length.
        let first = handle.exactly(0, handle.len().min(12), "the header")?;
        let length = match first.get(6) {
            Some(2 | 3) if first.len() == 12 => {
                12 + u64::from(u32::from_le_bytes([first[8], first[9], first[10], first[11]]))
            }
            _ => 10 + u64::from(u16::MAX),
        };
        let bytes = handle.exactly(0, handle.len().min(length), "the header")?;
        let damaged = |(at, message): (u64, String)| file.damaged(at, message);
        let (header, start) = header(&bytes).map_err(damaged)?;
        let size = size_of(&header, start).map_err(damaged)?;
        let start = start as u64;
        if handle.len() - start != size {
            let found = handle.len() - start;
            let message = format!(
                "{found} bytes of elements, the header says {size} for {}{:?}",
                header.dtype, header.shape
            );
            return Err(file.damaged(handle.len(), message));
        }
        let Some(&rows) = header.shape.first() else {
            return Err(file.damaged(start, "an array without axes has no rows"));
        };
        if header.fortran && header.shape.len() > 1 {
            let message = "the array is stored in Fortran order, so its rows are not contiguous; \
                           `data::npy` reads it completely, or call `np.ascontiguousarray` before \
                           saving";
            return Err(file.damaged(start, message));
        }
        let row = size.checked_div(rows as u64).unwrap_or(0);
        Ok(Npy { handle, header, start, row })
    }

    /// Returns the type of a row.
    pub fn row_aval(&self) -> Aval {
        Aval::new(self.header.dtype, &self.header.shape[1..])
    }
}

impl Source for Npy {
    type Record = HostArray;

    fn len(&self) -> usize {
        self.header.shape[0]
    }

    fn get(&self, index: usize) -> Result<HostArray, Error> {
        let at = self.start + index as u64 * self.row;
        let bytes = self.handle.exactly(at, self.row, "a row")?;
        let bytes = to_native_order(&self.header, &bytes, at)
            .map_err(|(at, message)| self.handle.file().damaged(at, message))?;
        HostArray::from_bytes(bytes, self.row_aval())
    }

    fn origin(&self, index: usize) -> Option<RecordOrigin> {
        Some(RecordOrigin::row(self.handle.file().name().clone(), index as u64))
    }
}

impl fmt::Debug for Npy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Npy({}, {} rows of {})", self.handle.file(), self.len(), self.row_aval())
    }
}
