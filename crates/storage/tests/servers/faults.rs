//! Server errors and cut connections.

use super::proxy::Fault::{CutBody, NoAnswer, ServerError};
use super::{bytes, places};
use oxidax_storage::{Storage, StorageSettings};

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn requests_are_repeated_after_faults() {
    for place in places() {
        let object = place.at("a");
        // Three repetitions are allowed. A request that changes something is not always repeated
        // after a cut connection, but a write of a whole object is.
        let write = if place.bucket.starts_with("s3") { "PUT" } else { "POST" };
        place.proxy.inject(&[(write, ServerError), (write, NoAnswer), (write, ServerError)]);
        object.write(&bytes(5000)).unwrap();
        place.proxy.inject(&[("GET", ServerError), ("GET", NoAnswer)]);
        assert_eq!(place.at("").list().unwrap().len(), 1);
        let reader = object.open().unwrap();
        place.proxy.inject(&[("GET", ServerError), ("GET", NoAnswer), ("GET", CutBody(1000))]);
        let mut read = vec![0; 4000];
        reader.read_exact_at(&mut read, 500).unwrap();
        assert_eq!(read, bytes(5000)[500..4500]);
        assert_eq!(place.proxy.pending(), 0);
    }
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn cut_bodies_continue_where_they_stopped() {
    for place in places() {
        let object = place.at("a");
        object.write(&bytes(100_000)).unwrap();
        let reader = object.open().unwrap();
        place.proxy.requests();
        place.proxy.inject(&[("GET", CutBody(30_000)), ("GET", CutBody(10_000))]);
        let mut read = vec![0; 90_000];
        reader.read_exact_at(&mut read, 5_000).unwrap();
        assert_eq!(read, bytes(100_000)[5_000..95_000]);
        let ranges: Vec<String> = place
            .proxy
            .requests()
            .iter()
            .filter_map(|head| {
                let head = head.to_ascii_lowercase();
                Some(head.split_once("\r\nrange: ")?.1.split("\r\n").next()?.to_owned())
            })
            .collect();
        assert_eq!(ranges, ["bytes=5000-94999", "bytes=35000-94999", "bytes=45000-94999"]);
    }
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn lasting_faults_are_errors_with_address_operation_requests_and_remedy() {
    for place in places() {
        place.proxy.always(Some(ServerError));
        let list = place.at("train").list().unwrap_err().to_string();
        let write = place.at("a").write(b"1").unwrap_err().to_string();
        for (text, start) in [(list, "/train: listing: "), (write, "/a: writing: ")] {
            assert!(text.starts_with(&format!("{}{start}", place.bucket)), "{text}");
            assert!(text.contains("500 Internal Server Error"), "{text}");
            assert!(text.contains("(after 4 requests)"), "{text}");
            assert!(text.contains("\n  help: check the network"), "{text}");
        }
        place.proxy.always(None);
        assert!(!place.at("a").exists().unwrap());
    }
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn missing_buckets_and_servers_are_named() {
    for place in places() {
        let missing = format!("{}-missing", place.bucket);
        let root = place.storage.at(&missing).unwrap();
        for error in [
            root.list().unwrap_err(),
            root.join("a").read().unwrap_err(),
            root.join("a").write(b"1").unwrap_err(),
        ] {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            assert!(error.to_string().starts_with(&missing), "{error}");
        }
        let list = root.list().unwrap_err().to_string();
        assert!(list.contains("lists your buckets"), "{list}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let variables = super::s3_variables(&closed.to_string());
    let settings = StorageSettings::from_variables(variables).with_max_retries(1);
    let error = Storage::new(settings).at("s3://b/a").unwrap().read().unwrap_err().to_string();
    assert!(error.contains("onnection refused") && error.contains("after 2 requests"), "{error}");
}
