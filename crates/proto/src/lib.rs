//! Protocol buffer messages declared as Rust structs.
//!
//! PJRT's compile options, XLA's programs, TensorFlow's examples and TensorBoard's events are
//! protocol buffers. Only a few of their fields are needed, so the messages are declared by hand
//! with [`messages!`], and neither `protoc` nor a derive macro is built.
//!
//! Encoding follows proto3: fields with default values are omitted and repeated numbers are packed.
//! Decoding skips unknown fields, accepts packed and unpacked numbers, and merges a message that
//! appears twice. Source: <https://protobuf.dev/programming-guides/encoding/>.
//!
//! ```
//! use oxidax_proto::{Message, messages};
//!
//! messages! {
//!     /// A point with a name.
//!     struct Point {
//!         name: String = 1,
//!         coordinates: Vec<i64> = 2,
//!     }
//! }
//!
//! let point = Point { name: "a".into(), coordinates: vec![1, 300] };
//! let bytes = point.encode_to_vec();
//! assert_eq!(bytes, [0x0a, 1, b'a', 0x12, 3, 1, 0xac, 0x02]);
//! assert_eq!(Point::decode(&bytes)?, point);
//! # Ok::<(), oxidax_proto::DecodeError>(())
//! ```

#![forbid(unsafe_code)]

mod field;
mod message;
mod wire;

pub use field::{Field, Oneof};
pub use message::Message;
pub use wire::{DecodeError, RawField, WireValue, put_bytes, raw_fields};
