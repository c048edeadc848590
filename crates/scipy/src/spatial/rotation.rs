//! [`Rotation`]: rotations as unit quaternions.

use super::euler::AngleUnit;
use crate::operands::{common_inexact, throw_shape};
use oxidax::core::Loc;
use oxidax::ops::linalg;
use oxidax::prelude::*;
use oxidax::random::Key;
use std::ops::Mul;

/// Angles below this one are computed from power series.
const SMALL_ANGLE: f64 = 1e-3;

/// Order of the components of a quaternion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuaternionOrder {
    /// `x, y, z, w`.
    #[default]
    ScalarLast,
    /// `w, x, y, z`.
    #[doc(alias = "scalar_first")]
    ScalarFirst,
}

/// Rotations in three dimensions: one, or an array of them.
///
/// All methods work on any number of axes before the last one of the quaternions.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::spatial::{AngleUnit, Rotation};
/// let half = Rotation::from_rotvec(&array![0.0, 0.0, 180.0], AngleUnit::Degrees);
/// let close = CloseOptions { atol: 1e-6, ..Default::default() };
/// let turned = (&half * &half).apply(&array![1.0, 2.0, 3.0]);
/// assert!(allclose_with(&turned, array![1.0, 2.0, 3.0], close).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Rotation {
    /// Unit quaternions `[…, 4]` in the order `x, y, z, w`.
    pub quat: Array,
}

/// Returns one component along the last axis.
#[track_caller]
pub(super) fn component(x: &Array, index: usize) -> Array {
    let last = x.rank() as isize - 1;
    squeeze(&slice_in_dim(x, index as isize, index as isize + 1, 1, last), &[-1])
}

/// Returns the first three components.
#[track_caller]
fn vector_part(quat: &Array) -> Array {
    slice_in_dim(quat, 0, 3, 1, -1)
}

/// Returns the scalar component, with an axis of size 1.
#[track_caller]
fn scalar_part(quat: &Array) -> Array {
    slice_in_dim(quat, 3, 4, 1, -1)
}

/// Sums the squares along the last axis, which becomes 1.
#[track_caller]
fn squared_norm(x: &Array) -> Array {
    x.square().sum_axes(oxidax::ops::axes(-1).keepdims())
}

/// Returns the Hamilton product, without normalization.
#[track_caller]
pub(super) fn composed(p: &Array, q: &Array) -> Array {
    let (pv, qv, pw, qw) = (vector_part(p), vector_part(q), scalar_part(p), scalar_part(q));
    let dot = (&pv * &qv).sum_axes(oxidax::ops::axes(-1).keepdims());
    let vector = &pw * &qv + &qw * &pv + cross(&pv, &qv, -1);
    concatenate([&vector, &(&pw * &qw - dot)], -1)
}

#[track_caller]
fn normalized(quat: &Array) -> Array {
    quat / sqrt(squared_norm(quat))
}

/// Checks that the last axes have the sizes, and converts integers to floats.
#[track_caller]
fn expect_last(name: &str, x: &Array, sizes: &[usize]) -> Array {
    let rank = x.rank();
    if rank < sizes.len() || x.shape()[rank - sizes.len()..] != *sizes {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let message = format!("takes an array […, {}], got {}", sizes.join(", "), x.shape());
        throw_shape(name, message, &[x]);
    }
    common_inexact([x])[0].clone()
}

/// Constructors.
impl Rotation {
    /// Creates rotations from quaternions `[…, 4]` in the order `x, y, z, w`, which are normalized.
    ///
    /// Throws `Op` (shape) for another last axis.
    #[track_caller]
    pub fn from_quat(quat: &Array) -> Rotation {
        Rotation { quat: normalized(&expect_last("from_quat", quat, &[4])) }
    }

