//! Creation and rearrangement compared with expected elements.

use crate::ops::support::{counting, f32s, i32s, vector};
use oxidax::prelude::*;

mod on_cpu {
    use super::*;

    fn dims(x: &Array) -> Vec<usize> {
        x.shape().to_vec()
    }

    #[test]
    fn stack_and_split() {
        let (x, y) = (vector(&[1., 2.]), vector(&[3., 4.]));
        assert_eq!(f32s(&stack([&x, &y], 0)), [1., 2., 3., 4.]);
        assert_eq!(f32s(&stack([&x, &y], -1)), [1., 3., 2., 4.]);
        let parts = split(&counting(&[2, 4]), 2, -1);
        assert_eq!(f32s(&parts[1]), [2., 3., 6., 7.]);
        let parts = split(&counting(&[5]), [1, 1, 4], 0);
        assert_eq!(parts.iter().map(|part| part.size()).collect::<Vec<_>>(), [1, 0, 3, 1]);
        assert_eq!(f32s(&parts[2]), [1., 2., 3.]);
    }

    #[test]
    fn repeat_tile_and_roll() {
        let x = counting(&[2, 2]);
        assert_eq!(f32s(&tile(&x, &[1, 2])), [0., 1., 0., 1., 2., 3., 2., 3.]);
        assert_eq!(dims(&tile(&x, &[2, 1, 3])), [2, 2, 6]);
        assert_eq!(f32s(&tile(&vector(&[1., 2.]), &[2])), [1., 2., 1., 2.]);
        assert_eq!(f32s(&repeat(&x, 2, 1)), [0., 0., 1., 1., 2., 2., 3., 3.]);
        assert_eq!(f32s(&repeat(&x, 2, 0)), [0., 1., 0., 1., 2., 3., 2., 3.]);
    }

    #[test]
    fn flip_swap_and_reshape() {
        let x = counting(&[5]);
        assert_eq!(f32s(&roll(&x, 2, 0)), [3., 4., 0., 1., 2.]);
        assert_eq!(f32s(&roll(&x, -6, 0)), [1., 2., 3., 4., 0.]);
        assert_eq!(f32s(&x.flip(0)), [4., 3., 2., 1., 0.]);
        let y = counting(&[2, 3]);
        assert_eq!(f32s(&y.t()), [0., 3., 1., 4., 2., 5.]);
        assert_eq!(dims(&counting(&[2, 3, 4]).swapaxes(0, -1)), [4, 3, 2]);
        assert_eq!(dims(&counting(&[2, 3, 4]).transpose_axes([1, -1, 0])), [3, 4, 2]);
        assert_eq!(dims(&y.expand_dims(-1).expand_dims(0)), [1, 2, 3, 1]);
        assert_eq!(dims(&y.expand_dims(-1).squeeze_axes([-1])), [2, 3]);
        assert_eq!(dims(&y.expand_dims(1).squeeze()), [2, 3]);
        assert_eq!(dims(&y.reshape([-1])), [6]);
        assert_eq!(dims(&y.reshape([3, 2])), [3, 2]);
    }

    #[test]
    fn diagonals_and_triangles() {
        let x = counting(&[3, 4]);
        let at = |offset| diagonal_with(&x, DiagonalOptions { offset, ..Default::default() });
        assert_eq!(f32s(&diagonal(&x)), [0., 5., 10.]);
        assert_eq!(f32s(&at(2)), [2., 7.]);
        assert_eq!(f32s(&at(-1)), [4., 9.]);
        assert_eq!(at(-3).size(), 0);
        assert_eq!(f32s(&trace(&x)), [15.]);
        assert_eq!(f32s(&tril(&x, 0)), [0., 0., 0., 0., 4., 5., 0., 0., 8., 9., 10., 0.]);
        assert_eq!(f32s(&triu(&x, 1)), [0., 1., 2., 3., 0., 0., 6., 7., 0., 0., 0., 11.]);
        assert_eq!(f32s(&tri([2, 3], 1)), [1., 1., 0., 1., 1., 1.]);
        assert_eq!(f32s(&eye(2)), [1., 0., 0., 1.]);
        assert_eq!(f32s(&eye_with([2, 3], EyeOptions { offset: 1 })), [0., 1., 0., 0., 0., 1.]);
    }

    #[test]
    fn diagonal_and_trace_default_to_the_first_two_axes() {
        let x = counting(&[2, 3, 4]);
        assert_eq!(dims(&diagonal(&x)), [4, 2]);
        assert_eq!(f32s(&diagonal(&x)), [0., 16., 1., 17., 2., 18., 3., 19.]);
        assert_eq!(f32s(&trace(&x)), [16., 18., 20., 22.]);
        let last = DiagonalOptions { offset: 1, axis1: -2, axis2: -1 };
        assert_eq!(f32s(&diagonal_with(&x, last)), [1., 6., 11., 13., 18., 23.]);
        assert_eq!(f32s(&trace_with(&x, last)), [18., 54.]);
    }

