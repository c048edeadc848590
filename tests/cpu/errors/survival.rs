//! After every error before execution, a model passed by value is returned and usable, and the next
//! call works.

use crate::errors::f32s;
use expect_test::{Expect, expect};
use oxidax::core::{
    Array, Aval, BatchAxis, Batched, Cost, Effects, JvpResult, LowerCtx, Primitive, RuleError,
    RuleResult, Tangent, bind1,
};
use oxidax::prelude::*;
use oxidax::stablehlo::Value;
use serde::Serialize;
use std::sync::{Arc, Mutex};

/// Faults in the lowering rule of a user-defined primitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
enum Lowering {
    Refused,
    Nonsense,
}

impl Primitive for Lowering {
    fn name(&self) -> &'static str {
        "mine"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(operands.to_vec())
    }
    fn jvp(&self, _: &[Array], _: &[Tangent]) -> JvpResult {
        Err(RuleError::unsupported("has no derivative"))
    }
    fn batch(&self, _: &[Array], _: &[Option<usize>], _: &BatchAxis) -> RuleResult<Batched> {
        Err(RuleError::unsupported("has no batch rule"))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        match self {
            Lowering::Refused => Err(RuleError::unsupported("only for another platform")),
            Lowering::Nonsense => Ok(vec![ctx.op("no_such_operation", operands)]),
        }
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
    fn effects(&self) -> Effects {
        Effects::None
    }
}

#[derive(Debug, Tree, Clone)]
struct Model {
    weight: Array,
    bias: Option<Array>,
}

fn model() -> Model {
    let weight = Array::from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let bias = Array::from_slice(&[0.5f32], [1]).unwrap();
    Model { weight, bias: Some(bias) }
}

/// Checks that a failing step returns its model, and that a valid step accepts it.
fn survives(step: Jit<'_, (Model, Array), Array>, x: &Array, expected: Expect) {
    let failed = step.call(model(), x).unwrap_err();
    let text = failed.to_string();
    // Only the first line: locations and plugin messages have their own snapshots.
    expected.assert_eq(text.lines().next().unwrap());
    let model = failed.args.0.expect("the model is returned");
    assert!(failed.args.1.is_none(), "the borrowed argument is not returned");
    assert_eq!(model.bias.as_ref().unwrap().to_vec::<f32>().unwrap(), [0.5]);
    let good = jit(|model: Model, x: Array| &model.weight * &x);
    let x = Array::from_slice(&[3.0f32, 4.0], [2]).unwrap();
    assert_eq!(good.call(model, &x).unwrap().to_vec::<f32>().unwrap(), [3.0, 8.0]);
    assert_eq!(step.stats().signatures, 0, "a failed signature is not cached");
    let again =
        step.call(crate::errors::survival::model(), &x).map_err(|failed| failed.args.0.is_some());
    assert_ne!(again.err(), Some(false), "the second call has the same outcome");
}

mod on_cpu {
    use super::*;

    fn ones_of(shape: &[usize]) -> Array {
        ones(shape.to_vec())
    }

    #[test]
    fn survives_shape_mismatch() {
        let step = jit(|model: Model, x: Array| add(&model.weight, &x));
        let expected =
            expect!["error[shape]: add: shapes [2] and [3] do not broadcast: axis -1 is 2 and 3"];
        survives(step, &ones_of(&[3]), expected);
    }

    #[test]
    fn survives_shape_mismatch_under_grad_and_vmap() {
        let step = jit(|model: Model, xs: Array| {
            let loss = |w: &Array| {
                let w = w.clone();
                vmap(move |x: Array| add(&w, &x)).apply(&xs).sum()
            };
            grad(loss)(&model.weight)
        });
        survives(
            step,
            &ones_of(&[8, 3]),
            expect!["error[shape]: add: shapes [2] and [3] do not broadcast: axis -1 is 2 and 3"],
        );
    }

    #[test]
    fn survives_dtype_mismatch() {
        let step = jit(|model: Model, x: Array| bitwise_and(&model.weight, &x));
        survives(
            step,
            &ones_of(&[2]),
            expect!["error[dtype]: and: needs a bool or integer operand, got f32"],
        );
    }

    #[test]
    fn survives_branch_on_traced_value() {
        let step = jit(|model: Model, x: Array| match x.sum().item::<f32>().unwrap() > 0.0 {
            true => model.weight,
            false => x,
        });
        survives(
            step,
            &ones_of(&[2]),
            expect![
                "error[tracer]: asked for the elements of a traced array, which has none while tracing"
            ],
        );
    }

    #[test]
    fn survives_tree_mismatch() {
        let step = jit(|model: Model, _: Array| {
            let other = Model { bias: None, ..model.clone() };
            tree::zip_map(&model, &other, |a, b| a + b).weight
        });
        survives(
            step,
            &ones_of(&[2]),
            expect![
                "error[tree]: $.bias: the structures differ: the first tree has `Some`, the second has `None`"
            ],
        );
    }

