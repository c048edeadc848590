//! Products of operands that are quantized to block-scaled formats on the way.

use super::scaled_products::{ScaledMatmulOptions, scaled_matmul_with};
use super::{MatmulOptions, clip, matmul_with, swapaxes};
use crate::control_flow::custom_vjp;
use crate::core::{Array, DType, Loc, RuleResult, throw_operands};
use crate::ensure_shape;
use crate::primitives::{
    DotGeneral, abs, add, bitcast_convert_type, bitwise_and, bitwise_or, convert_element_type, div,
    eq, gt, le, maximum, mul, ne, reduce_max, reshape, shift_left, shift_right_logical, transpose,
    where_,
};

/// A block-scaled format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockScaleMode {
    /// Blocks of 32 `f8_e4m3fn` with a power of two, `f8_e8m0fnu`, rounded up.
    Mxfp8,
    /// Blocks of 16 `f4_e2m1fn` with a scale in `f8_e4m3fn`, and one `f32` scale of the operand.
    Nvfp4,
}

/// The quantization of one operand of [`scaled_dot_general`].
#[derive(Clone, Debug)]
pub struct BlockScaleConfig {
    /// The format.
    pub mode: BlockScaleMode,
    /// The number of consecutive contracted elements with one scale.
    pub block_size: usize,
    /// The scale of the operand for [`BlockScaleMode::Nvfp4`], `f32` of one element. The default is
    /// 1.
    pub global_scale: Option<Array>,
}

impl BlockScaleConfig {
    /// Returns the configuration of a format with its block size: 32 for `mxfp8`, 16 for `nvfp4`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let config = BlockScaleConfig::new(BlockScaleMode::Mxfp8);
    /// assert_eq!(config.block_size, 32);
    /// ```
    #[doc(alias = "get_scaled_dot_general_config")]
    pub fn new(mode: BlockScaleMode) -> BlockScaleConfig {
        let block_size = match mode {
            BlockScaleMode::Mxfp8 => 32,
            BlockScaleMode::Nvfp4 => 16,
        };
        BlockScaleConfig { mode, block_size, global_scale: None }
    }

    /// Returns the global scale as a scalar.
    #[track_caller]
    fn scale(&self) -> Array {
        match &self.global_scale {
            Some(scale) => reshape(&convert_element_type(scale, DType::F32), []),
            None => crate::primitives::full([], 1.0f32),
        }
    }

    /// The dtype of quantized elements.
    fn data_type(&self) -> DType {
        match self.mode {
            BlockScaleMode::Mxfp8 => DType::F8E4M3FN,
            BlockScaleMode::Nvfp4 => DType::F4E2M1FN,
        }
    }
}

/// Returns the product that `numbers` describes, of operands that are quantized block by block
/// along the contracted axes: `configs` are the formats of `lhs`, `rhs` and cotangents.
///
/// The result has the dtype `numbers.preferred_element_type`, `f32` by default. The operands are
/// quantized, multiplied by their scales again, and multiplied in `f32` on every platform, so the
/// result has the rounding of the formats, without their speed.
///
/// The gradient treats the quantization as the identity. With [`BlockScaleMode::Mxfp8`] cotangents
/// and operands are quantized along the axes that the gradient contracts, if their size is a
/// multiple of the block size. With [`BlockScaleMode::Nvfp4`] they are not, and the gradient of
/// operands beyond the range of the format is zero. The product has no forward-mode derivative.
///
/// Throws `Op` (shape) if the contracted size is not a multiple of the block size, and `Op` (dtype)
/// for other operands than floats.
///
/// # Reference
/// Rouhani et al., "Microscaling data formats for deep learning", 2023.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::DotGeneral;
/// let numbers =
///     DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![1], ..Default::default() };
/// let (x, y) = (ones([4, 64]), ones([8, 64]));
/// let config = || BlockScaleConfig::new(BlockScaleMode::Mxfp8);
/// let z = scaled_dot_general(&x, &y, numbers, [config(), config(), config()]);
/// assert_eq!(z.to_vec::<f32>()?[0], 64.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn scaled_dot_general(
    lhs: &Array,
    rhs: &Array,
    numbers: DotGeneral,
    configs: [BlockScaleConfig; 3],
) -> Array {
    let sides = Sides::of(lhs, rhs, &numbers, &configs);
    let sides = match sides {
        Ok(sides) => sides,
        Err(error) => throw_operands("scaled_dot_general", error, &[lhs, rhs]),
    };
    let result = numbers.preferred_element_type.unwrap_or(DType::F32);
    Loc::caller().scope(|| {
        let (x, y) = (sides.lhs.matrices(lhs), sides.rhs.matrices(rhs));
        let [of_lhs, of_rhs, of_cts] = configs;
        let (own_lhs, own_rhs) = (of_lhs.clone(), of_rhs.clone());
        let forward_configs = (of_lhs.clone(), of_rhs.clone());
        let product = custom_vjp(
            move |x: &Array, y: &Array| quantized_product([x, y], [&own_lhs, &own_rhs], result),
            move |x: &Array, y: &Array| {
                let (of_lhs, of_rhs) = &forward_configs;
                let product = quantized_product([x, y], [of_lhs, of_rhs], result);
                (product, (x.clone(), y.clone()))
            },
            move |(x, y): &(Array, Array), ct: &Array| {
                // `ct` is `[b, m, n]`; rows of the second operand are contracted.
                let of_x = gradient(ct, &swapaxes(y, 1, 2), [&of_cts, &of_rhs], result);
                let of_y = swapaxes(ct, 1, 2);
                let of_y = gradient(&of_y, &swapaxes(x, 1, 2), [&of_cts, &of_lhs], result);
                let masked = |g: Array, x: &Array, config: &BlockScaleConfig| {
                    convert_element_type(&within_range(g, x, config, &of_cts), x.dtype())
                };
                (masked(of_x, x, &of_lhs), masked(of_y, y, &of_rhs))
            },
        )(&x, &y);
        reshape(&product, sides.result_shape(lhs, rhs))
    })
}

