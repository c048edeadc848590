//! Kernels compared with sums in `f64`.

mod grouped_matmul;
mod paged_attention;
mod quantized;
