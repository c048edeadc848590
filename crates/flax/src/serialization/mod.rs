//! Trees as bytes in the format of `flax.serialization`, and nested dictionaries of arrays.
//!
//! [`to_bytes`] and [`from_bytes`] write and read a tree in MessagePack, as Flax does. Names are
//! those of fields and keys. The entries of lists have the names "0", "1", ….
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax_flax::serialization::{from_bytes, to_bytes};
//! let model = nn::Linear::new(random::key(0), 3, 2);
//! let bytes = to_bytes(&model)?;
//! let template = nn::Linear::new(random::key(1), 3, 2);
//! let restored = from_bytes(&template, &bytes)?;
//! assert_eq!(restored.weight.to_vec::<f32>()?, model.weight.to_vec::<f32>()?);
//! # Ok::<(), oxidax::Error>(())
//! ```

mod decode;
mod encode;
mod errors;
mod state_dict;
mod traverse_util;

pub use decode::msgpack_restore;
pub use encode::msgpack_serialize;
pub use state_dict::{StateDict, from_bytes, from_state_dict, to_bytes, to_state_dict};
pub use traverse_util::{ModelParamTraversal, flatten_dict, unflatten_dict};
