//! Optimized programs as text, in the notation of XLA's own dumps.
//!
//! Plugins return the optimized program as a protocol buffer and have no function that prints it.
//! [`Executable::optimized_text`] prints that message. Beside each fusion it writes the source
//! lines of the operations inside.

mod attributes;
mod origins;
pub(crate) mod proto;
mod shape;
pub(crate) mod sources;

pub use origins::{Neighbour, Origins, SourceOperation};
pub use sources::{Fusion, SourceLocation};

use crate::buffer::BufferLayout;
use crate::error::Result;
use crate::executable::Executable;
use crate::hlo;
use proto::{Computation, Instruction, Module, Shape};
use sources::Sources;
use std::collections::HashMap;

impl Executable {
    /// Returns the optimized program as text: its computations, with the entry computation last,
    /// and one line for each instruction. The line of a fusion ends with the source lines of the
    /// operations inside.
    ///
    /// The notation is that of XLA's dumps. Constants of more than eight elements are abridged.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); [`Error::Invalid`](crate::Error::Invalid) if the
    /// plugin returns the program in an unknown format.
    pub fn optimized_text(&self) -> Result<String> {
        Ok(print(&self.optimized_module("optimized text")?))
    }

    /// Returns the fusions of the optimized program, in the compiler's order, with the source lines
    /// of the operations inside.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); [`Error::Invalid`](crate::Error::Invalid) if the
    /// plugin returns the program in an unknown format.
    pub fn fusions(&self) -> Result<Vec<Fusion>> {
        let module = self.optimized_module("fusions")?;
        let sources = Sources::new(&module);
        let instructions = module.computations.iter().flat_map(|called| &called.instructions);
        let fusions = instructions.filter(|instruction| instruction.opcode == "fusion");
        Ok(fusions.map(|instruction| sources.fusion(instruction)).collect())
    }

    /// Returns the names and origins of the instructions of the optimized program that `is_wanted`
    /// accepts by their opcode, in the order of [`Executable::instructions`].
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); [`Error::Invalid`](crate::Error::Invalid) if the
    /// plugin returns the program in an unknown format.
    pub fn origins(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, Origins)>> {
        Ok(origins::origins(&self.optimized_module("origins")?, is_wanted))
    }

    /// Returns the layouts of the parameters of the optimized program, and of its results.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status); [`Error::Invalid`](crate::Error::Invalid) if the
    /// plugin returns the program in an unknown format.
    pub fn entry_layouts(&self) -> Result<(Vec<BufferLayout>, Vec<BufferLayout>)> {
        let module = self.optimized_module("entry layouts")?;
        let entry = module.computations.iter().find(|of| of.id == module.entry_computation_id);
        let Some(entry) = entry else { return Ok((Vec::new(), Vec::new())) };
        let mut parameters: Vec<&Instruction> =
            entry.instructions.iter().filter(|of| of.opcode == "parameter").collect();
        parameters.sort_by_key(|parameter| parameter.parameter_number);
        let root = entry.instructions.iter().filter(|of| of.id == entry.root_id);
        let layouts = |shapes: Vec<&Shape>| {
            let mut layouts = Vec::new();
            shapes.into_iter().for_each(|shape| add_layouts(shape, &mut layouts));
            layouts
        };
        let shapes = parameters.into_iter().filter_map(|parameter| parameter.shape.as_ref());
        let parameters = layouts(shapes.collect());
        Ok((parameters, layouts(root.filter_map(|root| root.shape.as_ref()).collect())))
    }

    fn optimized_module(&self, operation: &'static str) -> Result<Module> {
        let (code, format) = self.optimized_program()?;
        hlo::decode_optimized(operation, &code, &format)
    }
}

/// Adds the layouts of the arrays in a shape.
fn add_layouts(shape: &Shape, layouts: &mut Vec<BufferLayout>) {
    /// The number of `xla.PrimitiveType` for tuples.
    const TUPLE: i32 = 13;
    if shape.element_type == TUPLE {
        shape.tuple_shapes.iter().for_each(|part| add_layouts(part, layouts));
        return;
    }
    let layout = shape.layout.as_ref();
    layouts.push(BufferLayout::Tiled {
        minor_to_major: layout.map(|of| of.minor_to_major.clone()).unwrap_or_default(),
        tiles: layout
            .map(|of| of.tiles.iter().map(|tile| tile.dimensions.clone()).collect())
            .unwrap_or_default(),
    });
}

/// Returns the text of a module.
fn print(module: &Module) -> String {
    let sources = Sources::new(module);
    let mut text = format!("HloModule {}\n", module.name);
    for computation in &module.computations {
        let is_entry = computation.id == module.entry_computation_id;
        text.push('\n');
        text.push_str(if is_entry { "ENTRY " } else { "" });
        print_computation(computation, &sources, &mut text);
    }
    text
}

