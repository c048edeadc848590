//! Functions of other dtypes, of matrices, of spectra and of random numbers.

use crate::cases::{Cases, case};
use anyhow::Result;
use oxidax::ops::fft;
use oxidax::prelude::*;

pub fn write(cases: &mut Cases) -> Result<()> {
    let x = random::normal(random::key(0), [4, 6]);
    let a = random::normal(random::key(3), [4, 4]);
    let b = random::normal(random::key(4), [4, 2]);
    let flags = gt(&x, 0.0);
    let key = random::key(7);

    for (name, dtype) in [("bf16", DType::BF16), ("f16", DType::F16)] {
        let narrow = x.astype(dtype);
        match name {
            "bf16" => case!(cases, vjp "bf16", |x: &Array| x.matmul(&x.t()) * 2.0, (narrow), 1e-2),
            _ => case!(cases, "f16", |x: &Array| exp(x) * 0.5 + x.sum(), (narrow), 1e-2),
        }
    }
    case!(
        cases,
        "bool",
        |f: &Array| {
            (bitwise_not(f), f.any_axes(0), f.all(), where_(f, 1.0, -1.0), f.astype(DType::I32))
        },
        (flags)
    );
    case!(
        cases,
        "complex",
        |x: &Array| {
            let z = complex(x, &(x * 0.5));
            (&z * conj(&z), exp(&z), real(&z), imag(&z), abs(&z))
        },
        (x),
        1e-5
    );
    let bytes = (&x * 20.0).astype(DType::I8);
    case!(
        cases,
        "int8",
        |x: &Array| {
            let y = x.t();
            (x + 1, x.astype(DType::I32).matmul(&y.astype(DType::I32)), rem(x, &full_like(x, 5)))
        },
        (bytes)
    );
    let nibbles = (&x * 3.0).astype(DType::I4);
    case!(cases, "int4", |x: &Array| (x.astype(DType::I8) * 2, x + x), (nibbles));
    let small = x.astype(DType::F8E4M3FN);
    case!(cases, "f8", |x: &Array| (x.astype(DType::F32) * 2.0, x.astype(DType::F8E5M2)), (small));
    case!(
        cases,
        "unsigned",
        |x: &Array| {
            let n = bitcast_convert_type(x, DType::U32);
            (shift_right(&n, &full_like(&n, 9)), &n + 7_u32, count_leading_zeros(&n))
        },
        (x)
    );

    let positive = a.matmul(&a.t()) + eye(4);
    case!(cases, vjp "cholesky", |a: &Array| cholesky(a), (positive), 1e-4);
    case!(cases, vjp "triangular_solve", |a: &Array, b: &Array| {
        linalg::solve_triangular(&(a + eye(4) * 3.0), b)
    }, (a, b), 1e-4);
    case!(
        cases,
        "qr",
        |a: &Array| {
            let (q, r) = qr(a);
            (q.matmul(&r), abs(&r))
        },
        (a),
        1e-4
    );
    case!(cases, "eigh", |a: &Array| eigh(a).0, (positive), 1e-4);
    case!(cases, "svd", |a: &Array| linalg::svdvals(a), (a), 1e-4);
    case!(cases, vjp "solve", |a: &Array, b: &Array| linalg::solve(a, b), (a, b), 1e-3);
    case!(cases, "determinant", |a: &Array| linalg::det(a), (a), 1e-4);
    case!(cases, vjp "matrix_product", |a: &Array, b: &Array| a.matmul(b), (a, b));
    case!(
        cases,
        "fft",
        |x: &Array| { (fft::fft(&complex(x, x)), fft::rfft(x), fft::irfft(&fft::rfft(x))) },
        (x),
        1e-5
    );

    case!(
        cases,
        "threefry",
        |key: &random::Key| {
            let [a, b] = key.clone().split();
            (random::uniform(a, [3, 2], 0.0..1.0), random::bits(b, ([4], DType::U32)))
        },
        (key)
    );
    case!(cases, "normal", |key: &random::Key| random::normal(key.clone(), [16]), (key), 1e-5);
    case!(
        cases,
        "choices",
        |key: &random::Key| {
            let [a, b] = key.clone().split();
            (random::randint(a, [5], 0..100), random::permutation(b, &arange(10)))
        },
        (key)
    );
    case!(cases, vjp "dropout", |x: &Array, key: &random::Key| {
        nn::Dropout::new(0.3).forward(x, Some(key.clone()))
    }, (x, key));
    Ok(())
}
