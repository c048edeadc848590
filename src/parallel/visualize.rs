//! [`visualize_sharding`]: a drawing of the devices that store an array.

use crate::core::{Array, Error, Loc, NamedSharding, OpErrorKind, Placement, Shape, trace};
use crate::runtime::placement_of;
use std::fmt::Write as _;

/// Draws the shards of an array. Each box is a shard, with the ids of the devices that store it. An
/// array with more than two axes is drawn by its first two if the others are not split.
///
/// # Errors
/// [`Error::Op`] (value) if the array is traced, or split along an axis after the second.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// let x = device_put(&zeros([8, 4]), mesh.sharding(p!["data", "model"])?)?;
/// println!("{}", visualize_sharding(&x)?);
/// // ┌───────┬───────┐
/// // │   0   │   1   │
/// // ├───────┼───────┤
/// // │   2   │   3   │ …
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "visualize_array_sharding")]
#[track_caller]
pub fn visualize_sharding(array: &Array) -> Result<String, Error> {
    let loc = Loc::caller();
    let refuse = |message: String| {
        Err(trace::op_error(OpErrorKind::Value, "visualize_sharding", message, loc))
    };
    let (shape, aval) = (array.shape(), array.aval());
    let cells = match placement_of(array) {
        None => return refuse(format!("{aval} is traced: it has no placement")),
        Some(Placement::Device(id)) => vec![vec![id.to_string()]],
        Some(Placement::Mesh(sharding)) => match shard_cells(shape, &sharding) {
            Some(cells) => cells,
            None => return refuse(format!("{aval} is split along more than two axes: {sharding}")),
        },
    };
    let layout = if shape.rank() == 1 { Layout::Row } else { Layout::Grid };
    Ok(draw(&cells, layout))
}

/// Draws the shards of an array of this shape under a sharding, as [`visualize_sharding`] draws
/// those of an array.
///
/// # Errors
/// [`Error::Op`]: shape if the sharding does not divide the shape, value if it splits an axis after
/// the second.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::visualize_sharding_of;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// let drawing = visualize_sharding_of([8, 4], &mesh.sharding(p!["data", "model"])?)?;
/// assert_eq!(drawing.lines().count(), 9);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "jax.debug.visualize_sharding")]
#[track_caller]
pub fn visualize_sharding_of(
    shape: impl Into<Shape>,
    sharding: &NamedSharding,
) -> Result<String, Error> {
    let (loc, shape) = (Loc::caller(), shape.into());
    let name = "visualize_sharding_of";
    sharding
        .spec()
        .shard_shape(sharding.mesh(), &shape)
        .map_err(|error| trace::rule_error(name, error, loc))?;
    let Some(cells) = shard_cells(&shape, sharding) else {
        let message = format!("{shape:?} is split along more than two axes: {sharding}");
        return Err(trace::op_error(OpErrorKind::Value, name, message, loc));
    };
    Ok(draw(&cells, if shape.rank() == 1 { Layout::Row } else { Layout::Grid }))
}

/// Returns the ids of the devices of each shard, in rows and columns; `None` if an axis after the
/// second is split.
fn shard_cells(shape: &Shape, sharding: &NamedSharding) -> Option<Vec<Vec<String>>> {
    let (mesh, spec) = (sharding.mesh(), sharding.spec());
    let counts: Vec<usize> = (0..shape.rank()).map(|axis| mesh.count(spec.along(axis))).collect();
    if counts.iter().skip(2).any(|&count| count > 1) {
        return None;
    }
    let [rows, columns] = [0, 1].map(|axis| counts.get(axis).copied().unwrap_or(1));
    let mut cells = vec![vec![Vec::new(); columns]; rows];
    for (ordinal, device) in sharding.devices().iter().enumerate() {
        let [row, column] = [0, 1].map(|axis| mesh.position(ordinal, spec.along(axis)));
        cells[row][column].push(device.id().0.to_string());
    }
    let join = |cell: Vec<String>| cell.join(",");
    Some(cells.into_iter().map(|row| row.into_iter().map(join).collect()).collect())
}

/// The arrangement of the boxes.
#[derive(Clone, Copy)]
enum Layout {
    /// Rows and columns of a matrix.
    Grid,
    /// The rows of a vector, side by side.
    Row,
}

fn draw(cells: &[Vec<String>], layout: Layout) -> String {
    let row;
    let cells = match layout {
        Layout::Grid => cells,
        Layout::Row => {
            row = [cells.concat()];
            &row
        }
    };
    let width = cells.iter().flatten().map(String::len).max().unwrap_or(0) + 6;
    let columns = cells.first().map_or(0, Vec::len);
    let line = |[left, middle, right]: [&str; 3]| {
        format!("{left}{}{right}\n", vec!["─".repeat(width); columns].join(middle))
    };
    let mut picture = line(["┌", "┬", "┐"]);
    for (index, row) in cells.iter().enumerate() {
        if index > 0 {
            picture += &line(["├", "┼", "┤"]);
        }
        for cell in row {
            write!(picture, "│{cell:^width$}").expect("writing to a String does not fail");
        }
        picture += "│\n";
    }
    picture + line(["└", "┴", "┘"]).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn boxes() {
        let cells = |rows: &[&[&str]]| -> Vec<Vec<String>> {
            rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect()
        };
        expect![[r#"
            ┌─────────┬─────────┐
            │   0,1   │   2,3   │
            ├─────────┼─────────┤
            │   4,5   │   6,7   │
            └─────────┴─────────┘"#]]
        .assert_eq(&draw(&cells(&[&["0,1", "2,3"], &["4,5", "6,7"]]), Layout::Grid));
        expect![[r#"
            ┌───────┬───────┐
            │   0   │   1   │
            └───────┴───────┘"#]]
        .assert_eq(&draw(&cells(&[&["0"], &["1"]]), Layout::Row));
    }
}
