//! The idx format of MNIST and related datasets.

use crate::core::Error;
use crate::data::files::{File, Reader, io_error, storage_error};
use crate::data::labelled::LabelledImages;
use oxidax_storage::Storage;
use std::io;
use std::path::{Path, PathBuf};

/// A part of a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Split {
    /// `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`.
    #[default]
    Train,
    /// `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`.
    Test,
}

/// Options of [`idx_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdxOptions {
    /// The files to read.
    pub split: Split,
}

impl Split {
    fn prefix(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Test => "t10k",
        }
    }
}

/// Reads the training images and labels in a folder of idx files, such as MNIST and Fashion-MNIST.
///
/// Reads `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, with or without `.gz`. An image
/// becomes one row of pixels, scaled from `0..=255` to `0.0..=1.0`.
///
/// # Errors
/// [`Error::Io`] naming the file and the byte if a file is missing, truncated, longer than its
/// header says, does not contain bytes, or if the numbers of labels and images differ.
///
/// ```
/// use oxidax::prelude::*;
/// # let temporary = tempfile::tempdir().unwrap();
/// # let folder = temporary.path();
/// // Two images of one row and three pixels, and their labels.
/// let images = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 51, 255, 0, 0, 0];
/// let labels = [0, 0, 8, 1, 0, 0, 0, 2, 1, 0];
/// std::fs::write(folder.join("train-images-idx3-ubyte"), images).unwrap();
/// std::fs::write(folder.join("train-labels-idx1-ubyte"), labels).unwrap();
/// let train = data::idx(folder)?;
/// assert_eq!((train.len(), train.width()), (2, 3));
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten digits, file formats.
pub fn idx(folder: impl AsRef<Path>) -> Result<LabelledImages, Error> {
    idx_with(folder, IdxOptions::default())
}

/// Reads the images and labels of one split in a folder of idx files. See [`idx`].
///
/// # Errors
/// As [`idx`].
pub fn idx_with(folder: impl AsRef<Path>, options: IdxOptions) -> Result<LabelledImages, Error> {
    let (folder, IdxOptions { split }) = (folder.as_ref(), options);
    let images = find(folder, &format!("{}-images", split.prefix()), "idx3-ubyte")?;
    let labels = find(folder, &format!("{}-labels", split.prefix()), "idx1-ubyte")?;
    let (dims, pixels) = read(&images, 3, "images")?;
    let (label_dims, classes) = read(&labels, 1, "labels")?;
    if dims[0] != label_dims[0] {
        let message = format!(
            "there are {} labels for the {} images of {}",
            label_dims[0],
            dims[0],
            images.display()
        );
        return Err(io_error(&labels, io::Error::new(io::ErrorKind::InvalidData, message)));
    }
    Ok(LabelledImages::new(pixels, classes, dims[1] * dims[2], 255.0))
}

fn find(folder: &Path, stem: &str, kind: &str) -> Result<PathBuf, Error> {
    // Some copies of MNIST use a dot instead of the hyphen.
    let names = [
        format!("{stem}-{kind}"),
        format!("{stem}-{kind}.gz"),
        format!("{stem}.{kind}"),
        format!("{stem}.{kind}.gz"),
    ];
    let path = Storage::from_env().at(folder).map_err(storage_error)?;
    for name in &names {
        let is_file = match path.as_local() {
            Some(local) => local.join(name).is_file(),
            None => path.join(name).exists().map_err(storage_error)?,
        };
        if is_file {
            return Ok(folder.join(name));
        }
    }
    let message = format!("the folder has none of {}", names.join(", "));
    Err(io_error(folder, io::Error::new(io::ErrorKind::NotFound, message)))
}

fn element_name(code: u8) -> Option<&'static str> {
    Some(match code {
        0x08 => "u8",
        0x09 => "i8",
        0x0B => "i16",
        0x0C => "i32",
        0x0D => "f32",
        0x0E => "f64",
        _ => return None,
    })
}

