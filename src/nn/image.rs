//! Resampling of images: `jax.image`.

use crate::core::{Array, DType, RuleError, Shape, throw_operands};
use crate::ops::{MatmulOptions, clip, result_type, take, tensordot_with};
use crate::primitives::{
    Precision, abs, broadcasted_iota, convert_element_type, div, floor, ge, gt, inexact, iota, le,
    maximum, minimum, moveaxis, mul, ne, reshape, sin, slice_in_dim, sub, where_, zeros,
};
use std::f64::consts::PI;

/// Kernel of [`resize`] and [`scale_and_translate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResizeMethod {
    /// The nearest pixel. Only [`resize`] takes it.
    Nearest,
    /// Linear interpolation by a triangle of radius 1.
    #[doc(alias = "bilinear")]
    Linear,
    /// Keys' cubic kernel with parameter -0.5, of radius 2.
    #[doc(alias = "bicubic")]
    Cubic,
    /// Keys' cubic kernel with parameter -0.75 and repeated edges, as in PyTorch; with
    /// antialiasing it is [`ResizeMethod::Cubic`].
    CubicPytorch,
    /// Lanczos' kernel of radius 3.
    Lanczos3,
    /// Lanczos' kernel of radius 5.
    Lanczos5,
    /// The mean over the area of an output pixel.
    Area,
}

/// Options of [`resize_with`] and [`scale_and_translate_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizeOptions {
    /// Widens the kernel where an axis shrinks, so that it filters high frequencies. The default
    /// is true.
    pub antialias: bool,
    /// The precision of the products of weights and pixels. The default is
    /// [`Precision::Highest`].
    pub precision: Precision,
}

impl Default for ResizeOptions {
    fn default() -> Self {
        ResizeOptions { antialias: true, precision: Precision::Highest }
    }
}

/// Resizes `image` to `shape`, which has a size for each of its axes; axes whose size stays, such
/// as those of a batch and of channels, are not resampled. Integers become floats, except for
/// [`ResizeMethod::Nearest`].
///
/// Throws `Op` (shape) for a shape of another rank, and for an empty axis that grows.
///
/// # Reference
/// Keys, "Cubic convolution interpolation for digital image processing", 1981; Duchon, "Lanczos
/// filtering in one and two dimensions", 1979.
///
/// ```
/// use oxidax::image::{ResizeMethod, resize};
/// use oxidax::prelude::*;
/// let image = array![[0.0], [1.0]];
/// let larger = resize(&image, [4, 1], ResizeMethod::Linear);
/// assert_eq!(larger.to_vec::<f32>()?, [0.0, 0.25, 0.75, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.image.resize")]
#[track_caller]
pub fn resize(image: &Array, shape: impl Into<Shape>, method: ResizeMethod) -> Array {
    resize_with(image, shape, method, ResizeOptions::default())
}

/// Resizes `image`, as [`resize`], without antialiasing or in another precision.
#[track_caller]
pub fn resize_with(
    image: &Array,
    shape: impl Into<Shape>,
    method: ResizeMethod,
    options: ResizeOptions,
) -> Array {
    let shape = shape.into();
    expect_shape("resize", image, &shape);
    let axes: Vec<usize> =
        (0..image.rank()).filter(|&axis| image.shape()[axis] != shape[axis]).collect();
    if method == ResizeMethod::Nearest {
        return axes.iter().fold(image.clone(), |x, &axis| nearest(&x, axis, shape[axis]));
    }
    let image = inexact(image);
    let dtype = if image.dtype().real() == DType::F64 { DType::F64 } else { DType::F32 };
    let mut resized = image;
    for axis in axes {
        let (m, n) = (resized.shape()[axis], shape[axis]);
        let scale = if n == 0 { 1.0 } else { n as f64 / m as f64 };
        let [scale, translation] = [scale, 0.0].map(|x| crate::primitives::full(([], dtype), x));
        let weights = Sampling { m, n, scale, translation, method, options }.weights();
        resized = resampled(&resized, axis, &weights, options);
    }
    resized
}

/// Scales and moves `image` along some axes and samples it on a grid of `shape`. A pixel at `x`
/// along axis `spatial_dims[i]` moves to `x · scale[i] + translation[i]`, where the centre of the
/// first pixel is at 0.5. Samples from outside of the image are 0.
///
/// `scale` and `translation` are vectors with one element for each of `spatial_dims`. The result is
/// differentiable with respect to both. Integers become floats.
///
/// Throws `Op` (shape) for a shape of another rank, for axes out of range and for vectors of
/// another size, and `Op` (unsupported) for [`ResizeMethod::Nearest`].
///
/// ```
/// use oxidax::image::{ResizeMethod, scale_and_translate};
/// use oxidax::prelude::*;
/// let row = array![1.0, 2.0, 3.0];
/// let (scale, shift) = (array![1.0], array![1.0]);
/// let moved = scale_and_translate(&row, [3], [0], &scale, &shift, ResizeMethod::Linear);
/// assert_eq!(moved.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.image.scale_and_translate")]
#[track_caller]
pub fn scale_and_translate(
    image: &Array,
    shape: impl Into<Shape>,
    spatial_dims: impl AsRef<[isize]>,
    scale: &Array,
    translation: &Array,
    method: ResizeMethod,
) -> Array {
    let to = Placement { spatial_dims: spatial_dims.as_ref(), scale, translation };
    placed(image, shape.into(), to, method, ResizeOptions::default())
}

