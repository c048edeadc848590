//! Every operation of a composite function has the location of its caller.

use oxidax::prelude::*;

#[track_caller]
fn check(name: &str, f: fn(&Array) -> Vec<Array>) {
    let program = make_program(move |x: Array| f(&x), Aval::new(DType::F32, [4, 4]))
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    for eqn in program.eqns() {
        let file = eqn.loc.get().map_or("nowhere", |at| at.file());
        assert!(
            file.ends_with("locations.rs"),
            "{name}: {:?} is attributed to {file}",
            eqn.primitive
        );
    }
}

#[test]
fn equations_have_the_location_of_the_caller() {
    check("moments", |x| {
        vec![x.mean(), x.var_axes(axes(-1).ddof(1)), x.std(), x.prod(), x.count_nonzero()]
    });
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
            gelu_with(x, GeluOptions { approximate: false }),
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
            logsumexp_with(x, 0, LogsumexpOptions { b: Some(x), ..Default::default() }),
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
        all.extend(split(x, [1], 1));
        all.extend(meshgrid([&arange(2), &arange(3)]));
        all.extend([
            stack([x, x], 0),
            tile(x, &[2]),
            repeat(x, 2, 0),
            roll(x, 1, 0),
            x.flip(0),
            x.swapaxes(0, 1),
            diagonal(x),
            oxidax::ops::trace(x),
            tril(x, 0),
            triu(x, 0),
            tri(2, 0),
            eye(3),
            linspace(0.0, 1.0, 4),
            one_hot(arange(4), 4),
            diff(x, 0),
            linspace_with(0.0, 1.0, 3, LinspaceOptions { endpoint: false, ..Default::default() }),
        ]);
        all
    });
    check("indexing", |x| {
        let picks = arange(3);
        vec![
            x.index(i![0, strided(.., -1)]),
            x.index(i![&picks, None, &picks]),
            take(x, &picks, 0),
            take_along_axis(x, &arange(4).reshape([4, 1]), 1),
            x.at(i![1..3]).add(x.index(i![..2])),
            x.at(i![&picks, None]).set(1.0),
            x.at(i![strided(.., -1), &picks]).max(0.0),
        ]
    });
    check("elementary", |x| {
        let (mantissa, exponent) = frexp(x);
        let (quotient, left) = divmod(x, 2.0);
        vec![
            log2(x),
            logaddexp2(x, x),
            hypot(x, 1.0),
            sinc(x),
            unwrap_with(x, -1, UnwrapOptions { period: 3.0, discont: None }),
            round_with(x, RoundOptions { decimals: 2 }),
            ldexp(&mantissa, &exponent),
            quotient,
            left,
            spacing(x),
            fmax(x, 0.0),
            heaviside(x, 0.5),
            allclose(x, x),
            iscomplex(x),
            packbits(&gt(x, 0), -1, BitOrder::Big),
            unpackbits(&x.astype(DType::U8), 0, BitOrder::Little),
            log1mexp(x),
            mish(x),
        ]
    });
    check("joining", |x| {
        let mut all = array_split(x, 3, 0);
        all.extend(broadcast_arrays([x, &x.index(i![0])]));
        all.extend([
            block([[x, x], [x, x]]),
            dstack([x, x]),
            hstack((x, x, x)),
            array![x, x],
            stack(x.rows().map(|row| row * 2.0), 0),
            x.at(i![x.greater(0.0)]).div(2.0),
            x.at(i![x.greater(0.0)]).set(2.0),
            segment_max(x, &arange(4), 2),
            rot90(x, 1, [0, 1]),
            resize(x, [3, 7]),
            delete(x, [1], 0),
            insert(x, [2], &x.index(i![0]), 0),
            diag(&x.index(i![0]), -1),
            fill_diagonal(x, 1.0),
            vander(&x.index(i![0]), 3),
            tril_indices(3, 3, 0).0,
            indices([2, 3]),
            unravel_index(&arange(4), &[2, 2]).swap_remove(0),
            geomspace(1.0, 8.0, 4),
            kron(x, x),
            cross(&x.index(i![.., ..3]), &x.index(i![.., ..3]), -1),
            polymul(&x.index(i![0]), &x.index(i![1])),
            polydiv(&x.index(i![0]), &x.index(i![1, ..2])).0,
            kaiser(5, 2.0),
        ]);
        all
    });
    check("choosing", |x| {
        let found = unique_all(x, 5, 0);
        vec![
            argwhere(x, 3, 0),
            extract(&gt(x, 0), x, 3, 0.0),
            select_first([&gt(x, 0)], [x], 0.0),
            choose(&arange(4), [x, x], IndexMode::Wrap),
            place(x, &gt(x, 0), 1.0),
            put(x, &arange(3), 1.0, IndexMode::Clip),
            put_along_axis(x, &arange(4).reshape([4, 1]), 1.0, 1),
            found.counts,
            found.inverse,
            setxor1d(x, &arange(3), 4, 0),
            isin(x, &arange(3)),
        ]
    });
    check("statistics", |x| {
        let row = sort(&x.index(i![0]), 0);
        vec![
            median(x, -1),
            nanquantile(x, 0.3, 0),
            average(x, x, 0),
            corrcoef(x),
            digitize(x, &row),
            bincount(&arange(4), 4),
            histogram_with(x, 4, HistogramOptions { density: true, ..Default::default() }).0,
            histogram2d(&row, &row, 2, Bins::Between(2, 0.0, 1.0)).0,
            nanvar_with(x, 0, NanvarOptions { ddof: 1.0 }),
            nanargmin(x, 0),
            lexsort([&row, &row], 0),
            interp_with(x, &row, &row, InterpOptions { period: Some(2.0), ..Default::default() }),
            gradient_with(x, 0, GradientOptions { spacing: row.like() }),
            trapezoid_with(x, 0, TrapezoidOptions { x: Some(&row), ..Default::default() }),
            stats::rankdata(x, stats::RankMethod::Average, 0),
            stats::mode(x, 0).0,
            stats::TruncatedNormal::new(-1.0, 1.0).logcdf(x),
            special::ndtri(x),
            special::rel_entr(x, x),
        ]
    });
    check("attention", |x| {
        let heads = x.reshape([1, 4, 2, 2]);
        let options = AttentionOptions {
            is_causal: true,
            query_lengths: Some(arange(1)),
            local_window: Some((1, 0)),
            ..AttentionOptions::default()
        };
        vec![dot_product_attention_with(&heads, &heads, &heads, &options)]
    });
    check("loops over axes", |x| {
        let sums = vectorize("(n)->()", |xs| vec![xs[0].sum()]);
        vec![
            apply_along_axis(|row: &Array| row * 2, x, 0),
            apply_over_axes(|x: &Array, axis| x.sum_axes(axis), x, [0]),
            sums(&[x]).swap_remove(0),
        ]
    });
    check("norms", |x| {
        use oxidax::linalg::{MatrixNorm, VectorNorm, matrix_norm, norm, vector_norm};
        vec![norm(x), vector_norm(x, VectorNorm::P(3.0), 0), matrix_norm(x, MatrixNorm::Inf)]
    });
}
