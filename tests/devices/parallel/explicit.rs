//! Shardings in the types of arrays, over explicit axes of a mesh.

use super::{close, counting, mesh, values};
use expect_test::expect;
use oxidax::control_flow::parse_program;
use oxidax::parallel::{
    AxisType, auto_axes, explicit_axes, get_mesh, reshard, set_mesh, with_mesh,
};
use oxidax::prelude::*;

/// Returns a mesh of explicit axes `data=4, model=2`.
fn explicit() -> Mesh {
    mesh([("data", 4), ("model", 2)]).explicit()
}

/// Returns the numbers of [`counting`], scaled to at most 1 and sharded.
fn sharded(shape: &[usize], spec: PartitionSpec) -> Array {
    let x = counting(shape) / shape.iter().product::<usize>() as f32;
    device_put(&x, explicit().sharding(spec).unwrap()).unwrap()
}

/// Returns a copy of `x` on one device.
fn whole(x: &Array) -> Array {
    Array::from_slice(&values(x), x.shape()).unwrap()
}

/// Checks type, placement and values of a result.
#[track_caller]
fn check(y: &Array, ty: &str, expected: &Array) {
    assert_eq!(y.aval().to_string(), ty);
    let sharding = y.sharding().unwrap();
    let typed = y.aval().sharding.clone().unwrap_or_else(|| explicit().replicated());
    assert_eq!(sharding, typed, "the array is stored as its type says");
    close(y, expected, 1e-5);
}

