//! [`ProgramFile`]: the byte format of a compiled function.
//!
//! ```text
//! magic     16 bytes: `oxidax program`, the format version as two digits
//! digest    32 bytes: SHA-256 of everything after it
//! length     8 bytes, little-endian: length of the header
//! header    JSON
//! captures  the elements of each captured array, one after the other
//! code      the plugin's bytes
//! ```

use super::tree_description::FunctionDescription;
use crate::control_flow::parse_program;
use crate::core::{Array, Aval, DType, Error, MemoryKind, Program};
use crate::runtime::{ProgramHeader, SerializedProgram, digest, transfer};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 14] = b"oxidax program";
const VERSION: &[u8; 2] = b"02";
/// Offset of the digest.
const DIGEST: usize = MAGIC.len() + VERSION.len();
/// Offset of the header's length, the first byte covered by the digest.
const LENGTH: usize = DIGEST + 32;
/// Offset of the header.
const HEADER: usize = LENGTH + 8;

/// The type of a captured array.
#[derive(Debug, Serialize, Deserialize)]
struct CapturedType {
    dtype: String,
    shape: Vec<usize>,
    #[serde(default)]
    memory: MemoryKind,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileHeader {
    function: FunctionDescription,
    /// The text of the traced program if it can be parsed again, for `nan_check`.
    program: Option<String>,
    captures: Vec<CapturedType>,
    executable: ProgramHeader,
}

/// A compiled function read from bytes.
pub(super) struct ProgramFile {
    pub(super) function: FunctionDescription,
    pub(super) program: Option<Program>,
    pub(super) captures: Vec<Array>,
    pub(super) executable: SerializedProgram,
}

fn damaged(problem: impl std::fmt::Display) -> Error {
    Error::Plugin(format!("these bytes are not a serialized program: {problem}"))
}

impl ProgramFile {
    /// Writes a compiled function to bytes.
    ///
    /// # Errors
    /// Errors of reading captured arrays.
    pub(super) fn to_bytes(
        function: FunctionDescription,
        program: Option<&Program>,
        captures: &[Array],
        executable: SerializedProgram,
    ) -> Result<Vec<u8>, Error> {
        let SerializedProgram { header: executable, code } = executable;
        let text = program.filter(|program| !program.is_opaque()).map(ToString::to_string);
        let program = text.filter(|text| parse_program(text).is_ok());
        let types = captures.iter().map(|array| CapturedType {
            dtype: array.dtype().name().to_string(),
            shape: array.shape().to_vec(),
            memory: array.aval().memory,
        });
        let header = FileHeader { function, program, captures: types.collect(), executable };
        let header = serde_json::to_vec(&header)
            .map_err(|error| Error::Plugin(format!("serializing a program: {error}")))?;
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

    /// Reads a compiled function.
    ///
    /// # Errors
    /// `Plugin` if the bytes are of another format or version, truncated or changed.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<ProgramFile, Error> {
        let Some((start, _)) = bytes.split_at_checked(HEADER) else {
            return Err(damaged(format!("there are only {}", bytes.len())));
        };
        if &start[..MAGIC.len()] != MAGIC {
            return Err(damaged("they begin differently"));
        }
        if &start[MAGIC.len()..DIGEST] != VERSION {
            let version = String::from_utf8_lossy(&start[MAGIC.len()..DIGEST]);
            let supported = String::from_utf8_lossy(VERSION);
            return Err(Error::Plugin(format!(
                "this program was serialized in format {version}, this version of oxidax reads \
                 format {supported}; compile it again"
            )));
        }
        if start[DIGEST..LENGTH] != digest(&bytes[LENGTH..]) {
            return Err(damaged("they were changed or truncated"));
        }
        let length = start[LENGTH..].iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        let rest = &bytes[HEADER..];
        let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let (header, mut rest) =
            split.ok_or_else(|| damaged("the header is longer than the bytes"))?;
        let header: FileHeader = serde_json::from_slice(header).map_err(damaged)?;
        let mut captures = Vec::with_capacity(header.captures.len());
        for CapturedType { dtype, shape, memory } in header.captures {
            let dtype = DType::from_name(&dtype).ok_or_else(|| damaged(&dtype))?;
            let length = Aval::new(dtype, shape.clone()).bytes();
            let (elements, others) = rest
                .split_at_checked(length)
                .ok_or_else(|| damaged("a captured array is missing"))?;
            rest = others;
            let capture = Array::from_bytes(elements, dtype, shape)?;
            captures.push(match (memory, capture.placement()) {
                (memory, Some(placement)) if memory.is_host() => {
                    transfer(&capture, &placement, memory)?
                }
                _ => capture,
            });
        }
        Ok(ProgramFile {
            function: header.function,
            program: header.program.as_deref().and_then(|text| parse_program(text).ok()),
            captures,
            executable: SerializedProgram { header: header.executable, code: rest.to_vec() },
        })
    }
}
