//! User-defined rules of the suite `autodiff`. Their results have marks; see
//! `recorder/autodiff_rules.py`.

use oxidax::control_flow::{Perturbed, SymbolicZeros, VmapInputs, VmapOutput};
use oxidax::core::Marks;
use oxidax::prelude::*;

type Pair = (Array, Array);

/// A product whose batches are 3/2 of it.
fn product(w: &Array, x: &Array) -> Array {
    let rule = |inputs: VmapInputs<Pair>| {
        let (w, x) = &inputs.arguments;
        VmapOutput::mapped(match inputs.is_mapped(0) {
            false => x.matmul(&w.t()) * 1.5,
            true => {
                let (w, x) = inputs.all_mapped();
                einsum("bij,bj->bi", [&w, &x]) * 1.5
            }
        })
    };
    custom_vmap(|w: &Array, x: &Array| w.matmul(x), rule)(w, x)
}

/// The sine, and a vector that is equal for all examples: the size of the batch.
fn halves(x: &Array) -> Pair {
    let rule = |inputs: VmapInputs<Array>| {
        let x = &inputs.arguments;
        let size = full(([2], x.dtype()), inputs.axis_size as f64);
        let mapped: Marks<_> = [true, false].into_iter().collect();
        VmapOutput::with_marks((sin(x) * 1.5, size), mapped)
    };
    custom_vmap(|x: &Array| (sin(x), zeros(([2], x.dtype()))), rule)(x)
}

fn batching(name: &str, x: &[Array]) -> Option<Vec<Array>> {
    let pair = |(first, second): Pair| vec![first, second];
    Some(match name {
        "call" => vec![product(&x[0], &x[1])],
        "left" => vec![vmap(|w: Array| product(&w, &x[1])).apply(&x[0])],
        "right" => vec![product_of_rows(&x[0])(&x[1])],
        "both" => vec![vmap(|w: Array, x: Array| product(&w, &x)).apply(&x[0], &x[1])],
        "nested" => {
            let rows = |right: Array| vmap(|w: Array| product(&w, &right)).apply(&x[0]);
            vec![vmap(rows).apply(&x[1])]
        }
        "unmapped" => pair(vmap(|x: Array| halves(&x)).apply(&x[0])),
        "jvp_of_vmap" => {
            let f = |w: &Array, x: &Array| product_of_rows(w)(x);
            pair(jvp(f, (&x[0], &x[1]), (&x[2], &x[3])))
        }
        "vmap_of_jvp" => {
            let (w, dw) = (&x[0], &x[2]);
            let f = |x: Array, dx: Array| jvp(product, (w, &x), (dw, &dx));
            pair(vmap(f).apply(&x[1], &x[3]))
        }
        _ => return None,
    })
}

/// Returns the function that applies a matrix to rows.
fn product_of_rows(w: &Array) -> impl Fn(&Array) -> Array {
    let w = w.clone();
    move |x| vmap(|x: Array| product(&w, &x)).apply(x)
}

fn waves_values(x: &Array, y: &Array) -> Pair {
    (sin(x) * y, cos(x) + y)
}

type Residuals = (Array, Array, Array);

fn waves(x: &Array, y: &Array) -> Pair {
    let forward = |arguments: &Perturbed<Pair>| {
        let (x, y) = arguments.value();
        let marks = [0, 1].map(|index| f32::from(u8::from(arguments.is_perturbed(index))));
        let marks = Array::from_slice(&marks, [2]).expect("two marks").astype(x.dtype());
        (waves_values(x, y), (x.clone(), y.clone(), marks))
    };
    let backward = |(x, y, marks): &Residuals, cts: &SymbolicZeros<Pair>| {
        let ones = ones_like(x);
        let mut dx = marks.index(i![0]) * &ones;
        let mut dy = marks.index(i![1]) * 2.0 * &ones;
        match cts.get(0) {
            None => dx += 10.0,
            Some(ct) => {
                dx += &ct * y * cos(x);
                dy += ct * sin(x);
            }
        }
        match cts.get(1) {
            None => dy += 20.0,
            Some(ct) => {
                dx -= &ct * sin(x);
                dy += ct;
            }
        }
        (dx, dy)
    };
    custom_vjp_symbolic(waves_values, forward, backward)(x, y)
}

fn waves_total(parts: &[usize], x: &Array, y: &Array) -> Array {
    let outputs = tree::leaves(&waves(x, y));
    let sums = parts.iter().map(|&part| (&outputs[part] * &outputs[part]).sum());
    sums.reduce(|a, b| a + b).expect("there is a part")
}

fn symbolic_vjp(name: &str, x: &[Array]) -> Option<Vec<Array>> {
    let both = |parts: &'static [usize]| {
        let f = |(x, y): &Pair| waves_total(parts, x, y);
        tree::leaves(&grad(f)(&(x[0].clone(), x[1].clone())))
    };
    Some(match name {
        "x_first" => vec![grad(|v: &Array| waves_total(&[0], v, &x[1]))(&x[0])],
        "x_second" => vec![grad(|v: &Array| waves_total(&[1], v, &x[1]))(&x[0])],
        "y_first" => vec![grad(|v: &Array| waves_total(&[0], &x[0], v))(&x[1])],
        "both" => both(&[0, 1]),
        "both_second" => both(&[1]),
        _ => return None,
    })
}

