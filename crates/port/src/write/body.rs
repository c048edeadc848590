//! Statements: the equations of a function or closure.

use std::collections::HashMap;

use crate::error::{Obstacle, PortError};
use crate::ir::{Atom, Aval, Body, Dtype, Eqn, Var};
use crate::types::Ty;

use super::scope::{Scope, Value};
use super::text::Text;
use super::{Writer, elementwise, indexing, products, reductions, shaping};

/// The longest expression that is written where its value is used.
const INLINE: usize = 64;

impl Writer<'_> {
    /// Writes the equations of a body, without its results.
    pub(crate) fn statements(&mut self, scope: &mut Scope, body: &Body) -> Result<(), PortError> {
        self.name_results(scope, body);
        for (index, eqn) in body.eqns.iter().enumerate() {
            scope.position = index;
            self.equation(scope, body, eqn)?;
        }
        scope.position = usize::MAX;
        Ok(())
    }

    /// Gives the values that leave a Python statement the names that it assigns.
    fn name_results(&self, scope: &mut Scope, body: &Body) {
        let mut line_of: HashMap<Var, usize> = HashMap::new();
        let mut used_elsewhere: HashMap<Var, bool> = HashMap::new();
        for eqn in &body.eqns {
            for &out in &eqn.outs {
                line_of.extend(eqn.line.map(|line| (out, line)));
            }
        }
        for eqn in &body.eqns {
            for var in eqn.ins.iter().filter_map(|atom| atom.var()) {
                let elsewhere = line_of.get(&var).copied() != eqn.line;
                *used_elsewhere.entry(var).or_insert(false) |= elsewhere;
            }
            for inner in &eqn.bodies {
                inner.for_each_use(&mut |var| {
                    used_elsewhere.insert(var, true);
                });
            }
        }
        for var in body.outs.iter().filter_map(|atom| atom.var()) {
            used_elsewhere.insert(var, true);
        }
        let mut by_line: Vec<(usize, Vec<&Eqn>)> = Vec::new();
        for eqn in &body.eqns {
            let Some(line) = eqn.line else { continue };
            match by_line.iter_mut().find(|(other, _)| *other == line) {
                Some((_, eqns)) => eqns.push(eqn),
                None => by_line.push((line, vec![eqn])),
            }
        }
        for (line, eqns) in by_line {
            let Some(names) = self.file.lines.get(line).map(|line| line.names.clone()) else {
                continue;
            };
            let leaving = |var: &Var| used_elsewhere.get(var) == Some(&true);
            let outs: Vec<Var> =
                eqns.iter().flat_map(|eqn| eqn.outs.iter().copied()).filter(leaving).collect();
            let names: Vec<Option<String>> =
                names.into_iter().filter(|name| name.as_deref() != Some("_")).collect();
            if names.len() == outs.len() {
                for (name, var) in names.into_iter().zip(outs) {
                    scope.python_names.extend(name.map(|name| (var, name)));
                }
            } else if let [Some(name)] = names.as_slice() {
                scope.python_names.extend(outs.into_iter().map(|var| (var, name.clone())));
            }
        }
    }

    /// Writes the comment with the Python line of an equation, unless it is the current one, after
    /// those of earlier lines that became a part of this one.
    pub(crate) fn comment(&self, scope: &mut Scope, line: Option<usize>) {
        let Some(line) = line.filter(|_| scope.last_line != line) else { return };
        if let Some(position) = scope.lines.iter().position(|&other| other == line) {
            let earlier: Vec<usize> = scope.lines.drain(..=position).collect();
            for line in earlier {
                self.comment_line(scope, line);
            }
        } else {
            self.comment_line(scope, line);
        }
        scope.last_line = Some(line);
    }

    fn comment_line(&self, scope: &mut Scope, line: usize) {
        let Some(entry) = self.file.lines.get(line) else { return };
        let text = format!("{}:{}: {}", entry.file, entry.line, entry.text);
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let short: String = text.chars().take(240).collect();
        let dots = if short.len() < text.len() { "…" } else { "" };
        scope.out.push_str(&format!("// {}{dots}\n", short.trim_end()));
    }

    pub(crate) fn unsupported(&self, eqn: &Eqn, obstacle: &Obstacle) -> PortError {
        let line = eqn.line.and_then(|line| self.file.lines.get(line));
        PortError::Unsupported {
            primitive: eqn.prim.trim_start_matches("lib.").to_string(),
            problem: obstacle.0.clone(),
            line: match line {
                Some(line) => format!("{}:{}: {}", line.file, line.line, line.text),
                None => format!("{}:{}", self.file.module, self.file.name),
            },
            help: "move the operation out of the ported function, or rewrite the line with \
                   functions that docs/guide/src/porting-from-jax.md lists"
                .into(),
        }
    }

    fn equation(&mut self, scope: &mut Scope, body: &Body, eqn: &Eqn) -> Result<(), PortError> {
        if let Some(result) = self.control(scope, eqn) {
            return result;
        }
        if eqn.prim == "broadcast_in_dim" {
            let (dims, shape) = (eqn.sizes("broadcast_dimensions"), eqn.sizes("shape"));
            if let (Some(dims), Some(shape), [operand, ..]) = (dims, shape, eqn.ins.as_slice()) {
                let fits = dims.len() == shaping::shape_of(*operand, &self.avals).len()
                    && dims.iter().all(|&axis| axis < shape.len());
                if !fits {
                    let obstacle = Obstacle::new(format!("axes {dims:?} of {shape:?}"));
                    return Err(self.unsupported(eqn, &obstacle));
                }
                let var = eqn.outs[0];
                let value = Value::Broadcast { operand: *operand, dims, shape };
                scope.set_unnamed(var, value, &eqn.ins);
                let named = scope.python_names.contains_key(&var);
                let used = scope.uses.get(&var).copied().unwrap_or(0);
                if used > 1 && (named || used > 3) && !self.only_elementwise(scope, body, var) {
                    let text = scope.text(Atom::Var(var), &self.avals);
                    self.bind(scope, eqn, var, text);
                }
                return Ok(());
            }
        }
        if eqn.outs.len() > 1 {
            let text = self.several(scope, eqn).map_err(|error| self.unsupported(eqn, &error))?;
            self.bind_all(scope, eqn, &text);
            return Ok(());
        }
        let avals = &self.avals;
        let written = None
            .or_else(|| elementwise::write(scope, avals, eqn))
            .or_else(|| shaping::write(scope, avals, eqn))
            .or_else(|| reductions::write(scope, avals, eqn))
            .or_else(|| products::write(scope, avals, eqn))
            .or_else(|| indexing::write(scope, avals, eqn))
            .or_else(|| self.constant(eqn));
        let text = match written {
            Some(result) => result.map_err(|error| self.unsupported(eqn, &error))?,
            None => match self.several(scope, eqn) {
                Ok(text) => {
                    self.bind_all(scope, eqn, &text);
                    return Ok(());
                }
                Err(error) => return Err(self.unsupported(eqn, &error)),
            },
        };
        self.result(scope, body, eqn, text);
        Ok(())
    }

    /// True if all uses are operations that broadcast by themselves.
    fn only_elementwise(&self, scope: &Scope, body: &Body, var: Var) -> bool {
        let uses = body.eqns.iter().filter(|eqn| eqn.ins.contains(&Atom::Var(var)));
        let mut uses = uses.peekable();
        uses.peek().is_some()
            && uses.all(|eqn| {
                !shaping::without_broadcasts(scope, &self.avals, eqn).contains(&Atom::Var(var))
            })
    }

    /// Keeps an expression for its only use on the same line, or binds it to a name.
    pub(crate) fn result(&self, scope: &mut Scope, body: &Body, eqn: &Eqn, text: Text) {
        let var = eqn.outs[0];
        let single = scope.uses.get(&var) == Some(&1);
        let same_line = match scope.user.get(&var) {
            Some(&index) => body.eqns.get(index).is_some_and(|user| user.line == eqn.line),
            // The result of the function.
            None => !scope.python_names.contains_key(&var),
        };
        if single && same_line && text.text.chars().count() <= INLINE && !text.text.contains('\n') {
            scope.set_unnamed(var, Value::Inline(text), &eqn.ins);
            return;
        }
        self.bind(scope, eqn, var, text);
    }

    /// Writes `let name = …;`.
    pub(crate) fn bind(&self, scope: &mut Scope, eqn: &Eqn, var: Var, text: Text) {
        self.comment(scope, eqn.line);
        let base = scope.python_names.get(&var).cloned().unwrap_or_else(|| noun(&eqn.prim).into());
        let name = scope.claim(&base, &[var]);
        scope.push_let(&name, &text.text);
        scope.set_place(var, name, false);
        scope.owned.insert(var);
    }

    /// Writes `let (a, b) = …;`, or `let [a, b] = …` of a list.
    fn bind_all(&self, scope: &mut Scope, eqn: &Eqn, text: &Several) {
        self.comment(scope, eqn.line);
        let mut names = Vec::new();
        for &var in &eqn.outs {
            if scope.uses.get(&var).copied().unwrap_or(0) == 0 {
                names.push("_".to_string());
                continue;
            }
            let base = scope.python_names.get(&var).cloned();
            let base = base.unwrap_or_else(|| noun(&eqn.prim).to_string());
            let name = scope.claim(&base, &[var]);
            scope.set_place(var, name.clone(), false);
            scope.owned.insert(var);
            names.push(name);
        }
        let names = names.join(", ");
        match text {
            Several::Tuple(text) => scope.push_let(&format!("({names})"), text),
            Several::List(text) => scope.out.push_str(&format!(
                "let [{names}] = {text}.try_into().expect(\"{} parts\");\n",
                eqn.outs.len()
            )),
            Several::Pattern(pattern, text) => {
                let mut pattern = pattern.clone();
                for (index, name) in names.split(", ").enumerate() {
                    pattern = pattern.replace(&format!("${index}$"), name);
                }
                scope.out.push_str(&format!("let {pattern} = {text};\n"));
            }
        }
    }

    /// An equation with several results.
    fn several(&self, scope: &Scope, eqn: &Eqn) -> Result<Several, Obstacle> {
        let unknown = || Obstacle::new("the primitive is not supported yet");
        let first = *eqn.ins.first().ok_or_else(unknown)?;
        let reference = scope.reference(first, &self.avals);
        let rank = shaping::shape_of(first, &self.avals).len();
        Ok(match eqn.prim.as_str() {
            "split" => {
                let sizes = eqn.sizes("sizes").unwrap_or_default();
                let axis = shaping::axis_text(eqn.size("axis").unwrap_or(0), rank);
                let equal = sizes.windows(2).all(|pair| pair[0] == pair[1]);
                Several::List(match equal {
                    true => format!("split({reference}, {}, {axis})", sizes.len()),
                    false => {
                        let sizes = super::text::list(&sizes);
                        format!("split_sizes({reference}, &{sizes}, {axis})")
                    }
                })
            }
            "top_k" => {
                let axis = eqn.size("axis").map_or("-1".into(), |a| shaping::axis_text(a, rank));
                let k = eqn.size("k").unwrap_or(1);
                Several::Tuple(format!("top_k({reference}, {k}, {axis})"))
            }
            "sort" => {
                let axis = shaping::axis_text(eqn.size("dimension").unwrap_or(0), rank);
                let keys = eqn.size("num_keys").unwrap_or(1);
                let operands: Vec<String> =
                    eqn.ins.iter().map(|&atom| scope.reference(atom, &self.avals)).collect();
                match (eqn.ins.len(), keys) {
                    (2, 1) => {
                        Several::Tuple(format!("sort_key_val({}, {axis})", operands.join(", ")))
                    }
                    _ => {
                        let operands = operands.join(", ");
                        Several::List(format!("sort_multi(&[{operands}], {axis}, {keys})"))
                    }
                }
            }
            "lu" => Several::Tuple(format!("lu({reference})")),
            "lib.slogdet" => Several::Tuple(format!("linalg::slogdet({reference})")),
            "qr" | "geqrf" if eqn.prim == "qr" => Several::Tuple(format!(
                "qr_with({reference}, QrOptions {{ full_matrices: {} }})",
                eqn.flag("full_matrices")
            )),
            "eigh" => Several::Tuple(format!("eigh({reference})")),
            "svd" if eqn.outs.len() == 3 => Several::Pattern(
                "($1$, $0$, $2$)".into(),
                format!(
                    "svd_with({reference}, SvdOptions {{ full_matrices: {}, ..Default::default() \
                     }})",
                    eqn.flag("full_matrices")
                ),
            ),
            "rng_bit_generator" => {
                let algorithm = match (eqn.text("algorithm"), eqn.integer("algorithm")) {
                    (Some("RNG_THREE_FRY"), _) | (_, Some(1)) => "ThreeFry",
                    (Some("RNG_PHILOX"), _) | (_, Some(2)) => "Philox",
                    _ => "Default",
                };
                let out = eqn.outs.get(1).and_then(|&var| self.avals.get(var));
                let Aval { shape, dtype } = out.ok_or_else(unknown)?;
                let (shape, dtype) = (super::text::list(shape), dtype.rust());
                Several::Tuple(format!(
                    "rng_bit_generator({reference}, {shape}, {dtype}, RandomAlgorithm::{algorithm})"
                ))
            }
            "optimization_barrier" => {
                let operands = shaping::arrays(scope, &self.avals, &eqn.ins);
                Several::List(format!("oxidax::primitives::optimization_barrier({operands})"))
            }
            _ => return Err(unknown()),
        })
    }

    /// A constant array.
    fn constant(&self, eqn: &Eqn) -> Option<Result<Text, Obstacle>> {
        if eqn.prim != "constant" {
            return None;
        }
        let entry = self.file.consts.get(eqn.size("index")?)?;
        let dtype = Dtype::parse(&entry.dtype)?;
        Some(self.constant_text(entry, dtype))
    }

    /// The type of a variable.
    pub(crate) fn leaf_type(&self, var: Var) -> Ty {
        match self.avals[var].dtype {
            Dtype::Key => Ty::Key,
            _ => Ty::Array,
        }
    }
}

