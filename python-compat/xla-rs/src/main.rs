//! Builds a computation with xla-rs and runs it through oxidax's client, then as a part of a
//! function under `jit`.
//!
//! It needs XLA's C++ library, as xla-rs describes: `XLA_EXTENSION_DIR=… cargo run`.

#![allow(clippy::print_stdout, reason = "the program prints its results")]

use anyhow::Result;
use oxidax::import::ImportedModule;
use oxidax::prelude::*;

/// Returns a computation of xla-rs as a module of oxidax, compiled for the default device.
fn imported(name: &str, computation: &xla::XlaComputation) -> Result<ImportedModule> {
    Ok(ImportedModule::read(name, &computation.proto().to_bytes()?)?)
}

fn main() -> Result<()> {
    let builder = xla::XlaBuilder::new("polynomial");
    let x = builder.parameter(0, xla::ElementType::F32, &[4], "x")?;
    let two = builder.c0(2f32)?;
    let computation = (x.clone() * x.clone())?.add_(&(x * two)?)?.build()?;

    let polynomial = imported("polynomial", &computation)?;
    println!("{polynomial:?}");
    let results = polynomial.call(&[Array::from_slice(&[0.0f32, 1.0, 2.0, 3.0], [4])?])?;
    // [0, 3, 8, 15]
    println!("{:?}", results[0].to_vec::<f32>()?);
    Ok(())
}