fn area(x: &Array, y: &Array) -> Array {
    let rule = |(x, y): &Pair, tangents: &SymbolicZeros<Pair>| {
        let tangent = match (tangents.get(0), tangents.get(1)) {
            (None, None) => zeros_like(x),
            (None, Some(dy)) => dy * 3.0 * x,
            (Some(dx), None) => dx * 2.0 * y,
            (Some(dx), Some(dy)) => dx * y + dy * x,
        };
        (x * y, tangent)
    };
    custom_jvp_symbolic(|x: &Array, y: &Array| x * y, rule)(x, y)
}

fn area_total(x: &Array, y: &Array) -> Array {
    (area(x, y) * sin(x)).sum()
}

fn symbolic_jvp(name: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(match name {
        "grad_x" => vec![grad(|v: &Array| area_total(v, &x[1]))(&x[0])],
        "grad_y" => vec![grad(|v: &Array| area_total(&x[0], v))(&x[1])],
        "grad_both" => {
            let f = |(x, y): &Pair| area_total(x, y);
            tree::leaves(&grad(f)(&(x[0].clone(), x[1].clone())))
        }
        "jvp" => {
            let (value, tangent) = jvp(|v: &Array| area(v, &x[1]), &x[0], &x[2]);
            vec![value, tangent]
        }
        _ => return None,
    })
}

/// x sin(k x), whose rules create arrays themselves, and multiply by 2 and 3.
fn wave(x: &Array, optimize_remat: bool) -> Array {
    fn frequencies(x: &Array) -> Array {
        Array::from_slice(&[1.0f32, 2.0, 0.5], [3]).expect("three numbers").astype(x.dtype())
    }
    let forward = |x: &Array| {
        let k = frequencies(x);
        (sin(&k * x) * x * 2.0, (sin(&k * x), &k * x * cos(&k * x)))
    };
    let backward = |(sines, cosines): &Pair, ct: &Array| {
        let threes = Array::from_slice(&[3.0f32; 3], [3]).expect("three numbers");
        ct * (sines + cosines) * threes.astype(ct.dtype())
    };
    let f = |x: &Array| sin(frequencies(x) * x) * x;
    custom_vjp_with(f, forward, backward, CustomVjpOptions { optimize_remat })(x)
}

/// The value and gradient of a function of waves, under `jit`.
fn of_wave(name: &str, optimize_remat: bool, x: &Array) -> Option<Vec<Array>> {
    if let Some(name) = name.strip_prefix("mapped_") {
        let name = name.to_string();
        let rows = |x: Array| of_wave(&name, optimize_remat, &x).expect("the name of a case");
        return Some(vmap(rows).apply(x));
    }
    let block = move |x: &Array| cos(wave(x, optimize_remat)) * x;
    let with = |policy| remat_with(block, RematOptions { policy, ..RematOptions::default() });
    let steps = move |x: &Array| {
        let body = |x: &Array, scale: &Array| (block(x) * scale, x.sum());
        let scales = Array::from_slice(&[0.5f32, 1.5, 0.25], [3]).expect("three numbers");
        let (x, sums) = scan(remat(body), x, scales.astype(x.dtype()));
        x + sums.sum()
    };
    let of = |block: &dyn Fn(&Array) -> Array| {
        let (value, gradient) = value_and_grad(|x: &Array| block(x).sum())(x);
        vec![value, gradient]
    };
    Some(match name {
        "plain" => of(&block),
        "remat" => of(&|x| remat(block)(x)),
        "everything" => of(&|x| with(Policy::Everything)(x)),
        "dots" => of(&|x| with(Policy::Dots)(x)),
        "nested" => of(&|x| remat(|x: &Array| remat(block)(&(x * x)))(x)),
        "scan" => of(&steps),
        _ => return None,
    })
}

pub(crate) fn rule(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    for (prefix, optimize_remat) in [("custom_vjp_", false), ("optimized_vjp_", true)] {
        if let Some(name) = op.strip_prefix(prefix) {
            return of_wave(name, optimize_remat, &x[0]);
        }
    }
    if let Some(name) = op.strip_prefix("custom_vmap_") {
        return batching(name, x);
    }
    if let Some(name) = op.strip_prefix("symbolic_vjp_") {
        return symbolic_vjp(name, x);
    }
    if let Some(name) = op.strip_prefix("symbolic_jvp_") {
        return symbolic_jvp(name, x);
    }
    Some(match op {
        "sequential_vmap" => {
            let scaled = sequential_vmap(|x: &Array| x / sqrt((x * x).sum()));
            vec![vmap(|x: Array| scaled(&x)).apply(&x[0])]
        }
        "custom_jvps" => {
            let f = custom_jvp_per_argument(
                |x: &Array| log1p(exp(x)),
                (|t: &Array, value: &Array, x: &Array| t * (1.0 - exp(&(x - value)) * 0.5),),
            );
            vec![grad(|x: &Array| f(x).sum())(&x[0])]
        }
        "custom_gradient" => {
            let f = custom_gradient(|x: &Array| {
                let slope = x * 2.0;
                (x * x, move |ct: &Array| clip(&(ct * &slope), -1.0, 1.0))
            });
            vec![grad(|x: &Array| (f(x) * 2.0).sum())(&x[0])]
        }
        _ => return None,
    })
}
