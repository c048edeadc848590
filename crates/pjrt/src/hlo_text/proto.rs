//! The parts of XLA's `HloModuleProto` that its text shows, with field numbers from `hlo.proto` and
//! `xla_data.proto`, as the plugins' own descriptors list them.

use oxidax_proto::messages;

messages! {
    /// `HloModuleProto`.
    pub(crate) struct Module {
        pub(crate) name: String = 1,
        pub(crate) computations: Vec<Computation> = 3,
        pub(crate) entry_computation_id: i64 = 6,
        pub(crate) input_output_alias: Option<InputOutputAlias> = 8,
        pub(crate) stack_frame_index: Option<StackFrameIndex> = 17,
    }

    /// `HloInputOutputAliasProto`.
    pub(crate) struct InputOutputAlias {
        pub(crate) entries: Vec<InputOutputAliasEntry> = 1,
    }

    /// `HloInputOutputAliasProto.AliasEntryProto`.
    pub(crate) struct InputOutputAliasEntry {
        pub(crate) parameter_number: i64 = 2,
    }

    /// `HloComputationProto`.
    pub(crate) struct Computation {
        pub(crate) name: String = 1,
        pub(crate) instructions: Vec<Instruction> = 2,
        pub(crate) id: i64 = 5,
        pub(crate) root_id: i64 = 6,
    }

    /// `HloInstructionProto`.
    pub(crate) struct Instruction {
        pub(crate) name: String = 1,
        pub(crate) opcode: String = 2,
        pub(crate) shape: Option<Shape> = 3,
        pub(crate) metadata: Option<Metadata> = 7,
        pub(crate) literal: Option<Literal> = 8,
        pub(crate) parameter_number: i64 = 9,
        pub(crate) fusion_kind: String = 11,
        pub(crate) tuple_index: i64 = 13,
        pub(crate) dimensions: Vec<i64> = 14,
        pub(crate) window: Option<Window> = 15,
        pub(crate) convolution: Option<Convolution> = 16,
        pub(crate) slice_dimensions: Vec<Slice> = 17,
        pub(crate) exponent_bits: i32 = 18,
        pub(crate) mantissa_bits: i32 = 19,
        pub(crate) dynamic_slice_sizes: Vec<i64> = 20,
        pub(crate) padding_config: Option<Padding> = 21,
        pub(crate) channel_id: i64 = 26,
        pub(crate) custom_call_target: String = 28,
        pub(crate) dot: Option<Dot> = 30,
        pub(crate) fft_type: i32 = 31,
        pub(crate) fft_length: Vec<i64> = 32,
        pub(crate) gather: Option<Gather> = 33,
        pub(crate) gather_slice_sizes: Vec<i64> = 34,
        pub(crate) id: i64 = 35,
        pub(crate) operand_ids: Vec<i64> = 36,
        pub(crate) control_predecessor_ids: Vec<i64> = 37,
        pub(crate) called_computation_ids: Vec<i64> = 38,
        pub(crate) sharding: Option<Sharding> = 40,
        pub(crate) backend_config: Vec<u8> = 43,
        pub(crate) is_host_transfer: bool = 47,
        pub(crate) scatter: Option<Scatter> = 48,
        pub(crate) replica_groups: Vec<Group> = 49,
        pub(crate) feature_group_count: i64 = 50,
        pub(crate) precision_config: Option<Precision> = 51,
        pub(crate) source_target_pairs: Vec<Pair> = 52,
        pub(crate) batch_group_count: i64 = 58,
        pub(crate) triangular_solve: Option<TriangularSolve> = 59,
        pub(crate) is_stable: bool = 60,
        pub(crate) cholesky: Option<Cholesky> = 62,
        pub(crate) comparison_direction: String = 63,
        pub(crate) has_side_effect: bool = 65,
        pub(crate) indices_are_sorted: bool = 67,
        pub(crate) unique_indices: bool = 69,
        pub(crate) rng_algorithm: i32 = 70,
        pub(crate) use_global_device_ids: bool = 71,
        pub(crate) device_list: Option<DeviceList> = 87,
        pub(crate) iota_device_list: Option<IotaGroups> = 92,
        pub(crate) frontend_attributes: Option<FrontendAttributes> = 68,
    }

    /// `FrontendAttributes`.
    pub(crate) struct FrontendAttributes {
        pub(crate) entries: Vec<FrontendAttribute> = 1,
    }

    /// `FrontendAttributes.MapEntry`.
    pub(crate) struct FrontendAttribute {
        pub(crate) key: String = 1,
        pub(crate) value: String = 2,
    }

    /// `ShapeProto`.
    pub(crate) struct Shape {
        pub(crate) element_type: i32 = 2,
        pub(crate) dimensions: Vec<i64> = 3,
        pub(crate) tuple_shapes: Vec<Shape> = 4,
        pub(crate) layout: Option<Layout> = 5,
    }

    /// `LayoutProto`.
    pub(crate) struct Layout {
        pub(crate) minor_to_major: Vec<i64> = 1,
        pub(crate) tiles: Vec<Tile> = 6,
        pub(crate) memory_space: i64 = 8,
    }

    /// `TileProto`.
    pub(crate) struct Tile {
        pub(crate) dimensions: Vec<i64> = 1,
    }

    /// `OpMetadata`.
    pub(crate) struct Metadata {
        pub(crate) op_name: String = 2,
        pub(crate) source_file: String = 3,
        pub(crate) source_line: i32 = 4,
        pub(crate) stack_frame_id: i32 = 15,
    }

    /// `StackFrameIndexProto`. Ids count from 1; 0 stands for none.
    pub(crate) struct StackFrameIndex {
        pub(crate) file_names: Vec<Vec<u8>> = 1,
        pub(crate) file_locations: Vec<FileLocation> = 3,
        pub(crate) stack_frames: Vec<StackFrame> = 4,
    }

    /// `StackFrameIndexProto.FileLocation`.
    pub(crate) struct FileLocation {
        pub(crate) file_name_id: i32 = 1,
        pub(crate) line: i32 = 3,
    }

    /// `StackFrameIndexProto.StackFrame`.
    pub(crate) struct StackFrame {
        pub(crate) file_location_id: i32 = 1,
    }

    /// `LiteralProto`.
    pub(crate) struct Literal {
        pub(crate) preds: Vec<bool> = 2,
        pub(crate) u8s: Vec<u8> = 3,
        pub(crate) s32s: Vec<i32> = 4,
        pub(crate) s64s: Vec<i64> = 5,
        pub(crate) u32s: Vec<i64> = 6,
        pub(crate) u64s: Vec<i64> = 7,
        pub(crate) f32s: Vec<f32> = 8,
        pub(crate) f64s: Vec<f64> = 9,
        pub(crate) f16s: Vec<u8> = 11,
        pub(crate) bf16s: Vec<u8> = 13,
        pub(crate) s8s: Vec<u8> = 15,
    }

    /// `Window`.
    pub(crate) struct Window {
        pub(crate) dimensions: Vec<WindowDimension> = 1,
    }

    /// `WindowDimension`.
    pub(crate) struct WindowDimension {
        pub(crate) size: i64 = 1,
        pub(crate) stride: i64 = 2,
        pub(crate) padding_low: i64 = 3,
        pub(crate) padding_high: i64 = 4,
        pub(crate) window_dilation: i64 = 5,
        pub(crate) base_dilation: i64 = 6,
        pub(crate) window_reversal: bool = 7,
    }

    /// `ConvolutionDimensionNumbers`.
    pub(crate) struct Convolution {
        pub(crate) kernel_input_feature: i64 = 3,
        pub(crate) kernel_output_feature: i64 = 4,
        pub(crate) kernel_spatial: Vec<i64> = 6,
        pub(crate) input_batch: i64 = 7,
        pub(crate) input_feature: i64 = 8,
        pub(crate) output_batch: i64 = 9,
        pub(crate) output_feature: i64 = 10,
        pub(crate) input_spatial: Vec<i64> = 11,
        pub(crate) output_spatial: Vec<i64> = 12,
    }

    /// `HloInstructionProto.SliceDimensions`.
    pub(crate) struct Slice {
        pub(crate) start: i64 = 1,
        pub(crate) limit: i64 = 2,
        pub(crate) stride: i64 = 3,
    }

    /// `PaddingConfig`.
    pub(crate) struct Padding {
        pub(crate) dimensions: Vec<PaddingDimension> = 1,
    }

    /// `PaddingConfigDimension`.
    pub(crate) struct PaddingDimension {
        pub(crate) low: i64 = 1,
        pub(crate) high: i64 = 2,
        pub(crate) interior: i64 = 3,
    }

    /// `DotDimensionNumbers`.
    pub(crate) struct Dot {
        pub(crate) lhs_contracting: Vec<i64> = 1,
        pub(crate) rhs_contracting: Vec<i64> = 2,
        pub(crate) lhs_batch: Vec<i64> = 3,
        pub(crate) rhs_batch: Vec<i64> = 4,
    }

    /// `GatherDimensionNumbers`.
    pub(crate) struct Gather {
        pub(crate) offset_dims: Vec<i64> = 1,
        pub(crate) collapsed_slice_dims: Vec<i64> = 2,
        pub(crate) start_index_map: Vec<i64> = 3,
        pub(crate) index_vector_dim: i64 = 4,
        pub(crate) operand_batching_dims: Vec<i64> = 5,
        pub(crate) start_indices_batching_dims: Vec<i64> = 6,
    }

    /// `ScatterDimensionNumbers`.
    pub(crate) struct Scatter {
        pub(crate) update_window_dims: Vec<i64> = 1,
        pub(crate) inserted_window_dims: Vec<i64> = 2,
        pub(crate) scatter_dims_to_operand_dims: Vec<i64> = 3,
        pub(crate) index_vector_dim: i64 = 4,
        pub(crate) input_batching_dims: Vec<i64> = 5,
        pub(crate) scatter_indices_batching_dims: Vec<i64> = 6,
    }

    /// `OpSharding`.
    pub(crate) struct Sharding {
        pub(crate) kind: i32 = 1,
        pub(crate) tile_dims: Vec<i64> = 3,
        pub(crate) devices: Vec<i64> = 4,
        pub(crate) tuple: Vec<Sharding> = 5,
        pub(crate) replicate_on_last: bool = 6,
        pub(crate) iota_dims: Vec<i64> = 9,
        pub(crate) iota_permutation: Vec<i32> = 10,
    }

    /// `ReplicaGroup`.
    pub(crate) struct Group {
        pub(crate) replica_ids: Vec<i64> = 1,
    }

    /// `CollectiveDeviceListProto`.
    pub(crate) struct DeviceList {
        pub(crate) replica_groups: Vec<Group> = 1,
        pub(crate) iota: Option<IotaGroups> = 2,
    }

    /// `IotaReplicaGroupListProto`.
    pub(crate) struct IotaGroups {
        pub(crate) groups: i64 = 1,
        pub(crate) per_group: i64 = 2,
        pub(crate) reshape_dims: Vec<i64> = 3,
        pub(crate) permutation: Vec<i32> = 4,
    }

    /// `PrecisionConfig`.
    pub(crate) struct Precision {
        pub(crate) operands: Vec<i32> = 1,
        pub(crate) algorithm: i32 = 2,
    }

    /// `SourceTarget`.
    pub(crate) struct Pair {
        pub(crate) source: i64 = 1,
        pub(crate) target: i64 = 2,
    }

    /// `TriangularSolveOptions`.
    pub(crate) struct TriangularSolve {
        pub(crate) left_side: bool = 1,
        pub(crate) lower: bool = 2,
        pub(crate) unit_diagonal: bool = 3,
        pub(crate) transpose_a: i32 = 4,
    }

    /// `CholeskyOptions`.
    pub(crate) struct Cholesky {
        pub(crate) lower: bool = 1,
    }
}
