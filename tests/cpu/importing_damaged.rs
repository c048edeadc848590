//! Damaged functions of `jax.export`: each is translated or refused, without a panic.

use oxidax::import::ImportedFunction;
use oxidax::prelude::*;
use safetensors::SafeTensors;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// A generator of random numbers: Marsaglia's xorshift, "Xorshift RNGs" (2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Returns the bytes with some of them changed, or a part of them removed or repeated.
fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match random.below(10) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            let from = random.below(bytes.len());
            let to = from + random.below(bytes.len() - from).min(64);
            let part = bytes[from..to].to_vec();
            bytes.splice(from..from, part);
        }
        _ => {
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = match random.below(3) {
                    0 => random.below(256) as u8,
                    1 => bytes[at] ^ (1 << random.below(8)),
                    _ => bytes[at].wrapping_add([1, 2, 255, 254][random.below(4)]),
                };
            }
        }
    }
    bytes
}

/// Returns abstract arguments of a function. Those with dimension variables are floats or integers
/// of 32 bits.
fn types_of(function: &ImportedFunction, file: &SafeTensors<'_>, name: &str) -> Vec<Array> {
    let leaf = |(index, stated): (usize, Option<Aval>)| {
        let aval = stated.unwrap_or_else(|| {
            let view = file.tensor(&format!("{name}.0.in{index}")).unwrap();
            let dtype = match view.dtype() {
                safetensors::Dtype::F32 => DType::F32,
                safetensors::Dtype::I32 => DType::I32,
                other => panic!("{name}: argument {index} is of {other:?}"),
            };
            Aval::new(dtype, view.shape())
        });
        eval_shape(|x: Array| x, aval).unwrap()
    };
    function.input_types().into_iter().enumerate().map(leaf).collect()
}

/// Translates `count` damaged copies of each of the functions of JAX 0.10.2.
fn translate(count: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python-compat/fixtures/imported");
    let recorded = std::fs::read(folder.join("0.10.2.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&recorded).unwrap();
    let names = file.names().into_iter().filter(|name| !name.contains('.'));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    let (mut translated, mut refused) = (0, 0);
    for name in &names {
        let bytes = file.tensor(name).unwrap().data().to_vec();
        let function = ImportedFunction::read(&bytes).unwrap();
        if function.n_devices() > 1 || name == "results/typed_key" {
            continue;
        }
        let leaves = types_of(&function, &file, name);
        let seed = |h: u64, b: u8| h.wrapping_mul(31).wrapping_add(u64::from(b));
        let mut random = Random(name.bytes().fold(88_172_645_463_325_252, seed));
        for number in 0..count {
            let bytes = damaged(&bytes, &mut random);
            let run = || {
                let function = ImportedFunction::read(&bytes)?;
                let call = |leaves: Vec<Array>| -> Vec<Array> {
                    function.call_flat(leaves).unwrap_or_else(|error| oxidax::core::throw(error))
                };
                eval_shape(call, &leaves)
            };
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(_)) => translated += 1,
                Ok(Err(_)) => refused += 1,
                Err(_) => panic!("{name}: damaged copy {number} ends in a panic"),
            }
        }
    }
    assert!(translated > count && refused > count, "{translated} translated, {refused} refused");
    eprintln!("{translated} translated, {refused} refused");
}

#[test]
fn damaged_functions_are_translated_or_refused() {
    translate(20);
}

#[test]
#[ignore = "a million damaged functions take long: run it after changes of the translation"]
fn a_million_damaged_functions_are_translated_or_refused() {
    translate(14_000);
}
