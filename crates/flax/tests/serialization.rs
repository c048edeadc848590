//! Bytes that Flax 0.12 wrote, and files of oxidax.

#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use oxidax::prelude::*;
use oxidax_flax::serialization::{
    StateDict, from_bytes, from_state_dict, msgpack_restore, msgpack_serialize, to_bytes,
    to_state_dict,
};
use std::collections::BTreeMap;

/// `{"a": float32 [0, 1, 2], "b": {"c": bfloat16 [1.5, -2], "d": int32 7}, "e": bool [[True,
/// False]]}`.
const ARRAYS: &str = "83a161c71901939103a7666c6f61743332c40c000000000000803f00000040a16282a163c7120\
    1939102a862666c6f61743136c404c03f00c0a164c70e039390a5696e743332c40407000000a165c70d0193920102a4\
    626f6f6cc4020100";

/// `{"n": 3, "x": 1.5, "t": "ab", "z": None, "l": [1, 2], "f": True, "c": 1+2j, "big": 2**40,
/// "neg": -5}`.
const SCALARS: &str = "89a16e03a178cb3ff8000000000000a174a26162a17ac0a16c82a13001a13102a166c3a163c71\
    30292cb3ff0000000000000cb4000000000000000a3626967cf0000010000000000a36e6567fb";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[derive(Tree, Clone)]
struct Inner {
    c: Array,
    d: Array,
}

#[derive(Tree, Clone)]
struct Outer {
    a: Array,
    b: Inner,
    e: Array,
}

mod on_cpu {
    use super::*;

    fn template() -> Outer {
        let b = Inner { c: zeros(([2], DType::BF16)), d: zeros(([], DType::I32)) };
        Outer { a: zeros([3]), b, e: zeros(([1, 2], DType::Bool)) }
    }

    #[test]
    fn bytes_of_flax_are_read() {
        let restored = from_bytes(&template(), &bytes(ARRAYS)).unwrap();
        assert_eq!(restored.a.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
        let c = restored.b.c.astype(DType::F32);
        assert_eq!(c.to_vec::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(restored.b.d.item::<i32>().unwrap(), 7);
        assert_eq!(restored.e.to_vec::<bool>().unwrap(), [true, false]);
    }

    #[test]
    fn written_bytes_are_those_of_flax() {
        let tree = BTreeMap::from([("a".to_owned(), arange(3).astype(DType::F32))]);
        let expected = bytes(&format!("81{}", &ARRAYS[2..62]));
        assert_eq!(to_bytes(&tree).unwrap(), expected);
    }

    #[test]
    fn a_tree_survives_the_way_to_bytes_and_back() {
        let model =
            vec![nn::Linear::new(random::key(0), 3, 2), nn::Linear::new(random::key(1), 2, 1)];
        let other =
            vec![nn::Linear::new(random::key(2), 3, 2), nn::Linear::new(random::key(3), 2, 1)];
        let restored = from_bytes(&other, &to_bytes(&model).unwrap()).unwrap();
        for (found, expected) in tree::leaves(&restored).iter().zip(tree::leaves(&model)) {
            assert_eq!(found.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
        }
    }

    #[test]
    fn other_structures_are_refused() {
        let dict = to_state_dict(&template());
        let missing = from_state_dict(&[template(), template()], &dict).err().unwrap();
        assert!(missing.to_string().contains("`0/a` f32[3] is missing"), "{missing}");
        let further = from_state_dict(&template().b, dict.get("b").unwrap());
        assert!(further.is_ok());
        let further = from_state_dict(&BTreeMap::from([("a".to_owned(), zeros([3]))]), &dict);
        let further = further.err().unwrap().to_string();
        assert!(further.contains("`b/c` bf16[2] is not in the template"), "{further}");
        let shape = Outer { a: zeros([4]), ..template() };
        let shape = from_state_dict(&shape, &dict).err().unwrap().to_string();
        assert!(shape.contains("`a` is f32[3], the template has f32[4]"), "{shape}");
    }
}

#[test]
fn scalars_of_flax_are_read_and_written() {
    let StateDict::Map(mut entries) = msgpack_restore(&bytes(SCALARS)).unwrap() else {
        panic!("not a dictionary");
    };
    // A complex number is an array, which needs a device.
    entries.remove("c");
    let restored = msgpack_restore(&msgpack_serialize(&StateDict::Map(entries)).unwrap()).unwrap();
    assert!(matches!(restored.get("n"), Some(StateDict::Int(3))));
    assert!(matches!(restored.get("big"), Some(StateDict::Int(n)) if *n == 1 << 40));
    assert!(matches!(restored.get("neg"), Some(StateDict::Int(-5))));
    assert!(matches!(restored.get("x"), Some(StateDict::Float(x)) if *x == 1.5));
    assert!(matches!(restored.get("t"), Some(StateDict::Text(text)) if text == "ab"));
    assert!(matches!(restored.get("f"), Some(StateDict::Bool(true))));
    assert!(matches!(restored.get("z"), Some(StateDict::Nil)));
    assert!(matches!(restored.get("l").unwrap().get("1"), Some(StateDict::Int(2))));
}

#[test]
fn damaged_bytes_are_errors() {
    let whole = bytes(SCALARS);
    for end in 0..whole.len() - 1 {
        assert!(msgpack_restore(&whole[..end]).is_err(), "{end} bytes");
    }
    assert!(msgpack_restore(&[0xc1]).is_err());
    assert!(msgpack_restore(&[0xdd, 0xff, 0xff, 0xff, 0xff]).is_err());
}
