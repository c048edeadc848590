//! [`quantized_matmul`]: the function, its derivative and the quantization of activations.

use super::weight::{Quantization, QuantizedWeight};
use super::{channels, groups};
use crate::control_flow::custom_vjp;
use crate::core::{Loc, RuleError, throw_operands};
use crate::kernel::{Kernel, KernelTarget};
use crate::kernels::scoped::{ScopedBlocks, combinations};
use crate::ops::{axes, pad};
use crate::primitives::{
    convert_element_type, eq, reshape, round, slice_in_dim, transpose, where_, zeros, zeros_like,
};
use crate::{Array, DType, tree};

/// The numbers that a quantized weight is multiplied with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// The activations. The integers of the weights are converted to their dtype, exactly.
    #[default]
    Float,
    /// The activations as integers of 8 bits, with a scale for each row: its largest magnitude
    /// becomes 127. Products are summed as `i32`.
    Int8,
}

/// Options of [`quantized_matmul_with`].
///
/// Blocks are the sizes of the tiles that a program multiplies. On CPUs they do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuantizedMatmulOptions {
    /// The numbers that are multiplied.
    pub activations: Activations,
    /// The rows of a block of activations, a multiple of 32; 128 if `None`.
    pub block_m: Option<usize>,
    /// The summed indices of a block, a multiple of 128; 512 if `None`.
    pub block_k: Option<usize>,
    /// The columns of a block of weights, a multiple of 128; 128 if `None`.
    pub block_n: Option<usize>,
    /// Runs the kernel with these blocks as a loop on every platform, to test it on a CPU.
    pub interpret: bool,
}

impl QuantizedMatmulOptions {
    /// Returns the blocks of `m`, `k` and `n`.
    fn blocks(&self) -> [usize; 3] {
        let chosen = [self.block_m, self.block_k, self.block_n].into_iter().zip([128, 512, 128]);
        let mut sizes = chosen.map(|(chosen, default)| chosen.unwrap_or(default));
        std::array::from_fn(|_| sizes.next().expect("there are three"))
    }
}

/// Returns [`quantized_matmul_with`] without options.
///
/// ```
/// use oxidax::kernels::{Quantization, QuantizedWeight, quantized_matmul};
/// use oxidax::prelude::*;
/// let (x, w) = (Aval::new(DType::BF16, [3, 16, 512]), Aval::new(DType::F32, [512, 256]));
/// let product = |x: Array, w: Array| {
///     let weight = QuantizedWeight::quantize(&w, Quantization::Int8 { group_size: None });
///     quantized_matmul(&x, &weight)
/// };
/// assert_eq!(eval_shape(product, (x, w))?.aval().to_string(), "bf16[3,16,256]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn quantized_matmul(x: &Array, weight: &QuantizedWeight) -> Array {
    quantized_matmul_with(x, weight, &QuantizedMatmulOptions::default())
}

/// Multiplies activations `[…, k]` by a quantized matrix `[k, n]`. The result is `[…, n]`, of their
/// dtype.
///
/// The weights are read as integers, and converted block by block. Sums are computed in `f32`, and
/// scaled once per group. The function has a derivative with respect to the activations, by a
/// second kernel, in reverse mode; with [`Activations::Int8`] it is that of the product with
/// unrounded activations. The weights are constants: their derivative is 0.
///
/// Throws `Op` (shape) if sizes do not fit, and `Op` (dtype) if the activations are not floats of
/// at most 32 bits.
///
/// Reference: Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for transformers at scale"
/// (2022), section 3.1, for scales of rows and columns. Outliers are not treated separately.
#[track_caller]
pub fn quantized_matmul_with(
    x: &Array,
    weight: &QuantizedWeight,
    options: &QuantizedMatmulOptions,
) -> Array {
    let [k, n] = weight.shape();
    let refuse = |error: RuleError| -> ! { throw_operands("quantized_matmul", error, &[x]) };
    if x.rank() == 0 || x.shape()[x.rank() - 1] != k {
        refuse(RuleError::shape(format!("takes activations […, {k}], got {}", x.aval())));
    }
    if !x.dtype().is_float() || x.dtype().bits() > 32 {
        let message = format!("takes floats of at most 32 bits, got {}", x.dtype());
        refuse(RuleError::dtype(message).help("convert them: `astype(DType::F32)`"));
    }
    let blocks = options.blocks();
    if blocks.contains(&0) {
        let message = format!("blocks of m, k, n = {blocks:?}, which must not be 0");
        refuse(RuleError::shape(message));
    }
    let (forward, backward) = (options.clone(), options.clone());
    let product = custom_vjp(
        |x: &Array, weight: &QuantizedWeight| multiply(x, weight, options),
        move |x: &Array, weight: &QuantizedWeight| (multiply(x, weight, &forward), weight.clone()),
        move |weight: &QuantizedWeight, ct: &Array| {
            (multiply_transposed(ct, weight, &backward), tree::map(weight, zeros_like))
        },
    );
    Loc::caller().scope(|| {
        let shape = x.shape().dims();
        let leading = &shape[..shape.len() - 1];
        let rows = reshape(x, [leading.iter().product(), k]);
        reshape(&product(&rows, weight), [leading, &[n]].concat())
    })
}

/// Rounds the rows of activations `[m, k]` to integers of 8 bits, with scales `f32[m, 1]`.
fn quantize_rows(x: &Array) -> (Array, Array) {
    let x = convert_element_type(x, DType::F32);
    let scales = x.abs().max_axes(axes(1).keepdims()) / 127.0;
    let scales = where_(eq(&scales, 0.0), 1.0, &scales);
    (convert_element_type(&round(x / &scales), DType::I8), scales)
}

