//! Kernels that models need, each with its derivative: written with [`kernel`](crate::kernel), for
//! TPU, GPU and CPU.
