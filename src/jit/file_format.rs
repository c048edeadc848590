//! [`ProgramFile`]: the byte format of a compiled function.
//!
//! A [`DigestedFile`] whose header is followed by the elements of each captured array, one after
//! the other, and the plugin's bytes.

use super::tree_description::FunctionDescription;
use crate::control_flow::parse_program;
use crate::core::{Array, Aval, DType, Error, MemoryKind, Program};
use crate::runtime::{DigestedFile, ProgramHeader, SerializedProgram, transfer};
use serde::{Deserialize, Serialize};

const FORMAT: DigestedFile = DigestedFile {
    magic: b"oxidax program",
    version: b"02",
    content: "a serialized program",
    writing: "serializing a program",
    written: "this program was serialized",
    remedy: "; compile it again",
};

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
        let elements: Vec<Vec<u8>> =
            captures.iter().map(Array::to_bytes).collect::<Result<_, _>>()?;
        let contents = elements.iter().chain([&code]).map(Vec::as_slice);
        FORMAT.write(&header, contents)
    }

    /// Reads a compiled function.
    ///
    /// # Errors
    /// `Plugin` if the bytes are of another format or version, truncated or changed.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<ProgramFile, Error> {
        let (header, mut rest): (FileHeader, &[u8]) = FORMAT.read(bytes)?;
        let mut captures = Vec::with_capacity(header.captures.len());
        for CapturedType { dtype, shape, memory } in header.captures {
            let dtype = DType::from_name(&dtype).ok_or_else(|| FORMAT.damaged(&dtype))?;
            let length = Aval::new(dtype, shape.clone()).bytes();
            let (elements, others) = rest
                .split_at_checked(length)
                .ok_or_else(|| FORMAT.damaged("a captured array is missing"))?;
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
