//! Exchange of bytes between all processes, from any thread.

use super::rendezvous::Failure;
use super::session::joined_session;
use crate::core::Error;
use crate::runtime::process_count;

/// Sends bytes to all processes, and returns those of all processes, in the order of the processes.
///
/// Processes that pass the same name exchange. Unlike
/// [`process_allgather`](super::process_allgather), the order of calls does not matter, so threads
/// can exchange while the program does something else. A name can be used
/// again after all processes have received. With a single process, returns its own bytes.
///
/// # Errors
/// `Distributed`: `Timeout` with the missing processes after
/// [`ClusterConfig::timeout`](super::ClusterConfig::timeout), `Lost` if a process died, `Refused`
/// if another thread of this process waits under the same name, or if the bytes exceed
/// [`ClusterConfig::store_limit`](super::ClusterConfig::store_limit).
///
/// ```
/// use oxidax::distributed::{exchange_bytes, process_count};
/// let all = exchange_bytes("shard sizes", &17u64.to_le_bytes())?;
/// assert_eq!(all.len(), process_count());
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn exchange_bytes(name: &str, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let Some(session) = joined_session()? else { return Ok(vec![bytes.to_vec()]) };
    let (doing, place) = (format!("exchange_bytes `{name}`"), format!("bytes/{name}"));
    let all = session.meet(&doing, &place, &[], session.timeout, bytes.to_vec())?;
    // The reply of a process that sent nothing may have no chunk.
    let count = process_count();
    match all.keys().find(|index| **index as usize >= count) {
        Some(index) => {
            let message = format!("received bytes of process {index}; there are {count}");
            Err(Failure::mismatch(message).error(doing))
        }
        None => Ok((0..count as u32)
            .map(|index| all.get(&index).cloned().unwrap_or_default())
            .collect()),
    }
}
