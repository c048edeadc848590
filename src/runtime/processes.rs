//! Which process of the program this is. Settled once: by `distributed::initialize`, or by the first use of a device.

use crate::core::Error;
use oxidax_pjrt::{Client, NamedValue, Plugin};
use oxidax_plugin::Platform;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "distributed")]
use {
    crate::core::DistributedErrorKind,
    oxidax_pjrt::{Code, KeyValueStore},
    std::{sync::Arc, time::Duration},
};

/// What is known of the processes.
enum Standing {
    /// Neither joined nor used a device yet.
    Open,
    /// Used a device alone: joining comes too late.
    #[cfg_attr(not(feature = "distributed"), allow(dead_code, reason = "read when joining"))]
    Alone,
    #[cfg(feature = "distributed")]
    Joined(Joined),
}

/// A process that joined others.
#[cfg(feature = "distributed")]
#[derive(Clone)]
pub(crate) struct Joined {
    pub(crate) index: u32,
    pub(crate) count: u32,
    pub(crate) exchange: Arc<dyn Exchange>,
}

/// What plugins of several processes tell each other.
#[cfg(feature = "distributed")]
pub(crate) trait Exchange: Send + Sync + 'static {
    /// The value of a key, waiting for another process to put it.
    fn get(&self, key: &[u8], wait: Duration) -> Result<Vec<u8>, Error>;
    /// The value of a key, if there is one.
    fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;
}

static STANDING: Mutex<Standing> = Mutex::new(Standing::Open);

fn standing() -> MutexGuard<'static, Standing> {
    // Each change is one assignment.
    STANDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which of the program's processes this is, from 0. 0 if it is the only one, or has not joined the others with
/// `distributed::initialize`.
///
/// ```
/// use oxidax::distributed::{process_count, process_index};
/// assert!(process_index() < process_count());
/// ```
pub fn process_index() -> usize {
    match &*standing() {
        #[cfg(feature = "distributed")]
        Standing::Joined(joined) => joined.index as usize,
        _ => 0,
    }
}

/// How many processes run the program. 1 if this is the only one, or has not joined the others.
pub fn process_count() -> usize {
    match &*standing() {
        #[cfg(feature = "distributed")]
        Standing::Joined(joined) => joined.count as usize,
        _ => 1,
    }
}

/// Whether a device has been used already, so that it is too late to join others.
#[cfg(feature = "distributed")]
pub(crate) fn is_too_late() -> bool {
    matches!(*standing(), Standing::Alone)
}

/// Makes this process one of several; whether it was not too late.
#[cfg(feature = "distributed")]
pub(crate) fn join(joined: Joined) -> bool {
    let mut standing = standing();
    let in_time = matches!(*standing, Standing::Open);
    if in_time {
        *standing = Standing::Joined(joined);
    }
    in_time
}

/// Makes the client. Which process this is cannot change from here on.
pub(super) fn make_client(
    plugin: Plugin,
    platform: Platform,
    options: Vec<NamedValue>,
) -> Result<Client, Error> {
    #[cfg(not(feature = "distributed"))]
    let _ = platform;
    let failed = |error: oxidax_pjrt::Error| Error::Plugin(error.to_string());
    let mut standing = standing();
    match &*standing {
        #[cfg(feature = "distributed")]
        Standing::Joined(joined) => {
            let joined = joined.clone();
            // The plugin may wait for other processes, and this process ask meanwhile which it is.
            drop(standing);
            let options = [options, joined.options(platform)].concat();
            let store = Arc::new(Store(joined.exchange));
            let client = Client::with_store(plugin, &options, store).map_err(failed)?;
            let seen = i64::from(client.process_index());
            if seen != i64::from(joined.index) {
                // Some CPU plugins pass over what they are told, which does no harm there. TPUs number by themselves.
                tracing::warn!(
                    "the plugin takes this for process {seen}, and `distributed::initialize` for process {}: devices and \
                     shares of the data are numbered differently",
                    joined.index
                );
            }
            Ok(client)
        }
        _ => {
            *standing = Standing::Alone;
            drop(standing);
            Client::new(plugin, &options).map_err(failed)
        }
    }
}

