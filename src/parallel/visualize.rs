//! A picture of how an array lies on its devices.

use crate::core::{Array, Error, Loc, OpErrorKind, trace};
use crate::runtime::{Home, home_of};
use std::fmt::Write as _;

/// How an array of one or two axes lies on its devices, as a drawing: each box is a part of the array, with the numbers of the
/// devices that have it. Longer ones are drawn by their first two axes if the others are not cut.
///
/// # Errors
/// [`Error::Op`] (value) if the array is traced, has no axis, or is cut along more than two.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// let x = device_put(&zeros([8, 4], DType::F32), mesh.sharding(p!["data", "model"])?)?;
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
    let Some(home) = home_of(array) else {
        return refuse(format!("{aval} is traced: it lies nowhere"));
    };
    let cells: Vec<Vec<String>> = match &home {
        Home::Device(id) => vec![vec![id.to_string()]],
        Home::Mesh(sharding) => {
            let parts: Vec<usize> = (0..shape.rank())
                .map(|at| sharding.mesh().count(sharding.spec().along(at)))
                .collect();
            if parts.iter().skip(2).any(|&parts| parts > 1) {
                return refuse(format!("{aval} is cut along more than two axes: {sharding}"));
            }
            let [rows, columns] = [0, 1].map(|at| parts.get(at).copied().unwrap_or(1));
            let mut cells = vec![vec![Vec::new(); columns]; rows];
            for (place, device) in sharding.devices().iter().enumerate() {
                let along = |at: usize| sharding.mesh().position(place, sharding.spec().along(at));
                cells[along(0)][along(1)].push(device.id().to_string());
            }
            let text = |cell: Vec<String>| cell.join(",");
            cells.into_iter().map(|row| row.into_iter().map(text).collect()).collect()
        }
    };
    Ok(drawn(&cells, shape.rank() == 1))
}

/// Boxes in rows; those of a vector beside each other.
fn drawn(cells: &[Vec<String>], flat: bool) -> String {
    let flattened: Vec<Vec<String>>;
    let cells = match flat {
        true => {
            flattened = vec![cells.concat()];
            &flattened
        }
        false => cells,
    };
    let width = cells.iter().flatten().map(String::len).max().unwrap_or(0) + 6;
    let columns = cells.first().map_or(0, Vec::len);
    let line = |[left, middle, right]: [&str; 3]| {
        format!("{left}{}{right}\n", vec!["─".repeat(width); columns].join(middle))
    };
    let mut picture = line(["┌", "┬", "┐"]);
    for (at, row) in cells.iter().enumerate() {
        if at > 0 {
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
        .assert_eq(&drawn(&cells(&[&["0,1", "2,3"], &["4,5", "6,7"]]), false));
        expect![[r#"
            ┌───────┬───────┐
            │   0   │   1   │
            └───────┴───────┘"#]]
        .assert_eq(&drawn(&cells(&[&["0"], &["1"]]), true));
    }
}
