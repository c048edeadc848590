//! Object stores over HTTP: an S3 server and an emulator of Google Cloud Storage, with faults.
//!
//! `cargo xtask stores` installs the servers and runs these tests.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod aws;
mod cloud;
mod credentials;
mod faults;
mod google;
mod objects;
mod proxy;
mod start;
mod uploads;

use oxidax_storage::{Storage, StoragePath, StorageSettings};
use proxy::Proxy;
use start::Server;

/// A server behind a proxy, and its bucket.
struct Place {
    _server: Server,
    proxy: Proxy,
    storage: Storage,
    bucket: &'static str,
}

impl Place {
    fn at(&self, key: &str) -> StoragePath {
        self.storage.at(format!("{}/{key}", self.bucket)).unwrap()
    }
}

/// Variables of an S3 server.
fn s3_variables(host: &str) -> Vec<(String, String)> {
    vec![
        ("AWS_ENDPOINT_URL".into(), format!("http://{host}")),
        ("AWS_ACCESS_KEY_ID".into(), "key".into()),
        ("AWS_SECRET_ACCESS_KEY".into(), "secret".into()),
    ]
}

/// Variables of an emulator of Google Cloud Storage.
fn gs_variables(host: &str) -> Vec<(String, String)> {
    vec![("STORAGE_EMULATOR_HOST".into(), host.into())]
}

fn settings(variables: Vec<(String, String)>) -> StorageSettings {
    // The smallest parts that S3 accepts.
    StorageSettings::from_variables(variables).with_max_retries(3).with_part_size(5 << 20)
}

/// Both stores.
fn places() -> [Place; 2] {
    let (s3, gs) = (start::s3(), start::gs());
    let (s3_proxy, gs_proxy) = (Proxy::start(&s3.host), Proxy::start(&gs.host));
    [
        Place {
            storage: Storage::new(settings(s3_variables(&s3_proxy.host))),
            _server: s3,
            proxy: s3_proxy,
            bucket: "s3://numbers",
        },
        Place {
            storage: Storage::new(settings(gs_variables(&gs_proxy.host))),
            _server: gs,
            proxy: gs_proxy,
            bucket: "gs://numbers",
        },
    ]
}

/// Bytes without a short period.
fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
