//! Results at the edges of definitions, and errors.

#![allow(clippy::unwrap_used, reason = "arrays of constants are valid")]

use oxidax::prelude::*;
use oxidax_scipy::{linalg, ode, optimize, sparse};

/// Returns the message of the error that `f` throws.
fn message<R>(f: impl FnOnce() -> R) -> String {
    match catch(f) {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_name_the_operation_and_the_numbers() {
    let of = |shape: &[usize]| Array::of_type(Aval::new(DType::F32, shape));
    let text = message(|| linalg::schur(&of(&[2, 3])));
    assert!(text.contains("schur") && text.contains("2 by 3"), "{text}");
    assert!(text.contains("behaviour.rs"), "{text}");
    let text = message(|| linalg::toeplitz(&of(&[])));
    assert!(text.contains("toeplitz") && text.contains("1 elements"), "{text}");
    let text = message(|| linalg::hadamard(6));
    assert!(text.contains("power of 2, got 6"), "{text}");
    let text = message(|| linalg::polar(&of(&[2, 3])));
    assert!(text.contains("PolarMethod::Svd"), "{text}");
    let half = Array::of_type(Aval::new(DType::BF16, [2, 2]));
    let text = message(|| linalg::hessenberg(&half));
    assert!(text.contains("bf16") && text.contains("astype"), "{text}");
    let times = Array::of_type(Aval::new(DType::I32, [3]));
    let f = |y: &Array, _: &Array, (): &()| y.clone();
    let text = message(|| ode::odeint(f, &of(&[2]), &times, &()));
    assert!(text.contains("odeint") && text.contains("i32[3]"), "{text}");
    let options = sparse::linalg::IterativeOptions { restart: 0, ..Default::default() };
    let text =
        message(|| sparse::linalg::gmres_incremental(|x: &Array| x.clone(), &of(&[2]), options));
    assert!(text.contains("restart must be at least 1, got 0"), "{text}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn the_minimum_of_a_curved_valley_is_reached() {
        let f = |x: &Array| {
            let (head, tail) = (x.index(i![..-1]), x.index(i![1..]));
            ((tail - head.square()).square() * 100.0 + (1.0 - &head).square()).sum()
        };
        let result = optimize::minimize(f, &array![-1.2, 1.0, 0.5]);
        assert!(result.success.item::<bool>().unwrap());
        let options = CloseOptions { rtol: 1e-3, ..Default::default() };
        assert!(allclose_with(&result.x, 1.0, options).item::<bool>().unwrap());
    }

    #[test]
    fn one_triangle_is_read() {
        use linalg::{HermitianEigenOptions, Triangle, eigvalsh_with};
        let (a, full) = (array![[2.0, 9.0], [1.0, -1.0]], array![[2.0, 1.0], [1.0, -1.0]]);
        let lower = |triangle| HermitianEigenOptions { triangle, ..Default::default() };
        let read = eigvalsh_with(&a, lower(Some(Triangle::Lower)));
        let both = eigvalsh_with(&a, lower(None));
        let expected = linalg::eigvalsh(&full);
        assert!(allclose(&read, &expected).item::<bool>().unwrap());
        assert!(!allclose(&both, &expected).item::<bool>().unwrap());
    }

    #[test]
    fn undefined_results_are_nan() {
        let is_nan = |x: &Array| isnan(x).all().item::<bool>().unwrap();
        let a = array![[1.0, f32::NAN], [0.0, 1.0]];
        assert!(is_nan(&linalg::schur(&a).t));
        let b = array![[-1.0, 0.0], [0.0, 3.0]];
        let x = linalg::solve_sylvester(&eye(2), &b, &ones([2, 2]));
        assert!(is_nan(&x));
    }

    #[test]
    fn empty_matrices_have_empty_factors() {
        let empty = zeros([0, 0]);
        assert_eq!(linalg::hessenberg(&empty).shape().dims(), [0, 0]);
        assert_eq!(linalg::geqrf(&zeros([3, 0])).taus.shape().dims(), [0]);
        assert_eq!(linalg::schur(&empty).t.shape().dims(), [0, 0]);
        assert_eq!(linalg::sqrtm(&empty).shape().dims(), [0, 0]);
    }

    #[test]
    fn left_eigenvectors_belong_to_the_adjoint() {
        let a = array![[1.0, 2.0], [0.5, 3.0]];
        let linalg::LeftRightEigenvectors { eigenvalues, left, right } = linalg::eig_left_right(&a);
        let a = a.astype(DType::C64);
        let adjoint = conj(left.mt());
        let close = |x: &Array, y: &Array| {
            let options = CloseOptions { rtol: 1e-4, atol: 1e-4, ..Default::default() };
            allclose_with(abs(&(x - y)), 0.0, options).item::<bool>().unwrap()
        };
        assert!(close(&a.matmul(&right), &(&right * &eigenvalues)));
        assert!(close(&adjoint.matmul(&a), &(eigenvalues.expand_dims(1) * &adjoint)));
    }

    #[test]
    fn gradients_of_gradients_of_an_integration_exist() {
        let y = |rate: &Array| {
            let t = linspace(0.0, 1.0, 2);
            let f = |y: &Array, _: &Array, rate: &Array| -(y * rate);
            let options = ode::OdeOptions { rtol: 1e-6, atol: 1e-6, ..Default::default() };
            ode::odeint_with(f, &scalar(1.0f32), &t, rate, options).index(i![-1])
        };
        let rate = scalar(0.5f32);
        let second = grad(grad(y))(&rate).item::<f32>().unwrap();
        assert!((second - (-0.5f32).exp()).abs() < 1e-3, "{second}");
    }
}
