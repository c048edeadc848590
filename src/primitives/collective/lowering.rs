//! Lowering of collectives over mesh axes to StableHLO.

use crate::core::{Aval, DType, LowerCtx, RuleResult};
use crate::stablehlo::Value;

/// Groups of devices that take part in a collective together.
pub(super) struct Groups {
    /// Ordinals of devices in the mesh, group by group.
    pub(super) groups: Vec<Vec<usize>>,
}

impl Groups {
    /// Returns the groups along the axes of these names.
    ///
    /// # Errors
    /// `Unsupported` if the program is not inside of a `shard_map` over them.
    pub(super) fn along(
        ctx: &LowerCtx<'_>,
        primitive: &str,
        axes: &[String],
    ) -> RuleResult<Groups> {
        match ctx.groups(axes) {
            Some(groups) => Ok(Groups { groups }),
            None => super::unbound_axes(primitive, axes),
        }
    }

    /// Returns the number of devices per group.
    pub(super) fn size(&self) -> usize {
        self.groups.first().map_or(1, Vec::len)
    }

    /// Returns true if every group has one device.
    fn is_trivial(&self) -> bool {
        self.size() == 1
    }

    fn replica_groups(&self) -> String {
        let rows: Vec<String> = self.groups.iter().map(|group| format!("{group:?}")).collect();
        let (n, size) = (self.groups.len(), self.size());
        format!("replica_groups = dense<[{}]> : tensor<{n}x{size}xi64>", rows.join(", "))
    }

    /// Returns the attributes of an operation across partitions.
    fn attributes(&self, ctx: &mut LowerCtx<'_>, global: bool) -> String {
        let (groups, channel) = (self.replica_groups(), channel(ctx));
        let ids = if global { ", use_global_device_ids" } else { "" };
        format!("{channel}, {groups}{ids}")
    }
}

fn channel(ctx: &mut LowerCtx<'_>) -> String {
    format!("channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>", ctx.channel())
}

/// Returns the dtype in which elements are sent between devices. XLA's CPU collectives (plugin
/// 0.115) copy sub-byte elements as if each had one byte, past the end of their memory.
fn travelling(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::U2 | DType::U4 => DType::U8,
        DType::I2 | DType::I4 => DType::I8,
        small if small.bits() < 8 => DType::F32,
        other => other,
    }
}

/// Returns the dtype in which sums are computed. Elements of few bits are added in a dtype that
/// every platform can add.
fn summing(dtype: DType) -> DType {
    match travelling(dtype) {
        small if small.bits() == 8 && small.is_float() => DType::F32,
        other => other,
    }
}

fn converted(ctx: &mut LowerCtx<'_>, x: &Value, dtype: DType) -> Value {
    let to = x.ty().with_element(dtype.stablehlo());
    if to == *x.ty() { x.clone() } else { ctx.op_as("convert", std::slice::from_ref(x), "", &to) }
}

