//! Google's metadata server, which describes a virtual machine to the programs on it.
//!
//! Sources: Google's pages "About VM metadata" and "View and query VM metadata". A request needs
//! the header `Metadata-Flavor: Google`, which every response repeats, so that another server at
//! this address is recognized. An attribute that is not set is answered with status 404.

use super::http::get;
use std::time::{Duration, Instant};

/// The server's name on every virtual machine. `GCE_METADATA_HOST` replaces it, as in Google's
/// client libraries.
pub(super) const DEFAULT_HOST: &str = "metadata.google.internal";

const FLAVOR: (&str, &str) = ("Metadata-Flavor", "Google");
const ATTRIBUTES: &str = "/computeMetadata/v1/instance/attributes/";

/// Time limits of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryLimits {
    /// For one request, after the lookup of the server's name.
    pub(super) request: Duration,
    /// For all requests and their repetitions.
    pub(super) total: Duration,
    /// Number of attempts per attribute.
    pub(super) attempts: u32,
    /// Pause before a request is repeated.
    pub(super) pause: Duration,
}

impl Default for QueryLimits {
    fn default() -> QueryLimits {
        QueryLimits {
            request: Duration::from_secs(5),
            total: Duration::from_secs(20),
            attempts: 40,
            pause: Duration::from_millis(500),
        }
    }
}

/// A metadata server.
#[derive(Clone, Debug)]
pub(super) struct MetadataServer {
    pub(super) host: String,
    limits: QueryLimits,
    deadline: Instant,
}

impl MetadataServer {
    pub(super) fn new(host: &str, limits: QueryLimits) -> MetadataServer {
        MetadataServer { host: host.to_owned(), limits, deadline: Instant::now() + limits.total }
    }

    /// Returns an attribute of this machine, or `None` if it is not set.
    ///
    /// Repeats requests that fail, because the server may start after this program, and answers
    /// with status 503 while it is updated.
    ///
    /// # Errors
    /// The reason for the last failure.
    pub(super) fn attribute(&self, name: &str) -> Result<Option<String>, String> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let path = format!("{ATTRIBUTES}{name}");
            let failure = match get(&self.host, &path, FLAVOR, self.limits.request, self.deadline) {
                Ok(response) => {
                    if response.header("metadata-flavor") != Some("Google") {
                        let flavor = response.header("metadata-flavor").unwrap_or("none");
                        return Err(format!(
                            "the server is not Google's metadata server: its `Metadata-Flavor` is \
                             {flavor} (status {})",
                            response.status
                        ));
                    }
                    match response.status {
                        200 => {
                            let text = String::from_utf8(response.body);
                            return text.map(Some).map_err(|_| "the value is not UTF-8".to_owned());
                        }
                        404 => return Ok(None),
                        status @ (429 | 500..=599) => format!("it answered with status {status}"),
                        status => return Err(format!("it answered with status {status}")),
                    }
                }
                Err(failure) => failure,
            };
            let is_over = Instant::now() + self.limits.pause >= self.deadline;
            if is_over || attempts >= self.limits.attempts {
                return Err(failure);
            }
            std::thread::sleep(self.limits.pause);
        }
    }
}
