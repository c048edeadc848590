//! The parameter types of a program.

use crate::error::Result;
use crate::hlo;
use crate::mlir::{Scanner, Word};
use crate::types::{ArrayType, ElementType};

/// The types of a program's parameters on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutableSignature {
    /// One type for each parameter, in order.
    pub parameters: Vec<ArrayType>,
}

impl ExecutableSignature {
    /// Reads the parameters of `@main` from StableHLO text; `None` if they are written in a form
    /// that this crate does not parse, such as a type alias.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut words = Scanner::new(text);
        loop {
            if words.next()? != Word::Name("func.func") {
                continue;
            }
            // A visibility keyword may precede the name.
            let name = words.find(|word| matches!(word, Word::Symbol(_)))?;
            if name == Word::Symbol("main") {
                break;
            }
        }
        if words.next()? != Word::Sign('(') {
            return None;
        }
        let mut parameters = Vec::new();
        while words.next()? == Word::Sign('%') {
            words.next()?;
            if words.next()? != Word::Sign(':') {
                return None;
            }
            parameters.push(parameter_type(&mut words)?);
            if !skip_attributes(&mut words)? {
                return Some(Self { parameters });
            }
        }
        // `@main()` has no words between its parentheses.
        parameters.is_empty().then_some(Self { parameters })
    }

    /// Reads the parameters from a compiled program, in the format in which a plugin returns it.
    pub(crate) fn from_optimized(code: &[u8], format: &str) -> Result<Self> {
        let module = hlo::Module::from_optimized("signature", code, format)?;
        let shape = module.host_program_shape.unwrap_or_default();
        let mut parameters = Vec::new();
        for shape in &shape.parameters {
            shape.flatten_into(&mut parameters)?;
        }
        Ok(Self { parameters })
    }
}

fn parameter_type(words: &mut Scanner<'_>) -> Option<ArrayType> {
    match words.next()? {
        Word::Tensor(shape) => {
            let parsed = tensor_type(shape)?;
            // An encoding would follow the shape; encodings are not supported.
            (words.next()? == Word::Sign('>')).then_some(parsed)
        }
        Word::Sign('!') if words.next()? == Word::Name("stablehlo.token") => {
            ArrayType::new(ElementType::Token, &[]).ok()
        }
        _ => None,
    }
}

/// Skips a parameter's attributes and location. Returns true if another parameter follows, and
/// false after the last.
fn skip_attributes(words: &mut Scanner<'_>) -> Option<bool> {
    let mut depth = 0_usize;
    for word in words {
        match word {
            Word::Sign('(' | '{' | '[') => depth += 1,
            Word::Sign(')') if depth == 0 => return Some(false),
            Word::Sign(')' | '}' | ']') => depth = depth.checked_sub(1)?,
            Word::Sign(',') if depth == 0 => return Some(true),
            _ => {}
        }
    }
    None
}

/// Parses a type such as `4x8xf32`.
fn tensor_type(mut shape: &str) -> Option<ArrayType> {
    let mut dims = Vec::new();
    shape = shape.trim();
    while shape.starts_with(|c: char| c.is_ascii_digit()) {
        let (dim, rest) = shape.split_once('x')?;
        dims.push(dim.trim().parse().ok()?);
        shape = rest.trim_start();
    }
    let element = ElementType::ALL.iter().find(|element| element.mlir_name() == shape)?;
    ArrayType::new(*element, &dims).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(text: &str) -> Option<String> {
        let types = ExecutableSignature::from_text(text)?.parameters;
        Some(types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn parameters_are_read_from_text() {
        let text = r#"module @m { sdy.mesh @mesh = <["a"=2]>
            func.func private @helper(%x: tensor<9xi8>) { return }
            func.func public @main(%a: tensor<4x8xf32> {tf.aliasing_output = 0 : i32, s = "), %"} loc("x"("f.rs":1:2)),
              %b: tensor<bf16>, %c: tensor<2xcomplex<f64>>, %t: !stablehlo.token, %d: tensor<0x3xui4>) -> tensor<f32> {"#;
        assert_eq!(parameters(text).as_deref(), Some("f32[4,8] bf16[] c128[2] token[] u4[0,3]"));
        assert_eq!(parameters("func.func @main() { return }").as_deref(), Some(""));
    }

    #[test]
    fn unparsed_text_is_left_to_the_plugin() {
        assert_eq!(parameters("func.func @main(%x: !alias) { return }"), None);
        assert_eq!(parameters("func.func @main(%x: tensor<4xf32, #enc>) { return }"), None);
        assert_eq!(parameters("func.func @main(%x: tensor<4xi7>) { return }"), None);
        assert_eq!(parameters("func.func @other() { return }"), None);
        assert_eq!(parameters("func.func @main(%x"), None);
    }
}
