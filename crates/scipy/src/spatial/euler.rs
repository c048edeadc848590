//! Euler angles: rotations about one, two or three axes in turn.

use super::rotation::{Rotation, component, composed};
use crate::operands::{common_inexact, throw_shape, throw_value};
use oxidax::prelude::*;
use std::f64::consts::PI;

/// Unit of angles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AngleUnit {
    /// Radians.
    #[default]
    Radians,
    /// Degrees.
    Degrees,
}

impl AngleUnit {
    /// Converts angles of this unit to radians.
    #[track_caller]
    pub(super) fn to_radians(self, x: &Array) -> Array {
        if self == AngleUnit::Degrees { x * (PI / 180.0) } else { x.clone() }
    }

    /// Converts radians to angles of this unit.
    #[track_caller]
    pub(super) fn of_radians(self, x: &Array) -> Array {
        if self == AngleUnit::Degrees { x * (180.0 / PI) } else { x.clone() }
    }
}

/// A sequence of axes: their indices, and whether the axes turn with the body.
struct AxisSequence {
    axes: Vec<usize>,
    is_intrinsic: bool,
}

impl AxisSequence {
    /// Reads a sequence such as `xyz` or `ZXZ`.
    #[track_caller]
    fn parse(name: &str, seq: &str) -> AxisSequence {
        let is_intrinsic = seq.chars().all(|letter| "XYZ".contains(letter));
        let is_extrinsic = seq.chars().all(|letter| "xyz".contains(letter));
        let axes: Vec<usize> =
            seq.chars().filter_map(|letter| "xyz".find(letter.to_ascii_lowercase())).collect();
        let is_repeated = axes.windows(2).any(|pair| pair[0] == pair[1]);
        if !(1..=3).contains(&axes.len()) || !(is_intrinsic || is_extrinsic) || is_repeated {
            let message = format!(
                "the sequence must have one to three of the letters x, y, z, or of X, Y, Z, with \
                 neighbours that differ, got `{seq}`"
            );
            throw_value(name, message, &[]);
        }
        AxisSequence { axes, is_intrinsic }
    }
}

impl Rotation {
    /// Creates rotations from angles about the axes of a sequence.
    ///
    /// Small letters (`xyz`) are axes that stay in place, capital letters (`ZXZ`) axes that turn
    /// with the body. Angles are `[…, n]` for `n` axes; for one axis also a scalar. Integers become
    /// floats.
    ///
    /// Throws `Op` (value) for a sequence that is not one to three such letters with neighbours
    /// that differ, and `Op` (shape) for another number of angles.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_scipy::spatial::{AngleUnit, Rotation};
    /// let quarter = Rotation::from_euler("z", &scalar(90.0), AngleUnit::Degrees);
    /// let turned = quarter.apply(&array![1.0, 0.0, 0.0]);
    /// let close = CloseOptions { atol: 1e-6, ..Default::default() };
    /// assert!(allclose_with(&turned, array![0.0, 1.0, 0.0], close).item::<bool>()?);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn from_euler(seq: &str, angles: &Array, unit: AngleUnit) -> Rotation {
        let AxisSequence { axes, is_intrinsic } = AxisSequence::parse("from_euler", seq);
        let angles = atleast_1d(&common_inexact([angles])[0]);
        if angles.shape()[angles.rank() - 1] != axes.len() {
            let message = format!(
                "the sequence `{seq}` needs angles […, {}], got {}",
                axes.len(),
                angles.shape()
            );
            throw_shape("from_euler", message, &[&angles]);
        }
        let half = unit.to_radians(&angles) * 0.5;
        let (sines, cosines) = (sin(&half), cos(&half));
        let elementary = |index: usize| {
            let (sine, cosine) = (component(&sines, index), component(&cosines, index));
            let mut parts = vec![zeros_like(&sine); 3];
            parts[axes[index]] = sine;
            parts.push(cosine);
            stack(&parts, -1)
        };
        let quat = (1..axes.len()).fold(elementary(0), |quat, index| {
            let next = elementary(index);
            if is_intrinsic { composed(&quat, &next) } else { composed(&next, &quat) }
        });
        Rotation { quat }
    }

    /// Returns the angles `[…, 3]` about the axes of a sequence, see [`Rotation::from_euler`].
    ///
    /// If the second angle makes the first and third axis parallel, the third angle is 0. Angles
    /// are between -π and π. The formulas are those of Bernardes and Viollet (2022).
    ///
    /// Throws `Op` (value) for a sequence of other than three axes.
    #[track_caller]
    pub fn as_euler(&self, seq: &str, unit: AngleUnit) -> Array {
        let AxisSequence { mut axes, is_intrinsic } = AxisSequence::parse("as_euler", seq);
        if axes.len() != 3 {
            throw_value("as_euler", format!("needs three axes, got `{seq}`"), &[&self.quat]);
        }
        if is_intrinsic {
            axes.reverse();
        }
        let (i, j) = (axes[0], axes[1]);
        let is_symmetric = i == axes[2];
        let k = 3 - i - j;
        // The sign of the permutation.
        let sign = if (j + 3 - i) % 3 == 1 { 1.0 } else { -1.0 };
        let q = |index: usize| component(&self.quat, index);
        let (a, b, c, d) = if is_symmetric {
            (q(3), q(i), q(j), q(k) * sign)
        } else {
            (q(3) - q(j), q(i) + q(k) * sign, q(j) + q(3), q(k) * sign - q(i))
        };
        let second = atan2(hypot(&c, &d), hypot(&a, &b)) * 2.0;
        let (half_sum, half_diff) = (atan2(&b, &a), atan2(&d, &c));
        let tolerance = 1e-7;
        let is_zero = le(abs(&second), tolerance);
        let is_half_turn = le(abs(&second - PI), tolerance);
        let is_degenerate = logical_or(&is_zero, &is_half_turn);
        let direction = if is_intrinsic { 2.0 } else { -2.0 };
        let lone = where_(&is_zero, &half_sum * 2.0, &half_diff * direction);
        let (difference, total) = (&half_sum - &half_diff, &half_sum + &half_diff);
        let (mut first, mut third) = if is_intrinsic {
            (where_(&is_degenerate, lone, total), where_(&is_degenerate, 0.0, difference))
        } else {
            (where_(&is_degenerate, lone, difference), where_(&is_degenerate, 0.0, total))
        };
        let mut second = second;
        if !is_symmetric {
            if is_intrinsic {
                first *= sign;
            } else {
                third *= sign;
            }
            second -= PI / 2.0;
        }
        let angles = stack([&first, &second, &third], -1);
        unit.of_radians(&(remainder(angles + PI, 2.0 * PI) - PI))
    }
}