    #[test]
    fn pad_has_the_modes_of_numpy() {
        let x = counting(&[4]) + 1.0;
        let padded = |mode| f32s(&pad_with(&x, (3, 2), PadOptions { mode }));
        assert_eq!(f32s(&pad(&x, (1, 2))), [0., 1., 2., 3., 4., 0., 0.]);
        let fives = PadMode::Constant(Scalar::Float(5.0));
        assert_eq!(padded(fives), [5., 5., 5., 1., 2., 3., 4., 5., 5.]);
        assert_eq!(padded(PadMode::Edge), [1., 1., 1., 1., 2., 3., 4., 4., 4.]);
        assert_eq!(padded(PadMode::Reflect), [4., 3., 2., 1., 2., 3., 4., 3., 2.]);
        assert_eq!(padded(PadMode::Symmetric), [3., 2., 1., 1., 2., 3., 4., 4., 3.]);
        assert_eq!(padded(PadMode::Wrap), [2., 3., 4., 1., 2., 3., 4., 1., 2.]);
        // Mirror images repeat when the padding exceeds the axis.
        let long = pad_with(counting(&[2]), (0, 5), PadOptions { mode: PadMode::Reflect });
        assert_eq!(f32s(&long), [0., 1., 0., 1., 0., 1., 0.]);
        let rows =
            pad_with(counting(&[2, 2]), [(1, 0), (0, 1)], PadOptions { mode: PadMode::Edge });
        assert_eq!(f32s(&rows), [0., 1., 1., 0., 1., 1., 2., 3., 3.]);
    }

    #[test]
    fn ranges_and_grids() {
        assert_eq!(i32s(&arange(4)), [0, 1, 2, 3]);
        assert_eq!(i32s(&arange_step(5, 0, -2)), [5, 3, 1]);
        assert_eq!(f32s(&arange_step(0.5, 2.0, 0.5)), [0.5, 1.0, 1.5]);
        assert_eq!(f32s(&linspace(0.0, 1.0, 5)), [0., 0.25, 0.5, 0.75, 1.]);
        assert_eq!(f32s(&linspace(2.0, f32::INFINITY, 1)), [2.0]);
        assert_eq!(
            f32s(&linspace_with(
                0.0,
                1.0,
                4,
                LinspaceOptions { endpoint: false, ..Default::default() }
            )),
            [0., 0.25, 0.5, 0.75]
        );
        assert_eq!(f32s(&diff(&vector(&[1., 4., 9.]), 0)), [3., 5.]);
        assert_eq!(diff(&zeros([0]), 0).size(), 0);
        let columns = linspace(vector(&[0., 1.]), vector(&[1., 3.]), 3);
        assert_eq!(f32s(&columns), [0., 1., 0.5, 2., 1., 3.]);
        let (x, y) = (vector(&[1., 2., 3.]), vector(&[4., 5.]));
        let grids = meshgrid_with(
            [&x, &y],
            MeshgridOptions { indexing: Indexing::Ij, ..Default::default() },
        );
        assert_eq!(f32s(&grids[0]), [1., 1., 2., 2., 3., 3.]);
        let grids = meshgrid([&x, &y]);
        assert_eq!(f32s(&grids[0]), [1., 2., 3., 1., 2., 3.]);
        let labels = Array::from_slice(&[1u8, 7, 0], [3]).unwrap();
        assert_eq!(f32s(&one_hot(&labels, 2)), [0., 1., 0., 0., 1., 0.]);
        assert_eq!(
            dims(&one_hot_with(&labels, 300, OneHotOptions { axis: 0, dtype: DType::BF16 })),
            [300, 3]
        );
    }

    #[test]
    fn polyfit_recovers_coefficients() {
        let x = vector(&[-2., -1., 0., 0.5, 1.5, 3.]);
        let p = vector(&[0.5, -2., 0.25, 1.]);
        let near = CloseOptions { rtol: 1e-4, atol: 1e-4, ..CloseOptions::default() };
        let fitted = polyfit(&x, &polyval(&p, &x), 3);
        assert!(allclose_with(&fitted, &p, near).item::<bool>().unwrap());
        let line = polyfit(&vector(&[0., 1., 2.]), &vector(&[1., 3., 5.]), 1);
        assert!(allclose_with(&line, vector(&[2., 1.]), near).item::<bool>().unwrap());
    }

    #[test]
    fn partition_places_the_kth_element() {
        let x = vector(&[3., 1., 4., 1., 5., 9., 2., 6.]);
        let parted = f32s(&x.partition(3, 0));
        assert_eq!(parted[3], 3.);
        assert!(parted[..3].iter().all(|&e| e <= 3.) && parted[4..].iter().all(|&e| e >= 3.));
        let order = i32s(&x.argpartition(-1, 0));
        assert_eq!(order[7], 5);
    }
}