/// The axes of one operand: batch, free and contracted.
struct Axes {
    batch: Vec<usize>,
    free: Vec<usize>,
    contracting: Vec<usize>,
}

impl Axes {
    fn of(x: &Array, batch: &[usize], contracting: &[usize]) -> RuleResult<Axes> {
        let used: Vec<usize> = batch.iter().chain(contracting).copied().collect();
        ensure_shape!(
            used.iter().all(|&axis| axis < x.rank()),
            "axes {used:?} must be less than the rank {} of {}",
            x.rank(),
            x.aval()
        );
        let free = (0..x.rank()).filter(|axis| !used.contains(axis)).collect();
        Ok(Axes { batch: batch.to_vec(), free, contracting: contracting.to_vec() })
    }

    fn size(x: &Array, axes: &[usize]) -> usize {
        axes.iter().map(|&axis| x.shape()[axis]).product()
    }

    /// Returns `x` as matrices `[batch, free, contracted]`.
    #[track_caller]
    fn matrices(&self, x: &Array) -> Array {
        let order = [&self.batch[..], &self.free, &self.contracting].concat();
        let sizes = [&self.batch, &self.free, &self.contracting].map(|axes| Axes::size(x, axes));
        reshape(&transpose(x, &order), sizes)
    }
}

struct Sides {
    lhs: Axes,
    rhs: Axes,
}

impl Sides {
    fn of(
        lhs: &Array,
        rhs: &Array,
        numbers: &DotGeneral,
        configs: &[BlockScaleConfig; 3],
    ) -> RuleResult<Sides> {
        for x in [lhs, rhs] {
            crate::ensure_dtype!(
                matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16),
                "quantizes f32, bf16 or f16, got {}",
                x.aval()
            );
        }
        let left = Axes::of(lhs, &numbers.lhs_batch, &numbers.lhs_contracting)?;
        let right = Axes::of(rhs, &numbers.rhs_batch, &numbers.rhs_contracting)?;
        let sizes = |x: &Array, axes: &[usize]| -> Vec<usize> {
            axes.iter().map(|&axis| x.shape()[axis]).collect()
        };
        for (of_lhs, of_rhs, role) in [
            (&left.batch, &right.batch, "batch"),
            (&left.contracting, &right.contracting, "contracting"),
        ] {
            let (l, r) = (sizes(lhs, of_lhs), sizes(rhs, of_rhs));
            ensure_shape!(l == r, "{role} sizes differ: {l:?} and {r:?}");
        }
        let k = Axes::size(lhs, &left.contracting);
        for config in &configs[..2] {
            let block = config.block_size;
            ensure_shape!(
                block > 0 && k >= block && k.is_multiple_of(block),
                "the contracted size {k} must be a multiple of the block size {block}"
            );
        }
        Ok(Sides { lhs: left, rhs: right })
    }

    fn result_shape(&self, lhs: &Array, rhs: &Array) -> Vec<usize> {
        let of = |x: &Array, axes: &[usize]| -> Vec<usize> {
            axes.iter().map(|&axis| x.shape()[axis]).collect()
        };
        [of(lhs, &self.lhs.batch), of(lhs, &self.lhs.free), of(rhs, &self.rhs.free)].concat()
    }
}

