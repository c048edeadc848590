//! Which axes a reduction goes along.

use crate::core::{Array, Shape};
use crate::primitives::{reshape, resolve_axes, transpose};

/// The axes of a reduction: one, several, or all, and whether they stay as axes of size 1.
///
/// Made from an index or a list of them; negative ones count from the back. [`axes`] adds what an
/// index cannot say:
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [2, 3, 4]);
/// let shape = |f: fn(&Array) -> Array| eval_shape(move |x: Array| f(&x), x.clone());
/// assert_eq!(shape(|x| x.sum_axes(-1))?.aval().to_string(), "f32[2,3]");
/// assert_eq!(shape(|x| x.sum_axes([0, -1]))?.aval().to_string(), "f32[3]");
/// assert_eq!(shape(|x| x.sum_axes(axes(-1).keepdims()))?.aval().to_string(), "f32[2,3,1]");
/// assert_eq!(shape(|x| x.sum_axes(Axes::all().keepdims()))?.aval().to_string(), "f32[1,1,1]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// `None` for all.
    list: Option<Vec<isize>>,
    keepdims: bool,
}

impl Axes {
    /// Every axis.
    pub fn all() -> Axes {
        Axes { list: None, keepdims: false }
    }

    /// The same axes, which stay with size 1, so that the result broadcasts against the operand.
    pub fn keepdims(self) -> Axes {
        Axes { keepdims: true, ..self }
    }

    /// The axes of `x`, sorted.
    #[track_caller]
    pub(super) fn resolve(&self, name: &str, x: &Array) -> Vec<usize> {
        match &self.list {
            None => (0..x.rank()).collect(),
            Some(list) => resolve_axes(name, x, list),
        }
    }

    /// `reduced`, which is `x` without these axes, with the axes put back if they are kept.
    #[track_caller]
    pub(super) fn restore(&self, name: &str, x: &Array, reduced: &Array) -> Array {
        match self.keepdims {
            true => reshape(reduced, self.result_shape(name, x)),
            false => reduced.clone(),
        }
    }

    /// The shape of `x` reduced along these axes.
    #[track_caller]
    pub(super) fn result_shape(&self, name: &str, x: &Array) -> Shape {
        let axes = self.resolve(name, x);
        let size = |(axis, &size): (usize, &usize)| match axes.contains(&axis) {
            true => self.keepdims.then_some(1),
            false => Some(size),
        };
        x.shape().iter().enumerate().filter_map(size).collect()
    }

    /// `x` with these axes at the end, flattened into one.
    #[track_caller]
    pub(super) fn flattened_last(&self, name: &str, x: &Array) -> Array {
        let over = self.resolve(name, x);
        let kept: Vec<usize> = (0..x.rank()).filter(|axis| !over.contains(axis)).collect();
        let mut shape: Vec<usize> = kept.iter().map(|&axis| x.shape()[axis]).collect();
        shape.push(over.iter().map(|&axis| x.shape()[axis]).product());
        let order: Vec<usize> = kept.into_iter().chain(over).collect();
        reshape(&transpose(x, &order), shape)
    }
}

/// Axes from an index or a list of them, for [`Axes::keepdims`].
pub fn axes(axes: impl Into<Axes>) -> Axes {
    axes.into()
}

/// Resolved axes as they are given to primitives.
pub(super) fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&axis| axis as isize).collect()
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Axes {
        Axes { list: Some(vec![axis]), keepdims: false }
    }
}

impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Axes {
        Axes { list: Some(axes.to_vec()), keepdims: false }
    }
}

impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Axes {
        Axes { list: Some(axes.to_vec()), keepdims: false }
    }
}

impl From<Vec<isize>> for Axes {
    fn from(axes: Vec<isize>) -> Axes {
        Axes { list: Some(axes), keepdims: false }
    }
}