#[cfg(feature = "distributed")]
impl Joined {
    /// How a platform is told which process this is. TPUs know: libtpu reads it from the machine, and uses the store
    /// alone.
    fn options(&self, platform: Platform) -> Vec<NamedValue> {
        let (index, count) = (i64::from(self.index), i64::from(self.count));
        match platform {
            Platform::Cpu => vec![NamedValue::new("process_id", index)],
            Platform::Cuda => {
                vec![NamedValue::new("node_id", index), NamedValue::new("num_nodes", count)]
            }
            Platform::Tpu => Vec::new(),
        }
    }
}

/// The exchange as plugins see it.
#[cfg(feature = "distributed")]
struct Store(Arc<dyn Exchange>);

#[cfg(feature = "distributed")]
impl KeyValueStore for Store {
    fn get(&self, key: &[u8], timeout: Duration) -> Result<Vec<u8>, (Code, String)> {
        self.0.get(key, timeout).map_err(status)
    }

    fn try_get(&self, key: &[u8]) -> Result<Vec<u8>, (Code, String)> {
        let shown = || format!("there is no key `{}`", String::from_utf8_lossy(key));
        self.0.try_get(key).map_err(status)?.ok_or_else(|| (Code::NotFound, shown()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), (Code, String)> {
        self.0.put(key, value).map_err(status)
    }
}

/// An error in PJRT's terms.
#[cfg(feature = "distributed")]
fn status(error: Error) -> (Code, String) {
    let code = match &error {
        Error::Distributed { kind, .. } => match kind {
            DistributedErrorKind::Timeout => Code::DeadlineExceeded,
            DistributedErrorKind::Lost => Code::Unavailable,
            DistributedErrorKind::NotFound => Code::NotFound,
            DistributedErrorKind::Refused => Code::InvalidArgument,
            DistributedErrorKind::Setup | DistributedErrorKind::Mismatch => {
                Code::FailedPrecondition
            }
        },
        _ => Code::Internal,
    };
    (code, error.to_string())
}

#[cfg(all(test, feature = "distributed"))]
mod tests {
    use super::*;

    /// Knows one key; another is refused in every way there is.
    struct Known;

    impl Exchange for Known {
        fn get(&self, key: &[u8], wait: Duration) -> Result<Vec<u8>, Error> {
            assert_eq!(wait, Duration::from_secs(3));
            match key {
                b"known" => Ok(b"value".to_vec()),
                _ => Err(failed(DistributedErrorKind::Timeout)),
            }
        }

        fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
            Ok((key == b"known").then(|| b"value".to_vec()))
        }

        fn put(&self, _: &[u8], _: &[u8]) -> Result<(), Error> {
            Err(failed(DistributedErrorKind::Lost))
        }
    }

    fn failed(kind: DistributedErrorKind) -> Error {
        let (doing, message) = ("put".to_owned(), "process 1 died".to_owned());
        Error::Distributed { kind, doing, message, processes: vec![1], help: None }
    }

    #[test]
    fn plugins_see_codes_of_their_own() {
        let store = Store(Arc::new(Known));
        let wait = Duration::from_secs(3);
        assert_eq!(store.get(b"known", wait).unwrap(), b"value");
        assert_eq!(store.get(b"other", wait).unwrap_err().0, Code::DeadlineExceeded);
        assert_eq!(store.try_get(b"known").unwrap(), b"value");
        assert_eq!(store.try_get(b"other").unwrap_err().0, Code::NotFound);
        let (code, message) = store.put(b"k", b"v").unwrap_err();
        assert_eq!(code, Code::Unavailable);
        assert!(message.contains("process 1 died"), "{message}");
    }

    #[test]
    fn platforms_are_told_in_their_own_words() {
        let joined = Joined { index: 2, count: 5, exchange: Arc::new(Known) };
        assert_eq!(joined.options(Platform::Cpu), [NamedValue::new("process_id", 2)]);
        let cuda = [NamedValue::new("node_id", 2), NamedValue::new("num_nodes", 5)];
        assert_eq!(joined.options(Platform::Cuda), cuda);
        assert!(joined.options(Platform::Tpu).is_empty());
    }
}
