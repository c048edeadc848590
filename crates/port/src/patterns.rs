//! Functions that were written out: softmax, layer normalization, attention, means, GELU.
//!
//! A pattern is replaced only if all its axes, shapes and constants are those of the function's
//! definition.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::ir::{Atom, Aval, Body, Eqn, Var};

/// Replaces the patterns in a body.
pub(crate) fn recognise(body: &mut Body, avals: &[Aval]) {
    share(body);
    body.remove_unused(avals.len());
    // A pattern may be part of a larger one: mean and variance of layer normalization.
    for _ in 0..8 {
        let mut changed = false;
        for index in 0..body.eqns.len() {
            let replacement = {
                let view = View::new(body, avals);
                view.replacement(index)
            };
            if let Some((prim, params, ins)) = replacement {
                let Value::Object(params) = params else { continue };
                let eqn = &mut body.eqns[index];
                (eqn.prim, eqn.params, eqn.ins) = (prim.to_string(), params, ins);
                changed = true;
            }
        }
        body.remove_unused(avals.len());
        if !changed {
            return;
        }
    }
}

/// Computes equal expressions once.
fn share(body: &mut Body) {
    let mut known: HashMap<String, Vec<Var>> = HashMap::new();
    let mut same: HashMap<Var, Var> = HashMap::new();
    for eqn in &mut body.eqns {
        rename(eqn, &same);
        if !eqn.bodies.is_empty() {
            continue;
        }
        let key = format!("{} {:?} {:?}", eqn.prim, eqn.params, eqn.ins);
        match known.get(&key) {
            Some(outs) if outs.len() == eqn.outs.len() => {
                same.extend(eqn.outs.iter().copied().zip(outs.iter().copied()));
            }
            _ => {
                known.insert(key, eqn.outs.clone());
            }
        }
    }
    for atom in &mut body.outs {
        replace(atom, &same);
    }
}

fn replace(atom: &mut Atom, same: &HashMap<Var, Var>) {
    if let Some(&var) = atom.var().and_then(|var| same.get(&var)) {
        *atom = Atom::Var(var);
    }
}

fn rename(eqn: &mut Eqn, same: &HashMap<Var, Var>) {
    for atom in &mut eqn.ins {
        replace(atom, same);
    }
    for body in &mut eqn.bodies {
        for eqn in &mut body.eqns {
            rename(eqn, same);
        }
        for atom in &mut body.outs {
            replace(atom, same);
        }
    }
}

pub(crate) type Replacement = (&'static str, Value, Vec<Atom>);

/// The equations of a body by the variable that they define, and the numbers of uses.
pub(crate) struct View<'b> {
    body: &'b Body,
    pub(crate) avals: &'b [Aval],
    defs: HashMap<Var, usize>,
    uses: HashMap<Var, usize>,
}

const REDUCTIONS: &[&str] = &[
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_and",
    "reduce_or",
    "lib.mean",
];