/// Scales and moves `image`, as [`scale_and_translate`], without antialiasing or in another
/// precision.
#[track_caller]
pub fn scale_and_translate_with(
    image: &Array,
    shape: impl Into<Shape>,
    spatial_dims: impl AsRef<[isize]>,
    (scale, translation): (&Array, &Array),
    method: ResizeMethod,
    options: ResizeOptions,
) -> Array {
    let to = Placement { spatial_dims: spatial_dims.as_ref(), scale, translation };
    placed(image, shape.into(), to, method, options)
}

/// The axes that are resampled, and the position of the image along each.
struct Placement<'a> {
    spatial_dims: &'a [isize],
    scale: &'a Array,
    translation: &'a Array,
}

#[track_caller]
fn placed(
    image: &Array,
    shape: Shape,
    to: Placement<'_>,
    method: ResizeMethod,
    options: ResizeOptions,
) -> Array {
    const NAME: &str = "scale_and_translate";
    let Placement { spatial_dims, scale, translation } = to;
    expect_shape(NAME, image, &shape);
    if method == ResizeMethod::Nearest {
        let error = RuleError::unsupported("does not take the nearest pixel")
            .help("use `ResizeMethod::Linear`, or `resize` for a change of size");
        throw_operands(NAME, error, &[image]);
    }
    let k = spatial_dims.len();
    if let Some(other) = [scale, translation].into_iter().find(|x| *x.shape().dims() != [k]) {
        let message = format!("takes one element for each of {k} axes, got {}", other.aval());
        throw_operands(NAME, RuleError::shape(message), &[image, other]);
    }
    let mut axes = Vec::with_capacity(k);
    for &axis in spatial_dims {
        let rank = image.rank() as isize;
        let resolved = if axis < 0 { axis + rank } else { axis };
        if !(0..rank).contains(&resolved) || axes.contains(&(resolved as usize)) {
            let message = format!("axis {axis} is out of range or named twice, the rank is {rank}");
            throw_operands(NAME, RuleError::shape(message), &[image]);
        }
        axes.push(resolved as usize);
    }
    if let Some(axis) =
        (0..image.rank()).find(|axis| !axes.contains(axis) && image.shape()[*axis] != shape[*axis])
    {
        let message = format!(
            "axis {axis} is not resampled, and its size is {} and not {}",
            image.shape()[axis],
            shape[axis]
        );
        throw_operands(NAME, RuleError::shape(message), &[image]);
    }
    let dtype = result_type([scale, translation]);
    let dtype = if dtype.is_float() { dtype } else { DType::F32 };
    let mut resized = inexact(image);
    for (position, axis) in axes.into_iter().enumerate() {
        let at = position as isize;
        let [scale, translation] = [scale, translation].map(|vector| {
            let element = reshape(&slice_in_dim(vector, at, at + 1, 1, 0), []);
            convert_element_type(&element, dtype)
        });
        let (m, n) = (resized.shape()[axis], shape[axis]);
        let weights = Sampling { m, n, scale, translation, method, options }.weights();
        resized = resampled(&resized, axis, &weights, options);
    }
    resized
}

#[track_caller]
fn expect_shape(name: &str, image: &Array, shape: &Shape) {
    let grows = |axis: usize| image.shape()[axis] == 0 && shape[axis] > 0;
    if shape.rank() != image.rank() {
        let message = format!("the shape {shape} has another rank than {}", image.aval());
        throw_operands(name, RuleError::shape(message), &[image]);
    }
    if let Some(axis) = (0..shape.rank()).find(|&axis| grows(axis)) {
        let message = format!("axis {axis} is empty, so there are no pixels for {}", shape[axis]);
        throw_operands(name, RuleError::shape(message), &[image]);
    }
}

/// Takes the pixel below the centre of each pixel of the result.
#[track_caller]
fn nearest(x: &Array, axis: usize, n: usize) -> Array {
    let m = x.shape()[axis];
    let centres = convert_element_type(&iota(DType::I32, n), DType::F32) + 0.5;
    let indices = floor(div(mul(centres, m as f32), n.max(1) as f32));
    take(x, &convert_element_type(&indices, DType::I32), axis as isize)
}

