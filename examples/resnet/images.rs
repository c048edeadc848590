//! Images and classes from idx files, from folders of PNG and JPEG files, or from noise.

use super::recipe::Batch;
use anyhow::{bail, ensure};
use data::{BatchOptions, HostArray, RecordOrigin, Remainder, Source, Stream};
use oxidax::prelude::*;
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use std::path::Path;

/// A set of images with random access.
pub enum Images {
    /// Grey images in memory, as in Fashion-MNIST.
    Grey(data::LabelledImages),
    /// A folder with one subfolder per class.
    Files(data::ImageFolder),
    /// Noise, which costs almost nothing, to measure the speed of steps.
    Noise { len: usize, classes: usize },
}

/// An image before decoding.
pub enum Raw {
    Grey(data::LabelledImage),
    File(data::ImageFile),
    Noise { seed: u64, class: i32 },
}

/// Training and test images, the number of classes, and the usual image size.
pub struct Sets {
    pub train: Images,
    pub test: Images,
    pub classes: usize,
    pub size: usize,
}

impl Sets {
    /// Opens a folder of idx files, or a folder with `train` and `val` that have one subfolder per
    /// class.
    pub fn open(folder: &Path) -> anyhow::Result<Sets> {
        let (train, test) = (folder.join("train"), folder.join("val"));
        if train.is_dir() && test.is_dir() {
            let (train, test) = (data::ImageFolder::open(train)?, data::ImageFolder::open(test)?);
            ensure!(
                train.classes() == test.classes(),
                "{}: `train` has the classes {:?}, `val` {:?}",
                folder.display(),
                train.classes(),
                test.classes()
            );
            let classes = train.classes().len();
            return Ok(Sets {
                train: Images::Files(train),
                test: Images::Files(test),
                classes,
                size: 224,
            });
        }
        let is_idx = |name: &str| folder.join(name).exists();
        if !is_idx("train-images-idx3-ubyte") && !is_idx("train-images-idx3-ubyte.gz") {
            bail!(
                "{} has neither idx files (train-images-idx3-ubyte …) nor folders `train` and \
                `val`",
                folder.display()
            );
        }
        let (train, test) = (
            data::idx(folder)?,
            data::idx_with(folder, data::IdxOptions { split: data::Split::Test })?,
        );
        let labels = (0..train.len()).map(|row| train.get(row).map(|example| example.label()));
        let labels: Vec<i32> = labels.collect::<Result<_, Error>>()?;
        let classes = labels.into_iter().max().map_or(0, |label| label as usize + 1);
        Ok(Sets { train: Images::Grey(train), test: Images::Grey(test), classes, size: 32 })
    }

    /// Returns noise with as many images and classes as ImageNet.
    pub fn noise() -> Sets {
        let classes = 1000;
        let train = Images::Noise { len: 1_281_167, classes };
        Sets { train, test: Images::Noise { len: 50_000, classes }, classes, size: 224 }
    }
}

/// Batching of images.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Side length of the images, in pixels.
    pub size: usize,
    pub batch: usize,
    /// Number of decoding threads.
    pub workers: usize,
}

impl Images {
    /// Returns endless batches, in a new order each epoch. `augment` crops at random and flips half
    /// of the images, determined by the seed and the index of the image since the start.
    pub fn train(self, reading: Reading, seed: u64, augment: bool) -> Stream<Batch> {
        let Reading { size, batch, workers } = reading;
        let images = self.shuffled(seed).stream().repeat_forever().enumerate();
        let made = images.parallel_map(workers, move |(number, raw): (u64, Raw)| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ number.rotate_left(32));
            let slack = margin(size);
            let cut = match augment {
                true => Crop {
                    row: random.random_range(0..=slack),
                    column: random.random_range(0..=slack),
                    flipped: random.random_bool(0.5),
                },
                false => Crop::centre(size),
            };
            cut.example(raw, size)
        });
        made.batch(batch).to_device(2)
    }

    /// Returns batches of at most `limit` images in total, the same at every call. The last batch
    /// may be smaller.
    pub fn test(self, reading: Reading, limit: usize) -> Stream<Batch> {
        let Reading { size, batch, workers } = reading;
        let limit = limit.min(Source::len(&self));
        let images = self.shuffled(0).range(0..limit).stream();
        let made = images.parallel_map(workers, move |raw| Crop::centre(size).example(raw, size));
        made.batch_with(batch, BatchOptions { remainder: Remainder::Keep }).to_device(2)
    }
}

