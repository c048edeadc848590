//! Programs to compile, checked for constructs that crash compilers.

use std::collections::{BTreeMap, BTreeSet};

use oxidax_proto::Message;

use crate::error::{Error, Result};
use crate::hlo;
use crate::hlo_layouts::with_layouts;
use crate::mlir::{Scanner, Word};
use crate::signature::ExecutableSignature;

/// A program that a plugin can compile.
///
/// ```
/// # use oxidax_pjrt::PjrtProgram;
/// let program = PjrtProgram::mlir(
///     "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
///        %0 = stablehlo.add %x, %x : tensor<4xf32>
///        return %0 : tensor<4xf32>
///      }",
/// )?;
/// # Ok::<(), oxidax_pjrt::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PjrtProgram {
    code: Vec<u8>,
    format: ProgramFormat,
}

/// The format of a program's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProgramFormat {
    /// StableHLO as text.
    Mlir,
    /// StableHLO as MLIR bytecode, including portable artifacts.
    MlirBytecode,
    /// A serialized `HloModuleProto`.
    Hlo,
}

impl PjrtProgram {
    /// Creates a program from StableHLO text with an entry function `@main`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for constructs that would end the process instead of returning an error:
    /// - recursive functions
    /// - unknown dimensions (`?`)
    /// - a custom call to `TopK` (use `chlo.top_k`)
    /// - functions in MLIR's generic form, whose calls cannot be checked
    pub fn mlir(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        check_text(&text)?;
        Ok(Self { code: text.into_bytes(), format: ProgramFormat::Mlir })
    }

    /// Creates a program from a serialized `HloModuleProto`. Arrays without a layout get the
    /// row-major one: compilers end the process if there is none.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the bytes are not such a message.
    pub fn hlo(proto: impl Into<Vec<u8>>) -> Result<Self> {
        Self::of_hlo(&proto.into(), true)
    }

    /// As [`hlo`](Self::hlo), for one device: the shardings of operations are left out. A wrong one
    /// makes compilers end the process.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the bytes are not such a message.
    pub fn hlo_on_one_device(proto: &[u8]) -> Result<Self> {
        Self::of_hlo(proto, false)
    }

    fn of_hlo(code: &[u8], keeps_shardings: bool) -> Result<Self> {
        let module = hlo::Module::decode(code).map_err(|error| {
            Error::invalid("program", format!("these bytes are not an HloModuleProto: {error}"))
        })?;
        module.check()?;
        let code = with_layouts(code, keeps_shardings).map_err(|error| {
            Error::invalid("program", format!("these bytes are not an HloModuleProto: {error}"))
        })?;
        Ok(Self { code, format: ProgramFormat::Hlo })
    }

    /// Creates a program from MLIR bytecode.
    ///
    /// # Safety
    /// Plugins crash on some programs, and this crate detects these only in text. No function may
    /// call itself, directly or through others, and every dimension must be known.
    pub unsafe fn mlir_bytecode(code: impl Into<Vec<u8>>) -> Self {
        Self { code: code.into(), format: ProgramFormat::MlirBytecode }
    }

    /// Returns the program's code.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Returns the format of the code.
    pub fn format(&self) -> ProgramFormat {
        self.format
    }

    /// Returns the C API's name of the format.
    pub(crate) fn format_name(&self) -> &'static str {
        match self.format {
            ProgramFormat::Mlir | ProgramFormat::MlirBytecode => "mlir",
            ProgramFormat::Hlo => "hlo",
        }
    }

    /// Returns the types of `@main`'s parameters, if they can be read directly from the code.
    pub(crate) fn signature(&self) -> Option<ExecutableSignature> {
        match self.format {
            ProgramFormat::Mlir => {
                ExecutableSignature::from_text(std::str::from_utf8(&self.code).ok()?)
            }
            ProgramFormat::MlirBytecode | ProgramFormat::Hlo => None,
        }
    }
}

