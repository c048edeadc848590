//! Spherical linear interpolation of rotations.

use super::euler::AngleUnit;
use super::rotation::{QuaternionOrder, Rotation};
use crate::operands::throw_shape;
use oxidax::core::Loc;
use oxidax::ops::SearchsortedOptions;
use oxidax::prelude::*;

/// Interpolates between rotations at increasing times, with constant angular velocity between two
/// of them (Shoemake 1985).
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::spatial::{AngleUnit, Rotation, Slerp};
/// let turns = Rotation::from_euler("z", &array![[0.0], [90.0]], AngleUnit::Degrees);
/// let between = Slerp::new(&array![0.0, 3.0], &turns).apply(&scalar(1.0));
/// assert!((between.magnitude().item::<f32>()?.to_degrees() - 30.0).abs() < 1e-3);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Slerp {
    /// The times `[n]`.
    pub times: Array,
    /// The differences of the times `[n - 1]`.
    pub timedelta: Array,
    /// All rotations but the last.
    pub rotations: Rotation,
    /// The rotations from each to the next, as vectors `[n - 1, 3]`.
    pub rotvecs: Array,
}

impl Slerp {
    /// Creates the interpolation of a vector of rotations at increasing times.
    ///
    /// Throws `Op` (shape) for fewer than two rotations, and unless there is one time for each.
    #[doc(alias = "init")]
    #[track_caller]
    pub fn new(times: &Array, rotations: &Rotation) -> Slerp {
        let quat = rotations.as_quat(QuaternionOrder::ScalarLast);
        if quat.rank() != 2 || quat.shape()[0] < 2 || times.shape().dims() != [quat.shape()[0]] {
            let message = format!(
                "takes at least two rotations and a vector of as many times, got times {} and \
                 quaternions {}",
                times.shape(),
                quat.shape()
            );
            throw_shape("Slerp", message, &[times, &quat]);
        }
        let times = times.astype(quat.dtype());
        let before = Rotation { quat: quat.index(i![..-1]) };
        let after = Rotation { quat: quat.index(i![1..]) };
        let rotvecs = (&before.inv() * &after).as_rotvec(AngleUnit::Radians);
        Slerp { timedelta: diff(&times, 0), times, rotations: before, rotvecs }
    }

    /// Returns the rotations at times: a scalar or a vector. Times beyond the first and the last
    /// are extrapolated.
    ///
    /// Throws `Op` (shape) for times of a higher rank.
    #[doc(alias = "__call__")]
    #[track_caller]
    pub fn apply(&self, times: &Array) -> Rotation {
        if times.rank() > 1 {
            throw_shape(
                "Slerp",
                format!("takes a vector of times, got {}", times.shape()),
                &[times],
            );
        }
        Loc::caller().scope(|| {
            let times = times.astype(self.times.dtype());
            let found = searchsorted_with(&self.times, &times, SearchsortedOptions::default());
            let last = self.rotvecs.shape()[0] as i32 - 1;
            let before = clip(&(found - 1), 0, last);
            let share =
                (&times - take(&self.times, &before, 0)) / take(&self.timedelta, &before, 0);
            let turned = take(&self.rotvecs, &before, 0) * share.expand_dims(-1);
            let start = Rotation { quat: take(&self.rotations.quat, &before, 0) };
            &start * &Rotation::from_rotvec(&turned, AngleUnit::Radians)
        })
    }
}
