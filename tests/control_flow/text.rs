//! The text of loops and choices: printed, parsed, lowered.

use crate::support::steps;
use expect_test::expect;
use oxidax::passes::{lower, verify};
use oxidax::prelude::*;

fn aval(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape)
}

/// The module without locations.
fn module(f: impl Fn(Array) -> Array + Send + Sync + 'static, x: Aval) -> String {
    let text = lower(&make_program(f, x).unwrap(), "f", "cpu", false).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("#loc"));
    lines.map(|line| line.split(" loc(").next().unwrap_or(line).to_string() + "\n").collect()
}

#[test]
fn programs_inside_print_and_parse() {
    let f = |xs: Array, n: Array| {
        let step = |c: Array, x: Array| {
            let c = cond(&gt(&x, 0.0), |c: Array| sin(&c) * &n, |c: Array| c, c);
            (c.clone(), c)
        };
        let (last, ys) = scan(step, scalar(1.0f32), xs);
        (while_loop(|y: Array| lt(&y, &n), |y: Array| &y + &y, last), ys)
    };
    let program = make_program(f, (aval(&[5]), aval(&[]))).unwrap();
    let text = program.to_string();
    let parsed = parse_program(&text).unwrap();
    assert_eq!(parsed, program);
    assert_eq!(parsed.to_string(), text);
    verify(&parsed).unwrap();
    expect![[r#""#]].assert_eq(&text);
}

#[test]
fn texts_that_do_not_fit_are_refused() {
    let refused = |text: &str| parse_program(text).unwrap_err().to_string();
    let scan = |body: &str, params: &str| {
        let text = format!(
            "{{ lambda ; a:f32[] b:f32[3]. let\n    c:f32[] = scan[{params} body={body}] a b\n  in (c) }}"
        );
        refused(&text)
    };
    let body = "{ lambda ; a:f32[] b:f32[]. let\n  in (a) }";
    let params = |length: usize, n_carry: usize| {
        format!("length={length} n_carry={n_carry} n_consts=0 reverse=false unroll=1")
    };
    expect![[r#""#]].assert_eq(&scan(body, &params(4, 1)));
    expect![[r#""#]].assert_eq(&scan(body, &params(3, 7)));
    expect![[r#""#]].assert_eq(&scan(body, "length=3"));
    expect![[r#""#]].assert_eq(&refused("{ lambda ; a:i32[]. let\n    = cond a\n  in (a) }"));
}

#[test]
fn a_scan_lowers_to_a_while_with_a_counter() {
    let f = |xs: Array| {
        let options = ScanOptions { reverse: true, ..ScanOptions::default() };
        scan_with(|c: Array, x: Array| (&c + x.sum(), c), scalar(0.0f32), xs, options).1
    };
    expect![[r#""#]].assert_eq(&module(f, aval(&[4, 2])));
}

#[test]
fn unrolled_steps_stand_one_after_the_other() {
    let by = |unroll: usize| {
        let options = ScanOptions { unroll, ..steps(5) };
        let text = module(
            move |x: Array| scan_with(|c: Array, ()| (sin(&c), ()), x, (), options).0,
            aval(&[]),
        );
        (text.matches("stablehlo.sine").count(), text.matches("stablehlo.while").count())
    };
    // In the loop and behind it.
    assert_eq!(by(1), (1, 1));
    assert_eq!(by(2), (3, 1));
    assert_eq!(by(5), (5, 0));
    assert_eq!(by(0), (5, 0));
}

#[test]
fn a_choice_lowers_to_a_case() {
    let f = |x: Array| cond(&gt(x.sum(), 0.0), |x: Array| sin(&x), |x: Array| &x * 2.0, &x);
    expect![[r#""#]].assert_eq(&module(f, aval(&[3])));
}

#[test]
fn a_loop_lowers_to_a_while() {
    let f = |x: Array| while_loop(|y: Array| lt(y.sum(), 9.0), |y: Array| &y + &x, &x);
    expect![[r#""#]].assert_eq(&module(f, aval(&[3])));
}
