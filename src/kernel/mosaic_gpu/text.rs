//! [`Writer`]: the text of a Mosaic GPU module, whose values are scalars of one thread.

use super::indices::Index;
use super::types::element_type;
use crate::core::{DType, Loc, Scalar};
use crate::kernel::source_locations::SourceLocations;
use std::collections::HashMap;
use std::fmt::{Display, Write as _};

/// A scalar in the text, and its dtype.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) dtype: DType,
}

/// Returns items separated by commas.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

/// A region that is being written: the text outside of it.
pub(super) struct Open(String);

/// The text of a module in the stable form.
///
/// An operation without effects is written once in a region and those inside of it.
#[derive(Debug, Default)]
pub(super) struct Writer {
    body: String,
    n_values: usize,
    locations: SourceLocations,
    /// The results of operations in the open regions, innermost last.
    known: Vec<HashMap<String, String>>,
}

impl Writer {
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

    /// Writes an operation. `types` are those of operands and results. Returns the name of the
    /// result, if it has one.
    pub(super) fn op(
        &mut self,
        name: &str,
        operands: &[&str],
        attributes: &str,
        regions: &[String],
        types: (&[&str], &str),
    ) -> String {
        let (result, location) = (self.fresh(), self.locations.suffix());
        let text = operation(name, operands, attributes, regions, types);
        let assigned = if types.1 == "()" { String::new() } else { format!("{result} = ") };
        writeln!(self.body, "{assigned}{text}{location}").expect("strings take any text");
        result
    }

    /// Writes an operation without effects, or returns the result of an equal one.
    fn pure(
        &mut self,
        name: &str,
        operands: &[&str],
        attributes: &str,
        types: (&[&str], &str),
    ) -> String {
        let text = operation(name, operands, attributes, &[], types);
        if let Some(known) = self.known.iter().rev().find_map(|all| all.get(&text)) {
            return known.clone();
        }
        let result = self.op(name, operands, attributes, &[], types);
        if let Some(all) = self.known.last_mut() {
            all.insert(text, result.clone());
        }
        result
    }

    /// Writes an operation without effects on elements, with a result of this dtype.
    pub(super) fn apply(
        &mut self,
        name: &str,
        operands: &[&Element],
        attributes: &str,
        dtype: DType,
    ) -> Element {
        let names: Vec<&str> = operands.iter().map(|x| x.name.as_str()).collect();
        let types: Vec<&str> = operands.iter().map(|x| element_type(x.dtype)).collect();
        let name = self.pure(name, &names, attributes, (&types, element_type(dtype)));
        Element { name, dtype }
    }

    /// Writes an operation of one operand, and a result of its dtype.
    pub(super) fn unary(&mut self, name: &str, x: &Element) -> Element {
        self.apply(name, &[x], "fastmath = #arith.fastmath<none>", x.dtype)
    }

    /// Writes an operation of two operands of one dtype, and a result of it.
    pub(super) fn binary(&mut self, name: &str, x: &Element, y: &Element) -> Element {
        let attributes = match name {
            "arith.addi" | "arith.subi" | "arith.muli" | "arith.shli" => {
                "overflowFlags = #arith.overflow<none>"
            }
            _ if x.dtype.is_float() => "fastmath = #arith.fastmath<none>",
            _ => "",
        };
        self.apply(name, &[x, y], attributes, x.dtype)
    }

    /// Compares two elements, by the number of the predicate.
    pub(super) fn compare(&mut self, predicate: Predicate, x: &Element, y: &Element) -> Element {
        let is_unsigned = x.dtype.is_unsigned() || x.dtype.is_bool();
        match x.dtype.is_float() {
            true => {
                let attributes = format!(
                    "predicate = {} : i64, fastmath = #arith.fastmath<none>",
                    predicate.of_floats()
                );
                self.apply("arith.cmpf", &[x, y], &attributes, DType::Bool)
            }
            false => {
                let attributes = format!("predicate = {} : i64", predicate.of_ints(is_unsigned));
                self.apply("arith.cmpi", &[x, y], &attributes, DType::Bool)
            }
        }
    }

    pub(super) fn select(&mut self, mask: &Element, x: &Element, y: &Element) -> Element {
        self.apply("arith.select", &[mask, x, y], "", x.dtype)
    }

    /// Returns a constant.
    pub(super) fn fill(&mut self, value: Scalar, dtype: DType) -> Element {
        let mut text = value.stablehlo(dtype);
        if dtype.is_unsigned() {
            // Integers have no sign: the largest numbers are written as negative ones.
            let (_, high) = dtype.int_range();
            let number = text.parse::<i128>().expect("an integer prints its digits");
            if number > high / 2 {
                text = (number - high - 1).to_string();
            }
        }
        let ty = element_type(dtype);
        let attributes = match dtype.is_bool() {
            true => format!("value = {text}"),
            false => format!("value = {text} : {ty}"),
        };
        Element { name: self.pure("arith.constant", &[], &attributes, (&[], ty)), dtype }
    }

    pub(super) fn int(&mut self, value: i128, dtype: DType) -> Element {
        self.fill(Scalar::Int(value), dtype)
    }

    pub(super) fn float(&mut self, value: f64, dtype: DType) -> Element {
        self.fill(Scalar::Float(value), dtype)
    }

