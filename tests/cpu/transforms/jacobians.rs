//! Jacobians and Hessians.

use super::f32s;
use oxidax::prelude::*;

#[test]
fn errors_name_the_jacobian_function() {
    let integers = Aval::new(DType::I32, [2]);
    let text =
        eval_shape(|x: Array| jacfwd(|x: &Array| x * 2)(&x), integers).unwrap_err().to_string();
    assert!(
        text.starts_with("error[dtype]: jacfwd: needs a function with a real float argument"),
        "{text}"
    );
    assert!(text.contains("jacobians.rs"), "{text}");
    let text =
        eval_shape(|x: Array| jacrev(|x: &Array| gt(x, 0.0))(&x), Aval::new(DType::F32, [2]))
            .unwrap_err()
            .to_string();
    assert!(
        text.starts_with("error[dtype]: jacrev: needs a function with a real float output"),
        "{text}"
    );
}

mod on_cpu {
    use super::*;

    fn f(x: &Array) -> Array {
        // From [2, 2] to [3].
        let x = x.reshape([4]);
        concatenate([&(&x * &x).sum().reshape([1]), &sin(x.index(i![..2]))], 0)
    }

    #[test]
    fn jacfwd_and_jacrev_agree() {
        let x = f32s(&[0.1, 0.2, 0.3, 0.4], &[2, 2]);
        let (forward, backward) = (jacfwd(f)(&x), jacrev(f)(&x));
        assert_eq!(forward.shape().dims(), [3, 2, 2]);
        let expected =
            [0.2, 0.4, 0.6, 0.8, 0.1f32.cos(), 0.0, 0.0, 0.0, 0.0, 0.2f32.cos(), 0.0, 0.0];
        for ((a, b), expected) in forward
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .zip(backward.to_vec::<f32>().unwrap())
            .zip(expected)
        {
            assert!((a - expected).abs() < 1e-6 && (b - expected).abs() < 1e-6);
        }
        let compiled = jit(|x: Array| (jacfwd(f)(&x), jacrev(f)(&x)));
        let (a, b) = compiled.call(&x).unwrap();
        assert_eq!(a.to_vec::<f32>().unwrap(), forward.to_vec::<f32>().unwrap());
        assert_eq!(b.to_vec::<f32>().unwrap(), backward.to_vec::<f32>().unwrap());
    }

    #[test]
    fn jacobians_of_trees() {
        let x = f32s(&[1.0, 2.0], &[2]);
        let (sum, square) = jacfwd(|x: &Array| (x.sum(), x * x))(&x);
        assert_eq!(sum.to_vec::<f32>().unwrap(), [1.0, 1.0]);
        assert_eq!(square.to_vec::<f32>().unwrap(), [2.0, 0.0, 0.0, 4.0]);
        let n = Array::from_slice(&[7i32], []).unwrap();
        let allow = GradOptions { allow_int: true, ..GradOptions::default() };
        let (dx, dn) = jacrev_with(|(x, _): &(Array, Array)| x * 3.0, allow)(&(x, n));
        assert_eq!(dx.to_vec::<f32>().unwrap(), [3.0, 0.0, 0.0, 3.0]);
        assert_eq!((dn.dtype(), dn.to_vec::<i32>().unwrap()), (DType::I32, vec![0, 0]));
    }

    #[test]
    fn hvp_equals_hessian_times_vector() {
        let g = |x: &Array| (sin(x) * x * x).sum();
        let x = f32s(&[0.3, -1.2, 2.0], &[3]);
        let v = f32s(&[1.0, 0.5, -2.0], &[3]);
        let h = hessian(g)(&x);
        assert_eq!(h.shape().dims(), [3, 3]);
        let full = h.matmul(&v).to_vec::<f32>().unwrap();
        for (a, b) in full.iter().zip(hvp(g, &x, &v).to_vec::<f32>().unwrap()) {
            assert!((a - b).abs() < 1e-5, "{a} is not {b}");
        }
        let rows = vmap(|x: Array| hessian(|x: &Array| x * x * x)(&x)).apply(&x);
        assert_eq!(rows.shape().dims(), [3]);
    }
}
