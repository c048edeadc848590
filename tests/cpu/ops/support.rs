//! Conversions of arrays, and reference loops.

use oxidax::prelude::*;

/// Returns `0, 1, 2, …` of a shape, as `f32`.
pub(crate) fn counting(shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    let elements: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Array::from_slice(&elements, shape).expect("as many elements as the shape has")
}

pub(crate) fn f32s(x: &Array) -> Vec<f32> {
    x.to_vec().expect("the elements are there and of this dtype")
}

pub(crate) fn f64s(x: &Array) -> Vec<f64> {
    x.to_vec().expect("the elements are there and of this dtype")
}

pub(crate) fn i32s(x: &Array) -> Vec<i32> {
    x.to_vec().expect("the elements are there and of this dtype")
}

pub(crate) fn bools(x: &Array) -> Vec<bool> {
    x.to_vec().expect("the elements are there and of this dtype")
}

pub(crate) fn vector(elements: &[f32]) -> Array {
    Array::from_slice(elements, [elements.len()]).expect("as many elements as the shape has")
}

#[track_caller]
pub(crate) fn assert_close(actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    for (position, (a, e)) in actual.iter().zip(expected).enumerate() {
        let same = a == e || (a.is_nan() && e.is_nan());
        assert!(
            same || (a - e).abs() <= tolerance * e.abs().max(1.0),
            "at {position}: {a} for {e}"
        );
    }
}

/// Returns every multi-index of a shape, in row-major order.
pub(crate) fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &size in shape {
        let extend = |at: Vec<usize>| {
            (0..size).map(move |i| {
                let mut at = at.clone();
                at.push(i);
                at
            })
        };
        all = all.into_iter().flat_map(extend).collect();
    }
    all
}

/// Returns the row-major index of a multi-index.
pub(crate) fn place(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |place, (&size, &i)| place * size + i)
}
