//! Modules in JAX's calling convention.
//!
//! The program is a private function. The main function around it takes the index of the platform,
//! if there are several, and the arguments that have contents; it holds the captured arrays as
//! constants, and returns the results.

use super::expand::expand;
use super::flat::{FlatFunction, LeafType, ResultLeaf, Source};
use crate::core::{Array, DType, Error, LowerCtx};
use crate::passes::{StableHloModule, lower_function};
use crate::stablehlo::{TensorType, Value, Writer};
use oxidax_vhlo::PortableArtifact;

/// The name of the private function.
const FUNCTION: &str = "exported";

/// The attribute by which JAX finds the index of the platform.
const PLATFORM_INDEX: &str = "jax.global_constant = \"_platform_index\"";

/// The texts of constants for the inputs that are captured arrays.
type Captures = Vec<Option<String>>;

impl FlatFunction {
    /// Returns the indices of the arguments that the module takes.
    pub(super) fn used_arguments(&self) -> Vec<usize> {
        let arguments = self.arguments.iter().enumerate();
        arguments.filter(|(_, ty)| matches!(ty, LeafType::Array(_))).map(|(i, _)| i).collect()
    }

    /// Lowers the function for these platforms. Returns the modules: one if all are equal, else one
    /// for each; and the text of the whole.
    ///
    /// # Errors
    /// [`Error::Op`] if a primitive refuses a platform; `Runtime` if a captured array cannot be
    /// read.
    pub(super) fn modules(&self, platforms: &[String]) -> Result<Vec<StableHloModule>, Error> {
        let captures = self.captures()?;
        let has_index = platforms.len() > 1;
        let lower = |platform: &String| {
            lower_function(
                &self.program,
                [&self.name, FUNCTION],
                platform,
                &self.plan,
                expand,
                |ctx, inputs, outputs| {
                    let callees = [FUNCTION.to_owned()];
                    self.write_main(ctx, has_index, &captures, &callees, inputs, outputs);
                },
            )
        };
        let mut modules = platforms.iter().map(lower).collect::<Result<Vec<_>, Error>>()?;
        if modules.iter().all(|module| module.text == modules[0].text) {
            modules.truncate(1);
        }
        Ok(modules)
    }

    /// Joins the modules of several platforms: the main function chooses one by its first argument.
    ///
    /// # Errors
    /// The message of the first module that cannot be parsed.
    pub(super) fn join(
        &self,
        platforms: &[String],
        modules: &[StableHloModule],
    ) -> Result<String, String> {
        let captures = self.captures().map_err(|error| error.to_string())?;
        let prefix = |platform: &String| format!("{platform}.");
        let parse = |text: &str| PortableArtifact::parse(text).map_err(|error| error.to_string());
        let mut functions = String::new();
        for (platform, module) in platforms.iter().zip(modules) {
            let text = parse(&module.text)?.functions_text(&prefix(platform));
            functions += &text.map_err(|error| error.to_string())?;
        }
        let mut ctx = LowerCtx::new("cpu");
        let callees: Vec<String> = platforms
            .iter()
            .map(|platform| format!("\"{}{FUNCTION}\"", prefix(platform)))
            .collect();
        self.write_main(&mut ctx, true, &captures, &callees, &[], &[]);
        let main = parse(&ctx.finish(&self.name))?.functions_text("");
        let main = main.map_err(|error| error.to_string())?;
        Ok(format!("module @\"{}\" {{\n{main}{functions}}}\n", self.name.escape_default()))
    }

    fn captures(&self) -> Result<Captures, Error> {
        let text = |source: &Source| match source {
            Source::Argument(_) => Ok(None),
            Source::Capture(array) => elements(array).map(Some),
        };
        self.sources.iter().map(text).collect()
    }

