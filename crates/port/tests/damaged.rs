//! Damaged files give errors: no panic, no hang.

use std::fs;
use std::path::Path;

use oxidax_port::{Options, port};

/// A generator of numbers with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn recorded(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    fs::read(folder.join(format!("{name}.json"))).expect("a recorded function")
}

/// Functions with loops, branches, derivatives, gathers and random numbers.
const FUNCTIONS: &[&str] = &[
    "gelu",
    "lstm",
    "attention",
    "sample",
    "viterbi",
    "kmeans_step",
    "logistic_regression",
    "per_example_norms",
    "expm",
    "conv_net",
    "top_scores",
    "fft_convolve",
    "mlp_loss",
    "quartiles",
    "newton_root",
    "rk4",
    "dense_stack",
    "batch_norm",
];

#[test]
fn changed_bytes_do_not_panic() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for name in FUNCTIONS {
        let bytes = recorded(name);
        for _ in 0..24 {
            let mut damaged = bytes.clone();
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(damaged.len());
                damaged[at] = *b"0123456789[]{},:\"-e.xn".get(numbers.below(22)).expect("a byte");
            }
            refused += usize::from(port(&damaged, &Options::default()).is_err());
        }
    }
    assert!(refused > 50, "{refused} were refused");
}

#[test]
fn changed_numbers_do_not_panic() {
    let mut numbers = Numbers(7);
    let mut refused = 0;
    for name in FUNCTIONS {
        let bytes = recorded(name);
        let digits: Vec<usize> =
            (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
        for _ in 0..24 {
            let mut damaged = bytes.clone();
            let at = digits[numbers.below(digits.len())];
            damaged[at] = b'0' + numbers.below(10) as u8;
            refused += usize::from(port(&damaged, &Options::default()).is_err());
        }
    }
    assert!(refused > 50, "{refused} were refused");
}

#[test]
fn removed_parts_do_not_panic() {
    let mut numbers = Numbers(11);
    for name in FUNCTIONS {
        let bytes = recorded(name);
        for _ in 0..12 {
            let start = numbers.below(bytes.len());
            let end = (start + 1 + numbers.below(40)).min(bytes.len());
            let mut damaged = bytes.clone();
            damaged.drain(start..end);
            let _result = port(&damaged, &Options::default());
            port(&bytes[..start], &Options::default()).expect_err("the text ends early");
        }
    }
}

#[test]
fn removed_list_items_do_not_panic() {
    for name in FUNCTIONS {
        let bytes = recorded(name);
        let value: serde_json::Value = serde_json::from_slice(&bytes).expect("a JSON file");
        let mut count = 0;
        count_lists(&value, &mut count);
        for index in 0..count.min(40) {
            let mut damaged = value.clone();
            // Spread over the file.
            let mut position = index * count / count.min(40);
            shorten_list(&mut damaged, &mut position);
            let text = serde_json::to_vec(&damaged).expect("text");
            let _result = port(&text, &Options::default());
        }
    }
}

fn count_lists(value: &serde_json::Value, count: &mut usize) {
    match value {
        serde_json::Value::Array(items) => {
            *count += usize::from(!items.is_empty());
            items.iter().for_each(|item| count_lists(item, count));
        }
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|item| count_lists(item, count));
        }
        _ => {}
    }
}

/// Removes the last item of the list with this position.
fn shorten_list(value: &mut serde_json::Value, position: &mut usize) -> bool {
    match value {
        serde_json::Value::Array(items) => {
            if !items.is_empty() {
                if *position == 0 {
                    items.pop();
                    return true;
                }
                *position -= 1;
            }
            items.iter_mut().any(|item| shorten_list(item, position))
        }
        serde_json::Value::Object(fields) => {
            fields.values_mut().any(|item| shorten_list(item, position))
        }
        _ => false,
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let error = port(deep.as_bytes(), &Options::default()).expect_err("too deep");
    assert!(error.to_string().contains("recursion limit"), "{error}");
}

#[test]
fn another_version_is_an_error() {
    let text = br#"{"format":"oxidax-port","version":2}"#;
    let error = port(text, &Options::default()).expect_err("a newer version").to_string();
    assert!(error.contains("version 2") && error.contains("port.py"), "{error}");
}
