//! [`GgmlType`]: layouts of quantized numbers.

use std::fmt;

/// A layout of quantized numbers in GGUF files. Elements of the last axis form blocks with common
/// scales.
///
/// ```
/// use oxidax_weights::GgmlType;
/// assert_eq!((GgmlType::Q4_0.block_len(), GgmlType::Q4_0.block_bytes()), (32, 18));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, missing_docs, reason = "the names are those of ggml")]
#[non_exhaustive]
pub enum GgmlType {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ2_XXS,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    IQ1_M,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Q1_0,
}

use GgmlType::*;

/// Number in files, name, elements and bytes of a block.
const TABLE: [(GgmlType, u32, &str, usize, usize); 26] = [
    (Q4_0, 2, "q4_0", 32, 18),
    (Q4_1, 3, "q4_1", 32, 20),
    (Q5_0, 6, "q5_0", 32, 22),
    (Q5_1, 7, "q5_1", 32, 24),
    (Q8_0, 8, "q8_0", 32, 34),
    (Q8_1, 9, "q8_1", 32, 36),
    (Q2_K, 10, "q2_k", 256, 84),
    (Q3_K, 11, "q3_k", 256, 110),
    (Q4_K, 12, "q4_k", 256, 144),
    (Q5_K, 13, "q5_k", 256, 176),
    (Q6_K, 14, "q6_k", 256, 210),
    (Q8_K, 15, "q8_k", 256, 292),
    (IQ2_XXS, 16, "iq2_xxs", 256, 66),
    (IQ2_XS, 17, "iq2_xs", 256, 74),
    (IQ3_XXS, 18, "iq3_xxs", 256, 98),
    (IQ1_S, 19, "iq1_s", 256, 50),
    (IQ4_NL, 20, "iq4_nl", 32, 18),
    (IQ3_S, 21, "iq3_s", 256, 110),
    (IQ2_S, 22, "iq2_s", 256, 82),
    (IQ4_XS, 23, "iq4_xs", 256, 136),
    (IQ1_M, 29, "iq1_m", 256, 56),
    (TQ1_0, 34, "tq1_0", 256, 54),
    (TQ2_0, 35, "tq2_0", 256, 66),
    (MXFP4, 39, "mxfp4", 32, 17),
    (NVFP4, 40, "nvfp4", 64, 36),
    (Q1_0, 41, "q1_0", 128, 18),
];

impl GgmlType {
    /// All layouts.
    pub const ALL: [GgmlType; 26] = {
        let mut all = [Q4_0; 26];
        let mut index = 0;
        while index < all.len() {
            all[index] = TABLE[index].0;
            index += 1;
        }
        all
    };

    const fn row(self) -> (GgmlType, u32, &'static str, usize, usize) {
        // The table is in the order of the variants.
        TABLE[self as usize]
    }

    /// Returns ggml's name in lower case.
    pub const fn name(self) -> &'static str {
        self.row().2
    }

    /// Returns the number in files.
    pub const fn number(self) -> u32 {
        self.row().1
    }

    /// Returns the layout with a number.
    pub fn from_number(number: u32) -> Option<GgmlType> {
        TABLE.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// Returns the number of elements of a block.
    pub const fn block_len(self) -> usize {
        self.row().3
    }

    /// Returns the number of bytes of a block.
    pub const fn block_bytes(self) -> usize {
        self.row().4
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_variants() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
            assert_eq!(GgmlType::from_number(row.1), Some(row.0));
        }
    }
}
