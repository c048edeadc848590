//! Exchange of slices of different sizes along named axes.

use super::axes::GroupSizes;
use super::lowering;
use super::{AllGather, AllToAll, CollectiveAxes};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Operand, Primitive, Registered, RuleError, RuleResult, Sample, Spmd, Tangent, bind,
    bind1,
};
use crate::primitives::comparison::{eq, ge, lt};
use crate::primitives::composite::lower_by;
use crate::primitives::constant::{full_like, zeros_like, zeros_of};
use crate::primitives::gather::{GatherDimensionNumbers, GatherScatterMode, gather};
use crate::primitives::iota::{broadcasted_iota, iota};
use crate::primitives::logic::bitwise_and;
use crate::primitives::reduce::{reduce_max, reduce_sum};
use crate::primitives::rules::{
    arity, batch_at, batch_at_front, batched, broadcast_axis, one_cotangent,
};
use crate::primitives::select::select;
use crate::primitives::shape::{broadcast_in_dim, reshape};
use crate::primitives::{add, convert_element_type, mul, sub};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// Names of the operands behind `operand` and `output`, for messages.
const INDICES: [&str; 4] = ["input_offsets", "send_sizes", "output_offsets", "recv_sizes"];

/// Sends slices of each example's rows, of sizes that are known at run time, to the examples along
/// named axes, and writes the received slices into `output`.
///
/// | | |
/// |-|-|
/// | operands   | `operand: any[n, …]`, `output` of the same dtype `[m, …]` with the same axes after the first; `input_offsets`, `send_sizes`, `output_offsets`, `recv_sizes: {int}[k]`, `k` a positive multiple of the size of a group |
/// | result     | type of `output`, whose rows are kept where nothing is received |
/// | lowering   | on TPU and GPU a custom call `ragged_all_to_all`; elsewhere, and for `vmap` over the axis, all examples' rows are gathered and each row of the result selects its own |
/// | derivative | linear in `operand` and `output`; transposes to the way back, and to a selection of the rows that nothing overwrites |
///
/// Slice `i` goes to example `i / (k / size)` of the group: rows `input_offsets[i]` to
/// `input_offsets[i] + send_sizes[i]` of `operand`, which the receiver writes from its row
/// `output_offsets[i]` on. `recv_sizes` are the sizes of the slices that arrive, in the order of
/// the senders. They must agree with the senders' `send_sizes`, and slices must be inside of their
/// arrays: the platforms differ in what they do otherwise.
///
/// As the way back overwrites too, derivatives in reverse mode need slices of `operand` that do not
/// overlap, and slices of the result that do not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RaggedAllToAll {
    /// The axes, and groups of equal size.
    #[serde(flatten)]
    pub axes: CollectiveAxes,
}

/// The slices that receivers get: arrays `i32[r, k]` for `r` receivers.
struct Received {
    /// First row of each slice in the result.
    starts: Array,
    /// Number of rows of each slice.
    sizes: Array,
}

impl Received {
    /// Returns an array `[r, k, rows]` with the values of slices.
    fn per_row(&self, values: &Array, rows: usize) -> Array {
        broadcast_in_dim(values, values.shape().insert(2, rows), &[0, 1])
    }

    /// Returns the number of the slice that each of `rows` rows of the result comes from, the last
    /// of several, or -1: `i32[r, rows]`.
    fn slice_of_row(&self, rows: usize) -> Array {
        let shape = self.starts.shape().insert(2, rows);
        let from_start =
            sub(broadcasted_iota(DType::I32, shape.clone(), 2), self.per_row(&self.starts, rows));
        let is_inside = bitwise_and(
            ge(&from_start, zeros_like(&from_start)),
            lt(&from_start, self.per_row(&self.sizes, rows)),
        );
        let number = broadcasted_iota(DType::I32, shape, 1);
        reduce_max(&select(&is_inside, &number, &full_like(&number, -1)), &[1])
    }

    /// Returns `output`, `[r, rows, …]`, with the received slices. Slice `k` begins at row
    /// `sources[k]` of `table`.
    fn write(&self, table: &Array, sources: &Array, output: &Array) -> Array {
        let (receivers, rows) = (output.shape()[0], output.shape()[1]);
        if table.size() == 0 || output.size() == 0 {
            return output.clone();
        }
        let slice = self.slice_of_row(rows);
        // The distance from a row of the result to its row of the table, of one slice per row.
        let distances = self.per_row(&sub(sources, &self.starts), rows);
        let number = broadcasted_iota(DType::I32, distances.shape().clone(), 1);
        let is_own = eq(&number, broadcast_in_dim(&slice, number.shape().clone(), &[0, 2]));
        let distance = reduce_sum(&select(&is_own, &distances, &zeros_like(&distances)), &[1]);
        let row = broadcasted_iota(DType::I32, [receivers, rows], 1);
        let received = rows_of(table, &add(row, distance));
        let is_received = ge(&slice, zeros_like(&slice));
        select(&broadcast_in_dim(&is_received, output.shape().clone(), &[0, 1]), &received, output)
    }
}

