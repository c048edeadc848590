module @"jit_ffts" attributes {jax.uses_shape_polymorphism = 0 : i1, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @"main"(%0: tensor<4x8xcomplex<f32>>, %1: tensor<8xf32>) -> (tensor<4x8xcomplex<f32>> {jax.result_info = "result[0]"}, tensor<4x8xcomplex<f32>> {jax.result_info = "result[1]"}, tensor<5xcomplex<f32>> {jax.result_info = "result[2]"}, tensor<4x8xf32> {jax.result_info = "result[3]"}, tensor<4x8xcomplex<f32>> {jax.result_info = "result[4]"}) {
    %2 = "stablehlo.constant"() {value = dense<"0x00000000"> : tensor<i32>} : () -> (tensor<i32>)
    %3 = "func.call"(%0) {callee = @"fft"} : (tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>)
    %4 = "func.call"(%0) {callee = @"fft_0"} : (tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>)
    %5 = "func.call"(%1) {callee = @"fft_1"} : (tensor<8xf32>) -> (tensor<5xcomplex<f32>>)
    %6 = "stablehlo.slice"(%0) {limit_indices = array<i64: 4, 5>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<4x8xcomplex<f32>>) -> (tensor<4x5xcomplex<f32>>)
    %7 = "func.call"(%6, %2) {callee = @"_pad"} : (tensor<4x5xcomplex<f32>>, tensor<i32>) -> (tensor<4x5xcomplex<f32>>)
    %8 = "func.call"(%7) {callee = @"fft_2"} : (tensor<4x5xcomplex<f32>>) -> (tensor<4x8xf32>)
    %9 = "func.call"(%0) {callee = @"fft_3"} : (tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>)
    "func.return"(%3, %4, %5, %8, %9) : (tensor<4x8xcomplex<f32>>, tensor<4x8xcomplex<f32>>, tensor<5xcomplex<f32>>, tensor<4x8xf32>, tensor<4x8xcomplex<f32>>) -> ()
  }
  func.func private @"fft"(%10: tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>) {
    %11 = "stablehlo.fft"(%10) {fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type FFT>} : (tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>)
    "func.return"(%11) : (tensor<4x8xcomplex<f32>>) -> ()
  }
  func.func private @"fft_0"(%12: tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>) {
    %13 = "stablehlo.fft"(%12) {fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type IFFT>} : (tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>)
    "func.return"(%13) : (tensor<4x8xcomplex<f32>>) -> ()
  }
  func.func private @"fft_1"(%14: tensor<8xf32>) -> (tensor<5xcomplex<f32>>) {
    %15 = "stablehlo.fft"(%14) {fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type RFFT>} : (tensor<8xf32>) -> (tensor<5xcomplex<f32>>)
    "func.return"(%15) : (tensor<5xcomplex<f32>>) -> ()
  }
  func.func private @"_pad"(%16: tensor<4x5xcomplex<f32>>, %17: tensor<i32>) -> (tensor<4x5xcomplex<f32>>) {
    %18 = "stablehlo.convert"(%17) : (tensor<i32>) -> (tensor<complex<f32>>)
    %19 = "stablehlo.pad"(%16, %18) {edge_padding_high = array<i64: 0, 0>, edge_padding_low = array<i64: 0, 0>, interior_padding = array<i64: 0, 0>} : (tensor<4x5xcomplex<f32>>, tensor<complex<f32>>) -> (tensor<4x5xcomplex<f32>>)
    "func.return"(%19) : (tensor<4x5xcomplex<f32>>) -> ()
  }
  func.func private @"fft_2"(%20: tensor<4x5xcomplex<f32>>) -> (tensor<4x8xf32>) {
    %21 = "stablehlo.fft"(%20) {fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type IRFFT>} : (tensor<4x5xcomplex<f32>>) -> (tensor<4x8xf32>)
    "func.return"(%21) : (tensor<4x8xf32>) -> ()
  }
  func.func private @"fft_3"(%22: tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>) {
    %23 = "stablehlo.fft"(%22) {fft_length = array<i64: 4, 8>, fft_type = #stablehlo<fft_type FFT>} : (tensor<4x8xcomplex<f32>>) -> (tensor<4x8xcomplex<f32>>)
    "func.return"(%23) : (tensor<4x8xcomplex<f32>>) -> ()
  }
}
