//! The parts of XLA's `HloModuleProto` that its text shows, with field numbers from `hlo.proto` and
//! `xla_data.proto`, as the plugins' own descriptors list them.

use oxidax_proto::messages;

messages! {
    /// `HloModuleProtoWithConfig`.
    pub(super) struct ModuleWithConfig {
        pub(super) hlo_module: Option<Module> = 1,
    }

    /// `HloModuleProto`.
    pub(super) struct Module {
        pub(super) name: String = 1,
        pub(super) computations: Vec<Computation> = 3,
        pub(super) entry_computation_id: i64 = 6,
        pub(super) stack_frame_index: Option<StackFrameIndex> = 17,
    }

    /// `HloComputationProto`.
    pub(super) struct Computation {
        pub(super) name: String = 1,
        pub(super) instructions: Vec<Instruction> = 2,
        pub(super) id: i64 = 5,
        pub(super) root_id: i64 = 6,
    }

    /// `HloInstructionProto`.
    pub(super) struct Instruction {
        pub(super) name: String = 1,
        pub(super) opcode: String = 2,
        pub(super) shape: Option<Shape> = 3,
        pub(super) metadata: Option<Metadata> = 7,
        pub(super) literal: Option<Literal> = 8,
        pub(super) parameter_number: i64 = 9,
        pub(super) fusion_kind: String = 11,
        pub(super) tuple_index: i64 = 13,
        pub(super) dimensions: Vec<i64> = 14,
        pub(super) window: Option<Window> = 15,
        pub(super) convolution: Option<Convolution> = 16,
        pub(super) slice_dimensions: Vec<Slice> = 17,
        pub(super) exponent_bits: i32 = 18,
        pub(super) mantissa_bits: i32 = 19,
        pub(super) dynamic_slice_sizes: Vec<i64> = 20,
        pub(super) padding_config: Option<Padding> = 21,
        pub(super) channel_id: i64 = 26,
        pub(super) custom_call_target: String = 28,
        pub(super) dot: Option<Dot> = 30,
        pub(super) fft_type: i32 = 31,
        pub(super) fft_length: Vec<i64> = 32,
        pub(super) gather: Option<Gather> = 33,
        pub(super) gather_slice_sizes: Vec<i64> = 34,
        pub(super) id: i64 = 35,
        pub(super) operand_ids: Vec<i64> = 36,
        pub(super) control_predecessor_ids: Vec<i64> = 37,
        pub(super) called_computation_ids: Vec<i64> = 38,
        pub(super) sharding: Option<Sharding> = 40,
        pub(super) backend_config: Vec<u8> = 43,
        pub(super) is_host_transfer: bool = 47,
        pub(super) scatter: Option<Scatter> = 48,
        pub(super) replica_groups: Vec<Group> = 49,
        pub(super) feature_group_count: i64 = 50,
        pub(super) precision_config: Option<Precision> = 51,
        pub(super) source_target_pairs: Vec<Pair> = 52,
        pub(super) batch_group_count: i64 = 58,
        pub(super) triangular_solve: Option<TriangularSolve> = 59,
        pub(super) is_stable: bool = 60,
        pub(super) cholesky: Option<Cholesky> = 62,
        pub(super) comparison_direction: String = 63,
        pub(super) has_side_effect: bool = 65,
        pub(super) indices_are_sorted: bool = 67,
        pub(super) unique_indices: bool = 69,
        pub(super) rng_algorithm: i32 = 70,
        pub(super) use_global_device_ids: bool = 71,
        pub(super) device_list: Option<DeviceList> = 87,
        pub(super) iota_device_list: Option<IotaGroups> = 92,
    }

    /// `ShapeProto`.
    pub(super) struct Shape {
        pub(super) element_type: i32 = 2,
        pub(super) dimensions: Vec<i64> = 3,
        pub(super) tuple_shapes: Vec<Shape> = 4,
        pub(super) layout: Option<Layout> = 5,
    }

    /// `LayoutProto`.
    pub(super) struct Layout {
        pub(super) minor_to_major: Vec<i64> = 1,
        pub(super) tiles: Vec<Tile> = 6,
        pub(super) memory_space: i64 = 8,
    }

    /// `TileProto`.
    pub(super) struct Tile {
        pub(super) dimensions: Vec<i64> = 1,
    }

    /// `OpMetadata`.
    pub(super) struct Metadata {
        pub(super) op_name: String = 2,
        pub(super) source_file: String = 3,
        pub(super) source_line: i32 = 4,
        pub(super) stack_frame_id: i32 = 15,
    }

    /// `StackFrameIndexProto`. Ids count from 1; 0 stands for none.
    pub(super) struct StackFrameIndex {
        pub(super) file_names: Vec<Vec<u8>> = 1,
        pub(super) file_locations: Vec<FileLocation> = 3,
        pub(super) stack_frames: Vec<StackFrame> = 4,
    }

    /// `StackFrameIndexProto.FileLocation`.
    pub(super) struct FileLocation {
        pub(super) file_name_id: i32 = 1,
        pub(super) line: i32 = 3,
    }

    /// `StackFrameIndexProto.StackFrame`.
    pub(super) struct StackFrame {
        pub(super) file_location_id: i32 = 1,
    }

    /// `LiteralProto`.
    pub(super) struct Literal {
        pub(super) preds: Vec<bool> = 2,
        pub(super) u8s: Vec<u8> = 3,
        pub(super) s32s: Vec<i32> = 4,
        pub(super) s64s: Vec<i64> = 5,
        pub(super) u32s: Vec<i64> = 6,
        pub(super) u64s: Vec<i64> = 7,
        pub(super) f32s: Vec<f32> = 8,
        pub(super) f64s: Vec<f64> = 9,
        pub(super) f16s: Vec<u8> = 11,
        pub(super) bf16s: Vec<u8> = 13,
        pub(super) s8s: Vec<u8> = 15,
    }

    /// `Window`.
    pub(super) struct Window {
        pub(super) dimensions: Vec<WindowDimension> = 1,
    }

    /// `WindowDimension`.
    pub(super) struct WindowDimension {
        pub(super) size: i64 = 1,
        pub(super) stride: i64 = 2,
        pub(super) padding_low: i64 = 3,
        pub(super) padding_high: i64 = 4,
        pub(super) window_dilation: i64 = 5,
        pub(super) base_dilation: i64 = 6,
        pub(super) window_reversal: bool = 7,
    }

    /// `ConvolutionDimensionNumbers`.
    pub(super) struct Convolution {
        pub(super) kernel_input_feature: i64 = 3,
        pub(super) kernel_output_feature: i64 = 4,
        pub(super) kernel_spatial: Vec<i64> = 6,
        pub(super) input_batch: i64 = 7,
        pub(super) input_feature: i64 = 8,
        pub(super) output_batch: i64 = 9,
        pub(super) output_feature: i64 = 10,
        pub(super) input_spatial: Vec<i64> = 11,
        pub(super) output_spatial: Vec<i64> = 12,
    }

    /// `HloInstructionProto.SliceDimensions`.
    pub(super) struct Slice {
        pub(super) start: i64 = 1,
        pub(super) limit: i64 = 2,
        pub(super) stride: i64 = 3,
    }

    /// `PaddingConfig`.
    pub(super) struct Padding {
        pub(super) dimensions: Vec<PaddingDimension> = 1,
    }

    /// `PaddingConfigDimension`.
    pub(super) struct PaddingDimension {
        pub(super) low: i64 = 1,
        pub(super) high: i64 = 2,
        pub(super) interior: i64 = 3,
    }

    /// `DotDimensionNumbers`.
    pub(super) struct Dot {
        pub(super) lhs_contracting: Vec<i64> = 1,
        pub(super) rhs_contracting: Vec<i64> = 2,
        pub(super) lhs_batch: Vec<i64> = 3,
        pub(super) rhs_batch: Vec<i64> = 4,
    }

    /// `GatherDimensionNumbers`.
    pub(super) struct Gather {
        pub(super) offset_dims: Vec<i64> = 1,
        pub(super) collapsed_slice_dims: Vec<i64> = 2,
        pub(super) start_index_map: Vec<i64> = 3,
        pub(super) index_vector_dim: i64 = 4,
        pub(super) operand_batching_dims: Vec<i64> = 5,
        pub(super) start_indices_batching_dims: Vec<i64> = 6,
    }

    /// `ScatterDimensionNumbers`.
    pub(super) struct Scatter {
        pub(super) update_window_dims: Vec<i64> = 1,
        pub(super) inserted_window_dims: Vec<i64> = 2,
        pub(super) scatter_dims_to_operand_dims: Vec<i64> = 3,
        pub(super) index_vector_dim: i64 = 4,
        pub(super) input_batching_dims: Vec<i64> = 5,
        pub(super) scatter_indices_batching_dims: Vec<i64> = 6,
    }

    /// `OpSharding`.
    pub(super) struct Sharding {
        pub(super) kind: i32 = 1,
        pub(super) tile_dims: Vec<i64> = 3,
        pub(super) devices: Vec<i64> = 4,
        pub(super) tuple: Vec<Sharding> = 5,
        pub(super) replicate_on_last: bool = 6,
        pub(super) iota_dims: Vec<i64> = 9,
        pub(super) iota_permutation: Vec<i32> = 10,
    }

    /// `ReplicaGroup`.
    pub(super) struct Group {
        pub(super) replica_ids: Vec<i64> = 1,
    }

    /// `CollectiveDeviceListProto`.
    pub(super) struct DeviceList {
        pub(super) replica_groups: Vec<Group> = 1,
        pub(super) iota: Option<IotaGroups> = 2,
    }

    /// `IotaReplicaGroupListProto`.
    pub(super) struct IotaGroups {
        pub(super) groups: i64 = 1,
        pub(super) per_group: i64 = 2,
        pub(super) reshape_dims: Vec<i64> = 3,
        pub(super) permutation: Vec<i32> = 4,
    }

    /// `PrecisionConfig`.
    pub(super) struct Precision {
        pub(super) operands: Vec<i32> = 1,
        pub(super) algorithm: i32 = 2,
    }

    /// `SourceTarget`.
    pub(super) struct Pair {
        pub(super) source: i64 = 1,
        pub(super) target: i64 = 2,
    }

    /// `TriangularSolveOptions`.
    pub(super) struct TriangularSolve {
        pub(super) left_side: bool = 1,
        pub(super) lower: bool = 2,
        pub(super) unit_diagonal: bool = 3,
        pub(super) transpose_a: i32 = 4,
    }

    /// `CholeskyOptions`.
    pub(super) struct Cholesky {
        pub(super) lower: bool = 1,
    }
}
