//! Convolution over any number of spatial axes in any layout.

mod as_product;
mod batching;
mod exemplars;
mod functions;
mod general;
mod geometry;
mod lowering;
mod numbers;
mod transposition;

pub use functions::{
    ConvTransposeOptions, conv, conv_general_dilated, conv_general_dilated_local,
    conv_general_dilated_patches, conv_transpose, conv_with_general_padding,
};
pub use general::ConvGeneralDilated;
pub use numbers::ConvDimensionNumbers;