    /// Returns a constant of the type `index`, which only `gpu.launch` takes.
    pub(super) fn size(&mut self, value: usize) -> String {
        self.pure("arith.constant", &[], &format!("value = {value} : index"), (&[], "index"))
    }

    /// Converts a value of the type `index` to `i32`.
    pub(super) fn index_from(&mut self, name: &str) -> Index {
        Index::Name(self.pure("arith.index_cast", &[name], "", (&["index"], "i32")))
    }

    /// Converts between types of one element.
    pub(super) fn cast(&mut self, name: &str, operand: &str, types: (&str, &str)) -> String {
        self.pure(name, &[operand], "", (&[types.0], types.1))
    }

    /// Writes the number of the thread, and the pointer of shared memory, under these names.
    pub(super) fn thread_and_shared(&mut self, thread: &str, pointer: &str) {
        let bytes = "memref<?xi8, #gpu.address_space<workgroup>>";
        let mut line = |result: &str, name: &str, operands: &[&str], types: (&[&str], &str)| {
            let text = operation(name, operands, "", &[], types);
            writeln!(self.body, "{result} = {text}").expect("strings take any text");
        };
        line(thread, "arith.index_cast", &["%tx"], (&["index"], "i32"));
        line("%bytes", "gpu.dynamic_shared_memory", &[], (&[], bytes));
        let address = "memref.extract_aligned_pointer_as_index";
        line("%address", address, &["%bytes"], (&[bytes], "index"));
        line("%number", "arith.index_cast", &["%address"], (&["index"], "i64"));
        line(pointer, "llvm.inttoptr", &["%number"], (&["i64"], "!llvm.ptr<3>"));
    }

    /// Exchanges a value of 32 bits with the thread of the warp whose number differs by `distance`
    /// in one bit.
    pub(super) fn exchange(
        &mut self,
        value: &str,
        distance: &str,
        width: &str,
        dtype: DType,
    ) -> String {
        let (ty, attributes) = (element_type(dtype), "mode = #gpu.shuffle_mode<xor>");
        let (result, location) = (self.fresh(), self.locations.suffix());
        let types = [ty, "i32", "i32"];
        let both = format!("({ty}, i1)");
        let text =
            operation("gpu.shuffle", &[value, distance, width], attributes, &[], (&types, &both));
        writeln!(self.body, "{result}:2 = {text}{location}").expect("strings take any text");
        format!("{result}#0")
    }

    /// Returns the pointer of an element. `space` is the type of pointers.
    pub(super) fn pointer(
        &mut self,
        base: &str,
        space: &str,
        (offset, offset_type): (&str, &str),
        element: &str,
    ) -> String {
        let attributes =
            format!("elem_type = {element}, rawConstantIndices = array<i32: -2147483648>");
        let types = [space, offset_type];
        self.pure("llvm.getelementptr", &[base, offset], &attributes, (&types, space))
    }

    /// Begins a region with these arguments.
    pub(super) fn open(&mut self, arguments: &[(&str, &str)]) -> Open {
        let outside = std::mem::take(&mut self.body);
        self.known.push(HashMap::new());
        self.body.push_str("{\n");
        if !arguments.is_empty() {
            let arguments = list(arguments.iter().map(|(name, ty)| format!("{name}: {ty}")));
            writeln!(self.body, "^bb0({arguments}):").expect("strings take any text");
        }
        Open(outside)
    }

    /// Ends a region. Returns its text.
    pub(super) fn close(&mut self, open: Open) -> String {
        self.known.pop();
        self.body.push('}');
        std::mem::replace(&mut self.body, open.0)
    }

    /// Returns the text of the module.
    pub(super) fn finish(self) -> String {
        let version = "attributes {stable_mosaic_gpu.version = 9 : i64}";
        let mut text = format!("module {version} {{\n{}}}\n", self.body);
        self.locations.define(&mut text);
        text
    }
}

/// A comparison. Of floats, only `NotEqual` and `Unordered` hold for NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predicate {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Unordered,
}

impl Predicate {
    /// Returns the number of the predicate of `arith.cmpf`.
    fn of_floats(self) -> i64 {
        match self {
            Predicate::Equal => 1,
            Predicate::Greater => 2,
            Predicate::GreaterEqual => 3,
            Predicate::Less => 4,
            Predicate::LessEqual => 5,
            Predicate::NotEqual => 13,
            Predicate::Unordered => 14,
        }
    }

    /// Returns the number of the predicate of `arith.cmpi`.
    fn of_ints(self, is_unsigned: bool) -> i64 {
        let signed = match self {
            Predicate::Equal | Predicate::Unordered => return 0,
            Predicate::NotEqual => return 1,
            Predicate::Less => 2,
            Predicate::LessEqual => 3,
            Predicate::Greater => 4,
            Predicate::GreaterEqual => 5,
        };
        if is_unsigned { signed + 4 } else { signed }
    }
}

/// Returns the text of an operation, without its result.
fn operation(
    name: &str,
    operands: &[&str],
    attributes: &str,
    regions: &[String],
    (types, result): (&[&str], &str),
) -> String {
    let mut text = format!("\"stable_mosaic_gpu.{name}\"({})", list(operands));
    if !regions.is_empty() {
        write!(text, " ({})", list(regions)).expect("strings take any text");
    }
    if !attributes.is_empty() {
        write!(text, " {{{attributes}}}").expect("strings take any text");
    }
    write!(text, " : ({}) -> {result}", list(types)).expect("strings take any text");
    text
}
