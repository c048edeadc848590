//! Uploads in parts.

use super::proxy::{Fault, Proxy};
use super::{bytes, gs_variables, places, s3_variables, settings, start};
use oxidax_storage::Storage;
use std::process::Command;

/// Address of the object that a child process writes without end, and of the proxy.
const ENDLESS: &str = "OXIDAX_TEST_ENDLESS";

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn objects_of_many_parts_are_equal_after_faults() {
    for place in places() {
        let part = if place.bucket.starts_with("s3") { "partNumber" } else { "uploadType" };
        place.proxy.inject(&[(part, Fault::ServerError), (part, Fault::ServerError)]);
        let object = place.at("large");
        let content = bytes(17 << 20);
        let mut writer = object.create().unwrap();
        for piece in content.chunks(1_000_003) {
            writer.write(piece).unwrap();
            assert_eq!(place.at("").list().unwrap(), [], "visible before it is finished");
        }
        writer.finish().unwrap();
        assert!(object.read().unwrap() == content);
        assert_eq!(place.proxy.pending(), 0);
        // A writer that is dropped leaves the object as it was.
        let mut writer = object.create().unwrap();
        writer.write(&content[..12 << 20]).unwrap();
        drop(writer);
        assert_eq!(object.size().unwrap(), Some(17 << 20));
    }
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn killed_uploads_are_invisible() {
    if let Ok(endless) = std::env::var(ENDLESS) {
        let (address, host) = endless.split_once(' ').unwrap();
        let variables = match address.starts_with("s3") {
            true => s3_variables(host),
            false => gs_variables(host),
        };
        let storage = Storage::new(settings(variables));
        let mut writer = storage.at(address).unwrap().create().unwrap();
        loop {
            writer.write(&bytes(1 << 20)).unwrap();
        }
    }
    let server = start::s3();
    let proxy = Proxy::start(&server.host);
    let storage = Storage::new(settings(s3_variables(&server.host)));
    let object = storage.at("s3://numbers/run/large").unwrap();
    for previous in [None, Some(b"previous".as_slice())] {
        if let Some(previous) = previous {
            object.write(previous).unwrap();
        }
        proxy.requests();
        let name = "uploads::killed_uploads_are_invisible";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(ENDLESS, format!("{object} {}", proxy.host))
            .spawn()
            .unwrap();
        proxy.wait_for("partNumber=3", 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let listed = storage.at("s3://numbers").unwrap().list().unwrap();
        assert_eq!(listed.len(), usize::from(previous.is_some()));
        assert_eq!(object.exists().unwrap(), previous.is_some());
        if let Some(previous) = previous {
            assert_eq!(object.read().unwrap(), previous);
        }
    }
}
