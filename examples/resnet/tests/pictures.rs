//! Preprocessing of images before they reach the network.

use crate::images::{Crop, Images, Raw, Reading, Sets, margin};
use data::{HostArray, Source};
use oxidax::prelude::*;
use std::path::Path;

const READING: Reading = Reading { size: 8, batch: 4, workers: 2 };

/// Writes a folder of IDX files with `n` square images. Pixel `i` of image `k` is `16 k + i`.
fn idx_folder(n: usize, side: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["train", "t10k"] {
        let word = |n: usize| (n as u32).to_be_bytes();
        let pixels = (0..n).flat_map(|k| (0..side * side).map(move |i| (16 * k + i) as u8));
        let images = [[0, 0, 8, 3], word(n), word(side), word(side)].concat();
        let images: Vec<u8> = images.into_iter().chain(pixels).collect();
        let labels = [[0, 0, 8, 1], word(n)].concat();
        let labels: Vec<u8> = labels.into_iter().chain((0..n).map(|k| (k % 3) as u8)).collect();
        std::fs::write(folder.path().join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(folder.path().join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
    folder
}

fn only(folder: &Path) -> Raw {
    Sets::open(folder).unwrap().train.get(1).unwrap()
}

#[test]
fn grey_images_are_centred_and_copied_to_three_channels() {
    let folder = idx_folder(2, 4);
    let sets = Sets::open(folder.path()).unwrap();
    assert_eq!((sets.classes, sets.size, Source::len(&sets.test)), (2, 32, 2));
    let (image, class) = Crop::centre(8).example(only(folder.path()), 8).unwrap();
    assert_eq!((image.aval().to_string(), class.item::<i32>().unwrap()), ("u8[8,8,3]".into(), 1));
    let image = image.to_vec::<u8>().unwrap();
    let at = |row: usize, column: usize| &image[(row * 8 + column) * 3..][..3];
    assert_eq!(at(2, 2), [16; 3]);
    assert_eq!(at(2, 5), [19; 3]);
    assert_eq!(at(5, 5), [31; 3]);
    assert_eq!(at(1, 2), [0; 3]);
    assert_eq!(at(6, 5), [0; 3]);
}

#[test]
fn crops_shift_and_flip() {
    let folder = idx_folder(2, 4);
    assert_eq!((margin(8), margin(32), margin(224)), (1, 4, 32));
    let cut = Crop { row: 1, column: 0, flipped: true };
    let (image, _) = cut.example(only(folder.path()), 8).unwrap();
    let image = image.to_vec::<u8>().unwrap();
    let at = |row: usize, column: usize| image[(row * 8 + column) * 3];
    // The image is padded to nine pixels a side, two of them before it. The crop begins at row 1
    // and is flipped.
    assert_eq!((at(1, 5), at(1, 2), at(4, 2)), (16, 19, 31));
    let error = Crop::centre(2).example(only(folder.path()), 2).unwrap_err().to_string();
    assert!(
        error.contains("16 pixels do not form a square of at most 2 pixels per side"),
        "{error}"
    );
}

#[test]
fn noise_has_as_many_images_as_imagenet() {
    let sets = Sets::noise();
    assert_eq!((sets.classes, sets.size), (1000, 224));
    assert_eq!((Source::len(&sets.train), Source::len(&sets.test)), (1_281_167, 50_000));
}

#[test]
fn folders_of_neither_kind_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Sets::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("neither idx files") && error.contains("`train` and `val`"), "{error}");
    for part in ["train/a", "train/b", "val/a", "val/c"] {
        let place = folder.path().join(part);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("1.png"), b"").unwrap();
    }
    let error = Sets::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains(r#"`train` has the classes ["a", "b"], `val` ["a", "c"]"#), "{error}");
}

#[test]
fn photographs_are_decoded_at_the_size_that_is_cut() {
    let temporary = tempfile::tempdir().unwrap();
    let class = temporary.path().join("halves");
    std::fs::create_dir(&class).unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cpu/data/files");
    std::fs::copy(files.join("halves.png"), class.join("1.png")).unwrap();
    let folder = data::ImageFolder::open(temporary.path()).unwrap();
    let (image, class): (HostArray, HostArray) =
        Crop::centre(14).example(Raw::File(folder.get(0).unwrap()), 14).unwrap();
    assert_eq!(image.aval().to_string(), "u8[14,14,3]");
    assert_eq!(class.item::<i32>().unwrap(), 0);
}

mod on_cpu {
    use super::*;

    /// Returns the pixels and classes of the first `n` batches.
    fn read(batches: data::Stream<(Array, Array)>, n: usize) -> Vec<(Vec<u8>, Vec<i32>)> {
        let read = |(images, labels): (Array, Array)| {
            (images.to_vec::<u8>().unwrap(), labels.to_vec::<i32>().unwrap())
        };
        batches.take(n as u64).map(move |batch| Ok(read(batch))).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn seed_determines_order_and_crops_and_positions_resume() {
        let noise = || Images::Noise { len: 6, classes: 3 };
        let all = read(noise().train(READING, 1, true), 5);
        assert_eq!(all, read(noise().train(Reading { workers: 1, ..READING }, 1, true), 5));
        assert_ne!(all, read(noise().train(READING, 2, true), 5));
        assert_ne!(all, read(noise().train(READING, 1, false), 5));
        let mut first = noise().train(READING, 1, true);
        for _ in 0..2 {
            first.next().unwrap().unwrap();
        }
        let rest = noise().train(READING, 1, true).resume(&first.position()).unwrap();
        assert_eq!(read(rest, 3), all[2..]);
    }

    #[test]
    fn test_images_come_once_and_the_last_batch_may_be_smaller() {
        let noise = || Images::Noise { len: 6, classes: 6 };
        let batches = read(noise().test(READING, usize::MAX), 9);
        let sizes: Vec<usize> = batches.iter().map(|(_, labels)| labels.len()).collect();
        assert_eq!(sizes, [4, 2]);
        let mut labels: Vec<i32> = batches.into_iter().flat_map(|(_, labels)| labels).collect();
        labels.sort_unstable();
        assert_eq!(labels, [0, 1, 2, 3, 4, 5]);
        assert_eq!(read(noise().test(READING, 3), 9)[0].1.len(), 3);
    }
}
