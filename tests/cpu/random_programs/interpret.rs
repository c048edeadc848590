//! Interprets recipes: computes the values of a random function, eagerly or in a trace.

use crate::arrays::Numbers;
use crate::random_programs::recipe::{
    Along, Binary, Inner, Join, Move, Op, Recipe, SHAPES, Step, Unary, has_forward, has_reverse,
};
use oxidax::prelude::*;
use oxidax::primitives::PaddingDim;

/// The values computed so far, the newest last.
type Values = Vec<Array>;

impl Recipe {
    /// Returns inputs with distinct elements in `-1..1`, which depend on `draw`.
    pub(crate) fn inputs(&self, draw: u64) -> Values {
        let mut numbers = Numbers::new(u64::from(self.elements) << 8 | draw);
        self.inputs.iter().map(|&at| numbers.array(SHAPES[at])).collect()
    }

    /// Evaluates the function. Its results are the last two values.
    pub(crate) fn apply(&self, inputs: &Values) -> Values {
        let mut values = run(&self.steps, inputs.clone());
        values.split_off(values.len().saturating_sub(2))
    }
}

fn run(steps: &[Step], mut values: Values) -> Values {
    for step in steps {
        let value = step.apply(&values);
        values.push(value);
    }
    values
}

/// A function of one value, which can use the others too.
fn function<'a>(steps: &'a [Step], values: &'a Values) -> impl Fn(&Array) -> Array + 'a {
    move |x| {
        let mut values = values.clone();
        values.push(x.clone());
        run(steps, values).pop().expect("there is a value")
    }
}

/// Returns `y`, or its mean broadcast to the shape of `x` if the shapes differ.
fn alike(y: &Array, x: &Array) -> Array {
    if y.shape() == x.shape() { y.clone() } else { sin(x) + mean(y) }
}

/// Returns the mean; 0 for arrays without elements.
fn mean(x: &Array) -> Array {
    x.sum() / x.size().max(1) as f64
}

/// Returns an array of values that are at least 1, for divisors.
fn above_one(x: &Array) -> Array {
    sqrt(&(x * x + 1.0))
}

impl Step {
    fn apply(&self, values: &Values) -> Array {
        let x = self.pick(values, 0);
        match self.op {
            Op::Unary(op) => unary(op, x),
            Op::Binary(op) => {
                let y = self.pick_where(values, 1, |y| y.shape().broadcast(x.shape()).is_some());
                binary(op, x, y)
            }
            Op::Along(op) => match x.rank() {
                0 => sin(x),
                rank => self.along(op, x, usize::from(self.number) % rank),
            },
            Op::Move(op) => self.moved(op, x),
            Op::Join(op) => self.join(op, x, values),
            Op::Inner(op) => self.inner(op, x, values),
            Op::Cond => {
                let [yes, no] =
                    [&self.bodies[0], &self.bodies[1]].map(|body| function(body, values));
                let branch = |f: &dyn Fn(&Array) -> Array, x: &Array| alike(&f(x), x);
                cond(gt(mean(x), 0.05), |x: Array| branch(&yes, &x), |x: Array| branch(&no, &x), x)
            }
            Op::While => {
                let f = function(&self.bodies[0], values);
                let go_on = |(n, x): (Array, Array)| lt(&n, 3) & lt(mean(&x), 0.8);
                let (_, x) = while_loop(
                    go_on,
                    |(n, x)| (n + 1, alike(&f(&x), &x)),
                    (zeros(([], DType::I32)), x.clone()),
                );
                x
            }
        }
    }

