module @"jit_platforms" attributes {jax.uses_shape_polymorphism = -1 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<i32> {jax.global_constant = "_platform_index"}, %1: tensor<4xf32>) -> (tensor<4xf32> {jax.result_info = "result"}) {
    %2 = "stablehlo.constant"() {value = dense<"0x01000000"> : tensor<i32>} : () -> (tensor<i32>)
    %3 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<i32>} : () -> (tensor<i32>)
    %4 = "stablehlo.case"(%0) ({
      "stablehlo.return"(%3) : (tensor<i32>) -> ()
    }, {
      "stablehlo.return"(%2) : (tensor<i32>) -> ()
    }) : (tensor<i32>) -> (tensor<i32>)
    %5 = "stablehlo.case"(%4) ({
      "stablehlo.return"(%3) : (tensor<i32>) -> ()
    }, {
      "stablehlo.return"(%2) : (tensor<i32>) -> ()
    }) : (tensor<i32>) -> (tensor<i32>)
    %6 = "stablehlo.case"(%5) ({
      "stablehlo.return"(%3) : (tensor<i32>) -> ()
    }, {
      "stablehlo.return"(%2) : (tensor<i32>) -> ()
    }) : (tensor<i32>) -> (tensor<i32>)
    %7 = "stablehlo.case"(%6) ({
      %8 = "stablehlo.sine"(%1) : (tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%8) : (tensor<4xf32>) -> ()
    }, {
      %9 = "stablehlo.cosine"(%1) : (tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%9) : (tensor<4xf32>) -> ()
    }) : (tensor<i32>) -> (tensor<4xf32>)
    "func.return"(%7) : (tensor<4xf32>) -> ()
  }
}