impl<'b> View<'b> {
    fn new(body: &'b Body, avals: &'b [Aval]) -> View<'b> {
        let mut defs = HashMap::new();
        for (index, eqn) in body.eqns.iter().enumerate() {
            defs.extend(eqn.outs.iter().map(|&var| (var, index)));
        }
        let mut uses = HashMap::new();
        body.for_each_use(&mut |var| *uses.entry(var).or_insert(0) += 1);
        View { body, avals, defs, uses }
    }

    pub(crate) fn def(&self, atom: Atom) -> Option<&'b Eqn> {
        self.body.eqns.get(*self.defs.get(&atom.var()?)?)
    }

    /// The definition of an operand, if it is this primitive.
    pub(crate) fn is(&self, atom: Atom, prim: &str) -> Option<&'b Eqn> {
        self.def(atom).filter(|eqn| eqn.prim == prim)
    }

    pub(crate) fn shape(&self, atom: Atom) -> &[usize] {
        match atom {
            Atom::Var(var) => &self.avals[var].shape,
            Atom::Lit(_) => &[],
        }
    }

    pub(crate) fn single_use(&self, atom: Atom) -> bool {
        atom.var().is_some_and(|var| self.uses.get(&var) == Some(&1))
    }

    /// Both operands, in both orders.
    pub(crate) fn orders(eqn: &Eqn) -> Vec<(Atom, Atom)> {
        match eqn.ins[..] {
            [a, b] => vec![(a, b), (b, a)],
            _ => Vec::new(),
        }
    }

    fn replacement(&self, index: usize) -> Option<Replacement> {
        let eqn = &self.body.eqns[index];
        match eqn.prim.as_str() {
            "broadcast_in_dim" => self.keepdims(eqn),
            "div" => self.mean(eqn).or_else(|| self.softmax(eqn)).or_else(|| self.standard(eqn)),
            "mul" => self.standard(eqn).or_else(|| self.gelu(eqn)),
            "sub" => self.log_softmax(eqn),
            "add" => self.logsumexp(eqn).or_else(|| self.layer_norm(eqn)),
            "ne" if eqn.ins.len() == 2 && eqn.ins[0] == eqn.ins[1] => {
                Some(("lib.isnan", json!({}), vec![eqn.ins[0]]))
            }
            "transpose" => self.attention(eqn),
            "lib.mean" => self.squared_error(eqn).or_else(|| self.variance(eqn)),
            "neg" => self.cross_entropy(eqn),
            "gather" => self.gather(eqn),
            "squeeze" => self.index(eqn),
            "random_wrap" => self.key_of_several(eqn),
            "convert_element_type" => self.eye(eqn),
            prim if prim.starts_with("scatter") => self.scatter(eqn),
            _ => None,
        }
    }

    /// A reduction followed by a broadcast that restores axes of size 1.
    fn keepdims(&self, eqn: &Eqn) -> Option<Replacement> {
        let operand = *eqn.ins.first()?;
        let reduction = self.def(operand)?;
        let prim = REDUCTIONS.iter().find(|&&prim| prim == reduction.prim)?;
        if !self.single_use(operand) || reduction.flag("keepdims") {
            return None;
        }
        let axes = reduction.sizes("axes")?;
        let dims = eqn.sizes("broadcast_dimensions")?;
        let shape = self.shape(*reduction.ins.first()?);
        let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
        let with_ones: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(axis, &size)| if axes.contains(&axis) { 1 } else { size })
            .collect();
        if dims != kept || eqn.sizes("shape")? != with_ones || with_ones == self.shape(operand) {
            return None;
        }
        let mut params = reduction.params.clone();
        params.insert("keepdims".into(), json!(true));
        Some((prim, Value::Object(params), reduction.ins.clone()))
    }

    fn mean(&self, eqn: &Eqn) -> Option<Replacement> {
        let [total, count] = eqn.ins[..] else { return None };
        let sum = self.is(total, "reduce_sum")?;
        let axes = sum.sizes("axes")?;
        let shape = self.shape(sum.ins[0]);
        let size: usize = axes.iter().map(|&axis| shape.get(axis)).sum_product()?;
        if axes.is_empty() || count.number()? != size as f64 {
            return None;
        }
        let params = json!({ "axes": axes, "keepdims": sum.flag("keepdims") });
        Some(("lib.mean", params, vec![sum.ins[0]]))
    }

    /// `max(x)` over these axes, kept, also without a gradient.
    fn is_kept_max(&self, atom: Atom, x: Atom) -> Option<Vec<usize>> {
        let atom = self.is(atom, "stop_gradient").map_or(atom, |eqn| eqn.ins[0]);
        let max = self.is(atom, "reduce_max")?;
        (max.ins[0] == x && max.flag("keepdims")).then(|| max.sizes("axes"))?
    }

    /// `x - max(x)`: the operand and the axes.
    fn shifted(&self, atom: Atom) -> Option<(Atom, Vec<usize>)> {
        let sub = self.is(atom, "sub")?;
        let [x, max] = sub.ins[..] else { return None };
        Some((x, self.is_kept_max(max, x)?))
    }

    fn softmax(&self, eqn: &Eqn) -> Option<Replacement> {
        let [terms, total] = eqn.ins[..] else { return None };
        let (exp, sum) = (self.is(terms, "exp")?, self.is(total, "reduce_sum")?);
        let (x, axes) = self.shifted(exp.ins[0])?;
        let same = sum.ins[0] == terms && sum.flag("keepdims") && sum.sizes("axes")? == axes;
        same.then(|| ("lib.softmax", json!({ "axes": axes }), vec![x]))
    }

    fn log_softmax(&self, eqn: &Eqn) -> Option<Replacement> {
        let [shifted, log] = eqn.ins[..] else { return None };
        let (x, axes) = self.shifted(shifted)?;
        let sum = self.is(self.is(log, "log")?.ins[0], "reduce_sum")?;
        let exp = self.is(sum.ins[0], "exp")?;
        let same = exp.ins[0] == shifted && sum.flag("keepdims") && sum.sizes("axes")? == axes;
        same.then(|| ("lib.log_softmax", json!({ "axes": axes }), vec![x]))
    }

    /// `log(|sum(exp(x - m))|) + m`, where m is the maximum, or 0 where that is infinite.
    fn logsumexp(&self, eqn: &Eqn) -> Option<Replacement> {
        let [log, max] = eqn.ins[..] else { return None };
        let total = self.is(log, "log")?.ins[0];
        let total = self.is(total, "abs").map_or(total, |abs| abs.ins[0]);
        let sum = self.is(total, "reduce_sum")?;
        let sub = self.is(self.is(sum.ins[0], "exp")?.ins[0], "sub")?;
        let (x, axes) = (sub.ins[0], sum.sizes("axes")?);
        let kept = self.is(sub.ins[1], "broadcast_in_dim").map_or(sub.ins[1], |eqn| eqn.ins[0]);
        if kept != max || sum.flag("keepdims") {
            return None;
        }
        let max = self.is(max, "stop_gradient").map_or(max, |eqn| eqn.ins[0]);
        let largest = match self.is(max, "select_n") {
            Some(select) => {
                let [finite, zero, largest] = select.ins[..] else { return None };
                let zero = self.is(zero, "broadcast_in_dim").map_or(zero, |eqn| eqn.ins[0]);
                let tested = self.is(finite, "is_finite")?.ins[0];
                (tested == largest && zero.number() == Some(0.0)).then_some(largest)?
            }
            None => max,
        };
        let reduction = self.is(largest, "reduce_max")?;
        let same = reduction.ins[0] == x && reduction.sizes("axes")? == axes;
        same.then(|| ("lib.logsumexp", json!({ "axes": axes, "keepdims": false }), vec![x]))
    }

    /// `mean(square(x - mean(x)))` is `var(x)`.
    fn variance(&self, eqn: &Eqn) -> Option<Replacement> {
        let axes = eqn.sizes("axes")?;
        let (x, _) = self.centred(self.squared(eqn.ins[0])?, &axes)?;
        let keepdims = eqn.flag("keepdims");
        Some(("lib.var", json!({ "axes": axes, "keepdims": keepdims, "ddof": 0.0 }), vec![x]))
    }

    fn squared(&self, atom: Atom) -> Option<Atom> {
        let eqn = self.def(atom)?;
        let square = match eqn.prim.as_str() {
            "square" => true,
            "integer_pow" => eqn.integer("y") == Some(2),
            "mul" => eqn.ins.len() == 2 && eqn.ins[0] == eqn.ins[1],
            _ => false,
        };
        square.then(|| eqn.ins[0])
    }

    /// `x - mean(x)` over these axes.
    fn centred(&self, atom: Atom, axes: &[usize]) -> Option<(Atom, Atom)> {
        let sub = self.is(atom, "sub")?;
        let [x, mean] = sub.ins[..] else { return None };
        let kept = self.is(mean, "lib.mean").filter(|eqn| eqn.flag("keepdims"))?;
        (kept.ins[0] == x && kept.sizes("axes")? == axes).then_some((x, mean))
    }

    /// `(x - mean(x)) / sqrt(var(x) + epsilon)`, or times `rsqrt`.
    fn standard(&self, eqn: &Eqn) -> Option<Replacement> {
        let root = if eqn.prim == "div" { "sqrt" } else { "rsqrt" };
        let orders = Self::orders(eqn);
        let orders = if eqn.prim == "div" { &orders[..1.min(orders.len())] } else { &orders[..] };
        for &(centred, scale) in orders {
            let Some(root) = self.is(scale, root) else { continue };
            let Some(sum) = self.is(root.ins[0], "add") else { continue };
            for (variance, epsilon) in Self::orders(sum) {
                let Some(epsilon) = epsilon.number() else { continue };
                let Some(var) = self.is(variance, "lib.var") else { continue };
                let axes = var.sizes("axes")?;
                let plain = var.flag("keepdims") && var.params.get("ddof")?.as_f64() == Some(0.0);
                if let (true, Some((x, _))) = (plain, self.centred(centred, &axes))
                    && x == var.ins[0]
                {
                    let params = json!({ "axes": axes, "epsilon": shortest(epsilon) });
                    return Some(("lib.standardize", params, vec![x]));
                }
            }
        }
        None
    }

    /// A vector that was broadcast along the last axis.
    fn vector(&self, atom: Atom, features: usize) -> Option<Atom> {
        if self.shape(atom) == [features] {
            return Some(atom);
        }
        let eqn = self.is(atom, "broadcast_in_dim")?;
        let rank = eqn.sizes("shape")?.len();
        let last = eqn.sizes("broadcast_dimensions")? == [rank.checked_sub(1)?];
        (last && self.shape(eqn.ins[0]) == [features]).then(|| eqn.ins[0])
    }

    /// `standardize(x) * scale + bias` over the last axis.
    fn layer_norm(&self, eqn: &Eqn) -> Option<Replacement> {
        for (scaled, bias) in Self::orders(eqn) {
            let Some(product) = self.is(scaled, "mul") else { continue };
            for (standard, scale) in Self::orders(product) {
                let Some(inner) = self.is(standard, "lib.standardize") else { continue };
                let x = inner.ins[0];
                let shape = self.shape(x);
                let last = shape.len().checked_sub(1)?;
                if inner.sizes("axes")? != [last] {
                    continue;
                }
                let features = shape[last];
                let vectors = (self.vector(scale, features), self.vector(bias, features));
                if let (Some(scale), Some(bias)) = vectors {
                    let params = json!({ "epsilon": inner.params.get("epsilon")? });
                    return Some(("lib.layer_norm", params, vec![x, scale, bias]));
                }
            }
        }
        None
    }

    /// The factors of a product.
    fn factors(&self, atom: Atom, factors: &mut Vec<Atom>, depth: usize) {
        match self.is(atom, "mul") {
            Some(eqn) if depth < 4 && (depth == 0 || self.single_use(atom)) => {
                for &atom in &eqn.ins {
                    self.factors(atom, factors, depth + 1);
                }
            }
            _ => factors.push(atom),
        }
    }

    /// `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`.
    fn gelu(&self, eqn: &Eqn) -> Option<Replacement> {
        let near = |atom: Atom, value: f64| {
            atom.number().is_some_and(|number| (number - value).abs() < 1e-6)
        };
        let mut factors = Vec::new();
        for &atom in &eqn.ins {
            self.factors(atom, &mut factors, 1);
        }
        let half = factors.iter().position(|&atom| near(atom, 0.5))?;
        factors.remove(half);
        let [a, b] = factors[..] else { return None };
        for (x, gate) in [(a, b), (b, a)] {
            let Some(one_plus) = self.is(gate, "add") else { continue };
            let gate = Self::orders(one_plus).into_iter().find(|(one, _)| near(*one, 1.0));
            let Some(tanh) = gate.and_then(|(_, gate)| self.is(gate, "tanh")) else { continue };
            let scaled = self.is(tanh.ins[0], "mul")?;
            let (_, sum) = Self::orders(scaled)
                .into_iter()
                .find(|(factor, _)| near(*factor, (2.0 / std::f64::consts::PI).sqrt()))?;
            let sum = self.is(sum, "add")?;
            let (_, cubic) = Self::orders(sum).into_iter().find(|(other, _)| *other == x)?;
            let cubic = self.is(cubic, "mul")?;
            let (_, cube) =
                Self::orders(cubic).into_iter().find(|(factor, _)| near(*factor, 0.044715))?;
            let cube = self.is(cube, "integer_pow")?;
            if cube.integer("y") == Some(3) && cube.ins[0] == x {
                return Some(("lib.gelu", json!({ "approximate": true }), vec![x]));
            }
        }
        None
    }

    /// `mean(square(a - b))` over all axes.
    fn squared_error(&self, eqn: &Eqn) -> Option<Replacement> {
        let sub = self.is(self.squared(eqn.ins[0])?, "sub")?;
        let [a, b] = sub.ins[..] else { return None };
        let shape = self.shape(a);
        let all = eqn.sizes("axes")?.len() == shape.len() && !shape.is_empty();
        let centring = self.is(b, "lib.mean").is_some();
        let same = shape == self.shape(b) && all && !eqn.flag("keepdims") && !centring;
        same.then(|| ("lib.mean_squared_error", json!({}), vec![a, b]))
    }

    /// `-mean(take_along_axis(log_softmax(logits), labels))`.
    fn cross_entropy(&self, eqn: &Eqn) -> Option<Replacement> {
        let mean = self.is(*eqn.ins.first()?, "lib.mean")?;
        let picked = self.is(mean.ins[0], "lib.take_along_axis")?;
        let [log_probs, labels] = picked.ins[..] else { return None };
        let log_softmax = self.is(log_probs, "lib.log_softmax")?;
        let shape = self.shape(log_probs);
        let last = shape.len().checked_sub(1)?;
        let all = mean.sizes("axes")?.len() == self.shape(mean.ins[0]).len();
        let over_last = log_softmax.sizes("axes")? == [last] && picked.size("axis") == Some(last);
        let column = self.is(labels, "broadcast_in_dim")?;
        let labels = column.ins[0];
        let fits = self.shape(labels) == &shape[..last];
        let plain = all && over_last && fits && !mean.flag("keepdims");
        let ins = vec![log_softmax.ins[0], labels];
        plain.then_some(("lib.mean_cross_entropy", json!({}), ins))
    }

    /// Scaled dot-product attention over `[batch, position, head, feature]`.
    fn attention(&self, eqn: &Eqn) -> Option<Replacement> {
        // The values: [b, s, n, h] with weights [b, n, t, s], in either order of operands.
        let product = self.is(*eqn.ins.first()?, "dot_general")?;
        let numbers = product.params.get("dimension_numbers")?;
        let (values, weights) = match numbers.to_string().as_str() {
            "[[[1],[3]],[[0,2],[0,1]]]" => (product.ins[0], product.ins[1]),
            _ => return None,
        };
        if eqn.sizes("permutation")? != [0, 3, 1, 2] {
            return None;
        }
        let softmax = self.is(weights, "lib.softmax")?;
        if softmax.sizes("axes")? != [3] {
            return None;
        }
        let (scores, mask) = match self.is(softmax.ins[0], "lib.where") {
            Some(select) => {
                let [mask, scores, low] = select.ins[..] else { return None };
                // exp(-1e9 - max) is 0 in every float type of at least 32 bits.
                (low.number()? <= -1e9).then_some(())?;
                (scores, Some(mask))
            }
            None => (softmax.ins[0], None),
        };
        let (scores, scale) = match self.def(scores) {
            Some(scaled) if scaled.prim == "div" => (scaled.ins[0], 1.0 / scaled.ins[1].number()?),
            Some(scaled) if scaled.prim == "mul" => {
                let (scores, factor) = Self::orders(scaled)
                    .into_iter()
                    .find(|(_, factor)| factor.number().is_some())?;
                (scores, factor.number()?)
            }
            _ => (scores, 1.0),
        };
        let dot = self.is(scores, "dot_general")?;
        let numbers = dot.params.get("dimension_numbers")?.to_string();
        let [query, key] = dot.ins[..] else { return None };
        if numbers != "[[[3],[3]],[[0,2],[0,2]]]" || self.shape(key) != self.shape(values) {
            return None;
        }
        let shape = self.shape(query);
        if shape.len() != 4 || self.shape(key).len() != 4 {
            return None;
        }
        let usual = (1.0 / (shape[3] as f64).sqrt() - scale).abs() < 1e-7;
        let scale = if usual { Value::Null } else { json!(scale) };
        let causal = mask.is_some_and(|mask| self.is_causal(mask, shape[1], self.shape(key)[1]));
        let mut ins = vec![query, key, values];
        ins.extend(mask.filter(|_| !causal));
        Some(("lib.dot_product_attention", json!({ "causal": causal, "scale": scale }), ins))
    }

    /// `tril(ones)` of as many rows as columns.
    fn is_causal(&self, mask: Atom, queries: usize, keys: usize) -> bool {
        let mask = self.is(mask, "broadcast_in_dim").map_or(mask, |eqn| eqn.ins[0]);
        let ones = self.is(mask, "lib.tril").filter(|eqn| eqn.integer("k") == Some(0));
        let ones = ones.and_then(|eqn| self.is(eqn.ins[0], "broadcast_in_dim"));
        let is_true = |atom: Atom| match atom {
            Atom::Lit(literal) => literal.value == crate::ir::Number::Bool(true),
            Atom::Var(_) => false,
        };
        queries == keys
            && self.shape(mask) == [queries, keys]
            && ones.is_some_and(|eqn| is_true(eqn.ins[0]))
    }
}

/// Sizes that may be missing, multiplied.
trait SumProduct {
    fn sum_product(self) -> Option<usize>;
}

impl<'s, I: Iterator<Item = Option<&'s usize>>> SumProduct for I {
    fn sum_product(mut self) -> Option<usize> {
        self.try_fold(1usize, |product, size| product.checked_mul(*size?))
    }
}

/// The shortest number that rounds to the same `f32`.
pub(crate) fn shortest(value: f64) -> f64 {
    let single = value as f32;
    match (f64::from(single) == value, single.to_string().parse()) {
        (true, Ok(short)) => short,
        _ => value,
    }
}
