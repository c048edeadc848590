module @"jit_collectives" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  "sdy.mesh"() {mesh = #sdy.mesh<["data"=4, "model"=2]>, sym_name = "mesh", stablehlo.mesh = {axes = [{name = "data", size = 4 : i64}, {name = "model", size = 2 : i64}]}} : () -> ()
  func.func public @"main"(%0: tensor<8x4xf32>) -> (tensor<2x4xf32> {jax.result_info = "result[0]"}, tensor<8x4xf32> {jax.result_info = "result[1]"}, tensor<4x8x4xf32> {jax.result_info = "result[2]"}, tensor<8x4xf32> {jax.result_info = "result[3]"}, tensor<4x8xf32> {jax.result_info = "result[4]"}, tensor<32x2xf32> {jax.result_info = "result[5]"}, tensor<i32> {jax.result_info = "result[6]"}) {
    %2, %3, %4, %5, %6, %7, %8 = "sdy.manual_computation"(%0) ({
    ^bb0(%16: tensor<2x4xf32>):
      %18 = "stablehlo.constant"() {value = dense<"0x04000000"> : tensor<ui32>} : () -> (tensor<ui32>)
      %19 = "stablehlo.constant"() {value = dense<"0x02000000"> : tensor<ui32>} : () -> (tensor<ui32>)
      %20 = "stablehlo.all_reduce"(%16) ({
      ^bb0(%38: tensor<f32>, %39: tensor<f32>):
        %40 = "stablehlo.add"(%38, %39) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
        "stablehlo.return"(%40) : (tensor<f32>) -> ()
      }) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<"0x00000000000000000200000000000000040000000000000006000000000000000100000000000000030000000000000005000000000000000700000000000000"> : tensor<2x4xi64>, use_global_device_ids} : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
      %22 = "stablehlo.all_reduce"(%16) ({
      ^bb0(%41: tensor<f32>, %42: tensor<f32>):
        %43 = "stablehlo.maximum"(%41, %42) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
        "stablehlo.return"(%43) : (tensor<f32>) -> ()
      }) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<"0x00000000000000000100000000000000020000000000000003000000000000000400000000000000050000000000000006000000000000000700000000000000"> : tensor<4x2xi64>, use_global_device_ids} : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
      %24 = "stablehlo.broadcast_in_dim"(%16) {broadcast_dimensions = array<i64: 1, 2>} : (tensor<2x4xf32>) -> (tensor<1x2x4xf32>)
      %25 = "stablehlo.all_gather"(%24) {all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<"0x00000000000000000200000000000000040000000000000006000000000000000100000000000000030000000000000005000000000000000700000000000000"> : tensor<2x4xi64>, use_global_device_ids} : (tensor<1x2x4xf32>) -> (tensor<4x2x4xf32>)
      %27 = "stablehlo.collective_permute"(%16) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, source_target_pairs = dense<"0x00000000000000000200000000000000020000000000000004000000000000000100000000000000030000000000000003000000000000000500000000000000"> : tensor<4x2xi64>} : (tensor<2x4xf32>) -> (tensor<2x4xf32>)
      %29 = "stablehlo.reduce_scatter"(%16) ({
      ^bb0(%44: tensor<f32>, %45: tensor<f32>):
        %46 = "stablehlo.add"(%44, %45) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
        "stablehlo.return"(%46) : (tensor<f32>) -> ()
      }) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<"0x00000000000000000100000000000000020000000000000003000000000000000400000000000000050000000000000006000000000000000700000000000000"> : tensor<4x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids} : (tensor<2x4xf32>) -> (tensor<1x4xf32>)
      %31 = "stablehlo.all_to_all"(%16) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, concat_dimension = 0 : i64, replica_groups = dense<"0x00000000000000000100000000000000020000000000000003000000000000000400000000000000050000000000000006000000000000000700000000000000"> : tensor<4x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64} : (tensor<2x4xf32>) -> (tensor<4x2xf32>)
      %33 = "stablehlo.partition_id"() : () -> (tensor<ui32>)
      %34 = "stablehlo.divide"(%33, %19) : (tensor<ui32>, tensor<ui32>) -> (tensor<ui32>)
      %35 = "stablehlo.remainder"(%34, %18) : (tensor<ui32>, tensor<ui32>) -> (tensor<ui32>)
      %36 = "stablehlo.convert"(%35) : (tensor<ui32>) -> (tensor<i32>)
      "sdy.return"(%20, %22, %25, %27, %29, %31, %36) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x2x4xf32>, tensor<2x4xf32>, tensor<1x4xf32>, tensor<4x2xf32>, tensor<i32>) -> ()
    }) {in_shardings = #sdy.sharding_per_value<[<@"mesh", [{"data"}, {}]>]>, manual_axes = #sdy<manual_axes{"data", "model"}>, out_shardings = #sdy.sharding_per_value<[<@"mesh", [{}, {}]>, <@"mesh", [{"data"}, {}]>, <@"mesh", [{}, {"data"}, {}]>, <@"mesh", [{"data"}, {}]>, <@"mesh", [{"data"}, {"model"}]>, <@"mesh", [{"data", "model"}, {}]>, <@"mesh", []>]>} : (tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<8x4xf32>, tensor<4x8x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<32x2xf32>, tensor<i32>)
    "func.return"(%2, %3, %4, %5, %6, %7, %8) : (tensor<2x4xf32>, tensor<8x4xf32>, tensor<4x8x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<32x2xf32>, tensor<i32>) -> ()
  }
}
