//! Primitives that hold programs, and the functions that bind them.

mod call;
mod custom;
mod derived;
mod memo;
mod partial;
mod policy;
mod remat;

pub use call::Call;
pub use custom::{CustomJvp, CustomTangent, CustomVjp, custom_jvp, custom_vjp};
pub use policy::Policy;
pub use remat::{Remat, remat, remat_with};

use crate::core::{Entry, Error, Program};
use crate::passes;
use crate::primitives::PRIMITIVES;

/// Every primitive that holds programs, sorted by name.
pub const HOLDERS: &[Entry] = &[
    Entry { name: "call", make: call::make, exemplars: call::exemplars },
    Entry { name: "custom_jvp", make: custom::jvp::make, exemplars: custom::jvp::exemplars },
    Entry { name: "custom_vjp", make: custom::vjp::make, exemplars: custom::vjp::exemplars },
    Entry { name: "remat", make: remat::make, exemplars: remat::exemplars },
];

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
