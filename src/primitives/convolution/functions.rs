//! Public functions for convolutions.

use super::general::ConvGeneralDilated;
use super::numbers::ConvDimensionNumbers;
use crate::core::{Array, DType, Loc, Precision, RuleError, Shape, bind1, trace};
use crate::primitives::comparison::eq;
use crate::primitives::convert::convert_element_type;
use crate::primitives::dot::{DotGeneral, bind_promoted, dot_general};
use crate::primitives::iota::broadcasted_iota;
use crate::primitives::rules::move_axis;
use crate::primitives::shape::{broadcast_in_dim, reshape_to, transpose};
use crate::primitives::structural::rev;
use crate::primitives::window::{Padding, dilated};

/// Convolves `lhs` with the kernel `rhs`; `how` holds strides, padding, dilations, layout and
/// groups. Operands of different dtype are promoted unless `how.preferred_element_type` is set. See
/// [`ConvGeneralDilated`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{ConvDimensionNumbers, ConvGeneralDilated};
/// let how = ConvGeneralDilated {
///     window_strides: vec![2, 2],
///     padding: Padding::Same,
///     dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
///     ..Default::default()
/// };
/// let images = Aval::new(DType::F32, [8, 28, 28, 1]);
/// let kernel = Aval::new(DType::F32, [3, 3, 1, 16]);
/// let y = eval_shape(
///     move |x: Array, k: Array| conv_general_dilated(&x, &k, how.clone()),
///     (images, kernel),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,14,14,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn conv_general_dilated(lhs: &Array, rhs: &Array, how: ConvGeneralDilated) -> Array {
    named("conv_general_dilated", lhs, rhs, how)
}

#[track_caller]
fn named(name: &str, lhs: &Array, rhs: &Array, how: ConvGeneralDilated) -> Array {
    Loc::caller().scope(|| {
        let how = ConvGeneralDilated { precision: Precision::or_scoped(how.precision), ..how };
        // Named padding is resolved here, so that programs show numbers.
        let how = match how.geometry(lhs.shape(), rhs.shape()) {
            Ok(geometry) => {
                let pads = geometry.space.iter().map(|axis| (axis.low, axis.high)).collect();
                ConvGeneralDilated { padding: Padding::Explicit(pads), ..how }
            }
            // The primitive reports the error.
            Err(_) => how,
        };
        match how.preferred_element_type {
            Some(_) => bind1(how, [lhs, rhs]),
            None => bind_promoted(name, how, lhs, rhs),
        }
    })
}

/// Convolves `lhs`, `[n, c, …]`, with the kernel `rhs`, `[o, c, …]`. See [`conv_general_dilated`]
/// for other layouts.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, k) = (Aval::new(DType::F32, [8, 3, 32, 32]), Aval::new(DType::F32, [16, 3, 5, 5]));
/// let y = eval_shape(|x: Array, k: Array| conv(&x, &k, &[1, 1], Padding::Valid), (x, k))?;
/// assert_eq!(y.aval().to_string(), "f32[8,16,28,28]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn conv(lhs: &Array, rhs: &Array, window_strides: &[usize], padding: Padding) -> Array {
    let how = ConvGeneralDilated {
        window_strides: window_strides.to_vec(),
        padding,
        ..ConvGeneralDilated::default()
    };
    named("conv", lhs, rhs, how)
}

/// Convolves with dilations, like [`conv`]. Empty dilations mean ones.
#[track_caller]
pub fn conv_with_general_padding(
    lhs: &Array,
    rhs: &Array,
    window_strides: &[usize],
    padding: Padding,
    lhs_dilation: &[usize],
    rhs_dilation: &[usize],
) -> Array {
    let how = ConvGeneralDilated {
        window_strides: window_strides.to_vec(),
        padding,
        lhs_dilation: lhs_dilation.to_vec(),
        rhs_dilation: rhs_dilation.to_vec(),
        ..ConvGeneralDilated::default()
    };
    named("conv_with_general_padding", lhs, rhs, how)
}

/// Options of [`conv_transpose`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ConvTransposeOptions {
    /// The factor by which each spatial axis grows; empty for ones.
    pub strides: Vec<usize>,
    /// The padding of the convolution that is transposed. Explicit padding applies to the dilated
    /// operand instead.
    pub padding: Padding,
    /// Dilation of the kernel; empty for ones.
    pub rhs_dilation: Vec<usize>,
    /// The layout; `None` is `N…C`, `…IO`, `N…C`.
    pub dimension_numbers: Option<ConvDimensionNumbers>,
    /// The kernel belongs to the convolution that is transposed: it is flipped, and its input
    /// features are the features of the result.
    pub transpose_kernel: bool,
    /// The precision of `lhs` and of `rhs`.
    pub precision: [Precision; 2],
    /// The dtype of sums and result; `None` for the dtype that the operands promote to.
    pub preferred_element_type: Option<DType>,
    /// Makes explicit padding that of the convolution that is transposed, as for named padding.
    pub use_consistent_padding: bool,
}

