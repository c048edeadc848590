//! Names and values that are visible at a point of the generated program.

use std::collections::{HashMap, HashSet};

use crate::ir::{Atom, Aval, Body, Dtype, Var};
use crate::names;
use crate::types::Ty;

use super::text::{Text, number};

/// The text of a variable.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A name or a field. `is_ref`: the name holds a reference.
    Place { text: String, is_ref: bool },
    /// An expression with one use.
    Inline(Text),
    /// A broadcast, which most operations do by themselves.
    Broadcast { operand: Atom, dims: Vec<usize>, shape: Vec<usize> },
}

/// A struct, tuple or list that holds these variables.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) leaves: Vec<Var>,
    pub(crate) ty: Ty,
    pub(crate) text: String,
    pub(crate) is_ref: bool,
}

/// A function or closure under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) values: HashMap<Var, Value>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// Names with the variables that they stand for.
    names: HashMap<String, Vec<Var>>,
    /// Variables that this function or closure owns, and has not moved.
    pub(crate) owned: HashSet<Var>,
    /// Variables that an expression in the result mentions.
    pinned: HashSet<Var>,
    pub(crate) out: String,
    pub(crate) last_line: Option<usize>,
    /// Python lines without a comment yet.
    pub(crate) lines: Vec<usize>,
    /// The last statement: where it begins, and its pattern.
    last_let: Option<(usize, String)>,
    /// The current equation, and the last equation that uses each variable.
    pub(crate) position: usize,
    last_use: HashMap<Var, usize>,
    /// Named values that a value without a name mentions.
    deps: HashMap<Var, Vec<Var>>,
    pub(crate) uses: HashMap<Var, usize>,
    /// The equation with the single use, by variable.
    pub(crate) user: HashMap<Var, usize>,
    /// Names that Python gives.
    pub(crate) python_names: HashMap<Var, String>,
}

impl Scope {
    /// A scope for a body inside of this one, or for a function.
    pub(crate) fn enter(&self, body: &Body) -> Scope {
        let mut scope = Scope {
            values: self.values.clone(),
            aggregates: self.aggregates.clone(),
            names: self.names.clone(),
            last_line: self.last_line,
            deps: self.deps.clone(),
            ..Scope::default()
        };
        scope.count(body);
        scope
    }

    fn count(&mut self, body: &Body) {
        self.lines = body.lines.clone();
        for (index, eqn) in body.eqns.iter().enumerate() {
            for var in eqn.ins.iter().filter_map(|atom| atom.var()) {
                self.last_use.insert(var, index);
                self.user.insert(var, index);
                *self.uses.entry(var).or_insert(0) += 1;
            }
            for inner in &eqn.bodies {
                inner.for_each_use(&mut |var| {
                    self.last_use.insert(var, index);
                    *self.uses.entry(var).or_insert(0) += 2;
                });
            }
        }
        for var in body.outs.iter().filter_map(|atom| atom.var()) {
            self.last_use.insert(var, usize::MAX);
            *self.uses.entry(var).or_insert(0) += 1;
        }
        // A body may mention values that are written where they are used.
        for (var, last) in self.last_use.clone() {
            for dep in self.deps.get(&var).into_iter().flatten() {
                let entry = self.last_use.entry(*dep).or_insert(last);
                *entry = (*entry).max(last);
            }
        }
    }

    /// Writes `let pattern = text;`.
    pub(crate) fn push_let(&mut self, pattern: &str, text: &str) {
        self.last_let = Some((self.out.len(), pattern.to_string()));
        self.out.push_str(&format!("let {pattern} = {text};\n"));
    }

    /// The statements and the result, without a name for the result alone.
    pub(crate) fn finish(&mut self, tail: String) -> String {
        let mut out = std::mem::take(&mut self.out);
        if let Some((start, pattern)) = self.last_let.take() {
            let prefix = format!("let {pattern} = ");
            let statement = out.get(start..).and_then(|rest| rest.strip_prefix(&prefix));
            let text = statement.and_then(|rest| rest.strip_suffix(";\n"));
            if let (true, Some(text)) = (pattern == tail, text) {
                let text = text.to_string();
                out.truncate(start);
                return out + &text;
            }
        }
        out + &tail
    }

    /// Stores a value without a name: what it mentions is used where it is.
    pub(crate) fn set_unnamed(&mut self, var: Var, value: Value, ins: &[Atom]) {
        let mut deps = Vec::new();
        for atom in ins {
            let Some(operand) = atom.var() else { continue };
            match self.place(*atom) {
                Some(_) => deps.push(operand),
                None => deps.extend(self.deps.get(&operand).into_iter().flatten().copied()),
            }
        }
        if let Some(&last) = self.last_use.get(&var) {
            for &dep in &deps {
                let entry = self.last_use.entry(dep).or_insert(last);
                *entry = (*entry).max(last);
            }
        }
        self.deps.insert(var, deps);
        self.values.insert(var, value);
    }

    /// Keeps what the result's expressions mention from being moved by its other parts.
    pub(crate) fn pin(&mut self, body: &Body) {
        let defs: HashMap<Var, &crate::ir::Eqn> =
            body.eqns.iter().flat_map(|eqn| eqn.outs.iter().map(move |&var| (var, eqn))).collect();
        let mut pending: Vec<Var> = body.outs.iter().filter_map(|atom| atom.var()).collect();
        pending.retain(|&var| self.place(Atom::Var(var)).is_none());
        while let Some(var) = pending.pop() {
            for atom in defs.get(&var).map_or(&[][..], |eqn| &eqn.ins) {
                let Some(var) = atom.var() else { continue };
                match self.place(*atom) {
                    Some(_) => {
                        self.pinned.insert(var);
                    }
                    None => pending.push(var),
                }
            }
        }
    }

