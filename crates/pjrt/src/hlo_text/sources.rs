//! Source lines of instructions and fusions.

use super::proto::{Computation, Instruction, Metadata, Module, StackFrameIndex};
use std::collections::HashMap;
use std::fmt;

/// A line of the source that an operation was written on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
    /// The path of the file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A fusion of an optimized program: operations that run as one loop or kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fusion {
    /// Its name, unique in the program: `fusion.3`.
    pub name: String,
    /// The compiler's name of its kind: `kLoop`, `kInput`, `kOutput`, `kCustom`.
    pub kind: String,
    /// The operations inside, without parameters and constants, in the compiler's order.
    pub operations: Vec<String>,
    /// The lines that the operations were written on, without repetitions, in the order of the
    /// operations. Empty if the compiler recorded none.
    pub sources: Vec<SourceLocation>,
}

impl fmt::Display for Fusion {
    /// Writes the name, the operations and their lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name, self.kind, self.operations.join(", "))?;
        if !self.sources.is_empty() {
            write!(f, " at {}", join(&self.sources))?;
        }
        Ok(())
    }
}

/// Joins the texts of lines with commas.
pub(super) fn join(sources: &[SourceLocation]) -> String {
    let texts: Vec<String> = sources.iter().map(SourceLocation::to_string).collect();
    texts.join(", ")
}

/// Looks up the source lines of a module's instructions.
pub(crate) struct Sources<'a> {
    computations: HashMap<i64, &'a Computation>,
    frames: Option<&'a StackFrameIndex>,
}

impl<'a> Sources<'a> {
    pub(crate) fn new(module: &'a Module) -> Sources<'a> {
        let by_id = module.computations.iter().map(|computation| (computation.id, computation));
        Sources { computations: by_id.collect(), frames: module.stack_frame_index.as_ref() }
    }

    /// Returns the computation with this id.
    pub(crate) fn computation(&self, id: i64) -> Option<&'a Computation> {
        self.computations.get(&id).copied()
    }

    /// Returns the line that the instruction was written on.
    pub(crate) fn of(&self, instruction: &Instruction) -> Option<SourceLocation> {
        let metadata = instruction.metadata.as_ref()?;
        let Metadata { source_file, source_line, stack_frame_id, .. } = metadata;
        if !source_file.is_empty() {
            return source_line_of(source_file.clone(), *source_line);
        }
        let frames = self.frames?;
        let frame = frames.stack_frames.get(index(*stack_frame_id)?)?;
        let location = frames.file_locations.get(index(frame.file_location_id)?)?;
        let file = frames.file_names.get(index(location.file_name_id)?)?;
        source_line_of(String::from_utf8_lossy(file).into_owned(), location.line)
    }

    /// Describes a fusion.
    pub(crate) fn fusion(&self, instruction: &Instruction) -> Fusion {
        let mut fusion = Fusion {
            name: instruction.name.clone(),
            kind: instruction.fusion_kind.clone(),
            operations: Vec::new(),
            sources: Vec::new(),
        };
        let called = instruction.called_computation_ids.iter();
        for computation in called.filter_map(|&id| self.computation(id)) {
            for inner in &computation.instructions {
                if !matches!(inner.opcode.as_str(), "parameter" | "constant") {
                    fusion.operations.push(inner.opcode.clone());
                }
                if let Some(source) = self.of(inner).filter(|line| !fusion.sources.contains(line)) {
                    fusion.sources.push(source);
                }
            }
        }
        if let Some(source) = self.of(instruction).filter(|_| fusion.sources.is_empty()) {
            fusion.sources.push(source);
        }
        fusion
    }
}

/// Converts an id that counts from 1 to an index.
fn index(id: i32) -> Option<usize> {
    usize::try_from(id).ok()?.checked_sub(1)
}

fn source_line_of(file: String, line: i32) -> Option<SourceLocation> {
    Some(SourceLocation { file, line: u32::try_from(line).ok().filter(|&line| line > 0)? })
}

#[cfg(test)]
mod tests {
    use super::super::proto::{FileLocation, StackFrame};
    use super::*;

    #[test]
    fn stack_frames_lead_to_lines() {
        let module = Module {
            stack_frame_index: Some(StackFrameIndex {
                file_names: vec![b"a.rs".to_vec(), b"b.rs".to_vec()],
                file_locations: vec![FileLocation { file_name_id: 2, line: 7 }],
                stack_frames: vec![StackFrame { file_location_id: 1 }],
            }),
            ..Module::default()
        };
        let sources = Sources::new(&module);
        let of = |stack_frame_id: i32, source_file: &str| {
            let source_file = source_file.to_string();
            let metadata =
                Metadata { source_file, source_line: 3, stack_frame_id, ..Metadata::default() };
            sources.of(&Instruction { metadata: Some(metadata), ..Instruction::default() })
        };
        assert_eq!(of(1, "").map(|line| line.to_string()).as_deref(), Some("b.rs:7"));
        assert_eq!(of(1, "c.rs").map(|line| line.to_string()).as_deref(), Some("c.rs:3"));
        // Ids that do not exist.
        for id in [0, 2, -1, i32::MIN] {
            assert_eq!(of(id, ""), None);
        }
    }
}