/// Returns the rows of `table` with these numbers, `[r, rows]`, limited to those that it has.
fn rows_of(table: &Array, rows: &Array) -> Array {
    let numbers = GatherDimensionNumbers {
        offset_dims: (2..table.rank() + 1).collect(),
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        ..GatherDimensionNumbers::default()
    };
    let mut sizes = table.shape().to_vec();
    sizes[0] = 1;
    let indices = reshape(rows, rows.shape().insert(2, 1));
    gather(table, &indices, &numbers, &sizes, GatherScatterMode::Clip)
}

/// Converts offsets or sizes to `i32`, the dtype in which they are computed.
fn as_i32(x: &Array) -> Array {
    convert_element_type(x, DType::I32)
}

/// Checks that `i32` can number the rows.
fn ensure_rows(name: &str, rows: usize) -> RuleResult<()> {
    let limit = i32::MAX as usize;
    ensure_shape!(rows <= limit, "{name} has {rows} rows, and offsets count up to {limit}");
    Ok(())
}

/// Merges the first two axes.
fn merge_front(x: &Array) -> Array {
    let mut shape = x.shape().to_vec();
    let outer = shape.remove(0);
    shape[0] *= outer;
    reshape(x, shape)
}

impl RaggedAllToAll {
    /// Returns the exchange that tells receivers about the slices that are sent to them.
    fn announcement(&self) -> AllToAll {
        AllToAll { axes: self.axes.clone(), split_axis: 0, concat_axis: 0, tiled: true }
    }

    /// Returns `x`, of the type of the result, with zeros in place of the received rows.
    fn kept(&self, x: &Array, output_offsets: &Array, recv_sizes: &Array) -> Array {
        let starts = bind1(self.announcement(), [&as_i32(output_offsets)]);
        let one = |x: &Array| reshape(x, x.shape().insert(0, 1));
        let received = Received { starts: one(&starts), sizes: one(&as_i32(recv_sizes)) };
        let slice = reshape(&received.slice_of_row(x.shape()[0]), [x.shape()[0]]);
        let is_received = ge(&slice, zeros_like(&slice));
        let is_received = broadcast_in_dim(&is_received, x.shape().clone(), &[0]);
        select(&is_received, &zeros_like(x), x)
    }

    /// Computes the results of all `r` examples along the axes from their operands, `[r, …]`.
    fn among_all(&self, operands: &[Array]) -> Array {
        let (operand, output) = (&operands[0], &operands[1]);
        let [input_offsets, output_offsets, recv_sizes] = [2, 4, 5].map(|at| as_i32(&operands[at]));
        let (rows, slices) = (operand.shape()[1], recv_sizes.shape()[1]);
        let announcement = self.announcement();
        let exchanged =
            |x: &Array| self.axes.in_groups(x, |members| announcement.exchanged(members));
        // For each example the indices of its group's members.
        let members = self.axes.in_groups(&iota(DType::I32, self.axes.size()), |group| {
            broadcast_axis(group, 1, group.shape()[1])
        });
        let per_sender = slices / members.shape()[1].max(1);
        let senders = reshape(&broadcast_axis(&members, 2, per_sender), recv_sizes.shape().clone());
        let first = mul(&senders, full_like(&senders, rows as i32));
        let received = Received { starts: exchanged(&output_offsets), sizes: recv_sizes };
        let sources = add(first, exchanged(&input_offsets));
        received.write(&merge_front(operand), &sources, output)
    }

