//! Damaged checkpoints are read correctly or give an error. They cause no panic, no hang, and no
//! allocation that exceeds the file's size. A run's folder falls back to the previous checkpoint.
//!
//! Memory use is measured for the whole process, so this test runs in its own process.

mod on_cpu {
    use crate::alone::alone;
    use crate::damaged_data::mutations::{damaged, most_used};
    use checkpoint::{Folder, Snapshot};
    use oxidax::prelude::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;
    use std::fs;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;

    /// Damaged files of each kind.
    const FILES: u64 = 400;
    /// Changed manifests with a valid checksum.
    const MANIFESTS: u64 = 10_000;
    /// Limit in KiB. More memory than this means that a length was trusted: all intact files are
    /// below 4 KiB.
    const MAX_KIB: u64 = 32 << 10;

    type Arrays = BTreeMap<String, Array>;

    /// Arrays of several dtypes, some of them without a name in the format.
    fn arrays(seed: u8) -> Arrays {
        let dtypes = ["f32", "bool", "i4", "f4_e2m1fn", "c128", "u64"].map(DType::from_name);
        let array = |dtype: DType| {
            let bytes: Vec<u8> =
                (0..6 * dtype.host_bytes()).map(|at| (at as u8 ^ seed) & 1).collect();
            (format!("layer.{dtype}"), Array::from_bytes(&bytes, dtype, [2, 3]).unwrap())
        };
        dtypes.into_iter().flatten().map(array).collect()
    }

    fn bits(arrays: &Arrays) -> Vec<Vec<u8>> {
        arrays.values().map(|array| array.to_bytes().unwrap()).collect()
    }

    /// Reads damaged copies of a file, and counts the errors.
    #[track_caller]
    fn fuzz(path: &Path, mut read: impl FnMut() -> Result<(), Error>) -> u64 {
        let good = fs::read(path).unwrap();
        read().unwrap();
        let before = most_used();
        let mut noticed = 0;
        for seed in 0..FILES {
            let bytes = damaged(&good, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
            fs::write(path, bytes).unwrap();
            let outcome = catch_unwind(AssertUnwindSafe(&mut read));
            match outcome.unwrap_or_else(|_| panic!("{}, seed {seed}: it panicked", path.display()))
            {
                Ok(()) => {}
                Err(error @ (Error::Checkpoint { .. } | Error::Io { .. })) => {
                    let text = error.to_string();
                    assert!(text.len() < 3000, "seed {seed}: an error of {} bytes", text.len());
                    noticed += 1;
                }
                Err(error) => panic!("{}, seed {seed}: {error}", path.display()),
            }
        }
        fs::write(path, good).unwrap();
        read().unwrap();
        if let (Some(before), Some(after)) = (before, most_used()) {
            let more = after - before;
            assert!(more < MAX_KIB, "{}: {more} KiB were allocated", path.display());
        }
        noticed
    }

    /// Without checksums a changed element is not detected, but everything else is.
    fn single_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        checkpoint::save(&path, &arrays(0)).unwrap();
        let noticed = fuzz(&path, || checkpoint::load(&path, &arrays(0)).map(drop));
        assert!(noticed > FILES / 2, "only {noticed} errors");
        let noticed = fuzz(&path, || checkpoint::arrays(&path).map(drop));
        assert!(noticed > FILES / 2, "only {noticed} errors");
    }

