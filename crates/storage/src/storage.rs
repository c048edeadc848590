//! Clients of a process, one per bucket.

use crate::config::StorageSettings;
use crate::error::Error;
use crate::location::Location;
use crate::path::StoragePath;
#[cfg(feature = "remote")]
use crate::{location::Scheme, remote::Client};
use std::path::Path;
use std::sync::OnceLock;
#[cfg(feature = "remote")]
use std::{collections::BTreeMap, sync::Arc, sync::Mutex};

/// Opens paths and addresses. Each bucket has one client, which is created on first use.
///
/// Credentials are found as each cloud's own tools find them:
///
/// - **`s3://`**: the variables of [`StorageSettings`], a web identity token, the profile in
///   `~/.aws/config` and `~/.aws/credentials` (keys, web identity or `credential_process`), the
///   container, then the metadata of the instance.
/// - **`gs://`**: `GOOGLE_APPLICATION_CREDENTIALS`, the application-default credentials of
///   `gcloud`, then the metadata server. With `STORAGE_EMULATOR_HOST`, none.
#[derive(Debug)]
pub struct Storage {
    #[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "only clients have settings"))]
    settings: StorageSettings,
    #[cfg(feature = "remote")]
    clients: Mutex<BTreeMap<(&'static str, String), Arc<Client>>>,
}

impl Storage {
    /// Returns the storage of the process, with the settings of the environment at the first call.
    pub fn from_env() -> &'static Storage {
        static STORAGE: OnceLock<Storage> = OnceLock::new();
        STORAGE.get_or_init(|| Storage::new(StorageSettings::from_env()))
    }

    /// Creates a storage with these settings and separate clients.
    pub fn new(settings: StorageSettings) -> Storage {
        Storage {
            settings,
            #[cfg(feature = "remote")]
            clients: Mutex::default(),
        }
    }

    /// Returns a path, without reading or writing anything there.
    ///
    /// # Errors
    /// Kind `InvalidInput` if the address is wrong ([`Location::parse`]), `Unsupported` if it is
    /// the address of an object and the feature `remote` is not enabled, and other kinds if a file
    /// with credentials is missing or damaged.
    pub fn at(&self, location: impl AsRef<Path>) -> Result<StoragePath, Error> {
        match Location::parse(location)? {
            Location::Local(path) => Ok(StoragePath::local(path)),
            #[cfg(feature = "remote")]
            Location::Object { scheme, bucket, key } => {
                let address = format!("{}://{bucket}", scheme.name());
                let client = self.client(scheme, &bucket, &address)?;
                Ok(StoragePath::object(client, &key))
            }
            #[cfg(not(feature = "remote"))]
            object @ Location::Object { .. } => Err(Error::new(
                object.to_string(),
                "opening",
                crate::error::Problem::new(
                    std::io::ErrorKind::Unsupported,
                    "this program was built without clients for object stores",
                )
                .help("enable the feature `remote` of oxidax in Cargo.toml"),
            )),
        }
    }

    /// Returns the root of a store that the caller has created. `address` is the prefix of the
    /// objects' names in errors.
    #[cfg(feature = "remote")]
    pub fn custom(
        address: impl Into<String>,
        store: Arc<dyn object_store::ObjectStore>,
    ) -> StoragePath {
        let address = address.into();
        let address = address.trim_end_matches('/').to_owned();
        StoragePath::object(Arc::new(Client::custom(address, store)), "")
    }

    #[cfg(feature = "remote")]
    fn client(&self, scheme: Scheme, bucket: &str, address: &str) -> Result<Arc<Client>, Error> {
        // A panic while the map was locked leaves it as it was.
        let mut clients = self.clients.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = (scheme.name(), bucket.to_owned());
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = Client::connect(&self.settings, scheme, bucket)
            .map_err(|problem| Error::new(address, "connecting", problem))?;
        let client = Arc::new(client);
        clients.insert(key, client.clone());
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "remote"))]
    #[test]
    fn the_missing_feature_is_named() {
        let error = super::Storage::from_env().at("gs://b/k").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        assert!(
            error
                .to_string()
                .ends_with("help: enable the feature `remote` of oxidax in Cargo.toml")
        );
    }
}
