//! [`Text`]: the text of a Mosaic module, and [`Val`], the values in it.

use crate::core::{Aval, DType, Loc, RuleError, RuleResult, Scalar};
use crate::kernel::source_locations::SourceLocations;
use std::collections::HashMap;
use std::fmt::{Display, Write as _};

/// A scalar (rank 0) or vector in a kernel.
#[derive(Clone, Debug)]
pub(super) struct Val {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    /// A number that divides the value, if it is an integer scalar. 0 divides only 0.
    pub(super) multiple: u64,
}

impl Val {
    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(super) fn ty(&self) -> String {
        value_type(self.dtype, &self.shape)
    }

    pub(super) fn aval(&self) -> Aval {
        Aval::new(self.dtype, self.shape.as_slice())
    }
}

/// Returns the element type of a dtype. Mosaic's integers have no sign.
pub(super) fn element(dtype: DType) -> String {
    match dtype {
        DType::Bool => "i1".to_string(),
        _ if dtype.is_integer() => format!("i{}", dtype.bits()),
        _ => dtype.stablehlo().to_string(),
    }
}

/// Checks that Mosaic has the dtype.
pub(super) fn check_dtype(dtype: DType) -> RuleResult<()> {
    let is_narrow_float = dtype.is_float() && dtype.bits() == 8;
    let exists = match dtype {
        DType::Bool | DType::F32 | DType::BF16 => true,
        _ if dtype.is_integer() => (4..=32).contains(&dtype.bits()),
        _ => is_narrow_float,
    };
    if exists {
        return Ok(());
    }
    let help = match dtype {
        DType::I64 | DType::U64 => "convert to i32",
        DType::F16 => "convert to bf16 or f32",
        _ => "convert to f32",
    };
    let other = "; for other platforms alone, set `Kernel::targets`";
    Err(RuleError::dtype(format!("a TPU kernel has no {dtype}")).help(format!("{help}{other}")))
}

/// Returns the type of a scalar or vector.
pub(super) fn value_type(dtype: DType, shape: &[usize]) -> String {
    match shape {
        [] => element(dtype),
        _ => format!("vector<{}{}>", dims(shape), element(dtype)),
    }
}

/// Returns sizes in the form `8x128x`.
pub(super) fn dims(shape: &[usize]) -> String {
    shape.iter().map(|size| format!("{size}x")).collect()
}

/// Returns items separated by commas.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

/// The text of a module in the stable form, and the scope of values.
#[derive(Debug, Default)]
pub(super) struct Text {
    body: String,
    n_values: usize,
    locations: SourceLocations,
    /// The constants of the open regions, innermost last.
    constants: Vec<HashMap<String, String>>,
}

impl Text {
    /// Sets the source position of the following operations. Returns the previous one.
    pub(super) fn set_loc(&mut self, loc: Loc) -> Option<usize> {
        self.locations.set(loc)
    }

    pub(super) fn restore_loc(&mut self, outer: Option<usize>) {
        self.locations.restore(outer);
    }

    /// Returns an unused name.
    pub(super) fn fresh(&mut self) -> String {
        self.n_values += 1;
        format!("%{}", self.n_values - 1)
    }

    /// Writes an operation. `operands` are names with types; `results` are types. Returns the names
    /// of the results.
    pub(super) fn op(
        &mut self,
        name: &str,
        operands: &[(&str, String)],
        attributes: &str,
        regions: &[String],
        results: &[String],
    ) -> Vec<String> {
        let first = self.fresh();
        let names: Vec<String> = match results {
            [] => Vec::new(),
            [_] => vec![first.clone()],
            many => (0..many.len()).map(|index| format!("{first}#{index}")).collect(),
        };
        let mut line = String::new();
        match results.len() {
            0 => {}
            1 => push(&mut line, format_args!("{first} = ")),
            n => push(&mut line, format_args!("{first}:{n} = ")),
        }
        let arguments = list(operands.iter().map(|(name, _)| name));
        push(&mut line, format_args!("\"stable_mosaic.{name}\"({arguments})"));
        if !regions.is_empty() {
            push(&mut line, format_args!(" ({})", regions.join(", ")));
        }
        if !attributes.is_empty() {
            push(&mut line, format_args!(" {{{attributes}}}"));
        }
        let types = list(operands.iter().map(|(_, ty)| ty));
        push(&mut line, format_args!(" : ({types}) -> "));
        match results {
            [one] => line.push_str(one),
            many => push(&mut line, format_args!("({})", list(many))),
        }
        line.push_str(&self.locations.suffix());
        line.push('\n');
        self.body.push_str(&line);
        names
    }

