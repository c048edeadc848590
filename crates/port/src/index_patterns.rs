//! Indexing that JAX writes as slices, gathers and scatters.

use serde_json::{Value, json};

use crate::ir::{Atom, Dtype, Eqn, Number};
use crate::patterns::{Replacement, View};

impl View<'_> {
    /// The index before JAX counts negative numbers from the end: `where(i < 0, i + n, i)`.
    fn index_of(&self, atom: Atom, size: usize) -> Option<Atom> {
        let eqn = self.def(atom)?;
        let (mask, negative, plain) = match (eqn.prim.as_str(), &eqn.ins[..]) {
            ("select_n", &[mask, plain, negative]) => (mask, negative, plain),
            ("lib.where", &[mask, negative, plain]) => (mask, negative, plain),
            _ => return self.is_natural(atom, 0).then_some(atom),
        };
        let (less, sum) = (self.is(mask, "lt")?, self.is(negative, "add")?);
        let below_zero = less.ins[0] == plain && less.ins.get(1)?.number() == Some(0.0);
        let wraps = Self::orders(sum)
            .into_iter()
            .any(|(i, n)| i == plain && n.number() == Some(size as f64));
        (below_zero && wraps).then_some(plain)
    }

    /// True if an index is never negative.
    fn is_natural(&self, atom: Atom, depth: usize) -> bool {
        let Some(eqn) = self.def(atom) else { return false };
        match eqn.prim.as_str() {
            "argmax" | "argmin" | "iota" => true,
            "clamp" | "max" | "lib.maximum" => {
                eqn.ins.iter().any(|atom| atom.number().is_some_and(|low| low >= 0.0))
                    && (eqn.prim != "clamp" || eqn.ins[0].number().is_some_and(|low| low >= 0.0))
            }
            "lib.clip" => eqn.ins.get(1).and_then(|low| low.number()).is_some_and(|low| low >= 0.0),
            "convert_element_type" | "reshape" | "squeeze" | "broadcast_in_dim" => {
                depth < 4 && self.is_natural(eqn.ins[0], depth + 1)
            }
            _ => false,
        }
    }

    /// The indices before an axis of size 1 was added at the end.
    fn without_last_axis(&self, atom: Atom) -> Option<Atom> {
        let eqn = self.def(atom)?;
        let operand = *eqn.ins.first()?;
        let (shape, from) = (self.shape(atom), self.shape(operand));
        let added = shape.split_last() == Some((&1, from));
        let keeps = match eqn.prim.as_str() {
            "reshape" => true,
            "broadcast_in_dim" => {
                eqn.sizes("broadcast_dimensions")?.iter().copied().eq(0..from.len())
            }
            _ => false,
        };
        (added && keeps).then_some(operand)
    }

    fn numbers<const N: usize>(&self, eqn: &Eqn, names: [&str; N]) -> Option<[Vec<usize>; N]> {
        let numbers = eqn.params.get("dimension_numbers")?;
        let lists: Option<Vec<Vec<usize>>> = names
            .iter()
            .map(|name| match numbers.get(*name) {
                Some(axes) => crate::ir::sizes(axes),
                // Versions before 0.4.32 have no batching axes.
                None => name.contains("batching").then(Vec::new),
            })
            .collect();
        lists?.try_into().ok()
    }

    pub(crate) fn gather(&self, eqn: &Eqn) -> Option<Replacement> {
        let [operand, indices] = eqn.ins[..] else { return None };
        let names = [
            "offset_dims",
            "collapsed_slice_dims",
            "start_index_map",
            "operand_batching_dims",
            "start_indices_batching_dims",
        ];
        let [offset, collapsed, map, batching, index_batching] = self.numbers(eqn, names)?;
        let shape = self.shape(operand);
        let rank = shape.len();
        let fills = eqn.text("mode") == Some("FILL_OR_DROP") || eqn.integer("mode") == Some(1);
        let sizes = eqn.sizes("slice_sizes")?;
        let [axis] = map[..] else {
            let first = map.iter().copied().eq(0..map.len()) && map == collapsed;
            let plain = first && !fills && batching.is_empty() && map.len() <= rank;
            return plain.then(|| self.several_indices(eqn, map.len(), &offset, &sizes))?;
        };
        if collapsed != [axis] || axis >= rank {
            return None;
        }
        let ids = self.index_of(self.without_last_axis(indices)?, shape[axis]);
        let ids = ids.or_else(|| {
            let wrapped = self.index_of(indices, shape[axis])?;
            self.without_last_axis(wrapped)
        })?;
        let others: Vec<usize> = (0..rank).filter(|&other| other != axis).collect();
        if !batching.is_empty() {
            let along = batching == others
                && index_batching == others
                && offset.is_empty()
                && sizes.iter().all(|&size| size == 1)
                && self.shape(ids).len() == rank
                && fills;
            return along
                .then(|| ("lib.take_along_axis", json!({ "axis": axis }), vec![operand, ids]));
        }
        let index_rank = self.shape(ids).len();
        let wanted: Vec<usize> =
            (0..axis).chain(axis + index_rank..rank - 1 + index_rank).collect();
        let full = (0..rank)
            .all(|other| sizes.get(other) == Some(if other == axis { &1 } else { &shape[other] }));
        if offset != wanted || !full {
            return None;
        }
        Some(("lib.take", json!({ "axis": axis, "fill": fills }), vec![operand, ids]))
    }

    /// `x[i, j]` with one array of indices for each of the first axes.
    fn several_indices(
        &self,
        eqn: &Eqn,
        count: usize,
        offset: &[usize],
        sizes: &[usize],
    ) -> Option<Replacement> {
        let [operand, indices] = eqn.ins[..] else { return None };
        let joined = self.is(indices, "concatenate")?;
        let shape = self.shape(operand);
        let rank = self.shape(indices).len().checked_sub(1)?;
        let along_last = joined.size("dimension") == Some(rank) && joined.ins.len() == count;
        let full = (0..shape.len())
            .all(|axis| sizes.get(axis) == Some(if axis < count { &1 } else { &shape[axis] }));
        let after = offset.iter().copied().eq(rank..rank + shape.len() - count);
        if !along_last || !full || !after {
            return None;
        }
        let mut ins = vec![operand];
        for (&column, &size) in joined.ins.iter().zip(shape) {
            ins.push(self.index_of(self.without_last_axis(column)?, size)?);
        }
        let items: Vec<Value> = (1..=count).map(|index| json!({ "operand": index })).collect();
        Some(("lib.index", json!({ "items": items }), ins))
    }

    /// `x[2]`, `x[:, 0]`, and `x[i]` with an index that is computed.
    pub(crate) fn index(&self, eqn: &Eqn) -> Option<Replacement> {
        let part = *eqn.ins.first()?;
        let slice = self.def(part)?;
        if !self.single_use(part) || !["slice", "dynamic_slice"].contains(&slice.prim.as_str()) {
            return None;
        }
        let operand = *slice.ins.first()?;
        let shape = self.shape(operand);
        let squeezed = eqn.sizes("dimensions")?;
        let mut ins = vec![operand];
        let mut items = Vec::new();
        if slice.prim == "slice" {
            let (starts, limits) = (slice.sizes("start_indices")?, slice.sizes("limit_indices")?);
            let steps = slice.sizes("strides");
            if steps.is_some_and(|steps| steps.iter().any(|&step| step != 1)) {
                return None;
            }
            for (axis, &size) in shape.iter().enumerate() {
                let (start, limit) = (*starts.get(axis)?, *limits.get(axis)?);
                items.push(match (squeezed.contains(&axis), limit == size) {
                    (true, _) if limit == start + 1 => json!({ "at": start }),
                    (true, _) => return None,
                    (false, true) => json!({ "from": start }),
                    (false, false) => json!({ "from": start, "to": limit }),
                });
            }
        } else {
            let sizes = slice.sizes("slice_sizes")?;
            for (axis, &size) in shape.iter().enumerate() {
                let (start, length) = (*slice.ins.get(axis + 1)?, *sizes.get(axis)?);
                if squeezed.contains(&axis) && length == 1 {
                    ins.push(self.index_of(start, size)?);
                    items.push(json!({ "operand": ins.len() - 1 }));
                } else if length == size && !squeezed.contains(&axis) {
                    items.push(json!({ "from": 0 }));
                } else {
                    return None;
                }
            }
        }
        if operand.var().is_some_and(|var| self.avals[var].dtype == Dtype::Key) {
            let [item] = items.as_slice() else { return None };
            return Some(("lib.key_get", json!({ "index": item.get("at")? }), ins));
        }
        Some(("lib.index", json!({ "items": items }), ins))
    }

    /// A key of several, of which only the numbers were looked at.
    pub(crate) fn key_of_several(&self, eqn: &Eqn) -> Option<Replacement> {
        let index = self.is(*eqn.ins.first()?, "lib.index")?;
        let keys = self.is(index.ins[0], "random_unwrap")?.ins[0];
        let items = index.params.get("items")?.as_array()?;
        let [first, Value::Object(rest)] = items.as_slice() else { return None };
        let whole = rest.get("from") == Some(&json!(0)) && !rest.contains_key("to");
        let index = first.get("at").filter(|_| whole && self.shape(keys).len() == 1)?;
        Some(("lib.key_get", json!({ "index": index }), vec![keys]))
    }

    /// `segment_sum(data, ids, n)` and `x.at[ids].add(v)`.
    pub(crate) fn scatter(&self, eqn: &Eqn) -> Option<Replacement> {
        let [operand, indices, updates] = eqn.ins[..] else { return None };
        let names = [
            "update_window_dims",
            "inserted_window_dims",
            "scatter_dims_to_operand_dims",
            "operand_batching_dims",
        ];
        let [window, inserted, map, batching] = self.numbers(eqn, names)?;
        let drops = eqn.text("mode") == Some("FILL_OR_DROP") || eqn.integer("mode") == Some(1);
        let shape = self.shape(operand);
        let column = self.without_last_axis(indices)?;
        let index_rank = self.shape(column).len();
        let rank = self.shape(updates).len();
        let rows = inserted == [0]
            && map == [0]
            && batching.is_empty()
            && window.iter().copied().eq(index_rank..rank)
            && rank + 1 == shape.len() + index_rank
            && self.shape(updates).get(index_rank..) == shape.get(1..)
            && drops;
        if !rows {
            return None;
        }
        let zeros = self.is(operand, "broadcast_in_dim").is_some_and(|eqn| match eqn.ins[0] {
            Atom::Lit(literal) => literal.value.of(Dtype::F64) == Number::Float(0.0),
            Atom::Var(_) => false,
        });
        let count = *shape.first()?;
        let ids = self.index_of(column, count);
        if let (true, "scatter-add", 1) = (zeros, eqn.prim.as_str(), index_rank) {
            let natural = ids.is_some_and(|ids| self.is_natural(ids, 0));
            let ids = if natural { ids? } else { column };
            let params = json!({ "segments": count });
            return Some(("lib.segment_sum", params, vec![updates, ids]));
        }
        let method = match eqn.prim.as_str() {
            "scatter" => "set",
            "scatter-add" => "add",
            "scatter-mul" => "mul",
            "scatter-min" => "min",
            "scatter-max" => "max",
            _ => return None,
        };
        Some(("lib.at", json!({ "method": method }), vec![operand, ids?, updates]))
    }

    /// `eye(n)`.
    pub(crate) fn eye(&self, eqn: &Eqn) -> Option<Replacement> {
        let equal = self.is(*eqn.ins.first()?, "eq")?;
        let [rows, columns] = equal.ins[..] else { return None };
        let axis = |atom: Atom| self.is(atom, "iota")?.size("dimension");
        let shape = self.shape(rows);
        let square = shape.len() == 2 && shape[0] == shape[1] && shape == self.shape(columns);
        let is_eye = square && axis(rows) == Some(0) && axis(columns) == Some(1);
        is_eye.then(|| ("lib.eye", json!({ "size": shape[0] }), vec![rows]))
    }
}