/// Convolves with fractional strides, which enlarges the spatial axes of `lhs`. This is the
/// transpose of a convolution or, without `transpose_kernel`, has the same sizes.
///
/// Reference: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016,
/// section 4.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::ConvTransposeOptions;
/// let twice = ConvTransposeOptions {
///     strides: vec![2, 2],
///     padding: Padding::Same,
///     ..Default::default()
/// };
/// let (x, k) = (Aval::new(DType::F32, [8, 7, 7, 32]), Aval::new(DType::F32, [3, 3, 32, 16]));
/// let y = eval_shape(move |x: Array, k: Array| conv_transpose(&x, &k, &twice), (x, k))?;
/// assert_eq!(y.aval().to_string(), "f32[8,14,14,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn conv_transpose(lhs: &Array, rhs: &Array, how: &ConvTransposeOptions) -> Array {
    let rank = lhs.rank();
    let numbers = how.dimension_numbers.clone().unwrap_or_else(|| channels_last(rank));
    let fits = numbers.resolved(rank).and_then(|numbers| {
        crate::ensure_shape!(
            rhs.rank() == rank,
            "operands must have one rank, got {rank} and {}",
            rhs.rank()
        );
        Ok(numbers)
    });
    let numbers = match fits {
        Ok(numbers) => numbers,
        Err(error) => trace::throw_operands("conv_transpose", error, &[lhs, rhs]),
    };
    let entry = |list: &[usize], index: usize| list.get(index).copied().unwrap_or(1);
    let axes = numbers.rhs_spec[2..].iter().enumerate();
    let pads = axes.map(|(index, &axis)| {
        let kernel = dilated(rhs.shape()[axis], entry(&how.rhs_dilation, index)) as isize;
        let stride = entry(&how.strides, index) as isize;
        let (low, both) = match &how.padding {
            Padding::Valid => (kernel - 1, kernel + stride - 2 + (kernel - stride).max(0)),
            Padding::Explicit(pads) => {
                let (low, high) = pads.get(index).copied().unwrap_or_default();
                if how.use_consistent_padding {
                    let low = kernel - 1 - low;
                    (low, low + kernel - 1 - high)
                } else {
                    (low, low + high)
                }
            }
            same => {
                let both = kernel + stride - 2;
                let half = if *same == Padding::Same { both + 1 } else { both } / 2;
                (if stride > kernel - 1 { kernel - 1 } else { half }, both)
            }
        };
        (low, both - low)
    });
    let general = ConvGeneralDilated {
        padding: Padding::Explicit(pads.collect()),
        lhs_dilation: how.strides.clone(),
        rhs_dilation: how.rhs_dilation.clone(),
        dimension_numbers: numbers.clone(),
        precision: how.precision,
        preferred_element_type: how.preferred_element_type,
        ..ConvGeneralDilated::default()
    };
    let kernel = if how.transpose_kernel {
        let turned: Vec<isize> = numbers.rhs_spec[2..].iter().map(|&axis| axis as isize).collect();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(numbers.rhs_spec[0], numbers.rhs_spec[1]);
        transpose(&rev(rhs, &turned), &order)
    } else {
        rhs.clone()
    };
    named("conv_transpose", lhs, &kernel, general)
}

/// Returns the layout `N…C`, `…IO`, `N…C`.
fn channels_last(rank: usize) -> ConvDimensionNumbers {
    let outer = |first: [usize; 2], space: usize| -> Vec<usize> {
        first.into_iter().chain(space..space + rank.saturating_sub(2)).collect()
    };
    let last = rank.saturating_sub(1);
    ConvDimensionNumbers {
        lhs_spec: outer([0, last], 1),
        rhs_spec: outer([last, last.saturating_sub(1)], 0),
        out_spec: outer([0, last], 1),
    }
}

