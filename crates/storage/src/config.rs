//! Settings of the clients, from the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the clients for object stores.
///
/// The variables are those of each cloud's own tools:
///
/// | variable | meaning |
/// |----------|---------|
/// | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` | S3 credentials |
/// | `AWS_PROFILE`, `AWS_CONFIG_FILE`, `AWS_SHARED_CREDENTIALS_FILE` | profile and its files |
/// | `AWS_WEB_IDENTITY_TOKEN_FILE`, `AWS_ROLE_ARN`, `AWS_ROLE_SESSION_NAME` | web identity |
/// | `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`, `…_FULL_URI` | credentials of a container |
/// | `AWS_CONTAINER_AUTHORIZATION_TOKEN`, `…_TOKEN_FILE` | the token for them |
/// | `AWS_EC2_METADATA_SERVICE_ENDPOINT`, `…_MODE` | address of the instance's metadata |
/// | `AWS_METADATA_SERVICE_TIMEOUT`, `…_NUM_ATTEMPTS` | seconds, and tries, for metadata |
/// | `AWS_ENDPOINT_URL_STS` | address of the service that assumes roles |
/// | `AWS_REGION`, `AWS_DEFAULT_REGION` | region, `us-east-1` by default |
/// | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` | address of another S3 server |
/// | `AWS_SKIP_SIGNATURE`, `GOOGLE_SKIP_SIGNATURE` | `true` reads public buckets anonymously |
/// | `AWS_EC2_METADATA_DISABLED` | `true` does not ask the instance for credentials |
/// | `GOOGLE_APPLICATION_CREDENTIALS` | file with Google credentials |
/// | `CLOUDSDK_CONFIG` | folder of `gcloud`, else `~/.config/gcloud` |
/// | `CLOUDSDK_AUTH_TOKEN_HOST` | address that exchanges a user's refresh token |
/// | `GCE_METADATA_HOST`, `GCE_METADATA_TIMEOUT` | metadata server, and its time-out in seconds |
/// | `NO_GCE_CHECK` | `true` does not ask the metadata server for credentials |
/// | `STORAGE_EMULATOR_HOST` | address of an emulator of Google Cloud Storage |
///
/// Other variables that begin with `AWS_` or `GOOGLE_` have the meaning that the crate
/// `object_store` gives them.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageSettings {
    pub(crate) max_retries: usize,
    pub(crate) retry_timeout: Duration,
    pub(crate) part_size: usize,
    variables: BTreeMap<String, String>,
}

impl StorageSettings {
    /// Reads the environment. No other code of this crate does.
    pub fn from_env() -> StorageSettings {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        StorageSettings::from_variables(std::env::vars_os().filter_map(text))
    }

    /// Returns the default settings with these variables, as if they were the environment.
    ///
    /// ```
    /// use oxidax_storage::{StorageSettings, Storage};
    /// let variables = [("STORAGE_EMULATOR_HOST", "127.0.0.1:4443")];
    /// let settings = StorageSettings::from_variables(variables);
    /// let storage = Storage::new(settings.with_max_retries(3));
    /// # let _ = storage;
    /// ```
    pub fn from_variables<N: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> StorageSettings {
        let known = |name: &str| {
            name.starts_with("AWS_")
                || name.starts_with("GOOGLE_")
                || name.starts_with("GCE_METADATA_")
                || ["HOME", "NO_GCE_CHECK", "STORAGE_EMULATOR_HOST"].contains(&name)
                || ["CLOUDSDK_AUTH_TOKEN_HOST", "CLOUDSDK_CONFIG"].contains(&name)
        };
        StorageSettings {
            max_retries: 10,
            retry_timeout: Duration::from_secs(180),
            part_size: 16 << 20,
            variables: variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .filter(|(name, value): &(String, String)| known(name) && !value.is_empty())
                .collect(),
        }
    }

    /// Sets the maximum number of times that a request is repeated after a server error (5xx), a
    /// time-out or a cut connection. 10 by default.
    pub fn with_max_retries(self, max_retries: usize) -> StorageSettings {
        StorageSettings { max_retries, ..self }
    }

    /// Sets the time from the first try after which a request is not repeated. 3 minutes by
    /// default.
    pub fn with_retry_timeout(self, retry_timeout: Duration) -> StorageSettings {
        StorageSettings { retry_timeout, ..self }
    }

    /// Sets the size of the parts of an upload in bytes. 16 MiB by default; S3 accepts no less than
    /// 5 MiB, which is also the least here.
    pub fn with_part_size(self, part_size: usize) -> StorageSettings {
        StorageSettings { part_size: part_size.max(5 << 20), ..self }
    }
}

#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "only clients have settings"))]
impl StorageSettings {
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the path in a variable, else a path in the home folder.
    pub(crate) fn path_or_home(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let home = || self.variable("HOME").map(|home| PathBuf::from(home).join(in_home));
        self.variable(variable).map(PathBuf::from).or_else(home)
    }
}

/// Leaves out the variables, which may be secret.
impl fmt::Debug for StorageSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageSettings")
            .field("max_retries", &self.max_retries)
            .field("retry_timeout", &self.retry_timeout)
            .field("part_size", &self.part_size)
            .finish_non_exhaustive()
    }
}
