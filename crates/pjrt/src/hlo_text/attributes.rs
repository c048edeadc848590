//! Text of an instruction's attributes.

use super::proto::{
    Convolution, Dot, Gather, Group, Instruction, IotaGroups, Precision, Scatter, Window,
};
use super::shape::{list, sharding};
use super::sources::Sources;

/// Returns the attributes in XLA's order, as far as the opcode has them.
pub(super) fn attributes(instruction: &Instruction, sources: &Sources<'_>) -> Vec<String> {
    let mut all = Vec::new();
    own_attributes(instruction, &mut all);
    all.extend(called(instruction, sources));
    communication(instruction, &mut all);
    if let Some(op_sharding) = &instruction.sharding {
        all.push(format!("sharding={}", sharding(op_sharding)));
    }
    if let Some(precision) = &instruction.precision_config {
        all.extend(precision_text(precision));
    }
    // Some compilers write binary data here.
    let config = std::str::from_utf8(&instruction.backend_config).unwrap_or_default();
    if !config.is_empty() && !config.contains(char::is_control) {
        let config = if config.starts_with('{') { config.into() } else { format!("{config:?}") };
        all.push(format!("backend_config={config}"));
    }
    all
}

/// Appends the attributes of the operation itself.
fn own_attributes(instruction: &Instruction, all: &mut Vec<String>) {
    let opcode = instruction.opcode.as_str();
    let dims = |values: &[i64]| format!("{{{}}}", list(values, ","));
    if opcode == "get-tuple-element" {
        all.push(format!("index={}", instruction.tuple_index));
    }
    if opcode == "iota" {
        all.push(format!("iota_dimension={}", list(&instruction.dimensions, ",")));
    } else if !instruction.dimensions.is_empty() || opcode == "broadcast" {
        all.push(format!("dimensions={}", dims(&instruction.dimensions)));
    }
    if let Some(window) = instruction.window.as_ref().filter(|found| !found.dimensions.is_empty()) {
        all.push(format!("window={{{}}}", window_text(window)));
    }
    if let Some(convolution) = &instruction.convolution {
        all.push(format!("dim_labels={}", convolution_labels(convolution)));
    }
    for (name, count) in [
        ("feature_group_count", instruction.feature_group_count),
        ("batch_group_count", instruction.batch_group_count),
    ] {
        if count > 1 {
            all.push(format!("{name}={count}"));
        }
    }
    if !instruction.slice_dimensions.is_empty() {
        let ranges = instruction.slice_dimensions.iter().map(|range| match range.stride {
            0 | 1 => format!("[{}:{}]", range.start, range.limit),
            stride => format!("[{}:{}:{stride}]", range.start, range.limit),
        });
        all.push(format!("slice={{{}}}", ranges.collect::<Vec<_>>().join(", ")));
    }
    if !instruction.dynamic_slice_sizes.is_empty() {
        all.push(format!("dynamic_slice_sizes={}", dims(&instruction.dynamic_slice_sizes)));
    }
    if let Some(padding) = &instruction.padding_config {
        let texts = padding.dimensions.iter().map(|dim| match dim.interior {
            0 => format!("{}_{}", dim.low, dim.high),
            interior => format!("{}_{}_{interior}", dim.low, dim.high),
        });
        all.push(format!("padding={}", texts.collect::<Vec<_>>().join("x")));
    }
    if let Some(dot) = &instruction.dot {
        all.extend(dot_texts(dot));
    }
    if let Some(gather) = &instruction.gather {
        all.extend(gather_texts(gather));
        all.push(format!("slice_sizes={}", dims(&instruction.gather_slice_sizes)));
    }
    if let Some(scatter) = &instruction.scatter {
        all.extend(scatter_texts(scatter));
    }
    if opcode == "fft" {
        let kinds = ["FFT", "IFFT", "RFFT", "IRFFT"];
        let kind = usize::try_from(instruction.fft_type).ok().and_then(|at| kinds.get(at));
        all.push(format!("fft_type={}", kind.unwrap_or(&"FFT")));
        all.push(format!("fft_length={}", dims(&instruction.fft_length)));
    }
    if !instruction.comparison_direction.is_empty() {
        all.push(format!("direction={}", instruction.comparison_direction));
    }
    if opcode == "reduce-precision" {
        all.push(format!("exponent_bits={}", instruction.exponent_bits));
        all.push(format!("mantissa_bits={}", instruction.mantissa_bits));
    }
    if opcode == "rng-bit-generator" {
        let names = ["rng_default", "rng_three_fry", "rng_philox"];
        let name = usize::try_from(instruction.rng_algorithm).ok().and_then(|at| names.get(at));
        all.push(format!("algorithm={}", name.unwrap_or(&"rng_default")));
    }
    if let Some(solve) = &instruction.triangular_solve {
        let transposes = ["INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
        let transpose = usize::try_from(solve.transpose_a).ok().and_then(|at| transposes.get(at));
        let flags = (solve.left_side, solve.lower, solve.unit_diagonal);
        all.push(format!("left_side={}, lower={}, unit_diagonal={}", flags.0, flags.1, flags.2));
        all.push(format!("transpose_a={}", transpose.unwrap_or(&"INVALID")));
    }
    if let Some(cholesky) = instruction.cholesky.as_ref().filter(|_| opcode == "cholesky") {
        all.push(format!("lower={}", cholesky.lower));
    }
    for (name, flag) in [
        ("is_stable", instruction.is_stable),
        ("indices_are_sorted", instruction.indices_are_sorted),
        ("unique_indices", instruction.unique_indices),
    ] {
        if flag {
            all.push(format!("{name}=true"));
        }
    }
    if !instruction.custom_call_target.is_empty() {
        all.push(format!("custom_call_target={:?}", instruction.custom_call_target));
        if instruction.has_side_effect {
            all.push("custom_call_has_side_effect=true".into());
        }
    }
}

/// Returns the computations that the instruction calls, by their roles.
fn called(instruction: &Instruction, sources: &Sources<'_>) -> Vec<String> {
    let name = |id: &i64| match sources.computation(*id) {
        Some(computation) => format!("%{}", computation.name),
        None => format!("%{id}"),
    };
    let names: Vec<String> = instruction.called_computation_ids.iter().map(name).collect();
    match (instruction.opcode.as_str(), names.as_slice()) {
        (_, []) => Vec::new(),
        ("fusion", [fused, ..]) => {
            vec![format!("kind={}", instruction.fusion_kind), format!("calls={fused}")]
        }
        ("while", [body, condition]) => {
            vec![format!("condition={condition}"), format!("body={body}")]
        }
        ("conditional", branches) => {
            vec![format!("branch_computations={{{}}}", branches.join(", "))]
        }
        ("select-and-scatter", [select, scatter]) => {
            vec![format!("select={select}"), format!("scatter={scatter}")]
        }
        ("custom-call" | "async-start", all) => {
            vec![format!("called_computations={{{}}}", all.join(", "))]
        }
        (_, [only]) => vec![format!("to_apply={only}")],
        (_, several) => vec![format!("calls={{{}}}", several.join(", "))],
    }
}

/// Appends channel, device groups and pairs.
fn communication(instruction: &Instruction, all: &mut Vec<String>) {
    if instruction.channel_id > 0 {
        all.push(format!("channel_id={}", instruction.channel_id));
    }
    let list_of_devices = instruction.device_list.as_ref();
    let iota = instruction.iota_device_list.as_ref();
    let iota = iota.or_else(|| list_of_devices.and_then(|devices| devices.iota.as_ref()));
    let explicit = match list_of_devices {
        Some(devices) if !devices.replica_groups.is_empty() => &devices.replica_groups,
        _ => &instruction.replica_groups,
    };
    if let Some(iota) = iota {
        all.push(format!("replica_groups={}", iota_text(iota)));
    } else if !explicit.is_empty() {
        let text = |group: &Group| format!("{{{}}}", list(&group.replica_ids, ","));
        let groups: Vec<String> = explicit.iter().map(text).collect();
        all.push(format!("replica_groups={{{}}}", groups.join(",")));
    }
    if instruction.use_global_device_ids {
        all.push("use_global_device_ids=true".into());
    }
    if instruction.is_host_transfer {
        all.push("is_host_transfer=true".into());
    }
    if !instruction.source_target_pairs.is_empty() {
        let pairs = instruction.source_target_pairs.iter();
        let pairs: Vec<String> =
            pairs.map(|pair| format!("{{{},{}}}", pair.source, pair.target)).collect();
        all.push(format!("source_target_pairs={{{}}}", pairs.join(",")));
    }
}

fn iota_text(iota: &IotaGroups) -> String {
    let IotaGroups { groups, per_group, reshape_dims, permutation } = iota;
    let text = format!("[{groups},{per_group}]<=[{}]", list(reshape_dims, ","));
    match permutation.len() {
        0 | 1 => text,
        _ => format!("{text}T({})", list(permutation, ",")),
    }
}

fn window_text(window: &Window) -> String {
    let dims = &window.dimensions;
    let joined = |value: &dyn Fn(usize) -> String| {
        (0..dims.len()).map(value).collect::<Vec<String>>().join("x")
    };
    let mut text = format!("size={}", joined(&|at| dims[at].size.to_string()));
    if dims.iter().any(|dim| dim.stride > 1) {
        text.push_str(&format!(" stride={}", joined(&|at| dims[at].stride.to_string())));
    }
    if dims.iter().any(|dim| dim.padding_low != 0 || dim.padding_high != 0) {
        let pads = joined(&|at| format!("{}_{}", dims[at].padding_low, dims[at].padding_high));
        text.push_str(&format!(" pad={pads}"));
    }
    if dims.iter().any(|dim| dim.base_dilation > 1) {
        let dilations = joined(&|at| dims[at].base_dilation.to_string());
        text.push_str(&format!(" lhs_dilate={dilations}"));
    }
    if dims.iter().any(|dim| dim.window_dilation > 1) {
        let dilations = joined(&|at| dims[at].window_dilation.to_string());
        text.push_str(&format!(" rhs_dilate={dilations}"));
    }
    if dims.iter().any(|dim| dim.window_reversal) {
        let reversals = joined(&|at| u8::from(dims[at].window_reversal).to_string());
        text.push_str(&format!(" rhs_reversal={reversals}"));
    }
    text
}

/// Returns the dimensions of a convolution in XLA's notation: `b01f_01io->b01f`.
fn convolution_labels(numbers: &Convolution) -> String {
    let labels = |spatial: &[i64], first: (i64, char), second: (i64, char)| -> String {
        let mut pairs: Vec<(i64, String)> =
            spatial.iter().enumerate().map(|(at, &dim)| (dim, at.to_string())).collect();
        pairs.extend([first, second].map(|(dim, label)| (dim, label.to_string())));
        pairs.sort();
        pairs.into_iter().map(|(_, label)| label).collect()
    };
    let input =
        labels(&numbers.input_spatial, (numbers.input_batch, 'b'), (numbers.input_feature, 'f'));
    let kernel = labels(
        &numbers.kernel_spatial,
        (numbers.kernel_input_feature, 'i'),
        (numbers.kernel_output_feature, 'o'),
    );
    let output =
        labels(&numbers.output_spatial, (numbers.output_batch, 'b'), (numbers.output_feature, 'f'));
    format!("{input}_{kernel}->{output}")
}

/// Returns the texts of dimension lists, without empty ones that are optional.
fn dimension_lists(lists: &[(&str, &[i64], bool)]) -> Vec<String> {
    let shown = lists.iter().filter(|(_, dims, optional)| !(*optional && dims.is_empty()));
    shown.map(|(name, dims, _)| format!("{name}={{{}}}", list(dims, ","))).collect()
}

fn dot_texts(dot: &Dot) -> Vec<String> {
    dimension_lists(&[
        ("lhs_batch_dims", &dot.lhs_batch, true),
        ("lhs_contracting_dims", &dot.lhs_contracting, false),
        ("rhs_batch_dims", &dot.rhs_batch, true),
        ("rhs_contracting_dims", &dot.rhs_contracting, false),
    ])
}

fn gather_texts(gather: &Gather) -> Vec<String> {
    let mut texts = dimension_lists(&[
        ("offset_dims", &gather.offset_dims, false),
        ("collapsed_slice_dims", &gather.collapsed_slice_dims, false),
        ("start_index_map", &gather.start_index_map, false),
        ("operand_batching_dims", &gather.operand_batching_dims, true),
        ("start_indices_batching_dims", &gather.start_indices_batching_dims, true),
    ]);
    texts.push(format!("index_vector_dim={}", gather.index_vector_dim));
    texts
}

fn scatter_texts(scatter: &Scatter) -> Vec<String> {
    let mut texts = dimension_lists(&[
        ("update_window_dims", &scatter.update_window_dims, false),
        ("inserted_window_dims", &scatter.inserted_window_dims, false),
        ("scatter_dims_to_operand_dims", &scatter.scatter_dims_to_operand_dims, false),
        ("input_batching_dims", &scatter.input_batching_dims, true),
        ("scatter_indices_batching_dims", &scatter.scatter_indices_batching_dims, true),
    ]);
    texts.push(format!("index_vector_dim={}", scatter.index_vector_dim));
    texts
}

fn precision_text(precision: &Precision) -> Option<String> {
    if precision.algorithm != 0 {
        return Some(format!("algorithm={}", precision.algorithm));
    }
    if precision.operands.iter().all(|&operand| operand == 0) {
        return None;
    }
    let name = |&operand: &i32| match operand {
        1 => "high",
        2 => "highest",
        _ => "default",
    };
    let names: Vec<&str> = precision.operands.iter().map(name).collect();
    Some(format!("operand_precision={{{}}}", names.join(",")))
}

/// Returns the name of the traced operation, and its source line.
pub(super) fn metadata(instruction: &Instruction, sources: &Sources<'_>) -> Option<String> {
    let mut parts = Vec::new();
    let name = instruction.metadata.as_ref().map(|metadata| metadata.op_name.as_str());
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        parts.push(format!("op_name={name:?}"));
    }
    if let Some(source) = sources.of(instruction) {
        parts.push(format!("source_file={:?} source_line={}", source.file, source.line));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::proto::{Module, PaddingDimension, Slice, WindowDimension};
    use super::*;

    fn of(instruction: Instruction) -> String {
        let module = Module::default();
        attributes(&instruction, &Sources::new(&module)).join(", ")
    }

    #[test]
    fn attributes_have_xlas_notation() {
        let of_opcode =
            |opcode: &str| Instruction { opcode: opcode.into(), ..Instruction::default() };
        let slice = |start, limit, stride| Slice { start, limit, stride };
        let sliced = Instruction {
            slice_dimensions: vec![slice(0, 4, 1), slice(1, 9, 2)],
            ..of_opcode("slice")
        };
        assert_eq!(of(sliced), "slice={[0:4], [1:9:2]}");
        let padded = Instruction {
            padding_config: Some(super::super::proto::Padding {
                dimensions: vec![
                    PaddingDimension { low: 1, high: 2, interior: 0 },
                    PaddingDimension { low: 0, high: 0, interior: 3 },
                ],
            }),
            ..of_opcode("pad")
        };
        assert_eq!(of(padded), "padding=1_2x0_0_3");
        let dim = WindowDimension { size: 3, stride: 2, padding_low: 1, ..Default::default() };
        let convolved = Instruction {
            window: Some(Window { dimensions: vec![dim.clone(), dim] }),
            convolution: Some(Convolution {
                input_feature: 3,
                input_spatial: vec![1, 2],
                kernel_spatial: vec![0, 1],
                kernel_input_feature: 2,
                kernel_output_feature: 3,
                output_feature: 3,
                output_spatial: vec![1, 2],
                ..Convolution::default()
            }),
            ..of_opcode("convolution")
        };
        let expected = "window={size=3x3 stride=2x2 pad=1_0x1_0}, dim_labels=b01f_01io->b01f";
        assert_eq!(of(convolved), expected);
        let product = Instruction {
            dot: Some(Dot { lhs_contracting: vec![1], rhs_contracting: vec![0], ..Dot::default() }),
            precision_config: Some(Precision { operands: vec![2, 2], algorithm: 0 }),
            ..of_opcode("dot")
        };
        let expected = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}";
        assert_eq!(of(product), expected);
        let reduced = Instruction {
            channel_id: 1,
            iota_device_list: Some(IotaGroups {
                groups: 2,
                per_group: 4,
                reshape_dims: vec![4, 2],
                permutation: vec![1, 0],
            }),
            use_global_device_ids: true,
            ..of_opcode("all-reduce")
        };
        let expected =
            "channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true";
        assert_eq!(of(reduced), expected);
        let called = Instruction {
            custom_call_target: "oxidax.callback".into(),
            has_side_effect: true,
            backend_config: b"{id = 1}".to_vec(),
            ..of_opcode("custom-call")
        };
        let expected = "custom_call_target=\"oxidax.callback\", custom_call_has_side_effect=true, \
                        backend_config={id = 1}";
        assert_eq!(of(called), expected);
    }
}
