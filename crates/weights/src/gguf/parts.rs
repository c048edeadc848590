//! [`QuantizedBlocks`]: integers, scales and minimums of blocks, for quantized products.

use super::blocks::scale;
use super::{GgmlType, k_blocks};
use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::source::reserved;
use crate::tensor::StoredTensor;

/// A quantized tensor as integers, with a scale and perhaps a minimum for each block along the last
/// axis: an element is `scale · integer + minimum`.
///
/// [`StoredTensor::read_quantized`] returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedBlocks {
    /// The number of elements with a common scale.
    pub block: usize,
    /// The integers, in row-major order.
    pub integers: Vec<i8>,
    /// The scale of each block.
    pub scales: Vec<f32>,
    /// The minimum of each block, if the type has minimums.
    pub minimums: Option<Vec<f32>>,
}

impl StoredTensor {
    /// Reads a tensor of the types `q4_0`, `q4_1`, `q5_0`, `q5_1`, `q6_k`, `q8_0` and `q8_1`
    /// without dequantizing it.
    ///
    /// # Errors
    /// If the tensor has another type, or cannot be read.
    ///
    /// ```
    /// use half::f16;
    /// use oxidax_weights::{GgmlType, StoredTensor, WeightDType};
    /// let mut block = f16::from_f32(0.5).to_le_bytes().to_vec();
    /// block.extend((0..32).map(|x| x as u8));
    /// let tensor = StoredTensor::from_bytes(WeightDType::Ggml(GgmlType::Q8_0), &[32], block)?;
    /// let parts = tensor.read_quantized()?;
    /// assert_eq!((parts.integers[3], parts.scales[0]), (3, 0.5));
    /// assert_eq!(tensor.read_f32()?[3], 1.5);
    /// # Ok::<(), oxidax_weights::Error>(())
    /// ```
    pub fn read_quantized(&self) -> Result<QuantizedBlocks> {
        let refused = || {
            let types = "q4_0, q4_1, q5_0, q5_1, q6_k, q8_0 and q8_1";
            Error::new(format!("{self} has no integers of 8 bits with scales; {types} have"))
        };
        let WeightDType::Ggml(kind) = self.dtype() else { return Err(refused()) };
        let layout = layout(kind).ok_or_else(refused)?;
        let bytes = self.read()?;
        let blocks = bytes.len() / kind.block_bytes();
        let elements = (blocks * kind.block_len()) as u64;
        let group = layout.group;
        let mut parts = QuantizedBlocks {
            block: group,
            integers: reserved(elements)?,
            scales: reserved(elements / group as u64)?,
            minimums: layout.minimum_at.map(|_| Vec::new()),
        };
        for block in bytes.chunks_exact(kind.block_bytes()) {
            for index in 0..kind.block_len() {
                parts.integers.push((layout.integer)(block, index));
            }
            for part in 0..kind.block_len() / group {
                parts.scales.push((layout.scale)(block, part));
            }
            if let (Some(minimums), Some(at)) = (&mut parts.minimums, layout.minimum_at) {
                minimums.push(scale(block, at));
            }
        }
        Ok(parts)
    }
}

/// The places of the parts in a block.
struct Layout {
    /// Elements with a common scale.
    group: usize,
    integer: fn(&[u8], usize) -> i8,
    scale: fn(&[u8], usize) -> f32,
    minimum_at: Option<usize>,
}

fn layout(kind: GgmlType) -> Option<Layout> {
    let (integer, minimum_at): (fn(&[u8], usize) -> i8, _) = match kind {
        GgmlType::Q4_0 => (|block, index| four_bits(&block[2..], index) - 8, None),
        GgmlType::Q4_1 => (|block, index| four_bits(&block[4..], index), Some(2)),
        GgmlType::Q5_0 => (|block, index| five_bits(&block[2..], index) - 16, None),
        GgmlType::Q5_1 => (|block, index| five_bits(&block[4..], index), Some(2)),
        GgmlType::Q8_0 => (|block, index| block[2 + index] as i8, None),
        GgmlType::Q8_1 => (|block, index| block[4 + index] as i8, None),
        GgmlType::Q6_K => {
            return Some(Layout {
                group: 16,
                integer: k_blocks::q6_k_integer,
                scale: k_blocks::q6_k_scale,
                minimum_at: None,
            });
        }
        _ => return None,
    };
    Some(Layout { group: 32, integer, scale: |block, _| scale(block, 0), minimum_at })
}

/// Returns an element of 16 bytes with two elements each.
fn four_bits(bytes: &[u8], index: usize) -> i8 {
    (bytes[index % 16] >> (index / 16 * 4) & 15) as i8
}

/// Returns an element whose fifth bit is in the four bytes before the others.
fn five_bits(bytes: &[u8], index: usize) -> i8 {
    four_bits(&bytes[4..], index) | ((bytes[index / 8] >> (index % 8) & 1) << 4) as i8
}
