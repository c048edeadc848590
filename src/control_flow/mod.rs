//! Primitives that hold programs, and the functions that bind them.

mod call;
mod derived;
mod memo;
mod partial;

pub use call::Call;

use crate::core::{Entry, Error, Program};
use crate::passes;
use crate::primitives::PRIMITIVES;

/// Every primitive that holds programs, sorted by name.
pub const HOLDERS: &[Entry] =
    &[Entry { name: "call", make: call::make, exemplars: call::exemplars }];

/// Reads a program as it prints.
///
/// # Errors
/// [`Error::Op`] with line and column where the text stops making sense.
///
/// ```
/// use oxidax::prelude::*;
/// let text = "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n  in (b) }";
/// assert_eq!(parse_program(text)?.to_string(), text);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn parse_program(text: &str) -> Result<Program, Error> {
    passes::parse(text, &[PRIMITIVES, HOLDERS])
}
