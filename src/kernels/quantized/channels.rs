//! Products with integers of 8 bits that have one scale for each column.

use super::matmul::Product;
use super::weight::QuantizedWeight;
use crate::Array;
use crate::DType;
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, Scratch};
use crate::kernels::products::{dot, zero_from};
use crate::ops::axes;
use crate::primitives::{convert_element_type, eq};

/// The summed indices of a block on GPUs, in bits.
const GPU_BLOCK_BITS: usize = 64 * 16;

/// Multiplies rows `[m, k]` by a matrix. Integer rows have scales, `f32[m, 1]`.
pub(super) fn multiply(
    x: &Array,
    x_scales: Option<&Array>,
    weight: &QuantizedWeight,
    product: Product,
) -> Array {
    let sums = x_scales
        .filter(|_| product.has_zeros)
        .map(|_| convert_element_type(x, DType::F32).sum_axes(axes(1).keepdims()));
    let mut operands = vec![x, &weight.values, &weight.scales];
    operands.extend(&weight.zero_points);
    operands.extend(x_scales);
    operands.extend(&sums);
    let (cpu, gpu) = (|| forward(on_cpu(product)), on_gpu(product));
    let kernel = |_, product| forward(product);
    product.on_platforms("quantized_matmul", &operands, cpu, gpu, kernel).apply1(&operands)
}

/// Multiplies rows `[m, n]` by the transpose of a matrix.
pub(super) fn multiply_transposed(ct: &Array, weight: &QuantizedWeight, product: Product) -> Array {
    let scaled = convert_element_type(ct, DType::F32) * &weight.scales;
    let scaled = convert_element_type(&scaled, ct.dtype());
    let mut operands = vec![&scaled, &weight.values];
    operands.extend(&weight.zero_points);
    let (cpu, gpu) = (|| backward(on_cpu(product)), on_gpu_transposed(product));
    let (name, kernel) = ("quantized_matmul_transposed", |_, product| backward(product));
    product.on_platforms(name, &operands, cpu, gpu, kernel).apply1(&operands)
}

/// Returns blocks for a CPU: whole columns for many rows, since large products are faster there.
fn on_cpu(product: Product) -> Product {
    let Product { m, k, n, .. } = product;
    match m {
        0..=16 => Product { block_m: m, block_k: k.min(512), block_n: n.min(128), ..product },
        _ => Product { block_m: m, block_k: k, block_n: n.min(512), ..product },
    }
}

/// Returns blocks for a GPU, where several operands of products share about 160 KiB.
pub(super) fn on_gpu(product: Product) -> Product {
    let Product { block_m, block_k, block_n, dtype, .. } = product;
    let most_k = GPU_BLOCK_BITS / dtype.bits();
    Product {
        block_m: block_m.min(128),
        block_k: block_k.min(most_k),
        block_n: block_n.min(128),
        ..product
    }
}

/// Returns blocks for a GPU of the product with the transpose, which sums over columns.
pub(super) fn on_gpu_transposed(product: Product) -> Product {
    let Product { block_m, block_k, block_n, dtype, .. } = product;
    let most_n = GPU_BLOCK_BITS / dtype.bits();
    Product {
        block_m: block_m.min(128),
        block_k: block_k.min(128),
        block_n: block_n.min(most_n),
        ..product
    }
}

/// Converts integers of 8 bits to floats, minus their zero points. Every integer is exact.
pub(super) fn floats(integers: &Array, zeros: Option<&Array>, dtype: DType) -> Array {
    let integers = convert_element_type(integers, DType::I32);
    let floats = convert_element_type(&integers, DType::F32);
    let floats = match zeros {
        Some(zeros) => floats - zeros,
        None => floats,
    };
    convert_element_type(&floats, dtype)
}

