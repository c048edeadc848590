//! What processes and coordinator say to each other.
//!
//! In the language of protocol buffers (proto3), from which no code is generated:
//!
//! ```text
//! service Rendezvous {
//!   rpc Attend(stream Up) returns (stream Down);     // one per process, open until it ends
//!   rpc Meet(stream Arrival) returns (stream Part);  // all processes wait for each other, and may swap bytes
//!   rpc Put(stream Piece) returns (stream Nothing);
//!   rpc Get(Wanted) returns (stream Part);
//!   rpc Delete(Wanted) returns (stream Keys);
//!   rpc List(Wanted) returns (stream Keys);
//! }
//! ```
//!
//! Fields are numbered in the order in which the structs list them. Byte strings longer than [`CHUNK`] go in parts.

use prost::bytes::Bytes;
use prost::{Message, Oneof};

/// Changes whenever these messages do.
pub(in crate::distributed) const PROTOCOL: u32 = 1;

/// Byte strings go in parts of this many bytes.
pub(in crate::distributed) const CHUNK: usize = 1 << 20;

/// The longest key. XLA's for a clique of GPUs lists every device.
pub(in crate::distributed) const MAX_KEY: usize = 64 << 10;

/// The longest message that either side takes: a chunk, a key, and room for the numbers.
pub(in crate::distributed) const MAX_MESSAGE: usize = CHUNK + MAX_KEY + (64 << 10);

pub(super) const ATTEND: &str = "/oxidax.Rendezvous/Attend";
pub(super) const MEET: &str = "/oxidax.Rendezvous/Meet";
pub(super) const PUT: &str = "/oxidax.Rendezvous/Put";
pub(super) const GET: &str = "/oxidax.Rendezvous/Get";
pub(super) const DELETE: &str = "/oxidax.Rendezvous/Delete";
pub(super) const LIST: &str = "/oxidax.Rendezvous/List";

/// Something said whose saying is all there is to it.
#[derive(Clone, Copy, PartialEq, Message)]
pub(in crate::distributed) struct Nothing {}

/// From a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Up {
    #[prost(oneof = "Say", tags = "1, 2, 3, 4")]
    pub(super) say: Option<Say>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Say {
    /// First of all.
    #[prost(message, tag = "1")]
    Join(Join),
    /// I am alive.
    #[prost(message, tag = "2")]
    Beat(Nothing),
    /// I was told that somebody is lost.
    #[prost(message, tag = "3")]
    Heard(Nothing),
    /// I am done.
    #[prost(message, tag = "4")]
    Leave(Nothing),
}

impl From<Say> for Up {
    fn from(say: Say) -> Up {
        Up { say: Some(say) }
    }
}

/// Who wants to join.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Join {
    #[prost(uint32, tag = "1")]
    pub(super) protocol: u32,
    #[prost(uint32, tag = "2")]
    pub(super) index: u32,
    /// How many processes there are, as far as this one knows.
    #[prost(uint32, tag = "3")]
    pub(super) count: u32,
    /// Which run of the program this is; empty if the environment does not number them.
    #[prost(string, tag = "4")]
    pub(super) run: String,
    /// Another number for every start of a process.
    #[prost(fixed64, tag = "5")]
    pub(super) incarnation: u64,
    #[prost(string, tag = "6")]
    pub(super) host: String,
    #[prost(uint32, tag = "7")]
    pub(super) pid: u32,
    /// How long it waits for the others.
    #[prost(uint64, tag = "8")]
    pub(super) wait_ms: u64,
}

/// To a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Down {
    #[prost(oneof = "Tell", tags = "1, 2, 3, 4")]
    pub(super) tell: Option<Tell>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Tell {
    /// You have joined.
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    /// All have.
    #[prost(message, tag = "2")]
    Ready(Roster),
    /// The coordinator is alive.
    #[prost(message, tag = "3")]
    Beat(Nothing),
    /// It cannot go on.
    #[prost(message, tag = "4")]
    Lost(super::Failure),
}

impl From<Tell> for Down {
    fn from(tell: Tell) -> Down {
        Down { tell: Some(tell) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Welcome {
    /// After how long a silence the other side is taken for dead.
    #[prost(uint64, tag = "1")]
    pub(super) heartbeat_ms: u64,
    /// The process that is the coordinator, by name.
    #[prost(string, tag = "2")]
    pub(super) coordinator: String,
}

/// The names of all processes, by index.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Roster {
    #[prost(string, repeated, tag = "1")]
    pub(super) names: Vec<String>,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Caller {
    #[prost(uint32, tag = "1")]
    pub(super) index: u32,
    #[prost(fixed64, tag = "2")]
    pub(super) incarnation: u64,
}

/// A process comes to a meeting. The first message has all fields, the rest only `part`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Arrival {
    #[prost(message, optional, tag = "1")]
    pub(super) caller: Option<Caller>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    /// Who is to come; nobody means everybody.
    #[prost(uint32, repeated, tag = "3")]
    pub(super) members: Vec<u32>,
    #[prost(uint64, tag = "4")]
    pub(super) wait_ms: u64,
    /// How many bytes it brings.
    #[prost(uint64, tag = "5")]
    pub(super) total: u64,
    #[prost(bytes = "bytes", tag = "6")]
    pub(super) part: Bytes,
}

/// A value for a key. The first message has all fields, the rest only `part`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Piece {
    #[prost(message, optional, tag = "1")]
    pub(super) caller: Option<Caller>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(super) total: u64,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) part: Bytes,
}

/// A key, or how keys begin.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Wanted {
    #[prost(message, optional, tag = "1")]
    pub(super) caller: Option<Caller>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    /// How long to wait for a value; 0 asks whether there is one.
    #[prost(uint64, tag = "3")]
    pub(super) wait_ms: u64,
}

/// A part of a value: of the key's, or of what a process brought.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Part {
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

/// A byte string in parts of [`CHUNK`] bytes; one empty part if there is none.
pub(super) fn parts(whole: Bytes) -> impl Iterator<Item = Bytes> + Send + 'static {
    let count = whole.len().div_ceil(CHUNK).max(1);
    (0..count).map(move |at| whole.slice(at * CHUNK..((at + 1) * CHUNK).min(whole.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_put_together_are_the_whole() {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let whole = Bytes::from((0..len).map(|at| at as u8).collect::<Vec<_>>());
            let cut: Vec<Bytes> = parts(whole.clone()).collect();
            assert_eq!(cut.len(), len.div_ceil(CHUNK).max(1), "{len}");
            assert!(cut.iter().all(|part| part.len() <= CHUNK));
            assert_eq!(cut.concat(), whole);
        }
    }

    #[test]
    fn the_largest_message_is_taken() {
        let piece = Piece {
            caller: Some(Caller { index: u32::MAX, incarnation: u64::MAX }),
            key: vec![0; MAX_KEY],
            total: u64::MAX,
            part: vec![0; CHUNK].into(),
        };
        assert!(piece.encoded_len() <= MAX_MESSAGE);
    }
}