    /// Creates rotations from matrices `[…, 3, 3]` that are orthogonal with determinant 1.
    ///
    /// The component of the quaternion that is largest is computed first (Markley 2008).
    ///
    /// Throws `Op` (shape) for other last axes.
    #[track_caller]
    pub fn from_matrix(matrix: &Array) -> Rotation {
        let matrix = expect_last("from_matrix", matrix, &[3, 3]);
        Loc::caller().scope(|| {
            let m = |row: usize, column: usize| matrix.index(i![..., row, column]);
            let trace = m(0, 0) + m(1, 1) + m(2, 2);
            let candidate = |i: usize| {
                let (j, k) = ((i + 1) % 3, (i + 2) % 3);
                let mut parts = vec![trace.clone(); 4];
                parts[i] = m(i, i) * 2.0 + 1.0 - &trace;
                parts[j] = m(j, i) + m(i, j);
                parts[k] = m(k, i) + m(i, k);
                parts[3] = m(k, j) - m(j, k);
                stack(&parts, -1)
            };
            let scalar = [m(2, 1) - m(1, 2), m(0, 2) - m(2, 0), m(1, 0) - m(0, 1), &trace + 1.0];
            let choice = argmax(&stack([&m(0, 0), &m(1, 1), &m(2, 2), &trace], -1), -1);
            let choice = choice.expand_dims(-1);
            let quat = (0..3).fold(stack(&scalar, -1), |quat, index| {
                where_(eq(&choice, index as i32), candidate(index), quat)
            });
            Rotation { quat: normalized(&quat) }
        })
    }

    /// Creates rotations from vectors `[…, 3]` along the axes, whose lengths are the angles.
    ///
    /// Throws `Op` (shape) for another last axis.
    #[track_caller]
    pub fn from_rotvec(rotvec: &Array, unit: AngleUnit) -> Rotation {
        let rotvec = unit.to_radians(&expect_last("from_rotvec", rotvec, &[3]));
        let squared = squared_norm(&rotvec);
        let is_small = le(&squared, SMALL_ANGLE * SMALL_ANGLE);
        // The root of 0 has no derivative, so it is not computed.
        let angle = sqrt(where_(&is_small, 1.0, &squared));
        let half = &angle * 0.5;
        let series = sub(0.5, &squared / 48.0) + squared.square() / 3840.0;
        let scale = where_(&is_small, series, sin(&half) / &angle);
        let cosine_series = sub(1.0, &squared / 8.0) + squared.square() / 384.0;
        let cosine = where_(&is_small, cosine_series, cos(&half));
        Rotation { quat: concatenate([&(scale * rotvec), &cosine], -1) }
    }

    /// Creates rotations from modified Rodrigues parameters `[…, 3]`: axes times `tan(angle / 4)`.
    ///
    /// Throws `Op` (shape) for another last axis.
    #[track_caller]
    pub fn from_mrp(mrp: &Array) -> Rotation {
        let mrp = expect_last("from_mrp", mrp, &[3]);
        let one_more = squared_norm(&mrp) + 1.0;
        let parts = concatenate([&(&mrp * 2.0), &sub(2.0, &one_more)], -1);
        Rotation { quat: parts / one_more }
    }

    /// Creates the rotation by 0: one, or a vector of `num`. The dtype is `f32`.
    #[track_caller]
    pub fn identity(num: Option<usize>) -> Rotation {
        Rotation::identity_of(num, DType::F32)
    }

    /// Creates the rotation by 0 in a float dtype.
    #[track_caller]
    pub fn identity_of(num: Option<usize>, dtype: DType) -> Rotation {
        let one = eq(iota(DType::I32, 4usize), 3).astype(dtype);
        let quat = match num {
            Some(num) => broadcast_to(&one, [num, 4]),
            None => one,
        };
        Rotation { quat }
    }

    /// Draws rotations with the uniform distribution: one, or a vector of `num`. The dtype is
    /// `f32`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_scipy::spatial::Rotation;
    /// let rotations = Rotation::random(random::key(0), Some(5));
    /// assert_eq!(rotations.len(), 5);
    /// ```
    #[track_caller]
    pub fn random(key: Key, num: Option<usize>) -> Rotation {
        let shape: Vec<usize> = num.into_iter().chain([4]).collect();
        Rotation { quat: normalized(&oxidax::random::normal(key, shape)) }
    }