fn print_computation(computation: &Computation, sources: &Sources<'_>, text: &mut String) {
    let Computation { name, instructions, root_id, .. } = computation;
    let names: HashMap<i64, &str> =
        instructions.iter().map(|inner| (inner.id, inner.name.as_str())).collect();
    let is_root = |inner: &&Instruction| inner.id == *root_id;
    let result = instructions.iter().find(is_root).map(shape_of).unwrap_or_default();
    let mut parameters: Vec<&Instruction> =
        instructions.iter().filter(|inner| inner.opcode == "parameter").collect();
    parameters.sort_by_key(|inner| inner.parameter_number);
    let parameters: Vec<String> =
        parameters.iter().map(|inner| format!("{}: {}", inner.name, shape_of(inner))).collect();
    text.push_str(&format!("%{name} ({}) -> {result} {{\n", parameters.join(", ")));
    for instruction in instructions {
        let root = if instruction.id == *root_id { "ROOT " } else { "" };
        let instruction = print_instruction(instruction, &names, sources);
        text.push_str(&format!("  {root}{instruction}\n"));
    }
    text.push_str("}\n");
}

fn shape_of(instruction: &Instruction) -> String {
    instruction.shape.as_ref().map(shape::shape).unwrap_or_default()
}

fn print_instruction(
    instruction: &Instruction,
    names: &HashMap<i64, &str>,
    sources: &Sources<'_>,
) -> String {
    let Instruction { name, opcode, .. } = instruction;
    let operand = |id: &i64| match names.get(id) {
        Some(name) => format!("%{name}"),
        None => format!("%{id}"),
    };
    let operands = match (opcode.as_str(), &instruction.literal) {
        ("parameter", _) => instruction.parameter_number.to_string(),
        ("constant", Some(literal)) => {
            shape::literal(literal, instruction.shape.as_ref().unwrap_or(&Default::default()))
        }
        _ => instruction.operand_ids.iter().map(operand).collect::<Vec<_>>().join(", "),
    };
    let mut text = format!("%{name} = {} {opcode}({operands})", shape_of(instruction));
    for attribute in attributes::attributes(instruction, sources) {
        text.push_str(", ");
        text.push_str(&attribute);
    }
    if !instruction.control_predecessor_ids.is_empty() {
        let before: Vec<String> = instruction.control_predecessor_ids.iter().map(operand).collect();
        text.push_str(&format!(", control-predecessors={{{}}}", before.join(", ")));
    }
    if let Some(metadata) = attributes::metadata(instruction, sources) {
        text.push_str(&format!(", metadata={{{metadata}}}"));
    }
    if opcode == "fusion" {
        let lines = sources.fusion(instruction).sources;
        if !lines.is_empty() {
            text.push_str(&format!("  // {}", sources::join(&lines)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::proto::{Metadata, Shape};
    use super::*;

    fn at(line: i32) -> Option<Metadata> {
        Some(Metadata {
            op_name: "jit(f)/add".into(),
            source_file: "src/model.rs".into(),
            source_line: line,
            ..Metadata::default()
        })
    }

    #[test]
    fn fusions_are_followed_by_the_lines_of_their_operations() {
        let shape = Some(Shape { element_type: 11, dimensions: vec![4], ..Shape::default() });
        let instruction =
            |name: &str, opcode: &str, id: i64, operand_ids: &[i64], line: i32| Instruction {
                name: name.into(),
                opcode: opcode.into(),
                id,
                operand_ids: operand_ids.into(),
                shape: shape.clone(),
                metadata: if line == 0 { None } else { at(line) },
                ..Instruction::default()
            };
        let inside = vec![
            instruction("p", "parameter", 1, &[], 0),
            instruction("a", "add", 2, &[1, 1], 41),
            instruction("m", "multiply", 3, &[2, 1], 43),
        ];
        let fusion = Instruction {
            fusion_kind: "kLoop".into(),
            called_computation_ids: vec![1],
            ..instruction("f", "fusion", 2, &[1], 0)
        };
        let module = Module {
            name: "jit_f".into(),
            computations: vec![
                Computation { name: "fused".into(), instructions: inside, id: 1, root_id: 3 },
                Computation {
                    name: "main".into(),
                    instructions: vec![instruction("x", "parameter", 1, &[], 0), fusion],
                    id: 2,
                    root_id: 2,
                },
            ],
            entry_computation_id: 2,
            ..Module::default()
        };
        let expected = r#"HloModule jit_f

%fused (p: f32[4]) -> f32[4] {
  %p = f32[4] parameter(0)
  %a = f32[4] add(%p, %p), metadata={op_name="jit(f)/add" source_file="src/model.rs" source_line=41}
  ROOT %m = f32[4] multiply(%a, %p), metadata={op_name="jit(f)/add" source_file="src/model.rs" source_line=43}
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4] parameter(0)
  ROOT %f = f32[4] fusion(%x), kind=kLoop, calls=%fused  // src/model.rs:41, src/model.rs:43
}
"#;
        assert_eq!(print(&module), expected);
        let sources = Sources::new(&module);
        let fusion = sources.fusion(&module.computations[1].instructions[1]);
        assert_eq!(
            fusion.to_string(),
            "f (kLoop): add, multiply at src/model.rs:41, src/model.rs:43"
        );
    }
}