    fn pick<'a>(&self, values: &'a Values, at: usize) -> &'a Array {
        self.pick_where(values, at, |_| true)
    }

    /// Selects one of the values for which `fits` returns true, or the newest if there is none.
    fn pick_where<'a>(
        &self,
        values: &'a Values,
        at: usize,
        fits: impl Fn(&Array) -> bool,
    ) -> &'a Array {
        let fitting: Vec<&Array> = values.iter().rev().filter(|x| fits(x)).collect();
        match fitting.len() {
            0 => values.last().expect("there are inputs"),
            n => fitting[usize::from(self.from[at]) % n],
        }
    }

    fn along(&self, op: Along, x: &Array, axis: usize) -> Array {
        let (at, size) = (axis as isize, x.shape()[axis]);
        match op {
            Along::Sum => x.sum_axes(at),
            Along::Prod => sin(x).prod_axes(at),
            Along::Softmax => softmax(x, at),
            Along::Cumsum => {
                cumsum_with(x, at, RunningTotalOptions { reverse: self.number & 64 != 0 })
            }
            Along::Cumprod => {
                cumprod_with(&sin(x), at, RunningTotalOptions { reverse: self.number & 64 != 0 })
            }
            Along::Cummax => {
                cummax_with(x, at, RunningTotalOptions { reverse: self.number & 64 != 0 })
            }
            Along::Cumlogsumexp => {
                cumlogsumexp_with(x, at, RunningTotalOptions { reverse: self.number & 64 != 0 })
            }
            Along::Sort => x.sort(at),
            // The other operations need at least one element.
            _ if size == 0 => x.sum_axes(at),
            Along::Mean => x.mean_axes(at),
            Along::Max => x.max_axes(at),
            Along::Min => x.min_axes(at),
            Along::Var => x.var_axes(at),
            Along::Logsumexp => logsumexp(x, at),
            Along::Argmax => {
                let best = expand_dims(&x.argmax_axis(at), &[at]);
                take_along_axis(&sin(x), &best, at)
            }
            Along::TopK => top_k(x, size.min(2), at).0,
        }
    }

    fn moved(&self, op: Move, x: &Array) -> Array {
        let number = usize::from(self.number);
        if let Move::Flatten = op {
            return x.flatten();
        }
        if let Move::ExpandDims = op {
            return match x.rank() {
                0..3 => x.expand_dims((number % (x.rank() + 1)) as isize),
                _ => x.sum_axes(0),
            };
        }
        if x.rank() == 0 {
            return broadcast_to(x, [1 + number % 3]);
        }
        let axis = number % x.rank();
        let (at, size) = (axis as isize, x.shape()[axis]);
        let step = (number / 8) as isize;
        match op {
            Move::Flatten | Move::ExpandDims => unreachable!("done above"),
            Move::Transpose => x.swapaxes(at, step % x.rank() as isize),
            Move::Broadcast if x.rank() < 3 => {
                let shape: Vec<usize> =
                    std::iter::once(2).chain(x.shape().iter().copied()).collect();
                broadcast_to(x, shape)
            }
            Move::Broadcast => mean(x),
            Move::Pad => {
                let mut dims = vec![PaddingDim::default(); x.rank()];
                let interior = usize::from(number & 32 != 0);
                dims[axis] = PaddingDim { low: step % 3 - 1, high: step / 3 % 3 - 1, interior };
                // The elements cut off at both ends must exist.
                if size < 2 {
                    dims[axis] = PaddingDim { low: 1, high: 0, interior }
                }
                lax_pad(x, 0.25, &dims)
            }
            Move::Slice => {
                slice_in_dim(x, (size / 2) as isize, size as isize, 1 + number / 8 % 2, at)
            }
            Move::DynamicSlice => {
                // A start index that depends on a value, but not continuously.
                let start = convert_element_type(&gt(mean(x), 0.05), DType::I32);
                dynamic_slice_in_dim(x, &start, size - size / 3, at)
            }
            Move::Update => {
                let part = slice_in_dim(x, 0, (size - size / 2) as isize, 1, at);
                dynamic_update_slice_in_dim(x, &sin(&part), step as i32 % 3, at)
            }
            Move::Flip => x.flip(at),
            Move::Roll => roll(x, step, at),
            Move::Take if size == 0 => x.clone(),
            Move::Take => {
                let picked = (iota(DType::I32, 3) * (step as i32 + 1) + 1) % size as i32;
                take(x, &picked, at)
            }
            Move::ScatterAdd if size == 0 => x.clone(),
            Move::ScatterAdd => {
                let to = (iota(DType::I32, size) * (step as i32 % 3)) % size as i32;
                let front = x.swapaxes(0, at);
                front.at(i![&to]).add(sin(&front))
            }
            Move::Tile => {
                let mut repeats = vec![1; x.rank()];
                repeats[axis] = 2;
                tile(x, &repeats)
            }
        }
    }

    fn join(&self, op: Join, x: &Array, values: &Values) -> Array {
        if x.rank() == 0 {
            return sin(x);
        }
        let axis = usize::from(self.number) % x.rank();
        let others = |y: &Array| {
            let but = |z: &Array| {
                let mut shape = z.shape().to_vec();
                shape.remove(axis);
                shape
            };
            y.rank() == x.rank() && but(y) == but(x)
        };
        match op {
            Join::Concatenate => {
                let y = self.pick_where(values, 1, others);
                concatenate([x, if others(y) { y } else { x }], axis as isize)
            }
            Join::Outer => {
                let y = self.pick_where(values, 1, |y| y.size() <= 6);
                outer(&sin(x.flatten()), &cos(y.flatten()))
                    .sum_axes(i32::from(self.number & 64 != 0) as isize)
            }
            Join::Matmul => {
                let inner = |y: &Array| {
                    y.rank() >= 2 && y.shape()[y.rank() - 2] == *x.shape().last().expect("rank 1")
                };
                let y = self.pick_where(values, 1, |y| inner(y) && y.rank() == 2);
                match inner(y) && y.rank() == 2 {
                    true => matmul(&sin(x), &tanh(y)),
                    false if x.rank() == 1 => dot(&sin(x), &cos(x)),
                    false => matmul(&sin(x), &swapaxes(&cos(x), -1, -2)),
                }
            }
            Join::Conv => {
                let y = self.pick_where(values, 1, |y| (1..4).contains(&y.size()));
                let short =
                    |v: &Array| if v.size() == 0 { ones(([1], DType::F64)) } else { v.flatten() };
                convolve(&short(&sin(x)), &short(&tanh(y)), ConvolveMode::Full)
            }
        }
    }

    fn inner(&self, op: Inner, x: &Array, values: &Values) -> Array {
        let body = self.bodies[0].clone();
        let f = function(&self.bodies[0], values);
        let scalar = |x: &Array| mean(&sin(f(x)));
        let rows = |x: &Array| if x.rank() == 0 { x.expand_dims(0) } else { x.clone() };
        match op {
            Inner::Jit => {
                let compiled =
                    jit(move |values: Values| run(&body, values).pop().expect("a value"));
                let mut arguments = values.clone();
                arguments.push(x.clone());
                compiled.apply(&arguments)
            }
            Inner::Remat => remat(f)(x),
            Inner::RematDots => {
                remat_with(f, RematOptions { policy: Policy::Dots, ..RematOptions::default() })(x)
            }
            Inner::Vmap => vmap(|x: Array| f(&x)).apply(rows(x)),
            Inner::VmapLast => {
                let x = rows(x);
                let last = x.rank() - 1;
                vmap(|x: Array| f(&x)).in_axes([Some(last as isize)]).out_axes([Some(-1)]).apply(&x)
            }
            Inner::Scan | Inner::ScanReverse => {
                let step = |c: Array, x: Array| {
                    let y = f(&(&x + &c));
                    (alike(&y, &c), y)
                };
                let options = ScanOptions {
                    reverse: op == Inner::ScanReverse,
                    unroll: Unroll::Steps(1 + usize::from(self.number) % 2),
                    ..ScanOptions::default()
                };
                let (c, ys) = scan_with(step, mean(x), rows(x), options);
                ys * sin(&c)
            }
            Inner::Fori => {
                let rounds = i32::from(self.number % 4);
                fori_loop(
                    0,
                    rounds,
                    |n, x: Array| alike(&f(&x), &x) + n.astype(DType::F64) * 0.1,
                    x,
                )
            }
            Inner::Map => map(|x: Array| f(&x), rows(x)),
            Inner::AssociativeScan => {
                associative_scan(|a: Array, b: Array| sin(&a) * b, rows(&f(x)))
            }
            // Bodies without a derivative are not differentiated.
            Inner::Grad | Inner::GradOfGrad | Inner::CustomVjp if !has_reverse(&body) => f(x),
            Inner::Jvp | Inner::CustomJvp if !has_forward(&body) => f(x),
            Inner::Grad => grad(scalar)(x),
            Inner::GradOfGrad => grad(|x: &Array| mean(&sin(grad(&scalar)(x))))(x),
            Inner::Jvp => jvp(f, x, cos(x)).1,
            // Custom rules have no derivative with respect to captures, so they capture nothing.
            Inner::CustomJvp => {
                let f = Alone(body);
                let rule = {
                    let f = f.clone();
                    move |x: &Array, dx: &Array| jvp(|x: &Array| f.of(x), x, dx)
                };
                custom_jvp(move |x: &Array| f.of(x), rule)(x)
            }
            Inner::CustomVjp => {
                let f = Alone(body);
                let forward = {
                    let f = f.clone();
                    move |x: &Array| (f.of(x), x.clone())
                };
                let backward = {
                    let f = f.clone();
                    move |x: &Array, ct: &Array| vjp(|x: &Array| f.of(x), x).1.apply(ct)
                };
                custom_vjp(move |x: &Array| f.of(x), forward, backward)(x)
            }
        }
    }
}

