//! Idioms of transforms: several arguments, axes, closures that borrow, integer leaves.

use super::{array, close, values};
use expect_test::expect;
use oxidax::prelude::*;

fn number(x: &Array) -> f32 {
    x.item().unwrap()
}

fn product(x: &Array, y: &Array) -> Array {
    (x * y).sum()
}

#[test]
fn derivatives_take_functions_of_several_arguments() {
    let (x, y) = (array(&[1.0, 2.0]), array(&[3.0, 4.0]));
    let (value, tangent) = jvp(product, (&x, &y), (&x, &y));
    assert_eq!((number(&value), number(&tangent)), (11.0, 22.0));
    let (_, tangent) = jvp(|x: Array, y: Array| x * y, (2.0, 3.0), (1.0, 0.5));
    assert_eq!(number(&tangent), 4.0);
    let (value, pullback) = vjp(product, (&x, y.clone()));
    let (dx, dy) = pullback(&ones_like(&value));
    assert_eq!((values(&dx), values(&dy)), (vec![3.0, 4.0], vec![1.0, 2.0]));
    let (_, derivative) = linearize(product, (&x, &y));
    assert_eq!(number(&derivative(&(zeros_like(&x), ones_like(&y)))), 3.0);
    let (_, aux, pullback) = vjp_aux(|x: &Array, y: &Array| (x * y, x + y), (&x, &y));
    assert_eq!((values(&aux), values(&pullback(&aux).0)), (vec![4.0, 6.0], vec![12.0, 24.0]));
    let sum = linear_transpose(|x: &Array, y: &Array| x * 2.0 + y, (&x, &y))(&x);
    assert_eq!((values(&sum.0), values(&sum.1)), (vec![2.0, 4.0], vec![1.0, 2.0]));
    // One tuple as the only argument takes a tuple of references, too.
    let of_tuple = |(x, y): &(Array, Array)| product(x, y);
    let (_, tangent) = jvp(of_tuple, (&x, &y), (&x, zeros_like(&y)));
    assert_eq!(number(&tangent), 11.0);
    let (_, pullback) = vjp(of_tuple, (&x, &y));
    assert_eq!(values(&pullback(&scalar(1f32)).0), [3.0, 4.0]);
    assert_eq!(number(&hvp(|x: &Array| x * x * x, 2.0, 1.0)), 12.0);
}

#[test]
fn custom_derivatives_take_functions_of_several_arguments() {
    let (x, y) = (array(&[1.0, 2.0]), array(&[3.0, 4.0]));
    let tripled = custom_jvp(
        |x: &Array, y: &Array| x * y,
        |(x, y): &(Array, Array), (dx, dy): &(Array, Array)| (x * y, (dx * y + x * dy) * 3.0),
    );
    assert_eq!(values(&tripled(&x, &y)), [3.0, 8.0]);
    assert_eq!(values(&grad(|x: &Array, y: &Array| tripled(x, y).sum())(&x, &y)), [9.0, 12.0]);
    let (_, tangent) = jvp(&tripled, (&x, &y), (&x, &y));
    assert_eq!(values(&tangent), [18.0, 48.0]);
    let doubled = custom_vjp(
        |x: &Array, y: &Array| x * y,
        |x: &Array, y: &Array| (x * y, (x.clone(), y.clone())),
        |(x, y): &(Array, Array), ct: &Array| (ct * y * 2.0, ct * x * 2.0),
    );
    let (_, pullback) = vjp(&doubled, (&x, &y));
    let (dx, dy) = pullback(&ones_like(&x));
    assert_eq!((values(&dx), values(&dy)), (vec![6.0, 8.0], vec![2.0, 4.0]));
    assert_eq!(values(&vmap(&doubled).apply(&x, &y)), [3.0, 8.0]);
    assert_eq!(values(&jit(doubled).call(&x, &y).unwrap()), [3.0, 8.0]);
    // Functions of values.
    let clipped =
        custom_vjp(|x: Array| x, |x: Array| (x, ()), |(): (), ct: Array| clip(&ct, -1, 1));
    assert_eq!(values(&grad(|x: &Array| (clipped(x) * 5.0).sum())(&x)), [1.0, 1.0]);
}

