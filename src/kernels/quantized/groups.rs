//! Products with integers that have a scale for each group of rows. Activations are
//! `[groups, m, group rows]`, so that a program reads a group at an index of the first axis.

use super::channels::{floats, on_gpu, on_gpu_transposed};
use super::matmul::Product;
use super::weight::{Quantization, QuantizedWeight, halves};
use crate::kernel::{self, BlockSpec, Grid, Kernel, KernelTarget, Output, Ref, RefIndex, Scratch};
use crate::kernels::parts::fold_parts;
use crate::kernels::products::{dot, zero_from};
use crate::ops::axes;
use crate::primitives::{
    DotGeneral, concatenate, convert_element_type, dot_general, eq, full, reshape,
};
use crate::{Array, DType};

/// The groups of a matrix.
#[derive(Clone, Copy)]
struct Groups {
    /// The number of groups.
    count: usize,
    /// The number of rows of a group.
    rows: usize,
    /// The number of groups in a byte.
    per_byte: usize,
}

impl Groups {
    fn new(weight: &QuantizedWeight) -> Groups {
        Groups {
            count: weight.scales.shape()[0],
            rows: weight.quantization.group_rows(weight.rows),
            per_byte: match weight.quantization {
                Quantization::Int8 { .. } => 1,
                Quantization::Int4 { .. } => 2,
            },
        }
    }

    /// Returns the number of groups in a block of about `rows` rows. It divides their number.
    fn per_block(self, rows: usize) -> usize {
        let pairs = self.count / self.per_byte;
        let most = (rows / (self.rows * self.per_byte)).clamp(1, pairs);
        let divisor = (1..=most).rev().find(|count| pairs.is_multiple_of(*count));
        divisor.unwrap_or(1) * self.per_byte
    }

    /// Returns operands as groups: integers, scales, zero points.
    fn operands(self, weight: &QuantizedWeight) -> Vec<Array> {
        let n = weight.shape()[1];
        let of_groups = |x: &Array| reshape(x, [self.count, 1, n]);
        let values = reshape(&weight.values, [self.count / self.per_byte, self.rows, n]);
        let zeros = weight.zero_points.as_ref().map(of_groups);
        [values, of_groups(&weight.scales)].into_iter().chain(zeros).collect()
    }
}

/// Multiplies rows `[groups, m, group rows]` by a matrix. Integer rows have scales, `f32[m, 1]`.
pub(super) fn multiply(
    x: &Array,
    x_scales: Option<&Array>,
    weight: &QuantizedWeight,
    product: Product,
) -> Array {
    let groups = Groups::new(weight);
    let weights = groups.operands(weight);
    let operands: Vec<&Array> = std::iter::once(x).chain(&weights).chain(x_scales).collect();
    let cpu = || match product.is_integer {
        true => forward(on_cpu(product), groups, groups.rows),
        false => forward_on_cpu(on_cpu(product), groups),
    };
    let kernel = |target, product: Product| match target {
        KernelTarget::Tpu => forward(product, groups, groups.rows),
        KernelTarget::Gpu => forward(product, groups, product.block_k),
    };
    let (name, gpu) = ("quantized_matmul_of_groups", on_gpu(product));
    product.on_platforms(name, &operands, cpu, gpu, kernel).apply1(&operands)
}

/// Multiplies rows `[m, n]` by the transpose of a matrix. Returns `[groups, m, group rows]`.
pub(super) fn multiply_transposed(ct: &Array, weight: &QuantizedWeight, product: Product) -> Array {
    let groups = Groups::new(weight);
    let weights = groups.operands(weight);
    let operands: Vec<&Array> = std::iter::once(ct).chain(&weights).collect();
    let kernel = |target, product: Product| match target {
        KernelTarget::Tpu => backward(product, groups, groups.rows),
        KernelTarget::Gpu => backward(Product { block_k: 1, ..product }, groups, product.block_n),
    };
    let cpu = || backward(on_cpu(product), groups, groups.rows);
    let gpu = Product { block_m: product.block_m.min(64), ..on_gpu_transposed(product) };
    let name = "quantized_matmul_of_groups_transposed";
    product.on_platforms(name, &operands, cpu, gpu, kernel).apply1(&operands)
}

/// Returns blocks for a CPU.
fn on_cpu(product: Product) -> Product {
    Product { block_m: product.m, block_n: product.n.min(512), ..product }
}

