module @"jit_dots" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<2x3x4xf32>, %1: tensor<2x4x5xf32>) -> (tensor<2x3x5xf32> {jax.result_info = "result[0]"}, tensor<2x3x5xf32> {jax.result_info = "result[1]"}, tensor<3x5xbf16> {jax.result_info = "result[2]"}) {
    %2 = "stablehlo.dot_general"(%0, %1) {precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>} : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> (tensor<2x3x5xf32>)
    %3 = "stablehlo.dot_general"(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>} : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> (tensor<2x3x5xf32>)
    %4 = "stablehlo.slice"(%0) {limit_indices = array<i64: 1, 3, 4>, start_indices = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x4xf32>) -> (tensor<1x3x4xf32>)
    %5 = "stablehlo.reshape"(%4) : (tensor<1x3x4xf32>) -> (tensor<3x4xf32>)
    %6 = "stablehlo.slice"(%1) {limit_indices = array<i64: 1, 4, 5>, start_indices = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x4x5xf32>) -> (tensor<1x4x5xf32>)
    %7 = "stablehlo.reshape"(%6) : (tensor<1x4x5xf32>) -> (tensor<4x5xf32>)
    %8 = "stablehlo.dot_general"(%5, %7) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<3x4xf32>, tensor<4x5xf32>) -> (tensor<3x5xbf16>)
    "func.return"(%2, %3, %8) : (tensor<2x3x5xf32>, tensor<2x3x5xf32>, tensor<3x5xbf16>) -> ()
  }
}
