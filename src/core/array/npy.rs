//! Arrays as `.npy` files.

use crate::core::array::host_array::HostArray;
use crate::core::types::dtype::DType;

/// The first bytes of a file of version 1.0.
const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";

/// Returns NumPy's description of a dtype. Types that NumPy does not have are raw bytes, as
/// `ml_dtypes` writes them.
fn description(dtype: DType) -> String {
    let bytes = dtype.host_bytes();
    match dtype {
        DType::Bool => "|b1".into(),
        DType::F16 | DType::F32 | DType::F64 => format!("<f{bytes}"),
        _ if dtype.is_complex() => format!("<c{bytes}"),
        _ if dtype.is_unsigned() => format!("{}u{bytes}", if bytes == 1 { '|' } else { '<' }),
        _ if dtype.is_signed() => format!("{}i{bytes}", if bytes == 1 { '|' } else { '<' }),
        _ => format!("|V{bytes}"),
    }
}

impl HostArray {
    /// Returns the array as a `.npy` file of NumPy. Types that NumPy does not have are raw bytes,
    /// as `ml_dtypes` writes them.
    ///
    /// ```
    /// use oxidax::core::HostArray;
    /// let bytes = HostArray::from_slice(&[1.0f32, 2.0], [2])?.to_npy();
    /// assert!(bytes.starts_with(b"\x93NUMPY"));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn to_npy(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// Returns the elements of a file that [`to_npy`](Self::to_npy) wrote.
    pub(crate) fn npy_elements(bytes: &[u8]) -> Option<&[u8]> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (_, elements) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        Some(elements)
    }
}

fn to_bytes(array: &HostArray) -> Vec<u8> {
    let sizes: String = array.shape().iter().map(|size| format!("{size}, ")).collect();
    let sizes = if array.shape().rank() > 1 { sizes.trim_end_matches(", ") } else { sizes.trim() };
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({sizes}), }}",
        description(array.dtype())
    );
    // Elements begin at a multiple of 64 bytes, after a line feed.
    let unpadded = MAGIC.len() + 2 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(array.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_aligned_and_read_back() {
        for shape in [&[][..], &[3], &[2, 3]] {
            let size = shape.iter().product::<usize>();
            let array = HostArray::from_slice(&vec![1.5f32; size], shape).expect("it fits");
            let bytes = to_bytes(&array);
            assert_eq!((bytes.len() - 4 * size) % 64, 0);
            assert_eq!(HostArray::npy_elements(&bytes), Some(array.as_bytes()));
        }
        assert_eq!(HostArray::npy_elements(b"\x93NUMPY\x01\x00\xff\xff"), None);
    }

    #[test]
    fn headers_are_those_of_numpy() {
        let header = |array: &HostArray| {
            String::from_utf8_lossy(&to_bytes(array)[10..]).split(" }").next().map(str::to_owned)
        };
        let row = HostArray::from_slice(&[1u8, 2], [2]).expect("it fits");
        let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,),";
        assert_eq!(header(&row).as_deref(), Some(text));
        let matrix = HostArray::from_slice(&[half::bf16::ONE; 6], [2, 3]).expect("it fits");
        let text = "{'descr': '|V2', 'fortran_order': False, 'shape': (2, 3),";
        assert_eq!(header(&matrix).as_deref(), Some(text));
    }
}
