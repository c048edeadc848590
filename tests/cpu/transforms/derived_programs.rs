//! Programs derived from an inner `jit` are derived once and cached.

use oxidax::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, JvpResult, LowerCtx, Operand, Primitive,
    RuleResult, Tangent, bind1,
};
use oxidax::prelude::*;
use oxidax::stablehlo::Value;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static JVPS: AtomicUsize = AtomicUsize::new(0);
static BATCHES: AtomicUsize = AtomicUsize::new(0);
static TRANSPOSES: AtomicUsize = AtomicUsize::new(0);

/// `2 · x`, with rules that count their calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct Twice;

impl Primitive for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(operands.to_vec())
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        JVPS.fetch_add(1, Ordering::Relaxed);
        let y = bind1(Twice, [&primals[0]]);
        let dy = tangents[0].map(y.aval(), |dx| bind1(Twice, [dx]));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        BATCHES.fetch_add(1, Ordering::Relaxed);
        Ok(Batched { outputs: vec![bind1(Twice, [&operands[0]])], axes: axes.to_vec() })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("add", &[operands[0].clone(), operands[0].clone()])])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        TRANSPOSES.fetch_add(1, Ordering::Relaxed);
        Ok(vec![Some(cts[0].map(operands[0].aval(), |ct| bind1(Twice, [ct])))])
    }
}

/// Returns the number of calls of each rule while `f` runs: jvp, transpose, batch.
fn counted(f: impl FnOnce()) -> [usize; 3] {
    let now = || [&JVPS, &TRANSPOSES, &BATCHES].map(|count| count.load(Ordering::Relaxed));
    let before = now();
    f();
    let after = now();
    [0, 1, 2].map(|rule| after[rule] - before[rule])
}

#[test]
fn inner_jit_is_derived_once() {
    let block = Arc::new(jit(|x: Array| bind1(Twice, [&x])).name("block"));
    let deep = {
        let block = block.clone();
        move |x: &Array| (0..12).fold(x.clone(), |x, _| block.apply(x)).sum()
    };
    let aval = Aval::new(DType::F32, [3]);
    let slope = move |x: Array| grad(|x: &Array| deep(x))(&x);
    let of = |aval: &Aval| make_program(slope.clone(), aval.clone()).unwrap();
    assert_eq!(counted(|| drop(of(&aval))), [1, 1, 0]);
    // The next trace uses the cached programs.
    assert_eq!(counted(|| drop(of(&aval))), [0, 0, 0]);
    // A different shape is a different program.
    let wide = Aval::new(DType::F32, [5]);
    assert_eq!(counted(|| drop(of(&wide))), [1, 1, 0]);
    let rows = {
        let slope = slope.clone();
        move |xs: Array| vmap(slope.clone()).apply(xs)
    };
    let rows = |size: usize| {
        let aval = Aval::new(DType::F32, [size, 3]);
        make_program(rows.clone(), aval).unwrap()
    };
    // The forward call and the transposed call each use one derived program.
    let [jvps, transposes, batches] = counted(|| drop(rows(4)));
    assert_eq!([jvps, transposes], [0, 0]);
    assert!(batches > 0 && batches < 12, "{batches}");
    assert_eq!(counted(|| drop(rows(4))), [0, 0, 0]);
    assert_eq!(counted(|| drop(rows(6)))[2], batches);
    // The calls hold the same program, not equal copies.
    let slope = of(&aval);
    let held: Vec<*const oxidax::core::Program> = slope
        .eqns()
        .iter()
        .filter_map(|eqn| eqn.primitive.as_higher_order())
        .flat_map(|holder| holder.programs().into_iter().map(|(_, program)| program as *const _))
        .collect();
    let mut distinct = held.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((held.len(), distinct.len()), (24, 2));
}

mod on_cpu {
    use super::*;

    #[test]
    fn cached_derivatives_are_correct() {
        let block = Arc::new(jit(|x: Array, y: Array| sin(&x) * &y).name("block"));
        let both = |x: &Array| {
            let once = block.apply(x, x);
            let held = block.apply(&once, stop_gradient(x));
            let other = block.apply(stop_gradient(x), &held);
            (once + held + other).sum()
        };
        let plain = |x: &Array| {
            let f = |x: &Array, y: &Array| sin(x) * y;
            let once = f(x, x);
            let held = f(&once, &stop_gradient(x));
            let other = f(&stop_gradient(x), &held);
            (once + held + other).sum()
        };
        let x = Array::from_slice(&[0.3f32, -1.2, 2.0], [3]).unwrap();
        let close = |a: Array, b: Array| {
            let (a, b) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
            a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5 * (1.0 + b.abs()))
        };
        for _ in 0..2 {
            assert!(close(grad(both)(&x), grad(plain)(&x)));
            let second = |f: &dyn Fn(&Array) -> Array| grad(|x: &Array| grad(f)(x).sum())(&x);
            assert!(close(second(&both), second(&plain)));
        }
    }
}
