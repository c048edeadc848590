//! Parsing of printed programs.

use crate::core::trace::result_avals;
use crate::core::{
    Aval, AxisSpec, DType, Eqn, Error, Loc, MemoryKind, Mesh, NamedSharding, OpError, OpErrorKind,
    PartitionSpec, Program, RegistryEntry, Var, Varying,
};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::str::FromStr;

/// Parses the text that `Program`'s `Display` writes. `entries` construct the primitives.
///
/// Source positions are not part of the text, so the program has none.
///
/// # Errors
/// [`Error::Op`] with line and column of the first invalid text. This includes primitives that are
/// missing from `entries` or reject their operands.
pub fn parse(text: &str, entries: &[&[RegistryEntry]]) -> Result<Program, Error> {
    let mut parser = Parser { text, position: 0, depth: 0, entries, mesh: None };
    let program = parser.program().and_then(|program| {
        parser.space();
        if !parser.rest().is_empty() {
            return Err("expected the end of the text".to_string());
        }
        Ok(program)
    });
    program.map_err(|message| parser.error(message))
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
    entries: &'a [&'a [RegistryEntry]],
    /// The mesh of shardings in types.
    mesh: Option<Mesh>,
}

/// The maximum nesting depth of programs, which protects the stack.
const MAX_DEPTH: usize = 64;

type Parsed<T> = Result<T, String>;

/// Variables by name, and their types in order of definition.
#[derive(Default)]
struct Scope {
    vars: FxHashMap<String, Var>,
    avals: Vec<Aval>,
}

impl Scope {
    fn define(&mut self, name: String, aval: Aval) -> Parsed<Var> {
        let var = self.avals.len() as Var;
        match self.vars.insert(name.clone(), var) {
            Some(_) => Err(format!("`{name}` is defined twice")),
            None => {
                self.avals.push(aval);
                Ok(var)
            }
        }
    }

    fn find(&self, name: &str) -> Parsed<Var> {
        self.vars.get(name).copied().ok_or_else(|| format!("`{name}` is not defined"))
    }
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn space(&mut self) {
        self.position += self.rest().len() - self.rest().trim_start().len();
    }

    fn peek(&mut self, token: &str) -> bool {
        self.space();
        self.rest().starts_with(token)
    }

