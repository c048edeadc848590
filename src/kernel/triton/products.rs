//! Products of matrices.

use super::MAX_ELEMENTS;
use super::emitter::Emitter;
use super::ir::{Tensor, type_of};
use crate::core::{Aval, DType, Precision, RuleError, RuleResult, Scalar};
use crate::primitives::DotGeneral;
use std::any::Any;

/// The least size of an axis of a product that tensor cores compute.
const TILE: usize = 16;

/// The most products of elements that are computed without tensor cores.
const MAX_PRODUCTS: usize = 1 << 15;

impl Emitter<'_> {
    /// Writes a product, or returns `None` if it is another operation.
    pub(super) fn products(
        &mut self,
        primitive: &dyn Any,
        x: &[Tensor],
        result: &Aval,
    ) -> RuleResult<Option<Tensor>> {
        let Some(of) = primitive.downcast_ref::<DotGeneral>() else { return Ok(None) };
        let (lhs, rhs) = (&x[0], &x[1]);
        let free = |rank: usize, batch: &[usize], summed: &[usize]| -> Vec<usize> {
            (0..rank).filter(|axis| !batch.contains(axis) && !summed.contains(axis)).collect()
        };
        let lhs_free = free(lhs.rank(), &of.lhs_batch, &of.lhs_contracting);
        let rhs_free = free(rhs.rank(), &of.rhs_batch, &of.rhs_contracting);
        let lhs_order = [&of.lhs_batch[..], &lhs_free, &of.lhs_contracting].concat();
        let rhs_order = [&of.rhs_batch[..], &of.rhs_contracting, &rhs_free].concat();
        let size = |x: &Tensor, axes: &[usize]| -> usize {
            axes.iter().map(|&axis| x.shape[axis]).product()
        };
        let batch = size(lhs, &of.lhs_batch);
        let (m, n) = (size(lhs, &lhs_free), size(rhs, &rhs_free));
        let k = size(lhs, &of.lhs_contracting);
        let has_batch = batch > 1;
        let merged = |sizes: [usize; 3]| match has_batch {
            true => sizes.to_vec(),
            false => sizes[1..].to_vec(),
        };
        let lhs = self.ir.transpose(lhs, &lhs_order);
        let lhs = self.reshape(&lhs, &merged([batch, m, k]))?;
        let rhs = self.ir.transpose(rhs, &rhs_order);
        let rhs = self.reshape(&rhs, &merged([batch, k, n]))?;
        let product = self.product(&lhs, &rhs, of.precision, result.dtype)?;
        self.reshape(&product, &result.shape).map(Some)
    }

    /// Multiplies matrices, the last two axes of the operands.
    fn product(
        &mut self,
        lhs: &Tensor,
        rhs: &Tensor,
        precision: [Precision; 2],
        dtype: DType,
    ) -> RuleResult<Tensor> {
        let rank = lhs.rank();
        let (a, b) = (lhs.padded(), rhs.padded());
        let (m, k, n) = (a[rank - 2], a[rank - 1], b[rank - 1]);
        let batch = if rank == 3 { a[0] } else { 1 };
        let n_products = batch * m * k * n;
        let least_k = if lhs.dtype.bits() == 8 { 2 * TILE } else { TILE };
        let is_large = m >= TILE && n >= TILE && k >= least_k;
        let has_cores = matches!(lhs.dtype, DType::BF16 | DType::F16 | DType::F32 | DType::I8)
            && lhs.dtype == rhs.dtype;
        if has_cores && is_large {
            return Ok(self.tile_product(lhs, rhs, precision, dtype));
        }
        let is_thin = m == 1 || n == 1;
        if n_products <= MAX_PRODUCTS || (is_thin && n_products <= MAX_ELEMENTS / 4) {
            return Ok(self.sum_of_products(lhs, rhs, dtype));
        }
        if !has_cores {
            if n_products <= MAX_ELEMENTS {
                return Ok(self.sum_of_products(lhs, rhs, dtype));
            }
            return Err(RuleError::dtype(format!(
                "a product of {} and {} in kernels for GPUs",
                type_of(lhs.dtype, &lhs.shape),
                type_of(rhs.dtype, &rhs.shape)
            ))
            .help("convert both operands to bf16, f16, f32 or i8, or choose smaller blocks"));
        }
        let mut logical = lhs.shape.clone();
        logical[rank - 1] = rhs.shape[rank - 1];
        // Tensor cores multiply larger tiles: rows and columns repeat, and the sum gets zeros.
        let lhs = self.ir.with_padding(lhs, &[rank - 1], Scalar::Int(0));
        let rhs = self.ir.with_padding(rhs, &[rank - 2], Scalar::Int(0));
        let lhs = self.repeated(&lhs, rank - 2, TILE.div_ceil(m), false);
        let lhs = self.repeated(&lhs, rank - 1, least_k.div_ceil(k), true);
        let rhs = self.repeated(&rhs, rank - 1, TILE.div_ceil(n), false);
        let rhs = self.repeated(&rhs, rank - 2, least_k.div_ceil(k), true);
        let mut product = self.tile_product(&lhs, &rhs, precision, dtype);
        for (axis, count, size) in [(rank - 2, m, a[rank - 2]), (rank - 1, n, b[rank - 1])] {
            if count < TILE {
                let mut split = product.shape.clone();
                split.splice(axis..=axis, [TILE / size, size]);
                let parts = self.ir.reshape_padded(&product, &split);
                product = self.ir.reduce_with(&parts, axis, "first", "first");
            }
        }
        Ok(Tensor { shape: logical, ..product })
    }

    /// Repeats a tensor along an axis, or fills the repetitions with zeros.
    fn repeated(&mut self, x: &Tensor, axis: usize, count: usize, zeros: bool) -> Tensor {
        if count <= 1 {
            return x.clone();
        }
        let size = x.padded()[axis];
        let whole = Tensor { shape: x.padded(), ..x.clone() };
        let expanded = self.ir.expand(&whole, axis);
        let mut shape = expanded.shape.clone();
        shape[axis] = count;
        let mut copies = self.ir.broadcast(&expanded, &shape);
        if zeros {
            let (index, zero) = (self.ir.iota(axis, &shape), self.ir.int(0, DType::I32, &shape));
            let is_first = self.ir.compare("cmpi eq", &index, &zero);
            let none = self.ir.int(0, x.dtype, &shape);
            copies = self.ir.select(&is_first, &copies, &none);
        }
        shape.splice(axis..=axis + 1, [count * size]);
        self.ir.reshape_padded(&copies, &shape)
    }

    /// Multiplies on tensor cores.
    fn tile_product(
        &mut self,
        lhs: &Tensor,
        rhs: &Tensor,
        precision: [Precision; 2],
        dtype: DType,
    ) -> Tensor {
        let rank = lhs.rank();
        let lhs = self.ir.with_padding(lhs, &[rank - 1], Scalar::Int(0));
        let rhs = self.ir.with_padding(rhs, &[rank - 2], Scalar::Int(0));
        let sums = if lhs.dtype == DType::I8 { DType::I32 } else { DType::F32 };
        let mut shape = lhs.shape.clone();
        shape[rank - 1] = rhs.shape[rank - 1];
        let zero = self.ir.int(0, sums, &shape);
        let is_exact = precision.contains(&Precision::Highest);
        let mode = match (lhs.dtype, is_exact) {
            (DType::F32, false) => ", inputPrecision = tf32",
            _ => "",
        };
        let text = format!(
            "tt.dot {}, {}, {}{mode} : {} * {} -> {}",
            lhs.name,
            rhs.name,
            zero.name,
            lhs.ty(),
            rhs.ty(),
            zero.ty()
        );
        let product = self.ir.op(&text, sums, &shape);
        self.convert(&product, dtype)
    }

    /// Multiplies and adds elements.
    fn sum_of_products(&mut self, lhs: &Tensor, rhs: &Tensor, dtype: DType) -> Tensor {
        let rank = lhs.rank();
        let sums = match dtype {
            DType::BF16 | DType::F16 => DType::F32,
            _ => dtype,
        };
        let (lhs, rhs) = (self.convert(lhs, sums), self.convert(rhs, sums));
        let mut shape = lhs.shape.clone();
        shape.push(rhs.shape[rank - 1]);
        let lhs = self.ir.expand(&lhs, rank);
        let lhs = self.ir.broadcast(&lhs, &shape);
        let rhs = self.ir.expand(&rhs, rank - 2);
        let rhs = self.ir.broadcast(&rhs, &shape);
        let operation = if sums.is_float() { "arith.mulf" } else { "arith.muli" };
        let products = self.ir.binary(operation, &lhs, &rhs);
        let sum = self.sum(&products, rank - 1);
        self.convert(&sum, dtype)
    }
}
