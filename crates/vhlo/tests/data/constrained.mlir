module @"jit_constrained" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  "sdy.mesh"() {mesh = #sdy.mesh<["data"=4, "model"=2]>, sym_name = "mesh", stablehlo.mesh = {axes = [{name = "data", size = 4 : i64}, {name = "model", size = 2 : i64}]}} : () -> ()
  func.func public @"main"(%0: tensor<8x4xf32>) -> (tensor<8x4xf32> {jax.result_info = "result"}) {
    %1 = "stablehlo.constant"() {value = dense<"0x0000803F"> : tensor<f32>} : () -> (tensor<f32>)
    %2 = "stablehlo.constant"() {value = dense<"0x00000040"> : tensor<f32>} : () -> (tensor<f32>)
    %3 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<8x4xf32>)
    %4 = "stablehlo.multiply"(%0, %3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>)
    %6 = "sdy.sharding_constraint"(%4) {sharding = #sdy.sharding<@"mesh", [{"data"}, {"model"}]>} : (tensor<8x4xf32>) -> (tensor<8x4xf32>)
    %8 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<8x4xf32>)
    %9 = "stablehlo.add"(%6, %8) : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>)
    %11 = "sdy.sharding_constraint"(%9) {sharding = #sdy.sharding<@"mesh", [{?}, {"model"}]>} : (tensor<8x4xf32>) -> (tensor<8x4xf32>)
    "func.return"(%11) : (tensor<8x4xf32>) -> ()
  }
}
