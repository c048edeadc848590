//! Rectified linear units with a trained slope.

use oxidax::nn::check::promoted_dtype;
use oxidax::prelude::*;

/// A rectified linear unit whose slope for negative inputs is trained.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::PRelu;
/// let y = PRelu::new().forward(&array![-2.0f32, 3.0]);
/// assert_eq!(y.to_vec::<f32>()?, [-0.02, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// He et al.: Delving deep into rectifiers (2015).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "PReLU")]
pub struct PRelu {
    /// The slope for negative inputs. Broadcasts to the inputs.
    #[doc(alias = "negative_slope")]
    pub slope: Array,
}

impl Default for PRelu {
    #[track_caller]
    fn default() -> PRelu {
        PRelu::new()
    }
}

impl PRelu {
    /// Creates a unit with one slope of 0.01, `f32[]`.
    #[track_caller]
    pub fn new() -> PRelu {
        PRelu { slope: full([], 0.01f32) }
    }

    /// Applies the function to each element of `x`.
    ///
    /// Throws `Op` (shape) unless the slope broadcasts to `x`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let dtype = promoted_dtype("PRelu", x, &[("slope", &self.slope)]);
        let x = x.astype(dtype);
        where_(ge(&x, 0), &x, self.slope.astype(dtype) * &x)
    }
}
