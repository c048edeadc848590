//! Convolutions that are products of matrices on a CPU, and large transposed operands.

use crate::arrays::Numbers;
use oxidax::prelude::*;
use oxidax::primitives::{ConvDimensionNumbers, ConvGeneralDilated, DotGeneral, Padding};

/// Returns the text for a platform of a function of two arrays.
fn text(f: impl Fn(Array, Array) -> Array, avals: [Aval; 2], platform: &str) -> String {
    let [x, y] = avals;
    let program = make_program(f, (x, y)).unwrap();
    oxidax::passes::lower(&program, "f", platform).unwrap().text
}

fn of_images(strides: [usize; 2]) -> ConvGeneralDilated {
    ConvGeneralDilated {
        window_strides: strides.to_vec(),
        dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
        ..ConvGeneralDilated::default()
    }
}

fn conv(x: &Array, kernel: &Array, how: &ConvGeneralDilated) -> Array {
    conv_general_dilated(x, kernel, how.clone())
}

#[test]
fn kernels_of_one_element_and_their_gradients_are_products() {
    let avals = || [Aval::new(DType::F32, [2, 6, 6, 8]), Aval::new(DType::F32, [1, 1, 8, 4])];
    for strides in [[1, 1], [2, 2]] {
        let how = of_images(strides);
        let of_x = |x: Array, y: Array| grad(|x: &Array| conv(x, &y, &how).sum())(&x);
        let of_y = |x: Array, y: Array| grad(|y: &Array| conv(&x, y, &how).sum())(&y);
        let counts = |text: String| {
            ["stablehlo.convolution", "stablehlo.dot_general"]
                .map(|name| text.matches(name).count())
        };
        assert_eq!(counts(text(|x, y| conv(&x, &y, &how), avals(), "cpu")), [0, 1]);
        assert_eq!(counts(text(|x, y| conv(&x, &y, &how), avals(), "tpu")), [1, 0]);
        assert_eq!(counts(text(of_x, avals(), "cpu")), [0, 2]);
        assert_eq!(counts(text(of_y, avals(), "cpu")), [0, 2]);
    }
}

#[test]
fn gradients_of_products_need_no_transposed_result() {
    // Rows, features and batches of the operands, and the equation of their product.
    let cases: [(&str, &[usize], &[usize]); 5] = [
        ("ij,jk->ik", &[4, 8], &[8, 6]),
        ("ij,kj->ik", &[4, 8], &[6, 8]),
        ("bij,bjk->bik", &[3, 4, 8], &[3, 8, 6]),
        ("bij,jk->bik", &[3, 4, 8], &[8, 6]),
        ("ij,jkl->ikl", &[4, 8], &[8, 2, 3]),
    ];
    for (equation, lhs, rhs) in cases {
        let avals = || [Aval::new(DType::F32, lhs), Aval::new(DType::F32, rhs)];
        let of_x = |x: Array, y: Array| grad(|x: &Array| einsum(equation, [x, &y]).sum())(&x);
        let of_y = |x: Array, y: Array| grad(|y: &Array| einsum(equation, [&x, y]).sum())(&y);
        for text in [text(of_x, avals(), "tpu"), text(of_y, avals(), "tpu")] {
            assert!(text.contains("stablehlo.dot_general"), "{equation}: {text}");
            assert!(!text.contains("stablehlo.transpose"), "{equation}: {text}");
        }
    }
}

#[test]
fn groups_and_windows_of_several_elements_stay_convolutions() {
    let image = Aval::new(DType::F32, [2, 6, 6, 8]);
    let groups = ConvGeneralDilated { feature_group_count: 2, ..of_images([1, 1]) };
    let kernel = Aval::new(DType::F32, [1, 1, 4, 4]);
    let of_groups = text(|x, y| conv(&x, &y, &groups), [image.clone(), kernel], "cpu");
    let kernel = Aval::new(DType::F32, [3, 3, 8, 4]);
    let of_windows = text(|x, y| conv(&x, &y, &of_images([1, 1])), [image, kernel], "cpu");
    for text in [of_groups, of_windows] {
        assert!(text.contains("stablehlo.convolution") && !text.contains("dot_general"), "{text}");
    }
}

mod on_cpu {
    use super::*;
    use oxidax::jit::{disable_most_optimizations, disable_rewrites};

