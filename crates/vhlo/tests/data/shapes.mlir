module @"jit_shapes" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<2x3xf32>) -> (tensor<3x2xf32> {jax.result_info = "result[0]"}, tensor<6xf32> {jax.result_info = "result[1]"}, tensor<2x6xf32> {jax.result_info = "result[2]"}, tensor<5x4xf32> {jax.result_info = "result[3]"}, tensor<4x2xf32> {jax.result_info = "result[4]"}, tensor<4x2x3xf32> {jax.result_info = "result[5]"}, tensor<2x3xf32> {jax.result_info = "result[6]"}, tensor<4x6xf32> {jax.result_info = "result[7]"}, tensor<2x3xf32> {jax.result_info = "result[8]"}, tensor<2x2xf32> {jax.result_info = "result[9]"}, tensor<2x2xi1> {jax.result_info = "result[10]"}, tensor<0x2xf32> {jax.result_info = "result[11]"}) {
    %1 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %2 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<i32>} : () -> (tensor<i32>)
    %3 = "stablehlo.constant"() {value = dense<[[true, false], [false, false]]> : tensor<2x2xi1>} : () -> (tensor<2x2xi1>)
    %4 = "stablehlo.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> (tensor<3x2xf32>)
    %5 = "stablehlo.reshape"(%0) : (tensor<2x3xf32>) -> (tensor<6xf32>)
    %6 = "stablehlo.concatenate"(%0, %0) {dimension = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x6xf32>)
    %7 = "func.call"(%0, %2) {callee = @"_pad"} : (tensor<2x3xf32>, tensor<i32>) -> (tensor<5x4xf32>)
    %8 = "stablehlo.pad"(%0, %1) {edge_padding_high = array<i64: 0, -1>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 1, 0>} : (tensor<2x3xf32>, tensor<f32>) -> (tensor<4x2xf32>)
    %9 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 1, 2>} : (tensor<2x3xf32>) -> (tensor<4x2x3xf32>)
    %10 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> (tensor<6xf32>)
    %11 = "stablehlo.reshape"(%10) : (tensor<6xf32>) -> (tensor<2x3xf32>)
    %12 = "stablehlo.add"(%11, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>)
    %13 = "stablehlo.reshape"(%0) : (tensor<2x3xf32>) -> (tensor<1x2x1x3xf32>)
    %14 = "stablehlo.broadcast_in_dim"(%13) {broadcast_dimensions = array<i64: 0, 1, 2, 3>} : (tensor<1x2x1x3xf32>) -> (tensor<2x2x2x3xf32>)
    %15 = "stablehlo.reshape"(%14) : (tensor<2x2x2x3xf32>) -> (tensor<4x6xf32>)
    %16 = "stablehlo.reverse"(%0) {dimensions = array<i64: 0, 1>} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)
    %17 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<2x2xf32>)
    %18 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<0x2xf32>)
    "func.return"(%4, %5, %6, %7, %8, %9, %12, %15, %16, %17, %3, %18) : (tensor<3x2xf32>, tensor<6xf32>, tensor<2x6xf32>, tensor<5x4xf32>, tensor<4x2xf32>, tensor<4x2x3xf32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<2x3xf32>, tensor<2x2xf32>, tensor<2x2xi1>, tensor<0x2xf32>) -> ()
  }
  func.func private @"_pad"(%19: tensor<2x3xf32>, %20: tensor<i32>) -> (tensor<5x4xf32>) {
    %21 = "stablehlo.convert"(%20) : (tensor<i32>) -> (tensor<f32>)
    %22 = "stablehlo.pad"(%19, %21) {edge_padding_high = array<i64: 2, 1>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 0, 0>} : (tensor<2x3xf32>, tensor<f32>) -> (tensor<5x4xf32>)
    "func.return"(%22) : (tensor<5x4xf32>) -> ()
  }
}