    /// Computes the result of one device with other collectives.
    fn among_devices(&self, operands: &[Array]) -> Array {
        let (operand, output) = (&operands[0], &operands[1]);
        let [input_offsets, output_offsets, recv_sizes] = [2, 4, 5].map(|at| as_i32(&operands[at]));
        let (rows, slices) = (operand.shape()[0], recv_sizes.shape()[0]);
        let gather = AllGather { axes: self.axes.clone(), all_gather_dimension: 0, tiled: true };
        let table = bind1(gather, [operand]);
        let per_sender = slices / self.axes.group_size().max(1);
        let senders = broadcast_axis(&iota(DType::I32, self.axes.group_size()), 1, per_sender);
        let first = mul(&senders, full_like(&senders, rows as i32));
        let [starts, offsets] =
            [&output_offsets, &input_offsets].map(|x| bind1(self.announcement(), [x]));
        let one = |x: &Array| reshape(x, [1, slices]);
        let received = Received { starts: one(&starts), sizes: one(&recv_sizes) };
        let sources = add(one(&first), one(&offsets));
        let output = reshape(output, output.shape().insert(0, 1));
        let result = received.write(&table, &sources, &output);
        reshape(&result, result.shape().remove(0))
    }
}

impl Primitive for RaggedAllToAll {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [operand, output, indices @ ..] = arity::<6>(operands)?;
        self.axes.check(GroupSizes::Equal)?;
        ensure_dtype!(
            operand.dtype == output.dtype,
            "operand and output have the dtypes {} and {}, which must be equal",
            operand.dtype,
            output.dtype
        );
        for (name, aval) in [("operand", operand), ("output", output)] {
            ensure_shape!(aval.rank() > 0, "{name} needs a leading axis of rows, got {aval}");
            ensure_rows(name, aval.shape[0])?;
        }
        let [sent, written] = [operand, output].map(|aval| aval.shape.remove(0));
        ensure_shape!(
            sent == written,
            "rows of operand have the shape {sent}, and rows of output {written}"
        );
        for (name, aval) in INDICES.iter().zip(indices) {
            ensure_dtype!(aval.dtype.is_integer(), "{name} must be integers, got {aval}");
            ensure_shape!(aval.rank() == 1, "{name} must have one axis, got {aval}");
        }
        let (slices, n) = (indices[0].shape[0], self.axes.group_size());
        for (name, aval) in INDICES.iter().zip(indices) {
            let size = aval.shape[0];
            ensure_shape!(
                size == slices,
                "{name} has {size} elements, and input_offsets has {slices}"
            );
        }
        if slices == 0 || n == 0 || slices % n != 0 {
            let along = self.axes.described();
            return Err(RuleError::shape(format!(
                "{slices} slices, and equally many are to go to each of the {n} along {along}"
            ))
            .help("slices may be empty: their size is 0"));
        }
        Ok(vec![Aval { weak: false, ..output.clone() }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let apply = |operand: &Array, output: &Array| {
            let rest = primals[2..].iter();
            let operands: Vec<&Array> = [operand, output].into_iter().chain(rest).collect();
            bind(self.clone(), &operands).swap_remove(0)
        };
        let result = apply(&primals[0], &primals[1]);
        let tangent = match (tangents[0].array(), tangents[1].array()) {
            (None, None) => Tangent::zero_like(&result),
            (None, Some(output)) => self.kept(output, &primals[4], &primals[5]).into(),
            (Some(operand), _) => apply(operand, &tangents[1].to_dense()).into(),
        };
        Ok((vec![result], vec![tangent]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        if axis.is_among(&self.axes.axis_names) {
            let rows = operands[0].shape()[usize::from(axes[0] == Some(0))];
            ensure_rows("the operand of all examples", rows.saturating_mul(self.axes.size()))?;
            return Ok(self.axes.batch_all(operands, axes, axis, |all| self.among_all(all)));
        }
        // The rows and the slices of all examples become those of one. A slice of each example is
        // followed by that of the next, so that the receivers stay in order.
        let values = batch_at_front(&operands[..2], &axes[..2], axis);
        if axis.size == 0 {
            return Ok(batched(values[1].clone(), 0));
        }
        let merged: Vec<Array> = values.iter().map(merge_front).collect();
        let indices: Vec<Array> = operands[2..]
            .iter()
            .zip(&axes[2..])
            .map(|(x, from)| batch_at(&as_i32(x), *from, 1, axis))
            .collect();
        let slices = indices[0].shape().clone();
        let shifted = |x: &Array, rows: usize| {
            let example = broadcasted_iota(DType::I32, slices.clone(), 1);
            add(x, mul(&example, full_like(&example, rows as i32)))
        };
        let flat = |x: &Array| reshape(x, [slices.size()]);
        let [sent, written] = [0, 1].map(|index| values[index].shape()[1]);
        let result = bind1(
            self.clone(),
            [
                &merged[0],
                &merged[1],
                &flat(&shifted(&indices[0], sent)),
                &flat(&indices[1]),
                &flat(&shifted(&indices[2], written)),
                &flat(&indices[3]),
            ],
        );
        Ok(batched(reshape(&result, values[1].shape().clone()), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let groups = self.axes.device_groups(ctx, self.name())?;
        if operands[..2].iter().any(|x| x.ty().dims().contains(&0)) {
            return Ok(vec![operands[1].clone()]);
        }
        if ctx.target().has_ragged_all_to_all() && groups.size() > 1 {
            let result = lowering::exchange_ragged(ctx, &groups, operands, results[0].dtype);
            return Ok(vec![result]);
        }
        let rows = operands[0].ty().dims()[0].saturating_mul(groups.size());
        ensure_rows("the operand of a whole group", rows)?;
        lower_by(ctx, operands, |operands| vec![self.among_devices(operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::whole(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let known: Vec<&Array> = operands[2..].iter().filter_map(Operand::known).collect();
        let [input_offsets, send_sizes, output_offsets, recv_sizes] = known.as_slice() else {
            return Err(RuleError::not_linear(Self::NAME));
        };
        let announced = |x: &Array| bind1(self.announcement(), [x]);
        let to_operand = operands[0].is_linear().then(|| {
            let zeros = zeros_of(&ct.aval().with_shape(&operands[0].aval().shape));
            let (from, to) = (announced(output_offsets), announced(input_offsets));
            bind1(self.clone(), [ct, &zeros, &from, recv_sizes, &to, send_sizes]).into()
        });
        let to_output =
            operands[1].is_linear().then(|| self.kept(ct, output_offsets, recv_sizes).into());
        Ok(vec![to_operand, to_output, None, None, None, None])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for RaggedAllToAll {
    fn communication(&self) -> Option<Communication> {
        Some(self.axes.communication(Collective::AllToAll))
    }
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(self.axes.axis_names.clone())
    }
}

impl Registered for RaggedAllToAll {
    const NAME: &'static str = "ragged_all_to_all";
    fn exemplars() -> Vec<Exemplar> {
        // The values of all examples: input offsets, send sizes, output offsets, receive sizes.
        let one_axis = [
            [0, 1, 3, 1, 3, 0, 0, 2, 3],
            [1, 2, 0, 0, 1, 2, 2, 0, 1],
            [4, 0, 0, 0, 3, 2, 1, 0, 0],
            [1, 0, 2, 2, 1, 0, 0, 2, 1],
        ];
        let in_groups = [
            [2, 0, 0, 1, 1, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 2],
            [1, 0, 1, 1, 1, 0, 0, 0, 0, 2, 1, 0, 1, 1, 0, 1],
            [3, 0, 1, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 2, 0, 3],
            [1, 0, 1, 1, 1, 0, 0, 0, 0, 2, 1, 0, 1, 1, 0, 1],
        ];
        let samples = |dtype, sent: &[usize], written: &[usize], indices: Vec<Sample>| {
            let values = [sent, written].map(|shape| Sample::uniform(dtype, shape, -9.0, 9.0));
            values.into_iter().chain(indices).collect::<Vec<_>>()
        };
        let listed = |dtype, slices: usize, indices: &[&[i32]]| {
            let floats = indices.iter().map(|x| x.iter().copied().map(f64::from));
            let floats = floats.map(Iterator::collect::<Vec<f64>>);
            floats.map(|x| Sample::listed(dtype, [slices], &x)).collect::<Vec<Sample>>()
        };
        let along = |dtype, sent: &[usize], written: &[usize], index_dtype| {
            let indices = listed(index_dtype, 3, &one_axis.each_ref().map(|x| x.as_slice()));
            let primitive = RaggedAllToAll { axes: CollectiveAxes::one("i", 3) };
            Exemplar::new(primitive, samples(dtype, sent, written, indices)).along([("i", 3)])
        };
        let grouped = |dtype, sent: &[usize], written: &[usize]| {
            let indices = listed(DType::I32, 4, &in_groups.each_ref().map(|x| x.as_slice()));
            let primitive = RaggedAllToAll { axes: CollectiveAxes::exemplar() };
            let samples = samples(dtype, sent, written, indices);
            Exemplar::new(primitive, samples).along([("i", 2), ("j", 2)])
        };
        let empty = {
            let indices = vec![Sample::listed(DType::I32, [3], &[0.0]); 4];
            let primitive = RaggedAllToAll { axes: CollectiveAxes::one("i", 3) };
            Exemplar::new(primitive, samples(DType::F32, &[0, 2], &[3, 2], indices))
        };
        vec![
            along(DType::F32, &[4, 2], &[5, 2], DType::I32),
            along(DType::F64, &[4], &[5], DType::U8),
            along(DType::I32, &[4, 1, 2], &[5, 1, 2], DType::I64),
            grouped(DType::F32, &[3], &[4]),
            grouped(DType::F64, &[3, 2], &[4, 2]),
            empty.along([("i", 3)]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Mesh;
    use crate::core::manual_axes::Manual;
    use crate::core::trace::{Mode, Tracing};
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    fn avals(sent: &[usize], written: &[usize], slices: usize) -> [Aval; 6] {
        let [sent, written] = [sent, written].map(|shape| Aval::new(DType::BF16, shape));
        let indices = Aval::new(DType::I64, [slices]);
        [sent, written, indices.clone(), indices.clone(), indices.clone(), indices]
    }

    /// Returns the operations in a region over the mesh axis `i` of four devices.
    fn lowered_for(platform: &str) -> String {
        let groups = Some(vec![vec![0, 3], vec![2, 1]]);
        let axes = CollectiveAxes { axis_index_groups: groups, ..CollectiveAxes::one("i", 4) };
        let tracing = Tracing::begin(Mode::All, None);
        let inputs = avals(&[5, 3], &[4, 3], 2).map(|aval| tracing.input(aval));
        let output = bind1(RaggedAllToAll { axes }, inputs.each_ref());
        let (program, _) = tracing.finish(&[output]);
        let mut ctx = LowerCtx::new(platform);
        let mesh = Mesh::without_devices([("i", 4)]).expect("a mesh");
        let manual = Manual { mesh, axes: vec!["i".into()] };
        ctx.with_manual(manual, |ctx| ctx.function(&program, "main")).expect("lowers");
        let module = ctx.finish("m");
        let body = module.lines().filter(|line| line.contains("stablehlo."));
        body.map(|line| line.split(" loc(").next().unwrap_or(line).trim().to_string() + "\n")
            .collect()
    }

    #[test]
    fn lowering() {
        expect![[r#"
            %6 = "stablehlo.convert"(%2) : (tensor<2xi64>) -> tensor<2xi32>
            %7 = "stablehlo.convert"(%3) : (tensor<2xi64>) -> tensor<2xi32>
            %8 = "stablehlo.convert"(%4) : (tensor<2xi64>) -> tensor<2xi32>
            %9 = "stablehlo.convert"(%5) : (tensor<2xi64>) -> tensor<2xi32>
            %10 = "stablehlo.custom_call"(%0, %1, %6, %7, %8, %9) <{api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 3], [2, 1]]> : tensor<2x2xi64>}, call_target_name = "ragged_all_to_all"}> : (tensor<5x3xbf16>, tensor<4x3xbf16>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<4x3xbf16>
        "#]].assert_eq(&lowered_for("cuda"));
        assert_eq!(lowered_for("tpu"), lowered_for("cuda"));
        let cpu = lowered_for("cpu");
        assert!(cpu.contains("all_gather") && cpu.contains("all_to_all"), "{cpu}");
        assert!(!cpu.contains("ragged_all_to_all"), "{cpu}");
    }

    #[test]
    fn rejects_operands_that_do_not_fit() {
        let exchange = || RaggedAllToAll { axes: CollectiveAxes::one("i", 4) };
        expect![[r#"
            error[shape]: ragged_all_to_all: 6 slices, and equally many are to go to each of the 4 along `i`
              operand 0: bf16[5,3]
              operand 1: bf16[4,3]
              operand 2: i64[6]
              operand 3: i64[6]
              operand 4: i64[6]
              operand 5: i64[6]
              help: slices may be empty: their size is 0"#]].assert_eq(&error_of(exchange(), avals(&[5, 3], &[4, 3], 6)));
        expect![[r#"
            error[shape]: ragged_all_to_all: rows of operand have the shape [3], and rows of output [2]
              operand 0: bf16[5,3]
              operand 1: bf16[4,2]
              operand 2: i64[8]
              operand 3: i64[8]
              operand 4: i64[8]
              operand 5: i64[8]"#]].assert_eq(&error_of(exchange(), avals(&[5, 3], &[4, 2], 8)));
        expect![[r#"
            error[shape]: ragged_all_to_all: operand has 2147483648 rows, and offsets count up to 2147483647
              operand 0: bf16[2147483648]
              operand 1: bf16[4]
              operand 2: i64[8]
              operand 3: i64[8]
              operand 4: i64[8]
              operand 5: i64[8]"#]].assert_eq(&error_of(exchange(), avals(&[1 << 31], &[4], 8)));
    }
}
