//! The writer: operations, regions, functions, locations.

use super::types::{TensorType, Value};
use std::collections::HashMap;
use std::fmt::{self, Write};

/// The text of a region that has been written and waits for its operation.
#[derive(Debug)]
pub struct Region(String);

/// Writes one StableHLO module.
#[derive(Debug, Default)]
pub struct Writer {
    body: String,
    functions: Vec<String>,
    next_id: u32,
    depth: usize,
    locations: Vec<String>,
    location_index: HashMap<(&'static str, u32, u32), usize>,
    location: Option<usize>,
    /// What the module declares in front of its functions: the text of each, and its name.
    declarations: Vec<(String, String)>,
    /// The constants of each open region and function, the outermost first.
    constants: Vec<HashMap<String, Value>>,
}

/// A list as an `array<i64: …>` attribute.
pub fn i64_array<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("array<i64");
    for (position, item) in items.into_iter().enumerate() {
        text.push_str(if position == 0 { ": " } else { ", " });
        push(&mut text, format_args!("{item}"));
    }
    text.push('>');
    text
}

fn push(text: &mut String, arguments: fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a String does not fail");
}

fn push_list<T: fmt::Display>(text: &mut String, items: impl IntoIterator<Item = T>) {
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            text.push_str(", ");
        }
        push(text, format_args!("{item}"));
    }
}

/// Attributes behind a type, if there are some.
fn braced(attributes: &str) -> String {
    if attributes.is_empty() { String::new() } else { format!(" {{{attributes}}}") }
}

/// Quotes a string for MLIR: printable ASCII as it is, every other byte as two hex digits.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => quoted.push(byte as char),
            _ => push(&mut quoted, format_args!("\\{byte:02X}")),
        }
    }
    quoted.push('"');
    quoted
}