/// The sizes of a product and of its blocks, and its options.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) block_m: usize,
    pub(super) block_k: usize,
    pub(super) block_n: usize,
    /// The dtype of activations and results.
    pub(super) dtype: DType,
    /// The weight has zero points.
    pub(super) has_zeros: bool,
    /// The activations are integers with scales.
    pub(super) is_integer: bool,
    /// The user chose blocks.
    pub(super) has_fixed_blocks: bool,
    /// The kernel runs with these blocks as a loop on every platform.
    pub(super) interpret: bool,
}

/// The blocks of `m`, `k` and `n` that a table in scope chooses from.
const CANDIDATES: [&[usize]; 3] = [&[32, 64, 128, 256], &[64, 128, 256, 512], &[64, 128, 256, 512]];

impl Product {
    fn with_blocks(self, blocks: &[usize]) -> Product {
        Product {
            block_m: blocks[0].min(self.m),
            block_k: blocks[1].min(self.k),
            block_n: blocks[2].min(self.n),
            ..self
        }
    }

    /// Returns the kernel `name` that is called with these operands. `on_cpu` is its form for CPUs.
    /// `kernel` returns the form with given blocks for a kind of device. Without a table in scope,
    /// GPUs have the blocks `on_gpu`.
    #[track_caller]
    pub(super) fn on_platforms(
        self,
        name: &str,
        operands: &[&Array],
        on_cpu: impl FnOnce() -> Kernel,
        on_gpu: Product,
        kernel: impl Fn(KernelTarget, Product) -> Kernel,
    ) -> Kernel {
        if self.interpret {
            return kernel(KernelTarget::Tpu, self).interpret();
        }
        let scoped = match self.has_fixed_blocks {
            true => ScopedBlocks::default(),
            false => {
                let [m, k, n] = CANDIDATES;
                let candidates = combinations([(self.m, m), (self.k, k), (self.n, n)]);
                let build = |target, blocks: &[usize]| kernel(target, self.with_blocks(blocks));
                ScopedBlocks::of(name, operands, &candidates, build)
            }
        };
        let on_tpu = scoped.tpu.map_or(self, |blocks| self.with_blocks(&blocks));
        let on_gpu = scoped.gpu.map_or(on_gpu, |blocks| self.with_blocks(&blocks));
        kernel(KernelTarget::Tpu, on_tpu).on_cpu(on_cpu()).on_gpu(kernel(KernelTarget::Gpu, on_gpu))
    }
}

fn product(
    m: usize,
    weight: &QuantizedWeight,
    dtype: DType,
    options: &QuantizedMatmulOptions,
) -> Product {
    let [k, n] = weight.shape();
    let [block_m, block_k, block_n] = options.blocks();
    let chosen = [options.block_m, options.block_k, options.block_n];
    Product {
        m,
        k,
        n,
        block_m: m.min(block_m),
        block_k: k.min(block_k),
        block_n: n.min(block_n),
        dtype,
        has_zeros: weight.zero_points.is_some(),
        is_integer: false,
        has_fixed_blocks: chosen.iter().any(Option::is_some),
        interpret: options.interpret,
    }
}

/// Returns true if a column has one scale.
fn has_channels(weight: &QuantizedWeight) -> bool {
    matches!(weight.quantization, Quantization::Int8 { group_size: None })
}

/// Multiplies rows `[m, k]` by a matrix.
fn multiply(x: &Array, weight: &QuantizedWeight, options: &QuantizedMatmulOptions) -> Array {
    let m = x.shape()[0];
    let n = weight.shape()[1];
    if m == 0 {
        return convert_element_type(&zeros([m, n]), x.dtype());
    }
    let product = product(m, weight, x.dtype(), options);
    let (x, scales) = match options.activations {
        Activations::Float => (x.clone(), None),
        Activations::Int8 => {
            let (integers, scales) = quantize_rows(x);
            (integers, Some(scales))
        }
    };
    let product = Product { is_integer: scales.is_some(), ..product };
    if has_channels(weight) {
        channels::multiply(&x, scales.as_ref(), weight, product)
    } else {
        let x = by_group(&x, weight);
        groups::multiply(&x, scales.as_ref(), weight, product)
    }
}

/// Multiplies rows `[m, n]` by the transpose of a matrix.
fn multiply_transposed(
    ct: &Array,
    weight: &QuantizedWeight,
    options: &QuantizedMatmulOptions,
) -> Array {
    let (m, k) = (ct.shape()[0], weight.shape()[0]);
    if m == 0 {
        return convert_element_type(&zeros([m, k]), ct.dtype());
    }
    let product = product(m, weight, ct.dtype(), options);
    if has_channels(weight) {
        channels::multiply_transposed(ct, weight, product)
    } else {
        let grouped = groups::multiply_transposed(ct, weight, product);
        let [groups, m, group] = [0, 1, 2].map(|axis| grouped.shape()[axis]);
        let rows = reshape(&transpose(&grouped, &[1, 0, 2]), [m, groups * group]);
        slice_in_dim(&rows, 0, k as isize, 1, 1)
    }
}

/// Returns rows `[m, k]` as `[groups, m, group rows]`, padded by zeros.
fn by_group(x: &Array, weight: &QuantizedWeight) -> Array {
    let (m, k) = (x.shape()[0], x.shape()[1]);
    let (groups, group) = (weight.scales.shape()[0], weight.quantization.group_rows(k));
    let padded = pad(x, [(0, 0), (0, groups * group - k)]);
    transpose(&reshape(&padded, [m, groups, group]), &[1, 0, 2])
}
