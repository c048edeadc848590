//! Every operation that a composite function binds carries the line of its caller.

use oxidax::prelude::*;

#[track_caller]
fn check(name: &str, f: fn(&Array) -> Vec<Array>) {
    let program = make_program(move |x: Array| f(&x), Aval::new(DType::F32, [4, 4]))
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    for eqn in program.eqns() {
        let file = eqn.location.map_or("nowhere", |at| at.file());
        assert!(
            file.ends_with("locations.rs"),
            "{name}: {:?} is attributed to {file}",
            eqn.primitive
        );
    }
}

#[test]
fn composites_name_the_callers_line() {
    check("moments", |x| vec![x.mean(), x.var_axes(-1, 1.0), x.std(), x.prod(), x.count_nonzero()]);
    check("extrema", |x| {
        vec![x.max(), x.min_axes(0), x.argmax(), x.argmin_axis(1), x.all(), x.any()]
    });
    check("products", |x| {
        let batched = x.reshape([1, 2, 2, 4]);
        let other = x.reshape([2, 1, 4, 2]);
        vec![
            matmul(x, x),
            matmul(&batched, &other),
            matmul(x, &x.reshape([2, 4, 2])),
            dot(x, x),
            vdot(x, x),
            inner(x, x),
            outer(x, x),
            tensordot(x, x, 1),
            einsum("ii,ij,jk,kl->il", [x, x, x, x]),
        ]
    });
    check("nonlinearities", |x| {
        vec![
            relu(x),
            relu6(x),
            leaky_relu(x, 0.1),
            elu(x, 1.0),
            selu(x),
            gelu(x),
            gelu_exact(x),
            sigmoid(x),
            log_sigmoid(x),
            silu(x),
            softplus(x),
            soft_sign(x),
            hard_tanh(x),
            glu(x, -1),
            softmax(x, -1),
            log_softmax(x, [0, 1]),
            logsumexp(x, -1),
            logsumexp_weighted(x, x, 0),
            standardize(x, -1, 1e-5),
        ]
    });
    check("numeric", |x| {
        vec![
            clip(x, -1, 1),
            isnan(x),
            signbit(x),
            sort_descending(x, 0),
            argsort_descending(x, -1),
            isinf(x),
            isfinite(x),
            nan_to_num(x),
            floor_divide(x, 2.0),
            remainder(x, 2.0),
            power(x, 3),
            power(x, x),
            power(arange(3), arange(3)),
            x.powf(0.5),
            x.square(),
        ]
    });
    check("arranging", |x| {
        let mut all = split(x, 2, 0);
        all.extend(split_at(x, &[1], 1));
        all.extend(meshgrid([&arange(2), &arange(3)], Indexing::Xy));
        all.extend([
            stack([x, x], 0),
            tile(x, &[2]),
            repeat(x, 2, 0),
            roll(x, 1, 0),
            x.flip(0),
            x.swapaxes(0, 1),
            diagonal(x, 0),
            oxidax::ops::trace(x, 0),
            tril(x, 0),
            triu(x, 0),
            tri(2, 2, 0, DType::F32),
            eye(3, DType::F32),
            linspace(0.0, 1.0, 4),
            one_hot(&arange(4), 4),
            diff(x, 0),
            linspace_open(0.0, 1.0, 3),
        ]);
        all
    });
    check("indexing", |x| {
        let picks = arange(3);
        vec![
            x.index(i![0, by(.., -1)]),
            x.index(i![&picks, None, &picks]),
            take(x, &picks, 0),
            take_along_axis(x, &arange(4).reshape([4, 1]), 1),
            x.at(i![1..3]).add(x.index(i![..2])),
            x.at(i![&picks, None]).set(1.0),
            x.at(i![by(.., -1), &picks]).max(0.0),
        ]
    });
    check("norms", |x| {
        use oxidax::linalg::{MatrixNorm, VectorNorm, matrix_norm, norm, vector_norm};
        vec![norm(x), vector_norm(x, VectorNorm::P(3.0), 0), matrix_norm(x, MatrixNorm::Inf)]
    });
}
