//! Values compared with those recorded from JAX (`python-compat/`), within each case's tolerance.

/// Declares one test for each family of a suite's operations, which `family` and `apply` of the
/// module group and compute.
macro_rules! families {
    ($suite:expr; $($name:ident),*) => {
        $(#[test]
        fn $name() {
            $suite.check_ops(|op| family(op) == stringify!($name), apply);
        })*
    };
}

mod api;
mod collective_functions;
mod collectives;
mod control_flow;
mod control_flow_functions;
mod difference;
mod fixtures;
mod implicit_functions;
mod joined;
mod known;
mod lax;
mod lax_products;
mod layers;
mod linalg;
mod mlp;
mod nn;
mod numpy;
mod numpy_arrays;
mod ops;
mod ops_moving;
mod optim;
mod promotion;
mod random;
mod samplers;
mod transforms;
