//! The process's index in a program of several processes.
//!
//! It is fixed by `distributed::initialize`, or by the first use of a device.

use crate::core::Error;
use oxidax_pjrt::{Client, NamedValue, Plugin};
use oxidax_plugin::Platform;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "distributed")]
use {
    super::shared_programs::Ballot,
    crate::core::DistributedErrorKind,
    oxidax_pjrt::{Code, KeyValueStore, PjrtValue},
    std::{collections::BTreeMap, sync::Arc, time::Duration},
};

/// The process's membership in a program of several processes.
enum Membership {
    /// Not joined yet, and no device used.
    Undecided,
    /// A device was used before joining, so it is too late to join.
    #[cfg_attr(not(feature = "distributed"), allow(dead_code, reason = "read when joining"))]
    Single,
    #[cfg(feature = "distributed")]
    Joined(Joined),
}

/// The membership of a process that joined others.
#[cfg(feature = "distributed")]
#[derive(Clone)]
pub(crate) struct Joined {
    pub(crate) index: u32,
    pub(crate) count: u32,
    /// The GPUs of this process. By default all of the host.
    pub(crate) local_device_ids: Option<Vec<u32>>,
    /// The slice of this process's GPUs. By default the plugin derives it from the network.
    pub(crate) slice_index: Option<u32>,
    pub(crate) exchange: Arc<dyn Exchange>,
}

/// The key-value store through which the plugins of several processes communicate.
#[cfg(feature = "distributed")]
pub(crate) trait Exchange: Send + Sync + 'static {
    /// Returns the value of a key, waiting for another process to set it.
    fn get(&self, key: &[u8], wait: Duration) -> Result<Vec<u8>, Error>;
    /// Returns the value of a key, if it is set.
    fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;
    /// Waits for the processes `members`, and returns the bytes that each of them brought.
    fn meet(
        &self,
        topic: &str,
        members: &[u32],
        mine: Vec<u8>,
    ) -> Result<BTreeMap<u32, Vec<u8>>, Error>;
}

/// The votes of some processes on a program, through the coordinator.
#[cfg(feature = "distributed")]
pub(super) struct Voters {
    exchange: Arc<dyn Exchange>,
    members: Vec<u32>,
}

#[cfg(feature = "distributed")]
impl Ballot for Voters {
    fn exchange(&self, topic: &str, mine: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
        self.exchange.meet(topic, &self.members, mine)
    }
}

/// Returns the votes of these processes, or `None` if this process has not joined others.
#[cfg(feature = "distributed")]
pub(super) fn voters(members: &[u32]) -> Option<Voters> {
    match &*membership() {
        Membership::Joined(joined) => {
            Some(Voters { exchange: joined.exchange.clone(), members: members.to_vec() })
        }
        _ => None,
    }
}

static MEMBERSHIP: Mutex<Membership> = Mutex::new(Membership::Undecided);

fn membership() -> MutexGuard<'static, Membership> {
    // A panic cannot leave a partial change: each is one assignment.
    MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the index of this process, from 0. It is 0 for the only process, and before
/// `distributed::initialize`.
///
/// ```
/// use oxidax::distributed::{process_count, process_index};
/// assert!(process_index() < process_count());
/// ```
pub fn process_index() -> usize {
    match &*membership() {
        #[cfg(feature = "distributed")]
        Membership::Joined(joined) => joined.index as usize,
        _ => 0,
    }
}

/// Returns the number of processes. It is 1 for the only process, and before
/// `distributed::initialize`.
pub fn process_count() -> usize {
    match &*membership() {
        #[cfg(feature = "distributed")]
        Membership::Joined(joined) => joined.count as usize,
        _ => 1,
    }
}

/// Returns true if a device has been used already, so that it is too late to join others.
#[cfg(feature = "distributed")]
pub(crate) fn is_too_late() -> bool {
    matches!(*membership(), Membership::Single)
}

/// Makes this process one of several. Returns false if it is too late.
#[cfg(feature = "distributed")]
pub(crate) fn join(joined: Joined) -> bool {
    let mut membership = membership();
    let in_time = matches!(*membership, Membership::Undecided);
    if in_time {
        *membership = Membership::Joined(joined);
    }
    in_time
}

/// Creates a client. `platform` is the one that the plugin is known to drive. From then on the
/// process's index is fixed.
pub(super) fn create_client(
    plugin: Plugin,
    platform: Option<Platform>,
    options: Vec<NamedValue>,
) -> Result<Client, Error> {
    #[cfg(not(feature = "distributed"))]
    let _ = platform;
    let failed = |error: oxidax_pjrt::Error| Error::Plugin(error.to_string());
    let mut membership = membership();
    match &*membership {
        #[cfg(feature = "distributed")]
        Membership::Joined(joined) => {
            let joined = joined.clone();
            // The plugin may wait for other processes while this process reads its index.
            drop(membership);
            let own = platform.map(|platform| joined.options(platform)).unwrap_or_default();
            let options = with_missing(options, own);
            let store = Arc::new(Store(joined.exchange));
            let client = Client::with_store(plugin, &options, store).map_err(failed)?;
            let index = i64::from(client.process_index());
            if index != i64::from(joined.index) {
                // Some CPU plugins ignore the option, which is harmless. TPUs number processes
                // themselves.
                tracing::warn!(
                    "the plugin numbers this process {index}, and `distributed::initialize` {}: \
                     devices and data shards are numbered differently",
                    joined.index
                );
            }
            Ok(client)
        }
        _ => {
            *membership = Membership::Single;
            drop(membership);
            Client::new(plugin, &options).map_err(failed)
        }
    }
}