/// Returns the integers of the groups in one block of bytes, `i8`.
fn unpacked(bytes: &Array, per_byte: usize) -> Vec<Array> {
    match per_byte {
        1 => vec![bytes.clone()],
        _ => halves(bytes).into(),
    }
}

/// Returns the product, of `part` rows of a group at a time.
fn forward(product: Product, groups: Groups, part: usize) -> Kernel {
    let Product { m, n, block_m, block_k, block_n, dtype, has_zeros, is_integer, .. } = product;
    let Groups { count, rows, per_byte } = groups;
    let per_block = groups.per_block(block_k);
    let n_blocks = count / per_block;
    let body = move |refs: Vec<Ref>| {
        let mut refs = refs.into_iter();
        let mut next = || refs.next().expect("there is a reference for each operand");
        let (x, values, scales) = (next(), next(), next());
        let zeros = has_zeros.then(&mut next);
        let x_scales = is_integer.then(&mut next);
        let (output, sums) = (next(), next());
        let index = kernel::program_id(2);
        kernel::when(eq(&index, 0), || sums.store(0.0));
        let mut total = sums.load();
        for pair in 0..per_block / per_byte {
            let products = |part: RefIndex| {
                let bytes = values.at((pair, part.clone(), ..)).load();
                let of_half = |(half, integers): (usize, &Array)| {
                    let group = pair * per_byte + half;
                    let rows = x.at((group, .., part.clone())).load();
                    let zeros = zeros.as_ref().map(|of| of.at((group, .., ..)).load());
                    if !is_integer {
                        return dot(&rows, 1, &floats(integers, zeros.as_ref(), dtype), 0);
                    }
                    let integers = convert_element_type(integers, DType::I8);
                    let sum = convert_element_type(&dot(&rows, 1, &integers, 0), DType::F32);
                    let Some(zeros) = zeros else { return sum };
                    let rows = floats(&rows, None, DType::F32);
                    sum - rows.sum_axes(axes(1).keepdims()) * zeros
                };
                unpacked(&bytes, per_byte).iter().enumerate().map(of_half).collect::<Vec<_>>()
            };
            let sums = if part >= rows {
                products((..).into())
            } else {
                let zero = full(([block_m, block_n], DType::F32), 0.0);
                let add = |part: RefIndex, _: usize, sums: Vec<Array>| -> Vec<Array> {
                    sums.iter().zip(products(part)).map(|(sum, product)| sum + product).collect()
                };
                fold_parts(rows, part, add, vec![zero; per_byte])
            };
            for (half, sum) in sums.iter().enumerate() {
                total += sum * scales.at((pair * per_byte + half, .., ..)).load();
            }
        }
        sums.store(&total);
        kernel::when(eq(&index, n_blocks as i32 - 1), || {
            let total = match &x_scales {
                Some(x_scales) => sums.load() * x_scales.load(),
                None => sums.load(),
            };
            output.store(convert_element_type(&total, dtype));
        });
    };
    let of_groups = || BlockSpec::new([per_block, 1, block_n], |[_, j, g]| (g, 0, j));
    let mut inputs = vec![
        BlockSpec::new([per_block, block_m, rows], |[i, _, g]| (g, i, 0)),
        BlockSpec::new([per_block / per_byte, rows, block_n], |[_, j, g]| (g, 0, j)),
        of_groups(),
    ];
    inputs.extend(has_zeros.then(of_groups));
    inputs.extend(is_integer.then(|| BlockSpec::new([block_m, 1], |[i, _, _]| (i, 0))));
    let written = BlockSpec::new([block_m, block_n], |[i, j, _]| (i, j));
    let grid = Grid::new([m.div_ceil(block_m), n.div_ceil(block_n), n_blocks]).sequential(1);
    kernel::call(body, grid, inputs, [Output::new(dtype, [m, n], written)])
        .name("quantized_matmul_of_groups")
        .scratch([Scratch::vmem(DType::F32, [block_m, block_n])])
}