/// Extracts the patches of `lhs` that a kernel of the sizes `filter_shape` would cover, stacked
/// along the feature axis of the result: first by feature of `lhs`, then by position in the patch.
/// Strides, padding, dilations, layout and precision are those of `how`; its groups are ignored.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::ConvGeneralDilated;
/// let options = ConvGeneralDilated::default();
/// let patches = |x: Array| conv_general_dilated_patches(&x, &[2, 2], &options);
/// let y = eval_shape(patches, Aval::new(DType::F32, [8, 3, 5, 5]))?;
/// assert_eq!(y.aval().to_string(), "f32[8,12,4,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn conv_general_dilated_patches(
    lhs: &Array,
    filter_shape: &[usize],
    how: &ConvGeneralDilated,
) -> Array {
    let rank = filter_shape.len() + 2;
    let numbers = how.dimension_numbers.resolved(rank).and_then(|numbers| {
        crate::ensure_shape!(
            lhs.rank() == rank,
            "a filter of {} axes needs an operand of rank {rank}, got {}",
            filter_shape.len(),
            lhs.rank()
        );
        Ok(numbers)
    });
    let numbers = match numbers {
        Ok(numbers) => numbers,
        Err(error) => trace::throw_operands("conv_general_dilated_patches", error, &[lhs]),
    };
    let features = lhs.shape()[numbers.lhs_spec[1]];
    let size: usize = filter_shape.iter().product();
    Loc::caller().scope(|| {
        // One kernel per position in a patch: one there and zero elsewhere.
        let positions = |axis| broadcasted_iota(crate::core::DType::I32, [size, size], axis);
        let one = convert_element_type(&eq(positions(0), positions(1)), lhs.dtype());
        let kernels = broadcast_in_dim(&one, [features, size, size], &[1, 2]);
        let mut dims = vec![features * size, 1];
        dims.extend(filter_shape);
        let kernels = reshape_to(&kernels, &Shape::from(dims));
        let mut order = vec![0; rank];
        for (position, &axis) in numbers.rhs_spec.iter().enumerate() {
            order[axis] = position;
        }
        let patches = ConvGeneralDilated {
            dimension_numbers: numbers.clone(),
            feature_group_count: features.max(1),
            batch_group_count: 1,
            precision: [how.precision[0], Precision::Default],
            ..how.clone()
        };
        named("conv_general_dilated_patches", lhs, &transpose(&kernels, &order), patches)
    })
}

/// Convolves with a different kernel at each position of the result, as a locally connected layer
/// does. Strides, padding, dilations, layout and precision are those of `how`; its groups are
/// ignored.
///
/// `filter_shape` is the size of the window along the spatial axes. `rhs` has, in the layout of a
/// kernel, the spatial sizes of the result in its spatial axes. Its axis of input features has one
/// entry per feature of `lhs` and position in the window, ordered as in
/// [`conv_general_dilated_patches`].
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::ConvGeneralDilated;
/// let local = |x: Array, w: Array| {
///     conv_general_dilated_local(&x, &w, &[2, 2], &ConvGeneralDilated::default())
/// };
/// let (x, w) = (Aval::new(DType::F32, [8, 3, 5, 5]), Aval::new(DType::F32, [6, 12, 4, 4]));
/// assert_eq!(eval_shape(local, (x, w))?.aval().to_string(), "f32[8,6,4,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn conv_general_dilated_local(
    lhs: &Array,
    rhs: &Array,
    filter_shape: &[usize],
    how: &ConvGeneralDilated,
) -> Array {
    let rank = filter_shape.len() + 2;
    let numbers = match how.dimension_numbers.resolved(rank) {
        Ok(numbers) if rhs.rank() == rank => numbers,
        Ok(_) => {
            let n = filter_shape.len();
            let message =
                format!("a filter of {n} axes needs a kernel of rank {rank}, got {}", rhs.rank());
            let error = RuleError::shape(message);
            trace::throw_operands("conv_general_dilated_local", error, &[lhs, rhs])
        }
        Err(error) => trace::throw_operands("conv_general_dilated_local", error, &[lhs, rhs]),
    };
    let patches = conv_general_dilated_patches(lhs, filter_shape, how);
    // Positions in the order of the result's axes, which the product has in front.
    let mut positions: Vec<(usize, usize)> =
        numbers.out_spec[2..].iter().copied().zip(numbers.rhs_spec[2..].iter().copied()).collect();
    positions.sort_unstable();
    let (of_patches, of_kernel) = positions.into_iter().unzip();
    let dot = DotGeneral {
        lhs_contracting: vec![numbers.out_spec[1]],
        rhs_contracting: vec![numbers.rhs_spec[1]],
        lhs_batch: of_patches,
        rhs_batch: of_kernel,
        precision: how.precision,
        ..DotGeneral::default()
    };
    let product = dot_general(&patches, rhs, dot);
    let (batch, features) = (numbers.out_spec[0], numbers.out_spec[1]);
    Loc::caller().scope(|| {
        // The lower index first, so that the second move does not undo the first.
        if batch < features {
            move_axis(&move_axis(&product, rank - 2, batch), rank - 1, features)
        } else {
            move_axis(&move_axis(&product, rank - 1, features), rank - 1, batch)
        }
    })
}
