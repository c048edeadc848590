//! Matrix products and `einsum` compared with sums over all indices.

use crate::arrays::scattered;
use crate::ops::support::{assert_close, f64s, place, positions};
use expect_test::expect;
use oxidax::prelude::*;
use std::collections::BTreeMap;

/// Computes an `einsum` without ellipsis by loops over every index.
fn by_loops(spec: &str, operands: &[&Array]) -> (Vec<usize>, Vec<f64>) {
    let (inputs, output) = spec.split_once("->").expect("an explicit result");
    let inputs: Vec<&str> = inputs.split(',').collect();
    let mut sizes = BTreeMap::new();
    for (letters, x) in inputs.iter().zip(operands) {
        for (letter, &size) in letters.chars().zip(x.shape().iter()) {
            let known = sizes.entry(letter).or_insert(size);
            *known = size.max(*known);
        }
    }
    let letters: Vec<char> = sizes.keys().copied().collect();
    let extents: Vec<usize> = sizes.values().copied().collect();
    let shape: Vec<usize> = output.chars().map(|letter| sizes[&letter]).collect();
    let values: Vec<Vec<f64>> = operands.iter().map(|x| f64s(x)).collect();
    let mut result = vec![0.0; shape.iter().product()];
    for at in positions(&extents) {
        let index =
            |letter: char| at[letters.iter().position(|&l| l == letter).expect("a known index")];
        let mut product = 1.0;
        for ((letters, x), values) in inputs.iter().zip(operands).zip(&values) {
            let own: Vec<usize> = letters
                .chars()
                .zip(x.shape().iter())
                .map(|(letter, &size)| if size == 1 { 0 } else { index(letter) })
                .collect();
            product *= values[place(x.shape(), &own)];
        }
        let to: Vec<usize> = output.chars().map(index).collect();
        result[place(&shape, &to)] += product;
    }
    (shape, result)
}

mod on_cpu {
    use super::*;

