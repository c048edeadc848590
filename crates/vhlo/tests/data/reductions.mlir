module @"jit_reductions" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<3x4xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<4xf32> {jax.result_info = "result[1]"}, tensor<3xf32> {jax.result_info = "result[2]"}, tensor<f32> {jax.result_info = "result[3]"}, tensor<3xi32> {jax.result_info = "result[4]"}, tensor<i1> {jax.result_info = "result[5]"}, tensor<4xi1> {jax.result_info = "result[6]"}, tensor<3x4xf32> {jax.result_info = "result[7]"}, tensor<3x4xi32> {jax.result_info = "result[8]"}, tensor<3x2xf32> {jax.result_info = "result[9][0]"}, tensor<3x2xi32> {jax.result_info = "result[9][1]"}, tensor<4xf32> {jax.result_info = "result[10][0]"}, tensor<4xf32> {jax.result_info = "result[10][1]"}, tensor<f32> {jax.result_info = "result[11]"}) {
    %1 = "stablehlo.constant"() {value = dense<true> : tensor<i1>} : () -> (tensor<i1>)
    %2 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> (tensor<i1>)
    %3 = "stablehlo.constant"() {value = dense<"0x0000803F"> : tensor<f32>} : () -> (tensor<f32>)
    %4 = "stablehlo.constant"() {value = dense<"0x0000807F"> : tensor<f32>} : () -> (tensor<f32>)
    %5 = "stablehlo.constant"() {value = dense<"0x000080FF"> : tensor<f32>} : () -> (tensor<f32>)
    %6 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %7 = "stablehlo.reduce"(%0, %6) ({
    ^bb0(%36: tensor<f32>, %37: tensor<f32>):
      %38 = "stablehlo.add"(%36, %37) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%38) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<3x4xf32>, tensor<f32>) -> (tensor<f32>)
    %8 = "stablehlo.reduce"(%0, %5) ({
    ^bb0(%39: tensor<f32>, %40: tensor<f32>):
      %41 = "stablehlo.maximum"(%39, %40) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%41) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<3x4xf32>, tensor<f32>) -> (tensor<4xf32>)
    %9 = "stablehlo.reduce"(%0, %4) ({
    ^bb0(%42: tensor<f32>, %43: tensor<f32>):
      %44 = "stablehlo.minimum"(%42, %43) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%44) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<3x4xf32>, tensor<f32>) -> (tensor<3xf32>)
    %10 = "stablehlo.reduce"(%0, %3) ({
    ^bb0(%45: tensor<f32>, %46: tensor<f32>):
      %47 = "stablehlo.multiply"(%45, %46) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%47) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<3x4xf32>, tensor<f32>) -> (tensor<f32>)
    %11 = "func.call"(%0) {callee = @"argmax"} : (tensor<3x4xf32>) -> (tensor<3xi32>)
    %12 = "stablehlo.broadcast_in_dim"(%6) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<3x4xf32>)
    %13 = "stablehlo.compare"(%0, %12) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<3x4xi1>)
    %14 = "stablehlo.reduce"(%13, %2) ({
    ^bb0(%48: tensor<i1>, %49: tensor<i1>):
      %50 = "stablehlo.or"(%48, %49) : (tensor<i1>, tensor<i1>) -> (tensor<i1>)
      "stablehlo.return"(%50) : (tensor<i1>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<3x4xi1>, tensor<i1>) -> (tensor<i1>)
    %15 = "stablehlo.broadcast_in_dim"(%6) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<3x4xf32>)
    %16 = "stablehlo.compare"(%0, %15) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<3x4xi1>)
    %17 = "stablehlo.reduce"(%16, %1) ({
    ^bb0(%51: tensor<i1>, %52: tensor<i1>):
      %53 = "stablehlo.and"(%51, %52) : (tensor<i1>, tensor<i1>) -> (tensor<i1>)
      "stablehlo.return"(%53) : (tensor<i1>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<3x4xi1>, tensor<i1>) -> (tensor<4xi1>)
    %18 = "func.call"(%0) {callee = @"sort"} : (tensor<3x4xf32>) -> (tensor<3x4xf32>)
    %19 = "func.call"(%0) {callee = @"argsort"} : (tensor<3x4xf32>) -> (tensor<3x4xi32>)
    %20, %21 = "stablehlo.composite"(%0) {composite_attributes = {k = 2 : i64}, decomposition = @"chlo.top_k.impl", name = "chlo.top_k", version = 1 : i32} : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
    %22, %23 = "stablehlo.reduce"(%0, %0, %6, %3) ({
    ^bb0(%54: tensor<f32>, %55: tensor<f32>, %56: tensor<f32>, %57: tensor<f32>):
      %58 = "stablehlo.add"(%54, %56) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %59 = "stablehlo.multiply"(%55, %57) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%58, %59) : (tensor<f32>, tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
    %24 = "stablehlo.reduce"(%0, %5) ({
    ^bb0(%60: tensor<f32>, %61: tensor<f32>):
      %62 = "stablehlo.maximum"(%60, %61) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%62) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<3x4xf32>, tensor<f32>) -> (tensor<f32>)
    %25 = "stablehlo.maximum"(%5, %24) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
    %26 = "stablehlo.is_finite"(%25) : (tensor<f32>) -> (tensor<i1>)
    %27 = "stablehlo.select"(%26, %25, %6) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
    %28 = "stablehlo.broadcast_in_dim"(%27) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<1x1xf32>)
    %29 = "stablehlo.broadcast_in_dim"(%28) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x1xf32>) -> (tensor<3x4xf32>)
    %30 = "stablehlo.subtract"(%0, %29) : (tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>)
    %31 = "stablehlo.exponential"(%30) : (tensor<3x4xf32>) -> (tensor<3x4xf32>)
    %32 = "stablehlo.reduce"(%31, %6) ({
    ^bb0(%63: tensor<f32>, %64: tensor<f32>):
      %65 = "stablehlo.add"(%63, %64) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%65) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<3x4xf32>, tensor<f32>) -> (tensor<f32>)
    %33 = "stablehlo.abs"(%32) : (tensor<f32>) -> (tensor<f32>)
    %34 = "stablehlo.log"(%33) : (tensor<f32>) -> (tensor<f32>)
    %35 = "stablehlo.add"(%34, %27) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
    "func.return"(%7, %8, %9, %10, %11, %14, %17, %18, %19, %20, %21, %22, %23, %35) : (tensor<f32>, tensor<4xf32>, tensor<3xf32>, tensor<f32>, tensor<3xi32>, tensor<i1>, tensor<4xi1>, tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x2xf32>, tensor<3x2xi32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> ()
  }
  func.func private @"chlo.top_k.impl"(%66: tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
    %67 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> (tensor<3x4xi32>)
    %68, %69 = "stablehlo.sort"(%66, %67) ({
    ^bb0(%72: tensor<f32>, %73: tensor<f32>, %74: tensor<i32>, %75: tensor<i32>):
      %76 = "stablehlo.compare"(%72, %73) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      "stablehlo.return"(%76) : (tensor<i1>) -> ()
    }) {dimension = 1 : i64, is_stable = true} : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<3x4xf32>, tensor<3x4xi32>)
    %70 = "stablehlo.slice"(%68) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<3x4xf32>) -> (tensor<3x2xf32>)
    %71 = "stablehlo.slice"(%69) {limit_indices = array<i64: 3, 2>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<3x4xi32>) -> (tensor<3x2xi32>)
    "func.return"(%70, %71) : (tensor<3x2xf32>, tensor<3x2xi32>) -> ()
  }
  func.func private @"argmax"(%77: tensor<3x4xf32>) -> (tensor<3xi32>) {
    %78 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<i32>} : () -> (tensor<i32>)
    %79 = "stablehlo.constant"() {value = dense<"0x000080FF"> : tensor<f32>} : () -> (tensor<f32>)
    %80 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> (tensor<3x4xi32>)
    %81, %82 = "stablehlo.reduce"(%77, %80, %79, %78) ({
    ^bb0(%83: tensor<f32>, %84: tensor<i32>, %85: tensor<f32>, %86: tensor<i32>):
      %87 = "stablehlo.compare"(%83, %85) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %88 = "stablehlo.compare"(%83, %83) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %89 = "stablehlo.or"(%87, %88) : (tensor<i1>, tensor<i1>) -> (tensor<i1>)
      %90 = "stablehlo.compare"(%83, %85) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %91 = "stablehlo.compare"(%84, %86) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> (tensor<i1>)
      %92 = "stablehlo.and"(%90, %91) : (tensor<i1>, tensor<i1>) -> (tensor<i1>)
      %93 = "stablehlo.or"(%89, %92) : (tensor<i1>, tensor<i1>) -> (tensor<i1>)
      %94 = "stablehlo.select"(%89, %83, %85) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %95 = "stablehlo.select"(%93, %84, %86) : (tensor<i1>, tensor<i32>, tensor<i32>) -> (tensor<i32>)
      "stablehlo.return"(%94, %95) : (tensor<f32>, tensor<i32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
    "func.return"(%82) : (tensor<3xi32>) -> ()
  }
  func.func private @"sort"(%96: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    %97 = "stablehlo.constant"() {value = dense<"0x0000C07F"> : tensor<f32>} : () -> (tensor<f32>)
    %98 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %99 = "stablehlo.sort"(%96) ({
    ^bb0(%100: tensor<f32>, %101: tensor<f32>):
      %102 = "stablehlo.compare"(%100, %98) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %103 = "stablehlo.select"(%102, %98, %100) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %104 = "stablehlo.compare"(%100, %100) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %105 = "stablehlo.select"(%104, %97, %103) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %106 = "stablehlo.compare"(%101, %98) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %107 = "stablehlo.select"(%106, %98, %101) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %108 = "stablehlo.compare"(%101, %101) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %109 = "stablehlo.select"(%108, %97, %107) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %110 = "stablehlo.compare"(%105, %109) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      "stablehlo.return"(%110) : (tensor<i1>) -> ()
    }) {dimension = 1 : i64, is_stable = true} : (tensor<3x4xf32>) -> (tensor<3x4xf32>)
    "func.return"(%99) : (tensor<3x4xf32>) -> ()
  }
  func.func private @"argsort"(%111: tensor<3x4xf32>) -> (tensor<3x4xi32>) {
    %112 = "stablehlo.constant"() {value = dense<"0x0000C07F"> : tensor<f32>} : () -> (tensor<f32>)
    %113 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %114 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> (tensor<3x4xi32>)
    %115, %116 = "stablehlo.sort"(%111, %114) ({
    ^bb0(%117: tensor<f32>, %118: tensor<f32>, %119: tensor<i32>, %120: tensor<i32>):
      %121 = "stablehlo.compare"(%117, %113) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %122 = "stablehlo.select"(%121, %113, %117) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %123 = "stablehlo.compare"(%117, %117) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %124 = "stablehlo.select"(%123, %112, %122) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %125 = "stablehlo.compare"(%118, %113) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %126 = "stablehlo.select"(%125, %113, %118) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %127 = "stablehlo.compare"(%118, %118) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      %128 = "stablehlo.select"(%127, %112, %126) : (tensor<i1>, tensor<f32>, tensor<f32>) -> (tensor<f32>)
      %129 = "stablehlo.compare"(%124, %128) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      "stablehlo.return"(%129) : (tensor<i1>) -> ()
    }) {dimension = 0 : i64, is_stable = true} : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<3x4xf32>, tensor<3x4xi32>)
    "func.return"(%116) : (tensor<3x4xi32>) -> ()
  }
}
