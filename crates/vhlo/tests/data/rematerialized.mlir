module @"jit_rematerialized" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<3xf32>) -> (tensor<3xf32> {jax.result_info = "result[0]"}, tensor<3xf32> {jax.result_info = "result[1]"}, tensor<3xf32> {jax.result_info = "result[2]"}) {
    %1 = "stablehlo.constant"() {value = dense<"0x0000803F"> : tensor<f32>} : () -> (tensor<f32>)
    %2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<3xf32>)
    %3, %4 = "stablehlo.optimization_barrier"(%0, %2) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
    %5 = "stablehlo.sine"(%3) : (tensor<3xf32>) -> (tensor<3xf32>)
    %6 = "stablehlo.cosine"(%3) : (tensor<3xf32>) -> (tensor<3xf32>)
    %7 = "stablehlo.cosine"(%5) : (tensor<3xf32>) -> (tensor<3xf32>)
    %8 = "stablehlo.multiply"(%4, %7) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>)
    %9 = "stablehlo.multiply"(%8, %6) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>)
    %10 = "stablehlo.optimization_barrier"(%0) : (tensor<3xf32>) -> (tensor<3xf32>)
    "func.return"(%9, %10, %0) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> ()
  }
}
