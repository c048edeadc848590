module @"jit_f" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<3xf32>, %1: tensor<3xf32>, %2: tensor<2x2xf32>, %3: tensor<3xf32>) -> (tensor<2x2xf32> {jax.result_info = "result['rest'][0]"}, tensor<3xf32> {jax.result_info = "result['rest'][2][0]"}, tensor<3xf32> {jax.result_info = "result['sum']"}) {
    %4 = "stablehlo.add"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>)
    %5 = "stablehlo.multiply"(%3, %0) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>)
    "func.return"(%2, %5, %4) : (tensor<2x2xf32>, tensor<3xf32>, tensor<3xf32>) -> ()
  }
}
