//! Power iteration, roots of matrices, non-negative least squares, scaled gradients and a Gaussian
//! distribution.

use crate::check::expect_value;
use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// Options of [`power_iteration`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerIterationOptions {
    /// The largest number of iterations. 100 by default.
    pub num_iters: usize,
    /// The relative norm of the residual at which it ends. 1e-6 by default.
    pub error_tolerance: f64,
}

impl Default for PowerIterationOptions {
    fn default() -> PowerIterationOptions {
        PowerIterationOptions { num_iters: 100, error_tolerance: 1e-6 }
    }
}

/// Returns the dominant eigenvalue of a symmetric linear map and its eigenvector of norm 1.
///
/// `product` is the map, and `v0` the first vector, a tree.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::power_iteration;
/// let matrix = array![[2f32, 0.0], [0.0, 5.0]];
/// let (eigenvalue, _) =
///     power_iteration(|v: &Array| matmul(&matrix, v), &ones([2]), Default::default());
/// assert!((eigenvalue - 5.0).abs().item::<f32>()? < 1e-4);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Golub, Van Loan: Matrix computations (2013), section 7.3.1.
#[track_caller]
pub fn power_iteration<T: Tree>(
    product: impl Fn(&T) -> T,
    v0: &T,
    options: PowerIterationOptions,
) -> (Array, T) {
    let normalized = |v: &T| {
        let norm = tree::norm(v);
        tree::map(v, |x| x / norm.astype(x.dtype()))
    };
    let v0 = normalized(v0);
    let first = product(&v0);
    let eigenvalue = zeros_like(&tree::vdot(&v0, &first));
    let unfinished = |(v, z, eigenvalue, n): &(T, T, Array, Array)| {
        let residual = tree::zip_map(z, v, |z, v| z - v * eigenvalue.astype(v.dtype()));
        let error = abs(tree::norm(&residual) / eigenvalue);
        let has_converged = lt(&error, options.error_tolerance);
        bitwise_and(bitwise_not(has_converged), lt(n, options.num_iters as i32))
    };
    let step = |(_, z, _, n): &(T, T, Array, Array)| {
        let v = normalized(z);
        let z = product(&v);
        let eigenvalue = tree::vdot(&v, &z);
        (v, z, eigenvalue, n + 1)
    };
    let start = (v0, first, eigenvalue, zeros(([], DType::I32)));
    let (_, z, eigenvalue, _) = while_loop(unfinished, step, start);
    (eigenvalue, normalized(&z))
}

/// Options of [`matrix_inverse_pth_root_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InverseRootOptions {
    /// The largest number of iterations. 100 by default.
    pub num_iters: usize,
    /// The damping, relative to the largest eigenvalue. 1e-6 by default.
    pub ridge_epsilon: f64,
    /// The error at which it ends. 1e-6 by default.
    pub error_tolerance: f64,
}

impl Default for InverseRootOptions {
    fn default() -> InverseRootOptions {
        InverseRootOptions { num_iters: 100, ridge_epsilon: 1e-6, error_tolerance: 1e-6 }
    }
}

/// Returns `matrix^(-1/p)` of a symmetric positive semi-definite matrix, and the error of the last
/// iterate. `p` is 1, 2, 4 or 8.
///
/// # Reference
/// Guo, Higham: A Schur–Newton method for the matrix pth root and its inverse (2006), the coupled
/// Newton iteration 3.3.
///
/// Throws `Op` (value) if `p` is another number.
#[track_caller]
pub fn matrix_inverse_pth_root(matrix: &Array, p: u32) -> (Array, Array) {
    matrix_inverse_pth_root_with(matrix, p, InverseRootOptions::default())
}

/// Returns `matrix^(-1/p)`, with options.
///
/// Throws `Op` (value) unless `p` is 1, 2, 4 or 8.
#[track_caller]
pub fn matrix_inverse_pth_root_with(
    matrix: &Array,
    p: u32,
    options: InverseRootOptions,
) -> (Array, Array) {
    expect_value(matches!(p, 1 | 2 | 4 | 8), "matrix_inverse_pth_root", || {
        format!("p must be 1, 2, 4 or 8, got {p}")
    });
    let [n, _] = matrix.dims();
    let alpha = -1.0 / f64::from(p);
    let a = matrix.astype(DType::F32);
    let v0 = random::uniform(random::key(0), [n], -1.0..1.0);
    let product = |v: &Array| matmul(&a, v);
    let (largest, _) = power_iteration(product, &v0, PowerIterationOptions::default());
    let ridge = maximum(&largest, full_like(&largest, 1e-16)) * options.ridge_epsilon;
    if n == 1 {
        return (pow(a + ridge, alpha).astype(matrix.dtype()), zeros([]));
    }
    let identity = eye([n, n]).astype(DType::F32);
    let damped = a + &identity * ridge;
    let z = (1.0 + f64::from(p)) / (sqrt(damped.square().sum()) * 2.0);
    let error_of = |m: &Array| abs(m - &identity).max();
    let m = &damped * &z;
    let h = &identity * pow(&z, 1.0 / f64::from(p));
    let error = error_of(&m);
    type State = (Array, Array, Array, Array, Array, Array);
    let unfinished = |(n, _, _, _, error, goes_on): &State| {
        let is_large = gt(error, options.error_tolerance);
        bitwise_and(lt(n, options.num_iters as i32), bitwise_and(is_large, goes_on))
    };
    let step = |(n, m, h, _, error, _): &State| {
        let factor = &identity * (1.0 - alpha) + m * alpha;
        let mut power = factor.clone();
        for _ in 0..p.trailing_zeros() {
            power = matmul(&power, &power);
        }
        let next = matmul(&power, m);
        let new_error = error_of(&next);
        let goes_on = lt(&new_error, error * 1.2);
        (n + 1, next, matmul(h, &factor), h.clone(), new_error, goes_on)
    };
    let start = (zeros(([], DType::I32)), m, h.clone(), h, error, full([], true));
    let (_, m, h, before, _, has_converged) = while_loop(unfinished, step, start);
    (where_(&has_converged, &h, &before).astype(matrix.dtype()), error_of(&m))
}

