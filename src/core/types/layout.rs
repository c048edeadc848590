//! [`Layout`]: the order of an array's elements in memory.

use crate::core::error::{RuleError, RuleResult};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The order of an array's elements in the memory of a device.
///
/// ```
/// use oxidax::parallel::Layout;
/// let columns = Layout::new([1, 0]);
/// assert_eq!(columns.major_to_minor, [1, 0]);
/// assert_eq!(columns.to_string(), "{0,1}");
/// assert_ne!(columns, Layout::row_major(2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// The axes, slowest first: `[0, 1]` is row-major order of a matrix.
    pub major_to_minor: Vec<usize>,
    /// The sizes of each level of tiles, as TPUs have them. Empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiling: Vec<Vec<usize>>,
}

impl Layout {
    /// Creates a layout without tiles from the axes, slowest first.
    pub fn new(major_to_minor: impl Into<Vec<usize>>) -> Layout {
        Layout { major_to_minor: major_to_minor.into(), tiling: Vec::new() }
    }

    /// Returns the layout of an array of this rank whose last axis varies fastest.
    pub fn row_major(rank: usize) -> Layout {
        Layout::new((0..rank).collect::<Vec<_>>())
    }

    /// Checks that the layout orders `rank` axes.
    pub(crate) fn check(&self, rank: usize) -> RuleResult<()> {
        let mut axes = self.major_to_minor.clone();
        axes.sort_unstable();
        if axes.into_iter().eq(0..rank) {
            return Ok(());
        }
        let help = format!("for example `Layout::row_major({rank})`");
        Err(RuleError::value(format!(
            "`major_to_minor` {:?} is not an order of the {rank} axes",
            self.major_to_minor
        ))
        .help(help))
    }
}

impl fmt::Display for Layout {
    /// Writes XLA's notation: the axes, fastest first, and the tiles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &mut dyn Iterator<Item = &usize>| {
            numbers.map(usize::to_string).collect::<Vec<_>>().join(",")
        };
        write!(f, "{{{}", list(&mut self.major_to_minor.iter().rev()))?;
        for (level, tile) in self.tiling.iter().enumerate() {
            f.write_str(if level == 0 { ":T" } else { "" })?;
            write!(f, "({})", list(&mut tile.iter()))?;
        }
        f.write_str("}")
    }
}
