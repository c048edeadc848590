//! The bytes of a compiled function: what it takes and gives, what it captured, and its machine code.
//!
//! ```text
//! magic     16 bytes: `oxidax program`, the version of this form as two digits
//! digest    32 bytes: SHA-256 over all that follows
//! length     8 bytes, little-endian: of the header
//! header    JSON
//! captures  the elements of each captured array, one after the other
//! code      the plugin's bytes
//! ```

use crate::control_flow::parse_program;
use crate::core::{Array, Aval, DType, Error, Program};
use crate::runtime::{Frame, Shipped, digest};
use crate::tree::{Signature, TreeDef, Walk, leaves_of};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 14] = b"oxidax program";
const VERSION: &[u8; 2] = b"01";
/// Where the digest begins, where what it is of, and where the header.
const DIGEST: usize = MAGIC.len() + VERSION.len();
const LENGTH: usize = DIGEST + 32;
const HEADER: usize = LENGTH + 8;

/// A tree in words: its structure with static values, and its leaves' types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Described {
    nodes: Vec<String>,
    leaves: Vec<String>,
}

/// What a function takes and gives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) arguments: Described,
    pub(super) results: Described,
}

/// The type of a captured array.
#[derive(Debug, Serialize, Deserialize)]
struct Captured {
    dtype: String,
    shape: Vec<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    head: Head,
    /// As text, where it can be read back: to look for the operation that made a NaN.
    program: Option<String>,
    captures: Vec<Captured>,
    frame: Frame,
}

/// A function read from bytes.
pub(super) struct Artifact {
    pub(super) head: Head,
    pub(super) program: Option<Program>,
    pub(super) captures: Vec<Array>,
    pub(super) shipped: Shipped,
}

impl Described {
    pub(super) fn of(tree: &impl Walk) -> Described {
        let leaves = leaves_of(tree).iter().map(|leaf| leaf.aval().to_string()).collect();
        Described { nodes: TreeDef::of(tree).described(), leaves }
    }

    pub(super) fn of_signature(signature: &Signature) -> Described {
        let leaves = signature.avals().map(ToString::to_string).collect();
        Described { nodes: signature.described(), leaves }
    }

    /// Of a tree whose leaves have these types.
    pub(super) fn of_template(tree: &impl Walk, avals: &[Aval]) -> Described {
        let leaves = avals.iter().map(ToString::to_string).collect();
        Described { nodes: TreeDef::of(tree).described(), leaves }
    }

    /// The first difference to another tree.
    pub(super) fn difference(&self, other: &Described) -> Option<String> {
        let first = |a: &[String], b: &[String]| {
            (0..a.len().max(b.len())).find(|&at| a.get(at) != b.get(at)).map(|at| {
                let say = |of: &[String]| of.get(at).cloned().unwrap_or_else(|| "nothing".into());
                (at, say(a), say(b))
            })
        };
        if let Some((_, ours, theirs)) = first(&self.nodes, &other.nodes) {
            return Some(format!("{ours}, now {theirs}"));
        }
        let places = self.nodes.iter().filter_map(|node| node.strip_suffix(": an array"));
        let places: Vec<&str> = places.collect();
        first(&self.leaves, &other.leaves).map(|(at, ours, theirs)| {
            format!("{}: {ours}, now {theirs}", places.get(at).copied().unwrap_or("$"))
        })
    }
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::Plugin(format!("these bytes are no program that was written down here: {what}"))
}

impl Artifact {
    /// The bytes.
    ///
    /// # Errors
    /// Those of reading captured arrays.
    pub(super) fn to_bytes(
        head: Head,
        program: Option<&Program>,
        captures: &[Array],
        Shipped { frame, code }: Shipped,
    ) -> Result<Vec<u8>, Error> {
        let text = program.filter(|program| !program.is_opaque()).map(ToString::to_string);
        let program = text.filter(|text| parse_program(text).is_ok());
        let types = captures.iter().map(|array| Captured {
            dtype: array.dtype().name().to_string(),
            shape: array.shape().to_vec(),
        });
        let header = Header { head, program, captures: types.collect(), frame };
        let header = serde_json::to_vec(&header)
            .map_err(|error| Error::Plugin(format!("writing down a program: {error}")))?;
        let mut body = (header.len() as u64).to_le_bytes().to_vec();
        body.extend(header);
        for array in captures {
            body.extend(array.to_bytes()?);
        }
        body.extend(code);
        let mut bytes = [MAGIC.as_slice(), VERSION, &digest(&body)].concat();
        bytes.append(&mut body);
        Ok(bytes)
    }

    /// What the bytes hold.
    ///
    /// # Errors
    /// `Plugin` if they are another program's, of another version, cut short or changed.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Artifact, Error> {
        let Some((start, _)) = bytes.split_at_checked(HEADER) else {
            return Err(damaged(format!("there are {} of them", bytes.len())));
        };
        if &start[..MAGIC.len()] != MAGIC {
            return Err(damaged("they begin otherwise"));
        }
        if &start[MAGIC.len()..DIGEST] != VERSION {
            let found = String::from_utf8_lossy(&start[MAGIC.len()..DIGEST]);
            let own = String::from_utf8_lossy(VERSION);
            return Err(Error::Plugin(format!(
                "this program was written down in form {found}, this version of oxidax reads form {own}; compile it anew"
            )));
        }
        if start[DIGEST..LENGTH] != digest(&bytes[LENGTH..]) {
            return Err(damaged("they were changed, or cut short"));
        }
        let length = start[LENGTH..].iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        let rest = &bytes[HEADER..];
        let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let (header, mut rest) =
            split.ok_or_else(|| damaged("the header is longer than they are"))?;
        let header: Header = serde_json::from_slice(header).map_err(damaged)?;
        let Header { head, program, captures, frame } = header;
        let captures = captures.into_iter().map(|Captured { dtype, shape }| {
            let dtype = DType::from_name(&dtype).ok_or_else(|| damaged(&dtype))?;
            let length = Aval::new(dtype, shape.clone()).bytes();
            let (elements, others) = rest
                .split_at_checked(length)
                .ok_or_else(|| damaged("a captured array is missing"))?;
            rest = others;
            Array::from_bytes(elements, dtype, shape)
        });
        let captures = captures.collect::<Result<_, _>>()?;
        let program = program.as_deref().and_then(|text| parse_program(text).ok());
        Ok(Artifact { head, program, captures, shipped: Shipped { frame, code: rest.to_vec() } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn trees_of_two_processes_are_compared_in_words() {
        let tree = |n: usize, flag: bool| (zeros([n], DType::F32), Static(flag));
        let of = |n, flag| Described::of(&tree(n, flag));
        assert_eq!(of(2, true).difference(&of(2, true)), None);
        assert_eq!(of(2, true).difference(&of(3, true)).unwrap(), "$[0]: f32[2], now f32[3]");
        let statics = of(2, true).difference(&of(2, false)).unwrap();
        assert!(statics.contains("true") && statics.contains("now"), "{statics}");
        let longer = Described::of(&zeros([2], DType::F32)).difference(&of(2, true)).unwrap();
        assert!(longer.contains("an array, now"), "{longer}");
    }
}