    fn permutation(numbers: &mut Numbers, rank: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..rank).collect();
        for last in (1..rank).rev() {
            axes.swap(last, numbers.below(last + 1));
        }
        axes
    }

    /// A convolution with random sizes and axes, whose windows have one element or cover the whole
    /// image, and the shapes of its operands.
    fn random_case(numbers: &mut Numbers) -> (ConvGeneralDilated, [Vec<usize>; 2]) {
        let n = numbers.below(3);
        let mut how = ConvGeneralDilated::default();
        let (mut image, mut kernel, mut pads) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..n {
            let size = 1 + numbers.below(5);
            let (window, dilation, pad) = match numbers.below(3) {
                0 => (size, 1, (0, 0)),
                // Every other element, and the rest cropped or left over.
                1 => (size.div_ceil(2), 2, (0, -(numbers.below(size.min(2)) as isize))),
                _ => (1, 1, (numbers.below(3) as isize, numbers.below(2) as isize)),
            };
            let spread = (window - 1) * dilation + 1;
            let pad = if spread > size.saturating_add_signed(pad.1) { (0, 0) } else { pad };
            how.window_strides.push(1 + numbers.below(3));
            how.lhs_dilation.push(if window == 1 { 1 + numbers.below(2) } else { 1 });
            how.rhs_dilation.push(dilation);
            image.push(size);
            kernel.push(window);
            pads.push(pad);
        }
        how.padding = Padding::Explicit(pads);
        let spec = |numbers: &mut Numbers| permutation(numbers, n + 2);
        let (lhs_spec, rhs_spec, out_spec) = (spec(numbers), spec(numbers), spec(numbers));
        let [batch, inputs, outputs] = [0; 3].map(|_| 1 + numbers.below(4));
        let placed = |sizes: [usize; 2], space: &[usize], spec: &[usize]| {
            let mut shape = vec![0; spec.len()];
            for (&axis, &size) in spec.iter().zip(sizes.iter().chain(space)) {
                shape[axis] = size;
            }
            shape
        };
        let shapes = [
            placed([batch, inputs], &image, &lhs_spec),
            placed([outputs, inputs], &kernel, &rhs_spec),
        ];
        how.dimension_numbers = ConvDimensionNumbers { lhs_spec, rhs_spec, out_spec };
        (how, shapes)
    }

    /// Returns integers, whose products have no rounding.
    fn integers(shape: &[usize], dtype: DType) -> Array {
        let count: usize = shape.iter().product();
        ((arange(count).reshape(shape.to_vec()) * 7 + 3) % 11 - 5).astype(dtype)
    }

    #[test]
    fn random_convolutions_equal_those_that_xla_computes() {
        let mut numbers = Numbers::new(11);
        let mut products = 0;
        for number in 0..60 {
            let (how, shapes) = random_case(&mut numbers);
            let dtype = [DType::F32, DType::F64, DType::BF16][number % 3];
            let [x, kernel] = shapes.map(|shape| integers(&shape, dtype));
            let f = {
                let how = how.clone();
                jit(move |x: &Array, kernel: &Array| {
                    let weighted = |y: &Array| {
                        let weights = (arange(y.size()) % 5).reshape(y.shape().clone());
                        (y * weights.astype(y.dtype())).sum()
                    };
                    let loss = |pair: &(Array, Array)| weighted(&conv(&pair.0, &pair.1, &how));
                    let gradients = grad(loss)(&(x.clone(), kernel.clone()));
                    (conv(x, kernel, &how), gradients)
                })
            };
            products += usize::from({
                let text = f.lower(&x, &kernel).unwrap().as_text("cpu").unwrap();
                text.contains("dot_general") && !text.contains("stablehlo.convolution")
            });
            // Most of the time goes to compilation.
            let call = || disable_most_optimizations(|| f.call(&x, &kernel)).unwrap();
            let (found, (of_x, of_kernel)) = call();
            let (expected, (x, kernel)) = disable_rewrites(call);
            for (found, expected) in [(found, expected), (of_x, x), (of_kernel, kernel)] {
                assert_eq!(found.aval(), expected.aval(), "case {number}: {how:?}");
                let [found, expected] =
                    [found, expected].map(|y| y.astype(DType::F64).to_vec::<f64>().unwrap());
                assert_eq!(found, expected, "case {number}: {how:?}");
            }
        }
        assert!(products > 20, "{products} of 60 are products");
    }

    #[test]
    fn gradients_of_large_kernels_equal_those_that_xla_computes() {
        let (image, kernel) = ([1, 5, 5, 160], [3, 3, 160, 192]);
        let how = of_images([2, 2]);
        let f = jit(move |x: &Array, kernel: &Array| {
            grad(|x: &Array| {
                let y = conv(x, kernel, &how);
                (&y * &y).sum()
            })(x)
        });
        let [x, kernel] = [image.to_vec(), kernel.to_vec()].map(|of| integers(&of, DType::F32));
        let lowered = || f.lower(&x, &kernel).unwrap().as_text("cpu").unwrap();
        assert!(lowered().contains("LayoutConstraint"));
        assert!(!disable_rewrites(lowered).contains("LayoutConstraint"));
        let found = f.call(&x, &kernel).unwrap().to_vec::<f32>().unwrap();
        let expected = disable_rewrites(|| f.call(&x, &kernel)).unwrap().to_vec::<f32>().unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{found} and {expected}");
        }
    }

    #[test]
    fn products_along_columns_of_large_operands_are_exact() {
        let over = |axes: [usize; 2]| DotGeneral {
            lhs_contracting: axes.to_vec(),
            rhs_contracting: vec![0, 1],
            ..DotGeneral::default()
        };
        let y = integers(&[32, 16, 96], DType::F32);
        for (shape, axes) in [([32, 16, 128], [0, 1]), ([32, 128, 16], [0, 2])] {
            let x = integers(&shape, DType::F32);
            let how = over(axes);
            let f = jit(move |x: &Array, y: &Array| dot_general(x, y, how.clone()));
            let lowered = || f.lower(&x, &y).unwrap().as_text("cpu").unwrap();
            assert!(lowered().contains("LayoutConstraint"));
            assert!(!disable_rewrites(lowered).contains("LayoutConstraint"));
            let found = f.call(&x, &y).unwrap().to_vec::<f32>().unwrap();
            let expected = disable_rewrites(|| f.call(&x, &y)).unwrap().to_vec::<f32>().unwrap();
            assert_eq!(found, expected);
        }
    }
}