#[cfg(feature = "distributed")]
impl Joined {
    /// Returns the client options that pass the process index to the plugin. libtpu reads the index
    /// from the machine, and only uses the store.
    fn options(&self, platform: Platform) -> Vec<NamedValue> {
        let (index, count) = (i64::from(self.index), i64::from(self.count));
        match platform {
            Platform::Cpu => vec![NamedValue::new("process_id", index)],
            Platform::Cuda => {
                let own = [NamedValue::new("node_id", index), NamedValue::new("num_nodes", count)];
                let devices = self.local_device_ids.as_ref().map(|ids| {
                    let ids = ids.iter().copied().map(i64::from).collect();
                    NamedValue::new("visible_devices", PjrtValue::Int64List(ids))
                });
                let slice = self.slice_index.map(i64::from);
                let slice = slice.map(|slice| NamedValue::new("partition_index", slice));
                own.into_iter().chain(devices).chain(slice).collect()
            }
            Platform::Tpu => Vec::new(),
        }
    }
}

/// Adds options whose names are missing.
#[cfg(feature = "distributed")]
fn with_missing(mut options: Vec<NamedValue>, more: Vec<NamedValue>) -> Vec<NamedValue> {
    for option in more {
        if options.iter().all(|known| known.name != option.name) {
            options.push(option);
        }
    }
    options
}

/// Adapter of [`Exchange`] to PJRT's key-value store.
#[cfg(feature = "distributed")]
struct Store(Arc<dyn Exchange>);

#[cfg(feature = "distributed")]
impl KeyValueStore for Store {
    fn get(&self, key: &[u8], timeout: Duration) -> Result<Vec<u8>, (Code, String)> {
        self.0.get(key, timeout).map_err(status)
    }

    fn try_get(&self, key: &[u8]) -> Result<Vec<u8>, (Code, String)> {
        let message = || format!("there is no key `{}`", String::from_utf8_lossy(key));
        self.0.try_get(key).map_err(status)?.ok_or_else(|| (Code::NotFound, message()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), (Code, String)> {
        self.0.put(key, value).map_err(status)
    }
}

/// Converts an error to PJRT's code and message.
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

    /// A store with one key that fails for every other.
    struct OneKey;

    impl Exchange for OneKey {
        fn get(&self, key: &[u8], wait: Duration) -> Result<Vec<u8>, Error> {
            assert_eq!(wait, Duration::from_secs(3));
            match key {
                b"key" => Ok(b"value".to_vec()),
                _ => Err(failed(DistributedErrorKind::Timeout)),
            }
        }

        fn try_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
            Ok((key == b"key").then(|| b"value".to_vec()))
        }

        fn put(&self, _: &[u8], _: &[u8]) -> Result<(), Error> {
            Err(failed(DistributedErrorKind::Lost))
        }

        fn meet(&self, _: &str, _: &[u32], _: Vec<u8>) -> Result<BTreeMap<u32, Vec<u8>>, Error> {
            Err(failed(DistributedErrorKind::Timeout))
        }
    }

    fn failed(kind: DistributedErrorKind) -> Error {
        let (doing, message) = ("put".to_owned(), "process 1 died".to_owned());
        Error::Distributed { kind, doing, message, processes: vec![1], help: None }
    }

    #[test]
    fn errors_become_pjrt_codes() {
        let store = Store(Arc::new(OneKey));
        let wait = Duration::from_secs(3);
        assert_eq!(store.get(b"key", wait).unwrap(), b"value");
        assert_eq!(store.get(b"other", wait).unwrap_err().0, Code::DeadlineExceeded);
        assert_eq!(store.try_get(b"key").unwrap(), b"value");
        assert_eq!(store.try_get(b"other").unwrap_err().0, Code::NotFound);
        let (code, message) = store.put(b"k", b"v").unwrap_err();
        assert_eq!(code, Code::Unavailable);
        assert!(message.contains("process 1 died"), "{message}");
    }

    #[test]
    fn options_depend_on_the_platform() {
        let local_device_ids = Some(vec![3]);
        let exchange = Arc::new(OneKey);
        let joined = Joined { index: 2, count: 5, local_device_ids, slice_index: None, exchange };
        assert_eq!(joined.options(Platform::Cpu), [NamedValue::new("process_id", 2)]);
        let devices =
            |ids: &[i64]| NamedValue::new("visible_devices", PjrtValue::Int64List(ids.to_vec()));
        let nodes = [NamedValue::new("node_id", 2), NamedValue::new("num_nodes", 5)];
        let cuda = [&nodes[..], &[devices(&[3])]].concat();
        assert_eq!(joined.options(Platform::Cuda), cuda);
        let all = Joined { local_device_ids: None, ..joined.clone() };
        assert_eq!(all.options(Platform::Cuda), nodes);
        let in_slice = Joined { slice_index: Some(4), ..all };
        let slice = NamedValue::new("partition_index", 4);
        assert_eq!(in_slice.options(Platform::Cuda), [&nodes[..], &[slice]].concat());
        // Devices that the program or the environment has chosen stay.
        let chosen = with_missing(vec![devices(&[0, 1])], cuda);
        assert_eq!(chosen, [&[devices(&[0, 1])], &nodes[..]].concat());
        assert!(joined.options(Platform::Tpu).is_empty());
    }
}
