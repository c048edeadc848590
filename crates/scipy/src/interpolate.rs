//! Interpolation on regular grids, as in `jax.scipy.interpolate`.

use crate::operands::{common_inexact, throw_shape, throw_value};
use oxidax::core::{Loc, RuleError, throw, throw_operands};
use oxidax::ops::SearchsortedOptions;
use oxidax::prelude::*;

/// Interpolation between the points of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GridMethod {
    /// Linear along each axis.
    #[default]
    Linear,
    /// The value of the nearest point.
    Nearest,
}

/// Options of [`RegularGridInterpolator::with_options`].
#[derive(Clone, Debug)]
pub struct RegularGridOptions {
    /// The interpolation. The default is [`GridMethod::Linear`].
    pub method: GridMethod,
    /// Throws an error for points outside of the grid instead of filling. Needs concrete points.
    /// The default is false.
    pub bounds_error: bool,
    /// The value outside of the grid; extrapolated if `None`. The default is NaN.
    pub fill_value: Option<Array>,
}

impl Default for RegularGridOptions {
    fn default() -> Self {
        let fill_value = Some(scalar(f64::NAN));
        RegularGridOptions { method: GridMethod::Linear, bounds_error: false, fill_value }
    }
}

/// Interpolates values on a rectangular grid, with any spacing along each axis.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::interpolate::RegularGridInterpolator;
/// let values = array![[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]];
/// let f = RegularGridInterpolator::new([&array![0.0, 1.0], &array![0.0, 2.0, 4.0]], &values);
/// assert_eq!(f.apply(&array![[0.5, 1.0], [1.0, 3.0]]).to_vec::<f32>()?, [5.5, 11.5]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct RegularGridInterpolator {
    /// The increasing coordinates of the grid along each axis: vectors of two elements or more.
    pub grid: Vec<Array>,
    /// The values: the axes of the grid, then any others.
    pub values: Array,
    fill_value: Option<Array>,
    #[tree(static)]
    method: GridMethod,
    #[tree(static)]
    bounds_error: bool,
}

impl RegularGridInterpolator {
    /// Creates an interpolator of `values` at the points of a grid, linear, with NaN outside of it.
    /// Integers become floats.
    ///
    /// Throws `Op` (shape) unless the first axes of `values` have the sizes of the coordinates,
    /// which must be at least 2.
    #[track_caller]
    pub fn new<F>(
        points: impl oxidax::primitives::ArrayList<F>,
        values: &Array,
    ) -> RegularGridInterpolator {
        RegularGridInterpolator::with_options(points, values, RegularGridOptions::default())
    }

    /// Creates an interpolator with options.
    #[track_caller]
    pub fn with_options<F>(
        points: impl oxidax::primitives::ArrayList<F>,
        values: &Array,
        options: RegularGridOptions,
    ) -> RegularGridInterpolator {
        const NAME: &str = "RegularGridInterpolator";
        let grid = points.into_arrays();
        if grid.len() > values.rank() {
            let message = format!("{} axes for values of rank {}", grid.len(), values.rank());
            throw_shape(NAME, message, &[values]);
        }
        for (axis, points) in grid.iter().enumerate() {
            if points.rank() != 1 || points.size() < 2 || points.size() != values.shape()[axis] {
                let message = format!(
                    "axis {axis} of the values has size {}, so it needs as many coordinates, and \
                     at least 2, got {}",
                    values.shape()[axis],
                    points.shape()
                );
                throw_shape(NAME, message, &[points, values]);
            }
        }
        let [values] = common_inexact([values]);
        let RegularGridOptions { method, bounds_error, fill_value } = options;
        let fill_value = fill_value.map(|fill| fill.astype(values.dtype()));
        RegularGridInterpolator { grid, values, fill_value, method, bounds_error }
    }

    /// Interpolates at points `[…, n_axes]`, and returns `[…]` with the further axes of the values.
    /// A vector is one point for each `n_axes` elements, as in JAX.
    ///
    /// Differentiable with respect to points and values.
    ///
    /// Throws `Op` (shape) for points with another number of coordinates. With
    /// [`RegularGridOptions::bounds_error`], throws `Op` (value) for points outside of the grid.
    #[doc(alias = "__call__")]
    #[track_caller]
    pub fn apply(&self, points: &Array) -> Array {
        self.apply_with(points, self.method)
    }

