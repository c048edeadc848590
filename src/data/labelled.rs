//! A set of labelled images in memory, and its batches.

use super::collate::Collate;
use super::source::Source;
use super::stream::Stream;
use crate::core::{Array, Error, RuleError, throw_operands};
use oxidax_macros::Tree;
use std::fmt;
use std::sync::Arc;

struct Rows {
    pixels: Vec<u8>,
    labels: Vec<u8>,
    width: usize,
    scale: f32,
}

/// Labelled images in memory, one row of pixels each. Clones share the pixels.
///
/// It iterates as a [`Stream`] of [`LabelledImage`]s in order.
#[derive(Clone)]
#[doc(alias = "Dataset")]
pub struct LabelledImages {
    rows: Arc<Rows>,
    order: Arc<[usize]>,
}

/// One image of a [`LabelledImages`] set, with its label. Shares the set's pixels.
#[derive(Clone)]
pub struct LabelledImage {
    rows: Arc<Rows>,
    row: usize,
}

/// A batch of labelled images: `images: f32[b, pixels]` and `labels: i32[b]`.
#[derive(Clone, Debug, Tree)]
pub struct ImageBatch {
    /// The pixels, in `0.0..=1.0`.
    pub images: Array,
    /// The class labels.
    pub labels: Array,
}

impl LabelledImages {
    pub(super) fn new(
        pixels: Vec<u8>,
        labels: Vec<u8>,
        width: usize,
        scale: f32,
    ) -> LabelledImages {
        debug_assert_eq!(pixels.len(), labels.len() * width, "every label has its pixels");
        let order = (0..labels.len()).collect();
        LabelledImages { rows: Arc::new(Rows { pixels, labels, width, scale }), order }
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the number of pixels of one image.
    pub fn width(&self) -> usize {
        self.rows.width
    }

    /// Returns the scaled pixels and the label of one image.
    ///
    /// # Panics
    /// If `row` is not below [`LabelledImages::len`].
    pub fn row(&self, row: usize) -> (Vec<f32>, i32) {
        let example = LabelledImage { rows: self.rows.clone(), row: self.order[row] };
        (example.pixels().collect(), example.label())
    }

    /// Returns a set of these rows in this order. A row may appear repeatedly.
    ///
    /// Throws `Op` (value) if one is not below [`LabelledImages::len`].
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let digits = data::digits("examples/mlp/data/digits.csv.gz")?;
    /// let order = random::permutation(random::key(1), digits.len() as i64).to_vec::<i32>()?;
    /// let shuffled = digits.select(order.iter().map(|&row| row as usize));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> LabelledImages {
        let rows: Vec<usize> = rows.into_iter().collect();
        if let Some(row) = rows.iter().find(|&&row| row >= self.len()) {
            let message = format!("row {row} of a set with {} rows", self.len());
            throw_operands("select", RuleError::value(message), &[]);
        }
        let order = rows.into_iter().map(|row| self.order[row]).collect();
        LabelledImages { rows: self.rows.clone(), order }
    }

    /// Splits the set into the rows whose positions satisfy `belongs`, and the rest.
    pub fn split(&self, belongs: impl Fn(usize) -> bool) -> (LabelledImages, LabelledImages) {
        let (picked, rest): (Vec<usize>, Vec<usize>) =
            (0..self.len()).partition(|&row| belongs(row));
        (self.select(picked), self.select(rest))
    }

    /// Returns all images and labels as one batch.
    ///
    /// # Errors
    /// `Plugin` or `Runtime` if the arrays cannot be put on the device.
    pub fn all(&self) -> Result<ImageBatch, Error> {
        let examples: Vec<LabelledImage> =
            self.clone().into_iter().collect::<Result<_, Error>>()?;
        collate(&self.rows, &examples)
    }

    /// Streams the examples, shuffled through a buffer of `capacity`. See [`Stream::shuffle`].
    #[track_caller]
    pub fn shuffle(self, capacity: usize, seed: u64) -> Stream<LabelledImage> {
        self.into_iter().shuffle(capacity, seed)
    }

    /// Streams batches of `size` examples in order. See [`Stream::batch`].
    #[track_caller]
    pub fn batch(self, size: usize) -> Stream<ImageBatch> {
        self.into_iter().batch(size)
    }
}

impl IntoIterator for LabelledImages {
    type Item = Result<LabelledImage, Error>;
    type IntoIter = Stream<LabelledImage>;
    #[track_caller]
    fn into_iter(self) -> Stream<LabelledImage> {
        self.stream()
    }
}

impl Source for LabelledImages {
    type Record = LabelledImage;
    fn len(&self) -> usize {
        self.order.len()
    }
    fn get(&self, index: usize) -> Result<LabelledImage, Error> {
        Ok(LabelledImage { rows: self.rows.clone(), row: self.order[index] })
    }
}

impl fmt::Debug for LabelledImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Labelled({} images of {} pixels)", self.len(), self.width())
    }
}

impl LabelledImage {
    /// Returns the pixels, in `0.0..=1.0`.
    pub fn pixels(&self) -> impl Iterator<Item = f32> + '_ {
        let scale = self.rows.scale;
        self.bytes().iter().map(move |&pixel| f32::from(pixel) / scale)
    }

    /// Returns the stored pixels, one byte each. In idx files 255 is the brightest.
    pub fn bytes(&self) -> &[u8] {
        let Rows { pixels, width, .. } = &*self.rows;
        &pixels[self.row * width..][..*width]
    }

    /// Returns the class label.
    pub fn label(&self) -> i32 {
        self.rows.labels[self.row].into()
    }
}

impl fmt::Debug for LabelledImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Example({} pixels, label {})", self.rows.width, self.label())
    }
}

impl Collate for LabelledImage {
    type Batch = ImageBatch;
    fn collate(examples: Vec<LabelledImage>) -> Result<ImageBatch, Error> {
        collate(&examples[0].rows, &examples)
    }
}

fn collate(rows: &Rows, examples: &[LabelledImage]) -> Result<ImageBatch, Error> {
    let pixels: Vec<f32> = examples.iter().flat_map(LabelledImage::pixels).collect();
    let labels: Vec<i32> = examples.iter().map(LabelledImage::label).collect();
    Ok(ImageBatch {
        images: Array::from_slice(&pixels, [examples.len(), rows.width])?,
        labels: Array::from_slice(&labels, [examples.len()])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn five() -> LabelledImages {
        LabelledImages::new((0..10).collect(), vec![0, 1, 2, 3, 4], 2, 2.0)
    }

    fn labels(set: LabelledImages) -> Vec<i32> {
        set.into_iter().map(|example| Ok(example.label())).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn selections_compose() {
        let (even, odd) = five().split(|row| row % 2 == 0);
        assert_eq!(labels(odd), [1, 3]);
        assert_eq!(even.row(1), (vec![2.0, 2.5], 2));
        assert_eq!(Source::get(&even, 1).unwrap().bytes(), [4, 5]);
        assert_eq!(labels(even.select([2, 0, 2])), [4, 0, 4]);
        let error = crate::catch(|| even.select([3])).unwrap_err().to_string();
        assert!(error.starts_with("error[value]: select: row 3 of a set with 3 rows"), "{error}");
    }
}