/// Reads the axis sizes and elements of an idx file of bytes.
fn read(path: &Path, rank: usize, what: &str) -> Result<(Vec<usize>, Vec<u8>), Error> {
    let mut reader = Reader::open(&File::from(path))?;
    let header = reader.exactly(4, "the header")?;
    if header[..2] != [0, 0] {
        let message = format!(
            "an idx file begins with two zero bytes, this one with {:#04x} {:#04x}",
            header[0], header[1]
        );
        return Err(reader.damaged(0, message));
    }
    if header[2] != 0x08 {
        let name = element_name(header[2]).unwrap_or("unknown");
        let message = format!("{what} must be bytes (0x08), not {name} ({:#04x})", header[2]);
        return Err(reader.damaged(2, message));
    }
    if usize::from(header[3]) != rank {
        let message = format!("{what} must have {rank} axes, not {}", header[3]);
        return Err(reader.damaged(3, message));
    }
    let sizes = reader.exactly(4 * rank as u64, "the axis sizes")?;
    let dims: Vec<usize> = sizes
        .chunks_exact(4)
        .map(|bytes| bytes.iter().fold(0, |size, &byte| size << 8 | usize::from(byte)))
        .collect();
    let product = dims.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
    let Some(size) = product.filter(|&size| isize::try_from(size).is_ok()) else {
        return Err(reader.damaged(4, format!("axis sizes {dims:?} overflow")));
    };
    let elements = reader.exactly(size as u64, &format!("{what} of sizes {dims:?}"))?;
    if !reader.up_to(1)?.is_empty() {
        let message = format!("the file continues after its {what} of sizes {dims:?}");
        return Err(reader.damaged(reader.offset() - 1, message));
    }
    Ok((dims, elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::io::Write;

    fn images() -> Vec<u8> {
        let mut file = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
        file.extend([0, 51, 255, 1, 2, 3]);
        file
    }

    fn labels() -> Vec<u8> {
        vec![0, 0, 8, 1, 0, 0, 0, 2, 7, 9]
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn folder(images: &[u8], labels: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("train-images-idx3-ubyte.gz"), images).unwrap();
        std::fs::write(folder.path().join("train-labels-idx1-ubyte"), labels).unwrap();
        folder
    }

    fn refused(images: &[u8], labels: &[u8], expected: Expect) {
        let folder = folder(images, labels);
        let error = idx(folder.path()).unwrap_err().to_string();
        let place = folder.path().display().to_string();
        expected.assert_eq(&error.replace(&place, "DIR"));
    }

    #[test]
    fn plain_and_gzip_files_are_read() {
        for images in [images(), gzipped(&images())] {
            let folder = folder(&images, &labels());
            let set = idx(folder.path()).unwrap();
            assert_eq!((set.len(), set.width()), (2, 3));
            assert_eq!(set.row(0), (vec![0.0, 0.2, 1.0], 7));
            assert_eq!(set.row(1).1, 9);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let with = |position: usize, byte: u8| {
            let mut bytes = images();
            bytes[position] = byte;
            bytes
        };
        refused(
            &with(0, b'P'),
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: at byte 0: an idx file begins with two zero bytes, this one with 0x50 0x00"
            ],
        );
        refused(
            &with(2, 0x0D),
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: at byte 2: images must be bytes (0x08), not f32 (0x0d)"
            ],
        );
        refused(
            &with(3, 1),
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: at byte 3: images must have 3 axes, not 1"
            ],
        );
        refused(
            &with(11, 2),
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: the file ends at byte 22: images of sizes [2, 2, 3] should take 12 bytes from byte 16"
            ],
        );
        refused(
            &with(15, 2),
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: at byte 20: the file continues after its images of sizes [2, 1, 2]"
            ],
        );
        refused(
            &with(4, 255),
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: the file ends at byte 22: images of sizes [4278190082, 1, 3] should take 12834570246 bytes from byte 16"
            ],
        );
        refused(
            &[],
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: the file ends at byte 0: the header should take 4 bytes from byte 0"
            ],
        );
        refused(
            &images()[..9],
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: the file ends at byte 9: the axis sizes should take 12 bytes from byte 4"
            ],
        );
        refused(
            &images(),
            &labels()[..9],
            expect![
                "error[io]: DIR/train-labels-idx1-ubyte: the file ends at byte 9: labels of sizes [2] should take 2 bytes from byte 8"
            ],
        );
        let three = [0, 0, 8, 1, 0, 0, 0, 3, 7, 9, 1];
        refused(
            &images(),
            &three,
            expect![
                "error[io]: DIR/train-labels-idx1-ubyte: there are 3 labels for the 2 images of DIR/train-images-idx3-ubyte.gz"
            ],
        );
        let cut = gzipped(&images());
        refused(
            &cut[..cut.len() - 9],
            &labels(),
            expect![
                "error[io]: DIR/train-images-idx3-ubyte.gz: at byte 22: incomplete deflate stream"
            ],
        );
    }

    #[test]
    fn missing_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            idx_with(folder.path(), IdxOptions { split: Split::Test }).unwrap_err().to_string();
        let place = folder.path().display().to_string();
        expect![
            "error[io]: DIR: the folder has none of t10k-images-idx3-ubyte, \
             t10k-images-idx3-ubyte.gz, t10k-images.idx3-ubyte, t10k-images.idx3-ubyte.gz"
        ]
        .assert_eq(&error.replace(&place, "DIR"));
    }
}