/// An expression with several results.
pub(crate) enum Several {
    Tuple(String),
    List(String),
    /// A pattern in which `$0$` is the first result.
    Pattern(String, String),
}

/// A name for a value that has none.
pub(crate) fn noun(prim: &str) -> &'static str {
    match prim {
        "reduce_sum" | "cumsum" => "total",
        "reduce_max" | "max" | "cummax" => "largest",
        "reduce_min" | "min" | "cummin" => "smallest",
        "lib.mean" => "mean",
        "lib.var" => "variance",
        "dot_general" | "mul" | "lib.einsum" => "product",
        "add" | "add_any" => "sum",
        "sub" => "difference",
        "div" => "ratio",
        "exp" => "exponential",
        "log" => "logarithm",
        "sqrt" | "rsqrt" => "root",
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "and" | "or" | "not" | "lib.isnan"
        | "is_finite" => "mask",
        "select_n" | "lib.where" => "selected",
        "argmax" | "argmin" | "iota" => "index",
        "gather" | "dynamic_slice" | "slice" | "lib.take" | "lib.take_along_axis" => "part",
        "scatter" | "scatter-add" | "dynamic_update_slice" => "updated",
        "random_split" | "lib.key_get" | "random_wrap" | "random_fold_in" | "random_seed" => "keys",
        "reshape" | "transpose" | "squeeze" => "shaped",
        "constant" => "constant",
        "convert_element_type" => "converted",
        "conv_general_dilated" => "convolved",
        "sort" => "sorted",
        "split" => "part",
        "concatenate" => "joined",
        "broadcast_in_dim" => "broadcasted",
        "integer_pow" | "pow" | "square" => "power",
        prim if prim.starts_with("lib.random.") => "sample",
        _ => "value",
    }
}
