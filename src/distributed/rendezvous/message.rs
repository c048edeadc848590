//! Messages between processes and the coordinator.
//!
//! Protocol buffers (proto3), written by hand as Rust structs:
//!
//! ```text
//! service Rendezvous {
//!   // One per process, open until the process ends.
//!   rpc Attend(stream ProcessMessage) returns (stream CoordinatorMessage);
//!   // Waits for all participants and exchanges bytes.
//!   rpc Meet(stream MeetRequest) returns (stream Chunk);
//!   rpc Put(stream PutRequest) returns (stream Empty);
//!   rpc Get(KeyRequest) returns (stream Chunk);
//!   rpc Delete(KeyRequest) returns (stream Keys);
//!   rpc List(KeyRequest) returns (stream Keys);
//! }
//! ```
//!
//! Fields are numbered in the order of the structs. Byte strings longer than [`CHUNK`] are split.

use prost::bytes::Bytes;
use prost::{Message, Oneof};

/// Version of these messages.
pub(in crate::distributed) const PROTOCOL: u32 = 1;

/// Size of a chunk in bytes.
pub(in crate::distributed) const CHUNK: usize = 1 << 20;

/// Longest key. XLA's key for a clique of GPUs lists every device.
pub(in crate::distributed) const MAX_KEY: usize = 64 << 10;

/// Longest accepted message: a chunk, a key, and some numbers.
pub(in crate::distributed) const MAX_MESSAGE: usize = CHUNK + MAX_KEY + (64 << 10);

pub(super) const ATTEND: &str = "/oxidax.Rendezvous/Attend";
pub(super) const MEET: &str = "/oxidax.Rendezvous/Meet";
pub(super) const PUT: &str = "/oxidax.Rendezvous/Put";
pub(super) const GET: &str = "/oxidax.Rendezvous/Get";
pub(super) const DELETE: &str = "/oxidax.Rendezvous/Delete";
pub(super) const LIST: &str = "/oxidax.Rendezvous/List";

/// A message without fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub(in crate::distributed) struct Empty {}

/// A message from a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessMessage {
    #[prost(oneof = "ProcessEvent", tags = "1, 2, 3, 4")]
    pub(super) event: Option<ProcessEvent>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ProcessEvent {
    /// The first message.
    #[prost(message, tag = "1")]
    Join(Join),
    /// A heartbeat.
    #[prost(message, tag = "2")]
    Heartbeat(Empty),
    /// The process was notified of a loss.
    #[prost(message, tag = "3")]
    LossReceived(Empty),
    /// The process leaves.
    #[prost(message, tag = "4")]
    Leave(Empty),
}

impl From<ProcessEvent> for ProcessMessage {
    fn from(event: ProcessEvent) -> ProcessMessage {
        ProcessMessage { event: Some(event) }
    }
}

/// A request to join.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Join {
    #[prost(uint32, tag = "1")]
    pub(super) protocol: u32,
    #[prost(uint32, tag = "2")]
    pub(super) index: u32,
    /// The number of processes that this one was configured with.
    #[prost(uint32, tag = "3")]
    pub(super) count: u32,
    /// Identifies the run of the program. Empty if the environment does not define it.
    #[prost(string, tag = "4")]
    pub(super) run: String,
    /// A number that differs at every start of a process.
    #[prost(fixed64, tag = "5")]
    pub(super) incarnation: u64,
    #[prost(string, tag = "6")]
    pub(super) host: String,
    #[prost(uint32, tag = "7")]
    pub(super) pid: u32,
    /// The time-out for the other processes to join.
    #[prost(uint64, tag = "8")]
    pub(super) wait_ms: u64,
}

/// A message to a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CoordinatorMessage {
    #[prost(oneof = "CoordinatorEvent", tags = "1, 2, 3, 4")]
    pub(super) event: Option<CoordinatorEvent>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum CoordinatorEvent {
    /// This process has joined.
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    /// All processes have joined.
    #[prost(message, tag = "2")]
    Ready(Roster),
    /// A heartbeat of the coordinator.
    #[prost(message, tag = "3")]
    Heartbeat(Empty),
    /// The program cannot continue.
    #[prost(message, tag = "4")]
    Lost(super::Failure),
}

impl From<CoordinatorEvent> for CoordinatorMessage {
    fn from(event: CoordinatorEvent) -> CoordinatorMessage {
        CoordinatorMessage { event: Some(event) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Welcome {
    /// The silence after which the other side is considered dead.
    #[prost(uint64, tag = "1")]
    pub(super) heartbeat_ms: u64,
    /// The name of the coordinator's process.
    #[prost(string, tag = "2")]
    pub(super) coordinator: String,
}

/// The names of all processes, by number.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Roster {
    #[prost(string, repeated, tag = "1")]
    pub(super) names: Vec<String>,
}

/// The sender of a request.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Caller {
    #[prost(uint32, tag = "1")]
    pub(super) index: u32,
    #[prost(fixed64, tag = "2")]
    pub(super) incarnation: u64,
}

/// A contribution to a meeting. The first message has all fields, the others only `part`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MeetRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) caller: Option<Caller>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    /// The expected processes. Empty means all.
    #[prost(uint32, repeated, tag = "3")]
    pub(super) members: Vec<u32>,
    #[prost(uint64, tag = "4")]
    pub(super) wait_ms: u64,
    /// The size of the contribution in bytes.
    #[prost(uint64, tag = "5")]
    pub(super) total: u64,
    #[prost(bytes = "bytes", tag = "6")]
    pub(super) part: Bytes,
}

/// A value for a key. The first message has all fields, the others only `part`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) caller: Option<Caller>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(super) total: u64,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) part: Bytes,
}

/// A key or a prefix of keys.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) caller: Option<Caller>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    /// Time to wait for a value, in milliseconds. 0 does not wait.
    #[prost(uint64, tag = "3")]
    pub(super) wait_ms: u64,
}

/// A chunk of a value or of a contribution.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Chunk {
    #[prost(uint32, tag = "1")]
    pub(super) index: u32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) part: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Keys {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) keys: Vec<Vec<u8>>,
}

/// Splits a byte string into chunks of [`CHUNK`] bytes. An empty string becomes one empty chunk.
pub(super) fn parts(whole: Bytes) -> impl Iterator<Item = Bytes> + Send + 'static {
    let count = whole.len().div_ceil(CHUNK).max(1);
    (0..count).map(move |at| whole.slice(at * CHUNK..((at + 1) * CHUNK).min(whole.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_concatenate_to_the_whole() {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let whole = Bytes::from((0..len).map(|at| at as u8).collect::<Vec<_>>());
            let cut: Vec<Bytes> = parts(whole.clone()).collect();
            assert_eq!(cut.len(), len.div_ceil(CHUNK).max(1), "{len}");
            assert!(cut.iter().all(|part| part.len() <= CHUNK));
            assert_eq!(cut.concat(), whole);
        }
    }

    #[test]
    fn largest_message_is_accepted() {
        let request = PutRequest {
            caller: Some(Caller { index: u32::MAX, incarnation: u64::MAX }),
            key: vec![0; MAX_KEY],
            total: u64::MAX,
            part: vec![0; CHUNK].into(),
        };
        assert!(request.encoded_len() <= MAX_MESSAGE);
    }
}
