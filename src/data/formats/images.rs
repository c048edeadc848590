//! Folders of images, and decoding them.

use crate::core::{Error, HostArray};
use crate::data::files::{File, io_error};
use crate::data::origin::Origin;
use crate::data::source::Source;
use image::imageops::FilterType;
use image::{ImageFormat, ImageReader, Limits};
use std::fmt;
use std::fs;
use std::io::{self, Cursor};
use std::path::Path;

/// More bytes than this come of no byte of a PNG or JPEG file: deflate ends at 1032, and a block of 8 by 8
/// pixels of three bytes takes a quarter of a byte at the least.
const BEST_RATIO: u64 = 1100;
/// What decoding may take besides, for tables and small images.
const SMALL: u64 = 4 << 20;

/// A folder of images with a sub-folder for each class: PNG and JPEG files, by their names' endings.
///
/// Classes are numbered in the order of their names. Records are the files' bytes, so that decoding can be done
/// in parallel:
///
/// ```no_run
/// use oxidax::data::{self, ImageFolder, Source};
/// let folder = ImageFolder::open("flowers")?;
/// println!("{:?}", folder.classes());
/// let batches = folder
///     .shuffled(0)
///     .stream()
///     .parallel_map(4, |file| Ok((data::decode_image(&file.bytes, 224, 224)?, file.label()?)))
///     .batch(32);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub struct ImageFolder {
    classes: Vec<String>,
    /// Files, each with its class.
    files: Vec<(File, usize)>,
}

/// A file of an [`ImageFolder`], still encoded.
#[derive(Clone, PartialEq)]
pub struct ImageFile {
    /// What the file holds.
    pub bytes: Vec<u8>,
    /// Its class.
    pub class: usize,
}

impl ImageFile {
    /// The class as an array `i32[]`, to be batched.
    ///
    /// # Errors
    /// `Data` if there are more than two thousand million classes.
    pub fn label(&self) -> Result<HostArray, Error> {
        let class = i32::try_from(self.class).map_err(|_| {
            Error::data("label", format!("class {} exceeds {}", self.class, i32::MAX))
        })?;
        HostArray::from_slice(&[class], [])
    }
}

impl fmt::Debug for ImageFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageFile({} bytes, class {})", self.bytes.len(), self.class)
    }
}

impl ImageFolder {
    /// Lists a folder. Files of other endings, and those beside the sub-folders, are passed over.
    ///
    /// # Errors
    /// [`Error::Io`] if a folder cannot be read, or there is no image in any.
    pub fn open(folder: impl AsRef<Path>) -> Result<ImageFolder, Error> {
        let folder = folder.as_ref();
        let (mut classes, mut files) = (Vec::new(), Vec::new());
        for class in listed(folder)?.iter().filter(|path| path.is_dir()) {
            for path in listed(class)?.iter().filter(|path| is_image(path)) {
                files.push((File::from(path), classes.len()));
            }
            let name = class.file_name().unwrap_or_default();
            classes.push(name.to_string_lossy().into_owned());
        }
        if files.is_empty() {
            let message = format!(
                "no .png, .jpg or .jpeg file in any of its {} sub-folders, one for each class",
                classes.len()
            );
            return Err(io_error(folder, io::Error::new(io::ErrorKind::NotFound, message)));
        }
        Ok(ImageFolder { classes, files })
    }

    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
}

/// What is in a folder, in the order of names.
fn listed(folder: &Path) -> Result<Vec<std::path::PathBuf>, Error> {
    let entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>());
    let mut entries = entries.map_err(|error| io_error(folder, error))?;
    entries.sort();
    Ok(entries)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ["png", "jpg", "jpeg"].contains(&ending.as_str()) && path.is_file()
}

impl Source for ImageFolder {
    type Record = ImageFile;

    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize) -> Result<ImageFile, Error> {
        let (file, class) = &self.files[index];
        let handle = file.open()?;
        let bytes = handle.exactly(0, handle.len(), "the image")?;
        Ok(ImageFile { bytes, class: *class })
    }

    fn origin(&self, index: usize) -> Option<Origin> {
        Some(Origin::file(self.files[index].0.name().clone()))
    }
}

impl fmt::Debug for ImageFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageFolder({} images in {} classes)", self.files.len(), self.classes.len())
    }
}

/// A PNG or JPEG image, as `u8[height, width, 3]`: red, green and blue, resized with a triangle filter if it has
/// another size. Transparency is dropped, grey becomes three equal channels.
///
/// # Errors
/// `Data` if the bytes are no such image, or claim to be one larger than so many bytes can hold.
///
/// ```
/// use oxidax::data;
/// let error = data::decode_image(b"GIF89a", 2, 2).unwrap_err().to_string();
/// assert!(error.starts_with("error[data]: decode_image: the 6 bytes are neither PNG nor JPEG"));
/// ```
pub fn decode_image(bytes: &[u8], height: usize, width: usize) -> Result<HostArray, Error> {
    let refused = |message: String| Error::data("decode_image", message);
    let format = match bytes {
        [0x89, b'P', b'N', b'G', ..] => ImageFormat::Png,
        [0xff, 0xd8, ..] => ImageFormat::Jpeg,
        _ => {
            let first = &bytes[..bytes.len().min(4)];
            let count = bytes.len();
            return Err(refused(format!(
                "the {count} bytes are neither PNG nor JPEG, they begin with {first:02x?}"
            )));
        }
    };
    let unfit = |error: image::ImageError| refused(format!("the {} bytes: {error}", bytes.len()));
    let most = bytes.len() as u64 * BEST_RATIO + SMALL;
    let (columns, rows) =
        ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().map_err(unfit)?;
    // Three bytes a pixel at least, once it is decoded.
    if u64::from(columns) * u64::from(rows) * 3 > most {
        return Err(refused(format!(
            "the {} bytes claim to be an image of {columns} by {rows} pixels",
            bytes.len()
        )));
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(most);
    reader.limits(limits);
    let decoded = reader.decode().map_err(unfit)?;
    let (Ok(new_width), Ok(new_height)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(refused(format!("no image is {width} by {height} pixels")));
    };
    let rgb = decoded.into_rgb8();
    let rgb = match (columns, rows) == (new_width, new_height) {
        true => rgb,
        false => image::imageops::resize(&rgb, new_width, new_height, FilterType::Triangle),
    };
    HostArray::from_slice(rgb.as_raw(), [height, width, 3])
}
