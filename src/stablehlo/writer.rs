//! [`Writer`]: writes operations, regions, functions and locations.

use super::types::{TensorType, Value};
use std::collections::HashMap;
use std::fmt::{self, Write};

/// The text of a finished region, which an operation takes.
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
    /// The indices of positions.
    location_index: HashMap<(&'static str, u32, u32), usize>,
    /// The indices of named locations, by the name and the index of the position.
    named_index: HashMap<(String, Option<usize>), usize>,
    location: Option<usize>,
    /// The declarations before the functions: text and name of each.
    declarations: Vec<(String, String)>,
    /// The constants of each open region and function, outermost first.
    constants: Vec<HashMap<String, Value>>,
    frontend_attributes: FrontendAttributes,
}

/// The `mhlo.frontend_attributes` of the operations at a depth, if there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontendAttributes(Option<(usize, String)>);

/// Formats a list as an `array<i64: …>` attribute.
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

/// Formats attributes that follow a type. Empty if there are none.
fn braced(attributes: &str) -> String {
    if attributes.is_empty() { String::new() } else { format!(" {{{attributes}}}") }
}

/// Quotes a string for MLIR. Printable ASCII is kept, other bytes become two hex digits.
pub(crate) fn quote(text: &str) -> String {
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
    /// Creates an empty module.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Sets the source position of the operations written from now on.
    pub fn set_location(&mut self, location: Option<(&'static str, u32, u32)>) {
        self.location = location.map(|key| {
            let next = self.locations.len();
            *self.location_index.entry(key).or_insert_with(|| {
                self.locations.push(format!("loc({}:{}:{})", quote(key.0), key.1, key.2));
                next
            })
        });
    }

    /// Sets the source position of the operations written from now on, with a name for them.
    pub fn set_named_location(&mut self, name: String, location: Option<(&'static str, u32, u32)>) {
        self.set_location(location);
        let position = self.location;
        let next = self.locations.len();
        let key = (name, position);
        if let Some(&index) = self.named_index.get(&key) {
            self.location = Some(index);
            return;
        }
        let inner = position.map_or(String::new(), |at| format!("(#loc{at})"));
        self.locations.push(format!("loc({}{inner})", quote(&key.0)));
        self.named_index.insert(key, next);
        self.location = Some(next);
    }

    /// Returns the current location for [`Writer::restore_location`].
    pub fn location(&self) -> Option<usize> {
        self.location
    }

    /// Restores a location returned by [`Writer::location`].
    pub fn restore_location(&mut self, location: Option<usize>) {
        self.location = location;
    }

    fn fresh(&mut self, ty: TensorType) -> Value {
        self.next_id += 1;
        Value { id: self.next_id - 1, index: None, ty }
    }

    /// Enters a region or function.
    fn enter(&mut self) {
        self.constants.truncate(self.depth);
        self.constants.push(HashMap::new());
        self.depth += 1;
    }

    /// Leaves a region or function.
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

    /// Writes `"dialect.name"(operands) <{attributes}> ({regions}) : types` and returns the
    /// results.
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

    /// Writes an operation as [`Writer::op_full`] does, with attributes of another dialect,
    /// `annotations`, after the regions.
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
        let frontend = self.frontend_attributes.0.as_ref();
        // Constants are shared by the whole region.
        let frontend = frontend.filter(|(depth, _)| *depth == self.depth && name != "constant");
        let prefix = "mhlo.frontend_attributes = {";
        match (frontend, annotations.split_once(prefix)) {
            (None, _) if annotations.is_empty() => {}
            (None, _) => push(&mut self.body, format_args!(" {{{annotations}}}")),
            (Some((_, own)), Some((before, after))) => {
                push(&mut self.body, format_args!(" {{{before}{prefix}{own}, {after}}}"));
            }
            (Some((_, own)), None) => {
                let separator = if annotations.is_empty() { "" } else { ", " };
                let own = format_args!(" {{{annotations}{separator}{prefix}{own}}}}}");
                push(&mut self.body, own);
            }
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

    /// Sets the `mhlo.frontend_attributes` of the operations that are written from now on in this
    /// region, as the inside of a dictionary. Regions inside have none. Returns those before.
    pub(crate) fn set_frontend_attributes(
        &mut self,
        attributes: Option<String>,
    ) -> FrontendAttributes {
        let attributes = FrontendAttributes(attributes.map(|text| (self.depth, text)));
        self.restore_frontend_attributes(attributes)
    }

    /// Restores attributes that [`set_frontend_attributes`](Self::set_frontend_attributes)
    /// returned. Returns those before.
    pub(crate) fn restore_frontend_attributes(
        &mut self,
        attributes: FrontendAttributes,
    ) -> FrontendAttributes {
        std::mem::replace(&mut self.frontend_attributes, attributes)
    }

    /// Writes an operation with one result of type `result`.
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

    /// Writes an operation without attributes whose only result has the type of the first operand.
    ///
    /// # Panics
    /// If there is no operand.
    pub fn op(&mut self, name: &str, operands: &[Value]) -> Value {
        let ty = operands[0].ty.clone();
        self.op_as(name, operands, "", &ty)
    }

    /// Writes a transposition, unless the permutation keeps every axis.
    pub(crate) fn transposed(&mut self, x: &Value, permutation: &[usize]) -> Value {
        if permutation.iter().copied().eq(0..permutation.len()) {
            return x.clone();
        }
        let dims: Vec<usize> = permutation.iter().map(|&axis| x.ty.dims()[axis]).collect();
        let attributes = format!("permutation = {}", i64_array(permutation));
        let ty = x.ty.with_dims(&dims);
        self.op_as("transpose", std::slice::from_ref(x), &attributes, &ty)
    }

    /// Writes a reshape, unless the value has the type already.
    pub(crate) fn reshaped(&mut self, x: &Value, ty: &TensorType) -> Value {
        if x.ty == *ty {
            return x.clone();
        }
        self.op_as("reshape", std::slice::from_ref(x), "", ty)
    }

    /// Prescribes the layout of a value: the elements of the last axis are neighbours. XLA chooses
    /// layouts itself otherwise, and removes transpositions by a choice.
    pub(crate) fn in_default_layout(&mut self, x: &Value) -> Value {
        let rank = x.ty.dims().len();
        let axes: Vec<String> = (0..rank).rev().map(|axis| axis.to_string()).collect();
        let layout = format!("[dense<[{}]> : tensor<{rank}xindex>]", axes.join(", "));
        let attributes = format!(
            "call_target_name = \"LayoutConstraint\", operand_layouts = {layout}, \
             result_layouts = {layout}"
        );
        self.op_as("custom_call", std::slice::from_ref(x), &attributes, &x.ty.clone())
    }

    /// Writes a constant. `elements` is the text between `dense<` and `>`. Returns the existing
    /// value if the region already contains this constant.
    pub fn constant(&mut self, elements: &str, ty: &TensorType) -> Value {
        let attribute = format!("value = dense<{elements}> : {ty}");
        // Constants of outer regions are not reused: regions of StableHLO take operands as
        // arguments.
        if let Some(constant) = self.constants.last().and_then(|all| all.get(&attribute)) {
            return constant.clone();
        }
        let value = self.op_as("constant", &[], &attribute, ty);
        if let Some(all) = self.constants.last_mut() {
            all.insert(attribute, value.clone());
        }
        value
    }

    /// Writes a region with one block. `body` maps the block's arguments to its results.
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

    /// Begins a region. Returns the text outside, for [`Writer::close_region`], and the block's
    /// arguments.
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

    /// Ends a region that returns `results`.
    pub fn close_region(&mut self, outside: String, results: &[Value]) -> Region {
        self.close_region_with("return", outside, results)
    }

    /// Ends a region of another dialect, whose return operation is `terminator`.
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

    /// Begins a function, as [`Writer::open_region`] begins a region. [`Writer::close_function`]
    /// ends it.
    pub fn open_function(&mut self, arguments: &[TensorType]) -> (String, Vec<Value>) {
        let arguments = arguments.iter().map(|ty| self.fresh(ty.clone())).collect();
        self.enter();
        (std::mem::take(&mut self.body), arguments)
    }

    /// Declares a symbol once for the whole module: writes `operation @stem = text`. Returns the
    /// symbol's name, which is `stem`, with a number if that is taken.
    pub fn declare(&mut self, operation: &str, stem: &str, text: &str) -> String {
        let declaration = |name: &String| format!("{operation} @{name} = {text}");
        let mut declarations = self.declarations.iter();
        if let Some((_, name)) = declarations.find(|(text, name)| *text == declaration(name)) {
            return name.clone();
        }
        let name = match self.declarations.len() {
            0 => stem.to_string(),
            n => format!("{stem}_{n}"),
        };
        self.declarations.push((declaration(&name), name.clone()));
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

    /// Ends the function `@name` with attributes: `argument_attributes` and `result_attributes`
    /// return the text for each index, empty for none.
    pub fn close_function_with(
        &mut self,
        outside: String,
        name: &str,
        arguments: &[Value],
        results: &[Value],
        argument_attributes: impl Fn(usize) -> String,
        result_attributes: impl Fn(usize) -> String,
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
                format!("{value}: {}{}", value.ty, braced(&argument_attributes(position)))
            }),
        );
        text.push_str(") -> (");
        push_list(
            &mut text,
            results.iter().enumerate().map(|(position, value)| {
                format!("{}{}", value.ty, braced(&result_attributes(position)))
            }),
        );
        text.push_str(") {\n");
        text.push_str(&body);
        text.push_str("  }\n");
        self.functions.push(text);
    }

    /// Returns the text of the module `name`.
    pub fn finish(self, name: &str) -> String {
        let size = self.functions.iter().map(String::len).sum::<usize>();
        let mut text = String::with_capacity(size + 64 * self.locations.len() + 128);
        // Compilers require a name.
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

/// Removes the source positions from the text of a module. Returns the remaining pieces.
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
    // Line breaks within strings are quoted, so every line break ends a line.
    text.split_inclusive('\n').filter(|line| !line.starts_with("#loc")).flat_map(|line| {
        let location = line.rfind(" loc(#loc").filter(|start| {
            let number = line[start + " loc(#loc".len()..].strip_suffix(")\n");
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        match location {
            Some(start) => [&line[..start], "\n"],
            None => [line, ""],
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn module_with_a_region_prints() {
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
    fn constants_are_written_once_per_region() {
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
