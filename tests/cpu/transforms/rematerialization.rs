//! `remat`: equal gradients with fewer stored values.

use super::f32s;
use oxidax::prelude::*;

fn layers(policy: Option<Policy>, n: usize) -> impl Fn(&Array, &Array) -> Array {
    move |w, x| {
        let layer = |h: &Array| {
            let h = checkpoint_name(h.matmul(w), "product");
            sin(sin(sin(&h)))
        };
        let mut h = x.clone();
        for _ in 0..n {
            h = match &policy {
                Some(policy) => remat_with(
                    layer,
                    RematOptions { policy: policy.clone(), ..RematOptions::default() },
                )(&h),
                None => layer(&h),
            };
        }
        h.sum()
    }
}

/// Counts the sines, cosines and products in the gradient's program.
fn counts(policy: Option<Policy>) -> (usize, usize) {
    let f = layers(policy, 3);
    let program = make_program(
        move |w: Array, x: Array| grad(|w: &Array| f(w, &x))(&w),
        (Aval::new(DType::F32, [4, 4]), Aval::new(DType::F32, [4])),
    )
    .unwrap();
    let text = program.to_string();
    (
        text.matches("= sin ").count() + text.matches("= cos ").count(),
        text.matches("= dot_general").count(),
    )
}

#[test]
fn policy_selects_recomputed_operations() {
    // Per layer: three sines in the forward pass and three cosines for the derivative; one product
    // in the forward pass, and in the backward pass one for the weights and one for the input,
    // which the first layer does not need.
    let plain = counts(None);
    assert_eq!(plain, (18, 3 + 3 + 2));
    assert_eq!(counts(Some(Policy::Everything)), plain);
    // Recomputed: two sines (the value of the last is not needed) and the product.
    assert_eq!(counts(Some(Policy::Nothing)), (18 + 6, 8 + 3));
    assert_eq!(counts(Some(Policy::Dots)), (18 + 6, 8));
    assert_eq!(counts(Some(Policy::DotsWithNoBatchDims)), (18 + 6, 8));
    assert_eq!(counts(Some(Policy::names(["product"]))), (18 + 6, 8));
    assert_eq!(counts(Some(Policy::names(["other"]))), (18 + 6, 8 + 3));
    assert_eq!(counts(Some(Policy::all_but_names(["other"]))), plain);
}

#[test]
fn policies_apply_inside_calls() {
    let product = jit(|w: Array, x: Array| x.matmul(&w));
    let f = move |w: &Array, x: &Array| {
        let block = remat_with(
            |x: &Array| sin(product.apply(w, x)),
            RematOptions { policy: Policy::Dots, ..RematOptions::default() },
        );
        block(&block(x)).sum()
    };
    let program = make_program(
        move |w: Array, x: Array| grad(|w: &Array| f(w, &x))(&w),
        (Aval::new(DType::F32, [4, 4]), Aval::new(DType::F32, [4])),
    )
    .unwrap();
    assert_eq!(program.to_string().matches("= dot_general").count(), 2 + 3);
}

mod on_cpu {
    use super::*;

    #[test]
    fn remat_keeps_gradients() {
        let w = f32s(&(0..16).map(|i| (i as f32).cos() * 0.4).collect::<Vec<_>>(), &[4, 4]);
        let x = f32s(&[0.1, 0.2, 0.3, 0.4], &[4]);
        let policies = [
            None,
            Some(Policy::Nothing),
            Some(Policy::Everything),
            Some(Policy::Dots),
            Some(Policy::names(["product"])),
        ];
        let gradients: Vec<Vec<Vec<f32>>> = policies
            .into_iter()
            .map(|policy| {
                let f = std::sync::Arc::new(layers(policy, 3));
                let (g, h) = (f.clone(), f.clone());
                let compiled = jit(move |w: Array, x: Array| grad(|w: &Array| g(w, &x))(&w));
                let eager = grad(|w: &Array| f(w, &x))(&w);
                let along = jvp(grad(|w: &Array| h(w, &x)), &w, ones_like(&w)).1;
                let rows = vmap(|x: Array| grad(|w: &Array| h(w, &x))(&w)).apply(x.reshape([1, 4]));
                let all = [compiled.call(&w, &x).unwrap(), eager, along, rows];
                all.iter().map(|g| g.to_vec::<f32>().unwrap()).collect()
            })
            .collect();
        for other in &gradients[1..] {
            for (a, b) in other.iter().flatten().zip(gradients[0].iter().flatten()) {
                assert!((a - b).abs() <= 1e-6 * (1.0 + b.abs()), "{a} is not {b}");
            }
        }
    }
}