/// Returns the product `[b, m, n]` of `[b, m, k]` and `[b, n, k]`, quantized along `k`.
#[track_caller]
fn quantized_product(
    operands: [&Array; 2],
    configs: [&BlockScaleConfig; 2],
    result: DType,
) -> Array {
    let [(x, x_scales), (y, y_scales)] =
        [0, 1].map(|side| quantized(operands[side], configs[side]));
    let options = ScaledMatmulOptions { preferred_element_type: DType::F32 };
    let mut product = scaled_matmul_with([&x, &y], [&x_scales, &y_scales], options);
    for config in configs {
        if config.mode == BlockScaleMode::Nvfp4 {
            product = mul(&product, config.scale());
        }
    }
    convert_element_type(&product, result)
}

/// Returns the elements of `x`, `[b, m, k]`, in the format's dtype, and the scales `[b, m, k /
/// block]`.
#[track_caller]
fn quantized(x: &Array, config: &BlockScaleConfig) -> (Array, Array) {
    let shape = x.shape();
    let n_blocks = shape[2] / config.block_size;
    let blocks = reshape(x, [shape[0], shape[1], n_blocks, config.block_size]);
    let largest = config.data_type().float_max();
    let ratio = |blocks: &Array| div(reduce_max(&abs(blocks), &[-1]), largest);
    let (blocks, scales) = match config.mode {
        BlockScaleMode::Mxfp8 => {
            let scales = power_of_two_above(&ratio(&blocks), x.dtype());
            (blocks, scales)
        }
        BlockScaleMode::Nvfp4 => {
            let blocks = div(convert_element_type(&blocks, DType::F32), config.scale());
            let limit = DType::F8E4M3FN.float_max();
            let rounded = convert_element_type(&clip(&ratio(&blocks), 0.0, limit), DType::F8E4M3FN);
            (blocks, convert_element_type(&rounded, DType::F32))
        }
    };
    // A block of zeros has the scale 0.
    let divisors = where_(eq(&scales, 0.0), 1.0, &scales);
    let divisors = convert_element_type(&divisors, blocks.dtype());
    let columns = reshape(&divisors, scales.shape().insert(3, 1));
    let scaled = clip(&div(&blocks, columns), -largest, largest);
    (reshape(&convert_element_type(&scaled, config.data_type()), shape), scales)
}

/// Returns the smallest powers of two that are at least `ratio`, at least 2⁻¹²⁷, in `f32`. In a
/// product of `f16` the smallest is 2⁻¹⁵.
#[track_caller]
fn power_of_two_above(ratio: &Array, dtype: DType) -> Array {
    let bits = bitcast_convert_type(&convert_element_type(ratio, DType::F32), DType::U32);
    let exponent = shift_right_logical(&bits, 23u32);
    let mantissa = bitwise_and(&bits, 0x7f_ffffu32);
    // The largest exponent stays, and subnormal numbers up to 2⁻¹²⁷ round to it.
    let is_tiny = bitwise_and(eq(&exponent, 0), le(&mantissa, 0x40_0000u32));
    let is_kept = bitwise_or(bitwise_or(eq(&mantissa, 0), eq(&exponent, 0xfe)), is_tiny);
    let exponent = where_(is_kept, &exponent, add(&exponent, 1));
    let power = bitcast_convert_type(&shift_left(&exponent, 23u32), DType::F32);
    let smallest = if dtype == DType::F16 { -15.0 } else { -127.0 };
    where_(ne(&exponent, 0), power, f64::exp2(smallest))
}

/// Returns the gradient `[b, m, k]` of an operand from the cotangent `[b, m, n]` and the other
/// operand, `[b, k, n]`.
#[track_caller]
fn gradient(ct: &Array, other: &Array, configs: [&BlockScaleConfig; 2], result: DType) -> Array {
    let n = ct.shape()[2];
    let is_whole = configs.iter().all(|config| n.is_multiple_of(config.block_size));
    if configs[0].mode == BlockScaleMode::Nvfp4 || !is_whole {
        let options =
            MatmulOptions { preferred_element_type: Some(result), ..MatmulOptions::default() };
        return matmul_with(ct, &swapaxes(other, 1, 2), options);
    }
    quantized_product([ct, other], configs, result)
}

/// Returns the gradient where `x` is within the range of an `nvfp4` format, and zero elsewhere.
#[track_caller]
fn within_range(
    gradient: Array,
    x: &Array,
    config: &BlockScaleConfig,
    of_cts: &BlockScaleConfig,
) -> Array {
    if of_cts.mode != BlockScaleMode::Nvfp4 {
        return gradient;
    }
    let range = config.data_type().float_max() * DType::F8E4M3FN.float_max();
    let limit = mul(config.scale(), range);
    where_(gt(abs(x), maximum(limit, 0.0)), 0.0, gradient)
}
