//! Helpers: conversion and comparison of arrays, and inspection of programs.

use oxidax::core::Program;
use oxidax::prelude::*;

pub(crate) fn f64s(elements: &[f64], shape: &[usize]) -> Array {
    Array::from_slice(elements, shape).unwrap()
}

#[track_caller]
pub(crate) fn close(a: &Array, b: &Array) {
    assert_eq!(
        a.aval().to_string().trim_start_matches('~'),
        b.aval().to_string().trim_start_matches('~')
    );
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
    assert!(a.iter().zip(&b).all(near), "{a:?} is not {b:?}");
}

#[track_caller]
pub(crate) fn all_close<T: Tree>(a: &T, b: &T) {
    let (a, b) = (tree::leaves(a), tree::leaves(b));
    assert_eq!(a.len(), b.len());
    a.iter().zip(&b).for_each(|(a, b)| close(a, b));
}

/// Returns the element of `x` at `index` along axis 0.
pub(crate) fn row(x: &Array, index: usize) -> Array {
    x.index(i![index as isize])
}

pub(crate) fn steps(length: usize) -> ScanOptions {
    ScanOptions { length: Some(length), ..ScanOptions::default() }
}

/// Returns the result types of every equation of this primitive, including inner programs.
pub(crate) fn results_of(program: &Program, primitive: &str) -> Vec<Vec<String>> {
    let mut results = Vec::new();
    for eqn in program.eqns() {
        if eqn.primitive.name() == primitive {
            results.push(eqn.results.iter().map(|&var| program.aval(var).to_string()).collect());
        }
        for (_, inner) in eqn.primitive.as_higher_order().iter().flat_map(|h| h.programs()) {
            results.extend(results_of(inner, primitive));
        }
    }
    results
}