/// Checks the text for constructs that crash compilers.
fn check_text(text: &str) -> Result<()> {
    let mut calls = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut current = None;
    let mut after_func = false;
    let mut after_custom_call = false;
    let mut after_target = false;
    for word in Scanner::new(text) {
        match word {
            Word::Symbol(name) if after_func => {
                calls.entry(name).or_default();
                current = Some(name);
                after_func = false;
            }
            Word::Symbol("TopK") | Word::String("TopK") if after_custom_call || after_target => {
                let message = "custom call @TopK crashes some compilers unless it is just right; use chlo.top_k";
                return Err(Error::invalid("program", message));
            }
            Word::Symbol(name) if !after_custom_call => {
                if let Some(callees) = current.and_then(|current| calls.get_mut(current)) {
                    callees.insert(name);
                }
            }
            Word::String("func.func") => {
                let message = "functions must be written as `func.func @name(...)`; the calls of the generic form \
                               cannot be checked";
                return Err(Error::invalid("program", message));
            }
            Word::Tensor(shape) if shape.contains(['?', '*']) => {
                let message = format!("tensor<{shape}>: every dimension must be known");
                return Err(Error::invalid("program", message));
            }
            _ => {}
        }
        // In the generic form the target is an attribute: `call_target_name = "..."`.
        after_target = match word {
            Word::Name(name) => name == "call_target_name",
            Word::Sign('=') => after_target,
            _ => false,
        };
        match word {
            Word::Name("func.func") => after_func = true,
            Word::Name("stablehlo.custom_call" | "mhlo.custom_call") => after_custom_call = true,
            Word::Symbol(_) | Word::String(_) => after_custom_call = false,
            _ => {}
        }
    }
    match find_cycle(&calls) {
        Some(cycle) => {
            let message = format!("functions may not call themselves: {}", cycle.join(" -> "));
            Err(Error::invalid("program", message))
        }
        None => Ok(()),
    }
}

/// Returns a cycle in the call graph. The search is not recursive, because call chains may be long.
fn find_cycle<'a>(calls: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Option<Vec<&'a str>> {
    let mut done = BTreeSet::new();
    for &start in calls.keys() {
        let mut path = vec![(start, calls[start].iter())];
        let mut on_path = BTreeSet::from([start]);
        while let Some((name, callees)) = path.last_mut() {
            let name = *name;
            match callees.next() {
                Some(&callee) if on_path.contains(callee) => {
                    let chain = path.iter().map(|(name, _)| *name);
                    return Some(
                        chain.skip_while(|&name| name != callee).chain([callee]).collect(),
                    );
                }
                Some(&callee) if !done.contains(callee) => {
                    if let Some(next) = calls.get(callee) {
                        path.push((callee, next.iter()));
                        on_path.insert(callee);
                    }
                }
                Some(_) => {}
                None => {
                    done.insert(name);
                    on_path.remove(name);
                    path.pop();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        PjrtProgram::mlir(text).expect_err("must be refused").to_string()
    }

    #[test]
    fn call_cycles_are_refused() {
        let direct = "func.func @main() { call @main() : () -> () return }";
        assert_eq!(refusal(direct), "program: functions may not call themselves: main -> main");
        let indirect = r#"
            func.func public @main() { func.call @a() : () -> () return }
            func.func private @a() { "func.call"() <{callee = @"b"}> : () -> () return }
            func.func private @b() { call @a() : () -> () return }"#;
        assert_eq!(refusal(indirect), "program: functions may not call themselves: a -> b -> a");
    }

    #[test]
    fn diamonds_strings_and_comments_are_not_cycles() {
        let text = r#"
            module @main {
              func.func @main(%x: tensor<f32> loc("@main")) { // calls @main? no
                call @a() : () -> () call @b() : () -> ()
                stablehlo.custom_call @main(%x) {sharding = "{?}", x = "a \" @main"} : (tensor<f32>) -> ()
                return }
              func.func private @a() { call @c() : () -> () return }
              func.func private @b() { call @c() : () -> () return }
              func.func private @c() { return }
            }"#;
        PjrtProgram::mlir(text).expect("no function calls itself");
    }

    #[test]
    fn unknown_dimensions_and_top_k_are_refused() {
        assert_eq!(
            refusal("func.func @main(%x: tensor<4x?xf32>) { return }"),
            "program: tensor<4x?xf32>: every dimension must be known"
        );
        assert!(refusal("func.func @main(%x: tensor<*xf32>) { return }").contains("tensor<*xf32>"));
        let open = r#"func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a", ?}]>}) { return }"#;
        PjrtProgram::mlir(open).expect("an open sharding is not a dimension");
        assert!(refusal("stablehlo.custom_call @TopK(%a)").contains("chlo.top_k"));
        assert!(
            refusal(r#""stablehlo.custom_call"(%a) <{a = "b", call_target_name = "TopK"}>"#)
                .contains("chlo.top_k")
        );
        assert!(refusal(r#""func.func"() <{sym_name = "main"}> ({})"#).contains("generic"));
    }

    #[test]
    fn hlo_bytes_must_be_a_module() {
        assert!(PjrtProgram::hlo(*b"HloModule jit_f, entry_computation_layout={}").is_err());
        assert!(PjrtProgram::hlo(*b"").is_err());
    }
}