    fn eat(&mut self, token: &str) -> bool {
        let is_next = self.peek(token);
        if is_next {
            self.position += token.len();
        }
        is_next
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(format!("expected `{token}`")) }
    }

    fn word(&mut self) -> Parsed<&'a str> {
        self.space();
        let length = self
            .rest()
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest().len());
        if length == 0 {
            return Err("expected a name".into());
        }
        self.position += length;
        Ok(&self.text[self.position - length..self.position])
    }

    /// Parses the name of a mesh axis.
    fn axis(&mut self) -> Parsed<&'a str> {
        let length = self.rest().find([',', '}', ')', ']']).unwrap_or(0);
        if length == 0 {
            return Err("expected the name of an axis".into());
        }
        self.position += length;
        Ok(&self.text[self.position - length..self.position])
    }

    fn number<T: FromStr>(&mut self) -> Parsed<T> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("`{word}` is not a number"))
    }

    fn aval(&mut self) -> Parsed<Aval> {
        let weak = self.eat("~");
        let name = self.word()?;
        let dtype = DType::from_name(name).ok_or_else(|| format!("no dtype is called `{name}`"))?;
        let memory = if self.rest().starts_with('<') {
            self.expect("<")?;
            let name = self.word()?;
            let kind = MemoryKind::from_name(name);
            let kind = kind.ok_or_else(|| format!("no memory is called `{name}`"))?;
            self.expect(">")?;
            kind
        } else {
            MemoryKind::Device
        };
        self.expect("[")?;
        let (mut dims, mut axes) = (Vec::new(), Vec::new());
        while !self.eat("]") {
            if !dims.is_empty() {
                self.expect(",")?;
            }
            dims.push(self.number::<usize>()?);
            axes.push(AxisSpec::from(self.axes_of_size()?));
        }
        let mut varying = Vec::new();
        if self.rest().starts_with('{') {
            self.expect("{")?;
            while !self.eat("}") {
                self.eat(",");
                varying.push(self.axis()?);
            }
        }
        let varying = Varying::over(varying);
        let sharding = self.sharding(PartitionSpec(axes))?;
        Ok(Aval { weak, varying, memory, sharding, ..Aval::new(dtype, dims) })
    }

    /// Parses the mesh axes behind a size: `@data`, `@(data,model)` or nothing.
    fn axes_of_size(&mut self) -> Parsed<Vec<String>> {
        if !self.rest().starts_with('@') {
            return Ok(Vec::new());
        }
        self.expect("@")?;
        if !self.rest().starts_with('(') {
            return Ok(vec![self.axis()?.to_owned()]);
        }
        self.expect("(")?;
        let mut axes = Vec::new();
        while !self.eat(")") {
            self.eat(",");
            axes.push(self.axis()?.to_owned());
        }
        Ok(axes)
    }

    /// Returns the sharding of a type over the mesh of the text.
    fn sharding(&self, spec: PartitionSpec) -> Parsed<Option<NamedSharding>> {
        if spec.mentioned().next().is_none() {
            return Ok(None);
        }
        let mesh = self.mesh.as_ref().ok_or("types have shardings, and the text has no `mesh=`")?;
        let sharding = NamedSharding::checked(mesh, spec).map_err(|error| error.message)?;
        Ok(sharding.explicit_part())
    }

    /// Parses one JSON value.
    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Parsed<T> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<T>();
        let value = values.next().ok_or("expected a value")?.map_err(|e| e.to_string())?;
        self.position += values.byte_offset();
        Ok(value)
    }

    fn binder(&mut self, scope: &mut Scope) -> Parsed<Var> {
        let name = self.word()?.to_string();
        self.expect(":")?;
        let aval = self.aval()?;
        scope.define(name, aval)
    }

    fn program(&mut self) -> Parsed<Program> {
        self.expect("{")?;
        self.expect("lambda")?;
        if self.eat("mesh=") {
            self.mesh = Some(self.json()?);
        }
        self.expect(";")?;
        let mut scope = Scope::default();
        let mut inputs = Vec::new();
        while !self.eat(".") {
            inputs.push(self.binder(&mut scope)?);
        }
        self.expect("let")?;
        let mut eqns = Vec::new();
        while !self.at_end_of_equations() {
            let eqn = self.eqn(&mut scope)?;
            eqns.push(eqn);
        }
        self.expect("in")?;
        self.expect("(")?;
        let mut outputs = Vec::new();
        while !self.eat(")") {
            outputs.push(scope.find(self.word()?)?);
        }
        self.expect("}")?;
        Ok(Program::new(&scope.avals, &inputs, eqns, &outputs))
    }

    /// Returns true before `in (`. A variable named `in` would be followed by a colon.
    fn at_end_of_equations(&mut self) -> bool {
        self.peek("in (")
    }

    fn eqn(&mut self, scope: &mut Scope) -> Parsed<Eqn> {
        // Results are defined only after the operands have been read.
        let mut results = Vec::new();
        while !self.eat("=") {
            let name = self.word()?.to_string();
            self.expect(":")?;
            results.push((name, self.aval()?));
        }
        let name = self.word()?;
        let (params, programs) =
            if self.rest().starts_with('[') { self.params()? } else { Default::default() };
        let mut operands = Vec::new();
        // Operands are on the same line as the equation.
        while self.rest().starts_with(' ') {
            self.position += 1;
            operands.push(scope.find(self.word()?)?);
        }
        let entry = self.entries.iter().flat_map(|list| list.iter()).find(|e| e.name == name);
        let entry = entry.ok_or_else(|| format!("no primitive is called `{name}`"))?;
        let params = if params.is_empty() { Value::Null } else { Value::Object(params) };
        let primitive = (entry.read)(params, programs).map_err(|error| error.message)?;
        let avals: Vec<Aval> = operands.iter().map(|&v| scope.avals[v as usize].clone()).collect();
        let expected =
            result_avals(&*primitive, &avals).map_err(|e| format!("{name}: {}", e.message))?;
        if !expected.iter().eq(results.iter().map(|(_, aval)| aval)) {
            let expected: Vec<String> = expected.iter().map(Aval::to_string).collect();
            return Err(format!("{name}: the results are of type {}", expected.join(" ")));
        }
        let mut vars = Vec::with_capacity(results.len());
        for (name, aval) in results {
            vars.push(scope.define(name, aval)?);
        }
        Ok(Eqn { primitive, operands: operands.into(), results: vars.into(), loc: Loc::UNKNOWN })
    }

    fn params(&mut self) -> Parsed<(Map<String, Value>, Vec<Program>)> {
        self.expect("[")?;
        let mut params = Map::new();
        let mut programs = Vec::new();
        while !self.eat("]") {
            let field = self.word()?.to_string();
            self.expect("=")?;
            if self.peek("{ lambda") {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(format!("programs are nested more than {MAX_DEPTH} deep"));
                }
                programs.push(self.program()?);
                self.depth -= 1;
                continue;
            }
            params.insert(field, self.json()?);
        }
        Ok((params, programs))
    }

    fn error(&self, message: String) -> Error {
        let before = &self.text[..self.position];
        let line = before.matches('\n').count() + 1;
        let column = self.position - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
        Error::Op(Box::new(OpError {
            kind: OpErrorKind::Value,
            primitive: "parse_program".into(),
            message: format!("line {line}, column {column}: {message}"),
            operands: Vec::new(),
            note: None,
            loc: Loc::UNKNOWN,
            path: Vec::new(),
            help: None,
        }))
    }
}
