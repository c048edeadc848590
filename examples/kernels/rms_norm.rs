//! Step 4: RMS norm, with a derivative.
//!
//! A kernel has no derivative: its loads and stores are not functions. [`custom_vjp`] gives one to
//! the function that calls it. The forward rule returns the value and what the backward rule needs,
//! here the reciprocal root mean square of each row. The backward rule calls a second kernel.
//!
//! With `y = x · r · w`, `r = (mean(x²) + ε)^(-1/2)` and the cotangent `c`, and `g = c · w`:
//!
//! - the derivative of `x` is `r · (g - x · r² · mean(g · x))`;
//! - that of `w` is the sum of `c · x · r` over all rows. It has one block, which all programs add
//!   to. So the axis of the grid is sequential, and the first program sets the block to zero. Rows
//!   after the last one must not be added: a mask selects the others.
//!
//! Reference: Zhang and Sennrich, "Root mean square layer normalization" (2019).

use crate::Step;
use oxidax::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref};
use oxidax::prelude::*;

const ROWS: usize = 8;
const EPSILON: f64 = 1e-6;

fn forward([rows, columns]: [usize; 2]) -> Kernel {
    let body = |[x, weight, y, scale]: [Ref; 4]| {
        let x = x.load();
        let r = rsqrt(square(&x).mean_axes(axes(1).keepdims()) + EPSILON);
        scale.store(&r);
        y.store(x * r * weight.load());
    };
    let block = || BlockSpec::new([ROWS, columns], |[i]| (i, 0));
    let outputs = [
        Output::new(DType::F32, [rows, columns], block()),
        Output::new(DType::F32, [rows, 1], BlockSpec::new([ROWS, 1], |[i]| (i, 0))),
    ];
    kernel::call(body, Grid::new([rows.div_ceil(ROWS)]), [block(), BlockSpec::whole()], outputs)
        .name("rms_norm")
}

fn backward([rows, columns]: [usize; 2]) -> Kernel {
    let body = move |[x, weight, scale, ct, of_x, of_weight]: [Ref; 6]| {
        let first = kernel::program_id(0);
        kernel::when(eq(&first, 0), || of_weight.store(0.0));
        let (x, r, ct) = (x.load(), scale.load(), ct.load());
        let g = &ct * weight.load();
        let along = (&g * &x).mean_axes(axes(1).keepdims());
        of_x.store(&r * (g - &x * square(&r) * along));
        let row = broadcasted_iota(DType::I32, [ROWS, columns], 0) + first * (ROWS as i32);
        let terms = where_(lt(&row, rows as i32), ct * x * r, 0.0);
        of_weight.add_assign(terms.sum_axes(axes(0).keepdims()));
    };
    let block = || BlockSpec::new([ROWS, columns], |[i]| (i, 0));
    let inputs = [block(), BlockSpec::whole(), BlockSpec::new([ROWS, 1], |[i]| (i, 0)), block()];
    let outputs = [
        Output::new(DType::F32, [rows, columns], block()),
        Output::new(DType::F32, [1, columns], BlockSpec::whole()),
    ];
    kernel::call(body, Grid::new([rows.div_ceil(ROWS)]).sequential(1), inputs, outputs)
        .name("rms_norm_backward")
}

/// Normalizes the rows of `x`, `[rows, columns]`, and multiplies them by `weight`, `[1, columns]`.
fn rms_norm(x: &Array, weight: &Array) -> Array {
    let sizes = [0, 1].map(|axis| x.shape()[axis]);
    let normalized = custom_vjp(
        |x: &Array, weight: &Array| forward(sizes).apply::<2>(&[x, weight])[0].clone(),
        move |x: &Array, weight: &Array| {
            let [y, scale] = forward(sizes).apply(&[x, weight]);
            (y, (x.clone(), weight.clone(), scale))
        },
        move |(x, weight, scale): &(Array, Array, Array), ct: &Array| {
            let [of_x, of_weight] = backward(sizes).apply(&[x, weight, scale, ct]);
            (of_x, of_weight)
        },
    );
    normalized(x, weight)
}

fn plain(x: &Array, weight: &Array) -> Array {
    x * rsqrt(square(x).mean_axes(axes(1).keepdims()) + EPSILON) * weight
}

pub(crate) fn run() -> Result<Step, Error> {
    let sizes = [50, 384];
    let x = random::normal(random::key(0), sizes);
    let weight = random::normal(random::key(1), [1, sizes[1]]);
    let gradients = |f: fn(&Array, &Array) -> Array| {
        let loss = move |x: &Array, weight: &Array| sin(f(x, weight)).sum();
        let (of_x, of_weight) = vjp(loss, (&x, &weight)).1(&ones([]));
        concatenate([&of_x, &of_weight], 0)
    };
    Step::new(&forward(sizes).trace(&[&x, &weight]), &gradients(rms_norm), &gradients(plain))
}
