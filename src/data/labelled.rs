//! A set of labelled images in memory, and the batches made of it.

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

/// Labelled images in memory, one row of pixels each. Cloning shares them.
///
/// As an iterator, or by its methods, it is a [`Stream`] of [`Example`]s in order.
#[derive(Clone)]
#[doc(alias = "Dataset")]
pub struct Labelled {
    rows: Arc<Rows>,
    order: Arc<[usize]>,
}

/// One labelled image of a [`Labelled`] set, which it shares.
#[derive(Clone)]
pub struct Example {
    rows: Arc<Rows>,
    row: usize,
}

/// A batch of labelled images: `images: f32[b, pixels]` and `labels: i32[b]`.
#[derive(Clone, Debug, Tree)]
pub struct Batch {
    /// The pixels, in `0.0..=1.0`.
    pub images: Array,
    /// The classes.
    pub labels: Array,
}

impl Labelled {
    pub(super) fn new(pixels: Vec<u8>, labels: Vec<u8>, width: usize, scale: f32) -> Labelled {
        debug_assert_eq!(pixels.len(), labels.len() * width, "every label has its pixels");
        let order = (0..labels.len()).collect();
        Labelled { rows: Arc::new(Rows { pixels, labels, width, scale }), order }
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Pixels of one image.
    pub fn width(&self) -> usize {
        self.rows.width
    }

    /// The pixels, scaled, and the label of one image.
    ///
    /// # Panics
    /// If `row` is not below [`Labelled::len`].
    pub fn row(&self, row: usize) -> (Vec<f32>, i32) {
        let example = Example { rows: self.rows.clone(), row: self.order[row] };
        (example.pixels().collect(), example.label())
    }

    /// These rows in this order; a row may come more than once.
    ///
    /// Throws `Op` (value) if one is not below [`Labelled::len`].
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let digits = data::digits("examples/mlp/data/digits.csv.gz")?;
    /// let order = random::permutation(random::key(1), digits.len() as i64).to_vec::<i32>()?;
    /// let shuffled = digits.select(order.iter().map(|&row| row as usize));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Labelled {
        let rows: Vec<usize> = rows.into_iter().collect();
        if let Some(row) = rows.iter().find(|&&row| row >= self.len()) {
            let message = format!("row {row} of a set with {} rows", self.len());
            throw_operands("select", RuleError::value(message), &[]);
        }
        let order = rows.into_iter().map(|row| self.order[row]).collect();
        Labelled { rows: self.rows.clone(), order }
    }

    /// The rows whose positions `belongs` picks, and the rest.
    pub fn split(&self, belongs: impl Fn(usize) -> bool) -> (Labelled, Labelled) {
        let (picked, rest): (Vec<usize>, Vec<usize>) =
            (0..self.len()).partition(|&row| belongs(row));
        (self.select(picked), self.select(rest))
    }

    /// All images and labels as one batch.
    ///
    /// # Errors
    /// `Plugin` or `Runtime` if the arrays cannot be put on the device.
    pub fn all(&self) -> Result<Batch, Error> {
        let examples: Vec<Example> = self.clone().into_iter().collect::<Result<_, Error>>()?;
        collate(&self.rows, &examples)
    }

    /// The examples, shuffled through a buffer of `capacity`. See [`Stream::shuffle`].
    pub fn shuffle(self, capacity: usize, seed: u64) -> Stream<Example> {
        self.into_iter().shuffle(capacity, seed)
    }

    /// Batches of `size` examples in order. See [`Stream::batch`].
    #[track_caller]
    pub fn batch(self, size: usize) -> Stream<Batch> {
        self.into_iter().batch(size)
    }
}

impl IntoIterator for Labelled {
    type Item = Result<Example, Error>;
    type IntoIter = Stream<Example>;
    fn into_iter(self) -> Stream<Example> {
        self.stream()
    }
}

impl Source for Labelled {
    type Record = Example;
    fn len(&self) -> usize {
        self.order.len()
    }
    fn get(&self, index: usize) -> Result<Example, Error> {
        Ok(Example { rows: self.rows.clone(), row: self.order[index] })
    }
}

impl fmt::Debug for Labelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Labelled({} images of {} pixels)", self.len(), self.width())
    }
}

impl Example {
    /// The pixels, in `0.0..=1.0`.
    pub fn pixels(&self) -> impl Iterator<Item = f32> + '_ {
        let scale = self.rows.scale;
        self.bytes().iter().map(move |&pixel| f32::from(pixel) / scale)
    }

    /// The pixels as they are stored: a byte each, 255 the brightest in idx files.
    pub fn bytes(&self) -> &[u8] {
        let Rows { pixels, width, .. } = &*self.rows;
        &pixels[self.row * width..][..*width]
    }

    /// The class.
    pub fn label(&self) -> i32 {
        self.rows.labels[self.row].into()
    }
}

impl fmt::Debug for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Example({} pixels, label {})", self.rows.width, self.label())
    }
}

impl Collate for Example {
    type Batch = Batch;
    fn collate(examples: Vec<Example>) -> Result<Batch, Error> {
        collate(&examples[0].rows, &examples)
    }
}

fn collate(rows: &Rows, examples: &[Example]) -> Result<Batch, Error> {
    let pixels: Vec<f32> = examples.iter().flat_map(Example::pixels).collect();
    let labels: Vec<i32> = examples.iter().map(Example::label).collect();
    Ok(Batch {
        images: Array::from_slice(&pixels, [examples.len(), rows.width])?,
        labels: Array::from_slice(&labels, [examples.len()])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn five() -> Labelled {
        Labelled::new((0..10).collect(), vec![0, 1, 2, 3, 4], 2, 2.0)
    }

    fn labels(set: Labelled) -> Vec<i32> {
        set.into_iter().map(|example| Ok(example.label())).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn rows_are_selected_from_what_was_selected_before() {
        let (even, odd) = five().split(|row| row % 2 == 0);
        assert_eq!(labels(odd), [1, 3]);
        assert_eq!(even.row(1), (vec![2.0, 2.5], 2));
        assert_eq!(Source::get(&even, 1).unwrap().bytes(), [4, 5]);
        assert_eq!(labels(even.select([2, 0, 2])), [4, 0, 4]);
        let error = crate::catch(|| even.select([3])).unwrap_err().to_string();
        assert!(error.starts_with("error[value]: select: row 3 of a set with 3 rows"), "{error}");
    }
}
