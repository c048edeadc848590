//! Which axes a reduction goes along.

use crate::core::{Array, Shape};
use crate::primitives::{reshape, resolve_axes};

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
        if !self.keepdims {
            return reduced.clone();
        }
        let axes = self.resolve(name, x);
        let kept: Shape = x
            .shape()
            .iter()
            .enumerate()
            .map(|(axis, &size)| if axes.contains(&axis) { 1 } else { size })
            .collect();
        reshape(reduced, kept)
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
