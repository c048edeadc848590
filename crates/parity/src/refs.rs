//! Mutable references under transforms. The functions are given as Python code in
//! `python-compat/recorder/refs_suite.py`.

use crate::control_flow_functions::Function;
use oxidax::prelude::*;

pub(crate) fn function(name: &str) -> Function {
    match name {
        "summed" => summed,
        "recurrence" => recurrence,
        "exchanged" => exchanged,
        "scattered" => scattered,
        "chosen" => chosen,
        "switched" => switched,
        "nested" => nested,
        "hidden_state" => hidden_state,
        "inner_jit" => inner_jit,
        "mapped_argument" => mapped_argument,
        "slices" => slices,
        "crossed" => crossed,
        "mapped_loop" => mapped_loop,
        "branch_values" => branch_values,
        other => panic!("no function is called {other}"),
    }
}

fn zero(like: &Array) -> ArrayRef {
    new_ref(zeros(([], like.dtype())))
}

fn summed(operands: &[Array]) -> Vec<Array> {
    let total = zero(&operands[0]);
    let step = |(), x: Array| {
        total.set(i![], total.get(i![]) + &x * &x);
        ((), total.get(i![]))
    };
    let ((), sums) = scan(step, (), &operands[0]);
    vec![freeze(&total), sums]
}

fn recurrence(operands: &[Array]) -> Vec<Array> {
    let (xs, a) = (&operands[0], &operands[1]);
    let history = new_ref(zeros((5, xs.dtype())));
    history.set(i![0], a);
    fori_loop(
        0,
        4,
        |i: Array, ()| {
            let next = sin(&(history.get(i![&i]) * xs.index(i![&i]))) + a;
            history.set(i![&(&i + 1)], next);
        },
        (),
    );
    vec![history.get(i![])]
}

fn exchanged(operands: &[Array]) -> Vec<Array> {
    let x = &operands[0];
    let r = new_ref(x * 2.0);
    let old = r.swap(i![1], x.index(i![3]) * x.index(i![0]));
    r.set(i![2], &old * r.get(i![1]));
    vec![freeze(&r), old]
}

fn scattered(operands: &[Array]) -> Vec<Array> {
    let (x, w) = (&operands[0], &operands[1]);
    let r = new_ref(x);
    r.addupdate(i![&array![0, 2, 2, 1, 3, 0]], w * w);
    vec![r.get(i![]), r.get(i![&array![3, 3, 1]]) * w.index(i![..3])]
}

fn chosen(operands: &[Array]) -> Vec<Array> {
    let (x, a) = (&operands[0], &operands[1]);
    let r = new_ref(sin(x));
    let larger = |()| r.set(i![0], r.get(i![1]) * a);
    cond(gt(a, 0.0), larger, |()| r.set(i![..], r.get(i![..]) + a), ());
    cond(gt(a, 9.0), larger, |()| (), ());
    vec![r.get(i![])]
}

fn switched(operands: &[Array]) -> Vec<Array> {
    let (x, index) = (&operands[0], &operands[1]);
    let (first, second) = (new_ref(x), new_ref(x * x));
    let add = |()| {
        first.set(i![], first.get(i![]) + second.get(i![]));
        first.get(i![0])
    };
    let multiply = |()| {
        second.set(i![], second.get(i![]) * first.get(i![]));
        second.get(i![0])
    };
    let y = switch(index, (add, multiply, |()| x.index(i![2])), ());
    vec![y, first.get(i![]), second.get(i![])]
}

fn nested(operands: &[Array]) -> Vec<Array> {
    let (rows, a) = (&operands[0], &operands[1]);
    let total = zero(rows);
    let largest = new_ref(zeros((3, rows.dtype())));
    let row = |i: Array, xs: Array| {
        let element = |(), x: Array| (total.set(i![], cos(&(total.get(i![]) * a)) + x), ());
        scan(element, (), &xs);
        largest.set(i![&i], total.get(i![]) * xs.index(i![0]));
        (i + 1, total.get(i![]))
    };
    let (_, ys) = scan(row, 0, rows);
    vec![ys, largest.get(i![]), total.get(i![])]
}

