module @"jit__lambda" attributes {jax.uses_shape_polymorphism = -1 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<i32> {jax.global_constant = "_platform_index"}, %1: tensor<5xf32>) -> (tensor<5xf32> {jax.result_info = "result"}) {
    %2 = "stablehlo.sine"(%1) : (tensor<5xf32>) -> (tensor<5xf32>)
    "func.return"(%2) : (tensor<5xf32>) -> ()
  }
}