    #[test]
    fn survives_leaked_tracer_in_captures() {
        let kept = Arc::new(Mutex::new(None));
        let keep = kept.clone();
        let leak = move |x: Array| {
            *keep.lock().unwrap() = Some(x.clone());
            x
        };
        eval_shape(leak, f32s(&[2])).unwrap();
        let tracer: Array = kept.lock().unwrap().take().unwrap();
        let step = jit(move |model: Model, _: Array| add(&model.weight, &tracer));
        survives(
            step,
            &ones_of(&[2]),
            expect!["error[tracer]: a traced array was used outside the trace that made it"],
        );
    }

    #[test]
    fn survives_leaked_tracer_in_arguments() {
        let kept = Arc::new(Mutex::new(None));
        let keep = kept.clone();
        let leak = move |x: Array| {
            *keep.lock().unwrap() = Some(x.clone());
            x
        };
        eval_shape(leak, f32s(&[2])).unwrap();
        let tracer: Array = kept.lock().unwrap().take().unwrap();
        let step = jit(|model: Model, x: Array| add(&model.weight, &x));
        let failed = step.call(model(), &tracer).unwrap_err();
        expect!["error[tracer]: a traced array was used outside the trace that made it"]
            .assert_eq(failed.to_string().lines().next().unwrap());
        let model = failed.args.0.expect("the model is returned");
        let x = ones_of(&[2]);
        assert_eq!(step.call(model, &x).unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0]);
    }

    #[test]
    fn survives_missing_rule() {
        let step = jit(|model: Model, _: Array| {
            grad(|w: &Array| bind1(Lowering::Refused, [w]).sum())(&model.weight)
        });
        survives(step, &ones_of(&[2]), expect!["error[unsupported]: mine: has no derivative"]);
    }

    #[test]
    fn survives_unsupported_platform() {
        let step = jit(|model: Model, _: Array| bind1(Lowering::Refused, [&model.weight]));
        survives(
            step,
            &ones_of(&[2]),
            expect![
                "error[unsupported]: lower(survives_unsupported_platform::{closure}) for cpu: only for another platform"
            ],
        );
    }

    #[test]
    fn survives_compiler_error() {
        let step = jit(|model: Model, _: Array| bind1(Lowering::Nonsense, [&model.weight]));
        let failed = step.call(model(), ones_of(&[2])).unwrap_err();
        let Error::Compile { dump, .. } = &failed.error else { panic!("{failed}") };
        let text = std::fs::read_to_string(dump.as_ref().expect("the text was dumped")).unwrap();
        assert!(text.contains("stablehlo.no_such_operation"), "{text}");
        assert!(failed.to_string().starts_with("error[compile]: "), "{failed}");
        let model = failed.args.0.expect("the model is returned");
        assert_eq!(model.weight.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(sin(zeros([1])).to_vec::<f32>().unwrap(), [0.0]);
    }

    /// An error during execution: the model is returned, or the error names the lost leaves.
    #[test]
    fn survives_out_of_memory() {
        let huge = jit(|model: Model, x: Array| {
            // 64 results of 32 GiB: no host has memory for all, and each alone can be compiled.
            let wide = |n: i32| broadcast_in_dim(&(&x + n), [1 << 17, 1 << 16], &[]);
            let weight = &model.weight + &x;
            (Model { weight, ..model }, (0..64).map(wide).collect::<Vec<_>>())
        });
        let x = Array::from_slice(&[1.0f32], []).unwrap();
        let model = model();
        // Otherwise the call may return before the plugin allocates the results.
        block_until_ready(&model).unwrap();
        block_until_ready(&x).unwrap();
        let failed = huge.call(model, &x).unwrap_err();
        expect![[r#"
            error[runtime]: executing survives_out_of_memory::{closure}: PJRT_LoadedExecutable_Execute: RESOURCE_EXHAUSTED: Out of memory allocating 34359738368 bytes. (plugin pjrt_c_api_cpu_plugin.so (API 0.115))
              the program needs 2048.00 GiB on a device: 16 B of arguments, 2048.00 GiB of results, 0 B of intermediate values
              at its peak the program holds:
                2048.00 GiB  64 × f32[131072,65536]  broadcast_in_dim  at tests/cpu/errors/survival.rs:230:33
                       8 B  f32[2]  add  at tests/cpu/errors/survival.rs:231:26
                       4 B  f32[1]  argument $[0].bias
                       4 B  f32[]  argument $[1]
              PJRT status: RESOURCE_EXHAUSTED
               --> tests/cpu/errors/survival.rs:239:27
              help: the device is out of memory: use a smaller batch, `bf16`, or `remat` around each layer, which recomputes what the derivative needs; shard parameters and optimizer state over more devices; pass arguments by value that are not needed afterwards
              help: these donated arguments were lost: $[0].weight, $[0].bias; load them from a checkpoint, or pass them by reference to keep them"#]].assert_eq(&failed.to_string());
        assert!(failed.args.0.is_none(), "lost arguments are not returned");
        assert!(failed.args.1.is_none(), "the borrowed argument is not returned");
        assert_eq!(sin(zeros([1])).to_vec::<f32>().unwrap(), [0.0]);
    }
}
