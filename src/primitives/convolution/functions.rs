//! Public functions.

use super::general::ConvGeneralDilated;
use super::numbers::ConvDimensionNumbers;
use crate::core::{Array, Loc, Precision, RuleError, Shape, bind1, promote, trace};
use crate::primitives::comparison::eq;
use crate::primitives::convert::{convert_element_type, convert_to};
use crate::primitives::dot::{DotGeneral, dot_general};
use crate::primitives::iota::broadcasted_iota;
use crate::primitives::rules::move_axis;
use crate::primitives::shape::{broadcast_in_dim, reshape_to, transpose};
use crate::primitives::structural::rev;
use crate::primitives::window::{Padding, dilated};

/// `lhs` convolved with the kernel `rhs` as `how` says. Operands of different dtype are promoted unless
/// `how.preferred_element_type` is set. See [`ConvGeneralDilated`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let how = ConvGeneralDilated {
///     window_strides: vec![2, 2],
///     padding: Padding::Same,
///     dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
///     ..Default::default()
/// };
/// let (images, kernel) = (Aval::new(DType::F32, [8, 28, 28, 1]), Aval::new(DType::F32, [3, 3, 1, 16]));
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
    let how = ConvGeneralDilated { precision: Precision::or_scoped(how.precision), ..how };
    // Strings of padding are resolved here, so that programs show numbers.
    let how = match how.geometry(lhs.shape(), rhs.shape()) {
        Ok(geometry) => {
            let pads = geometry.space.iter().map(|axis| (axis.low, axis.high)).collect();
            ConvGeneralDilated { padding: Padding::Explicit(pads), ..how }
        }
        // The primitive says what is wrong.
        Err(_) => how,
    };
    if how.preferred_element_type.is_some() || lhs.dtype() == rhs.dtype() {
        return bind1(how, [lhs, rhs]);
    }
    match promote((lhs.dtype(), lhs.aval().weak), (rhs.dtype(), rhs.aval().weak)) {
        Some((dtype, weak)) => {
            bind1(how, [&convert_to(lhs, dtype, weak), &convert_to(rhs, dtype, weak)])
        }
        None => {
            let message = format!("{} and {} have no implicit promotion", lhs.dtype(), rhs.dtype());
            let error = RuleError::dtype(message)
                .help("set preferred_element_type, or convert one of them with `astype`");
            trace::throw_operands(name, error, &[lhs, rhs])
        }
    }
}

/// `lhs`, `[n, c, …]`, convolved with the kernel `rhs`, `[o, c, …]`. See [`conv_general_dilated`] for
/// other layouts.
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

/// As [`conv`], with dilations; empty ones stand for ones.
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

/// How [`conv_transpose`] goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ConvTranspose {
    /// By how much each spatial axis grows; empty for ones.
    pub strides: Vec<usize>,
    /// The padding of the convolution that is undone. Explicit padding is that of the dilated operand
    /// instead.
    pub padding: Padding,
    /// Dilation of the kernel; empty for ones.
    pub rhs_dilation: Vec<usize>,
    /// Which axes are which; `None` is `N…C`, `…IO`, `N…C`.
    pub dimension_numbers: Option<ConvDimensionNumbers>,
    /// Whether the kernel is that of the convolution that is undone: it is turned round, and its input
    /// features are the result's.
    pub transpose_kernel: bool,
    /// The precision of `lhs` and of `rhs`.
    pub precision: [Precision; 2],
}

/// A convolution with fractional strides, which enlarges the spatial axes of `lhs`: the transpose of a
/// convolution, or, without `transpose_kernel`, one with the same sizes.
///
/// Reference: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4.
///
/// ```
/// use oxidax::prelude::*;
/// let twice = ConvTranspose { strides: vec![2, 2], padding: Padding::Same, ..Default::default() };
/// let (x, k) = (Aval::new(DType::F32, [8, 7, 7, 32]), Aval::new(DType::F32, [3, 3, 32, 16]));
/// let y = eval_shape(move |x: Array, k: Array| conv_transpose(&x, &k, &twice), (x, k))?;
/// assert_eq!(y.aval().to_string(), "f32[8,14,14,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn conv_transpose(lhs: &Array, rhs: &Array, how: &ConvTranspose) -> Array {
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
    let entry = |list: &[usize], at: usize| list.get(at).copied().unwrap_or(1);
    let axes = numbers.rhs_spec[2..].iter().enumerate();
    let pads = axes.map(|(at, &axis)| {
        let kernel = dilated(rhs.shape()[axis], entry(&how.rhs_dilation, at)) as isize;
        let stride = entry(&how.strides, at) as isize;
        let (low, both) = match &how.padding {
            Padding::Valid => (kernel - 1, kernel + stride - 2 + (kernel - stride).max(0)),
            Padding::Explicit(pads) => {
                let (low, high) = pads.get(at).copied().unwrap_or_default();
                (low, low + high)
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
        ..ConvGeneralDilated::default()
    };
    let kernel = match how.transpose_kernel {
        true => {
            let turned: Vec<isize> =
                numbers.rhs_spec[2..].iter().map(|&axis| axis as isize).collect();
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(numbers.rhs_spec[0], numbers.rhs_spec[1]);
            transpose(&rev(rhs, &turned), &order)
        }
        false => rhs.clone(),
    };
    named("conv_transpose", lhs, &kernel, general)
}

/// `N…C`, `…IO`, `N…C`.
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

/// The patches of `lhs` that a kernel of the sizes `filter_shape` would meet, one after the other in the
/// feature axis of the result: first by feature of `lhs`, then by place in the patch. Strides, padding,
/// dilations, layout and precision are those of `how`; its groups are not looked at.
///
/// ```
/// use oxidax::prelude::*;
/// let patches = |x: Array| conv_general_dilated_patches(&x, &[2, 2], &ConvGeneralDilated::default());
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
        // A kernel for each place of a patch, which is one there and zero elsewhere.
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

/// A convolution whose kernel is another one at each place of the result: a locally connected layer. Strides,
/// padding, dilations, layout and precision are those of `how`; its groups are not looked at.
///
/// `filter_shape` is the window's size along the spatial axes. `rhs` has, in the layout of a kernel, the
/// result's spatial sizes in its spatial axes, and in the axis of input features one entry for each feature
/// of `lhs` and place in the window, ordered as in [`conv_general_dilated_patches`].
///
/// ```
/// use oxidax::prelude::*;
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
    // Places in the order of the result's axes, which the product then has in front.
    let mut places: Vec<(usize, usize)> =
        numbers.out_spec[2..].iter().copied().zip(numbers.rhs_spec[2..].iter().copied()).collect();
    places.sort_unstable();
    let (of_patches, of_kernel) = places.into_iter().unzip();
    let dot = DotGeneral {
        lhs_contracting: vec![numbers.out_spec[1]],
        rhs_contracting: vec![numbers.rhs_spec[1]],
        lhs_batch: of_patches,
        rhs_batch: of_kernel,
        precision: how.precision,
        preferred_element_type: None,
    };
    let product = dot_general(&patches, rhs, dot);
    let (batch, features) = (numbers.out_spec[0], numbers.out_spec[1]);
    Loc::caller().scope(|| {
        // The lower position first, so that the second move does not undo the first.
        match batch < features {
            true => move_axis(&move_axis(&product, rank - 2, batch), rank - 1, features),
            false => move_axis(&move_axis(&product, rank - 1, features), rank - 1, batch),
        }
    })
}