/// Returns the product with floats for a CPU: one product of all groups, whose weights are scaled
/// before. Small products of single groups are slow there.
fn forward_on_cpu(product: Product, groups: Groups) -> Kernel {
    let Product { m, n, block_n, dtype, has_zeros, .. } = product;
    let Groups { count, rows, per_byte } = groups;
    let body = move |refs: Vec<Ref>| {
        let (output, inputs) = refs.split_last().expect("a kernel has an output");
        let inputs: Vec<Array> = inputs.iter().map(Ref::load).collect();
        let bytes = reshape(&inputs[1], [count / per_byte, 1, rows, block_n]);
        let integers = concatenate(unpacked(&bytes, per_byte), 1);
        let integers = reshape(&integers, [count, rows, block_n]);
        let matrix = floats(&integers, inputs.get(3), DType::F32) * &inputs[2];
        let numbers = DotGeneral {
            lhs_contracting: vec![0, 2],
            rhs_contracting: vec![0, 1],
            ..DotGeneral::default()
        };
        let sums = dot_general(&convert_element_type(&inputs[0], DType::F32), &matrix, numbers);
        output.store(convert_element_type(&sums, dtype));
    };
    let of_groups = || BlockSpec::new([count, 1, block_n], |[j]| (0, 0, j));
    let mut inputs = vec![
        BlockSpec::whole(),
        BlockSpec::new([count / per_byte, rows, block_n], |[j]| (0, 0, j)),
        of_groups(),
    ];
    inputs.extend(has_zeros.then(of_groups));
    let written = BlockSpec::new([m, block_n], |[j]| (0, j));
    let grid = Grid::new([n.div_ceil(block_n)]);
    kernel::call(body, grid, inputs, [Output::new(dtype, [m, n], written)])
        .name("quantized_matmul_of_groups")
}

/// Returns the product with the transpose, of `part` rows of a group at a time.
fn backward(product: Product, groups: Groups, part: usize) -> Kernel {
    let Product { m, n, block_m, block_k, block_n, dtype, has_zeros, .. } = product;
    let Groups { count, rows, per_byte } = groups;
    let per_block = groups.per_block(block_k);
    let n_n = n.div_ceil(block_n);
    let body = move |refs: Vec<Ref>| {
        let mut refs = refs.into_iter();
        let mut next = || refs.next().expect("there is a reference for each operand");
        let (ct, values, scales) = (next(), next(), next());
        let zeros = has_zeros.then(&mut next);
        let (output, sums) = (next(), next());
        let n_index = kernel::program_id(2);
        let of_parts = |step: &dyn Fn(RefIndex)| match part >= rows {
            true => step((..).into()),
            false => fold_parts(
                rows,
                part,
                |index, _, none: Vec<Array>| {
                    step(index);
                    none
                },
                Vec::new(),
            )
            .clear(),
        };
        kernel::when(eq(&n_index, 0), || {
            of_parts(&|part| sums.at((.., .., part)).store(0.0));
        });
        let left = n as i32 - &n_index * (block_n as i32);
        let cut = |block: Array| match n % block_n {
            0 => block,
            _ => zero_from(&block, 1, &left),
        };
        let ct = convert_element_type(&ct.load(), DType::F32);
        for pair in 0..per_block / per_byte {
            of_parts(&|part| {
                let bytes = values.at((pair, part.clone(), ..)).load();
                for (half, integers) in unpacked(&bytes, per_byte).iter().enumerate() {
                    let group = pair * per_byte + half;
                    let of_group = |of: &Ref| of.at((group, .., ..)).load();
                    let scaled = convert_element_type(&(&ct * of_group(&scales)), dtype);
                    let zeros = zeros.as_ref().map(of_group);
                    let matrix = cut(floats(integers, zeros.as_ref(), dtype));
                    let product = dot(&cut(scaled), 1, &matrix, 1);
                    sums.at((group, .., part.clone())).add_assign(product);
                }
            });
        }
        kernel::when(eq(&n_index, n_n as i32 - 1), || {
            of_parts(&|part| {
                let total = sums.at((.., .., part.clone())).load();
                output.at((.., .., part)).store(convert_element_type(&total, dtype));
            });
        });
    };
    let of_groups = || BlockSpec::new([per_block, 1, block_n], |[_, g, j]| (g, 0, j));
    let mut inputs = vec![
        BlockSpec::new([block_m, block_n], |[i, _, j]| (i, j)),
        BlockSpec::new([per_block / per_byte, rows, block_n], |[_, g, j]| (g, 0, j)),
        of_groups(),
    ];
    inputs.extend(has_zeros.then(of_groups));
    let written = BlockSpec::new([per_block, block_m, rows], |[i, g, _]| (g, i, 0));
    let grid = Grid::new([m.div_ceil(block_m), count / per_block, n_n]).sequential(1);
    kernel::call(body, grid, inputs, [Output::new(dtype, [count, m, rows], written)])
        .name("quantized_matmul_of_groups_transposed")
        .scratch([Scratch::vmem(DType::F32, [per_block, block_m, rows])])
}
