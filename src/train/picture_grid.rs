//! Pictures of coloured cells: images, and shardings.

use super::canvas::{Anchor, COLOURS, Canvas, Colour, INK, save};
use crate::core::{Array, DType, Error};
use std::collections::BTreeMap;
use std::path::Path;

/// A picture of coloured cells in rows and columns.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::train::PictureGrid;
/// let samples = random::uniform(random::key(0), [2, 10, 8, 8], 0.0..1.0);
/// PictureGrid::images("Noise", &samples)?.save("noise.svg")?;
///
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// let x = device_put(&zeros([8, 4]), mesh.sharding(p!["data", "model"])?)?;
/// PictureGrid::sharding("Split along both axes", &x)?.save("sharding.svg")?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PictureGrid {
    title: String,
    cells: Vec<Cell>,
    size: (f64, f64),
}

/// A rectangle below the title, in pixels.
#[derive(Clone, Debug)]
struct Cell {
    corner: (f64, f64),
    size: (f64, f64),
    colour: Colour,
    label: String,
}

/// Start and end of a shard along each axis.
type Bounds = Vec<(usize, usize)>;

const TOP: f64 = 32.0;
const MARGIN: f64 = 16.0;
/// Width and height of a pixel of an image.
const PIXEL: f64 = 6.0;
/// Room between images.
const GAP: f64 = 4.0;
/// Number of shades of grey. Neighbours of one shade become one rectangle, so few make small files.
const SHADES: f32 = 12.0;
/// Width and height of a drawn array.
const ARRAY: (f64, f64) = (480.0, 240.0);

impl PictureGrid {
    /// Arranges images `float[rows, columns, height, width]` with values from 0, white, to 1,
    /// black. Other values are clipped. The array is read, so this waits for the device.
    ///
    /// # Errors
    /// `Data` for another number of axes. The errors of [`Array::to_vec`].
    pub fn images(title: impl Into<String>, images: &Array) -> Result<PictureGrid, Error> {
        let &[rows, columns, height, width] = images.shape().dims() else {
            let message = format!("expected [rows, columns, height, width], got {}", images.aval());
            return Err(Error::data("images", message));
        };
        let values = images.astype(DType::F32).to_vec::<f32>()?;
        let shade = |value: f32| (value.clamp(0.0, 1.0) * SHADES).round();
        let pitch = |n: usize| PIXEL * n as f64 + GAP;
        let mut cells = Vec::new();
        for (line, pixels) in values.chunks_exact(width.max(1)).enumerate() {
            let (image, y) = (line / height, line % height);
            let left = MARGIN + pitch(width) * (image % columns) as f64;
            let top = TOP + pitch(height) * (image / columns) as f64 + PIXEL * y as f64;
            let mut x = 0;
            for run in pixels.chunk_by(|a, b| shade(*a) == shade(*b)) {
                let corner = (left + PIXEL * x as f64, top);
                let grey = (255.0 * (1.0 - shade(run[0]) / SHADES)) as u8;
                // The background is white.
                if grey < u8::MAX {
                    let size = (PIXEL * run.len() as f64, PIXEL);
                    cells.push(Cell { corner, size, colour: [grey; 3], label: String::new() });
                }
                x += run.len();
            }
        }
        let size = (pitch(width) * columns as f64, pitch(height) * rows as f64);
        Ok(PictureGrid { title: title.into(), cells, size })
    }

