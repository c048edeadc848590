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

    /// The layout that the compiler chooses, for [`Jit::in_layouts`](crate::jit::Jit::in_layouts).
    pub const AUTO: LayoutMode = LayoutMode::Auto;

    /// Returns true for the order in which the last axis varies fastest, without tiles.
    pub fn is_row_major(&self) -> bool {
        self.tiling.is_empty()
            && self.major_to_minor.iter().copied().eq(0..self.major_to_minor.len())
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

/// The layout that is requested of an argument or result of a compiled function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum LayoutMode {
    /// The default layout of the device.
    #[default]
    Default,
    /// The layout that the compiler chooses.
    Auto,
    /// This layout.
    Custom(Layout),
}

impl From<Layout> for LayoutMode {
    fn from(layout: Layout) -> LayoutMode {
        LayoutMode::Custom(layout)
    }
}

impl From<&Layout> for LayoutMode {
    fn from(layout: &Layout) -> LayoutMode {
        LayoutMode::Custom(layout.clone())
    }
}

impl fmt::Display for LayoutMode {
    /// Writes the notation of XLA's attribute `layout_mode`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutMode::Default => f.write_str("default"),
            LayoutMode::Auto => f.write_str("auto"),
            LayoutMode::Custom(layout) => layout.fmt(f),
        }
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