    #[test]
    fn einsum_equals_sums_over_all_indices() {
        let cases: &[(&str, &[&[usize]])] = &[
            ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
            ("ij,jk->ki", &[&[2, 3], &[3, 4]]),
            ("bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 2]]),
            ("bthc,bshc->bhts", &[&[2, 3, 2, 4], &[2, 5, 2, 4]]),
            ("ij->", &[&[2, 3]]),
            ("ij->ji", &[&[2, 3]]),
            ("ii->i", &[&[3, 3]]),
            ("ii->", &[&[3, 3]]),
            ("iji->ij", &[&[3, 2, 3]]),
            ("iij,jk->ik", &[&[3, 3, 2], &[2, 2]]),
            ("iii->i", &[&[2, 2, 2]]),
            ("i,j->ij", &[&[2], &[3]]),
            ("i,i->i", &[&[3], &[3]]),
            (",ij->ij", &[&[], &[2, 2]]),
            ("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 2]]),
            ("ab,bc,cd,ad->ad", &[&[2, 3], &[3, 4], &[4, 2], &[2, 2]]),
            ("ijk,k->", &[&[2, 3, 2], &[2]]),
            ("ij,ij->ij", &[&[1, 3], &[2, 1]]),
            ("ij,jk->ik", &[&[2, 1], &[3, 2]]),
            ("ij,kl->jl", &[&[2, 3], &[2, 2]]),
            ("ij,j->i", &[&[2, 0], &[0]]),
            ("zij,zjk,zk->zi", &[&[2, 2, 3], &[2, 3, 2], &[2, 2]]),
        ];
        for (spec, shapes) in cases {
            let operands: Vec<Array> =
                shapes.iter().enumerate().map(|(i, s)| scattered(s, i as u64 + 1)).collect();
            let operands: Vec<&Array> = operands.iter().collect();
            let (shape, expected) = by_loops(spec, &operands);
            let actual = einsum(spec, &operands);
            assert_eq!(actual.shape().dims(), shape, "{spec}");
            assert_close(&f64s(&actual), &expected, 1e-12);
        }
    }

    #[test]
    fn ellipses_broadcast() {
        let (x, y) = (scattered(&[5, 1, 2, 3], 1), scattered(&[4, 3, 2], 2));
        let z = einsum("...ij,...jk", [&x, &y]);
        assert_eq!(z.shape().dims(), [5, 4, 2, 2]);
        assert_close(&f64s(&z), &f64s(&matmul(&x, &y)), 1e-12);
        let sum = einsum("i...->...", [&x]);
        assert_close(&f64s(&sum), &f64s(&x.sum_axes(0)), 1e-12);
    }

    #[test]
    fn matmul_of_all_ranks() {
        let cases: &[(&[usize], &[usize], &str)] = &[
            (&[3], &[3], "k,k->"),
            (&[3], &[3, 2], "k,kn->n"),
            (&[2, 3], &[3], "mk,k->m"),
            (&[2, 3], &[3, 4], "mk,kn->mn"),
            (&[5, 2, 3], &[3, 4], "bmk,kn->bmn"),
            (&[2, 3], &[5, 3, 4], "mk,bkn->bmn"),
            (&[3], &[5, 3, 4], "k,bkn->bn"),
            (&[5, 2, 3], &[3], "bmk,k->bm"),
            (&[5, 2, 3], &[5, 3, 4], "bmk,bkn->bmn"),
            (&[5, 2, 3], &[1, 3, 4], "bmk,bkn->bmn"),
            (&[1, 2, 3], &[5, 3, 4], "bmk,bkn->bmn"),
            (&[5, 1, 2, 3], &[7, 3, 4], "abmk,bkn->abmn"),
            (&[1, 7, 2, 3], &[5, 1, 3, 4], "abmk,abkn->abmn"),
            (&[5, 7, 2, 3], &[7, 3, 4], "abmk,bkn->abmn"),
        ];
        for (x, y, spec) in cases {
            let (x, y) = (scattered(x, 1), scattered(y, 2));
            let (shape, expected) = by_loops(spec, &[&x, &y]);
            let actual = x.matmul(&y);
            assert_eq!(actual.shape().dims(), shape, "{spec}");
            assert_close(&f64s(&actual), &expected, 1e-12);
        }
    }

    #[test]
    fn vector_products() {
        let (x, y) = (scattered(&[2, 3, 4], 1), scattered(&[5, 4, 2], 2));
        assert_close(&f64s(&dot(&x, &y)), &by_loops("abk,ckd->abcd", &[&x, &y]).1, 1e-12);
        let z = scattered(&[6, 4], 3);
        assert_close(&f64s(&inner(&x, &z)), &by_loops("abk,ck->abc", &[&x, &z]).1, 1e-12);
        assert_close(
            &f64s(&outer(&z, &z)),
            &by_loops("i,j->ij", &[&z.flatten(), &z.flatten()]).1,
            1e-12,
        );
        let by_count = tensordot(&x, &scattered(&[3, 4, 2], 4), 2);
        assert_eq!(by_count.shape().dims(), [2, 2]);
        let pairs = tensordot(&x, &y, ([0, -1], [2, 1]));
        assert_close(&f64s(&pairs), &by_loops("bac,dcb->ad", &[&x, &y]).1, 1e-12);
        let c = |re: f32, im: f32| num_complex::Complex32::new(re, im);
        let v = Array::from_slice(&[c(1.0, 2.0), c(0.0, 1.0)], [2]).unwrap();
        assert_eq!(vdot(&v, &v).item::<num_complex::Complex32>().unwrap(), c(6.0, 0.0));
    }
}

fn error(x: &[usize], y: &[usize], f: fn(&Array, &Array) -> Array) -> String {
    let avals = (Aval::new(DType::F32, x), Aval::new(DType::F32, y));
    let text = match eval_shape(move |x: Array, y: Array| f(&x, &y), avals) {
        Ok(z) => panic!("no error but {}", z.aval()),
        Err(error) => error.to_string(),
    };
    text.lines()
        .filter(|line| !line.contains("-->"))
        .map(|line| {
            format!(
                "{line}
"
            )
        })
        .collect()
}

#[test]
fn errors_name_axes_and_sizes() {
    expect![[r#"
        error[shape]: matmul: contracting sizes differ: lhs axis 1 is 3, rhs axis 0 is 4
          lhs: f32[2,3]
          rhs: f32[4,3]
          while tracing: error::{closure}
          help: the last axis of rhs would fit: swap its last two axes
    "#]]
    .assert_eq(&error(&[2, 3], &[4, 3], matmul));
    expect![[r#"
        error[shape]: matmul: batch axes [2] of lhs and [3] of rhs do not broadcast
          lhs: f32[2,2,3]
          rhs: f32[3,3,4]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(&[2, 2, 3], &[3, 3, 4], matmul));
    expect![[r#"
        error[shape]: matmul: takes arrays of rank 1 and more, got ranks 0 and 1
          lhs: f32[]
          rhs: f32[3]
          while tracing: error::{closure}
          help: multiply by a scalar with `*`
    "#]]
    .assert_eq(&error(&[], &[3], matmul));
    expect![[r#"
        error[shape]: einsum: index `j` is 3 in operand 0 and 4 in operand 1, in "ij,jk->ik"
          lhs: f32[2,3]
          rhs: f32[4,5]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(&[2, 3], &[4, 5], |x, y| einsum("ij,jk->ik", [x, y])));
    expect![[r#"
        error[shape]: tensordot: cannot sum over 3 axes of arrays of ranks 2 and 2
          lhs: f32[2,3]
          rhs: f32[4,5]
          while tracing: error::{closure}
    "#]]
    .assert_eq(&error(&[2, 3], &[4, 5], |x, y| tensordot(x, y, 3)));
}
