module @"jit_small_dtypes" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<4xi4>, %1: tensor<4xf8E4M3FN>, %2: tensor<4xbf16>) -> (tensor<4xi8> {jax.result_info = "result[0]"}, tensor<4xi4> {jax.result_info = "result[1]"}, tensor<4xf32> {jax.result_info = "result[2]"}, tensor<4xbf16> {jax.result_info = "result[3]"}, tensor<4xi4> {jax.result_info = "result[4]"}, tensor<2xf8E5M2> {jax.result_info = "result[5]"}, tensor<2xbf16> {jax.result_info = "result[6]"}, tensor<4xf8E4M3B11FNUZ> {jax.result_info = "result[7]"}, tensor<4xf32> {jax.result_info = "result[8]"}) {
    %3 = "stablehlo.constant"() {value = dense<"0x803F"> : tensor<bf16>} : () -> (tensor<bf16>)
    %4 = "stablehlo.constant"() {value = dense<"0x01"> : tensor<i8>} : () -> (tensor<i8>)
    %5 = "stablehlo.constant"() {value = dense<"0x0102030C"> : tensor<4xi4>} : () -> (tensor<4xi4>)
    %6 = "stablehlo.constant"() {value = dense<"0x3E40"> : tensor<2xf8E5M2>} : () -> (tensor<2xf8E5M2>)
    %7 = "stablehlo.constant"() {value = dense<"0xCD3D4D3E"> : tensor<2xbf16>} : () -> (tensor<2xbf16>)
    %8 = "stablehlo.convert"(%0) : (tensor<4xi4>) -> (tensor<4xi8>)
    %9 = "stablehlo.broadcast_in_dim"(%4) {broadcast_dimensions = array<i64>} : (tensor<i8>) -> (tensor<4xi8>)
    %10 = "stablehlo.add"(%8, %9) : (tensor<4xi8>, tensor<4xi8>) -> (tensor<4xi8>)
    %11 = "stablehlo.multiply"(%0, %0) : (tensor<4xi4>, tensor<4xi4>) -> (tensor<4xi4>)
    %12 = "stablehlo.convert"(%1) : (tensor<4xf8E4M3FN>) -> (tensor<4xf32>)
    %13 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<bf16>) -> (tensor<4xbf16>)
    %14 = "stablehlo.add"(%2, %13) : (tensor<4xbf16>, tensor<4xbf16>) -> (tensor<4xbf16>)
    %15 = "stablehlo.convert"(%2) : (tensor<4xbf16>) -> (tensor<4xf8E4M3B11FNUZ>)
    %16 = "stablehlo.convert"(%2) : (tensor<4xbf16>) -> (tensor<4xf32>)
    %17 = "stablehlo.reduce_precision"(%16) {exponent_bits = 5 : i32, mantissa_bits = 10 : i32} : (tensor<4xf32>) -> (tensor<4xf32>)
    "func.return"(%10, %11, %12, %14, %5, %6, %7, %15, %17) : (tensor<4xi8>, tensor<4xi4>, tensor<4xf32>, tensor<4xbf16>, tensor<4xi4>, tensor<2xf8E5M2>, tensor<2xbf16>, tensor<4xf8E4M3B11FNUZ>, tensor<4xf32>) -> ()
  }
}