    /// Concatenates vectors of rotations.
    ///
    /// Throws `Op` (shape) for single rotations.
    #[track_caller]
    pub fn concatenate<'a>(rotations: impl IntoIterator<Item = &'a Rotation>) -> Rotation {
        let quats: Vec<Array> = rotations.into_iter().map(|one| one.quat.clone()).collect();
        if let Some(single) = quats.iter().find(|quat| quat.rank() < 2) {
            let message = format!("takes vectors of rotations, got quaternions {}", single.shape());
            throw_shape("Rotation::concatenate", message, &[single]);
        }
        Rotation { quat: concatenate(&quats, 0) }
    }
}

/// Other representations.
impl Rotation {
    /// Returns the quaternions `[…, 4]`.
    #[track_caller]
    pub fn as_quat(&self, order: QuaternionOrder) -> Array {
        match order {
            QuaternionOrder::ScalarLast => self.quat.clone(),
            QuaternionOrder::ScalarFirst => roll(&self.quat, 1, -1),
        }
    }

    /// Returns the same rotations with quaternions whose first component that is not 0, in the
    /// order `w, x, y, z`, is positive.
    #[track_caller]
    pub fn canonical(&self) -> Rotation {
        let sign = [3, 0, 1, 2].into_iter().rev().fold(None, |rest: Option<Array>, index| {
            let own = sign(component(&self.quat, index));
            Some(match rest {
                Some(rest) => where_(eq(&own, 0.0), rest, own),
                None => own,
            })
        });
        let sign = sign.expect("a quaternion has four components").expand_dims(-1);
        let is_negative = lt(&sign, 0.0);
        Rotation { quat: where_(is_negative, neg(&self.quat), &self.quat) }
    }

    /// Returns the matrices `[…, 3, 3]`.
    #[track_caller]
    pub fn as_matrix(&self) -> Array {
        Loc::caller().scope(|| {
            let q = |index: usize| component(&self.quat, index);
            let (x, y, z, w) = (q(0), q(1), q(2), q(3));
            let diagonal =
                |a: &Array, b: &Array, c: &Array| a.square() - b.square() - c.square() + w.square();
            let twice = |a: Array| a * 2.0;
            let rows = [
                [diagonal(&x, &y, &z), twice(&x * &y - &z * &w), twice(&x * &z + &y * &w)],
                [twice(&x * &y + &z * &w), diagonal(&y, &x, &z), twice(&y * &z - &x * &w)],
                [twice(&x * &z - &y * &w), twice(&y * &z + &x * &w), diagonal(&z, &x, &y)],
            ];
            stack(rows.map(|row| stack(&row, -1)), -2)
        })
    }

    /// Returns vectors `[…, 3]` along the axes, whose lengths are the angles, at most π.
    #[track_caller]
    pub fn as_rotvec(&self, unit: AngleUnit) -> Array {
        let w = scalar_part(&self.quat);
        let quat = where_(lt(&w, 0.0), neg(&self.quat), &self.quat);
        let (vector, w) = (vector_part(&quat), scalar_part(&quat));
        let squared = squared_norm(&vector);
        let is_small = le(&squared, SMALL_ANGLE * SMALL_ANGLE / 4.0);
        let norm = sqrt(where_(&is_small, 1.0, &squared));
        let angle = atan2(&norm, where_(&is_small, 1.0, &w)) * 2.0;
        let tangent = &squared / where_(&is_small, &w, 1.0).square();
        let small = &tangent * 4.0 * sub(1.0, &tangent * (2.0 / 3.0));
        let series = &small / 12.0 + small.square() * (7.0 / 2880.0) + 2.0;
        let scale = where_(&is_small, series, &angle / sin(&(&angle * 0.5)));
        unit.of_radians(&(scale * vector))
    }

    /// Returns the modified Rodrigues parameters `[…, 3]`: axes times `tan(angle / 4)`.
    #[track_caller]
    pub fn as_mrp(&self) -> Array {
        let w = scalar_part(&self.quat);
        let sign = where_(lt(&w, 0.0), -1.0, 1.0).astype(self.quat.dtype());
        &sign * vector_part(&self.quat) / (sign * w + 1.0)
    }
}

