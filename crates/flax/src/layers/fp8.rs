//! Products in 8-bit floats with delayed scaling.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use oxidax::primitives::DotGeneral;

/// The 8-bit formats of operands and of gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fp8Formats {
    /// The format of operands: more digits.
    pub operands: DType,
    /// The format of gradients: more range.
    pub gradients: DType,
}

impl Default for Fp8Formats {
    fn default() -> Fp8Formats {
        Fp8Formats { operands: DType::F8E4M3FN, gradients: DType::F8E5M2 }
    }
}

impl Fp8Formats {
    /// The formats without negative zero and infinities, of AMD's MI300.
    #[doc(alias = "NANOOFp8DotGeneralOp")]
    pub const NANOO: Fp8Formats =
        Fp8Formats { operands: DType::F8E4M3FNUZ, gradients: DType::F8E5M2FNUZ };
}

/// The scale of one operand, and the largest magnitudes of the last steps from which it follows.
#[derive(Clone, Debug, Tree)]
pub struct Fp8Scale {
    /// The factor by which quantized values are multiplied, `f32[1]`.
    pub scale: Array,
    /// The largest magnitudes of the last steps, `f32[steps]`.
    pub amax_history: Array,
}

impl Fp8Scale {
    /// Creates a scale of 1 with a history of this many steps.
    #[track_caller]
    pub fn new(n_steps: usize) -> Fp8Scale {
        Fp8Scale { scale: ones([1]), amax_history: zeros([n_steps]) }
    }

    /// Returns the scale for the format, and the history with the magnitudes of `x`.
    #[track_caller]
    fn updated(&self, x: &Array, format: DType) -> Fp8Scale {
        let amax = self.amax_history.max();
        let valid = gt(&amax, 0.0) & is_finite(&amax);
        let fitted = maximum(&amax, f64::from(f32::MIN_POSITIVE)) / largest(format);
        let scale = where_(&valid, fitted.reshape([1usize]), &self.scale);
        let newest = abs(x).max().astype(DType::F32).reshape([1usize]);
        let n = self.amax_history.size() as isize;
        // The oldest magnitude is replaced, and the newest one is the first.
        let rolled = roll(&self.amax_history, -1, 0);
        let amax_history = concatenate([&newest, &rolled.index(i![1..n])], 0);
        Fp8Scale { scale, amax_history }
    }

    /// Rounds to the 8-bit format and back.
    #[track_caller]
    fn rounded(&self, x: &Array, format: DType) -> Array {
        let scale = self.scale.astype(x.dtype()).reshape([1usize; 0]);
        let limit = largest(format);
        let scaled = minimum(maximum(x / &scale, -limit), limit);
        scaled.astype(format).astype(x.dtype()) * scale
    }
}

/// Returns the largest finite number of an 8-bit format.
fn largest(format: DType) -> f64 {
    format.float_max()
}

/// A product whose operands and gradient are rounded to 8-bit floats, with scales that follow the
/// magnitudes of earlier steps.
///
/// The gradient by this value *is* its next value, because the magnitudes of the gradient are
/// known in the backward pass only. [`overwrite_with_gradient`] takes it over after the optimizer's
/// update.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{Fp8DotGeneral, overwrite_with_gradient};
/// #[derive(Tree, Clone)]
/// struct Model {
///     weight: Array,
///     fp8: Fp8DotGeneral,
/// }
/// let model = Model { weight: full([4, 2], 0.3f32), fp8: Fp8DotGeneral::new() };
/// let x = full([1, 4], 2.0f32);
/// let loss = |model: &Model| model.fp8.matmul(&x, &model.weight).sum();
/// let gradients = grad(loss)(&model);
/// let step = tree::zip_map(&model, &gradients, |p, g| p - g * 0.1);
/// let model = overwrite_with_gradient(&step, &gradients);
/// assert_eq!(model.fp8.lhs.amax_history.index(i![0]).item::<f32>()?, 2.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Micikevicius et al.: FP8 formats for deep learning (2022), section 3.
#[derive(Clone, Debug, Tree)]
#[doc(alias("Fp8DotGeneralOp", "Fp8DirectDotGeneralOp", "Fp8Einsum"))]
pub struct Fp8DotGeneral {
    /// The scale of the left operand.
    pub lhs: Fp8Scale,
    /// The scale of the right operand.
    pub rhs: Fp8Scale,
    /// The scale of the gradient by the result.
    pub output_gradient: Fp8Scale,
    /// The formats.
    #[tree(static)]
    pub formats: Fp8Formats,
}

