//! Recomputation, loops, host functions and trees of the suite `autodiff`; see
//! `recorder/autodiff_programs.py`.

use oxidax::core::HostArray;
use oxidax::debug::{PureCallbackOptions, VmapMethod, pure_callback_with};
use oxidax::prelude::*;

type Pair = (Array, Array);

fn policy(name: &str) -> Option<Policy> {
    Some(match name {
        "nothing" => Policy::Nothing,
        "everything" => Policy::Everything,
        "dots" => Policy::Dots,
        "dots_without_batch" => Policy::DotsWithNoBatchDims,
        "names" => Policy::names(["hidden"]),
        "all_but_names" => Policy::all_but_names(["hidden"]),
        "any_names_but" => Policy::any_names_but(["hidden"]),
        "dots_or_names" => Policy::Dots.or(Policy::names(["gate"])),
        _ => return None,
    })
}

/// A product, two named values and a product with a batch axis.
fn block((x, w): &Pair) -> Array {
    let hidden = checkpoint_name(tanh(x.matmul(w)), "hidden");
    let gate = checkpoint_name(sin(&hidden) * &hidden, "gate");
    let scores = einsum("bi,bi->b", [&gate, &hidden]);
    (exp(&gate) * expand_dims(&scores, &[1])).sum()
}

fn stored(name: &str) -> Option<RematOptions> {
    Some(RematOptions { policy: policy(name)?, ..RematOptions::default() })
}

/// Returns the types and origins of the stored values, sorted: `f32[2,3] named hidden`.
#[cfg(test)]
pub(crate) fn residuals(name: &str, x: &[Array]) -> Vec<String> {
    use oxidax::transforms::ResidualSource;
    let pair = (x[0].clone(), x[1].clone());
    let list = match stored(name) {
        Some(options) => {
            let run = remat_with(block, options);
            saved_residuals(|p: &Pair| run(p), &pair)
        }
        None => saved_residuals(block, &pair),
    };
    let line = |residual: &oxidax::transforms::SavedResidual| {
        let source = match &residual.source {
            ResidualSource::Argument(_) => "argument".to_owned(),
            ResidualSource::Operation { label: Some(label), .. } => format!("named {label}"),
            ResidualSource::Operation { name, .. } => format!("output of {name}"),
            other => format!("{other:?}"),
        };
        format!("{} {source}", residual.aval)
    };
    let mut lines: Vec<String> = list.iter().map(line).collect();
    lines.sort();
    lines
}

fn recomputed(name: &str, x: &[Array]) -> Option<Vec<Array>> {
    if name == "hvp" {
        let run = remat_with(block, stored("names")?);
        let slope = |v: &Array| grad(|v: &Array| run(&(v.clone(), x[1].clone())))(v);
        return Some(vec![jvp(slope, &x[0], &x[2]).1]);
    }
    let run = remat_with(block, stored(name)?);
    let pair = (x[0].clone(), x[1].clone());
    Some(tree::leaves(&value_and_grad(|p: &Pair| run(p))(&pair)))
}

fn repeated(unroll: Unroll, x: &Array, w: &Array) -> Array {
    let body = |i: Array, y: Array| tanh(w.matmul(&y)) + &y / (i + 2);
    fori_loop_with(0, 7, body, x, ForiLoopOptions { unroll })
}

/// `x y`, plus the number of elements of `y` and ten times its rank.
fn on_host(x: &[HostArray]) -> Result<Vec<HostArray>, oxidax::debug::HostError> {
    fn product(x: &[f64], y: &[f64], rank: usize) -> Vec<f64> {
        let per_example = x.len() / y.len();
        let mark = (y.len() + 10 * rank) as f64;
        x.iter().enumerate().map(|(at, x)| x * y[at / per_example] + mark).collect()
    }
    let (shape, rank) = (x[0].shape(), x[1].shape().len());
    if x[0].dtype() == DType::F64 {
        let values = product(&x[0].to_vec::<f64>()?, &x[1].to_vec::<f64>()?, rank);
        return Ok(vec![HostArray::from_slice(&values, shape)?]);
    }
    let wide = |x: &HostArray| -> Result<Vec<f64>, oxidax::Error> {
        Ok(x.to_vec::<f32>()?.into_iter().map(f64::from).collect())
    };
    let values = product(&wide(&x[0])?, &wide(&x[1])?, rank);
    let values: Vec<f32> = values.into_iter().map(|x| x as f32).collect();
    Ok(vec![HostArray::from_slice(&values, shape)?])
}

