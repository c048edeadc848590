//! Images and their classes: from a folder of idx files, from folders of PNG and JPEG files, or made up.

use super::recipe::Batch;
use anyhow::{bail, ensure};
use data::{HostArray, Origin, Remainder, Source, Stream};
use oxidax::prelude::*;
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use std::path::Path;

/// A set of images that can be read in any order.
pub enum Images {
    /// Grey ones in memory, as Fashion-MNIST has them.
    Grey(data::Labelled),
    /// A folder with a sub-folder for each class.
    Files(data::ImageFolder),
    /// Noise, which costs next to nothing: to see how fast the steps are.
    Noise { len: usize, classes: usize },
}

/// An image that is not decoded yet.
pub enum Raw {
    Grey(data::Example),
    File(data::ImageFile),
    Noise { seed: u64, class: i32 },
}

/// Images to train on and to test by, how many classes they have, and the size at which they are usually taken.
pub struct Sets {
    pub train: Images,
    pub test: Images,
    pub classes: usize,
    pub size: usize,
}

impl Sets {
    /// A folder of idx files, or one with a folder `train` and a folder `val` that have a sub-folder for each class.
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
                "{} has neither idx files (train-images-idx3-ubyte and its kin) nor folders `train` and `val`",
                folder.display()
            );
        }
        let (train, test) = (data::idx(folder)?, data::idx_part(folder, data::Part::Test)?);
        let labels = (0..train.len()).map(|row| train.get(row).map(|example| example.label()));
        let labels: Vec<i32> = labels.collect::<Result<_, Error>>()?;
        let classes = labels.into_iter().max().map_or(0, |label| label as usize + 1);
        Ok(Sets { train: Images::Grey(train), test: Images::Grey(test), classes, size: 32 })
    }

    /// Noise, as many images and classes as ImageNet has.
    pub fn noise() -> Sets {
        let classes = 1000;
        let train = Images::Noise { len: 1_281_167, classes };
        Sets { train, test: Images::Noise { len: 50_000, classes }, classes, size: 224 }
    }
}

/// How a set becomes batches.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Of the images that the network takes, in pixels a side.
    pub size: usize,
    pub batch: usize,
    /// Threads that decode.
    pub workers: usize,
}

impl Images {
    /// Batches without end, in another order each epoch. With `augment` each image is cut out somewhere and turned about its
    /// vertical axis half of the time; the seed and the number of the image since the start decide both.
    pub fn train(self, how: Reading, seed: u64, augment: bool) -> Stream<Batch> {
        let Reading { size, batch, workers } = how;
        let images = self.shuffled(seed).stream().repeat_forever().enumerate();
        let made = images.parallel_map(workers, move |(number, raw): (u64, Raw)| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ number.rotate_left(32));
            let slack = margin(size);
            let cut = match augment {
                true => Cut {
                    row: random.random_range(0..=slack),
                    column: random.random_range(0..=slack),
                    turned: random.random_bool(0.5),
                },
                false => Cut::centre(size),
            };
            cut.example(raw, size)
        });
        made.batch(batch).to_device(2)
    }

    /// Batches of `most` images at most, the same at each call; the last may be smaller.
    pub fn test(self, how: Reading, most: usize) -> Stream<Batch> {
        let Reading { size, batch, workers } = how;
        let most = most.min(Source::len(&self));
        let images = self.shuffled(0).range(0..most).stream();
        let made = images.parallel_map(workers, move |raw| Cut::centre(size).example(raw, size));
        made.batch_with(batch, Remainder::Keep).to_device(2)
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

    fn origin(&self, index: usize) -> Option<Origin> {
        match self {
            Images::Files(folder) => folder.origin(index),
            Images::Grey(_) | Images::Noise { .. } => None,
        }
    }
}

/// By how much an image is larger than what is cut out of it: 224 of 256 pixels, 32 of 36.
pub fn margin(size: usize) -> usize {
    size / 7
}

/// Where a square is cut out of an image, and whether it is turned left to right.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub row: usize,
    pub column: usize,
    pub turned: bool,
}

impl Cut {
    /// The middle.
    pub fn centre(size: usize) -> Cut {
        let half = margin(size) / 2;
        Cut { row: half, column: half, turned: false }
    }

    /// Pixels `u8[size, size, 3]` and class `i32[]`.
    pub fn example(self, raw: Raw, size: usize) -> Result<(HostArray, HostArray), Error> {
        let side = size + margin(size);
        let (image, class) = match raw {
            Raw::Grey(example) => {
                (framed(example.bytes(), side)?, HostArray::from_slice(&[example.label()], [])?)
            }
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
            match self.turned {
                false => cut.extend_from_slice(row),
                true => row.rchunks_exact(3).for_each(|pixel| cut.extend_from_slice(pixel)),
            }
        }
        Ok((HostArray::from_slice(&cut, [size, size, 3])?, class))
    }
}

/// A square grey image in the middle of a black one of another size, in three equal channels.
fn framed(pixels: &[u8], side: usize) -> Result<Vec<u8>, Error> {
    let own = pixels.len().isqrt();
    if own * own != pixels.len() || own > side {
        let n = pixels.len();
        let message = format!("{n} pixels are no square that fits into one of {side} a side");
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