impl Default for Fp8DotGeneral {
    #[track_caller]
    fn default() -> Fp8DotGeneral {
        Fp8DotGeneral::new()
    }
}

impl Fp8DotGeneral {
    /// Creates scales of 1 with histories of 1,024 steps.
    #[track_caller]
    pub fn new() -> Fp8DotGeneral {
        Fp8DotGeneral::with_formats(Fp8Formats::default(), 1024)
    }

    /// Creates scales of 1 for these formats, with histories of this many steps.
    #[track_caller]
    pub fn with_formats(formats: Fp8Formats, n_steps: usize) -> Fp8DotGeneral {
        if n_steps == 0 {
            let error = RuleError::value("needs a history of at least one step");
            throw_operands("Fp8DotGeneral", error, &[]);
        }
        let [lhs, rhs, output_gradient] = [(); 3].map(|()| Fp8Scale::new(n_steps));
        Fp8DotGeneral { lhs, rhs, output_gradient, formats }
    }

    /// Computes `lhs · rhs`, as [`matmul`] does.
    ///
    /// Throws `Op` (shape) if the sizes do not fit.
    #[track_caller]
    pub fn matmul(&self, lhs: &Array, rhs: &Array) -> Array {
        self.product(lhs, rhs, |lhs, rhs| matmul(lhs, rhs))
    }

    /// Computes a product, as [`dot_general`] does.
    ///
    /// Throws `Op` (shape) if the sizes do not fit.
    #[track_caller]
    pub fn dot_general(&self, lhs: &Array, rhs: &Array, dimensions: DotGeneral) -> Array {
        self.product(lhs, rhs, |lhs, rhs| dot_general(lhs, rhs, dimensions))
    }

    /// Computes an Einstein sum of two operands, as [`einsum`] does.
    ///
    /// Throws `Op` (shape) if the operands do not fit the equation.
    #[doc(alias = "Fp8Einsum")]
    #[track_caller]
    pub fn einsum(&self, equation: &str, lhs: &Array, rhs: &Array) -> Array {
        self.product(lhs, rhs, |lhs, rhs| einsum(equation, [lhs, rhs]))
    }

    #[track_caller]
    fn product(
        &self,
        lhs: &Array,
        rhs: &Array,
        multiply: impl FnOnce(&Array, &Array) -> Array,
    ) -> Array {
        let lhs = round_operand(lhs, &self.lhs, self.formats.operands);
        let rhs = round_operand(rhs, &self.rhs, self.formats.operands);
        round_gradient(&multiply(&lhs, &rhs), &self.output_gradient, self.formats.gradients)
    }
}

/// Rounds an operand. The gradient passes through, and that of the scale is the next scale.
#[track_caller]
fn round_operand(x: &Array, scale: &Fp8Scale, format: DType) -> Array {
    let rounded = custom_vjp(
        move |x: &Array, scale: &Fp8Scale| scale.updated(x, format).rounded(x, format),
        move |x: &Array, scale: &Fp8Scale| {
            let next = scale.updated(x, format);
            (next.rounded(x, format), next)
        },
        |next: &Fp8Scale, gradient: &Array| (gradient.clone(), next.clone()),
    );
    rounded(x, scale)
}

/// Rounds the gradient by `y`. The gradient of the scale is the next scale.
#[track_caller]
fn round_gradient(y: &Array, scale: &Fp8Scale, format: DType) -> Array {
    let rounded = custom_vjp(
        |y: &Array, _: &Fp8Scale| y.clone(),
        |y: &Array, scale: &Fp8Scale| (y.clone(), scale.clone()),
        move |scale: &Fp8Scale, gradient: &Array| {
            let next = scale.updated(gradient, format);
            (next.rounded(gradient, format), next)
        },
    );
    rounded(y, scale)
}

/// Returns updated parameters with the leaves of all [`Fp8Scale`]s replaced by their gradients,
/// which are their next values.
#[doc(alias = "OVERWRITE_WITH_GRADIENT")]
#[track_caller]
pub fn overwrite_with_gradient<T: Tree>(parameters: &T, gradients: &T) -> T {
    let gradients = tree::leaves(gradients);
    let mut gradients = gradients.iter();
    tree::map_with_path(parameters, |path, leaf| {
        let gradient = gradients.next().unwrap_or(leaf);
        let (node, name) = path.rsplit_once('.').unwrap_or(("", path));
        let side = node.rsplit(['.', ']']).next().unwrap_or_default();
        let is_scale = ["scale", "amax_history"].contains(&name)
            && ["lhs", "rhs", "output_gradient"].contains(&side);
        if is_scale { gradient.clone() } else { leaf.clone() }
    })
}
