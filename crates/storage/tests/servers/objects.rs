//! Reading, writing, listing and deleting.

use super::{bytes, places};
use oxidax_storage::FolderEntry;
use std::io::ErrorKind;

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn objects_are_written_read_and_deleted() {
    for place in places() {
        let object = place.at("run 1/a+b=c%20é.bin");
        assert!(!object.exists().unwrap());
        object.write(b"first").unwrap();
        object.write(&bytes(1000)).unwrap();
        assert_eq!(object.size().unwrap(), Some(1000));
        assert_eq!(object.read().unwrap(), bytes(1000));
        let names = place.at("run 1").list().unwrap();
        assert_eq!(names[0].name, "a+b=c%20é.bin");
        place.at("empty").write(b"").unwrap();
        assert_eq!(place.at("empty").read().unwrap(), b"");
        object.delete().unwrap();
        object.delete().unwrap();
        let error = object.read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        let start = format!("{}/run 1/a+b=c%20é.bin: opening: it does not exist", place.bucket);
        assert!(text.starts_with(&start), "{text}");
        let error = place.at("").read().unwrap_err().to_string();
        assert!(error.contains("this is a bucket, not an object"), "{error}");
    }
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn ranges_of_one_version_are_read() {
    for place in places() {
        let object = place.at("a");
        object.write(&bytes(10_000)).unwrap();
        let reader = object.open().unwrap();
        assert_eq!(reader.len(), 10_000);
        let mut buffer = [0; 100];
        assert_eq!(reader.read_at(&mut buffer, 123).unwrap(), 100);
        assert_eq!(buffer, bytes(10_000)[123..223]);
        assert_eq!(reader.read_at(&mut buffer, 9_950).unwrap(), 50);
        assert_eq!(reader.read_at(&mut buffer, 10_000).unwrap(), 0);
        assert_eq!(reader.read_at(&mut buffer, u64::MAX).unwrap(), 0);
        let error = reader.read_exact_at(&mut buffer, 9_950).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        if place.bucket.starts_with("s3") {
            // The emulator of Google Cloud Storage does not compare versions.
            object.write(&bytes(20_000)).unwrap();
            let error = reader.read_at(&mut buffer, 0).unwrap_err().to_string();
            assert!(error.contains("replaced or deleted while it was being read"), "{error}");
        }
    }
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn all_pages_of_a_listing_are_read() {
    const COUNT: usize = 2100;
    for place in places() {
        let folder = place.at("many");
        std::thread::scope(|scope| {
            for part in 0..8 {
                let folder = &folder;
                scope.spawn(move || {
                    for number in (part..COUNT).step_by(8) {
                        folder.join(&format!("{number:04}/x")).write(b"1").unwrap();
                    }
                });
            }
        });
        // A folder's name is not a prefix of its neighbours'.
        place.at("many-more").write(b"").unwrap();
        place.proxy.requests();
        let names: Vec<String> = folder.list().unwrap().into_iter().map(|it| it.name).collect();
        let expected: Vec<String> = (0..COUNT).map(|number| format!("{number:04}/x")).collect();
        assert_eq!(names, expected);
        assert_eq!(place.proxy.requests().len(), 3, "pages of 1000 names");
        let folders = folder.folder().unwrap();
        assert_eq!(folders.len(), COUNT);
        assert_eq!(folders[7], FolderEntry { name: "0007".into(), size: None });
        assert_eq!(place.at("none").list().unwrap(), []);
        place.at("many/0007").delete_all().unwrap();
        assert_eq!(folder.list().unwrap().len(), COUNT - 1);
        let root: Vec<String> =
            place.at("").folder().unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(root, ["many", "many-more"]);
    }
}
