//! Grouped matrix products and their derivatives.

use crate::ops::support::{assert_close, f64s};
use expect_test::expect;
use oxidax::kernels::{GroupedMatmulOptions, grouped_matmul, grouped_matmul_with};
use oxidax::prelude::*;

/// The product, and the gradients of its sum weighted by `ct`, by loops over the groups.
struct Expected {
    product: Vec<f64>,
    of_lhs: Vec<f64>,
    of_rhs: Vec<f64>,
}

fn by_loops(lhs: &Array, rhs: &Array, ct: &Array, sizes: &[i32], transposed: bool) -> Expected {
    let [m, k] = [0, 1].map(|axis| lhs.shape()[axis]);
    let n = ct.shape()[1];
    let [x, w, c] = [lhs, rhs, ct].map(|x| f64s(&x.astype(DType::F64)));
    let mut expected = Expected {
        product: vec![0.0; m * n],
        of_lhs: vec![0.0; x.len()],
        of_rhs: vec![0.0; w.len()],
    };
    let groups = sizes.iter().enumerate();
    let groups = groups.flat_map(|(group, &size)| vec![group; size as usize]);
    for (row, group) in groups.take(m).enumerate() {
        for i in 0..k {
            for j in 0..n {
                let at = if transposed { (group * n + j) * k + i } else { (group * k + i) * n + j };
                expected.product[row * n + j] += x[row * k + i] * w[at];
                expected.of_lhs[row * k + i] += c[row * n + j] * w[at];
                expected.of_rhs[at] += x[row * k + i] * c[row * n + j];
            }
        }
    }
    expected
}

