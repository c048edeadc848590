//! Printing of programs in the style of a jaxpr.
//!
//! ```text
//! { lambda ; a:f32[3] b:f32[]. let
//!     c:f32[3] = sin a
//!     d:f32[] = reduce_sum[axes=[0]] c
//!   in (d) }
//! ```
//! Parameters are the primitive's fields as JSON. Programs that a primitive holds are nested. The
//! mesh of types such as `f32[8@data]` follows `lambda`, as `mesh=` and JSON.

use crate::core::{Eqn, Program, Var};
use serde_json::Value;
use std::fmt::{self, Display, Formatter};

/// Returns the name of a variable: `a` … `z`, `aa`, `ab`, ….
fn name(var: Var) -> String {
    let mut letters = Vec::new();
    let mut rest = var as usize + 1;
    while rest > 0 {
        letters.push(b'a' + ((rest - 1) % 26) as u8);
        rest = (rest - 1) / 26;
    }
    letters.iter().rev().map(|&letter| letter as char).collect()
}

fn binder(program: &Program, var: Var) -> String {
    format!("{}:{}", name(var), program.aval(var))
}

fn join<T>(items: impl IntoIterator<Item = T>, show: impl Fn(T) -> String) -> String {
    items.into_iter().map(show).collect::<Vec<_>>().join(" ")
}

/// A program with all lines but the first indented by `depth` levels of four spaces.
struct Nested<'a>(&'a Program, usize);

impl Display for Nested<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Nested(program, depth) = *self;
        let inputs = join(program.inputs(), |&var| binder(program, var));
        let space = if inputs.is_empty() { "" } else { " " };
        match program.explicit_mesh().filter(|_| depth == 0) {
            Some(mesh) => {
                let mesh = serde_json::to_string(mesh).map_err(|_| fmt::Error)?;
                writeln!(f, "{{ lambda mesh={mesh} ;{space}{inputs}. let")?;
            }
            None => writeln!(f, "{{ lambda ;{space}{inputs}. let")?,
        }
        let indent = "    ".repeat(depth);
        for eqn in program.eqns() {
            write!(f, "{indent}    ")?;
            write_eqn(f, program, eqn, depth)?;
            writeln!(f)?;
        }
        let outputs = program.outputs().iter().map(|&var| name(var)).collect::<Vec<_>>();
        write!(f, "{indent}  in ({}) }}", outputs.join(" "))
    }
}

fn write_eqn(f: &mut Formatter<'_>, program: &Program, eqn: &Eqn, depth: usize) -> fmt::Result {
    let results = join(&eqn.results, |&var| binder(program, var));
    let space = if results.is_empty() { "" } else { " " };
    write!(f, "{results}{space}= {}", eqn.primitive.name())?;
    let mut parts: Vec<String> = match eqn.primitive.params() {
        Value::Object(fields) => {
            fields.iter().map(|(field, value)| format!("{field}={value}")).collect()
        }
        Value::Null => Vec::new(),
        other => vec![format!("={other}")],
    };
    let holder = eqn.primitive.as_higher_order();
    for (field, inner) in holder.iter().flat_map(|holder| holder.programs()) {
        parts.push(format!("{field}={}", Nested(inner, depth + 1)));
    }
    if !parts.is_empty() {
        write!(f, "[{}]", parts.join(" "))?;
    }
    for &var in &eqn.operands {
        write!(f, " {}", name(var))?;
    }
    Ok(())
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Nested(self, 0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_names_count_like_spreadsheet_columns() {
        assert_eq!(name(0), "a");
        assert_eq!(name(25), "z");
        assert_eq!(name(26), "aa");
        assert_eq!(name(26 + 26 * 26), "aaa");
    }
}
