module @"jit_fun_vjp_jax" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<4x2xf32>, %1: tensor<3x4xf32>, %2: tensor<f32>) -> (tensor<4x2xf32> {jax.result_info = "result[0]"}, tensor<3x4xf32> {jax.result_info = "result[1]"}) {
    %3 = "stablehlo.constant"() {value = dense<"0x0000803F"> : tensor<f32>} : () -> (tensor<f32>)
    %4 = "stablehlo.dot_general"(%1, %0) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<3x4xf32>, tensor<4x2xf32>) -> (tensor<3x2xf32>)
    %5 = "stablehlo.tanh"(%4) : (tensor<3x2xf32>) -> (tensor<3x2xf32>)
    %6 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<3x2xf32>)
    %7 = "stablehlo.subtract"(%6, %5) : (tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>)
    %8 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<3x2xf32>)
    %9 = "stablehlo.multiply"(%8, %7) : (tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>)
    %10 = "stablehlo.multiply"(%9, %5) : (tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>)
    %11 = "stablehlo.add"(%9, %10) : (tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>)
    %12 = "stablehlo.dot_general"(%11, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<3x2xf32>, tensor<3x4xf32>) -> (tensor<2x4xf32>)
    %13 = "stablehlo.transpose"(%12) {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> (tensor<4x2xf32>)
    %14 = "stablehlo.dot_general"(%11, %0) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>} : (tensor<3x2xf32>, tensor<4x2xf32>) -> (tensor<3x4xf32>)
    "func.return"(%13, %14) : (tensor<4x2xf32>, tensor<3x4xf32>) -> ()
  }
}