    fn indices_and_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        checkpoint::save(at("one.safetensors"), &arrays(0)).unwrap();
        checkpoint::save(at("two.safetensors"), &(ones([2]), 0)).unwrap();
        let mut map: BTreeMap<String, &str> =
            arrays(0).into_keys().map(|name| (name, "one.safetensors")).collect();
        map.insert("[0]".into(), "two.safetensors");
        let index = serde_json::json!({ "metadata": { "total_size": 200 }, "weight_map": map });
        let path = at("model.safetensors.index.json");
        fs::write(&path, serde_json::to_vec_pretty(&index).unwrap()).unwrap();
        let noticed = fuzz(&path, || checkpoint::arrays(&path).map(drop));
        assert!(noticed > FILES / 2, "only {noticed} errors");
        let noticed = fuzz(&at("one.safetensors"), || checkpoint::arrays(&path).map(drop));
        assert!(noticed > FILES / 2, "only {noticed} errors");
    }

    /// With checksums all damage is detected: a restored state equals the saved one, of this step
    /// or the previous one.
    fn folders() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(dir.path()).unwrap();
        for step in [1, 2] {
            let saved = arrays(step as u8);
            let snapshot = Snapshot::new(step, &saved).position(data::Position::default());
            folder.save(snapshot.note("losses", &[0.5, 0.25])).unwrap();
        }
        folder.wait().unwrap();
        let newest = folder.path_of(2);
        for name in ["manifest.jsonl", "arrays.safetensors"] {
            let path = newest.join(name);
            let good = fs::read(&path).unwrap();
            let mut skipped = 0;
            let noticed = fuzz(&path, || {
                let unharmed = fs::read(&path).unwrap() == good;
                let restored = folder.restore_latest(&arrays(0))?.unwrap();
                assert_eq!(restored.step, if unharmed { 2 } else { 1 });
                assert_eq!(restored.skipped.len(), usize::from(!unharmed));
                assert_eq!(bits(&restored.state), bits(&arrays(restored.step as u8)));
                assert_eq!(restored.note::<Vec<f64>>("losses")?, [0.5, 0.25]);
                skipped += restored.skipped.len();
                checkpoint::load(&newest, &arrays(0)).map(drop)
            });
            assert_eq!(noticed, skipped as u64);
            assert!(noticed > FILES * 9 / 10, "only {noticed} errors");
        }
    }

    /// Changes numbers or bytes of a manifest's first line, and computes the checksum again.
    fn with_valid_checksum(manifest: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let end = manifest.iter().position(|&byte| byte == b'\n').unwrap();
        let mut first = manifest[..end].to_vec();
        for _ in 0..random.random_range(1..4) {
            let digits: Vec<usize> =
                (0..first.len()).filter(|&at| first[at].is_ascii_digit()).collect();
            match random.random_range(0..4) {
                0 => first = damaged(&first, random),
                _ if digits.is_empty() => break,
                _ => {
                    let numbers =
                        ["0", "1", "7", "-1", "1e9", "4294967296", "18446744073709551615", "[]"];
                    let at = digits[random.random_range(0..digits.len())];
                    let number = numbers[random.random_range(0..numbers.len())];
                    first.splice(at..=at, number.bytes());
                }
            }
        }
        first.retain(|&byte| byte != b'\n');
        first.push(b'\n');
        let crc = crc32c::crc32c(&first);
        first.extend(format!("{{\"crc32c\":{crc}}}\n").bytes());
        first
    }

    /// A manifest of sharded arrays with a valid checksum and other numbers. Elements may be read
    /// in another order, but nothing else: no panic, and no allocation that the files do not
    /// justify.
    fn manifests_with_valid_checksums(count: u64) {
        let rows = Mesh::new(devices().unwrap(), [("data", 4)]).unwrap().sharding(p!["data"]);
        let rows = rows.unwrap();
        let sharded: Arrays = ["a", "b"]
            .map(|name| (name.to_owned(), device_put(&ones([8, 3]), &rows).unwrap()))
            .into();
        let dir = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(dir.path()).unwrap();
        folder.save(Snapshot::new(1, &sharded)).unwrap();
        folder.wait().unwrap();
        let path = folder.path_of(1).join("manifest.jsonl");
        let good = fs::read(&path).unwrap();
        let before = most_used();
        let mut noticed = 0;
        for seed in 0..count {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            fs::write(&path, with_valid_checksum(&good, &mut random)).unwrap();
            let read = || {
                let whole = folder.restore_latest(&sharded).map(drop);
                checkpoint::arrays(path.parent().unwrap()).map(drop).and(whole)
            };
            let outcome = catch_unwind(AssertUnwindSafe(read));
            match outcome.unwrap_or_else(|_| panic!("seed {seed}: it panicked")) {
                Ok(()) => {}
                Err(Error::Checkpoint { .. } | Error::Io { .. }) => noticed += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        assert!(noticed > count / 2, "only {noticed} errors");
        if let (Some(before), Some(after)) = (before, most_used()) {
            assert!(after - before < MAX_KIB, "{} KiB were allocated", after - before);
        }
    }

    #[test]
    fn damaged_checkpoints_give_errors() {
        alone("damaged_checkpoints::on_cpu::damaged_checkpoints_give_errors", || {
            oxidax::parallel::set_cpu_devices(4).unwrap();
            single_files();
            indices_and_their_files();
            folders();
            manifests_with_valid_checksums(MANIFESTS);
        });
    }

    #[test]
    #[ignore = "a million manifests: run it alone"]
    fn a_million_manifests_give_errors() {
        oxidax::parallel::set_cpu_devices(4).unwrap();
        manifests_with_valid_checksums(1_000_000);
    }
}