    /// Writes an operation with one result.
    pub(super) fn value(
        &mut self,
        name: &str,
        operands: &[&Val],
        attributes: &str,
        (dtype, shape): (DType, &[usize]),
    ) -> Val {
        let operands: Vec<(&str, String)> =
            operands.iter().map(|value| (value.name.as_str(), value.ty())).collect();
        let names = self.op(name, &operands, attributes, &[], &[value_type(dtype, shape)]);
        Val { name: names[0].clone(), dtype, shape: shape.to_vec(), multiple: 1 }
    }

    /// Returns a constant of this type, which is written once per region.
    fn constant_text(&mut self, elements: &str, ty: &str) -> String {
        let attribute = match ty.starts_with("vector") {
            true => format!("value = dense<{elements}> : {ty}"),
            false if ty == "i1" => format!("value = {elements}"),
            false => format!("value = {elements} : {ty}"),
        };
        let known = self.constants.iter().rev().find_map(|all| all.get(&attribute));
        if let Some(name) = known {
            return name.clone();
        }
        let name =
            self.op("arith.constant", &[], &attribute, &[], &[ty.to_string()]).swap_remove(0);
        if let Some(all) = self.constants.last_mut() {
            all.insert(attribute, name.clone());
        }
        name
    }

    /// Returns a scalar or vector whose elements are equal.
    pub(super) fn fill(&mut self, value: Scalar, dtype: DType, shape: &[usize]) -> Val {
        // Mosaic's integers have no sign, so an unsigned number is written as the signed one with
        // the same bits.
        let elements = match dtype {
            _ if dtype.is_unsigned() => value.stablehlo(signed(dtype)),
            _ => value.stablehlo(dtype),
        };
        let name = self.constant_text(&elements, &value_type(dtype, shape));
        let multiple = match value {
            Scalar::Int(number) => u64::try_from(number.unsigned_abs()).unwrap_or(1),
            _ => 1,
        };
        Val { name, dtype, shape: shape.to_vec(), multiple }
    }

    pub(super) fn int(&mut self, value: i64) -> Val {
        self.fill(Scalar::Int(i128::from(value)), DType::I32, &[])
    }

    /// Returns a constant index.
    pub(super) fn index(&mut self, value: usize) -> String {
        self.constant_text(&value.to_string(), "index")
    }

    /// Converts an i32 to an index.
    pub(super) fn index_of(&mut self, value: &Val) -> String {
        let operand = [(value.name.as_str(), value.ty())];
        self.op("arith.index_cast", &operand, "", &[], &["index".to_string()]).swap_remove(0)
    }

    /// Begins a region with these arguments. Returns the text outside, for [`Text::close`].
    pub(super) fn open(&mut self, arguments: &[(String, String)]) -> String {
        let outside = std::mem::take(&mut self.body);
        self.constants.push(HashMap::new());
        self.body.push_str("{\n");
        if !arguments.is_empty() {
            let arguments = list(arguments.iter().map(|(name, ty)| format!("{name}: {ty}")));
            push(&mut self.body, format_args!("^bb0({arguments}):\n"));
        }
        outside
    }

    /// Ends a region. Returns its text.
    pub(super) fn close(&mut self, outside: String) -> String {
        self.constants.pop();
        self.body.push('}');
        std::mem::replace(&mut self.body, outside)
    }

    /// Returns the text of the module with this name, an identifier.
    pub(super) fn finish(self, name: &str) -> String {
        let version = "attributes {stable_mosaic.version = 11 : i64}";
        let mut text = format!("module @{name} {version} {{\n{}}}\n", self.body);
        self.locations.define(&mut text);
        text
    }
}

/// Returns the signed dtype of the same width.
pub(super) fn signed(dtype: DType) -> DType {
    match dtype {
        DType::U4 => DType::I4,
        DType::U8 => DType::I8,
        DType::U16 => DType::I16,
        DType::U32 => DType::I32,
        other => other,
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string grows without errors");
}
