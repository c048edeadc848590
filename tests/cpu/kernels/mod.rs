//! Kernels of `oxidax::kernels`.

mod attention;