    /// Draws the shards of an array by its first two axes, labelled with the ids of the devices
    /// that store them. Colours repeat after seven shards.
    ///
    /// # Errors
    /// `Data` if the array is traced or empty, or is split along an axis after the second. The
    /// errors of [`Array::addressable_shards`].
    pub fn sharding(title: impl Into<String>, array: &Array) -> Result<PictureGrid, Error> {
        let dims = array.shape().dims();
        let shards = array.addressable_shards()?;
        let is_whole = |axis: usize| shards.iter().all(|it| it.index[axis].len() == dims[axis]);
        if shards.is_empty() || array.size() == 0 || !(2..dims.len()).all(is_whole) {
            let message = format!("{} has no shards in rows and columns", array.aval());
            return Err(Error::data("sharding", message));
        }
        let mut devices: BTreeMap<Bounds, Vec<String>> = BTreeMap::new();
        for shard in &shards {
            let bounds = shard.index.iter().map(|range| (range.start, range.end)).collect();
            devices.entry(bounds).or_default().push(shard.device.id().0.to_string());
        }
        // A vector is drawn as one row, a scalar as one cell.
        let rows = if dims.len() > 1 { Some(0) } else { None };
        let columns = dims.len().checked_sub(1).map(|last| last.min(1));
        let size = (ARRAY.0, if rows.is_some() { ARRAY.1 } else { ARRAY.1 / 4.0 });
        let span = |axis: Option<usize>, bounds: &[(usize, usize)], length: f64| match axis {
            None => (0.0, length),
            Some(axis) => {
                let (start, end) = bounds[axis];
                let scale = length / dims[axis] as f64;
                (scale * start as f64, scale * (end - start) as f64)
            }
        };
        let cell = |(at, (bounds, ids)): (usize, (Bounds, Vec<String>))| {
            let ((x, wide), (y, high)) =
                (span(columns, &bounds, size.0), span(rows, &bounds, size.1));
            let colour = pale(COLOURS[at % COLOURS.len()]);
            let corner = (MARGIN + x, TOP + y);
            Cell { corner, size: (wide, high), colour, label: ids.join(",") }
        };
        let cells = devices.into_iter().enumerate().map(cell).collect();
        Ok(PictureGrid { title: title.into(), cells, size })
    }

    /// Writes the picture to a file, as SVG or PNG depending on the extension.
    ///
    /// # Errors
    /// `Data` for another extension. `Io` if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let size = (self.size.0 + 2.0 * MARGIN, self.size.1 + TOP + MARGIN);
        let size = (size.0.ceil() as u32, size.1.ceil() as u32);
        save(path.as_ref(), size, |canvas| self.draw(canvas))
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let middle = MARGIN + self.size.0 / 2.0;
        canvas.text((middle, TOP / 2.0), Anchor::Middle, &self.title, INK);
        for Cell { corner: (x, y), size: (width, height), colour, label } in &self.cells {
            canvas.rect((*x, *y), (*width, *height), *colour);
            if !label.is_empty() {
                let (right, bottom) = (x + width, y + height);
                let outline = [(*x, *y), (right, *y), (right, bottom), (*x, bottom), (*x, *y)];
                canvas.line(&outline, 1.0, INK);
                let centre = (x + width / 2.0, y + height / 2.0);
                canvas.text(centre, Anchor::Middle, label, INK);
            }
        }
    }
}

/// Mixes a colour with white, so that text on it can be read.
fn pale(colour: Colour) -> Colour {
    colour.map(|part| 128 + part / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    mod on_cpu {
        use super::*;
        use crate::primitives::zeros;

        #[test]
        fn images_need_four_axes_and_runs_of_one_shade_are_one_cell() {
            let images =
                Array::from_slice(&[1.0f32, 1.0, 0.0, 0.5, 2.0, 1.0], [1, 1, 2, 3]).unwrap();
            let grid = PictureGrid::images("t", &images).unwrap();
            let widths: Vec<f64> = grid.cells.iter().map(|cell| cell.size.0 / PIXEL).collect();
            assert_eq!(widths, [2.0, 1.0, 2.0]);
            assert!(PictureGrid::images("t", &zeros([2, 2])).is_err());
        }

        #[test]
        fn an_array_on_one_device_is_one_cell() {
            for shape in [&[][..], &[4], &[4, 2], &[4, 2, 3]] {
                let grid = PictureGrid::sharding("t", &zeros(shape)).unwrap();
                assert_eq!((grid.cells.len(), grid.cells[0].label.as_str()), (1, "0"));
            }
            assert!(PictureGrid::sharding("t", &zeros([0])).is_err());
        }
    }
}