    /// Writes the main function, which calls one of `callees`.
    fn write_main(
        &self,
        ctx: &mut LowerCtx<'_>,
        has_index: bool,
        captures: &Captures,
        callees: &[String],
        input_attributes: &[String],
        output_attributes: &[String],
    ) {
        ctx.set_location(None);
        let used = self.used_arguments();
        let index = TensorType::new("i32", &[]);
        let types = used.iter().filter_map(|index| match &self.arguments[*index] {
            LeafType::Array(aval) => Some(aval.stablehlo()),
            LeafType::Float0(_) => None,
        });
        let types: Vec<TensorType> = has_index.then_some(index).into_iter().chain(types).collect();
        let (outside, arguments) = ctx.open_function(&types);
        let (of_index, of_arguments) = arguments.split_at(usize::from(has_index));
        let mut attributes = vec![String::new(); of_arguments.len()];
        let mut operands: Vec<Value> = Vec::with_capacity(self.sources.len());
        for (position, (source, capture)) in self.sources.iter().zip(captures).enumerate() {
            operands.push(match (source, capture) {
                (Source::Argument(index), _) => {
                    let place = used.binary_search(index).expect("it has contents");
                    if let Some(text) = input_attributes.get(position) {
                        attributes[place].clone_from(text);
                    }
                    of_arguments[place].clone()
                }
                (Source::Capture(array), text) => {
                    ctx.constant(text.as_deref().unwrap_or_default(), &array.aval().stablehlo())
                }
            });
        }
        let types: Vec<TensorType> =
            self.program.avals_out().iter().map(|aval| aval.stablehlo()).collect();
        let outputs = match callees {
            [callee] => {
                let callee = format!("callee = @{callee}");
                ctx.op_full("func.call", &operands, &callee, Vec::new(), &types)
            }
            _ => choose(ctx, of_index, callees, &operands, &types),
        };
        let mut values = Vec::with_capacity(self.results.len());
        let mut of_results = Vec::with_capacity(self.results.len());
        for result in &self.results {
            let (value, text) = match result {
                ResultLeaf::Output(index) => {
                    let text = output_attributes.get(*index).cloned().unwrap_or_default();
                    (outputs[*index].clone(), text)
                }
                ResultLeaf::Float0(shape) => {
                    (ctx.constant("false", &TensorType::new("i1", shape)), String::new())
                }
            };
            values.push(value);
            of_results.push(text);
        }
        ctx.close_function_with(
            outside,
            "main",
            &arguments,
            &values,
            |index| match (has_index, index) {
                (true, 0) => PLATFORM_INDEX.to_owned(),
                (true, index) => attributes[index - 1].clone(),
                (false, index) => attributes[index].clone(),
            },
            |index| of_results[index].clone(),
        );
    }
}

/// Writes a choice between functions by an index.
fn choose(
    writer: &mut Writer,
    index: &[Value],
    callees: &[String],
    operands: &[Value],
    types: &[TensorType],
) -> Vec<Value> {
    let mut regions = Vec::with_capacity(callees.len());
    for callee in callees {
        let (outside, _) = writer.open_region(&[]);
        let callee = format!("callee = @{callee}");
        let results = writer.op_full("func.call", operands, &callee, Vec::new(), types);
        regions.push(writer.close_region(outside, &results));
    }
    writer.op_full("case", index, "", regions, types)
}

/// Returns the elements of an array, as the text of a constant.
fn elements(array: &Array) -> Result<String, Error> {
    let dtype = array.dtype();
    let bytes = array.to_bytes()?;
    if bytes.is_empty() {
        return Ok(String::new());
    }
    if dtype == DType::Bool {
        let flags: Vec<&str> =
            bytes.iter().map(|byte| if *byte == 0 { "false" } else { "true" }).collect();
        return Ok(format!("[{}]", flags.join(", ")));
    }
    // The bits of narrow integers are without their sign.
    let mask = if dtype.bits() < 8 { (1_u8 << dtype.bits()) - 1 } else { u8::MAX };
    let mut text = String::with_capacity(2 * bytes.len() + 4);
    text.push_str("\"0x");
    for byte in bytes {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let byte = byte & mask;
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push('"');
    Ok(text)
}