fn forward(product: Product) -> Kernel {
    let Product { m, k, n, block_m, block_k, block_n, .. } = product;
    let Product { dtype, has_zeros, is_integer, .. } = product;
    let n_k = k.div_ceil(block_k);
    let body = move |refs: Vec<Ref>| {
        let mut refs = refs.into_iter();
        let mut next = || refs.next().expect("there is a reference for each operand");
        let (x, values, scales) = (next(), next(), next());
        let zeros = has_zeros.then(&mut next);
        let x_scales = is_integer.then(&mut next);
        let x_sums = (is_integer && has_zeros).then(&mut next);
        let (output, sums) = (next(), next());
        let k_index = kernel::program_id(2);
        kernel::when(eq(&k_index, 0), || sums.store(0));
        let mut rows = x.load();
        let mut matrix = match is_integer {
            true => values.load(),
            false => {
                let zeros = zeros.as_ref().map(Ref::load);
                floats(&values.load(), zeros.as_ref(), dtype)
            }
        };
        if k % block_k != 0 {
            let left = k as i32 - &k_index * (block_k as i32);
            rows = zero_from(&rows, 1, &left);
            matrix = zero_from(&matrix, 0, &left);
        }
        sums.add_assign(dot(&rows, 1, &matrix, 0));
        kernel::when(eq(&k_index, n_k as i32 - 1), || {
            let mut total = convert_element_type(&sums.load(), DType::F32);
            if let (Some(sums), Some(zeros)) = (&x_sums, &zeros) {
                total -= sums.load() * zeros.load();
            }
            total *= scales.load();
            if let Some(x_scales) = &x_scales {
                total *= x_scales.load();
            }
            output.store(convert_element_type(&total, dtype));
        });
    };
    let column = || BlockSpec::new([1, block_n], |[_, j, _]| (0, j));
    let row = || BlockSpec::new([block_m, 1], |[i, _, _]| (i, 0));
    let mut inputs = vec![
        BlockSpec::new([block_m, block_k], |[i, _, k]| (i, k)),
        BlockSpec::new([block_k, block_n], |[_, j, k]| (k, j)),
        column(),
    ];
    inputs.extend(has_zeros.then(column));
    inputs.extend(is_integer.then(row));
    inputs.extend((is_integer && has_zeros).then(row));
    let written = BlockSpec::new([block_m, block_n], |[i, j, _]| (i, j));
    let grid = Grid::new([m.div_ceil(block_m), n.div_ceil(block_n), n_k]).sequential(1);
    let sums = if is_integer { DType::I32 } else { DType::F32 };
    kernel::call(body, grid, inputs, [Output::new(dtype, [m, n], written)])
        .name("quantized_matmul")
        .scratch([Scratch::vmem(sums, [block_m, block_n])])
}

fn backward(product: Product) -> Kernel {
    let Product { m, k, n, block_m, block_k, block_n, dtype, has_zeros, .. } = product;
    let n_n = n.div_ceil(block_n);
    let body = move |refs: Vec<Ref>| {
        let mut refs = refs.into_iter();
        let mut next = || refs.next().expect("there is a reference for each operand");
        let (ct, values) = (next(), next());
        let zeros = has_zeros.then(&mut next);
        let (output, sums) = (next(), next());
        let n_index = kernel::program_id(2);
        kernel::when(eq(&n_index, 0), || sums.store(0.0));
        let zeros = zeros.as_ref().map(Ref::load);
        let (mut rows, mut matrix) = (ct.load(), floats(&values.load(), zeros.as_ref(), dtype));
        if n % block_n != 0 {
            let left = n as i32 - &n_index * (block_n as i32);
            rows = zero_from(&rows, 1, &left);
            matrix = zero_from(&matrix, 1, &left);
        }
        sums.add_assign(dot(&rows, 1, &matrix, 1));
        kernel::when(eq(&n_index, n_n as i32 - 1), || {
            output.store(convert_element_type(&sums.load(), dtype));
        });
    };
    let mut inputs = vec![
        BlockSpec::new([block_m, block_n], |[i, _, j]| (i, j)),
        BlockSpec::new([block_k, block_n], |[_, k, j]| (k, j)),
    ];
    inputs.extend(has_zeros.then(|| BlockSpec::new([1, block_n], |[_, _, j]| (0, j))));
    let written = BlockSpec::new([block_m, block_k], |[i, k, _]| (i, k));
    let grid = Grid::new([m.div_ceil(block_m), k.div_ceil(block_k), n_n]).sequential(1);
    kernel::call(body, grid, inputs, [Output::new(dtype, [m, k], written)])
        .name("quantized_matmul_transposed")
        .scratch([Scratch::vmem(DType::F32, [block_m, block_k])])
}
