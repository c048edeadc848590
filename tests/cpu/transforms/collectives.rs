//! Named axes under `vmap`: programs, errors, and values that parity with JAX does not cover.

use expect_test::{Expect, expect};
use oxidax::prelude::*;

fn f32s(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape)
}

/// Returns the program of `f` on `x: f32[shape]`.
fn shows<F: Fn(Array) -> O + Send + Sync + 'static, O: Tree>(
    shape: &[usize],
    f: F,
    expected: Expect,
) {
    expected.assert_eq(&make_program(f, f32s(shape)).unwrap().to_string());
}

/// Returns the error of `f` on `x: f32[3]` without its location, which must be in this file.
fn refuses<F: Fn(Array) -> O + Send + Sync + 'static, O: Tree>(f: F, expected: Expect) {
    let text = make_program(f, f32s(&[3])).unwrap_err().to_string();
    assert!(text.contains("--> tests/cpu/transforms/collectives.rs:"), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("-->")).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn named_axis_becomes_ordinary_operations() {
    shows(
        &[3],
        |x: Array| vmap(|x: Array| &x - psum(&x, "i") * axis_index("i")).axis_name("i").apply(x),
        expect![[r#"
            { lambda ; a:f32[3]. let
                b:f32[] = reduce_sum[axes=[0]] a
                c:i32[3] = iota[dimension=0 dtype="i32" shape=[3]]
                d:f32[3] = convert_element_type[dtype="f32" weak=false] c
                e:f32[3] = broadcast_in_dim[broadcast_dimensions=[] shape=[3]] b
                f:f32[3] = mul e d
                g:f32[3] = sub a f
              in (g) }"#]],
    );
}

#[test]
fn collective_over_another_axis_remains() {
    // The inner program, in which the sum over `i` is batched.
    let inner = |x: Array| {
        let text = make_program(
            |x: Array| vmap(|x: Array| psum(&sin(&x), "i")).axis_name("j").apply(x),
            Aval::new(DType::F32, [4]),
        );
        expect![[r#"
            { lambda ; a:f32[4]. let
                b:f32[4] = sin a
                c:f32[4] = psum[axis_names=["i"]] b
              in (c) }"#]]
        .assert_eq(&text.unwrap().to_string());
        x
    };
    make_program(move |x: Array| vmap(inner).axis_name("i").apply(x), f32s(&[3])).unwrap();
}

#[test]
fn psum_of_unmapped_values_multiplies() {
    shows(
        &[],
        |x: Array| {
            let example =
                || (psum(&x, "i"), pmax(&x, "i"), pmean(&x, "i"), pshuffle(&x, "i", &[2, 0, 1]));
            vmap(example).axis_name("i").axis_size(3).out_axes([None]).apply()
        },
        expect![[r#"
            { lambda ; a:f32[]. let
                b:f32[] = fill[dtype="f32" shape=[] value=3 weak=false]
                c:f32[] = mul a b
                d:f32[] = fill[dtype="f32" shape=[] value=3 weak=false]
                e:f32[] = mul a d
                f:f32[] = fill[dtype="f32" shape=[] value=3 weak=false]
                g:f32[] = div e f
              in (c a g a) }"#]],
    );
}

#[test]
fn inner_programs_are_batched_if_they_use_the_axis() {
    shows(
        &[],
        |x: Array| {
            let example = || jit(|x: Array| &x + psum(&x, "i")).name("f").apply(&x);
            vmap(example).axis_name("i").axis_size(3).out_axes([None]).apply()
        },
        expect![[r#"
            { lambda ; a:f32[]. let
                b:f32[] = call[name="vmap_f" program={ lambda ; a:f32[]. let
                    b:f32[] = fill[dtype="f32" shape=[] value=3 weak=false]
                    c:f32[] = mul a b
                    d:f32[] = add a c
                  in (d) }] a
              in (b) }"#]],
    );
}

#[test]
fn gradient_of_psum_sums_cotangents() {
    shows(
        &[3],
        |x: Array| {
            let slope = |x: Array| grad(|x: &Array| psum(&sin(x), "i"))(&x);
            vmap(slope).axis_name("i").apply(x)
        },
        expect![[r#"
            { lambda ; a:f32[3]. let
                b:f32[3] = sin a
                c:f32[3] = cos a
                d:f32[] = reduce_sum[axes=[0]] b
                e:f32[] = fill[dtype="f32" shape=[] value=1 weak=false]
                f:f32[] = fill[dtype="f32" shape=[] value=3 weak=false]
                g:f32[] = mul e f
                h:f32[3] = broadcast_in_dim[broadcast_dimensions=[] shape=[3]] g
                i:f32[3] = mul h c
              in (i) }"#]],
    );
}

#[test]
fn unknown_axis_name_lists_names_in_scope() {
    refuses(
        |x: Array| psum(&x, "i"),
        expect![[r#"
            error[value]: psum: no axis is named `i` here; no named axis is in scope
              while tracing: unknown_axis_name_lists_names_in_scope::{closure}
              help: `vmap(f).axis_name("i")` names the axis that it maps over, and inside of `shard_map` the axes of its mesh have their names"#]],
    );
    refuses(
        |x: Array| {
            let inner = |x: Array| vmap(|x: Array| all_gather(&x, "k", 0, Tiling::Tiled)).apply(x);
            let rows = |x: Array| vmap(|| inner(x.clone())).axis_name("j").axis_size(2).apply();
            vmap(|| rows(x.clone())).axis_name("i").axis_size(4).apply()
        },
        expect![[r#"
            error[value]: all_gather: no axis is named `k` here; in scope: `i` of size 4, `j` of size 2
              while tracing: unknown_axis_name_lists_names_in_scope::{closure} > vmap[i=4] > vmap[j=2] > vmap[batch=3]
              help: `vmap(f).axis_name("k")` names the axis that it maps over, and inside of `shard_map` the axes of its mesh have their names"#]],
    );
    refuses(
        |_: Array| axis_index("i"),
        expect![[r#"
            error[value]: axis_index: no axis is named `i` here; no named axis is in scope
              while tracing: unknown_axis_name_lists_names_in_scope::{closure}
              help: `vmap(f).axis_name("i")` names the axis that it maps over, and inside of `shard_map` the axes of its mesh have their names"#]],
    );
    refuses(
        |x: Array| &x * axis_size("i") as i32,
        expect![[r#"
            error[value]: axis_size: no axis is named `i` here; no named axis is in scope
              while tracing: unknown_axis_name_lists_names_in_scope::{closure}
              help: `vmap(f).axis_name("i")` names the axis that it maps over, and inside of `shard_map` the axes of its mesh have their names"#]],
    );
}

#[test]
fn axis_name_scope_ends_with_the_function() {
    refuses(
        |x: Array| {
            let sum = vmap(|x: Array| psum(&x, "i")).axis_name("i").apply(&x);
            sum + psum(&x, "i")
        },
        expect![[r#"
            error[value]: psum: no axis is named `i` here; no named axis is in scope
              while tracing: axis_name_scope_ends_with_the_function::{closure}
              help: `vmap(f).axis_name("i")` names the axis that it maps over, and inside of `shard_map` the axes of its mesh have their names"#]],
    );
    let failed = make_program(
        |x: Array| vmap(|x: Array| psum(&x, "i").reshape([7])).axis_name("i").apply(x),
        f32s(&[3]),
    );
    failed.unwrap_err();
    refuses(
        |x: Array| psum(&x, "i"),
        expect![[r#"
            error[value]: psum: no axis is named `i` here; no named axis is in scope
              while tracing: axis_name_scope_ends_with_the_function::{closure}
              help: `vmap(f).axis_name("i")` names the axis that it maps over, and inside of `shard_map` the axes of its mesh have their names"#]],
    );
}

#[test]
fn invalid_parameters_are_errors() {
    let named = |f: fn(&Array) -> Array| {
        move |x: Array| {
            let rows = |x: Array| vmap(|x: Array| f(&x)).axis_name("j").apply(x);
            vmap(|| rows(x.clone())).axis_name("i").axis_size(2).apply()
        }
    };
    refuses(
        named(|x| psum(x, ["i", "j", "i"])),
        expect![[r#"
        error[value]: psum: the axis `i` is named twice
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]
          help: name each axis once"#]],
    );
    refuses(
        named(|x| pmax(x, Vec::<String>::new())),
        expect![[r#"
        error[value]: pmax: the list of axis names is empty
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]"#]],
    );
    refuses(
        named(|x| ppermute(x, ["i", "j"], &[(0, 6)])),
        expect![[r#"
        error[value]: ppermute: the pair (0, 6) leaves the axes `i`, `j` of size 6
          operand: f32[]
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]"#]],
    );
    refuses(
        named(|x| ppermute(x, "i", &[(0, 1), (2, 0)])),
        expect![[r#"
        error[value]: ppermute: the pair (2, 0) leaves the axis `i` of size 2
          operand: f32[]
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]"#]],
    );
    refuses(
        named(|x| pshuffle(x, "j", &[0, 0, 1])),
        expect![[r#"
        error[value]: pshuffle: [0, 0, 1] is not a permutation of 0..3
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]"#]],
    );
    refuses(
        named(|x| all_gather(x, "j", 1, Tiling::Untiled)),
        expect![[r#"
        error[shape]: all_gather: axis 1 is out of range for an array of rank 1
          operand: f32[]
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]"#]],
    );
    refuses(
        named(|x| psum_scatter(&broadcast_to(x, [4]), "j", 0, Tiling::Untiled)),
        expect![[r#"
        error[shape]: psum_scatter: axis 0 has size 4, which must equal the size 3 of `j`
          operand: f32[4]
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]
          help: `Tiling::Tiled` allows several elements for each"#]],
    );
    refuses(
        named(|x| all_to_all(&broadcast_to(x, [4]), "j", 0, 0, Tiling::Tiled)),
        expect![[r#"
        error[shape]: all_to_all: axis 0 has size 4, which is not divisible by the size 3 of `j`
          operand: f32[4]
          while tracing: invalid_parameters_are_errors::{closure} > vmap[i=2] > vmap[j=3]"#]],
    );
}

#[test]
fn mismatched_sizes_are_errors() {
    let stated = |size: usize| {
        make_program(
            move |x: Array| vmap(|x: Array| psum(&x, "i")).axis_name("i").axis_size(size).apply(x),
            f32s(&[3]),
        )
    };
    stated(3).unwrap();
    let text = stated(4).unwrap_err().to_string();
    expect!["error[tree]: $[0]: vmap: axis 0 has size 3, and axis_size says 4"]
        .assert_eq(text.lines().next().unwrap());
    refuses(
        |x: Array| vmap(|x: Array| psum(&x, "i")).axis_name("i").in_axes([None]).apply(x),
        expect![[r#"
            error[value]: vmap: no argument is mapped, so the batch has no size
              while tracing: mismatched_sizes_are_errors::{closure}
              help: state it: `vmap(f).axis_size(n)`"#]],
    );
}

#[test]
fn unbound_collective_cannot_be_lowered() {
    let text = "{ lambda ; a:f32[3]. let\n    b:f32[3] = psum[axis_names=[\"i\"]] a\n  in (b) }";
    let program = parse_program(text).unwrap();
    let error = oxidax::passes::lower(&program, "f", "cpu").unwrap_err();
    expect![[r#"
        error[unsupported]: lower(f) for cpu: `psum` over `i` stands outside of any axis of that name
          help: it belongs inside `vmap(f).axis_name("i")`, or `shard_map` over a mesh with that axis"#]].assert_eq(&error.to_string());
}

mod on_cpu {
    use super::*;

    fn array(elements: &[f64]) -> Array {
        Array::from_slice(elements, [elements.len()]).unwrap()
    }

    fn elements(x: &Array) -> Vec<f64> {
        x.to_vec::<f64>().unwrap()
    }

    /// Returns the derivative along `d`, and its estimate by central differences.
    fn agrees(f: impl Fn(&Array) -> Array + Copy, x: &[f64], d: &[f64]) {
        let (_, tangent) = jvp(f, array(x), array(d));
        let moved = |h: f64| {
            let x: Vec<f64> = x.iter().zip(d).map(|(x, d)| x + h * d).collect();
            elements(&f(&array(&x)))
        };
        let (above, below) = (moved(1e-6), moved(-1e-6));
        for (tangent, (above, below)) in
            elements(&tangent).into_iter().zip(above.into_iter().zip(below))
        {
            let slope = (above - below) / 2e-6;
            assert!((tangent - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{tangent} not {slope}");
        }
        // Reverse mode is the adjoint of forward mode.
        let ct = array(&vec![0.7; x.len()]);
        let pulled = elements(&vjp(f, array(x)).1.apply(&ct));
        let forward: f64 = elements(&tangent).iter().map(|t| 0.7 * t).sum();
        let backward: f64 = pulled.iter().zip(d).map(|(p, d)| p * d).sum();
        assert!((forward - backward).abs() < 1e-9, "{forward} is not {backward}");
    }

    #[test]
    fn psum_in_a_branch_includes_unselected_examples() {
        let example = |x: Array| {
            let even = eq(remainder(axis_index("i"), 2), 0);
            cond(&even, |x: Array| sin(&x) * psum(&x, "i"), |x: Array| &x * &x, x)
        };
        let f = |x: &Array| vmap(example).axis_name("i").apply(x);
        agrees(f, &[0.1, 0.5, -0.7, 1.2], &[1.0, 0.3, -0.2, 0.6]);
    }

    #[test]
    fn pmax_has_a_derivative() {
        let example = |x: Array| pmax(&x, "i") * &x + pmin(&(&x * &x), "i");
        let f = |x: &Array| vmap(example).axis_name("i").apply(x);
        agrees(f, &[0.1, 0.5, -0.7, 1.2], &[1.0, 0.3, -0.2, 0.6]);
    }

    #[test]
    fn ppermute_fills_missing_sources_with_zeros() {
        let example = |x: Array| ppermute(&x, "i", &[(0, 1), (1, 2), (2, 3)]);
        let f = |x: &Array| vmap(example).axis_name("i").apply(x);
        assert_eq!(elements(&f(&array(&[1.0, 2.0, 3.0, 4.0]))), [0.0, 1.0, 2.0, 3.0]);
        agrees(f, &[0.1, 0.5, -0.7, 1.2], &[1.0, 0.3, -0.2, 0.6]);
    }

    #[test]
    fn several_axis_names_act_as_one_axis() {
        // Names in a different order. JAX 0.10 rejects these two under `vmap`.
        let x = array(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).reshape([2, 3]);
        let over = |f: fn(&Array) -> Array| {
            let rows = |x: Array| vmap(|x: Array| f(&x)).axis_name("j").apply(x);
            vmap(rows).axis_name("i").apply(&x)
        };
        let all = over(|x| all_gather(x, ["i", "j"], 0, Tiling::Untiled));
        assert_eq!(elements(&all)[..6], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let all = over(|x| all_gather(&x.reshape([1]), ["j", "i"], 0, Tiling::Tiled));
        assert_eq!(elements(&all)[..6], [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        // Example (i, j) gets the sum over all x of element 3 i + j.
        let sums = over(|x| {
            psum_scatter(&(x * arange_dtype(0, 6, 1, DType::F64)), ["i", "j"], 0, Tiling::Untiled)
        });
        assert_eq!(elements(&sums), [0.0, 15.0, 30.0, 45.0, 60.0, 75.0]);
        // Element q of (i, j) is the one sent by q: x_q (3 i + j).
        let tiles = over(|x| {
            let parts = x * arange_dtype(0, 6, 1, DType::F64);
            all_to_all(&parts.reshape([1, 6]), ["i", "j"], 1, 0, Tiling::Tiled).reshape([6])
        });
        assert_eq!(elements(&tiles)[12..18], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn inner_jit_is_batched_per_axis_name_and_size() {
        // The same inner program twice: cached derivations must not be confused.
        let f = jit(|x: Array| &x * 2.0 + psum(&x, "i"));
        let sums = |name: &'static str, size: usize| {
            let example = || {
                let inner = || f.apply(scalar(1.0f32));
                vmap(inner).axis_name(name).axis_size(size).apply()
            };
            vmap(example).axis_name("i").axis_size(2).apply().to_vec::<f32>().unwrap()
        };
        assert_eq!(sums("i", 3), [5.0; 6]);
        assert_eq!(sums("i", 4), [6.0; 8]);
        assert_eq!(sums("j", 3), [4.0; 6]);
    }

    #[test]
    fn reduce_function_may_use_the_axis() {
        let xs = Array::from_slice(&[1.0f32, 2.0, 3.0], [3]).unwrap();
        let example = || {
            let combine = |a: Array, b: Array| a + b + axis_index("i").astype(DType::F32);
            oxidax::control_flow::reduce(&xs, scalar(0.0f32), combine, &[0])
        };
        let sums = vmap(example).axis_name("i").axis_size(2).apply().to_vec::<f32>().unwrap();
        assert_eq!(sums[0], 6.0);
        assert!(sums[1] > 6.0, "{sums:?}");
    }

    #[test]
    fn disable_jit_keeps_collectives() {
        let x = array(&[0.1, 0.5, -0.7]);
        let example = |x: Array| sin(&x) / psum(&exp(&x), "i") + axis_index("i").astype(DType::F64);
        let f = || vmap(example).axis_name("i").apply(&x);
        let (whole, steps) = (elements(&f()), elements(&disable_jit(f)));
        assert!(whole.iter().zip(&steps).all(|(a, b)| (a - b).abs() < 1e-12), "{steps:?}");
    }
}
