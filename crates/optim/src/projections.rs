//! Euclidean projections onto sets, for projected gradient descent.
//!
//! Each function takes a tree, which is one vector: norms and sums are over all leaves together.

use oxidax::optim::Leaves;
use oxidax::prelude::*;

/// Projects onto the non-negative orthant: negative elements become 0.
#[track_caller]
pub fn projection_non_negative<T: Tree>(tree: &T) -> T {
    tree::map(tree, |x| maximum(x, zeros_like(x)))
}

/// Projects onto a box: clips every element between those of `lower` and `upper`.
///
/// Throws `Tree` if the structures differ.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::projections::projection_box;
/// let x = array![-1f32, 0.5, 3.0];
/// let inside = projection_box(&x, &zeros([3]), &ones([3]));
/// assert_eq!(inside.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn projection_box<T: Tree>(tree: &T, lower: &T, upper: &T) -> T {
    let raised = tree::zip_map(tree, lower, |x, lower| maximum(x, lower));
    tree::zip_map(&raised, upper, |x, upper| minimum(x, upper))
}

/// Projects onto the cube of elements between 0 and `scale`.
#[track_caller]
pub fn projection_hypercube<T: Tree>(tree: &T, scale: f64) -> T {
    tree::map(tree, |x| minimum(maximum(x, zeros_like(x)), full_like(x, scale)))
}

/// Projects onto the simplex of non-negative elements whose sum is `scale`. Its derivative is that
/// of the projection onto the face that it reaches.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::projections::projection_simplex;
/// let x = array![2f32, 0.0, 1.5];
/// assert_eq!(projection_simplex(&x, 1.0).to_vec::<f32>()?, [0.75, 0.0, 0.25]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Duchi, Shalev-Shwartz, Singer, Chandra: Efficient projections onto the ℓ1-ball for learning in
/// high dimensions (2008), figure 1.
#[track_caller]
pub fn projection_simplex<T: Tree>(tree: &T, scale: f64) -> T {
    let (values, unravel) = tree::ravel(tree);
    unravel(&(unit_simplex(&(values / scale)) * scale))
}

/// Projects a vector onto the probability simplex.
pub(crate) fn unit_simplex(values: &Array) -> Array {
    // The support is piecewise constant, and the mean of the excess over it has the derivative of
    // the projection.
    let fixed = stop_gradient(values);
    let n = fixed.size();
    let sorted = sort_descending(&fixed, 0);
    let ranks = arange(n as i64).astype(values.dtype()) + 1.0;
    let means = cumsum(&sorted, 0) / &ranks;
    let is_inside = gt(1.0 / &ranks + (&sorted - &means), 0.0);
    let count = is_inside.astype(DType::I32).sum();
    let threshold = (where_(&is_inside, &sorted, zeros_like(&sorted)).sum() - 1.0)
        / count.astype(values.dtype());
    let support = gt(&fixed, &threshold);
    let size = count.astype(values.dtype());
    let sum = where_(&support, values, zeros_like(values)).sum();
    let threshold = (sum - 1.0) / size;
    where_(&support, values - threshold, zeros_like(values))
}

/// Projects onto the sphere of L1 norm `scale`. The sign of an element does not change.
#[track_caller]
pub fn projection_l1_sphere<T: Tree>(tree: &T, scale: f64) -> T {
    let lengths = projection_simplex(&tree::map(tree, |x| abs(x)), scale);
    tree::zip_map(tree, &lengths, |x, length| sign(x) * length)
}

/// Projects onto the ball of L1 norm `scale`.
#[track_caller]
pub fn projection_l1_ball<T: Tree>(tree: &T, scale: f64) -> T {
    let norm = tree::sum(&tree::map(tree, |x| abs(x)));
    let is_inside = le(norm, scale);
    let sphere = projection_l1_sphere(tree, scale);
    tree::zip_map(tree, &sphere, |x, projected| where_(&is_inside, x, projected))
}

/// Projects onto the sphere of Euclidean norm `scale`.
#[track_caller]
pub fn projection_l2_sphere<T: Tree>(tree: &T, scale: f64) -> T {
    let factor = scale / tree::norm(tree);
    tree::map(tree, |x| x * factor.astype(x.dtype()))
}

/// Projects onto the ball of Euclidean norm `scale`.
#[track_caller]
pub fn projection_l2_ball<T: Tree>(tree: &T, scale: f64) -> T {
    let square = tree::sum(&tree::map(tree, |x| x.square()));
    let bound = full_like(&square, scale * scale);
    let factor = scale / sqrt(maximum(square, bound));
    tree::map(tree, |x| x * factor.astype(x.dtype()))
}

/// Projects onto the ball of largest absolute element `scale`.
#[track_caller]
pub fn projection_linf_ball<T: Tree>(tree: &T, scale: f64) -> T {
    tree::map(tree, |x| minimum(maximum(x, full_like(x, -scale)), full_like(x, scale)))
}

/// Projects `x` onto the line through 0 and `a`.
#[track_caller]
pub fn projection_vector<T: Tree>(x: &T, a: &T) -> T {
    let factor = tree::vdot(x, a) / tree::vdot(a, a);
    tree::map(a, |a| a * factor.astype(a.dtype()))
}

/// Projects `x` onto the hyperplane of points whose inner product with `a` is `b`.
#[track_caller]
pub fn projection_hyperplane<T: Tree>(x: &T, a: &T, b: impl ArrayLike) -> T {
    moved_along(x, a, &excess(x, a, b))
}

/// Projects `x` onto the half-space of points whose inner product with `a` is at most `b`.
#[track_caller]
pub fn projection_halfspace<T: Tree>(x: &T, a: &T, b: impl ArrayLike) -> T {
    let excess = excess(x, a, b);
    moved_along(x, a, &minimum(&excess, zeros_like(&excess)))
}

/// Returns the multiple of `a` that leads from `x` to the hyperplane.
fn excess<T: Tree>(x: &T, a: &T, b: impl ArrayLike) -> Array {
    let product = tree::vdot(x, a);
    sub(b, product) / tree::vdot(a, a)
}

fn moved_along<T: Tree>(x: &T, a: &T, factor: &Array) -> T {
    tree::zip_map(x, a, |x, a| x + a * factor.astype(a.dtype()))
}

/// Keeps parameters in a set: the update leads to `projection` of the updated parameters.
///
/// Put it at the end of a chain.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::projections::{keep_params_in, projection_simplex};
/// let optimizer = optim::sgd(0.1).chain(keep_params_in(|x| projection_simplex(x, 1.0)));
/// let w = array![0.5f32, 0.5];
/// let (updates, _) = optimizer.update(&array![1f32, -1.0], &optimizer.init(&w), &w);
/// assert_eq!((w + updates).sum().item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn keep_params_in(
    projection: impl Fn(&Leaves) -> Leaves + Send + Sync + 'static,
) -> oxidax::optim::Optimizer {
    optim::transformation(
        |_| (),
        move |updates, (), args| {
            let next = optim::apply_updates(args.parameters(), &updates);
            (projection(&next).zip_map([args.parameters()], |next, [now]| next - now), ())
        },
    )
}
