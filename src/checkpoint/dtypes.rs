//! Encoding of dtypes in safetensors files.
//!
//! The format has names for twenty of our dtypes. The other eight are stored as a type with the
//! same bits (`i4` as `I8`, `c128` as pairs of `F64`), and the file's metadata records the dtype.
//! Every reader of the format can read such a file, and [`load`](super::load) restores the dtype.

use crate::core::DType;
use safetensors::Dtype;

/// Dtypes that exist on both sides. `F8_E4M3` in files is the variant without infinities. The
/// format's six-bit floats are left out: their packing is not specified.
const PAIRS: [(DType, Dtype); 20] = [
    (DType::Bool, Dtype::BOOL),
    (DType::F4E2M1FN, Dtype::F4),
    (DType::F8E5M2, Dtype::F8_E5M2),
    (DType::F8E4M3FN, Dtype::F8_E4M3),
    (DType::F8E8M0FNU, Dtype::F8_E8M0),
    (DType::F8E4M3FNUZ, Dtype::F8_E4M3FNUZ),
    (DType::F8E5M2FNUZ, Dtype::F8_E5M2FNUZ),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::BF16, Dtype::BF16),
    (DType::F16, Dtype::F16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::C64, Dtype::C64),
];

/// Returns our dtype for the file's, if there is one.
pub(super) fn from_file(dtype: Dtype) -> Option<DType> {
    PAIRS.iter().find(|pair| pair.1 == dtype).map(|pair| pair.0)
}

/// The stored type of an array.
#[derive(Debug, PartialEq)]
pub(super) struct StoredForm {
    /// The file's element type.
    pub(super) dtype: Dtype,
    /// The axis sizes in the file, with one more axis for pairs.
    pub(super) shape: Vec<usize>,
    /// Our dtype, if the metadata has to record it.
    pub(super) recorded: Option<DType>,
}

/// Returns how an array of this type is stored.
pub(super) fn stored_form(dtype: DType, shape: &[usize]) -> StoredForm {
    let named = PAIRS.iter().find(|pair| pair.0 == dtype).map(|pair| pair.1);
    let size = shape.iter().fold(1usize, |size, &dim| size.saturating_mul(dim));
    match named {
        // Four-bit elements are packed two to a byte, so their number must be even.
        Some(named) if size.saturating_mul(dtype.bits()).is_multiple_of(8) => {
            StoredForm { dtype: named, shape: shape.to_vec(), recorded: None }
        }
        _ if dtype == DType::C128 => {
            let shape = shape.iter().copied().chain([2]).collect();
            StoredForm { dtype: Dtype::F64, shape, recorded: Some(dtype) }
        }
        _ => {
            let holder = if dtype.is_signed() { Dtype::I8 } else { Dtype::U8 };
            StoredForm { dtype: holder, shape: shape.to_vec(), recorded: Some(dtype) }
        }
    }
}

/// Returns the shape of an array whose dtype is recorded in the metadata, or `None` if the stored
/// type contradicts it.
pub(super) fn recorded_shape(dtype: DType, file: Dtype, shape: &[usize]) -> Option<Vec<usize>> {
    let ours = match dtype {
        DType::C128 => shape.split_last().filter(|(last, _)| **last == 2)?.1,
        _ => shape,
    };
    let expected = StoredForm { dtype: file, shape: shape.to_vec(), recorded: Some(dtype) };
    (stored_form(dtype, ours) == expected).then(|| ours.to_vec())
}

/// Converts host bytes to file bytes. Four-bit elements are packed two to a byte, the first in the
/// low half.
pub(super) fn pack(bytes: Vec<u8>, file: Dtype) -> Vec<u8> {
    match file {
        Dtype::F4 => {
            let half = |byte: Option<&u8>| byte.map_or(0, |byte| byte & 0xf);
            bytes.chunks(2).map(|pair| half(pair.first()) | half(pair.get(1)) << 4).collect()
        }
        _ => bytes,
    }
}

/// Converts file bytes to host bytes, with one byte per four-bit element.
pub(super) fn unpack(bytes: Vec<u8>, file: Dtype) -> Vec<u8> {
    match file {
        Dtype::F4 => bytes.iter().flat_map(|byte| [byte & 0xf, byte >> 4]).collect(),
        _ => bytes,
    }
}

/// Returns the first element whose byte is not a valid value of the dtype, with its position.
pub(super) fn invalid_byte(bytes: &[u8], dtype: DType) -> Option<(usize, u8)> {
    if !dtype.is_bool() && dtype.bits() >= 8 {
        return None;
    }
    let allowed = |byte: u8| match dtype {
        DType::F4E2M1FN => byte < 16,
        _ => {
            let (least, most) = dtype.int_range();
            let value = if dtype.is_signed() { i128::from(byte as i8) } else { i128::from(byte) };
            (least..=most).contains(&value)
        }
    };
    let index = bytes.iter().position(|&byte| !allowed(byte))?;
    Some((index, bytes[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bit_elements_are_packed_low_half_first() {
        let packed = pack(vec![1, 2, 15, 0], Dtype::F4);
        assert_eq!(packed, [0x21, 0x0f]);
        assert_eq!(unpack(packed, Dtype::F4), [1, 2, 15, 0]);
    }

    #[test]
    fn every_dtype_is_stored_with_equal_bits() {
        for dtype in DType::all() {
            for shape in [&[][..], &[3], &[2, 5], &[0]] {
                let StoredForm { dtype: file, shape: stored, recorded } = stored_form(dtype, shape);
                let size = |shape: &[usize]| shape.iter().product::<usize>();
                assert!((size(&stored) * file.bitsize()).is_multiple_of(8), "{dtype}");
                match recorded {
                    None => {
                        assert_eq!((from_file(file), &stored[..]), (Some(dtype), shape));
                        assert_eq!(dtype.bits(), file.bitsize());
                    }
                    Some(recorded) => {
                        assert_eq!(recorded, dtype);
                        assert_eq!(
                            size(&stored) * file.bitsize() / 8,
                            size(shape) * dtype.host_bytes()
                        );
                        assert_eq!(recorded_shape(dtype, file, &stored).as_deref(), Some(shape));
                        assert_eq!(recorded_shape(dtype, Dtype::I32, &stored), None);
                    }
                }
            }
        }
        assert_eq!(stored_form(DType::F4E2M1FN, &[3]).dtype, Dtype::U8);
        assert_eq!(recorded_shape(DType::C128, Dtype::F64, &[2, 3]), None);
        // A dtype with its own name is never recorded under another.
        assert_eq!(recorded_shape(DType::F32, Dtype::U8, &[4]), None);
    }

    #[test]
    fn invalid_bytes_of_narrow_dtypes_are_found() {
        assert_eq!(invalid_byte(&[0, 1, 2], DType::Bool), Some((2, 2)));
        assert_eq!(invalid_byte(&[7, 0xf8, 0xf7], DType::I4), Some((2, 0xf7)));
        assert_eq!(invalid_byte(&[3, 4], DType::U2), Some((1, 4)));
        assert_eq!(invalid_byte(&[15, 16], DType::F4E2M1FN), Some((1, 16)));
        assert_eq!(invalid_byte(&[255], DType::U8), None);
        assert_eq!(invalid_byte(&[255], DType::F8E3M4), None);
    }
}
