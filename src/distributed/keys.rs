//! A key-value store on the coordinator, shared by all processes.

use super::rendezvous::MAX_KEY;
use super::session::session;
use crate::core::Error;
use std::time::Duration;

/// Prefix of user-defined keys, which separates them from those of plugins.
const USER: &str = "user/";

fn place(key: &str) -> Vec<u8> {
    [USER, key].concat().into_bytes()
}

/// Stores bytes under a key for all processes, replacing an older value.
///
/// Keys that begin with `oxidax/` are those of the library, such as the reports of a
/// [`Watchdog`](crate::train::Watchdog). A key can have 64 KiB, and all values together
/// [`ClusterConfig::store_limit`](super::ClusterConfig::store_limit).
///
/// # Errors
/// `Distributed`: `Setup` if this process has not joined, `Refused` if the key or value is too
/// long, `Lost` if a process died.
///
/// ```
/// # use oxidax::distributed::{self, ClusterConfig};
/// # let one = ClusterConfig::new().coordinator_address("127.0.0.1:0");
/// # let one = one.num_processes(1).process_id(0);
/// # distributed::initialize(one)?;
/// distributed::put("best/learning rate", b"0.003")?;
/// assert_eq!(distributed::get("best/learning rate")?, b"0.003");
/// assert_eq!(distributed::list("best/")?, ["best/learning rate"]);
/// assert!(distributed::delete("best/learning rate")?);
/// assert_eq!(distributed::try_get("best/learning rate")?, None);
/// # distributed::shutdown()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "key_value_set")]
pub fn put(key: &str, value: &[u8]) -> Result<(), Error> {
    let doing = format!("put `{}`", shown(key));
    let session = session(&doing)?;
    let put = session.link.put(&place(key), value.to_vec().into(), session.timeout);
    put.map_err(|failure| failure.error(doing))
}

/// Returns the bytes under a key. Waits up to
/// [`ClusterConfig::timeout`](super::ClusterConfig::timeout) for a process to store them.
///
/// # Errors
/// `Distributed`: `Timeout` if no process stores the key in time. Otherwise as [`put`].
#[doc(alias = "blocking_key_value_get")]
pub fn get(key: &str) -> Result<Vec<u8>, Error> {
    get_with(key, GetOptions::default())
}

/// Options of [`get_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions {
    /// The time-out. By default [`ClusterConfig::timeout`](super::ClusterConfig::timeout).
    pub timeout: Option<Duration>,
}

/// Returns the bytes under a key, with options such as a time-out.
///
/// # Errors
/// As [`get`].
pub fn get_with(key: &str, options: GetOptions) -> Result<Vec<u8>, Error> {
    let doing = format!("get `{}`", shown(key));
    let session = session(&doing)?;
    // Zero would be a request that does not wait.
    let wait = options.timeout.unwrap_or(session.timeout).max(Duration::from_millis(1));
    session.link.get(&place(key), wait).map_err(|failure| failure.error(doing))
}

/// Returns the bytes under a key, or `None` if there are none now.
///
/// # Errors
/// As [`put`].
#[doc(alias = "key_value_try_get")]
pub fn try_get(key: &str) -> Result<Option<Vec<u8>>, Error> {
    let doing = format!("try_get `{}`", shown(key));
    match session(&doing)?.link.get(&place(key), Duration::ZERO) {
        Ok(value) => Ok(Some(value)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure.error(doing)),
    }
}

/// Removes a key. Returns true if it had a value.
///
/// # Errors
/// As [`put`].
#[doc(alias = "key_value_delete")]
pub fn delete(key: &str) -> Result<bool, Error> {
    let doing = format!("delete `{}`", shown(key));
    let session = session(&doing)?;
    session.link.delete(&place(key), session.timeout).map_err(|failure| failure.error(doing))
}

/// Returns the keys with a prefix, sorted by their bytes.
///
/// # Errors
/// As [`put`].
#[doc(alias = "key_value_dir_get")]
pub fn list(prefix: &str) -> Result<Vec<String>, Error> {
    let doing = format!("list `{}`", shown(prefix));
    let session = session(&doing)?;
    let keys = session.link.list(&place(prefix), session.timeout);
    let keys = keys.map_err(|failure| failure.error(doing))?;
    let own =
        |key: &Vec<u8>| key.get(USER.len()..).map(|key| String::from_utf8_lossy(key).into_owned());
    Ok(keys.iter().filter_map(own).collect())
}

/// Formats a key for the first line of an error.
fn shown(key: &str) -> String {
    const LONGEST: usize = 60;
    match key.char_indices().nth(LONGEST) {
        None => key.to_owned(),
        Some((cut, _)) => format!("{}… ({} bytes, at most {MAX_KEY})", &key[..cut], key.len()),
    }
}