/// Compares the product of random operands, and its derivative, with sums in `f64`.
fn check(
    [m, k, n]: [usize; 3],
    dtype: DType,
    all_sizes: &[&[i32]],
    options: &GroupedMatmulOptions,
    tolerance: f64,
) {
    let g = all_sizes[0].len();
    let normal = |key, shape: &[usize]| random::normal(random::key(key), shape).astype(dtype);
    let (lhs, ct) = (normal(0, &[m, k]), normal(1, &[m, n]));
    let rhs = normal(2, &if options.transpose_rhs { [g, n, k] } else { [g, k, n] });
    let with_options = options.clone();
    let run = jit(move |lhs: &Array, rhs: &Array, sizes: &Array, ct: &Array| {
        let (sizes, options) = (sizes.clone(), with_options.clone());
        let product =
            move |lhs: &Array, rhs: &Array| grouped_matmul_with(lhs, rhs, &sizes, &options);
        let (product, pull) = vjp(product, (lhs, rhs));
        let (of_lhs, of_rhs) = pull(ct);
        vec![product, of_lhs, of_rhs]
    });
    // One executable for all sizes, which are data.
    for sizes in all_sizes {
        let sizes_array = Array::from_slice(sizes, [g]).unwrap();
        let actual = run.call(&lhs, &rhs, &sizes_array, &ct).unwrap();
        let expected = by_loops(&lhs, &rhs, &ct, sizes, options.transpose_rhs);
        let expected = [expected.product, expected.of_lhs, expected.of_rhs];
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_eq!(actual.dtype(), dtype);
            assert_close(&f64s(&actual.astype(DType::F64)), expected, tolerance);
        }
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn equals_sums_over_groups_of_any_size() {
        let sizes: &[&[i32]] =
            &[&[13, 0, 7, 20], &[0, 0, 0, 0], &[0, 50, 0, 0], &[16, 16, 16, 2], &[1, 1, 1, 1]];
        for interpret in [false, true] {
            let options = GroupedMatmulOptions {
                block_m: Some(16),
                interpret,
                ..GroupedMatmulOptions::default()
            };
            check([50, 37, 29], DType::F32, sizes, &options, 1e-5);
            check([50, 37, 29], DType::BF16, sizes, &options, 5e-3);
        }
    }

    #[test]
    fn equals_sums_if_no_axis_is_a_multiple_of_the_blocks() {
        let sizes: &[&[i32]] = &[&[20, 3, 0, 40], &[0, 0, 0, 70], &[9, 1, 1, 0]];
        for transpose_rhs in [false, true] {
            let options = GroupedMatmulOptions {
                transpose_rhs,
                block_m: Some(32),
                interpret: true,
                ..GroupedMatmulOptions::default()
            };
            check([70, 200, 150], DType::F32, sizes, &options, 5e-5);
        }
    }

    #[test]
    fn equals_the_plain_function() {
        let lhs = random::normal(random::key(0), [40, 24]);
        let rhs = random::normal(random::key(1), [3, 24, 8]);
        let sizes = array![11i32, 5, 20];
        let expected = f64s(&ragged_dot(&lhs, &rhs, &sizes).astype(DType::F64));
        let actual = grouped_matmul(&lhs, &rhs, &sizes);
        assert_close(&f64s(&actual.astype(DType::F64)), &expected, 1e-5);
    }

    #[test]
    fn other_rows_do_not_matter() {
        // Numbers that are not finite, in rows after the last group and in other groups.
        let lhs = random::normal(random::key(0), [24, 8]);
        let lhs = lhs.at(i![5]).set(f32::INFINITY).at(i![20..]).set(f32::NAN);
        let rhs = random::normal(random::key(1), [3, 8, 8]);
        let sizes = array![5i32, 1, 10];
        let (product, pull) = vjp(
            |lhs: &Array, rhs: &Array| grouped_matmul(lhs, rhs, &array![5i32, 1, 10]),
            (&lhs, &rhs),
        );
        let (_, of_rhs) = pull(&ones([24, 8]));
        let finite = |x: &Array| is_finite(x).all().item::<bool>().unwrap();
        assert!(finite(&product.index(i![..5])) && finite(&product.index(i![6..])));
        assert!(!finite(&product.index(i![5])));
        assert_eq!(product.index(i![16..]).abs().max().item::<f32>().unwrap(), 0.0);
        assert!(finite(&of_rhs.index(i![0])) && finite(&of_rhs.index(i![2])));
        assert_eq!(sizes.sum().item::<i32>().unwrap(), 16);
    }

    #[test]
    fn sizes_beyond_the_rows_are_cut() {
        let lhs = random::normal(random::key(0), [20, 8]);
        let rhs = random::normal(random::key(1), [3, 8, 8]);
        let product = |sizes: Array| f64s(&grouped_matmul(&lhs, &rhs, &sizes).astype(DType::F64));
        assert_eq!(product(array![15i32, 50, 3]), product(array![15i32, 5, 0]));
        assert_eq!(product(array![-3i32, 15, 5]), product(array![0i32, 15, 5]));
    }

    #[test]
    fn maps_over_rows_and_over_sizes() {
        let lhs = random::normal(random::key(0), [2, 20, 8]);
        let rhs = random::normal(random::key(1), [3, 8, 8]);
        let sizes = Array::from_slice(&[3i32, 10, 5, 0, 20, 0], [2, 3]).unwrap();
        let product = |lhs: Array, rhs: Array, sizes: Array| grouped_matmul(&lhs, &rhs, &sizes);
        let rows = vmap(product).in_axes((0, None, None));
        let rows = rows.apply(&lhs, &rhs, sizes.index(i![0]));
        let both = vmap(product).in_axes((0, None, 0)).apply(&lhs, &rhs, &sizes);
        for example in 0..2 {
            let one = |sizes: usize| {
                let sizes = sizes_of(sizes);
                let product = grouped_matmul(&lhs.index(i![example]), &rhs, &sizes);
                f64s(&product.astype(DType::F64))
            };
            assert_close(&f64s(&rows.index(i![example]).astype(DType::F64)), &one(0), 1e-6);
            assert_close(&f64s(&both.index(i![example]).astype(DType::F64)), &one(example), 1e-6);
        }
    }

    fn sizes_of(example: usize) -> Array {
        [array![3i32, 10, 5], array![0i32, 20, 0]][example].clone()
    }

    #[test]
    fn axes_without_elements_give_zeros() {
        let product = |m: usize, k: usize, n: usize| {
            grouped_matmul(&ones([m, k]), &ones([2, k, n]), &array![1i32, 1])
        };
        assert_eq!(product(0, 3, 4).shape().dims(), [0, 4]);
        assert_eq!(product(3, 0, 4).sum().item::<f32>().unwrap(), 0.0);
        let without = grouped_matmul(&ones([3, 2]), &ones([0, 2, 4]), &zeros(([0], DType::I32)));
        assert_eq!(without.shape().dims(), [3, 4]);
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let refused = |rows: Aval, matrices: Aval, sizes: Aval| {
        let product = |lhs: Array, rhs: Array, sizes: Array| grouped_matmul(&lhs, &rhs, &sizes);
        let error = eval_shape(product, (rows, matrices, sizes)).unwrap_err();
        error.to_string().lines().next().unwrap().to_string()
    };
    let f32s = |shape: &[usize]| Aval::new(DType::F32, shape);
    let i32s = |shape: &[usize]| Aval::new(DType::I32, shape);
    let shape = refused(f32s(&[8, 3]), f32s(&[4, 5, 2]), i32s(&[4]));
    expect!["error[shape]: grouped_matmul: rows of 3 elements and matrices with 5 rows"]
        .assert_eq(&shape);
    let groups = refused(f32s(&[8, 3]), f32s(&[4, 3, 2]), i32s(&[5]));
    expect!["error[shape]: grouped_matmul: 4 matrices and sizes of 5 groups"].assert_eq(&groups);
    let rank = refused(f32s(&[8]), f32s(&[4, 3, 2]), i32s(&[4]));
    assert_eq!(
        rank,
        "error[shape]: grouped_matmul: takes rows [m, k], matrices [g, k, n] and sizes [g], got \
         [8], [4,3,2] and [4]"
    );
    let dtype = refused(f32s(&[8, 3]), f32s(&[4, 3, 2]), f32s(&[4]));
    assert_eq!(
        dtype,
        "error[dtype]: grouped_matmul: takes floats of one dtype and integer sizes, got f32, f32 \
         and f32"
    );
}
