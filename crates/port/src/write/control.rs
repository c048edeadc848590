//! Loops, branches, derivatives, maps and calls.

use crate::error::{Obstacle, PortError};
use crate::file::TreeNode;
use crate::ir::{Atom, Body, Eqn, Number, Var};
use crate::types::Ty;

use super::Writer;
use super::scope::{Aggregate, Scope};
use super::text::Text;

type Written = Result<(), PortError>;

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
    fn pattern(&self, names: &[String], vars: &[Var]) -> (String, String) {
        let types: Vec<String> =
            vars.iter().map(|&var| self.types.text(&self.leaf_type(var))).collect();
        (nested(names), nested(&types))
    }

    /// Claims names for the parameters of a closure, which owns them.
    fn claim_owned(
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
    fn closure(
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

    fn owned_tuple(&self, scope: &mut Scope, atoms: &[Atom]) -> String {
        let mut texts = Vec::new();
        for (index, &atom) in atoms.iter().enumerate() {
            let last = !atoms[index + 1..].contains(&atom);
            texts.push(scope.owned(atom, &self.avals, last));
        }
        nested(&texts)
    }

    /// Initial values of a loop: references where the call accepts them.
    fn initial(&self, scope: &mut Scope, atoms: &[Atom]) -> String {
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
    fn bind_results(
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
    fn by_reference(
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

    fn described<'e>(&self, eqn: &'e Eqn) -> Result<Described, PortError> {
        let entry: Option<&'e serde_json::Value> = eqn.params.get("described");
        let described = entry.and_then(|value| serde::Deserialize::deserialize(value).ok());
        let missing = || self.unsupported(eqn, &Obstacle::new("its arguments are not described"));
        let described: Described = described.ok_or_else(missing)?;
        let mut leaves = Vec::new();
        described.trees.iter().for_each(|tree| tree.leaves(&mut leaves));
        let fits = leaves.len() == eqn.ins.len() && described.names.len() == described.trees.len();
        if fits { Ok(described) } else { Err(missing()) }
    }

    /// `grad(|params: &Params| loss(params, x))(params)`.
    fn grad(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let described = self.described(eqn)?;
        let body = &eqn.bodies[0];
        let argnums = eqn.sizes("argnums").unwrap_or_default();
        let with_value = eqn.flag("value");
        if body.ins.len() != eqn.ins.len() || argnums.iter().any(|&n| n >= described.trees.len()) {
            return Err(self.unsupported(eqn, &Obstacle::new("its operands do not fit its body")));
        }
        let mut inner = scope.enter(body);
        let ranges = ranges(&described.trees);
        // Other arguments are captured.
        for (index, range) in ranges.iter().enumerate() {
            if !argnums.contains(&index) {
                for leaf in range.clone() {
                    self.alias(&mut inner, scope, body.ins[leaf], eqn.ins[leaf]);
                }
            }
        }
        let mut parameters = Vec::new();
        let mut operands = Vec::new();
        let mut types = Vec::new();
        for &number in &argnums {
            let (tree, range) = (&described.trees[number], ranges[number].clone());
            let vars = body.ins[range.clone()].to_vec();
            let (name, ty) = self.by_reference(&mut inner, &described.names[number], tree, &vars);
            operands.push(self.argument(scope, &ty, tree, &eqn.ins[range]));
            parameters.push((name, self.types.text(&ty)));
            types.push(ty);
        }
        let (parameter, operand) = match (parameters.as_slice(), operands.as_slice()) {
            ([(name, ty)], [operand]) => (format!("{name}: &{ty}"), operand.clone()),
            (parameters, operands) => {
                let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
                let types: Vec<&str> = parameters.iter().map(|(_, ty)| ty.as_str()).collect();
                let pattern = format!("({}): &({})", names.join(", "), types.join(", "));
                (pattern, format!("({})", operands.join(", ")))
            }
        };
        let aux = eqn.flag("aux");
        let outs = body.outs.clone();
        let result = described.result.clone();
        let text = self.closure(&mut inner, body, |writer, inner| {
            let ty = writer.result_type(&result, &outs);
            writer.owned_tree(inner, &ty, &result, &outs)
        })?;
        let function = match (with_value, aux) {
            (false, false) => "grad",
            (true, false) => "value_and_grad",
            (false, true) => "grad_aux",
            (true, true) => "value_and_grad_aux",
        };
        let call = format!("{function}(|{parameter}| {text})({operand})");
        let gradient = match types.as_slice() {
            [one] => one.clone(),
            types => Ty::Tuple(types.to_vec()),
        };
        let mut rest = eqn.outs.as_slice();
        let take = |rest: &mut &[Var], count: usize| -> Vec<Var> {
            let (now, later) = rest.split_at(count.min(rest.len()));
            *rest = later;
            now.to_vec()
        };
        let gradient_tree = match argnums.as_slice() {
            [one] => described.trees[*one].clone(),
            many => TreeNode::Tuple(many.iter().map(|&n| described.trees[n].clone()).collect()),
        };
        let mut n_gradient = Vec::new();
        gradient_tree.leaves(&mut n_gradient);
        let aux_tree = match (&described.result, aux) {
            (TreeNode::Tuple(parts), true) => parts.get(1).cloned(),
            _ => None,
        };
        // JAX's order: value and auxiliary results first, or last without a value.
        let mut parts: Vec<(TreeNode, Ty, Vec<Var>, &str)> = Vec::new();
        let mut value_parts = Vec::new();
        if with_value {
            value_parts.push((TreeNode::Leaf(0), Ty::Array, take(&mut rest, 1), "value"));
            if let Some(tree) = &aux_tree {
                let mut leaves = Vec::new();
                tree.leaves(&mut leaves);
                let vars = take(&mut rest, leaves.len());
                value_parts.push((tree.clone(), self.tree_type(tree, "aux", &vars), vars, "aux"));
            }
        }
        let vars = take(&mut rest, n_gradient.len());
        parts.push((gradient_tree, gradient, vars, "gradient"));
        if let (false, Some(tree)) = (with_value, &aux_tree) {
            let mut leaves = Vec::new();
            tree.leaves(&mut leaves);
            let vars = take(&mut rest, leaves.len());
            parts.push((tree.clone(), self.tree_type(tree, "aux", &vars), vars, "aux"));
        }
        let names = eqn.line.and_then(|line| self.file.lines.get(line));
        let names = names.map(|line| line.names.clone()).unwrap_or_default();
        let n_parts = value_parts.len() + parts.len();
        let named = |index: usize, default: &str| match names.len() == n_parts {
            true => names[index].clone().unwrap_or_else(|| default.into()),
            false => default.into(),
        };
        self.comment(scope, eqn.line);
        let mut patterns = Vec::new();
        for (index, (tree, ty, vars, name)) in value_parts.iter().chain(&parts).enumerate() {
            patterns.push(self.result_pattern(scope, tree, ty, vars, &named(index, name)));
        }
        let pattern = match (with_value, aux, patterns.as_slice()) {
            (true, true, [value, aux, gradient]) => format!("(({value}, {aux}), {gradient})"),
            (_, _, [one]) => one.clone(),
            (_, _, patterns) => format!("({})", patterns.join(", ")),
        };
        scope.push_let(&pattern, &call);
        Ok(())
    }

    /// Makes a variable of a closure another name for a value outside of it.
    fn alias(&self, inner: &mut Scope, outer: &Scope, var: Var, atom: Atom) {
        let value = match atom {
            Atom::Var(other) => outer.values.get(&other).cloned(),
            Atom::Lit(_) => None,
        };
        match value {
            Some(value) => {
                inner.values.insert(var, value);
            }
            None => {
                let text = outer.text(atom, &self.avals);
                inner.values.insert(var, super::scope::Value::Inline(text));
            }
        }
        if let Atom::Var(other) = atom {
            let parts = inner.aggregates.clone();
            for aggregate in parts.iter().filter(|part| part.leaves.contains(&other)) {
                let replace = |&leaf: &Var| if leaf == other { var } else { leaf };
                let leaves = aggregate.leaves.iter().map(replace).collect();
                inner.add_aggregate(Aggregate { leaves, ..aggregate.clone() });
            }
        }
    }

    /// `vmap(|x: &Array| …)(&xs)`.
    fn vmap(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let described = self.described(eqn)?;
        let body = &eqn.bodies[0];
        let axes = eqn.params.get("in_axes").and_then(|value| value.as_array());
        let axes: Vec<Option<i64>> = axes.into_iter().flatten().map(|axis| axis.as_i64()).collect();
        if body.ins.len() != eqn.ins.len() || axes.len() != described.trees.len() {
            return Err(self.unsupported(eqn, &Obstacle::new("its operands do not fit its body")));
        }
        if axes.iter().flatten().any(|&axis| axis != 0) || eqn.integer("out_axes") != Some(0) {
            let obstacle = Obstacle::new("it maps another axis than 0, which is not supported yet");
            return Err(self.unsupported(eqn, &obstacle));
        }
        let mut inner = scope.enter(body);
        let ranges = ranges(&described.trees);
        let (mut parameters, mut operands) = (Vec::new(), Vec::new());
        for (index, range) in ranges.iter().enumerate() {
            let tree = &described.trees[index];
            if axes[index].is_none() {
                for leaf in range.clone() {
                    self.alias(&mut inner, scope, body.ins[leaf], eqn.ins[leaf]);
                }
                continue;
            }
            let vars = body.ins[range.clone()].to_vec();
            let (name, ty) = self.by_reference(&mut inner, &described.names[index], tree, &vars);
            parameters.push(format!("{name}: &{}", self.types.text(&ty)));
            operands.push(self.argument(scope, &ty, tree, &eqn.ins[range.clone()]));
        }
        let outs = body.outs.clone();
        let result = described.result.clone();
        let ty = self.result_type(&result, &outs);
        let text = self.closure(&mut inner, body, |writer, inner| {
            writer.owned_tree(inner, &ty, &result, &outs)
        })?;
        let call =
            format!("vmap(|{}| {text}).apply({})", parameters.join(", "), operands.join(", "));
        self.bind_tree(scope, eqn, &result, &ty, &call);
        Ok(())
    }

    /// A call of a user-defined function.
    fn call(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let Some(call) = eqn.call.and_then(|number| self.file.calls.get(number)) else {
            return Err(self.unsupported(eqn, &Obstacle::new("the call is not described")));
        };
        let body = &eqn.bodies[0];
        let trees: Vec<TreeNode> = call.params.iter().map(|(_, tree)| tree.clone()).collect();
        let ranges = ranges(&trees);
        let described = ranges.last().map_or(0, |range| range.end);
        let Some(extra) = eqn.ins.len().checked_sub(described) else {
            return Err(self.unsupported(eqn, &Obstacle::new("an argument is missing")));
        };
        if body.ins.len() != eqn.ins.len() {
            return Err(self.unsupported(eqn, &Obstacle::new("its operands do not fit its body")));
        }
        let name = self.function(call.name.as_str(), call, body, extra)?;
        let mut operands: Vec<String> =
            eqn.ins[..extra].iter().map(|&atom| scope.reference(atom, &self.avals)).collect();
        for ((hint, tree), range) in call.params.iter().zip(&ranges) {
            let range = range.start + extra..range.end + extra;
            let vars = &body.ins[range.clone()];
            let ty = self.tree_type(tree, hint, vars);
            if matches!(ty, Ty::Static | Ty::Unit) {
                continue;
            }
            operands.push(self.argument(scope, &ty, tree, &eqn.ins[range]));
        }
        let text = format!("{name}({})", operands.join(", "));
        let outs: Vec<Atom> = eqn.outs.iter().map(|&var| Atom::Var(var)).collect();
        let ty = self.result_type(&call.result, &outs);
        if let (Ty::Array | Ty::Key, [_]) = (&ty, eqn.outs.as_slice()) {
            let var = eqn.outs[0];
            let single = scope.uses.get(&var) == Some(&1);
            let unnamed = !scope.python_names.contains_key(&var);
            if single && unnamed && text.chars().count() <= 64 {
                let value = super::scope::Value::Inline(Text::atom(text));
                scope.set_unnamed(var, value, &eqn.ins);
                return Ok(());
            }
        }
        self.bind_tree(scope, eqn, &call.result.clone(), &ty, &text);
        Ok(())
    }

    /// Binds the result of a call to a pattern with the names of the line.
    fn bind_tree(&mut self, scope: &mut Scope, eqn: &Eqn, tree: &TreeNode, ty: &Ty, text: &str) {
        self.comment(scope, eqn.line);
        let names = eqn.line.and_then(|line| self.file.lines.get(line));
        let names = names.map(|line| line.names.clone()).unwrap_or_default();
        let pattern = match (tree, ty) {
            (TreeNode::Tuple(items), Ty::Tuple(types)) if !items.is_empty() => {
                let mut parts = Vec::new();
                let ranges = ranges(items);
                for (index, ((item, ty), range)) in items.iter().zip(types).zip(ranges).enumerate()
                {
                    if *ty == Ty::Static {
                        continue;
                    }
                    let name = match names.len() == items.len() {
                        true => names[index].clone().unwrap_or_else(|| "value".into()),
                        false => "value".into(),
                    };
                    let vars = eqn.outs[range].to_vec();
                    parts.push(self.result_pattern(scope, item, ty, &vars, &name));
                }
                match parts.as_slice() {
                    [one] => format!("({one},)"),
                    parts => format!("({})", parts.join(", ")),
                }
            }
            _ => {
                let python = eqn.outs.first().and_then(|var| scope.python_names.get(var).cloned());
                let name = match names.as_slice() {
                    [Some(name)] => name.clone(),
                    _ => python.unwrap_or_else(|| "value".into()),
                };
                self.result_pattern(scope, tree, ty, &eqn.outs.clone(), &name)
            }
        };
        scope.push_let(&pattern, text);
    }

    /// A pattern for a part of a result, with its parts in scope.
    fn result_pattern(
        &mut self,
        scope: &mut Scope,
        tree: &TreeNode,
        ty: &Ty,
        vars: &[Var],
        name: &str,
    ) -> String {
        if let (TreeNode::Tuple(items), Ty::Tuple(types)) = (tree, ty) {
            let mut parts = Vec::new();
            for (index, ((item, ty), range)) in
                items.iter().zip(types).zip(ranges(items)).enumerate()
            {
                if *ty != Ty::Static {
                    let name = format!("{name}_{index}");
                    parts.push(self.result_pattern(scope, item, ty, &vars[range], &name));
                }
            }
            return format!("({})", parts.join(", "));
        }
        if vars.iter().all(|var| scope.uses.get(var).copied().unwrap_or(0) == 0) {
            return "_".into();
        }
        let name = match (ty, vars) {
            (Ty::Array | Ty::Key, [var]) => {
                let name = scope.python_names.get(var).cloned().unwrap_or_else(|| name.into());
                scope.claim(&name, vars)
            }
            _ => scope.claim(name, vars),
        };
        let mut leaves = vars.iter().copied();
        self.register(scope, ty, tree, &name, false, &mut leaves);
        if let (Ty::Array | Ty::Key, [var]) = (ty, vars) {
            scope.owned.insert(*var);
        }
        name
    }
}

/// Arguments of a transform, as `port.py` describes them.
#[derive(Debug, serde::Deserialize)]
struct Described {
    trees: Vec<TreeNode>,
    result: TreeNode,
    names: Vec<String>,
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
