module @"jit__lambda" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<4x2xf32>, %1: tensor<3x4xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %2 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %3 = "stablehlo.dot_general"(%1, %0) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<3x4xf32>, tensor<4x2xf32>) -> (tensor<3x2xf32>)
    %4 = "stablehlo.tanh"(%3) : (tensor<3x2xf32>) -> (tensor<3x2xf32>)
    %5 = "stablehlo.reduce"(%4, %2) ({
    ^bb0(%6: tensor<f32>, %7: tensor<f32>):
      %8 = "stablehlo.add"(%6, %7) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%8) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<3x2xf32>, tensor<f32>) -> (tensor<f32>)
    "func.return"(%5) : (tensor<f32>) -> ()
  }
}
