module @"jit_loops" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<4xf32>, %1: tensor<i32>) -> (tensor<4xf32> {jax.result_info = "result[0]"}, tensor<4xf32> {jax.result_info = "result[1][0]"}, tensor<i32> {jax.result_info = "result[1][1]"}, tensor<f32> {jax.result_info = "result[2][0]"}, tensor<4xf32> {jax.result_info = "result[2][1]"}, tensor<4xf32> {jax.result_info = "result[3]"}, tensor<4xf32> {jax.result_info = "result[4]"}) {
    %2 = "stablehlo.constant"() {value = dense<"0x0000803F"> : tensor<f32>} : () -> (tensor<f32>)
    %3 = "stablehlo.constant"() {value = dense<"0x02000000"> : tensor<i32>} : () -> (tensor<i32>)
    %4 = "stablehlo.constant"() {value = dense<"0x04000000"> : tensor<i32>} : () -> (tensor<i32>)
    %5 = "stablehlo.constant"() {value = dense<"0x0000C842"> : tensor<f32>} : () -> (tensor<f32>)
    %6 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<f32>} : () -> (tensor<f32>)
    %7 = "stablehlo.constant"() {value = dense<"0x00000040"> : tensor<f32>} : () -> (tensor<f32>)
    %8 = "stablehlo.constant"() {value = dense<"0x01000000"> : tensor<i32>} : () -> (tensor<i32>)
    %9 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<i32>} : () -> (tensor<i32>)
    %10, %11, %12 = "stablehlo.while"(%9, %1, %0) ({
    ^bb0(%25: tensor<i32>, %26: tensor<i32>, %27: tensor<4xf32>):
      %28 = "stablehlo.compare"(%25, %26) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> (tensor<i1>)
      "stablehlo.return"(%28) : (tensor<i1>) -> ()
    }, {
    ^bb0(%29: tensor<i32>, %30: tensor<i32>, %31: tensor<4xf32>):
      %32 = "stablehlo.add"(%29, %8) : (tensor<i32>, tensor<i32>) -> (tensor<i32>)
      %33 = "stablehlo.broadcast_in_dim"(%7) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
      %34 = "stablehlo.multiply"(%31, %33) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
      %35 = "stablehlo.convert"(%29) : (tensor<i32>) -> (tensor<f32>)
      %36 = "stablehlo.broadcast_in_dim"(%35) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
      %37 = "stablehlo.add"(%34, %36) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%32, %30, %37) : (tensor<i32>, tensor<i32>, tensor<4xf32>) -> ()
    }) : (tensor<i32>, tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<i32>, tensor<4xf32>)
    %13, %14 = "stablehlo.while"(%0, %1) ({
    ^bb0(%38: tensor<4xf32>, %39: tensor<i32>):
      %40 = "stablehlo.reduce"(%38, %6) ({
      ^bb0(%42: tensor<f32>, %43: tensor<f32>):
        %44 = "stablehlo.add"(%42, %43) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
        "stablehlo.return"(%44) : (tensor<f32>) -> ()
      }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> (tensor<f32>)
      %41 = "stablehlo.compare"(%40, %5) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      "stablehlo.return"(%41) : (tensor<i1>) -> ()
    }, {
    ^bb0(%45: tensor<4xf32>, %46: tensor<i32>):
      %47 = "stablehlo.broadcast_in_dim"(%7) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
      %48 = "stablehlo.multiply"(%45, %47) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
      %49 = "stablehlo.add"(%46, %8) : (tensor<i32>, tensor<i32>) -> (tensor<i32>)
      "stablehlo.return"(%48, %49) : (tensor<4xf32>, tensor<i32>) -> ()
    }) : (tensor<4xf32>, tensor<i32>) -> (tensor<4xf32>, tensor<i32>)
    %15 = "stablehlo.broadcast_in_dim"(%6) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
    %16, %17, %18, %19 = "stablehlo.while"(%0, %9, %6, %15) ({
    ^bb0(%50: tensor<4xf32>, %51: tensor<i32>, %52: tensor<f32>, %53: tensor<4xf32>):
      %54 = "stablehlo.compare"(%51, %4) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> (tensor<i1>)
      "stablehlo.return"(%54) : (tensor<i1>) -> ()
    }, {
    ^bb0(%55: tensor<4xf32>, %56: tensor<i32>, %57: tensor<f32>, %58: tensor<4xf32>):
      %59 = "func.call"(%55, %56) {callee = @"dynamic_index_in_dim"} : (tensor<4xf32>, tensor<i32>) -> (tensor<f32>)
      %60, %61 = "func.call"(%57, %59) {callee = @"closed_call"} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
      %62 = "func.call"(%58, %61, %56) {callee = @"dynamic_update_index_in_dim"} : (tensor<4xf32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>)
      %63 = "stablehlo.add"(%56, %8) : (tensor<i32>, tensor<i32>) -> (tensor<i32>)
      "stablehlo.return"(%55, %63, %60, %62) : (tensor<4xf32>, tensor<i32>, tensor<f32>, tensor<4xf32>) -> ()
    }) : (tensor<4xf32>, tensor<i32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>, tensor<f32>, tensor<4xf32>)
    %20 = "stablehlo.compare"(%1, %3) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<i32>, tensor<i32>) -> (tensor<i1>)
    %21 = "stablehlo.convert"(%20) : (tensor<i1>) -> (tensor<i32>)
    %22 = "stablehlo.case"(%21) ({
      %64 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
      %65 = "stablehlo.subtract"(%0, %64) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%65) : (tensor<4xf32>) -> ()
    }, {
      %66 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<4xf32>)
      %67 = "stablehlo.add"(%0, %66) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%67) : (tensor<4xf32>) -> ()
    }) : (tensor<i32>) -> (tensor<4xf32>)
    %23 = "stablehlo.clamp"(%9, %1, %3) : (tensor<i32>, tensor<i32>, tensor<i32>) -> (tensor<i32>)
    %24 = "stablehlo.case"(%23) ({
      %68 = "stablehlo.sine"(%0) : (tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%68) : (tensor<4xf32>) -> ()
    }, {
      %69 = "stablehlo.cosine"(%0) : (tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%69) : (tensor<4xf32>) -> ()
    }, {
      %70 = "stablehlo.tan"(%0) : (tensor<4xf32>) -> (tensor<4xf32>)
      "stablehlo.return"(%70) : (tensor<4xf32>) -> ()
    }) : (tensor<i32>) -> (tensor<4xf32>)
    "func.return"(%12, %13, %14, %18, %19, %22, %24) : (tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }
  func.func private @"dynamic_index_in_dim"(%71: tensor<4xf32>, %72: tensor<i32>) -> (tensor<f32>) {
    %73 = "stablehlo.dynamic_slice"(%71, %72) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> (tensor<1xf32>)
    %74 = "stablehlo.reshape"(%73) : (tensor<1xf32>) -> (tensor<f32>)
    "func.return"(%74) : (tensor<f32>) -> ()
  }
  func.func private @"closed_call"(%75: tensor<f32>, %76: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %77 = "stablehlo.convert"(%75) : (tensor<f32>) -> (tensor<f32>)
    %78 = "stablehlo.add"(%77, %76) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
    %79 = "stablehlo.convert"(%75) : (tensor<f32>) -> (tensor<f32>)
    %80 = "stablehlo.multiply"(%79, %76) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
    "func.return"(%78, %80) : (tensor<f32>, tensor<f32>) -> ()
  }
  func.func private @"dynamic_update_index_in_dim"(%81: tensor<4xf32>, %82: tensor<f32>, %83: tensor<i32>) -> (tensor<4xf32>) {
    %84 = "stablehlo.broadcast_in_dim"(%82) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<1xf32>)
    %85 = "stablehlo.dynamic_update_slice"(%81, %84, %83) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> (tensor<4xf32>)
    "func.return"(%85) : (tensor<4xf32>) -> ()
  }
}