impl Writer {
    /// An empty module.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Sets the source position that the operations written from here on carry.
    pub fn set_location(&mut self, location: Option<(&'static str, u32, u32)>) {
        self.location = location.map(|key| {
            let next = self.location_index.len();
            *self.location_index.entry(key).or_insert_with(|| {
                self.locations.push(format!("loc({}:{}:{})", quote(key.0), key.1, key.2));
                next
            })
        });
    }

    /// The location in force, for [`Writer::restore_location`].
    pub fn location(&self) -> Option<usize> {
        self.location
    }

    /// Puts a location back.
    pub fn restore_location(&mut self, location: Option<usize>) {
        self.location = location;
    }

    fn fresh(&mut self, ty: TensorType) -> Value {
        self.next_id += 1;
        Value { id: self.next_id - 1, index: None, ty }
    }

    /// Into a region or function.
    fn enter(&mut self) {
        self.constants.truncate(self.depth);
        self.constants.push(HashMap::new());
        self.depth += 1;
    }

    /// Out of it.
    fn leave(&mut self) {
        self.depth -= 1;
        self.constants.truncate(self.depth);
    }

    fn indent(&mut self) {
        for _ in 0..self.depth {
            self.body.push_str("  ");
        }
    }

    fn end_of_op(&mut self) {
        if let Some(location) = self.location {
            push(&mut self.body, format_args!(" loc(#loc{location})"));
        }
        self.body.push('\n');
    }

    /// Writes `"dialect.name"(operands) <{attributes}> ({regions}) : types` and gives its results.
    ///
    /// `name` without a dot is an operation of the `stablehlo` dialect. `attributes` is the text
    /// between the braces, empty for none.
    pub fn op_full(
        &mut self,
        name: &str,
        operands: &[Value],
        attributes: &str,
        regions: Vec<Region>,
        results: &[TensorType],
    ) -> Vec<Value> {
        self.op_annotated(name, operands, attributes, regions, "", results)
    }

    /// The same with attributes of another dialect, `annotations`, which stand behind the regions.
    pub fn op_annotated(
        &mut self,
        name: &str,
        operands: &[Value],
        attributes: &str,
        regions: Vec<Region>,
        annotations: &str,
        results: &[TensorType],
    ) -> Vec<Value> {
        self.indent();
        let id = self.next_id;
        if !results.is_empty() {
            self.next_id += 1;
            push(&mut self.body, format_args!("%{id}"));
            if results.len() > 1 {
                push(&mut self.body, format_args!(":{}", results.len()));
            }
            self.body.push_str(" = ");
        }
        let dialect = if name.contains('.') { "" } else { "stablehlo." };
        push(&mut self.body, format_args!("\"{dialect}{name}\"("));
        push_list(&mut self.body, operands);
        self.body.push(')');
        if !attributes.is_empty() {
            push(&mut self.body, format_args!(" <{{{attributes}}}>"));
        }
        if !regions.is_empty() {
            self.body.push_str(" (");
            push_list(&mut self.body, regions.iter().map(|region| &region.0));
            self.body.push(')');
        }
        if !annotations.is_empty() {
            push(&mut self.body, format_args!(" {{{annotations}}}"));
        }
        self.body.push_str(" : (");
        push_list(&mut self.body, operands.iter().map(Value::ty));
        self.body.push_str(") -> ");
        match results {
            [one] => push(&mut self.body, format_args!("{one}")),
            many => {
                self.body.push('(');
                push_list(&mut self.body, many);
                self.body.push(')');
            }
        }
        self.end_of_op();
        results
            .iter()
            .enumerate()
            .map(|(index, ty)| Value {
                id,
                index: (results.len() > 1).then_some(index as u32),
                ty: ty.clone(),
            })
            .collect()
    }

    /// An operation with one result of the given type.
    pub fn op_as(
        &mut self,
        name: &str,
        operands: &[Value],
        attributes: &str,
        result: &TensorType,
    ) -> Value {
        let mut results =
            self.op_full(name, operands, attributes, Vec::new(), std::slice::from_ref(result));
        results.swap_remove(0)
    }

    /// An operation without attributes whose one result has the type of its first operand.
    ///
    /// # Panics
    /// If there is no operand.
    pub fn op(&mut self, name: &str, operands: &[Value]) -> Value {
        let ty = operands[0].ty.clone();
        self.op_as(name, operands, "", &ty)
    }

    /// A constant; `elements` is what stands between `dense<` and `>`. The same one again in a region is the value that is there.
    pub fn constant(&mut self, elements: &str, ty: &TensorType) -> Value {
        let attribute = format!("value = dense<{elements}> : {ty}");
        // Those of the regions around it could be seen too, but regions of StableHLO are to take what they use as arguments.
        if let Some(known) = self.constants.last().and_then(|all| all.get(&attribute)) {
            return known.clone();
        }
        let value = self.op_as("constant", &[], &attribute, ty);
        if let Some(all) = self.constants.last_mut() {
            all.insert(attribute, value.clone());
        }
        value
    }

    /// Writes a region with one block: `body` gets the block's arguments and gives what it returns.
    pub fn region<E>(
        &mut self,
        arguments: &[TensorType],
        body: impl FnOnce(&mut Writer, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Region, E> {
        let region = self.open_region(arguments);
        match body(self, &region.1) {
            Ok(results) => Ok(self.close_region(region.0, &results)),
            Err(error) => {
                self.body = region.0;
                self.leave();
                Err(error)
            }
        }
    }

    /// Begins a region: gives the text that waits outside, and the block's arguments. To be closed
    /// with [`Writer::close_region`].
    pub fn open_region(&mut self, arguments: &[TensorType]) -> (String, Vec<Value>) {
        let arguments: Vec<Value> = arguments.iter().map(|ty| self.fresh(ty.clone())).collect();
        let outside = std::mem::take(&mut self.body);
        self.enter();
        self.body.push_str("{\n");
        if !arguments.is_empty() {
            self.indent();
            self.body.push_str("^bb0(");
            push_list(&mut self.body, arguments.iter().map(|v| format!("{v}: {}", v.ty)));
            self.body.push_str("):\n");
        }
        (outside, arguments)
    }

    /// Ends a region with a return of `results`.
    pub fn close_region(&mut self, outside: String, results: &[Value]) -> Region {
        self.close_region_with("return", outside, results)
    }

    /// Ends a region of another dialect's operation, whose return is called `terminator`.
    pub fn close_region_with(
        &mut self,
        terminator: &str,
        outside: String,
        results: &[Value],
    ) -> Region {
        self.op_full(terminator, results, "", Vec::new(), &[]);
        self.leave();
        self.indent();
        self.body.push('}');
        Region(std::mem::replace(&mut self.body, outside))
    }

    /// Begins a function: as [`Writer::open_region`], to be closed with [`Writer::close_function`].
    pub fn open_function(&mut self, arguments: &[TensorType]) -> (String, Vec<Value>) {
        let arguments = arguments.iter().map(|ty| self.fresh(ty.clone())).collect();
        self.enter();
        (std::mem::take(&mut self.body), arguments)
    }

    /// Declares something that the module's functions refer to, once: writes `operation @stem text` and gives the name
    /// after the `@`, with a number behind it if the stem is taken.
    pub fn declare(&mut self, operation: &str, stem: &str, text: &str) -> String {
        let known = |name: &String| format!("{operation} @{name} = {text}");
        if let Some((_, name)) =
            self.declarations.iter().find(|(declared, name)| *declared == known(name))
        {
            return name.clone();
        }
        let name = match self.declarations.len() {
            0 => stem.to_string(),
            n => format!("{stem}_{n}"),
        };
        self.declarations.push((known(&name), name.clone()));
        name
    }

    /// Ends the function `@name`.
    pub fn close_function(
        &mut self,
        outside: String,
        name: &str,
        arguments: &[Value],
        results: &[Value],
    ) {
        let none = |_| String::new();
        self.close_function_with(outside, name, arguments, results, none, none);
    }

    /// The same with attributes: `of_arguments` and `of_results` give the attribute text of each, empty for none.
    pub fn close_function_with(
        &mut self,
        outside: String,
        name: &str,
        arguments: &[Value],
        results: &[Value],
        of_arguments: impl Fn(usize) -> String,
        of_results: impl Fn(usize) -> String,
    ) {
        let location = self.location.take();
        self.op_full("func.return", results, "", Vec::new(), &[]);
        self.location = location;
        self.leave();
        let body = std::mem::replace(&mut self.body, outside);
        let visibility = if name == "main" { "public" } else { "private" };
        let mut text = format!("  func.func {visibility} @{name}(");
        push_list(
            &mut text,
            arguments.iter().enumerate().map(|(position, value)| {
                format!("{value}: {}{}", value.ty, braced(&of_arguments(position)))
            }),
        );
        text.push_str(") -> (");
        push_list(
            &mut text,
            results
                .iter()
                .enumerate()
                .map(|(position, value)| format!("{}{}", value.ty, braced(&of_results(position)))),
        );
        text.push_str(") {\n");
        text.push_str(&body);
        text.push_str("  }\n");
        self.functions.push(text);
    }

    /// The finished module, called `name`.
    pub fn finish(self, name: &str) -> String {
        let size = self.functions.iter().map(String::len).sum::<usize>();
        let mut text = String::with_capacity(size + 64 * self.locations.len() + 128);
        // Compilers want a name.
        let name = if name.is_empty() { "module" } else { name };
        push(&mut text, format_args!("module @{} {{\n", quote(name)));
        for (declaration, _) in &self.declarations {
            push(&mut text, format_args!("  {declaration}\n"));
        }
        for function in self.functions.iter().rev() {
            text.push_str(function);
        }
        text.push_str("}\n");
        for (index, location) in self.locations.iter().enumerate() {
            push(&mut text, format_args!("#loc{index} = {location}\n"));
        }
        text
    }
}

/// The text of a module that a [`Writer`] has finished, without its source positions, in pieces.
///
/// ```
/// use oxidax::stablehlo::{Writer, without_locations};
/// let module = |line: u32| {
///     let mut writer = Writer::new();
///     let (outside, _) = writer.open_function(&[]);
///     writer.set_location(Some(("main.rs", line, 1)));
///     writer.op_full("after_all", &[], "", Vec::new(), &[]);
///     writer.close_function(outside, "main", &[], &[]);
///     writer.finish("module")
/// };
/// let bare = |text: &str| without_locations(text).collect::<String>();
/// assert_ne!(module(1), module(2));
/// assert_eq!(bare(&module(1)), bare(&module(2)));
/// ```
pub fn without_locations(text: &str) -> impl Iterator<Item = &str> {
    // A line break in a string is written as its number, so what ends a line is what was written to end it.
    text.split_inclusive('\n').filter(|line| !line.starts_with("#loc")).flat_map(|line| {
        let bare = line.rfind(" loc(#loc").filter(|at| {
            let number = line[at + " loc(#loc".len()..].strip_suffix(")\n");
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        match bare {
            Some(at) => [&line[..at], "\n"],
            None => [line, ""],
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_module_with_a_region() {
        let mut writer = Writer::new();
        let ty = TensorType::new("f32", &[4]);
        let (outside, args) = writer.open_function(std::slice::from_ref(&ty));
        writer.set_location(Some(("src/a \"b\".rs", 3, 7)));
        let zero = writer.constant("0.0", &ty.scalar());
        let region = writer
            .region::<()>(&[ty.scalar(), ty.scalar()], |w, x| Ok(vec![w.op("add", x)]))
            .expect("the closure returns Ok");
        let operands = [args[0].clone(), zero];
        let sum = writer.op_full(
            "reduce",
            &operands,
            &format!("dimensions = {}", i64_array([0])),
            vec![region],
            &[ty.scalar()],
        );
        writer.close_function_with(
            outside,
            "main",
            &args,
            &sum,
            |_| "jax.buffer_donor = true".into(),
            |_| String::new(),
        );
        expect![[r#"
            module @"m" {
              func.func public @main(%0: tensor<4xf32> {jax.buffer_donor = true}) -> (tensor<f32>) {
              %1 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32> loc(#loc0)
              %5 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 0>}> ({
                ^bb0(%2: tensor<f32>, %3: tensor<f32>):
                %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc0)
                "stablehlo.return"(%4) : (tensor<f32>) -> () loc(#loc0)
              }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc(#loc0)
              "func.return"(%5) : (tensor<f32>) -> ()
              }
            }
            #loc0 = loc("src/a \22b\22.rs":3:7)
        "#]]
        .assert_eq(&writer.finish("m"));
    }
    #[test]
    fn a_constant_is_written_once_in_each_region() {
        let mut writer = Writer::new();
        let ty = TensorType::new("f32", &[]);
        let (outside, args) = writer.open_function(std::slice::from_ref(&ty));
        let [one, again, two] = ["1.0", "1.0", "2.0"].map(|x| writer.constant(x, &ty));
        let of_half = writer.constant("1.0", &TensorType::new("f16", &[]));
        let (before, inner) = writer.open_region(&[]);
        assert!(inner.is_empty());
        let inside = writer.constant("1.0", &ty);
        writer.close_region(before, std::slice::from_ref(&inside));
        let after = writer.constant("1.0", &ty);
        writer.close_function(outside, "main", &args, &[]);
        let (outside, args) = writer.open_function(&[]);
        let elsewhere = writer.constant("1.0", &ty);
        writer.close_function(outside, "other", &args, &[]);
        let name = |value: &Value| value.to_string();
        assert_eq!((name(&again), name(&after)), (name(&one), name(&one)));
        for other in [two, of_half, inside, elsewhere] {
            assert_ne!(name(&other), name(&one));
        }
    }
}