/// Operations.
impl Rotation {
    /// Rotates vectors `[…, 3]`. The axes before the last broadcast.
    ///
    /// Throws `Op` (shape) for another last axis.
    #[track_caller]
    pub fn apply(&self, vectors: &Array) -> Array {
        let vectors = expect_last("Rotation::apply", vectors, &[3]);
        matvec(&self.as_matrix(), &vectors)
    }

    /// Rotates vectors `[…, 3]` by the inverse.
    #[doc(alias = "inverse")]
    #[track_caller]
    pub fn apply_inverse(&self, vectors: &Array) -> Array {
        let vectors = expect_last("Rotation::apply_inverse", vectors, &[3]);
        matvec(&swapaxes(&self.as_matrix(), -1, -2), &vectors)
    }

    /// Returns the inverse.
    #[track_caller]
    pub fn inv(&self) -> Rotation {
        let (vector, w) = (vector_part(&self.quat), scalar_part(&self.quat));
        Rotation { quat: concatenate([&neg(&vector), &w], -1) }
    }

    /// Returns the angles `[…]`, between 0 and π.
    #[track_caller]
    pub fn magnitude(&self) -> Array {
        let norm = sqrt(squared_norm(&vector_part(&self.quat)));
        squeeze(&(atan2(norm, abs(scalar_part(&self.quat))) * 2.0), &[-1])
    }

    /// Returns the mean of a vector of rotations: the one with the least sum of squared distances
    /// between quaternions (Markley et al. 2007).
    ///
    /// Throws `Op` (shape) for a single rotation.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_scipy::spatial::{AngleUnit, Rotation};
    /// let turns = Rotation::from_euler("z", &array![[10.0], [30.0]], AngleUnit::Degrees);
    /// let angle = turns.mean().magnitude().item::<f32>()?;
    /// assert!((angle.to_degrees() - 20.0).abs() < 1e-3);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn mean(&self) -> Rotation {
        self.mean_of(&ones((vec![self.len()], self.quat.dtype())))
    }

    /// Returns the mean with one weight for each rotation.
    ///
    /// Throws `Op` (shape) unless the weights are a vector with one element for each rotation.
    #[doc(alias = "mean")]
    #[track_caller]
    pub fn mean_weighted(&self, weights: &Array) -> Rotation {
        if weights.shape().dims() != [self.len()] {
            let message = format!(
                "{} rotations need a vector of as many weights, got {}",
                self.len(),
                weights.shape()
            );
            throw_shape("Rotation::mean", message, &[weights]);
        }
        self.mean_of(&weights.astype(self.quat.dtype()))
    }

    #[track_caller]
    fn mean_of(&self, weights: &Array) -> Rotation {
        let products = matmul(&(self.quat.t() * weights), &self.quat);
        let vectors = linalg::eigh(&products).eigenvectors;
        Rotation { quat: component(&vectors, 3) }
    }

    /// Returns the rotations at an index of the axes before the last.
    #[doc(alias = "__getitem__")]
    #[track_caller]
    pub fn index(&self, indices: impl AsRef<[Index]>) -> Rotation {
        if self.is_single() {
            throw_shape("Rotation::index", "a single rotation has no index".into(), &[&self.quat]);
        }
        Rotation { quat: self.quat.index(indices) }
    }

    /// Returns true for one rotation, false for an array of them.
    #[doc(alias = "single")]
    pub fn is_single(&self) -> bool {
        self.quat.rank() == 1
    }

    /// Returns the number of rotations along the first axis.
    ///
    /// Throws `Op` (shape) for a single rotation.
    #[track_caller]
    pub fn len(&self) -> usize {
        if self.is_single() {
            throw_shape("Rotation::len", "a single rotation has no length".into(), &[&self.quat]);
        }
        self.quat.shape()[0]
    }

    /// Returns true for a vector of no rotations.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Mul for &Rotation {
    type Output = Rotation;
    /// Returns the rotation by `other`, then by `self`. Axes before the last broadcast.
    #[track_caller]
    fn mul(self, other: &Rotation) -> Rotation {
        Rotation { quat: normalized(&composed(&self.quat, &other.quat)) }
    }
}

impl Mul for Rotation {
    type Output = Rotation;
    #[track_caller]
    fn mul(self, other: Rotation) -> Rotation {
        &self * &other
    }
}
