//! Products of the sparse matrices [`Coo`], [`Csr`] and [`Csc`] with vectors and matrices.

use super::SparseArray;
use super::matrices::{Coo, Csc, Csr};
use crate::operands::throw_shape;
use oxidax::prelude::*;

/// Checks the rank of the right operand.
#[track_caller]
fn expect_rank(name: &str, x: &Array, rank: usize) {
    if x.rank() != rank {
        throw_shape(name, format!("takes an array of rank {rank}, got {}", x.shape()), &[x]);
    }
}

macro_rules! products {
    ($matrix:ident, $vector_alias:literal, $matrix_alias:literal) => {
        impl $matrix {
            /// Returns the product with a vector.
            ///
            /// Throws `Op` (shape) unless `v` is a vector with one element for each column.
            #[doc(alias = $vector_alias)]
            #[track_caller]
            pub fn matvec(&self, v: &Array) -> Array {
                expect_rank("matvec", v, 1);
                self.to_bcoo().matmul(v)
            }

            /// Returns the product of the transposed matrix with a vector. See `matvec`.
            #[track_caller]
            pub fn matvec_transposed(&self, v: &Array) -> Array {
                expect_rank("matvec_transposed", v, 1);
                self.to_bcoo().rmatmul(v)
            }

            /// Returns the product with a matrix.
            ///
            /// Throws `Op` (shape) unless `b` is a matrix with one row for each column.
            #[doc(alias = $matrix_alias)]
            #[track_caller]
            pub fn matmat(&self, b: &Array) -> Array {
                expect_rank("matmat", b, 2);
                self.to_bcoo().matmul(b)
            }

            /// Returns the product of the transposed matrix with a matrix. See `matmat`.
            #[track_caller]
            pub fn matmat_transposed(&self, b: &Array) -> Array {
                expect_rank("matmat_transposed", b, 2);
                self.to_bcoo().transpose(&[1, 0]).matmul(b)
            }

            /// Returns the product with a vector or a matrix.
            ///
            /// Throws `Op` (shape) for an array of another rank.
            #[doc(alias = "__matmul__")]
            #[track_caller]
            pub fn matmul(&self, rhs: &Array) -> Array {
                if ![1, 2].contains(&rhs.rank()) {
                    let message = format!(
                        "a sparse matrix {} takes a vector or a matrix, got {}",
                        self.shape(),
                        rhs.shape()
                    );
                    throw_shape("matmul", message, &[rhs]);
                }
                self.to_bcoo().matmul(rhs)
            }
        }
    };
}

products!(Coo, "coo_matvec", "coo_matmat");
products!(Csr, "csr_matvec", "csr_matmat");
products!(Csc, "csc_matvec", "csc_matmat");
