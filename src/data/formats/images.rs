//! Folders of images, and decoding of PNG and JPEG.

use crate::core::{Error, HostArray};
use crate::data::files::{File, io_error, storage_error};
use crate::data::origin::RecordOrigin;
use crate::data::source::Source;
use image::imageops::FilterType;
use image::{ImageFormat, ImageReader, Limits};
use oxidax_storage::Storage;
use std::fmt;
use std::io::{self, Cursor};
use std::path::Path;

/// Largest ratio of decoded to encoded bytes. Deflate reaches 1032, and a JPEG block of 8 × 8
/// pixels of three bytes takes at least a quarter of a byte.
const MAX_RATIO: u64 = 1100;
/// Additional bytes allowed for tables and small images.
const EXTRA_BYTES: u64 = 4 << 20;

/// A folder of PNG and JPEG images with one sub-folder per class.
///
/// Classes are numbered in the order of their names. Records are encoded files, so that decoding
/// can run in parallel:
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
    /// The files, each with its class.
    files: Vec<(File, usize)>,
}

/// An encoded file of an [`ImageFolder`].
#[derive(Clone, PartialEq)]
pub struct ImageFile {
    /// The file's content.
    pub bytes: Vec<u8>,
    /// The file's class.
    pub class: usize,
}

impl ImageFile {
    /// Returns the class as an array `i32[]`, for batches.
    ///
    /// # Errors
    /// `Data` if the class does not fit into an `i32`.
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
    /// Lists a folder. Other files are ignored.
    ///
    /// # Errors
    /// [`Error::Io`] if a folder cannot be read, or contains no images.
    pub fn open(folder: impl AsRef<Path>) -> Result<ImageFolder, Error> {
        let folder = folder.as_ref();
        let (mut classes, mut files) = (Vec::new(), Vec::new());
        let path = Storage::from_env().at(folder).map_err(storage_error)?;
        if path.as_local().is_some_and(|local| !local.is_dir()) {
            return Err(io_error(folder, io::ErrorKind::NotFound.into()));
        }
        let folders = path.folder().map_err(storage_error)?;
        for class in folders.into_iter().filter(|entry| entry.size.is_none()) {
            let path = path.join(&class.name);
            let images = path.folder().map_err(storage_error)?;
            for image in images.iter().filter(|entry| entry.size.is_some() && is_image(&entry.name))
            {
                let image = path.join(&image.name);
                files.push((File::from(image.to_string()), classes.len()));
            }
            classes.push(class.name);
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

    /// Returns the names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
}

fn is_image(name: &str) -> bool {
    let ending = Path::new(name).extension().unwrap_or_default().to_string_lossy();
    ["png", "jpg", "jpeg"].iter().any(|known| ending.eq_ignore_ascii_case(known))
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

    fn origin(&self, index: usize) -> Option<RecordOrigin> {
        Some(RecordOrigin::file(self.files[index].0.name().clone()))
    }
}

impl fmt::Debug for ImageFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageFolder({} images in {} classes)", self.files.len(), self.classes.len())
    }
}

/// Decodes a PNG or JPEG image to `u8[height, width, 3]` in RGB. An image of another size is
/// resized with a triangle filter. Transparency is dropped, and grey becomes three equal channels.
///
/// # Errors
/// `Data` if the bytes are not such an image, or declare a size that they cannot contain.
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
    let most = bytes.len() as u64 * MAX_RATIO + EXTRA_BYTES;
    let (columns, rows) =
        ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().map_err(unfit)?;
    // A decoded pixel takes at least three bytes.
    if u64::from(columns) * u64::from(rows) * 3 > most {
        return Err(refused(format!(
            "the {} bytes declare an image of {columns} by {rows} pixels",
            bytes.len()
        )));
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(most);
    reader.limits(limits);
    let decoded = reader.decode().map_err(unfit)?;
    let (Ok(new_width), Ok(new_height)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(refused(format!("an image cannot have {width} by {height} pixels")));
    };
    let rgb = decoded.into_rgb8();
    let rgb = if (columns, rows) == (new_width, new_height) {
        rgb
    } else {
        image::imageops::resize(&rgb, new_width, new_height, FilterType::Triangle)
    };
    HostArray::from_slice(rgb.as_raw(), [height, width, 3])
}