/// A function that uses only its own value.
#[derive(Clone)]
struct Alone(Vec<Step>);

impl Alone {
    fn of(&self, x: &Array) -> Array {
        run(&self.0, vec![x.clone()]).pop().expect("there is a value")
    }
}

fn unary(op: Unary, x: &Array) -> Array {
    match op {
        Unary::Sin => sin(x),
        Unary::Cos => cos(x),
        Unary::Tanh => tanh(x),
        Unary::Exp => exp(sin(x)),
        Unary::Log => log(above_one(x)),
        Unary::Sqrt => above_one(x),
        Unary::Rsqrt => rsqrt(&(x * x + 1.0)),
        Unary::Logistic => logistic(x),
        Unary::Neg => -x,
        Unary::Abs => abs(x),
        Unary::Square => square(sin(x)),
        Unary::Erf => erf(x),
        // Avoids values at which the functions are not smooth.
        Unary::Floor => floor(&(x * 3.0 + 0.37)) + x,
        Unary::Relu => relu(x),
        Unary::Expm1 => expm1(sin(x)),
        Unary::Reciprocal => 1.0 / above_one(x),
        // Small enough that its rounding error is negligible in a difference.
        Unary::Through32 => x + x.astype(DType::F32).astype(DType::F64) * 1e-4,
    }
}

fn binary(op: Binary, x: &Array, y: &Array) -> Array {
    match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * sin(y),
        Binary::Div => x / above_one(y),
        Binary::Max => maximum(x, y),
        Binary::Min => minimum(x, y),
        Binary::Atan2 => atan2(x, above_one(y)),
        Binary::Pow => pow(above_one(&sin(x)), sin(y)),
        Binary::Rem => rem(&(x + 0.37), above_one(y)) * 0.0 + x,
        Binary::Where => where_(lt(x, y), sin(x), sin(y)),
    }
}