impl Source for Images {
    type Record = Raw;

    fn len(&self) -> usize {
        match self {
            Images::Grey(set) => set.len(),
            Images::Files(folder) => Source::len(folder),
            Images::Noise { len, .. } => *len,
        }
    }

    fn get(&self, index: usize) -> Result<Raw, Error> {
        Ok(match self {
            Images::Grey(set) => Raw::Grey(set.get(index)?),
            Images::Files(folder) => Raw::File(folder.get(index)?),
            Images::Noise { classes, .. } => {
                Raw::Noise { seed: index as u64, class: (index % classes) as i32 }
            }
        })
    }

    fn origin(&self, index: usize) -> Option<RecordOrigin> {
        match self {
            Images::Files(folder) => folder.origin(index),
            Images::Grey(_) | Images::Noise { .. } => None,
        }
    }
}

/// Returns by how much images are larger than the crop: 256 pixels for 224, 36 for 32.
pub fn margin(size: usize) -> usize {
    size / 7
}

/// A crop of an image, optionally flipped from left to right.
#[derive(Clone, Copy, Debug)]
pub struct Crop {
    pub row: usize,
    pub column: usize,
    pub flipped: bool,
}

impl Crop {
    /// Returns the centre crop.
    pub fn centre(size: usize) -> Crop {
        let half = margin(size) / 2;
        Crop { row: half, column: half, flipped: false }
    }

    /// Decodes and crops an image: pixels `u8[size, size, 3]` and class `i32[]`.
    pub fn example(self, raw: Raw, size: usize) -> Result<(HostArray, HostArray), Error> {
        let side = size + margin(size);
        let (image, class) = match raw {
            Raw::Grey(example) => (
                pad_to_square(example.bytes(), side)?,
                HostArray::from_slice(&[example.label()], [])?,
            ),
            Raw::File(file) => {
                (data::decode_image(&file.bytes, side, side)?.as_bytes().to_vec(), file.label()?)
            }
            Raw::Noise { seed, class } => {
                let mut image = vec![0; side * side * 3];
                Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut image);
                (image, HostArray::from_slice(&[class], [])?)
            }
        };
        let rows = image.chunks_exact(3 * side).skip(self.row).take(size);
        let mut cut = Vec::with_capacity(size * size * 3);
        for row in rows {
            let row = &row[3 * self.column..][..3 * size];
            match self.flipped {
                false => cut.extend_from_slice(row),
                true => row.rchunks_exact(3).for_each(|pixel| cut.extend_from_slice(pixel)),
            }
        }
        Ok((HostArray::from_slice(&cut, [size, size, 3])?, class))
    }
}

/// Centres a square grey image on a black one, in three equal channels.
fn pad_to_square(pixels: &[u8], side: usize) -> Result<Vec<u8>, Error> {
    let own = pixels.len().isqrt();
    if own * own != pixels.len() || own > side {
        let n = pixels.len();
        let message = format!("{n} pixels do not form a square of at most {side} pixels per side");
        return Err(Error::data("frame an image", message));
    }
    let before = (side - own) / 2;
    let mut image = vec![0; side * side * 3];
    for (row, pixels) in pixels.chunks_exact(own.max(1)).enumerate() {
        let start = ((before + row) * side + before) * 3;
        for (place, &pixel) in image[start..].chunks_exact_mut(3).zip(pixels) {
            place.fill(pixel);
        }
    }
    Ok(image)
}