/// Returns the non-negative `x` with the least `|a · x - b|`, by accelerated projected gradient
/// descent.
///
/// `a: float[m, n]`, `b: float[m]` or `float[m, k]`. The result is `float[n]` or `float[n, k]`.
///
/// ```
/// use oxidax::prelude::*;
/// let a = array![[1f32, 0.0], [0.0, 1.0]];
/// let x = oxidax_optim::nnls(&a, &array![2f32, -1.0], 50);
/// assert_eq!(x.to_vec::<f32>()?, [2.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Beck, Teboulle: A fast iterative shrinkage-thresholding algorithm for linear inverse problems
/// (2009), equations 4.1–4.3.
#[track_caller]
pub fn nnls(a: &Array, b: &Array, iters: usize) -> Array {
    let transposed = transpose(a, &[1, 0]);
    let (q, target) = (matmul(&transposed, a), matmul(&transposed, b));
    // Both norms bound the largest eigenvalue.
    let frobenius = sqrt(q.square().sum());
    let columns = reduce_max(&reduce_sum(&abs(&q), &[0]), &[0]);
    let bound = minimum(&frobenius, &columns);
    let bound = where_(eq(&bound, 0.0), ones_like(&bound), &bound);
    let x = zeros_like(&target);
    let step = |_: Array, (x, p, c): (Array, Array, Array)| {
        let next_c = (sqrt(c.square() * 4.0 + 1.0) + 1.0) / 2.0;
        let momentum = (&c - 1.0) / &next_c;
        let next = maximum(&p - (matmul(&q, &p) - &target) / &bound, zeros_like(&p));
        let p = &next + momentum * (&next - x);
        (next, p, next_c)
    };
    let start = (x.clone(), x, zeros(([], a.dtype())));
    fori_loop(0, iters as i32, step, start).0
}

/// Returns `inputs`, and multiplies their gradient by `scale` in reverse mode.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: &Array| oxidax_optim::scale_gradient(x, 0.5).square().sum();
/// assert_eq!(grad(f)(&ones([2])).to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn scale_gradient<T: Tree>(inputs: &T, scale: f64) -> T {
    // The value is exact: the difference is 0.
    tree::map(inputs, |x| {
        let scaled = x * scale;
        stop_gradient(x) + (&scaled - stop_gradient(&scaled))
    })
}

/// A Gaussian distribution of independent elements.
///
/// ```
/// use oxidax::prelude::*;
/// let gaussian = oxidax_optim::multi_normal(&zeros([2]), &zeros([2]));
/// let density = gaussian.log_prob(&zeros([2])).item::<f32>()?;
/// assert!((density + (2.0 * std::f32::consts::PI).ln()).abs() < 1e-5);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Tree, Clone, Debug)]
#[doc(alias = "MultiNormalDiagFromLogScale")]
pub struct MultiNormal {
    /// The mean.
    pub loc: Array,
    /// The logarithm of the standard deviation.
    pub log_scale: Array,
}

/// Creates a Gaussian distribution of independent elements. `loc` and `log_scale` broadcast.
pub fn multi_normal(loc: &Array, log_scale: &Array) -> MultiNormal {
    MultiNormal { loc: loc.clone(), log_scale: log_scale.clone() }
}

impl MultiNormal {
    fn mean_and_deviation(&self) -> (Array, Array) {
        let zero = zeros_like(&(&self.loc + &self.log_scale));
        (&self.loc + &zero, exp(&self.log_scale + &zero))
    }

    /// Returns samples of shape `shape` followed by that of the parameters, which are
    /// differentiable in the parameters.
    pub fn sample(&self, key: Key, shape: &[usize]) -> Array {
        let (mean, deviation) = self.mean_and_deviation();
        let dims = [shape, mean.shape().dims()].concat();
        random::normal(key, (dims, mean.dtype())) * deviation + mean
    }

    /// Returns the logarithm of the density at `x`, whose last axes are those of the parameters.
    pub fn log_prob(&self, x: &Array) -> Array {
        let (mean, deviation) = self.mean_and_deviation();
        let z = (x - &mean) / &deviation;
        let constant = 0.5 * (2.0 * std::f64::consts::PI).ln();
        let densities = z.square() * -0.5 - log(&deviation) - constant;
        let axes: Vec<isize> = (1..=mean.rank() as isize).map(|axis| -axis).collect();
        reduce_sum(&densities, &axes)
    }
}