/// Applies `work` to `x` converted to another dtype, and converts the result back.
fn in_dtype(
    ctx: &mut LowerCtx<'_>,
    x: &Value,
    own: DType,
    dtype: DType,
    work: impl FnOnce(&mut LowerCtx<'_>, &Value) -> Value,
) -> Value {
    let input = converted(ctx, x, dtype);
    let moved = work(ctx, &input);
    converted(ctx, &moved, own)
}

fn reshaped(ctx: &mut LowerCtx<'_>, x: &Value, dims: &[usize]) -> Value {
    let to = x.ty().with_dims(dims);
    if to == *x.ty() { x.clone() } else { ctx.op_as("reshape", std::slice::from_ref(x), "", &to) }
}

fn dims(x: &Value) -> Vec<usize> {
    x.ty().dims().to_vec()
}

/// Returns a region that adds two scalars.
fn adding(ctx: &mut LowerCtx<'_>, x: &Value) -> RuleResult<crate::stablehlo::Region> {
    let scalar = x.ty().scalar();
    ctx.region(&[scalar.clone(), scalar], |writer, pair| Ok(vec![writer.op("add", pair)]))
}

/// Writes the sum over each group.
pub(super) fn sum(
    ctx: &mut LowerCtx<'_>,
    groups: &Groups,
    x: &Value,
    dtype: DType,
) -> RuleResult<Value> {
    if groups.is_trivial() {
        return Ok(x.clone());
    }
    let x = converted(ctx, x, summing(dtype));
    let attributes = groups.attributes(ctx, true);
    let region = adding(ctx, &x)?;
    let types = [x.ty().clone()];
    let sums = ctx.op_full("all_reduce", &[x], &attributes, vec![region], &types);
    Ok(converted(ctx, &sums[0], dtype))
}

/// Writes the sum over each group, of which each device gets its part along axis `dim`.
pub(super) fn sum_scatter(
    ctx: &mut LowerCtx<'_>,
    groups: &Groups,
    x: &Value,
    dim: usize,
    result: &Aval,
) -> RuleResult<Value> {
    if groups.is_trivial() {
        return Ok(reshaped(ctx, x, result.shape.dims()));
    }
    let x = converted(ctx, x, summing(result.dtype));
    let attributes = format!("{}, scatter_dimension = {dim} : i64", groups.attributes(ctx, true));
    let region = adding(ctx, &x)?;
    let mut part = dims(&x);
    part[dim] /= groups.size();
    let types = [x.ty().with_dims(&part)];
    let sums = ctx.op_full("reduce_scatter", &[x], &attributes, vec![region], &types);
    let sum = converted(ctx, &sums[0], result.dtype);
    Ok(reshaped(ctx, &sum, result.shape.dims()))
}

/// Writes the concatenation of the values of each group along axis `dim`.
pub(super) fn gather(
    ctx: &mut LowerCtx<'_>,
    groups: &Groups,
    x: &Value,
    dim: usize,
    dtype: DType,
) -> Value {
    if groups.is_trivial() {
        return x.clone();
    }
    if dims(x)[dim] == 0 {
        // StableHLO refuses to gather along an empty axis, and the result is empty too.
        return x.clone();
    }
    in_dtype(ctx, x, dtype, travelling(dtype), |ctx, x| {
        let attributes = format!("all_gather_dim = {dim} : i64, {}", groups.attributes(ctx, true));
        let mut whole = dims(x);
        whole[dim] *= groups.size();
        let to = x.ty().with_dims(&whole);
        ctx.op_as("all_gather", std::slice::from_ref(x), &attributes, &to)
    })
}

/// Stacks the values of each group along a new leading axis.
pub(super) fn stack(ctx: &mut LowerCtx<'_>, groups: &Groups, x: &Value, dtype: DType) -> Value {
    let own: Vec<usize> = std::iter::once(1).chain(dims(x)).collect();
    let own = reshaped(ctx, x, &own);
    gather(ctx, groups, &own, 0, dtype)
}

/// Sends part `k` along axis `split` to device `k` of each group, and concatenates what arrives
/// along axis `concat`.
pub(super) fn exchange(
    ctx: &mut LowerCtx<'_>,
    groups: &Groups,
    x: &Value,
    [split, concat]: [usize; 2],
    dtype: DType,
) -> Value {
    if groups.is_trivial() {
        return x.clone();
    }
    in_dtype(ctx, x, dtype, travelling(dtype), |ctx, x| {
        let n = groups.size();
        let attributes = format!(
            "{}, concat_dimension = {concat} : i64, split_count = {n} : i64, split_dimension = \
            {split} : i64",
            groups.attributes(ctx, false)
        );
        let mut shape = dims(x);
        shape[split] /= n;
        shape[concat] *= n;
        let to = x.ty().with_dims(&shape);
        ctx.op_as("all_to_all", std::slice::from_ref(x), &attributes, &to)
    })
}

/// Writes the exchange of slices of different sizes: operand, output, and offsets and sizes as in
/// [`RaggedAllToAll`](super::RaggedAllToAll).
pub(super) fn exchange_ragged(
    ctx: &mut LowerCtx<'_>,
    groups: &Groups,
    operands: &[Value],
    dtype: DType,
) -> Value {
    let mut inputs: Vec<Value> =
        operands[..2].iter().map(|x| converted(ctx, x, travelling(dtype))).collect();
    inputs.extend(operands[2..].iter().map(|x| converted(ctx, x, DType::I32)));
    let attributes = format!(
        "api_version = 4 : i32, backend_config = {{channel_id = {} : i64, {}}}, \
         call_target_name = \"ragged_all_to_all\"",
        ctx.channel(),
        groups.replica_groups()
    );
    let to = inputs[1].ty().clone();
    let received = ctx.op_as("custom_call", &inputs, &attributes, &to);
    converted(ctx, &received, dtype)
}

/// Sends values from device to device within each group; zeros arrive where nothing is sent.
pub(super) fn permute(
    ctx: &mut LowerCtx<'_>,
    groups: &Groups,
    x: &Value,
    perm: &[(usize, usize)],
    dtype: DType,
) -> Value {
    in_dtype(ctx, x, dtype, travelling(dtype), |ctx, x| {
        let pairs: Vec<String> = groups
            .groups
            .iter()
            .flat_map(|group| {
                perm.iter().map(|&(from, to)| format!("[{}, {}]", group[from], group[to]))
            })
            .collect();
        let list = if pairs.is_empty() {
            "dense<>".into()
        } else {
            format!("dense<[{}]>", pairs.join(", "))
        };
        let attributes = format!(
            "{}, source_target_pairs = {list} : tensor<{}x2xi64>",
            channel(ctx),
            pairs.len()
        );
        let to = x.ty().clone();
        ctx.op_as("collective_permute", std::slice::from_ref(x), &attributes, &to)
    })
}

/// Writes a reshape to the result's shape.
pub(super) fn shaped(ctx: &mut LowerCtx<'_>, x: &Value, result: &Aval) -> Value {
    reshaped(ctx, x, result.shape.dims())
}
