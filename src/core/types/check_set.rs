//! [`CheckSet`]: the errors that programs check for while they run.

use std::fmt;
use std::ops::{BitOr, Sub};

/// A set of errors that [`checkify`](crate::debug::checkify) checks for while a program runs.
///
/// Sets join with `|`; `-` removes errors.
///
/// ```
/// use oxidax::debug::CheckSet;
/// let set = CheckSet::INDEX | CheckSet::DIV;
/// assert!(set.contains(CheckSet::DIV) && !set.contains(CheckSet::FLOAT));
/// assert_eq!(CheckSet::FLOAT - CheckSet::DIV, CheckSet::NAN);
/// assert_eq!(set.to_string(), "div | index");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CheckSet(u8);

impl CheckSet {
    /// No errors.
    pub const NONE: CheckSet = CheckSet(0);
    /// The checks that the user wrote with [`check`](crate::debug::check).
    #[doc(alias = "user_checks")]
    pub const USER: CheckSet = CheckSet(1);
    /// Operations that produce NaN from operands without NaN.
    #[doc(alias = "nan_checks")]
    pub const NAN: CheckSet = CheckSet(2);
    /// Divisions and remainders by zero, of every dtype.
    #[doc(alias = "div_checks")]
    pub const DIV: CheckSet = CheckSet(4);
    /// Gathers, scatters and dynamic slices that reach beyond their array. Indices that count from
    /// the end are inside.
    #[doc(alias = "index_checks")]
    pub const INDEX: CheckSet = CheckSet(8);
    /// `NAN | DIV`.
    #[doc(alias = "float_checks")]
    pub const FLOAT: CheckSet = CheckSet(2 | 4);
    /// `FLOAT | INDEX`: everything that needs no code of the user.
    #[doc(alias = "automatic_checks")]
    pub const AUTOMATIC: CheckSet = CheckSet(2 | 4 | 8);
    /// All errors.
    #[doc(alias = "all_checks")]
    pub const ALL: CheckSet = CheckSet(1 | 2 | 4 | 8);

    /// All sets, each at the position of its number.
    pub(crate) const EVERY: [CheckSet; 16] = {
        let mut sets = [CheckSet(0); 16];
        let mut number = 0;
        while number < 16 {
            sets[number] = CheckSet(number as u8);
            number += 1;
        }
        sets
    };

    /// Returns the number of the set.
    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// Returns true if all errors of `other` are in this set.
    pub fn contains(self, other: CheckSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if the set has no errors.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for CheckSet {
    type Output = CheckSet;

    fn bitor(self, other: CheckSet) -> CheckSet {
        CheckSet(self.0 | other.0)
    }
}

impl Sub for CheckSet {
    type Output = CheckSet;

    fn sub(self, other: CheckSet) -> CheckSet {
        CheckSet(self.0 & !other.0)
    }
}

impl fmt::Display for CheckSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (CheckSet::USER, "user"),
            (CheckSet::NAN, "nan"),
            (CheckSet::DIV, "div"),
            (CheckSet::INDEX, "index"),
        ];
        let names = names.into_iter().filter(|(set, _)| self.contains(*set));
        let names: Vec<&str> = names.map(|(_, name)| name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(" | "))
    }
}
