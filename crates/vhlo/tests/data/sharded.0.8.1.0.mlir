module @"jit__lambda" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  "sdy.mesh"() {mesh = #sdy.mesh<["data"=4, "model"=2]>, sym_name = "mesh"} : () -> ()
  func.func public @"main"(%0: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@"mesh", [{"data"}, {}]>}, %1: tensor<4x8xf32>) -> (tensor<16x8xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@"mesh", [{"data", "model"}, {}]>}) {
    %2 = "stablehlo.dot_general"(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<16x4xf32>, tensor<4x8xf32>) -> (tensor<16x8xf32>)
    "func.return"(%2) : (tensor<16x8xf32>) -> ()
  }
}
