//! Named scopes in equations, errors, lowered text and the compiler's names of operations.

use oxidax::core::Program;
use oxidax::prelude::*;
use oxidax::profile::named_scope;

fn f32s(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape)
}

/// Returns the scope and the operation of each equation, also of held programs.
fn scopes(program: &Program) -> Vec<String> {
    let mut found = Vec::new();
    for eqn in program.eqns() {
        found.push(format!("{}:{}", eqn.loc.scope_path(), eqn.primitive.name()));
        if let Some(holder) = eqn.primitive.as_higher_order() {
            found.extend(holder.programs().into_iter().flat_map(|(_, inner)| scopes(inner)));
        }
    }
    found
}

#[test]
fn operations_in_bodies_of_loops_and_branches_have_the_scopes_around_them() {
    let f = |x: Array| {
        named_scope("loop", || fori_loop(0, 3, |_, x: Array| named_scope("body", || sin(&x)), x))
    };
    let found = scopes(&make_program(f, f32s(&[2])).unwrap());
    assert!(found.contains(&"loop/body:sin".to_owned()), "{found:?}");

    let f = |x: Array| {
        named_scope("choice", || {
            let is_positive = gt(x.sum(), 0.0);
            let yes = |x: Array| named_scope("yes", || exp(&x));
            cond(&is_positive, yes, |x: Array| named_scope("no", || tanh(&x)), x)
        })
    };
    let found = scopes(&make_program(f, f32s(&[2])).unwrap());
    for expected in ["choice/yes:exp", "choice/no:tanh", "choice:reduce_sum"] {
        assert!(found.contains(&expected.to_owned()), "{found:?} has no {expected}");
    }
}

#[test]
fn derivatives_and_batches_keep_scopes() {
    let f = |x: &Array| named_scope("square", || (x * x).sum());
    let found = scopes(&make_program(grad(f), f32s(&[3])).unwrap());
    assert!(found.contains(&"transpose(jvp(square)):mul".to_owned()), "{found:?}");

    let hessian = |x: Array, v: Array| jvp(grad(|x: &Array| (x * f(x)).sum()), &x, &v).1;
    let found = scopes(&make_program(hessian, (f32s(&[3]), f32s(&[3]))).unwrap());
    assert!(found.iter().any(|scope| scope.starts_with("jvp(")), "{found:?}");

    let batched = make_program(vmap(|x: Array| f(&x)), f32s(&[4, 3])).unwrap();
    assert_eq!(scopes(&batched), ["square:mul", "square:reduce_sum"]);
}

#[test]
fn errors_show_scopes_among_the_transforms() {
    let f = jit(|x: Array| named_scope("head", || grad(|x: &Array| x.matmul(x).sum())(&x)));
    let error = f.lower(f32s(&[2, 3])).unwrap_err().to_string();
    assert!(
        error.contains("while tracing: jit({{closure}}) > head > grad({{closure}})")
            || error.contains(" > head > grad("),
        "{error}"
    );
}

#[test]
fn deep_nesting_of_scopes_is_no_recursion() {
    fn nested(depth: usize, x: &Array) -> Array {
        match depth {
            0 => make_program(|x: Array| sin(&x), f32s(&[])).map(|_| sin(x)).unwrap(),
            _ => named_scope("level", || nested(depth - 1, x)),
        }
    }
    let program = make_program(|x: Array| nested(100, &x), f32s(&[])).unwrap();
    assert_eq!(program.eqns()[0].loc.scope_path().split('/').count(), 100);
}

#[test]
fn programs_of_outermost_functions_do_not_depend_on_the_scope_of_the_call() {
    let f = |x: Array| named_scope("inside", || sin(&x));
    let lowered = named_scope("outside", || jit(f).lower(f32s(&[2])).unwrap());
    let text = lowered.as_text("cpu").unwrap();
    assert!(text.contains("\"inside/sin\"") && !text.contains("outside"), "{text}");

    let program = make_program(|x: Array| named_scope("outer", || jit(f).apply(x)), f32s(&[2]));
    let found = scopes(&program.unwrap());
    assert!(found.contains(&"outer/inside:sin".to_owned()), "{found:?}");
}

#[test]
fn layers_with_different_names_share_one_function() {
    let layer = |x: &Array, index: usize| {
        named_scope(&format!("layer_{index}"), || {
            let h = named_scope("mlp", || tanh(&(x.matmul(x) + 1.0)));
            let h = h.matmul(x) * 0.5;
            exp(&(&h - h.max_axes(0))) / 7.0
        })
    };
    let f = jit(move |x: Array| (0..6).fold(x, |x, index| layer(&x, index)));
    let lowered = f.lower(f32s(&[64, 64])).unwrap();
    let parts = lowered.repeated_parts("cpu").unwrap();
    assert_eq!(parts.iter().map(|part| part.times).collect::<Vec<_>>(), [6], "{parts:?}");
    let text = lowered.as_text("cpu").unwrap();
    assert!(text.contains("\"layer_*/mlp/tanh\""), "{text}");
    let name = &parts[0].name;
    assert!(text.contains(&format!("\"layer_3/{name}[3]\"")), "{text}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn compiler_names_operations_by_their_scopes() {
        let model = |x: &Array, w: &Array| {
            let h = named_scope("encoder", || x.matmul(w));
            named_scope("head", || (&h * &h).sum())
        };
        let compiled = jit(grad(model)).lower(f32s(&[64, 64]), f32s(&[64, 64])).unwrap();
        let text = compiled.compile().unwrap().as_text().unwrap();
        assert!(text.contains("op_name=\"jvp(encoder)/dot_general"), "{text}");
        assert!(text.contains("op_name=\"transpose(jvp(encoder))/dot_general"), "{text}");
    }

    #[test]
    fn results_and_compiled_programs_do_not_depend_on_names() {
        let f = |name: &'static str| move |x: Array| named_scope(name, || sin(&x) * 2.0);
        let x = Array::from_slice(&[0.5f32, 1.5], [2]).unwrap();
        let (a, b) = (jit(f("a")).call(&x).unwrap(), jit(f("b")).call(&x).unwrap());
        assert_eq!(a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    }
}
