//! Rules on small tensors.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use oxidax_weights::{ExpectedTensor, GgmlType, Rules, StoredTensor, WeightDType, Weights};
use std::collections::BTreeMap;

/// Returns a tensor of bytes that count up from a number.
fn counting(shape: &[usize], first: u8) -> StoredTensor {
    let count: usize = shape.iter().product();
    let bytes = (0..count).map(|index| first + index as u8).collect();
    StoredTensor::from_bytes(WeightDType::U8, shape, bytes).unwrap()
}

fn weights(tensors: &[(&str, StoredTensor)]) -> Weights {
    Weights::from_tensors(tensors.iter().cloned()).unwrap()
}

fn apply(rules: &str, weights: &Weights) -> Weights {
    Rules::parse(rules).unwrap().apply(weights).unwrap()
}

fn refused(rules: &str, weights: &Weights) -> String {
    Rules::parse(rules).unwrap().apply(weights).unwrap_err().message().to_owned()
}

fn names(weights: &Weights) -> Vec<&str> {
    weights.tensors().keys().map(String::as_str).collect()
}

fn bytes(weights: &Weights, name: &str) -> Vec<u8> {
    weights.get(name).unwrap().read().unwrap()
}

#[test]
fn splitting_and_joining_are_inverse() {
    let whole = weights(&[("h.0.qkv", counting(&[2, 6], 0))]);
    let split = apply("split h.{i}.qkv axis 1 -> {i}.q, {i}.k, {i}.v", &whole);
    assert_eq!(names(&split), ["0.k", "0.q", "0.v"]);
    assert_eq!(bytes(&split, "0.q"), [0, 1, 6, 7]);
    let joined = apply("join {i}.q, {i}.k, {i}.v axis 1 -> h.{i}.qkv", &split);
    assert_eq!(bytes(&joined, "h.0.qkv"), bytes(&whole, "h.0.qkv"));
    let message = refused("split h.{i}.qkv axis 1 -> a, b, c, d", &whole);
    let expected =
        "the rules do not fit:\n  `h.0.qkv`: split: axis 1 of u8[2,6] has no 4 equal parts";
    assert_eq!(message, expected);
}

#[test]
fn joins_name_missing_and_unequal_parts() {
    let parts = weights(&[
        ("0.q", counting(&[2, 2], 0)),
        ("0.k", counting(&[2, 3], 0)),
        ("1.q", counting(&[2, 2], 0)),
    ]);
    let message = refused("join {i}.q, {i}.k axis 0 -> {i}.qk", &parts);
    assert!(message.contains("`1.qk`: join: `1.k` is missing"), "{message}");
    let unequal = "`0.qk`: join: u8[2,3] cannot be joined to u8[2,2] along axis 0";
    assert!(message.contains(unequal), "{message}");
}

#[test]
fn axes_shapes_and_types_change() {
    let two = weights(&[("w", counting(&[2, 3], 0)), ("b", counting(&[6], 0))]);
    let mapped = apply("transpose w 1,0\nreshape b 2,_\n", &two);
    assert_eq!(mapped.get("w").unwrap().to_string(), "u8[3,2]");
    assert_eq!(bytes(&mapped, "w"), [0, 3, 1, 4, 2, 5]);
    assert_eq!(mapped.get("b").unwrap().to_string(), "u8[2,3]");
    let message = refused("transpose w 0,0\nreshape b 4,_\n", &two);
    assert!(message.contains("[0, 0] is not a permutation of the axes of u8[2,3]"), "{message}");
    assert!(message.contains("u8[6] cannot have the axis sizes [4, 1]"), "{message}");
    // Integers stay integers.
    assert_eq!(apply("cast * f32", &two).get("w").unwrap().to_string(), "u8[2,3]");
}

#[test]
fn blocks_are_kept_until_elements_are_needed() {
    let mut block = vec![0, 0x3c];
    block.extend(0..32);
    let dtype = WeightDType::Ggml(GgmlType::Q8_0);
    let tensor = StoredTensor::from_bytes(dtype, &[1, 32], block).unwrap();
    let quantized = weights(&[("w", tensor)]);
    assert_eq!(apply("rename w -> v", &quantized).get("v").unwrap().dtype(), dtype);
    let transposed = apply("transpose w 1,0", &quantized);
    assert_eq!(transposed.get("w").unwrap().to_string(), "f32[32,1]");
    assert_eq!(transposed.get("w").unwrap().read_f32().unwrap()[5], 5.0);
    let cast = apply("cast w bf16", &quantized);
    assert_eq!(bytes(&cast, "w")[2..4], [0x80, 0x3f]);
}

#[test]
fn names_that_collide_and_wrong_rules_are_listed() {
    let two = weights(&[("a.w", counting(&[1], 0)), ("b.w", counting(&[1], 0))]);
    let message = refused("rename {x}.w -> w", &two);
    assert!(message.contains("`a.w` and `b.w` are both called `w`"), "{message}");
    let rules = Rules::new().rename("a.{i}", "b.{j}").cast("*", WeightDType::I8);
    let message = rules.apply(&two).unwrap_err().message().to_owned();
    assert!(message.contains("`b.{j}` uses {j}, which `a.{i}` does not capture"), "{message}");
    assert!(message.contains("cast: i8 is not f16, bf16, f32 or f64"), "{message}");
    for (line, form) in [
        ("split a -> b", "split PATTERN axis NUMBER -> NAME, NAME, …"),
        ("join a axis x -> b", "join PATTERN, NAME, … axis NUMBER -> NAME"),
        ("transpose a", "transpose PATTERN 1,0"),
        ("reshape a 1,x", "reshape PATTERN 12,_"),
        ("cast a f99", "cast PATTERN f32"),
        ("drop", "drop PATTERN"),
        ("jump a", "rename, split, join, transpose, reshape, cast or drop"),
    ] {
        let error = Rules::parse(&format!("\n{line}")).unwrap_err();
        assert_eq!(error.to_string(), format!("line 2: `{line}`: expected `{form}`"));
    }
}

#[test]
fn all_differences_are_in_one_error() {
    let found = weights(&[
        ("up.w", counting(&[2, 3], 0)),
        ("down.w", counting(&[2], 0)),
        ("extra", counting(&[1], 0)),
    ]);
    let mapped = apply("rename up.* -> fc.*", &found);
    let tensor = |shape: &[usize]| ExpectedTensor::new(WeightDType::U8, shape);
    let expected = BTreeMap::from([
        ("fc.w".to_owned(), tensor(&[3, 2])),
        ("down.w".to_owned(), ExpectedTensor::new(WeightDType::F32, &[2])),
        ("missing".to_owned(), tensor(&[4])),
    ]);
    let message = mapped.check(&expected).unwrap_err().message().to_owned();
    let text = "\
the tensors do not fit the model:
  `down.w` is u8[2], expected f32[2], from `down.w`
  `fc.w` is u8[2,3], expected u8[3,2], from `up.w`
  `missing` (u8[4]) is missing
  `extra` (u8[1]) is surplus, from `extra`
  help: rules: `rename` maps names; `drop` drops tensors that the model does not have; \
`transpose` with 1,0 turns [out, in] into [in, out]; `cast` converts floats";
    assert_eq!(message, text);
    let table = "\
tensor   type     from
down.w   u8[2]    down.w  expected f32[2]
extra    u8[1]    extra   surplus
fc.w     u8[2,3]  up.w    expected u8[3,2]
missing  u8[4]    -       missing
";
    assert_eq!(mapped.table(&expected), table);
}
