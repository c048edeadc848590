module @"jit_windows" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<1x8x8x2xf32>) -> (tensor<1x4x4x2xf32> {jax.result_info = "result[0]"}, tensor<1x8x8x2xf32> {jax.result_info = "result[1]"}, tensor<1x8x8x2xf32> {jax.result_info = "result[2]"}, tensor<1x8x8x2xf32> {jax.result_info = "result[3]"}, tensor<1x8x8x2xf32> {jax.result_info = "result[4]"}) {
    %1 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %2 = "stablehlo.constant"() {value = dense<"0x0000803F"> : tensor<f32>} : () -> (tensor<f32>)
    %3 = "stablehlo.constant"() {value = dense<"0x000080FF"> : tensor<f32>} : () -> (tensor<f32>)
    %4 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<f32>)
    %5 = "stablehlo.reduce_window"(%0, %4) ({
    ^bb0(%14: tensor<f32>, %15: tensor<f32>):
      %16 = "stablehlo.maximum"(%14, %15) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%16) : (tensor<f32>) -> ()
    }) {window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>} : (tensor<1x8x8x2xf32>, tensor<f32>) -> (tensor<1x4x4x2xf32>)
    %6 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<1x4x4x2xf32>)
    %7 = "stablehlo.pad"(%0, %3) {edge_padding_high = array<i64: 0, 0, 0, 0>, edge_padding_low = array<i64: 0, 0, 0, 0>, interior_padding = array<i64: 0, 0, 0, 0>} : (tensor<1x8x8x2xf32>, tensor<f32>) -> (tensor<1x8x8x2xf32>)
    %8 = "stablehlo.select_and_scatter"(%7, %6, %1) ({
    ^bb0(%17: tensor<f32>, %18: tensor<f32>):
      %19 = "stablehlo.compare"(%17, %18) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      "stablehlo.return"(%19) : (tensor<i1>) -> ()
    }, {
    ^bb0(%20: tensor<f32>, %21: tensor<f32>):
      %22 = "stablehlo.add"(%20, %21) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%22) : (tensor<f32>) -> ()
    }) {window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>} : (tensor<1x8x8x2xf32>, tensor<1x4x4x2xf32>, tensor<f32>) -> (tensor<1x8x8x2xf32>)
    %9 = "stablehlo.slice"(%8) {limit_indices = array<i64: 1, 8, 8, 2>, start_indices = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x8x8x2xf32>) -> (tensor<1x8x8x2xf32>)
    %10 = "func.call"(%0) {callee = @"cumsum"} : (tensor<1x8x8x2xf32>) -> (tensor<1x8x8x2xf32>)
    %11 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<f32>)
    %12 = "stablehlo.reduce_window"(%0, %11) ({
    ^bb0(%23: tensor<f32>, %24: tensor<f32>):
      %25 = "stablehlo.add"(%23, %24) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%25) : (tensor<f32>) -> ()
    }) {padding = dense<"0x00000000000000000000000000000000010000000000000001000000000000000100000000000000010000000000000000000000000000000000000000000000"> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 3, 3, 1>} : (tensor<1x8x8x2xf32>, tensor<f32>) -> (tensor<1x8x8x2xf32>)
    %13 = "func.call"(%0) {callee = @"cumlogsumexp"} : (tensor<1x8x8x2xf32>) -> (tensor<1x8x8x2xf32>)
    "func.return"(%5, %9, %10, %12, %13) : (tensor<1x4x4x2xf32>, tensor<1x8x8x2xf32>, tensor<1x8x8x2xf32>, tensor<1x8x8x2xf32>, tensor<1x8x8x2xf32>) -> ()
  }
  func.func private @"cumsum"(%26: tensor<1x8x8x2xf32>) -> (tensor<1x8x8x2xf32>) {
    %27 = "func.call"(%26) {callee = @"cumsum_0"} : (tensor<1x8x8x2xf32>) -> (tensor<1x8x8x2xf32>)
    "func.return"(%27) : (tensor<1x8x8x2xf32>) -> ()
  }
  func.func private @"cumsum_0"(%28: tensor<1x8x8x2xf32>) -> (tensor<1x8x8x2xf32>) {
    %29 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %30 = "stablehlo.broadcast_in_dim"(%29) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<f32>)
    %31 = "stablehlo.reduce_window"(%28, %30) ({
    ^bb0(%32: tensor<f32>, %33: tensor<f32>):
      %34 = "stablehlo.add"(%32, %33) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%34) : (tensor<f32>) -> ()
    }) {padding = dense<"0x00000000000000000000000000000000070000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 8, 1, 1>} : (tensor<1x8x8x2xf32>, tensor<f32>) -> (tensor<1x8x8x2xf32>)
    "func.return"(%31) : (tensor<1x8x8x2xf32>) -> ()
  }
  func.func private @"cumlogsumexp"(%35: tensor<1x8x8x2xf32>) -> (tensor<1x8x8x2xf32>) {
    %36 = "stablehlo.constant"() {value = dense<"0x000080FF"> : tensor<f32>} : () -> (tensor<f32>)
    %37 = "stablehlo.reduce_window"(%35, %36) ({
    ^bb0(%38: tensor<f32>, %39: tensor<f32>):
      %40 = "stablehlo.maximum"(%38, %39) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %41 = "stablehlo.subtract"(%38, %39) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %42 = "stablehlo.compare"(%41, %41) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %43 = "stablehlo.add"(%38, %39) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %44 = "stablehlo.abs"(%41) : (tensor<f32>) -> (tensor<f32>)
      %45 = "stablehlo.negate"(%44) : (tensor<f32>) -> (tensor<f32>)
      %46 = "stablehlo.exponential"(%45) : (tensor<f32>) -> (tensor<f32>)
      %47 = "stablehlo.log_plus_one"(%46) : (tensor<f32>) -> (tensor<f32>)
      %48 = "stablehlo.add"(%40, %47) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %49 = "stablehlo.select"(%42, %43, %48) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%49) : (tensor<f32>) -> ()
    }) {padding = dense<"0x00000000000000000000000000000000000000000000000000000000000000000700000000000000000000000000000000000000000000000000000000000000"> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 1, 8, 1>} : (tensor<1x8x8x2xf32>, tensor<f32>) -> (tensor<1x8x8x2xf32>)
    "func.return"(%37) : (tensor<1x8x8x2xf32>) -> ()
  }
}
