//! Loops and branches, and what they share with calls.

use crate::error::{Obstacle, PortError};
use crate::file::TreeNode;
use crate::ir::{Atom, Body, Eqn, Number, Var};
use crate::types::Ty;

use super::Writer;
use super::scope::Scope;

pub(super) type Written = Result<(), PortError>;

impl Writer<'_> {
    /// Writes an equation that holds programs, or returns `None` for others.
    pub(crate) fn control(&mut self, scope: &mut Scope, eqn: &Eqn) -> Option<Written> {
        let bodies = eqn.bodies.len();
        Some(match (eqn.prim.as_str(), bodies) {
            ("call", 1) => self.call(scope, eqn),
            ("scan", 1) => self.scan(scope, eqn),
            ("while", 2) => self.while_loop(scope, eqn),
            ("cond", 2..) => self.cond(scope, eqn),
            ("oxidax_grad", 1) => self.grad(scope, eqn),
            ("oxidax_vmap", 1) => self.vmap(scope, eqn),
            (_, 0) => return None,
            _ => Err(self.unsupported(
                eqn,
                &Obstacle::new("the primitive holds a program and is not supported yet"),
            )),
        })
    }

    /// A pattern for values, with its type: `h: Array`, or `(h, c): (Array, Array)`.
    pub(super) fn pattern(&self, names: &[String], vars: &[Var]) -> (String, String) {
        let types: Vec<String> =
            vars.iter().map(|&var| self.types.text(&self.leaf_type(var))).collect();
        (nested(names), nested(&types))
    }

    /// Claims names for the parameters of a closure, which owns them.
    pub(super) fn claim_owned(
        &self,
        inner: &mut Scope,
        body: &Body,
        range: std::ops::Range<usize>,
    ) -> Vec<String> {
        let mut names = Vec::new();
        for index in range {
            let var = body.ins[index];
            if !inner.uses.contains_key(&var) {
                names.push("_".to_string());
                continue;
            }
            let base = body.names.get(index).cloned().flatten();
            let base = base.unwrap_or_else(|| "x".into());
            let name = inner.claim_parameter(&base, &[var]);
            inner.set_place(var, name.clone(), false);
            inner.owned.insert(var);
            names.push(name);
        }
        names
    }

    /// The statements of a closure with its result.
    pub(super) fn closure(
        &mut self,
        inner: &mut Scope,
        body: &Body,
        tail: impl FnOnce(&mut Self, &mut Scope) -> String,
    ) -> Result<String, PortError> {
        self.statements(inner, body)?;
        inner.pin(body);
        for &atom in &body.outs {
            self.comment_of(inner, body, atom);
        }
        let tail = tail(self, inner);
        let is_expression = inner.out.is_empty();
        let text = inner.finish(tail);
        Ok(if is_expression { text } else { format!("{{\n{text}\n}}") })
    }

    /// The comment of the line that computes a result in the tail of a body.
    pub(crate) fn comment_of(&self, scope: &mut Scope, body: &Body, atom: Atom) {
        let eqn = body.eqns.iter().find(|eqn| {
            atom.var().is_some_and(|var| eqn.outs.contains(&var)) && scope.place(atom).is_none()
        });
        if let Some(eqn) = eqn {
            self.comment(scope, eqn.line);
        }
    }

    pub(super) fn owned_tuple(&self, scope: &mut Scope, atoms: &[Atom]) -> String {
        let mut texts = Vec::new();
        for (index, &atom) in atoms.iter().enumerate() {
            let last = !atoms[index + 1..].contains(&atom);
            texts.push(scope.owned(atom, &self.avals, last));
        }
        nested(&texts)
    }

    /// Initial values of a loop: references where the call accepts them.
    pub(super) fn initial(&self, scope: &mut Scope, atoms: &[Atom]) -> String {
        let by_reference = atoms.len() <= 4;
        let mut texts = Vec::new();
        for &atom in atoms {
            texts.push(match scope.place(atom) {
                Some(_) if by_reference => scope.like(atom, &self.avals),
                _ => scope.owned(atom, &self.avals, false),
            });
        }
        nested(&texts)
    }

    /// Binds the results of a loop by a nested pattern.
    pub(super) fn bind_results(
        &self,
        scope: &mut Scope,
        eqn: &Eqn,
        groups: &[&[Var]],
        text: &str,
        names: &[Option<String>],
    ) {
        self.comment(scope, eqn.line);
        let mut parts = Vec::new();
        let mut position = 0;
        for group in groups {
            let mut claimed = Vec::new();
            for &var in *group {
                let hint = names.get(position).cloned().flatten();
                position += 1;
                if scope.uses.get(&var).copied().unwrap_or(0) == 0 {
                    claimed.push("_".to_string());
                    continue;
                }
                let base = scope.python_names.get(&var).cloned().or(hint);
                let base = base.unwrap_or_else(|| "value".into());
                let name = scope.claim(&base, &[var]);
                scope.set_place(var, name.clone(), false);
                scope.owned.insert(var);
                claimed.push(name);
            }
            let all_unused = claimed.iter().all(|name| name == "_");
            parts.push(if all_unused { "_".to_string() } else { nested(&claimed) });
        }
        let pattern = match parts.as_slice() {
            [one] => one.clone(),
            parts => format!("({})", parts.join(", ")),
        };
        scope.push_let(&pattern, text);
    }

    fn scan(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let body = &eqn.bodies[0];
        let carried = eqn.size("num_carry").unwrap_or(0);
        let fits = carried <= body.ins.len()
            && carried <= body.outs.len()
            && eqn.ins.len() == body.ins.len()
            && eqn.outs.len() == body.outs.len();
        if !fits {
            return Err(self.unsupported(eqn, &Obstacle::new("its operands do not fit its body")));
        }
        let (init, xs) = eqn.ins.split_at(carried);
        let length = eqn.size("length").unwrap_or(0);
        let counter = counter(eqn, body, carried);
        let is_free = |counter: &Counter| !scope.uses.contains_key(&eqn.outs[counter.index]);
        if let Some(counter) = counter.filter(is_free) {
            return self.fori_loop(scope, eqn, counter, length);
        }
        let mut inner = scope.enter(body);
        let carry = self.claim_owned(&mut inner, body, 0..carried);
        let slices = self.claim_owned(&mut inner, body, carried..body.ins.len());
        let (carry, carry_type) = self.pattern(&carry, &body.ins[..carried]);
        let (slices, slices_type) = self.pattern(&slices, &body.ins[carried..]);
        let (next, stacked) = body.outs.split_at(carried);
        let text = self.closure(&mut inner, body, |writer, inner| {
            let all: Vec<Atom> = body.outs.clone();
            let moves = |writer: &Self, inner: &mut Scope, atoms: &[Atom], from: usize| {
                let mut texts = Vec::new();
                for (index, &atom) in atoms.iter().enumerate() {
                    let last = !all[from + index + 1..].contains(&atom);
                    texts.push(inner.owned(atom, &writer.avals, last));
                }
                nested(&texts)
            };
            let next = moves(writer, inner, next, 0);
            let stacked = moves(writer, inner, stacked, carried);
            format!("({next}, {stacked})")
        })?;
        let init = self.initial(scope, init);
        let xs = if xs.is_empty() { format!("{length}usize") } else { self.initial(scope, xs) };
        let closure = format!("|{carry}: {carry_type}, {slices}: {slices_type}| {text}");
        let call = match eqn.flag("reverse") {
            false => format!("scan({closure}, {init}, {xs})"),
            true => {
                let options = "ScanOptions::default().reverse(true)";
                format!("scan_with({closure}, {init}, {xs}, {options})")
            }
        };
        let (finals, outputs) = eqn.outs.split_at(carried);
        self.bind_results(scope, eqn, &[finals, outputs], &call, &body.names);
        Ok(())
    }

    /// A scan that counts is a `fori_loop`.
    fn fori_loop(
        &mut self,
        scope: &mut Scope,
        eqn: &Eqn,
        counter: Counter,
        length: usize,
    ) -> Written {
        let Counter { index, first } = counter;
        let mut body = eqn.bodies[0].clone();
        let next: Vec<Atom> =
            (0..body.outs.len()).filter(|&o| o != index).map(|o| body.outs[o]).collect();
        body.outs = next.clone();
        body.remove_unused(self.avals.len());
        let body = &body;
        let mut inner = scope.enter(body);
        let i = self.claim_owned(&mut inner, body, index..index + 1);
        let rest: Vec<usize> = (0..body.ins.len()).filter(|&other| other != index).collect();
        let mut names = Vec::new();
        for &other in &rest {
            names.extend(self.claim_owned(&mut inner, body, other..other + 1));
        }
        let vars: Vec<Var> = rest.iter().map(|&other| body.ins[other]).collect();
        let (carry, carry_type) = self.pattern(&names, &vars);
        let text =
            self.closure(&mut inner, body, |writer, inner| writer.owned_tuple(inner, &next))?;
        let init: Vec<Atom> = rest.iter().map(|&other| eqn.ins[other]).collect();
        let init = self.initial(scope, &init);
        let last = first + length as i128;
        let i = &i[0];
        let call = format!(
            "fori_loop({first}, {last}, |{i}: Array, {carry}: {carry_type}| {text}, {init})"
        );
        let finals: Vec<Var> = rest.iter().map(|&other| eqn.outs[other]).collect();
        let hints: Vec<Option<String>> =
            rest.iter().map(|&other| body.names.get(other).cloned().flatten()).collect();
        self.bind_results(scope, eqn, &[&finals], &call, &hints);
        Ok(())
    }

    fn while_loop(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let mut closures = Vec::new();
        for body in &eqn.bodies {
            if body.ins.len() != eqn.ins.len() {
                let obstacle = Obstacle::new("its operands do not fit its body");
                return Err(self.unsupported(eqn, &obstacle));
            }
            let mut inner = scope.enter(body);
            let names = self.claim_owned(&mut inner, body, 0..body.ins.len());
            let (pattern, ty) = self.pattern(&names, &body.ins);
            let outs = body.outs.clone();
            let text =
                self.closure(&mut inner, body, |writer, inner| writer.owned_tuple(inner, &outs))?;
            closures.push(format!("|{pattern}: {ty}| {text}"));
        }
        let init = self.initial(scope, &eqn.ins);
        let call = format!("while_loop({}, {init})", closures.join(", "));
        self.bind_results(scope, eqn, &[&eqn.outs], &call, &eqn.bodies[1].names);
        Ok(())
    }

    fn cond(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let mut closures = Vec::new();
        for body in &eqn.bodies {
            let mut inner = scope.enter(body);
            let outs = body.outs.clone();
            let text =
                self.closure(&mut inner, body, |writer, inner| writer.owned_tuple(inner, &outs))?;
            closures.push(format!("|_: ()| {text}"));
        }
        let index = scope.like(eqn.ins[0], &self.avals);
        let call = match closures.as_slice() {
            [no, yes] => {
                let predicate =
                    self.predicate(scope, eqn.ins[0]).unwrap_or(format!("ne({index}, 0)"));
                format!("cond({predicate}, {yes}, {no}, ())")
            }
            closures => format!("switch({index}, ({}), ())", closures.join(", ")),
        };
        self.bind_results(scope, eqn, &[&eqn.outs], &call, &[]);
        Ok(())
    }

    /// The boolean that was converted to the index of a branch.
    fn predicate(&self, scope: &Scope, index: Atom) -> Option<String> {
        let text = scope.text(index, &self.avals).text;
        let mask = text.strip_suffix(".astype(DType::I32)")?;
        let is_name = mask.chars().all(|c| c.is_alphanumeric() || c == '_');
        Some(if is_name { format!("&{mask}") } else { mask.to_string() })
    }

    /// A closure parameter by reference, with its parts in scope.
    pub(super) fn by_reference(
        &mut self,
        inner: &mut Scope,
        name: &str,
        tree: &TreeNode,
        vars: &[Var],
    ) -> (String, Ty) {
        let ty = self.tree_type(tree, name, vars);
        let name = inner.claim_parameter(name, vars);
        let mut leaves = vars.iter().copied();
        self.register(inner, &ty, tree, &name, true, &mut leaves);
        (name, ty)
    }
}