#[test]
fn functions_with_custom_derivatives_borrow_and_rules_own() {
    let (shift, scale) = (array(&[1.0, 1.0]), array(&[2.0, 2.0]));
    let shifted = {
        // The documented idiom: the rule is a `move` closure of clones.
        let scale = scale.clone();
        custom_jvp(|x: &Array| x + &shift, move |x: &Array, dx: &Array| (x + 1.0, dx * &scale))
    };
    assert_eq!(values(&grad(|x: &Array| shifted(x).sum())(&array(&[1.0, 2.0]))), [2.0, 2.0]);
    // `custom_linear_solve` and `custom_root` borrow everything.
    let b = array(&[1.0, 1.0]);
    let loss = |d: &Array| {
        let divide = |matvec: &dyn Fn(&Array) -> Array, b: &Array| b / matvec(&(&shift * 1.0));
        custom_linear_solve(|x: &Array| d * x, &b, divide, TransposeSolve::Symmetric).sum()
    };
    assert_eq!(values(&grad(loss)(&scale)), [-0.25, -0.25]);
    assert_eq!((values(&shift), values(&scale)), (vec![1.0, 1.0], vec![2.0, 2.0]));
}

#[test]
fn mapped_axes_are_numbers_tuples_and_lists() {
    let (xs, w) = (ones([4, 3]), array(&[1.0, 2.0, 3.0]));
    let dot = |x: &Array, w: &Array| (x * w).sum();
    let expected = vec![6.0; 4];
    assert_eq!(values(&vmap(dot).in_axes((0, None)).apply(&xs, &w)), expected);
    assert_eq!(values(&vmap(dot).in_axes([Some(0), None]).apply(&xs, &w)), expected);
    assert_eq!(vmap(dot).in_axes([1, 0]).apply(xs.t().reshape([3, 4]).t(), &w).rank(), 1);
    assert_eq!(vmap(dot).in_axes(1).apply(&xs, &xs).shape().dims(), [3]);
    assert_eq!(vmap(dot).in_axes((0, -1)).apply(&xs, ones([3, 4])).shape().dims(), [4]);
    // One entry per leaf: of a tuple, and of a struct in the order of its fields.
    let of_pair = |(x, w): &(Array, Array)| (x * w).sum();
    assert_eq!(values(&vmap(of_pair).in_axes(((0, None),)).apply((&xs, &w))), expected);
    let layer = nn::Linear::new(random::key(0), 3, 2);
    let forward = |layer: &nn::Linear, x: &Array| layer.forward(x);
    let stacked = nn::Linear { weight: stack([&layer.weight, &layer.weight], 0), ..layer.clone() };
    let ys = vmap(forward).in_axes(((0, None), None)).apply(&stacked, &w);
    assert_eq!(ys.shape().dims(), [2, 2]);
    // Results: one axis, one per part, one per leaf.
    let pair = |x: &Array| (x * 2.0, vec![x.clone(), x + 1.0]);
    let (a, rest) = vmap(pair).out_axes((1, 0)).apply(&xs);
    assert_eq!((a.shape().dims(), rest[1].shape().dims()), (&[3, 4][..], &[4, 3][..]));
    let (_, rest) = vmap(pair).out_axes([0, 0, 1]).apply(&xs);
    assert_eq!(rest[1].shape().dims(), [3, 4]);
    let error = catch(|| vmap(dot).in_axes((0, (0, None))).apply(&xs, &w)).unwrap_err().to_string();
    assert!(error.contains("in_axes names 2 axes for argument 1, which has 1 leaves"), "{error}");
}

#[test]
fn lower_takes_the_arguments_of_a_call() {
    let (x, w) = (array(&[1.0, 2.0]), array(&[3.0, 4.0]));
    let f = jit(product);
    let compiled = f.lower(&x, &w).unwrap().compile().unwrap();
    assert_eq!(number(&compiled.call(&x, &w).unwrap()), 11.0);
    let types = f.lower(x.aval().clone(), &w).unwrap();
    assert!(types.as_text("cpu").unwrap().contains("stablehlo.multiply"));
    assert_eq!(f.stats().compiles, 0);
}

#[derive(Tree, Clone)]
struct Model {
    weight: Array,
    steps: Array,
}

