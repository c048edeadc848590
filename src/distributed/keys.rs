//! Bytes under keys, which the coordinator keeps for all processes.

use super::rendezvous::MAX_KEY;
use super::session::session;
use crate::core::Error;
use std::time::Duration;

/// Keys of the user's begin so, apart from those of plugins.
const USER: &str = "user/";

fn place(key: &str) -> Vec<u8> {
    [USER, key].concat().into_bytes()
}

/// Keeps bytes under a key for all processes, in the place of older ones.
///
/// A key has at most 64 KiB, and all values together at most [`Config::store_limit`](super::Config::store_limit).
///
/// # Errors
/// `Distributed`: `Setup` if this process has not joined others; `Refused` if key or value are too long; `Lost` if a
/// process died.
///
/// ```
/// # use oxidax::distributed::{self, Config};
/// # let one = Config::new().coordinator_address("127.0.0.1:0").num_processes(1).process_id(0);
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

/// The bytes under a key, waiting at most [`Config::timeout`](super::Config::timeout) until a process puts them there.
///
/// # Errors
/// `Distributed`: `Timeout` if nobody does; else as [`put`].
#[doc(alias = "blocking_key_value_get")]
pub fn get(key: &str) -> Result<Vec<u8>, Error> {
    let session = session(&format!("get `{}`", shown(key)))?;
    get_within(key, session.timeout)
}

/// The bytes under a key, waiting at most so long until a process puts them there.
///
/// # Errors
/// As [`get`].
pub fn get_within(key: &str, timeout: Duration) -> Result<Vec<u8>, Error> {
    let doing = format!("get `{}`", shown(key));
    // Zero asks whether there is a value, which is another question.
    let wait = timeout.max(Duration::from_millis(1));
    session(&doing)?.link.get(&place(key), wait).map_err(|failure| failure.error(doing))
}

/// The bytes under a key, if there are any now.
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

/// Removes a key; whether there was a value.
///
/// # Errors
/// As [`put`].
#[doc(alias = "key_value_delete")]
pub fn delete(key: &str) -> Result<bool, Error> {
    let doing = format!("delete `{}`", shown(key));
    let session = session(&doing)?;
    session.link.delete(&place(key), session.timeout).map_err(|failure| failure.error(doing))
}

/// The keys that begin so, in the order of their bytes.
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

/// A key in an error's first line, which is to stay a line.
fn shown(key: &str) -> String {
    const LONGEST: usize = 60;
    match key.char_indices().nth(LONGEST) {
        None => key.to_owned(),
        Some((cut, _)) => format!("{}… ({} bytes, at most {MAX_KEY})", &key[..cut], key.len()),
    }
}
