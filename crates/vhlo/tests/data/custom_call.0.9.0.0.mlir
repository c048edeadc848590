module @"jit_eigh" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<4x4xf32>) -> (tensor<4xf32> {jax.result_info = "result.eigenvalues"}, tensor<4x4xf32> {jax.result_info = "result.eigenvectors"}) {
    %1, %2 = "func.call"(%0) {callee = @"eigh"} : (tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>)
    "func.return"(%1, %2) : (tensor<4xf32>, tensor<4x4xf32>) -> ()
  }
  func.func private @"eigh"(%3: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>) {
    %4 = "stablehlo.constant"() {value = dense<"0x0000C07F"> : tensor<f32>} : () -> (tensor<f32>)
    %5 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<i32>} : () -> (tensor<i32>)
    %6 = "stablehlo.constant"() {value = dense<"0x00000040"> : tensor<f32>} : () -> (tensor<f32>)
    %7 = "stablehlo.transpose"(%3) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> (tensor<4x4xf32>)
    %8 = "stablehlo.add"(%3, %7) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>)
    %9 = "stablehlo.broadcast_in_dim"(%6) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4x4xf32>)
    %10 = "stablehlo.divide"(%8, %9) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>)
    %11, %12, %13 = "stablehlo.custom_call"(%10) {api_version = 1 : i32, call_target_name = "lapack_ssyevd_ffi", operand_layouts = [dense<"0x00000000000000000100000000000000"> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<"0x00000000000000000100000000000000"> : tensor<2xindex>, dense<"0x0000000000000000"> : tensor<1xindex>, dense<> : tensor<0xindex>], mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "0"}} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<i32>)
    %14 = "stablehlo.broadcast_in_dim"(%5) {broadcast_dimensions = array<i64>} : (tensor<i32>) -> (tensor<i32>)
    %15 = "stablehlo.compare"(%13, %14) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<i32>, tensor<i32>) -> (tensor<i1>)
    %16 = "stablehlo.broadcast_in_dim"(%15) {broadcast_dimensions = array<i64>} : (tensor<i1>) -> (tensor<1x1xi1>)
    %17 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4x4xf32>)
    %18 = "stablehlo.broadcast_in_dim"(%16) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x1xi1>) -> (tensor<4x4xi1>)
    %19 = "stablehlo.select"(%18, %11, %17) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>)
    %20 = "stablehlo.broadcast_in_dim"(%15) {broadcast_dimensions = array<i64>} : (tensor<i1>) -> (tensor<1xi1>)
    %21 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
    %22 = "stablehlo.broadcast_in_dim"(%20) {broadcast_dimensions = array<i64: 0>} : (tensor<1xi1>) -> (tensor<4xi1>)
    %23 = "stablehlo.select"(%22, %12, %21) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
    "func.return"(%23, %19) : (tensor<4xf32>, tensor<4x4xf32>) -> ()
  }
}
