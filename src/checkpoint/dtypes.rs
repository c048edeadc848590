//! How dtypes and their bytes stand in a safetensors file.

use crate::core::DType;
use safetensors::Dtype;

/// Dtypes that both sides know. Files say `F8_E4M3` for the kind without infinities; their six-bit
/// floats are left out, for want of an agreed packing.
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

/// The file's dtype for ours, if it has one.
pub(super) fn to_file(dtype: DType) -> Option<Dtype> {
    PAIRS.iter().find(|pair| pair.0 == dtype).map(|pair| pair.1)
}

/// Our dtype for the file's, if there is one.
pub(super) fn from_file(dtype: Dtype) -> Option<DType> {
    PAIRS.iter().find(|pair| pair.1 == dtype).map(|pair| pair.0)
}

/// Host bytes as the file has them: four-bit elements two to a byte, the first in the low half.
pub(super) fn pack(bytes: Vec<u8>, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F4E2M1FN => {
            let half = |byte: Option<&u8>| byte.map_or(0, |byte| byte & 0xf);
            bytes.chunks(2).map(|pair| half(pair.first()) | half(pair.get(1)) << 4).collect()
        }
        _ => bytes,
    }
}

/// The file's bytes as the host has them: one byte for a four-bit element.
pub(super) fn unpack(bytes: &[u8], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F4E2M1FN => bytes.iter().flat_map(|byte| [byte & 0xf, byte >> 4]).collect(),
        _ => bytes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bit_elements_are_packed_low_half_first() {
        let packed = pack(vec![1, 2, 15, 0], DType::F4E2M1FN);
        assert_eq!(packed, [0x21, 0x0f]);
        assert_eq!(unpack(&packed, DType::F4E2M1FN), [1, 2, 15, 0]);
    }

    #[test]
    fn every_pair_goes_both_ways_at_one_width() {
        for (ours, files) in PAIRS {
            assert_eq!(from_file(files), Some(ours));
            assert_eq!(to_file(ours), Some(files));
            assert_eq!(ours.bits(), files.bitsize());
        }
    }
}
