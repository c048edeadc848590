module @"jit_donated" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32> {jax.result_info = "result"}) {
    %1 = "stablehlo.constant"() {value = dense<"0x0000803F"> : tensor<f32>} : () -> (tensor<f32>)
    %2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
    %3 = "stablehlo.add"(%0, %2) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
    "func.return"(%3) : (tensor<4xf32>) -> ()
  }
}