    /// True if the variable has no use after the current equation.
    pub(crate) fn is_dead(&self, var: Var) -> bool {
        self.last_use.get(&var).is_none_or(|&last| last <= self.position)
    }

    /// Claims a name for variables: `base`, unless a value that is still used has it.
    pub(crate) fn claim(&mut self, base: &str, vars: &[Var]) -> String {
        let base = names::variable(base);
        let name = names::first_free(&base, |name| {
            let owners = self.names.get(name);
            owners.is_none_or(|owners| owners.iter().all(|&owner| self.is_dead(owner)))
        });
        self.names.insert(name.clone(), vars.to_vec());
        name
    }

    /// Claims a name at the beginning of a body: values that the body uses keep their names.
    pub(crate) fn claim_parameter(&mut self, base: &str, vars: &[Var]) -> String {
        let base = names::variable(base);
        let name = names::first_free(&base, |name| {
            let owners = self.names.get(name);
            owners
                .is_none_or(|owners| owners.iter().all(|owner| !self.last_use.contains_key(owner)))
        });
        self.names.insert(name.clone(), vars.to_vec());
        name
    }

    pub(crate) fn set_place(&mut self, var: Var, text: impl Into<String>, is_ref: bool) {
        self.values.insert(var, Value::Place { text: text.into(), is_ref });
    }

    /// Registers a struct, tuple or list, and its parts.
    pub(crate) fn add_aggregate(&mut self, aggregate: Aggregate) {
        self.aggregates.push(aggregate);
    }

    /// The place that holds these variables as a value of this type.
    pub(crate) fn find_aggregate(&self, leaves: &[Var], ty: &Ty) -> Option<&Aggregate> {
        let same = |other: &&Aggregate| other.leaves == leaves && other.ty == *ty;
        self.aggregates.iter().rev().find(same)
    }

    /// The current value as an expression that owns or denotes it.
    pub(crate) fn text(&self, atom: Atom, avals: &[Aval]) -> Text {
        match atom {
            Atom::Lit(literal) => {
                let text = number(&literal);
                let precedence = match text.starts_with('-') {
                    true => super::text::Precedence::Unary,
                    false => super::text::Precedence::Atom,
                };
                Text { text, precedence }
            }
            Atom::Var(var) => match self.values.get(&var) {
                Some(Value::Place { text, .. }) => Text::atom(text.clone()),
                Some(Value::Inline(text)) => text.clone(),
                Some(Value::Broadcast { operand, dims, shape }) => {
                    super::shaping::broadcast(self, avals, *operand, dims, shape)
                }
                None => Text::atom("missing_value"),
            },
        }
    }

    /// An operand of a function that takes `impl ArrayLike`: a number, a reference, or a value.
    pub(crate) fn like(&self, atom: Atom, avals: &[Aval]) -> String {
        let text = self.text(atom, avals);
        match self.place(atom) {
            Some(true) => text.text,
            Some(false) => format!("&{}", text.text),
            None => text.text,
        }
    }

    /// An operand of a function that takes `&Array`.
    pub(crate) fn reference(&self, atom: Atom, avals: &[Aval]) -> String {
        if let Atom::Lit(literal) = atom {
            return format!("&{}", full_scalar(&literal));
        }
        match self.place(atom) {
            Some(_) => self.like(atom, avals),
            None => format!("&{}", self.text(atom, avals).receiver()),
        }
    }

    /// A receiver of methods.
    pub(crate) fn receiver(&self, atom: Atom, avals: &[Aval]) -> String {
        match atom {
            Atom::Lit(literal) => full_scalar(&literal),
            Atom::Var(_) => self.text(atom, avals).receiver(),
        }
    }

    /// `Some(is_ref)` if the operand is a name or a field.
    pub(crate) fn place(&self, atom: Atom) -> Option<bool> {
        match self.values.get(&atom.var()?)? {
            Value::Place { is_ref, .. } => Some(*is_ref),
            Value::Inline(_) | Value::Broadcast { .. } => None,
        }
    }

    /// An expression that owns the value.
    pub(crate) fn owned(&mut self, atom: Atom, avals: &[Aval], moves: bool) -> String {
        let text = match atom {
            Atom::Lit(literal) => return full_scalar(&literal),
            Atom::Var(_) => self.text(atom, avals),
        };
        match (self.place(atom), atom.var()) {
            (Some(false), Some(var))
                if moves && !self.pinned.contains(&var) && self.owned.remove(&var) =>
            {
                text.text
            }
            (Some(_), _) => format!("{}.clone()", text.text),
            (None, _) => text.text,
        }
    }
}

/// A scalar array with the dtype of the literal.
pub(crate) fn full_scalar(literal: &crate::ir::Literal) -> String {
    let value = number(literal);
    match literal.dtype {
        Dtype::F32 | Dtype::Bool | Dtype::Int(32) => format!("full([], {value})"),
        dtype => format!("full(([], {}), {value})", dtype.rust()),
    }
}