fn hidden_state(operands: &[Array]) -> Vec<Array> {
    let (xs, w_h, w_x) = (&operands[0], &operands[1], &operands[2]);
    let h = new_ref(zeros((3, xs.dtype())));
    let step = |(), x: Array| {
        h.set(i![..], tanh(&(h.get(i![..]).matmul(w_h) + x.matmul(w_x))));
        ((), h.get(i![0]))
    };
    let options = ScanOptions { reverse: true, ..ScanOptions::default() };
    let ((), ys) = scan_with(step, (), xs, options);
    vec![freeze(&h), ys]
}

fn inner_jit(operands: &[Array]) -> Vec<Array> {
    let x = &operands[0];
    let push = jit(|r: ArrayRef, value: Array| {
        r.set(i![1..], r.get(i![..2]) * value);
        r.get(i![0])
    });
    let r = new_ref(x);
    let first = push.apply(&r, x.index(i![0]));
    let second = push.apply(&r, x.index(i![1]) + 1.0);
    vec![r.get(i![]), first * second]
}

fn mapped_argument(operands: &[Array]) -> Vec<Array> {
    let r = new_ref(&operands[0]);
    let one = |row: ArrayRef, scale: Array| {
        row.set(i![0], row.get(i![1]) * scale);
        row.get(i![]).sum()
    };
    let sums = vmap(one).apply(&r, &operands[1]);
    vec![r.get(i![]), sums]
}

fn slices(operands: &[Array]) -> Vec<Array> {
    let x = &operands[0];
    let r = new_ref(x);
    r.set(i![1..3, 0], exp(r.get(i![0, 1..3])));
    r.set(i![::2], r.get(i![::2]) * 3.0);
    r.set(i![..., 1..2], r.get(i![..., 1..2]) + x.index(i![.., 3..]));
    vec![r.get(i![]), r.get(i![1]), r.get(i![.., 1..])]
}

fn crossed(operands: &[Array]) -> Vec<Array> {
    let (a, b) = (new_ref(&operands[0]), new_ref(&operands[1]));
    let body = |_: Array, c: Array| {
        let old = a.swap(i![..], b.get(i![..]) * &c);
        b.set(i![..], sin(&old));
        c + a.get(i![0])
    };
    let c = fori_loop(0, 3, body, ones(([], operands[0].dtype())));
    vec![a.get(i![]), b.get(i![]), c]
}

fn mapped_loop(operands: &[Array]) -> Vec<Array> {
    let count = zero(&operands[0]);
    let one = |x: Array| {
        count.addupdate(i![], &x);
        x * count.get(i![])
    };
    let ys = oxidax::control_flow::map(one, &operands[0]);
    vec![ys, count.get(i![])]
}

fn branch_values(operands: &[Array]) -> Vec<Array> {
    let (x, a) = (&operands[0], &operands[1]);
    let r = empty_ref(Aval::new(x.dtype(), [3]));
    r.set(i![..], x * a);
    let step = |c: Array, i: Array| {
        let keep = |()| r.get(i![&i]);
        let change = |()| {
            r.set(i![&i], r.get(i![&i]) * &c);
            r.get(i![&i]) + a
        };
        (cond(eq(&i % 2, 0), keep, change, ()), r.get(i![0]))
    };
    let (c, ys) = scan(step, a.clone(), arange(3));
    vec![c, ys, r.get(i![])]
}

#[cfg(test)]
mod on_cpu {
    use crate::control_flow::apply;
    use crate::fixtures::Suite;

    fn suite() -> Suite {
        Suite::load("refs").with_narrow_defaults()
    }

    #[test]
    fn values_and_derivatives_match_jax() {
        suite().check_ops(|op| op == "call", apply);
    }

    #[test]
    fn batches_match_jax() {
        suite().check_ops(|op| op == "vmap", apply);
    }

    #[test]
    fn row_gradients_match_jax() {
        suite().check_ops(|op| op == "vmap(grad)", apply);
    }
}
