//! Indexing compared with JAX.

use crate::ops::support::{counting, f32s, i32s, vector};
use expect_test::expect;
use oxidax::prelude::*;
use oxidax::{
    i,
    ops::{Ellipsis, NewAxis},
};

fn ints(elements: &[i32], shape: &[usize]) -> Array {
    Array::from_slice(elements, shape).expect("as many as the shape has")
}

mod on_cpu {
    use super::*;

    /// Recorded from JAX 0.10 on `arange(24).reshape(2, 3, 4)`.
    #[test]
    fn indexing_equals_jax() {
        let counted = || counting(&[2, 3, 4]);
        let (a, b) = (ints(&[1, 0, -1], &[3]), ints(&[0, 2], &[2, 1]));
        let c = ints(&[0, 5, -9], &[3]);
        let cases: Vec<(Array, &[usize], &[f32])> = vec![
            (
                counted().index(i![1]),
                &[3, 4],
                &[12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0],
            ),
            (counted().index(i![-1, 0]), &[4], &[12.0, 13.0, 14.0, 15.0]),
            (counted().index(i![0, 1, 2]), &[], &[6.0]),
            (
                counted().index(i![.., 1..]),
                &[2, 2, 4],
                &[
                    4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0,
                    22.0, 23.0,
                ],
            ),
            (
                counted().index(i![..., -2..]),
                &[2, 3, 2],
                &[2.0, 3.0, 6.0, 7.0, 10.0, 11.0, 14.0, 15.0, 18.0, 19.0, 22.0, 23.0],
            ),
            (
                counted().index(i![.., ..-1, 1..3]),
                &[2, 2, 2],
                &[1.0, 2.0, 5.0, 6.0, 13.0, 14.0, 17.0, 18.0],
            ),
            (
                counted().index(i![..=1, 0..=1]),
                &[2, 2, 4],
                &[
                    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0,
                    18.0, 19.0,
                ],
            ),
            (
                counted().index(i![..., 1..=-1]),
                &[2, 3, 3],
                &[
                    1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 9.0, 10.0, 11.0, 13.0, 14.0, 15.0, 17.0, 18.0,
                    19.0, 21.0, 22.0, 23.0,
                ],
            ),
            (
                counted().index(i![strided(.., -1)]),
                &[2, 3, 4],
                &[
                    12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 0.0,
                    1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0,
                ],
            ),
            (
                counted().index(i![.., strided(.., -2), strided(1.., 2)]),
                &[2, 2, 2],
                &[9.0, 11.0, 1.0, 3.0, 21.0, 23.0, 13.0, 15.0],
            ),
            (counted().index(i![0, 0, strided(3..0, -2)]), &[2], &[3.0, 1.0]),
            (counted().index(i![0, 5.., 0..100]), &[0, 4], &[]),
            (
                counted().index(i![None, 0, ..., None]),
                &[1, 3, 4, 1],
                &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0],
            ),
            (counted().index(i![..., NewAxis, 1]), &[2, 3, 1], &[1.0, 5.0, 9.0, 13.0, 17.0, 21.0]),
            (counted().index(i![Ellipsis, 3]), &[2, 3], &[3.0, 7.0, 11.0, 15.0, 19.0, 23.0]),
            (
                counted().index(i![&a]),
                &[3, 3, 4],
                &[
                    12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 0.0,
                    1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0,
                    15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0,
                ],
            ),
            (
                counted().index(i![.., &a]),
                &[2, 3, 4],
                &[
                    4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0,
                    19.0, 12.0, 13.0, 14.0, 15.0, 20.0, 21.0, 22.0, 23.0,
                ],
            ),
            (
                counted().index(i![..., &a]),
                &[2, 3, 3],
                &[
                    1.0, 0.0, 3.0, 5.0, 4.0, 7.0, 9.0, 8.0, 11.0, 13.0, 12.0, 15.0, 17.0, 16.0,
                    19.0, 21.0, 20.0, 23.0,
                ],
            ),
            (
                counted().index(i![0, &a]),
                &[3, 4],
                &[4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0],
            ),
            (counted().index(i![.., 0, &a]), &[2, 3], &[1.0, 0.0, 3.0, 13.0, 12.0, 15.0]),
            (
                counted().index(i![0, .., &a]),
                &[3, 3],
                &[1.0, 5.0, 9.0, 0.0, 4.0, 8.0, 3.0, 7.0, 11.0],
            ),
            (
                counted().index(i![&a, .., &a]),
                &[3, 3],
                &[13.0, 17.0, 21.0, 0.0, 4.0, 8.0, 15.0, 19.0, 23.0],
            ),
            (
                counted().index(i![.., &a, &b]),
                &[2, 2, 3],
                &[4.0, 0.0, 8.0, 6.0, 2.0, 10.0, 16.0, 12.0, 20.0, 18.0, 14.0, 22.0],
            ),
            (
                counted().index(i![&b, &a]),
                &[2, 3, 4],
                &[
                    4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0,
                    19.0, 12.0, 13.0, 14.0, 15.0, 20.0, 21.0, 22.0, 23.0,
                ],
            ),
            (
                counted().index(i![.., &a, None, 1..3]),
                &[2, 3, 1, 2],
                &[5.0, 6.0, 1.0, 2.0, 9.0, 10.0, 17.0, 18.0, 13.0, 14.0, 21.0, 22.0],
            ),
            (
                counted().index(i![.., None, &a]),
                &[2, 1, 3, 4],
                &[
                    4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0,
                    19.0, 12.0, 13.0, 14.0, 15.0, 20.0, 21.0, 22.0, 23.0,
                ],
            ),
            (
                counted().index(i![0, &c]),
                &[3, 4],
                &[0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 3.0],
            ),
        ];
        for (number, (actual, shape, expected)) in cases.into_iter().enumerate() {
            assert_eq!(actual.shape().dims(), shape, "case {number}");
            assert_eq!(f32s(&actual), expected, "case {number}");
        }
    }

    /// Recorded from JAX 0.10 on `arange(6).reshape(2, 3)`.
    #[test]
    fn scalar_masks_add_an_axis() {
        let x = counting(&[2, 3]);
        let mask = Array::from_slice(&[true], []).unwrap();
        let rows = ints(&[0, 1], &[2]);
        let all = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let cases: Vec<(Array, &[usize], &[f32])> = vec![
            (x.index(i![true]), &[1, 2, 3], &all),
            (x.index(i![false]), &[0, 2, 3], &[]),
            (x.index(i![&mask]), &[1, 2, 3], &all),
            (x.index(i![0, true]), &[1, 3], &all[..3]),
            (x.index(i![true, 1]), &[1, 3], &all[3..]),
            (x.index(i![&rows, true]), &[2, 3], &all),
            (x.index(i![.., &mask]), &[2, 1, 3], &all),
            (x.index(i![true, true]), &[1, 2, 3], &all),
            (x.index(i![..., &mask]), &[2, 3, 1], &all),
            (x.index(i![None, true]), &[1, 1, 2, 3], &all),
            (x.index(i![true, .., &ints(&[0, 2], &[2])]), &[2, 2], &[0.0, 3.0, 2.0, 5.0]),
            (x.at(i![true]).get(), &[1, 2, 3], &all),
            (x.at(i![true]).set(9.0), &[2, 3], &[9.0; 6]),
            (x.at(i![false]).set(9.0), &[2, 3], &all),
            (x.at(i![1, &mask]).add(1.0), &[2, 3], &[0.0, 1.0, 2.0, 4.0, 5.0, 6.0]),
            (x.at(i![1, false]).add(1.0), &[2, 3], &all),
        ];
        for (index, (found, shape, elements)) in cases.into_iter().enumerate() {
            assert_eq!(found.shape().dims(), shape, "case {index}");
            assert_eq!(found.to_vec::<f32>().unwrap(), elements, "case {index}");
        }
        // Updates of all elements keep the shape, so the mask may be traced.
        let chosen = jit(|x: Array, mask: Array| x.at(i![&mask]).add(1.0));
        assert_eq!(chosen.call(&x, &mask).unwrap().to_vec::<f32>().unwrap()[5], 6.0);
        let error = jit(|x: Array, mask: Array| x.index(i![&mask])).call(&x, &mask).unwrap_err();
        assert!(error.to_string().contains("axis 0 is indexed by a traced mask bool[]"), "{error}");
        let slope = grad(|x: &Array| x.index(i![true, 1]).square().sum())(&x);
        assert_eq!(slope.to_vec::<f32>().unwrap(), [0.0, 0.0, 0.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn take_fills_indices_out_of_range() {
        let x = vector(&[10.0, 11.0, 12.0]);
        let taken = f32s(&take(&x, &ints(&[2, -3, 0], &[3]), 0));
        assert_eq!(taken, [12.0, 10.0, 10.0]);
        let missing = f32s(&take(&x, &ints(&[3, -4, 1], &[3]), 0));
        assert!(missing[0].is_nan() && missing[1].is_nan() && missing[2] == 11.0);
        assert_eq!(i32s(&take(&ints(&[1, 2], &[2]), &ints(&[7], &[1]), 0)), [i32::MIN]);
        let rows = take(&counting(&[3, 2]), &ints(&[2, 0, 2, 1], &[2, 2]), 0);
        assert_eq!(rows.shape().dims(), [2, 2, 2]);
        assert_eq!(f32s(&rows), [4.0, 5.0, 0.0, 1.0, 4.0, 5.0, 2.0, 3.0]);
        let bytes = Array::from_slice(&[2u8, 0], [2]).unwrap();
        assert_eq!(f32s(&take(&x, &bytes, 0)), [12.0, 10.0]);
    }

    #[test]
    fn take_along_axis_selects_one_element_per_row() {
        let x = counting(&[2, 3]);
        let picked = take_along_axis(&x, &ints(&[2, -3], &[2, 1]), -1);
        assert_eq!(f32s(&picked), [2.0, 3.0]);
        let broadcast = take_along_axis(&x, &ints(&[0, 1], &[1, 2]), 1);
        assert_eq!(f32s(&broadcast), [0.0, 1.0, 3.0, 4.0]);
        assert!(f32s(&take_along_axis(&x, &ints(&[9, 0], &[2, 1]), 1))[0].is_nan());
    }

    #[test]
    fn gather_gradient_counts_repeated_indices() {
        let x = vector(&[1.0, 2.0, 3.0]);
        let rows = ints(&[2, 0, 2, 9], &[4]);
        let gradient = grad(move |x: &Array| take(x, &rows, 0).index(i![..3]).sum())(&x);
        assert_eq!(f32s(&gradient), [1.0, 0.0, 2.0]);
        let gradient = grad(|x: &Array| x.index(i![strided(.., -2)]).sum())(&x);
        assert_eq!(f32s(&gradient), [1.0, 0.0, 1.0]);
    }
}

fn error(indices: fn(&Array) -> Array) -> String {
    let x = Aval::new(DType::F32, [2, 3]);
    let text = match eval_shape(move |x: Array| indices(&x), x) {
        Ok(y) => panic!("no error but {}", y.aval()),
        Err(error) => error.to_string(),
    };
    text.lines().filter(|line| !line.contains("-->")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn errors_name_axis_and_size() {
    expect![[r#"
        error[value]: index: index 3 is out of range for axis 1 of size 3
          operand: f32[2,3]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(|x| x.index(i![0, 3])));
    expect![[r#"
        error[shape]: index: 3 indices for an array of rank 2
          operand: f32[2,3]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(|x| x.index(i![0, 1, ..])));
    expect![[r#"
        error[value]: index: takes one ellipsis, got 2
          operand: f32[2,3]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(|x| x.index(i![..., 0, ...])));
    expect![[r#"
        error[value]: index: the slice of axis 0 has step 0
          operand: f32[2,3]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(|x| x.index(i![strided(.., 0)])));
    expect![[r#"
        error[unsupported]: index: axis 0 is indexed by a traced mask bool[2,3], on which the size would depend
          operand: f32[2,3]
          while tracing: error::{closure}
          help: keep the shape with `where_(mask, x, 0.0)`, or give the size: `nonzero(&mask, size, fill)`, `compress`
    "#]].assert_eq(&error(|x| x.index(i![x.greater(0.0)])));
    expect![[r#"
        error[dtype]: index: axis 0 is indexed by f32[2,3], indices must be integers
          operand: f32[2,3]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(|x| x.index(i![x])));
    expect![[r#"
        error[shape]: index: index arrays do not broadcast: [3], [2]
          operand: f32[2,3]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(|x| x.index(i![arange(3), arange(2)])));
    expect![[r#"
        error[shape]: take: axis 2 is out of range for an array of rank 2
          lhs: f32[2,3]
          rhs: i32[2]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(|x| take(x, &arange(2), 2)));
}
