module {
  func.func @"main"(%0: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
    %1 = "stablehlo.uniform_quantize"(%0) : (tensor<4x2xf32>) -> (tensor<4x2x!quant.uniform<i8<-127:127>:f32, 2.5e-1:3>>)
    %2 = "stablehlo.uniform_dequantize"(%1) : (tensor<4x2x!quant.uniform<i8<-127:127>:f32, 2.5e-1:3>>) -> (tensor<4x2xf32>)
    %3 = "stablehlo.uniform_quantize"(%0) : (tensor<4x2xf32>) -> (tensor<4x2x!quant.uniform<u8<0:255>:f32:1, {1.0e-1:128, 2.0e0:0}>>)
    %4 = "stablehlo.uniform_dequantize"(%3) : (tensor<4x2x!quant.uniform<u8<0:255>:f32:1, {1.0e-1:128, 2.0e0:0}>>) -> (tensor<4x2xf32>)
    "func.return"(%2, %4) : (tensor<4x2xf32>, tensor<4x2xf32>) -> ()
  }
  func.func private @"declared"(tensor<f32>, memref<3x?xf32>) -> (tensor<f32>)
  func.func @"annotated"() -> () attributes {stablehlo.attr = {number = 1 : i32}} {
    "func.return"() : () -> ()
  }
}