#[test]
fn integer_leaves_of_grad_are_refused_by_name() {
    let model = Model { weight: array(&[2.0]), steps: Array::from_slice(&[3i32], []).unwrap() };
    let loss = |m: &Model| (&m.weight * &m.steps).sum();
    let line = line!() + 1;
    let error = catch(|| grad(loss)(&model)).err().unwrap().to_string();
    expect![[r#"
        error[tree]: $.steps: grad: requires real- or complex-valued inputs, got i32[]
           --> tests/cpu/idioms/transforms.rs:LINE
          help: pass it as another argument or capture it; the option `GradOptions::allow_int` of `grad_with` gives it a gradient of zeros"#]]
    .assert_eq(&without_column(&error, line));
    let refused = |error: Option<Error>, name: &str| {
        let text = error.unwrap().to_string();
        assert!(text.starts_with(&format!("error[tree]: $.steps: {name}: requires")), "{text}");
    };
    refused(catch(|| value_and_grad(loss)(&model)).err(), "value_and_grad");
    refused(catch(|| jacrev(loss)(&model)).err(), "jacrev");
    refused(catch(|| grad_aux(|m: &Model| (loss(m), ()))(&model)).err(), "grad_aux");
    let counts = Array::from_slice(&[1i32], [1]).unwrap();
    for text in [
        catch(|| jacfwd(|n: &Array| n * 2.0)(&counts)).unwrap_err().to_string(),
        catch(|| hessian(|n: &Array| (n * 2.0).sum())(&counts)).unwrap_err().to_string(),
    ] {
        assert!(text.contains("a real float argument, got i32[1]"), "{text}");
    }
    // The remedies: allow them, pass them as another argument, or capture them.
    let allow = GradOptions { allow_int: true, ..GradOptions::default() };
    let gradient = grad_with(loss, allow)(&model);
    assert_eq!((values(&gradient.weight), gradient.steps.dtype()), (vec![3.0], DType::I32));
    let of_weight = |w: &Array, n: &Array| (w * n).sum();
    assert_eq!(values(&grad(of_weight)(&model.weight, &model.steps)), [3.0]);
    assert_eq!(values(&grad(|w: &Array| (w * &model.steps).sum())(&model.weight)), [3.0]);
    // `vjp` and `jvp` accept them, as in JAX.
    let (value, pullback) = vjp(loss, &model);
    assert_eq!(pullback(&ones_like(&value)).steps.item::<i32>().unwrap(), 0);
    // Optimizers leave integer leaves alone.
    let optimizer = optim::sgd(0.5);
    let (updates, _) = optimizer.update(&gradient, &optimizer.init(&model), &model);
    let next = optim::apply_updates(&model, &updates);
    assert_eq!((values(&next.weight), next.steps.item::<i32>().unwrap()), (vec![0.5], 3));
}

#[test]
fn linear_systems_of_functions_are_solved() {
    let a = Array::from_slice(&[4.0f64, 1.0, 0.0, 1.0, 3.0, -1.0, 0.0, -1.0, 5.0], [3, 3]).unwrap();
    let b = Array::from_slice(&[1.0f64, 2.0, -3.0], [3]).unwrap();
    let near = |x: &Array, y: &Array| {
        let distance = tree::norm(&(x - y)).item::<f64>().unwrap();
        assert!(distance < 1e-6, "{x} is {y}");
    };
    let options = || linalg::IterativeOptions { tol: 1e-10, ..Default::default() };
    let exact = linalg::solve(&a, &b);
    near(&linalg::cg_with(|x: &Array| a.matmul(x), &b, options()), &exact);
    near(&linalg::gmres_with(|x: &Array| a.matmul(x), &b, options()), &exact);
    // Not symmetric, with a restart after two steps and a preconditioner.
    let skew =
        &a + Array::from_slice(&[0.0f64, 2.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0], [3, 3]).unwrap();
    let exact = linalg::solve(&skew, &b);
    let restarted = linalg::IterativeOptions { restart: 2, ..options() };
    near(&linalg::gmres_with(|x: &Array| skew.matmul(x), &b, restarted), &exact);
    let inverse = |x: &Array| x / diagonal(&skew);
    let scaled = linalg::IterativeOptions { preconditioner: Some(&inverse), ..options() };
    near(&linalg::gmres_with(|x: &Array| skew.matmul(x), &b, scaled), &exact);
    let jacobi = |x: &Array| x / diagonal(&a);
    let scaled = linalg::IterativeOptions { preconditioner: Some(&jacobi), ..options() };
    near(&linalg::cg_with(|x: &Array| a.matmul(x), &b, scaled), &linalg::solve(&a, &b));
    // A right-hand side of zeros, and one that is an eigenvector.
    near(&linalg::gmres(|x: &Array| x * 2.0, &zeros_like(&b)), &zeros_like(&b));
    near(&linalg::gmres(|x: &Array| x * 2.0, &b), &(&b / 2.0));
    // Trees, and derivatives by what the function captures.
    let pair = (b.clone(), b.clone());
    let (x, y) = linalg::cg(|(x, y): &(Array, Array)| (x * 2.0, y * 4.0), &pair);
    near(&x, &(&b / 2.0));
    near(&y, &(&b / 4.0));
    let by_gmres = |a: &Array| linalg::gmres_with(|x: &Array| a.matmul(x), &b, options()).sum();
    let by_lu = |a: &Array| linalg::solve(a, &b).sum();
    near(&grad(by_gmres)(&skew).reshape([9]), &grad(by_lu)(&skew).reshape([9]));
    let by_cg = |b: &Array| linalg::cg_with(|x: &Array| a.matmul(x), b, options()).sum();
    near(&grad(by_cg)(&b), &linalg::solve(&a, &ones_like(&b)));
}

#[test]
fn functions_are_minimized() {
    let rosenbrock =
        |(x, y): &(Array, Array)| (1.0 - x).square() + (y - x.square()).square() * 100.0;
    let f64s = |x: f64| Array::from_slice(&[x], []).unwrap();
    let start = (f64s(-1.2), f64s(1.0));
    let minimum = optim::minimize(rosenbrock, &start);
    assert!(minimum.has_converged.item::<bool>().unwrap(), "{minimum:?}");
    assert!((minimum.x.0.item::<f64>().unwrap() - 1.0).abs() < 1e-5, "{}", minimum.x.0);
    assert!(minimum.n_steps.item::<i32>().unwrap() < 60, "{}", minimum.n_steps);
    // A quadratic function, without memory and inside `jit`.
    let bowl = |x: &Array| ((x - 3.0).square() * array(&[1.0, 4.0])).sum();
    let options = optim::MinimizeOptions { memory: 0, tolerance: 1e-3, ..Default::default() };
    let minimized = jit(move |x: &Array| optim::minimize_with(bowl, x, options).x);
    let x = minimized.call(array(&[0.0, 0.0])).unwrap();
    assert!(values(&x).iter().all(|x| (x - 3.0).abs() < 1e-3), "{x}");
    let cut = optim::MinimizeOptions { max_steps: 2, ..Default::default() };
    let unfinished = optim::minimize_with(rosenbrock, &start, cut);
    assert_eq!(unfinished.n_steps.item::<i32>().unwrap(), 2);
    assert!(!unfinished.has_converged.item::<bool>().unwrap());
    // Nothing decreases a constant, and a direction that ascends has no step.
    let flat = optim::minimize(|x: &Array| (x * 0.0).sum(), &array(&[1.0]));
    assert_eq!(flat.n_steps.item::<i32>().unwrap(), 0);
    let x = array(&[1.0]);
    let slope = scalar(-1f32);
    let options = optim::LineSearchOptions::default();
    let step =
        optim::backtracking_line_search(|x: &Array| x.square().sum(), &x, &x, &slope, options);
    assert_eq!(number(&step), 0.0);
}

/// Replaces the line by a placeholder and removes the column.
fn without_column(error: &str, line: u32) -> String {
    let lines = error.lines().map(|text| match text.split_once(&format!(".rs:{line}:")) {
        Some((start, _)) => format!("{start}.rs:LINE"),
        None => text.to_string(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn functions_are_arguments_of_transforms() {
    let x = array(&[0.5, -1.0]);
    close(&vmap(jacfwd(sin)).apply(&x), &[0.5f32.cos(), 1.0f32.cos()]);
    close(&vmap(grad(|x: Array| sin(x))).apply(&x), &[0.5f32.cos(), 1.0f32.cos()]);
}

#[test]
fn errors_are_readable_in_debug_form() {
    let error = jit(|x: Array| x.reshape([4])).call(array(&[1.0])).unwrap_err();
    let error = Error::from(error);
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(format!("{error:?}").lines().count() > 1);
}
