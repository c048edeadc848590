//! Steps of a kernel over the tiles of rows that consist of groups.

use crate::ops::{clip, floor_divide, take};
use crate::primitives::{
    concatenate, convert_element_type, cumsum, full, gt, iota, le, lt, minimum, ne, slice_in_dim,
    where_, zeros_like,
};
use crate::{Array, DType};

/// The steps that a group without rows needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visits {
    /// None: steps write tiles of rows. All tiles are visited, also those after the last group.
    Tiles,
    /// One: steps write groups, and all of them are visited.
    Groups,
}

/// Pairs of a tile of rows and a group that has rows in it, one for each step: `i32[steps]` each.
///
/// Their number depends on the sizes of the groups, and is at most `tiles + groups - 1`. The steps
/// that are left at the end repeat the last pair without rows.
pub(super) struct Steps {
    /// The tile.
    pub(super) tiles: Array,
    /// The group.
    pub(super) groups: Array,
    /// The first row of the group.
    pub(super) starts: Array,
    /// The row after the last one of the group.
    pub(super) ends: Array,
    /// 1 at the first step of a tile ([`Visits::Tiles`]) or group.
    pub(super) first: Array,
    /// 1 at the last step of a tile or group.
    pub(super) last: Array,
}

impl Steps {
    /// Computes the steps of groups of these sizes, `int[g]`, in `m` rows with tiles of `tile`
    /// rows.
    pub(super) fn new(sizes: &Array, m: usize, tile: usize, visits: Visits) -> Steps {
        let (n_groups, n_tiles) = (sizes.shape()[0], m.div_ceil(tile));
        let n_steps = n_tiles + n_groups - 1;
        let part = |x: &Array, start: usize, end: usize| {
            slice_in_dim(x, start as isize, end as isize, 1, 0)
        };
        let [zero, one] = [0, 1].map(|number| full([1], number));
        // Sizes beyond the rows are cut, so that no step is outside of the array.
        let sizes = clip(&convert_element_type(sizes, DType::I32), 0, m as i32);
        let ends = minimum(cumsum(&sizes, 0), m as i32);
        let starts = concatenate([&zero, &part(&ends, 0, n_groups - 1)], 0);
        let tile_of = |row: &Array| floor_divide(row, tile as i32);
        let first_tiles = minimum(tile_of(&starts), n_tiles as i32 - 1);
        let counts = where_(
            gt(&ends, &starts),
            tile_of(&(&ends - 1)) - &first_tiles + 1,
            i32::from(visits == Visits::Groups),
        );
        let total = part(&ends, n_groups - 1, n_groups);
        let [starts, ends, first_tiles, counts] = match visits {
            Visits::Groups => [starts, ends, first_tiles, counts],
            // The tiles after the last group are those of one more group, without rows.
            Visits::Tiles => {
                let first = tile_of(&(total + (tile as i32 - 1)));
                let count = n_tiles as i32 - &first;
                let pairs =
                    [(starts, &zero), (ends, &zero), (first_tiles, &first), (counts, &count)];
                pairs.map(|(x, rest)| concatenate([&x, rest], 0))
            }
        };
        let n_entries = counts.shape()[0];
        let after = cumsum(&counts, 0);
        let step = iota(DType::I32, n_steps);
        let is_past = le(after.expand_dims(0), step.expand_dims(1));
        let entry = convert_element_type(&is_past, DType::I32).sum_axes(1);
        let is_used = lt(&entry, n_entries as i32);
        let entry = minimum(&entry, n_entries as i32 - 1);
        let of = |x: &Array| take(x, &entry, 0);
        let tiles = of(&first_tiles) + &step - of(&(&after - &counts));
        let tiles = minimum(&tiles, n_tiles as i32 - 1);
        let groups = minimum(&entry, n_groups as i32 - 1);
        let key = if visits == Visits::Tiles { &tiles } else { &groups };
        let changes = ne(part(key, 1, n_steps), part(key, 0, n_steps - 1));
        let changes = convert_element_type(&changes, DType::I32);
        let zeros = zeros_like(&step);
        Steps {
            starts: where_(&is_used, of(&starts), &zeros),
            ends: where_(&is_used, of(&ends), &zeros),
            first: concatenate([&one, &changes], 0),
            last: concatenate([&changes, &one], 0),
            tiles,
            groups,
        }
    }

    /// Returns the number of steps.
    pub(super) fn len(&self) -> usize {
        self.tiles.shape()[0]
    }
}