#[test]
fn operations_derive_the_sharding_of_their_results() {
    let (x, w) = (sharded(&[8, 4], p!["data", "model"]), sharded(&[4, 6], p![]));
    let (b, col) = (sharded(&[4], p!["model"]), sharded(&[8, 4], p!["data"]));
    let (x1, w1, b1, col1) = (whole(&x), whole(&w), whole(&b), whole(&col));
    type Case = (fn(&Array, &Array, &Array, &Array) -> Array, &'static str);
    let cases: &[Case] = &[
        (|x, _, _, _| sin(x) * 2.0, "f32[8@data,4@model]"),
        (|x, _, b, _| x + b, "f32[8@data,4@model]"),
        (|_, _, b, col| col + b, "f32[8@data,4@model]"),
        (|x, _, _, _| x.sum_axes(1), "f32[8@data]"),
        (|x, _, _, _| x.max_axes(0), "f32[4@model]"),
        (|x, _, _, _| x.sum(), "f32[]"),
        (|x, _, _, _| argmax(x, 1), "i32[8@data]"),
        (|x, _, _, _| x.t(), "f32[4@model,8@data]"),
        (|x, _, _, _| reshape(x, [8, 2, 2]), "f32[8@data,2@model,2]"),
        (|x, _, _, _| expand_dims(x, &[1]), "f32[8@data,1,4@model]"),
        (|_, w, _, col| col.matmul(w), "f32[8@data,6]"),
        (|x, w, _, _| x.matmul(w), "f32[8@data,6]"),
        (|x, _, _, _| broadcast_to(x, [3, 8, 4]), "f32[3,8@data,4@model]"),
        (|_, _, _, col| concatenate([col, col], 1), "f32[8@data,8]"),
        (|_, _, _, col| softmax(col, -1), "f32[8@data,4]"),
        (|_, _, _, col| cumsum(col, 1), "f32[8@data,4]"),
        (|x, _, _, col| where_(x.greater(col), x, col), "f32[8@data,4@model]"),
        (|x, _, _, _| zeros_like(x), "f32[8@data,4@model]"),
        (|_, w, _, _| w * 3.0, "f32[4,6]"),
    ];
    for (index, (f, ty)) in cases.iter().enumerate() {
        let expected = f(&x1, &w1, &b1, &col1);
        let expected = expected.astype(DType::F32);
        let eager = f(&x, &w, &b, &col);
        let compiled = jit(*f).call(&x, &w, &b, &col).unwrap();
        for y in [eager, compiled] {
            assert_eq!(y.aval().to_string(), *ty, "case {index}");
            check(&y.astype(DType::F32), &ty.replace("i32", "f32"), &expected);
        }
    }
}

#[test]
fn contradictions_and_ambiguities_are_errors() {
    let (x, y) = (sharded(&[8, 4], p!["data"]), sharded(&[8, 4], p!["model"]));
    let error = |f: &dyn Fn() -> Array| catch(f).unwrap_err().to_string();
    let at = |text: String| text.split("   --> ").next().unwrap().to_string();
    expect![[r#"
        error[sharding]: add: operands are sharded differently: operand 0 along axis 0 over `data`, operand 1 along axis 0 over `model`
          lhs: f32[8@data,4]
          rhs: f32[8@model,4]
    "#]]
    .assert_eq(&at(error(&|| &x + &y)));
    let k = sharded(&[4, 4], p![None, "data"]);
    expect![[r#"
        error[sharding]: dot_general: lhs axis 0 and rhs axis 0, which are contracted, are sharded over `data`, so the sharding of the result is ambiguous
          lhs: f32[8@data,4]
          rhs: f32[8@data,4]
          contract: lhs [0] with rhs [0]; batch: none
    "#]]
    .assert_eq(&at(error(&|| einsum("ki,kj->ij", [&x, &x]))));
    expect![[r#"
        error[sharding]: dot_general: the result would be sharded over `data` along two axes: p!["data", "data"]
          lhs: f32[8@data,4]
          rhs: f32[4,4@data]
    "#]]
    .assert_eq(&at(error(&|| x.matmul(&k))));
    expect![[r#"
        error[sharding]: concatenate: operand 0 is sharded along axis 0 over `data`, which must be whole on each device
          lhs: f32[8@data,4]
          rhs: f32[8@data,4]
    "#]]
    .assert_eq(&at(error(&|| concatenate([&x, &x], 0))));
    let one = error(&|| reshape(&x, [2, 16]));
    assert!(one.contains("explicit.rs:") && one.contains("help: `reshard`"), "{one}");
    let automatic = mesh([("data", 8)]);
    let wrong = error(&|| reshard(&x, automatic.sharding(p!["data"]).unwrap()));
    assert!(wrong.contains("Mesh(data=8) has no explicit axes"), "{wrong}");
    let uneven = error(&|| reshard(&ones([6]), explicit().sharding(p!["data"]).unwrap()));
    assert!(uneven.contains("axis 0 of [6] has size 6"), "{uneven}");
    let other = mesh([("data", 8)]).explicit().sharding(p!["data"]).unwrap();
    let moved = jit(move |x: Array| reshard(&x, &other)).call(&x).unwrap_err().to_string();
    assert!(moved.contains("not over Mesh(data=8 explicit)"), "{moved}");
}

#[test]
fn out_sharding_resolves_ambiguous_products() {
    let (x, y) = (sharded(&[8, 4], p!["data"]), sharded(&[8, 6], p!["data"]));
    let expected = whole(&x).t().matmul(&whole(&y));
    for (spec, ty) in
        [(p!["data"], "f32[4@data,6]"), (p![], "f32[4,6]"), (p![None, "model"], "f32[4,6@model]")]
    {
        let sharding = explicit().sharding(spec).unwrap();
        let options = MatmulOptions { out_sharding: Some(&sharding), ..Default::default() };
        check(&matmul_with(&x.t(), &y, options), ty, &expected);
        check(&einsum_with("ki,kj->ij", [&x, &y], options), ty, &expected);
        let flipped = einsum_with(
            "ki,kj->ji",
            [&x, &y],
            MatmulOptions {
                out_sharding: Some(&explicit().sharding(p![None, "data"]).unwrap()),
                ..Default::default()
            },
        );
        check(&flipped, "f32[6,4@data]", &expected.t());
    }
    // Batched and of three operands; the stated sharding is that of the last product.
    let a = sharded(&[2, 4, 8], p!["model", None, "data"]);
    let b = sharded(&[2, 8, 4], p!["model", "data"]);
    let sharding = explicit().sharding(p!["model", "data"]).unwrap();
    let options = MatmulOptions { out_sharding: Some(&sharding), ..Default::default() };
    let product = matmul_with(&a, &b, options);
    check(&product, "f32[2@model,4@data,4]", &whole(&a).matmul(&whole(&b)));
    let one = sharded(&[4, 8], p![None, "data"]);
    let product = matmul_with(&one, &b, options);
    check(&product, "f32[2@model,4@data,4]", &whole(&one).matmul(&whole(&b)));
}

/// The loss of a perceptron of two layers.
fn loss(w1: &Array, w2: &Array, x: &Array) -> Array {
    let y = tanh(x.matmul(w1)).matmul(w2);
    (&y * &y).mean()
}

#[test]
fn gradients_are_sharded_as_the_parameters() {
    let (x, w1) = (sharded(&[8, 4], p!["data"]), sharded(&[4, 6], p![None, "model"]));
    let w2 = sharded(&[6, 4], p!["model"]);
    // Tensor parallelism: the second product sums over `model`.
    let row = explicit().sharding(p!["data"]).unwrap();
    let tensor = move |w1: &Array, w2: &Array, x: &Array| {
        let hidden = tanh(x.matmul(w1));
        let options = MatmulOptions { out_sharding: Some(&row), ..Default::default() };
        let y = matmul_with(&hidden, w2, options);
        (&y * &y).mean()
    };
    let step = jit(move |w1: Array, w2: Array, x: Array| {
        let gradient = grad(|(w1, w2): &(Array, Array)| tensor(w1, w2, &x))(&(w1, w2));
        (gradient, tensor(&zeros([4, 6]), &zeros([6, 4]), &x))
    });
    let ((d1, d2), _) = step.call(&w1, &w2, &x).unwrap();
    let (u1, u2, v) = (whole(&w1), whole(&w2), whole(&x));
    let (e1, e2) = grad(|(w1, w2): &(Array, Array)| loss(w1, w2, &v))(&(u1, u2));
    check(&d1, "f32[4,6@model]", &e1);
    check(&d2, "f32[6@model,4]", &e2);
    // Data parallelism: replicated weights have replicated gradients.
    let (r1, r2) = (sharded(&[4, 6], p![]), sharded(&[6, 4], p![]));
    let gradient = grad(|(w1, w2): &(Array, Array)| loss(w1, w2, &x));
    let (d1, d2) = gradient(&(r1.clone(), r2.clone()));
    let (e1, e2) = grad(|(w1, w2): &(Array, Array)| loss(w1, w2, &v))(&(whole(&r1), whole(&r2)));
    check(&d1, "f32[4,6]", &e1);
    check(&d2, "f32[6,4]", &e2);
    // A bias is broadcast; its gradient is a sum over the batch.
    let b = sharded(&[4], p![]);
    let db = grad(|b: &Array| (sin(&x + b) * 2.0).sum())(&b);
    check(&db, "f32[4]", &grad(|b: &Array| (sin(&v + b) * 2.0).sum())(&whole(&b)));
    // Forward mode, and second derivatives.
    let (_, dy) = jvp(|x: &Array| sin(x), &x, ones_like(&x));
    check(&dy, "f32[8@data,4]", &cos(&v));
    let second = grad(|x: &Array| grad(|x: &Array| (x * x * x).sum())(x).sum())(&x);
    check(&second, "f32[8@data,4]", &(&v * 6.0));
}

/// A transformer block with embeddings and a head.
#[derive(Tree, Clone)]
struct Transformer {
    tokens: nn::Embedding,
    norm: nn::LayerNorm,
    attention: nn::MultiHeadAttention,
    mlp: nn::Mlp,
    head: nn::Linear,
}

impl Transformer {
    fn new(key: random::Key) -> Transformer {
        let [a, b, c, d] = key.split();
        let attention = nn::MultiHeadAttention::new(b, 8, 2);
        Transformer {
            tokens: nn::Embedding::new(a, 16, 8),
            norm: nn::LayerNorm::new(8),
            attention: nn::MultiHeadAttention { is_causal: true, ..attention },
            mlp: nn::Mlp::new(c, &[8, 16, 8]),
            head: nn::Linear::new(d, 8, 16),
        }
    }

    fn loss(&self, ids: &Array, labels: &Array) -> Array {
        let x = self.tokens.forward(ids);
        let x = &x + self.attention.forward(&self.norm.forward(&x));
        let x = &x + self.mlp.forward(&x);
        nn::softmax_cross_entropy_with_integer_labels(&self.head.forward(&x), labels).mean()
    }
}

/// Images through two convolutions with normalization and pooling.
fn picture_loss(kernels: &(Array, Array), images: &Array) -> Array {
    let x = relu(conv(images, &kernels.0, &[1, 1], Padding::Same));
    let x = (&x - x.mean_axes(0)) / (x.var_axes(0) + 1.0);
    let x = conv(&x, &kernels.1, &[1, 1], Padding::Same);
    sin(&x).mean()
}

#[test]
fn models_train_data_parallel() {
    let rows = explicit().sharding(p!["data"]).unwrap();
    let ids: Vec<i32> = (0..32).map(|i| i * 7 % 16).collect();
    let ids = Array::from_slice(&ids, [8, 4]).unwrap();
    let labels = (&ids + 3) % 16;
    let model = Transformer::new(random::key(0));
    let step = jit(|model: Transformer, ids: Array, labels: Array| {
        value_and_grad(|model: &Transformer| model.loss(&ids, &labels))(&model)
    });
    let (loss, gradient) = step.call(&model, &ids, &labels).unwrap();
    let (batch, targets) = device_put(&(ids, labels), &rows).unwrap();
    let replicated = device_put(&model, explicit().replicated()).unwrap();
    let (typed_loss, typed) = step.call(&replicated, &batch, &targets).unwrap();
    check(&typed_loss, "f32[]", &loss);
    // Devices exchange sums of gradients, and no batch.
    let compiled = step.lower(&replicated, &batch, &targets).unwrap().compile().unwrap();
    let exchanges = compiled.report().collectives().unwrap().to_string();
    assert!(exchanges.contains("all-reduce") && !exchanges.contains("all-gather"), "{exchanges}");
    let pairs = tree::leaves(&typed).into_iter().zip(tree::leaves(&gradient));
    for (path, (found, expected)) in tree::paths(&gradient).iter().zip(pairs) {
        assert_eq!(found.aval(), expected.aval(), "{path}");
        close(&found, &expected, 1e-4);
    }
    let kernels = (sin(counting(&[4, 3, 3, 3])) * 0.1, sin(counting(&[2, 4, 3, 3])) * 0.1);
    let images = sin(counting(&[8, 3, 6, 6]));
    let expected = grad(|k: &(Array, Array)| picture_loss(k, &images))(&kernels);
    let typed = device_put(&images, explicit().sharding(p!["data"]).unwrap()).unwrap();
    let found = grad(|k: &(Array, Array)| picture_loss(k, &typed))(&kernels);
    check(&found.0, "f32[4,3,3,3]", &expected.0);
    check(&found.1, "f32[2,4,3,3]", &expected.1);
}

#[test]
fn reshard_moves_values_and_gradients_move_back() {
    let x = sharded(&[8, 4], p!["data"]);
    let columns = explicit().sharding(p![None, "data"]).unwrap();
    check(&reshard(&x, &columns), "f32[8,4@data]", &whole(&x));
    let f = move |x: &Array| {
        let y = reshard(x, &columns);
        assert_eq!(y.aval().to_string(), "f32[8,4@data]");
        (sin(&y) * cumsum(&y, 0)).sum()
    };
    let expected = |x: &Array| (sin(x) * cumsum(x, 0)).sum();
    let gradient = jit(move |x: Array| grad(&f)(&x)).call(&x).unwrap();
    check(&gradient, "f32[8@data,4]", &grad(expected)(&whole(&x)));
    let unconstrained = explicit().sharding(p![UNCONSTRAINED, "model"]).unwrap();
    let kept = jit(move |x: Array| reshard(&x, &unconstrained)).call(&x).unwrap();
    check(&kept, "f32[8@data,4@model]", &whole(&x));
    let unconstrained = explicit().sharding(p![UNCONSTRAINED, "model"]).unwrap();
    check(&reshard(&x, unconstrained), "f32[8@data,4@model]", &whole(&x));
    let constraint = explicit().sharding(p!["model"]).unwrap();
    let kept = jit(move |x: Array| with_sharding_constraint(&x, &constraint)).call(&x).unwrap();
    check(&kept, "f32[8@model,4]", &whole(&x));
}

#[test]
fn control_flow_keeps_shardings() {
    let (x, w) = (sharded(&[8, 4], p!["data"]), sharded(&[4, 4], p![]));
    let rows = |x: &Array, w: &Array| {
        let body = |carry: Array, _: Array| {
            let next = tanh(carry.matmul(w));
            (next.clone(), next.sum_axes(1))
        };
        scan(body, x.clone(), arange(3))
    };
    let (last, sums) = jit(move |x: Array, w: Array| rows(&x, &w)).call(&x, &w).unwrap();
    let (one, ones_) = rows(&whole(&x), &whole(&w));
    check(&last, "f32[8@data,4]", &one);
    check(&sums, "f32[3,8@data]", &ones_);
    let through = move |x: &Array, w: &Array| rows(x, w).0.sum();
    let dw = grad(|w: &Array| through(&x, w))(&w);
    check(&dw, "f32[4,4]", &grad(|w: &Array| through(&whole(&x), w))(&whole(&w)));
    let dx = grad(|x: &Array| through(x, &w))(&x);
    check(&dx, "f32[8@data,4]", &grad(|x: &Array| through(x, &whole(&w)))(&whole(&x)));
    let either = jit(|x: Array, positive: Array| {
        cond(positive, |x: &Array| sin(x), |x: &Array| x * 2.0, &x)
    });
    check(&either.call(&x, array![true].index(i![0])).unwrap(), "f32[8@data,4]", &sin(whole(&x)));
    let doubled = while_loop(|x: &Array| x.max().less(50.0), |x: Array| x * 2.0, x.clone());
    assert_eq!(doubled.aval().to_string(), "f32[8@data,4]");
    let layer = remat(|x: &Array| tanh(sin(x)));
    let gradient = grad(|x: &Array| layer(x).sum())(&x);
    check(&gradient, "f32[8@data,4]", &grad(|x: &Array| tanh(sin(x)).sum())(&whole(&x)));
    // A carry that changes its sharding is an error with the line of the loop.
    let columns = explicit().sharding(p![None, "data"]).unwrap();
    let turning = catch(|| fori_loop(0, 2, |_, x: Array| reshard(&x, &columns), x.clone()));
    let error = turning.unwrap_err().to_string();
    assert!(error.contains("takes f32[8@data,4] here and gives f32[8,4@data]"), "{error}");
    assert!(error.contains("`reshard` what it gives"), "{error}");
    let branches = catch(|| cond(true, |x: &Array| x * 2.0, |x: &Array| reshard(x, &columns), &x));
    let error = branches.unwrap_err().to_string();
    assert!(error.contains("f32[8@data,4]") && error.contains("f32[8,4@data]"), "{error}");
}

#[test]
fn vmap_keeps_the_sharding_of_the_batch() {
    let (x, w) = (sharded(&[8, 4], p!["data", "model"]), sharded(&[4, 6], p![]));
    let one = |x: Array, w: Array| {
        assert_eq!(x.aval().to_string(), "f32[4@model]");
        let y = tanh(x.matmul(&w));
        fori_loop(0, 2, |_, y: Array| sin(y), y)
    };
    let batch = move |x: Array, w: Array| vmap(one).in_axes((0, None)).apply(&x, &w);
    let expected = sin(sin(tanh(whole(&x).matmul(&whole(&w)))));
    check(&jit(batch).call(&x, &w).unwrap(), "f32[8@data,6]", &expected);
    // A change of the sharding inside leaves the batch as it is.
    let whole_rows = explicit().sharding(p![]).unwrap();
    let moved = vmap(|x: Array| reshard(&x, &whole_rows)).apply(&x);
    check(&moved, "f32[8@data,4]", &whole(&x));
    let out = explicit().sharding(p![]).unwrap();
    let gram = |x: Array| {
        let options = MatmulOptions { out_sharding: Some(&out), ..Default::default() };
        matmul_with(&x, &x, options)
    };
    check(&vmap(gram).apply(&x), "f32[8@data]", &(whole(&x) * whole(&x)).sum_axes(1));
}

#[test]
fn auto_axes_leave_a_function_to_the_compiler() {
    let x = sharded(&[8, 4], p!["data", "model"]);
    let rows = explicit().sharding(p!["data"]).unwrap();
    let gram = |x: &Array| {
        assert_eq!(x.aval().to_string(), "f32[8,4]");
        x.matmul(&x.t())
    };
    let expected = gram(&whole(&x));
    let compiled = auto_axes(gram, rows.clone());
    check(&compiled(&x), "f32[8@data,8]", &expected);
    let in_jit = jit(move |x: Array| auto_axes(gram, rows.clone())(&x) * 2.0).call(&x).unwrap();
    check(&in_jit, "f32[8@data,8]", &(&expected * 2.0));
    let rows = explicit().sharding(p!["data"]).unwrap();
    let replicated = auto_axes(gram, explicit().replicated())(&x);
    check(&replicated, "f32[8,8]", &expected);
    let gradient = grad(|x: &Array| sin(auto_axes(gram, rows.clone())(x)).sum())(&x);
    let one = grad(|x: &Array| sin(gram(x)).sum())(&whole(&x));
    check(&gradient, "f32[8@data,4@model]", &one);
    // The reverse: a function with shardings in types, over an automatic mesh.
    let automatic = mesh([("data", 4), ("model", 2)]);
    let y = device_put(&whole(&x), automatic.sharding(p!["data"]).unwrap()).unwrap();
    let typed = explicit_axes(
        |x: &Array| {
            assert_eq!(x.aval().to_string(), "f32[8@data,4]");
            sin(x)
        },
        explicit().sharding(p!["data"]).unwrap(),
    );
    let result = typed(&y);
    assert_eq!(result.aval().to_string(), "f32[8,4]");
    close(&result, &sin(whole(&x)), 1e-5);
}

#[test]
fn shard_map_takes_and_gives_typed_arrays() {
    let x = sharded(&[8, 4], p!["data"]);
    let total = shard_map(
        |x: Array| {
            assert_eq!(x.aval().to_string(), "f32[2,4]{data}");
            (sin(&x), psum(&x.sum(), "data"))
        },
        &explicit(),
    );
    let total = total.in_specs(p!["data"]).out_specs((p!["data"], p![]));
    let mapped = jit(move |x: Array| {
        let (y, sum) = total.apply(&x);
        (&y + &x, sum)
    });
    let (y, sum) = mapped.call(&x).unwrap();
    check(&y, "f32[8@data,4]", &(sin(whole(&x)) + whole(&x)));
    check(&sum, "f32[]", &whole(&x).sum());
}

#[test]
fn automatic_axes_beside_explicit_ones_are_not_in_types() {
    let types = [AxisType::Explicit, AxisType::Auto];
    let mixed = mesh([("data", 4), ("model", 2)]).with_axis_types(types).unwrap();
    let sharding = mixed.sharding(p!["data", "model"]).unwrap();
    let x = device_put(&counting(&[8, 4]), &sharding).unwrap();
    assert_eq!(x.aval().to_string(), "f32[8@data,4]");
    let y = jit(|x: Array| (sin(&x), x.sum_axes(0))).call(&x).unwrap();
    assert_eq!(y.0.aval().to_string(), "f32[8@data,4]");
    assert_eq!(y.0.sharding().unwrap().spec().along(0), ["data"]);
    close(&y.0, &sin(counting(&[8, 4])), 1e-5);
    close(&y.1, &counting(&[8, 4]).sum_axes(0), 1e-5);
    let wrong = catch(|| reshard(&x, mixed.sharding(p![None, "model"]).unwrap()));
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("names `model`, which is not explicit"), "{error}");
}

#[test]
fn arguments_get_types_from_in_shardings() {
    let rows = explicit().sharding(p!["data"]).unwrap();
    let f = jit(|x: Array| {
        assert_eq!(x.aval().to_string(), "f32[8@data,4]");
        x * 2.0
    });
    let f = f.in_shardings(&rows);
    check(&f.call(counting(&[8, 4])).unwrap(), "f32[8@data,4]", &(counting(&[8, 4]) * 2.0));
    let text = f.lower(Aval::new(DType::F32, [8, 4])).unwrap().as_text("tpu").unwrap();
    assert!(text.contains("sdy.sharding_constraint"), "{text}");
    // A type alone says where an argument is expected.
    let typed = Aval::new(DType::F32, [8, 4]).with_sharding(&rows);
    let g = jit(|x: Array| sin(&x));
    let compiled = g.lower(Array::of_type(typed)).unwrap().compile().unwrap();
    let y = compiled.call(sharded(&[8, 4], p!["data"])).unwrap();
    assert_eq!(y.aval().to_string(), "f32[8@data,4]");
    // Nested calls, and results that are requested elsewhere.
    let inner = jit(|x: Array| sin(&x)).out_shardings(explicit().sharding(p!["model"]).unwrap());
    let outer = jit(move |x: Array| inner.apply(&x)).call(sharded(&[8, 4], p!["data"])).unwrap();
    assert_eq!(outer.aval().to_string(), "f32[8@model,4]");
}

#[test]
fn programs_with_shardings_in_types_print_and_parse() {
    let typed = |shape: [usize; 2], spec| {
        let sharding = explicit().sharding(spec).unwrap();
        Array::of_type(Aval::new(DType::F32, shape).with_sharding(&sharding))
    };
    let columns = explicit().sharding(p![None, ["data", "model"]]).unwrap();
    let f = move |x: Array, w: Array| {
        let y = fori_loop(0, 2, |_, y: Array| sin(y), x.matmul(&w));
        reshard(&y, &columns)
    };
    let arguments = (typed([8, 4], p!["data"]), typed([4, 8], p![None, "model"]));
    let program = make_program(f, arguments).unwrap();
    let text = program.to_string();
    assert!(text.contains("f32[8@data,8@model]") && text.contains("f32[8,8@(data,model)]"));
    let parsed = parse_program(&text).unwrap();
    assert_eq!(parsed.to_string(), text);
    let start = text.find(" mesh=").unwrap();
    let end = text.find(" ;").unwrap();
    let without = format!("{}{}", &text[..start], &text[end..]);
    let error = parse_program(&without).unwrap_err().to_string();
    assert!(error.contains("the text has no `mesh=`"), "{error}");
}

#[test]
fn specs_refer_to_the_current_mesh() {
    let error = device_put(&counting(&[8]), p!["data"]).unwrap_err().to_string();
    assert!(error.contains("refers to the current mesh, and none is set"), "{error}");
    let f = jit(|x: Array| {
        let y = reshard(&x, p!["i"]);
        &y + &y
    });
    let (rows, both) = (mesh([("i", 8)]).explicit(), mesh([("j", 4), ("i", 2)]).explicit());
    let x = counting(&[8]);
    let y = with_mesh(&rows, || f.call(&x)).unwrap();
    assert_eq!(y.sharding().unwrap(), rows.sharding(p!["i"]).unwrap());
    let y = with_mesh(&both, || f.call(&x)).unwrap();
    assert_eq!(y.sharding().unwrap(), both.sharding(p!["i"]).unwrap());
    assert_eq!(f.stats().compiles, 2);
    with_mesh(&rows, || {
        assert_eq!(get_mesh(), Some(rows.clone()));
        let y = jit(|x: Array| x * 2.0).in_shardings(p!["i"]).call(&x).unwrap();
        assert_eq!(y.aval().to_string(), "f32[8@i]");
    });
    assert_eq!(get_mesh(), None);
    let _: fn(&Mesh) -> Option<Mesh> = |mesh| set_mesh(mesh);
}