fn called(vmap_method: VmapMethod, x: &Array, y: &Array) -> Array {
    let options = PureCallbackOptions { vmap_method };
    pure_callback_with(on_host, &[x.aval().clone()], [x, y], options).swap_remove(0)
}

fn host(name: &str, x: &[Array]) -> Option<Vec<Array>> {
    let (name, is_one) = match name.strip_suffix("_one") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let method = match name {
        "call" | "nested" | "sequential" => VmapMethod::Sequential,
        "expand_dims" => VmapMethod::ExpandDims,
        "broadcast_all" => VmapMethod::BroadcastAll,
        _ => return None,
    };
    let over_x = |y: Array| vmap(|x: Array| called(method, &x, &y)).apply(&x[0]);
    Some(vec![match name {
        "call" => called(method, &x[0], &x[1]),
        "nested" => vmap(over_x).apply(&x[1]),
        _ if is_one => over_x(x[1].clone()),
        _ => vmap(|x: Array, y: Array| called(method, &x, &y)).apply(&x[0], &x[1]),
    }])
}

fn trees(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let (a, b) = (x.first()?.clone(), x.get(1)?.clone());
    let both = (a.clone(), vec![b.clone()]);
    Some(match op {
        "ravel" => {
            let (flat, unravel) = tree::ravel(&both);
            let (a, b) = unravel(&(&flat * &flat));
            [vec![flat, a], b].concat()
        }
        "ravel_mixed" => {
            let (flat, unravel) = tree::ravel(&(a, b));
            let (a, b) = unravel(&flat);
            vec![flat, a, b]
        }
        "ravel_hessian" => {
            let (flat, unravel) = tree::ravel(&(a, b));
            let loss = |flat: &Array| {
                let (a, b) = unravel(flat);
                integer_pow(&sin(a.matmul(&b)), 2).sum()
            };
            vec![hessian(loss)(&flat)]
        }
        "tree_sums" => {
            let other = tree::map(&both, |x| cos(x));
            vec![tree::sum(&both), tree::vdot(&both, &other), tree::norm(&both)]
        }
        "tree_steps" => {
            let moved = tree::add_scaled(&both, 0.5, &tree::map(&both, |x| sin(x)));
            let twice = tree::scale(&tree::sub(&moved, &both), 2.0);
            tree::leaves(&tree::mul(&twice, &both))
        }
        "tree_prefix" => {
            let whole = (a.clone(), vec![b, a]);
            let scales = tree::broadcast(&(scalar(2.0), scalar(3.0)), &whole);
            tree::leaves(&tree::zip_map(&whole, &scales, |x, s| s.astype(x.dtype()) * x))
        }
        "tree_transposed" => {
            let pairs = [(a.clone(), b.clone()), (b * 2.0, a * 2.0)];
            tree::transpose(&pairs).into_values().concat()
        }
        _ => return None,
    })
}

pub(crate) fn program(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    if let Some(name) = op.strip_prefix("remat_") {
        return recomputed(name, x);
    }
    if let Some(name) = op.strip_prefix("callback_") {
        return host(name, x);
    }
    if op.starts_with("residuals_") {
        return Some(vec![block(&(x[0].clone(), x[1].clone()))]);
    }
    Some(match op {
        "fori_unroll_1" => vec![repeated(Unroll::Steps(1), &x[0], &x[1])],
        "fori_unroll_3" => vec![repeated(Unroll::Steps(3), &x[0], &x[1])],
        "fori_unroll_all" => vec![repeated(Unroll::All, &x[0], &x[1])],
        "fori_unroll_grad" => {
            let f = |(x, w): &Pair| repeated(Unroll::Steps(3), x, w).sum();
            tree::leaves(&grad(f)(&(x[0].clone(), x[1].clone())))
        }
        "platform_dependent" => {
            let f = |x: &Array| {
                platform_dependent(["cpu", "default"], (|x: &Array| sin(x), |x: &Array| tanh(x)), x)
            };
            vec![f(&x[0]), grad(|x: &Array| (f(x) * x).sum())(&x[0])]
        }
        _ => return trees(op, x),
    })
}
