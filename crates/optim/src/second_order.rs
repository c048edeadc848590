//! Diagonals of second derivatives.

use oxidax::prelude::*;

/// Returns the product of the Hessian of a loss with a vector, as a vector of all parameters.
///
/// `v` has the elements of all leaves of `parameters`, in order, as [`tree::ravel`]. Use
/// [`oxidax::transforms`] for products in the structure of the parameters.
#[track_caller]
pub fn hvp<T: Tree>(loss: impl Fn(&T) -> Array, v: &Array, parameters: &T) -> Array {
    let (flat, unravel) = tree::ravel(parameters);
    let of_flat = |flat: &Array| loss(&unravel(flat));
    let gradient = grad(of_flat);
    jvp(|flat: &Array| gradient(flat), &flat, v).1
}

/// Returns the diagonal of the Hessian of a loss, as a vector of all parameters.
///
/// It computes as many Hessian products as there are parameters. The loss is a function of the
/// parameters; capture inputs and targets.
///
/// ```
/// use oxidax::prelude::*;
/// let loss = |w: &Array| (w.square() * w).sum();
/// let diagonal = oxidax_optim::second_order::hessian_diag(loss, &array![1f32, 2.0]);
/// assert_eq!(diagonal.to_vec::<f32>()?, [6.0, 12.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hessian_diag<T: Tree>(loss: impl Fn(&T) -> Array, parameters: &T) -> Array {
    let (flat, unravel) = tree::ravel(parameters);
    let of_flat = |flat: &Array| loss(&unravel(flat));
    let gradient = grad(of_flat);
    let directions = eye([flat.size(), flat.size()]).astype(flat.dtype());
    let entry = |v: Array| {
        let (_, product) = jvp(|flat: &Array| gradient(flat), &flat, &v);
        (v * product).sum()
    };
    vmap(entry).apply(directions)
}

/// Returns the diagonal of the empirical Fisher matrix: the squares of the gradient of a negative
/// log-likelihood, as a vector of all parameters.
#[track_caller]
pub fn fisher_diag<T: Tree>(
    negative_log_likelihood: impl Fn(&T) -> Array,
    parameters: &T,
) -> Array {
    let gradient = grad(|parameters: &T| negative_log_likelihood(parameters))(parameters);
    tree::ravel(&gradient).0.square()
}
