module @"jit__lambda_" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<16x4xf32> {mhlo.layout_mode = "default", mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"}, %1: tensor<4x8xf32> {mhlo.layout_mode = "default"}) -> (tensor<16x8xf32> {jax.result_info = "", mhlo.layout_mode = "default", mhlo.sharding = "{devices=[8,1]<=[8]}"}) {
    %2 = "stablehlo.dot_general"(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<16x4xf32>, tensor<4x8xf32>) -> (tensor<16x8xf32>)
    "func.return"(%2) : (tensor<16x8xf32>) -> ()
  }
}
