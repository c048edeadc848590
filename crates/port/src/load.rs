//! From the file's jaxprs to the intermediate form: names are resolved, library code is recognised
//! or inlined, and every variable gets its own number.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::PortError;
use crate::file::{AtomEntry, EqnEntry, File, Jaxpr, TypeEntry};
use crate::fold;
use crate::ir::{Atom, Aval, Body, Dtype, Eqn, Literal, Number, Var, sizes};
use crate::library;
use crate::patterns;

/// The deepest nesting of jaxprs.
const MAX_DEPTH: usize = 40;

/// Equations under construction.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) eqns: Vec<Eqn>,
    defs: HashMap<Var, usize>,
}

impl Builder {
    /// The equation that defines an operand.
    pub(crate) fn def(&self, atom: Atom) -> Option<&Eqn> {
        self.eqns.get(*self.defs.get(&atom.var()?)?)
    }
}

/// Reads the jaxprs of a file.
pub(crate) struct Loader<'f> {
    pub(crate) file: &'f File,
    pub(crate) avals: Vec<Aval>,
    depth: usize,
}

type Env = HashMap<usize, Atom>;

impl<'f> Loader<'f> {
    pub(crate) fn new(file: &'f File) -> Loader<'f> {
        Loader { file, avals: Vec::new(), depth: 0 }
    }

    /// Reads the body of the traced function.
    pub(crate) fn top(&mut self) -> Result<Body, PortError> {
        let jaxpr = &self.file.body;
        self.held(jaxpr, &[], None)
    }

    pub(crate) fn aval(&self, atom: Atom) -> Aval {
        match atom {
            Atom::Var(var) => self.avals[var].clone(),
            Atom::Lit(literal) => Aval { dtype: literal.dtype, shape: Vec::new() },
        }
    }

    pub(crate) fn fresh(&mut self, aval: Aval) -> Var {
        self.avals.push(aval);
        self.avals.len() - 1
    }

    /// A body whose first inputs are captured operands.
    fn held(
        &mut self,
        jaxpr: &Jaxpr,
        captured: &[Atom],
        line: Option<usize>,
    ) -> Result<Body, PortError> {
        let mut env = Env::new();
        let (first, rest) = if jaxpr.captures.len() == captured.len() {
            (jaxpr.captures.as_slice(), jaxpr.ins.as_slice())
        } else if captured.len() <= jaxpr.ins.len() {
            jaxpr.ins.split_at(captured.len())
        } else {
            let problem = format!("{} operands for {} inputs", captured.len(), jaxpr.ins.len());
            return Err(PortError::file("a jaxpr", problem));
        };
        env.extend(first.iter().copied().zip(captured.iter().copied()));
        let mut ins = Vec::new();
        for &var in rest {
            let aval = self.var_aval(var)?;
            ins.push(self.fresh(aval));
        }
        env.extend(rest.iter().copied().zip(ins.iter().map(|&var| Atom::Var(var))));
        let skipped = jaxpr.ins.len() - rest.len();
        let names = (0..rest.len()).map(|index| argument_name(jaxpr, index + skipped)).collect();
        let mut builder = Builder::default();
        let outs = self.eqns(jaxpr, env, &mut builder, line)?;
        let mut lines: Vec<usize> = Vec::new();
        for line in builder.eqns.iter().filter_map(|eqn| eqn.line) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let mut body = Body { ins, names, eqns: builder.eqns, outs, lines };
        patterns::recognise(&mut body, &self.avals);
        Ok(body)
    }

    fn var_aval(&self, var: usize) -> Result<Aval, PortError> {
        let entry = self.file.vars.get(var);
        let entry = entry.ok_or_else(|| {
            let count = self.file.vars.len();
            PortError::file("a jaxpr", format!("variable {var} of {count} variables"))
        })?;
        aval_of(entry)
    }

    /// Adds the equations of a jaxpr, and returns its results.
    fn eqns(
        &mut self,
        jaxpr: &Jaxpr,
        mut env: Env,
        builder: &mut Builder,
        line: Option<usize>,
    ) -> Result<Vec<Atom>, PortError> {
        if self.depth >= MAX_DEPTH {
            let problem = format!("jaxprs are nested more than {MAX_DEPTH} deep");
            return Err(PortError::file("a jaxpr", problem));
        }
        self.depth += 1;
        for &(var, index) in &jaxpr.consts {
            let atom = self.constant(index, builder)?;
            env.entry(var).or_insert(atom);
        }
        for entry in &jaxpr.eqns {
            let mut ins = Vec::with_capacity(entry.ins.len());
            for atom in &entry.ins {
                ins.push(self.atom(atom, &env, builder)?);
            }
            let line = line.or(entry.line);
            let outs = self.eqn(entry, ins, builder, line)?;
            if outs.len() != entry.outs.len() {
                let problem = format!("{} results, {} expected", outs.len(), entry.outs.len());
                return Err(PortError::file(format!("an equation {}", entry.prim), problem));
            }
            for (out, atom) in entry.outs.iter().zip(outs) {
                if let Some(var) = out {
                    env.insert(*var, atom);
                }
            }
        }
        self.depth -= 1;
        jaxpr.outs.iter().map(|atom| self.atom(atom, &env, builder)).collect()
    }

    fn atom(
        &mut self,
        entry: &AtomEntry,
        env: &Env,
        builder: &mut Builder,
    ) -> Result<Atom, PortError> {
        match entry {
            AtomEntry::Var(var) => env.get(var).copied().ok_or_else(|| {
                PortError::file("a jaxpr", format!("variable {var} is used before its equation"))
            }),
            AtomEntry::Const { index } => self.constant(*index, builder),
            AtomEntry::Literal { value, dtype, weak } => {
                let dtype = parse_dtype(dtype)?;
                let number = Number::parse(value).ok_or_else(|| {
                    PortError::file("a literal", format!("{value} is not a number"))
                })?;
                Ok(Atom::Lit(Literal { value: number.of(dtype), dtype, weak: *weak }))
            }
        }
    }

    /// A constant: a literal if it is a scalar.
    fn constant(&mut self, index: usize, builder: &mut Builder) -> Result<Atom, PortError> {
        let entry = self.file.consts.get(index).ok_or_else(|| {
            PortError::file("a jaxpr", format!("constant {index} of {}", self.file.consts.len()))
        })?;
        let dtype = parse_dtype(&entry.dtype)?;
        if let (true, Some([value])) = (entry.shape.is_empty(), entry.values.as_deref()) {
            let number = Number::parse(value);
            let number = number.ok_or_else(|| {
                PortError::file(format!("constant {index}"), format!("{value} is not a number"))
            })?;
            return Ok(Atom::Lit(Literal { value: number.of(dtype), dtype, weak: false }));
        }
        let aval = Aval { dtype, shape: entry.shape.clone() };
        let mut params = Map::new();
        params.insert("index".into(), json!(index));
        let outs = self.push("constant", params, Vec::new(), vec![aval], builder, None);
        Ok(outs[0])
    }

    /// The error for an equation without results.
    fn effect(&self, prim: &str, line: Option<usize>) -> PortError {
        let line = line.and_then(|line| self.file.lines.get(line));
        PortError::Unsupported {
            primitive: prim.to_string(),
            problem: "effects are not supported yet".into(),
            line: match line {
                Some(line) => format!("{}:{}: {}", line.file, line.line, line.text),
                None => format!("{}:{}", self.file.module, self.file.name),
            },
            help: "remove the line, and add it to the Rust program: debug_print!, debug::callback"
                .into(),
        }
    }

    /// Adds an equation, unless its results are known.
    pub(crate) fn push(
        &mut self,
        prim: &str,
        params: Map<String, Value>,
        ins: Vec<Atom>,
        avals: Vec<Aval>,
        builder: &mut Builder,
        line: Option<usize>,
    ) -> Vec<Atom> {
        if let ("broadcast_in_dim", Some(between)) = (prim, self.between(&params, &ins)) {
            // First new axes of size 1, which operations repeat by themselves.
            let rank = between.shape.len();
            let mut first = params.clone();
            first.insert("shape".into(), json!(between.shape));
            let parts = self.push(prim, first, ins, vec![between], builder, line);
            let mut params = params;
            let all: Vec<usize> = (0..rank).collect();
            params.insert("broadcast_dimensions".into(), json!(all));
            return self.push(prim, params, parts, avals, builder, line);
        }
        let eqn = Eqn {
            prim: prim.to_string(),
            params,
            bodies: Vec::new(),
            ins,
            outs: Vec::new(),
            line,
            call: None,
        };
        if let Some(known) = fold::simplify(self, builder, &eqn, &avals) {
            return vec![known];
        }
        self.add(eqn, avals, builder)
    }

    /// The type between two steps of a broadcast whose axes are not the last ones.
    fn between(&self, params: &Map<String, Value>, ins: &[Atom]) -> Option<Aval> {
        let shape = params.get("shape").and_then(sizes)?;
        let dims = params.get("broadcast_dimensions").and_then(sizes)?;
        let operand = self.aval(*ins.first()?);
        let rank = shape.len();
        let fits = dims.len() == operand.shape.len() && dims.iter().all(|&axis| axis < rank);
        let trailing = dims.iter().copied().eq(rank.saturating_sub(dims.len())..rank);
        if !fits || trailing || operand.shape.is_empty() {
            return None;
        }
        let mut between = vec![1; rank];
        for (&axis, &size) in dims.iter().zip(&operand.shape) {
            between[axis] = size;
        }
        (between != shape).then_some(Aval { dtype: operand.dtype, shape: between })
    }

    fn add(&mut self, mut eqn: Eqn, avals: Vec<Aval>, builder: &mut Builder) -> Vec<Atom> {
        eqn.outs = avals.into_iter().map(|aval| self.fresh(aval)).collect();
        let outs = eqn.outs.clone();
        for &var in &outs {
            builder.defs.insert(var, builder.eqns.len());
        }
        builder.eqns.push(eqn);
        outs.into_iter().map(Atom::Var).collect()
    }

    fn eqn(
        &mut self,
        entry: &EqnEntry,
        ins: Vec<Atom>,
        builder: &mut Builder,
        line: Option<usize>,
    ) -> Result<Vec<Atom>, PortError> {
        let avals = entry.avals.iter().map(aval_of).collect::<Result<Vec<_>, _>>()?;
        let params = &entry.params;
        match entry.prim.as_str() {
            "jit" | "pjit" => return self.call(params, ins, avals, builder, line),
            "custom_jvp_call"
            | "custom_vjp_call"
            | "closed_call"
            | "core_call"
            | "remat"
            | "remat2"
            | "checkpoint"
            | "custom_vjp_call_jaxpr"
            | "custom_lin" => {
                let jaxpr = first_jaxpr(params, &["call_jaxpr", "fun_jaxpr", "jaxpr"])?;
                let found = library::named(self, &jaxpr.function, &jaxpr, &ins, &avals);
                if let (true, Some(found)) = (jaxpr.library, found) {
                    return Ok(self.push(
                        &found.prim,
                        found.params,
                        found.ins,
                        avals,
                        builder,
                        line,
                    ));
                }
                return self.inline(&jaxpr, ins, builder, line);
            }
            "custom_linear_solve" => return self.linear_solve(params, ins, builder, line),
            _ => {}
        }
        let mut plain = Map::new();
        let mut held = Vec::new();
        for (name, value) in params {
            match value {
                Value::Object(object) if object.contains_key("jaxpr") => {
                    held.push((name.as_str(), parse_jaxpr(&object["jaxpr"])?));
                }
                Value::Array(items) if name == "branches" => {
                    for item in items {
                        let inner = item.get("jaxpr").unwrap_or(&Value::Null);
                        held.push(("branches", parse_jaxpr(inner)?));
                    }
                }
                _ => {
                    plain.insert(name.clone(), value.clone());
                }
            }
        }
        if held.is_empty() {
            if avals.is_empty() {
                return Err(self.effect(&entry.prim, line));
            }
            check_operands(&entry.prim, ins.len())?;
            return Ok(self.push(&entry.prim, plain, ins, avals, builder, line));
        }
        let mut eqn = Eqn {
            prim: entry.prim.clone(),
            params: plain,
            bodies: Vec::new(),
            ins: Vec::new(),
            outs: Vec::new(),
            line,
            call: None,
        };
        let count = |name: &str| eqn.size(name).unwrap_or(0);
        match entry.prim.as_str() {
            "scan" => {
                let (captured, rest) = split(&ins, count("num_consts"))?;
                eqn.ins = rest.to_vec();
                eqn.bodies = vec![self.held(&held[0].1, captured, None)?];
            }
            "while" => {
                let (for_cond, rest) = split(&ins, count("cond_nconsts"))?;
                let (for_body, rest) = split(rest, count("body_nconsts"))?;
                eqn.ins = rest.to_vec();
                for (name, captured) in [("cond_jaxpr", for_cond), ("body_jaxpr", for_body)] {
                    let jaxpr = held.iter().find(|(other, _)| *other == name);
                    let (_, jaxpr) = jaxpr.ok_or_else(|| PortError::file("while", name))?;
                    eqn.bodies.push(self.held(jaxpr, captured, None)?);
                }
            }
            "cond" => {
                let (index, rest) = split(&ins, 1)?;
                eqn.ins = index.to_vec();
                for (_, jaxpr) in &held {
                    eqn.bodies.push(self.held(jaxpr, rest, None)?);
                }
            }
            "oxidax_grad" | "oxidax_vmap" => {
                let (captured, rest) = split(&ins, count("n_consts"))?;
                eqn.ins = rest.to_vec();
                eqn.bodies = vec![self.held(&held[0].1, captured, None)?];
            }
            _ => {
                eqn.ins = ins;
                for (_, jaxpr) in &held {
                    eqn.bodies.push(self.held(jaxpr, &[], None)?);
                }
            }
        }
        Ok(self.add(eqn, avals, builder))
    }

    /// A call of a jitted function: a library function, a user-defined function, or inlined.
    fn call(
        &mut self,
        params: &Map<String, Value>,
        ins: Vec<Atom>,
        avals: Vec<Aval>,
        builder: &mut Builder,
        line: Option<usize>,
    ) -> Result<Vec<Atom>, PortError> {
        let jaxpr = first_jaxpr(params, &["jaxpr"])?;
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let traced = name.rsplit_once("__port").and_then(|(_, number)| number.parse().ok());
        if let Some(number) = traced {
            let call = self.file.calls.get::<usize>(number).ok_or_else(|| {
                PortError::file("a call", format!("number {number} of {}", self.file.calls.len()))
            })?;
            if call.library {
                let found = library::traced(self, call, &ins, &avals);
                if let Some(found) = found {
                    let library::Found { prim, params, ins } = found;
                    return Ok(self.push(&prim, params, ins, avals, builder, line));
                }
                return self.inline(&jaxpr, ins, builder, line);
            }
            let mut leaves = Vec::new();
            for (_, tree) in &call.params {
                tree.leaves(&mut leaves);
            }
            let mut results = Vec::new();
            call.result.leaves(&mut results);
            let fits = leaves.len() <= ins.len() && results.len() == avals.len();
            if fits && leaves.iter().all(|&leaf| leaf < leaves.len()) {
                let body = self.held(&jaxpr, &[], None)?;
                let eqn = Eqn {
                    prim: "call".into(),
                    params: Map::new(),
                    bodies: vec![body],
                    ins,
                    outs: Vec::new(),
                    line,
                    call: Some(number),
                };
                return Ok(self.add(eqn, avals, builder));
            }
        } else if (jaxpr.library || jaxpr.function.is_empty())
            && let Some(found) = library::named(self, name, &jaxpr, &ins, &avals)
        {
            let library::Found { prim, params, ins } = found;
            return Ok(self.push(&prim, params, ins, avals, builder, line));
        }
        let outer = if jaxpr.library || traced.is_some() { line } else { None };
        self.inline(&jaxpr, ins, builder, outer.or(line.filter(|_| jaxpr.library)))
    }

    fn inline(
        &mut self,
        jaxpr: &Jaxpr,
        ins: Vec<Atom>,
        builder: &mut Builder,
        line: Option<usize>,
    ) -> Result<Vec<Atom>, PortError> {
        let names: Vec<usize> = jaxpr.captures.iter().chain(&jaxpr.ins).copied().collect();
        let names = if names.len() == ins.len() { names } else { jaxpr.ins.clone() };
        if names.len() != ins.len() {
            let problem = format!("{} operands for {} inputs", ins.len(), names.len());
            return Err(PortError::file(format!("a call of {}", jaxpr.function), problem));
        }
        let env = names.into_iter().zip(ins).collect();
        self.eqns(jaxpr, env, builder, line)
    }

    /// Inlines the solution that `custom_linear_solve` holds.
    fn linear_solve(
        &mut self,
        params: &Map<String, Value>,
        ins: Vec<Atom>,
        builder: &mut Builder,
        line: Option<usize>,
    ) -> Result<Vec<Atom>, PortError> {
        let part = |name: &str| params.get("const_lengths").and_then(|value| value.get(name));
        let length = |name: &str| part(name).and_then(Value::as_u64).unwrap_or(0) as usize;
        let before = length("matvec").saturating_add(length("vecmat"));
        let total =
            before.saturating_add(length("solve")).saturating_add(length("transpose_solve"));
        let (_, rest) = split(&ins, before)?;
        let (consts, _) = split(rest, length("solve"))?;
        let (_, operands) = split(&ins, total)?;
        let solve = params.get("jaxprs").and_then(|jaxprs| jaxprs.get("solve"));
        let inner = solve.and_then(|value| value.get("jaxpr")).unwrap_or(&Value::Null);
        let jaxpr = parse_jaxpr(inner)?;
        let ins = consts.iter().chain(operands).copied().collect();
        self.inline(&jaxpr, ins, builder, line)
    }
}

/// Checks the number of operands, so that equations can be read without further checks.
fn check_operands(prim: &str, operands: usize) -> Result<(), PortError> {
    let least = match prim {
        "iota" | "create_token" | "rng_uniform" | "empty" | "after_all" => 0,
        "add"
        | "add_any"
        | "sub"
        | "mul"
        | "div"
        | "max"
        | "min"
        | "pow"
        | "rem"
        | "eq"
        | "ne"
        | "lt"
        | "le"
        | "gt"
        | "ge"
        | "lt_to"
        | "le_to"
        | "eq_to"
        | "and"
        | "or"
        | "xor"
        | "atan2"
        | "nextafter"
        | "dot_general"
        | "pad"
        | "gather"
        | "random_fold_in"
        | "dynamic_slice"
        | "conv_general_dilated"
        | "triangular_solve" => 2,
        "select_n" | "clamp" | "dynamic_update_slice" => 3,
        prim if prim.starts_with("scatter") => 3,
        _ => 1,
    };
    if operands < least {
        let problem = format!("{operands} operands, {least} expected");
        return Err(PortError::file(format!("an equation {prim}"), problem));
    }
    Ok(())
}

fn split(ins: &[Atom], count: usize) -> Result<(&[Atom], &[Atom]), PortError> {
    ins.split_at_checked(count).ok_or_else(|| {
        PortError::file("an equation", format!("{} operands, {count} captured", ins.len()))
    })
}

pub(crate) fn parse_jaxpr(value: &Value) -> Result<Jaxpr, PortError> {
    Jaxpr::deserialize(value).map_err(|error| PortError::file("a jaxpr", error.to_string()))
}

fn first_jaxpr(params: &Map<String, Value>, names: &[&str]) -> Result<Jaxpr, PortError> {
    let inner = names.iter().find_map(|name| params.get(*name)?.get("jaxpr"));
    parse_jaxpr(inner.unwrap_or(&Value::Null))
}

fn parse_dtype(name: &str) -> Result<Dtype, PortError> {
    Dtype::parse(name)
        .ok_or_else(|| PortError::file("a type", format!("the dtype {name} is not supported yet")))
}

fn aval_of(entry: &TypeEntry) -> Result<Aval, PortError> {
    Ok(Aval { dtype: parse_dtype(&entry.dtype)?, shape: entry.shape.clone() })
}

/// The name of a parameter: `h` where Python unpacks `h, c = carry`, `carry_0` for `carry[0]`.
fn argument_name(jaxpr: &Jaxpr, index: usize) -> Option<String> {
    let path = jaxpr.arg_names.get(index)?.as_deref()?;
    let end = path.find(['[', '.']).unwrap_or(path.len());
    let (base, rest) = path.split_at(end);
    if base.is_empty() || base == "dynamic" {
        return None;
    }
    if let Some(number) = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        && let Ok(number) = number.parse::<usize>()
    {
        let names = jaxpr.unpacked.get(base);
        let name = names.and_then(|names| names.get(number)?.clone());
        return Some(name.unwrap_or_else(|| format!("{base}_{number}")));
    }
    let mut parts = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
    let last = parts.rfind(|part| !part.is_empty());
    Some(match last {
        None => base.to_string(),
        Some(part) if part.starts_with(|c: char| c.is_ascii_digit()) => format!("{base}_{part}"),
        Some(part) => part.to_string(),
    })
}