/// Multiplies an axis of `x` by weights, `[m, n]`.
#[track_caller]
fn resampled(x: &Array, axis: usize, weights: &Array, options: ResizeOptions) -> Array {
    let weights = convert_element_type(weights, x.dtype());
    let product = MatmulOptions { precision: options.precision, ..MatmulOptions::default() };
    let last = tensordot_with(x, &weights, ([axis as isize], [0]), product);
    moveaxis(&last, -1, axis as isize)
}

/// One axis of `m` pixels that is sampled at `n` positions.
struct Sampling {
    m: usize,
    n: usize,
    scale: Array,
    translation: Array,
    method: ResizeMethod,
    options: ResizeOptions,
}

impl Sampling {
    /// Returns the weight of each pixel in each sample: `[m, n]`, with columns of sum 1.
    #[track_caller]
    fn weights(&self) -> Array {
        let dtype = self.scale.dtype();
        let steps = div(1.0, &self.scale);
        let shift = mul(&self.translation, &steps);
        let positions = |size: usize, axis: usize| {
            let mut shape = [1, 1];
            shape[axis] = size;
            convert_element_type(&broadcasted_iota(DType::I32, shape, axis), dtype)
        };
        let samples = positions(self.n, 1);
        if self.method == ResizeMethod::Area {
            let start = sub(mul(&samples, &steps), &shift);
            let end = &start + &steps;
            let pixels = positions(self.m, 0);
            let overlap = sub(minimum(&end, &pixels + 1.0), maximum(&start, &pixels));
            return self
                .within(&normalized(&maximum(0.0, overlap)), &(&start + &steps * 0.5 - 0.5));
        }
        let centres = sub(sub(mul(samples + 0.5, &steps), shift), 0.5);
        let repeats_edges = self.method == ResizeMethod::CubicPytorch && !self.options.antialias;
        // Pixels beyond the edges count for the edges.
        let beyond = if repeats_edges { 2 } else { 0 };
        let pixels = sub(positions(self.m + 2 * beyond, 0), beyond as f64);
        let distance = abs(sub(&centres, &pixels));
        let distance = match self.options.antialias {
            true => div(&distance, maximum(&steps, 1.0)),
            false => distance,
        };
        let weights = self.kernel(&distance);
        if !repeats_edges {
            return self.within(&normalized(&weights), &centres);
        }
        let nearest = clip(&pixels, 0.0, (self.m - 1) as f64);
        let nearest = reshape(&convert_element_type(&nearest, DType::I32), [self.m + 2 * beyond]);
        let folded = zeros(([self.m, self.n], dtype)).at([(&nearest).into()]).add(&weights);
        normalized(&folded)
    }

    /// Sets the weights of samples whose centres are outside of the axis to 0.
    #[track_caller]
    fn within(&self, weights: &Array, centres: &Array) -> Array {
        let inside = ge(centres, -0.5) & le(centres, self.m as f64 - 0.5);
        where_(&inside, weights, 0)
    }

    /// Returns the kernel at distances in pixels, which are not negative.
    #[track_caller]
    fn kernel(&self, x: &Array) -> Array {
        match self.method {
            ResizeMethod::CubicPytorch if !self.options.antialias => keys(x, -0.75),
            ResizeMethod::Cubic | ResizeMethod::CubicPytorch => keys(x, -0.5),
            ResizeMethod::Lanczos3 => lanczos(x, 3.0),
            ResizeMethod::Lanczos5 => lanczos(x, 5.0),
            ResizeMethod::Linear | ResizeMethod::Area | ResizeMethod::Nearest => {
                maximum(0.0, sub(1.0, x))
            }
        }
    }
}

/// Divides each column by its sum, or makes it 0 where that is close to 0.
#[track_caller]
fn normalized(weights: &Array) -> Array {
    let total = weights.sum_axes(crate::ops::axes(0).keepdims());
    let quotient = div(weights, where_(ne(&total, 0), &total, 1));
    where_(gt(abs(&total), 1000.0 * f64::from(f32::EPSILON)), quotient, 0)
}

/// Keys' cubic convolution kernel with parameter `a`.
#[track_caller]
fn keys(x: &Array, a: f64) -> Array {
    let near = ((x * (a + 2.0) - (a + 3.0)) * x) * x + 1.0;
    let far = ((x * a - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    where_(ge(x, 2.0), 0.0, where_(ge(x, 1.0), far, near))
}

/// Lanczos' kernel: `sinc(x) sinc(x / radius)` up to the radius.
#[track_caller]
fn lanczos(x: &Array, radius: f64) -> Array {
    let product = sin(x * PI) * sin(x * (PI / radius)) * radius;
    let square = where_(ne(x, 0), x * x * (PI * PI), 1);
    let inside = where_(gt(x, 1e-3), div(product, square), 1);
    where_(gt(x, radius), 0, inside)
}
