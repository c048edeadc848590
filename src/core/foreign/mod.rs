//! Foreign functions: handlers that compiled programs call with their buffers, and the attributes
//! of such calls.

mod attribute;
mod attribute_text;
mod attributes;
mod buffer_function;
mod frame;
pub(crate) mod handlers;

pub use attribute::{FfiAttribute, FfiScalar, FromFfiAttribute};
pub(crate) use attribute_text::{TAG_BYTES, TAG_DTYPE, TAG_SCALAR};
pub use attributes::FfiAttributes;
pub use buffer_function::BufferFunction;
pub(crate) use buffer_function::find_buffer_function;
pub use frame::{FfiFrame, FfiInput, FfiOutput};
pub use handlers::FfiHandler;