/// A counter of a loop: its position in the carry, and its first value.
struct Counter {
    index: usize,
    first: i128,
}

/// The counter of a scan without slices, as `fori_loop` makes it.
fn counter(eqn: &Eqn, body: &Body, carried: usize) -> Option<Counter> {
    let no_slices = carried == eqn.ins.len() && carried == body.outs.len() && carried >= 2;
    no_slices.then_some(())?;
    (0..carried).find_map(|index| {
        let Atom::Lit(first) = eqn.ins[index] else { return None };
        let Number::Int(first) = first.value else { return None };
        let next = body.outs[index].var()?;
        let step = body.eqns.iter().find(|eqn| eqn.outs == [next] && eqn.prim == "add")?;
        let [a, b] = step.ins[..] else { return None };
        let counts = a == Atom::Var(body.ins[index]) && b.number() == Some(1.0);
        // The counter after the loop is not available.
        (counts && !eqn.flag("reverse")).then_some(Counter { index, first })
    })
}

/// The leaves of each tree, in a list of all leaves.
pub(crate) fn ranges(trees: &[TreeNode]) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    let mut ranges = Vec::new();
    for tree in trees {
        let mut leaves = Vec::new();
        tree.leaves(&mut leaves);
        ranges.push(start..start + leaves.len());
        start += leaves.len();
    }
    ranges
}

/// `()`, `a`, `(a, b)`, or groups of twelve, the longest tuples that are trees.
pub(crate) fn nested(items: &[String]) -> String {
    match items {
        [] => "()".into(),
        [one] => one.clone(),
        items if items.len() <= 12 => format!("({})", items.join(", ")),
        items => {
            let groups: Vec<String> = items.chunks(12).map(nested).collect();
            nested(&groups)
        }
    }
}