    /// Interpolates with another method than that of the interpolator.
    #[track_caller]
    pub fn apply_with(&self, points: &Array, method: GridMethod) -> Array {
        let n_axes = self.grid.len();
        let points = if points.rank() == 1 && n_axes > 0 && points.size().is_multiple_of(n_axes) {
            points.reshape([points.size() / n_axes, n_axes])
        } else {
            points.clone()
        };
        if points.rank() == 0 || points.shape()[points.rank() - 1] != n_axes {
            let message = format!("takes points […, {n_axes}], got {}", points.shape());
            throw_shape("RegularGridInterpolator", message, &[&points]);
        }
        let outside = Loc::caller().scope(|| self.outside(&points));
        if self.bounds_error {
            expect_inside(&outside, &points);
        }
        Loc::caller().scope(|| {
            let cells: Vec<(Array, Array)> =
                (0..n_axes).map(|axis| self.cell(&points, axis)).collect();
            let result = match method {
                GridMethod::Linear => self.linear(&cells),
                GridMethod::Nearest => self.values.index(
                    cells
                        .iter()
                        .map(|(lower, share)| Index::from(where_(le(share, 0.5), lower, lower + 1)))
                        .collect::<Vec<_>>(),
                ),
            };
            match &self.fill_value {
                Some(fill) if !self.bounds_error => where_(self.behind(&outside), fill, &result),
                _ => result,
            }
        })
    }

    /// Returns an array of one element for each point with the further axes of the values.
    fn behind(&self, x: &Array) -> Array {
        let further = self.values.rank() - self.grid.len();
        let shape: Vec<usize> = x.shape().iter().copied().chain(vec![1; further]).collect();
        x.reshape(shape)
    }

    /// Returns the points that are outside of the grid.
    fn outside(&self, points: &Array) -> Array {
        let shape = &points.shape()[..points.rank() - 1];
        let mut outside = full((shape, DType::Bool), false);
        for (axis, grid) in self.grid.iter().enumerate() {
            let x = points.index(i![..., axis]);
            outside = logical_or(outside, lt(&x, grid.index(i![0])));
            outside = logical_or(outside, gt(&x, grid.index(i![-1])));
        }
        outside
    }

    /// Returns the index of the grid point before each point along an axis, and the share of the
    /// distance to the next one.
    fn cell(&self, points: &Array, axis: usize) -> (Array, Array) {
        let (grid, x) = (&self.grid[axis], points.index(i![..., axis]));
        let found = searchsorted_with(grid, &x, SearchsortedOptions::default());
        let lower = clip(&(found - 1), 0, grid.size() as i32 - 2);
        let start = take(grid, &lower, 0);
        let width = take(grid, &(&lower + 1), 0) - &start;
        (lower, (x - start) / width)
    }

    /// Sums the values at the corners of the cells, weighted.
    fn linear(&self, cells: &[(Array, Array)]) -> Array {
        let mut sum: Option<Array> = None;
        for corner in 0..1usize << cells.len() {
            let (mut indices, mut weight) = (Vec::with_capacity(cells.len()), None);
            for (axis, (lower, share)) in cells.iter().enumerate() {
                let is_upper = corner >> axis & 1 == 1;
                indices.push(Index::from(if is_upper { lower + 1 } else { lower.clone() }));
                let factor = if is_upper { share.clone() } else { sub(1.0, share) };
                weight = Some(match weight {
                    Some(weight) => factor * &weight,
                    None => factor,
                });
            }
            let value = self.values.index(indices);
            let term = match &weight {
                Some(weight) => value * self.behind(weight),
                None => value,
            };
            sum = Some(match sum {
                Some(sum) => sum + term,
                None => term,
            });
        }
        sum.expect("there is at least one corner")
    }
}

/// Throws an error if a point is outside of the grid.
#[track_caller]
fn expect_inside(outside: &Array, points: &Array) {
    const NAME: &str = "RegularGridInterpolator";
    if outside.is_traced() {
        let error = RuleError::unsupported("`bounds_error` needs concrete points, got traced ones")
            .help("set a `fill_value`, and test the results");
        throw_operands(NAME, error, &[points]);
    }
    let count = outside.astype(DType::I32).sum().item::<i32>();
    match count {
        Ok(0) => {}
        Ok(count) => {
            throw_value(NAME, format!("{count} points are outside of the grid"), &[points])
        }
        Err(error) => throw(error),
    }
}
