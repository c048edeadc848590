//! Damaged compiled programs give an error, with a checksum that notices them and with a valid one.

mod on_cpu {
    use crate::alone::alone;
    use crate::damaged_data::fuzz_bytes;
    use crate::damaged_data::mutations::damaged;
    use oxidax::prelude::*;
    use oxidax_cache::CacheKeyBuilder;
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    /// Damaged programs of each kind.
    const PROGRAMS: u64 = 10_000;
    /// Offset of the digest: a magic number precedes it.
    const DIGEST: usize = 16;
    /// Offset of the header's length, the first byte that the digest covers.
    const LENGTH: usize = DIGEST + 32;
    const HEADER: usize = LENGTH + 8;

    type Example = Compiled<(Array,), (Array, Array)>;

    /// Returns a serialized function with a captured array.
    fn program() -> Vec<u8> {
        let table = Array::from_slice(&[1f32, 2.0, 3.0], [3]).unwrap();
        let function = jit(move |x: Array| (&x * &table, x.sum()));
        function.lower(ones([3])).unwrap().compile().unwrap().serialize().unwrap()
    }

    fn load(bytes: &[u8]) -> Result<(), Error> {
        let x = ones([3]);
        let results = (ones([3]), full([], 0f32));
        Example::deserialize(bytes, &x, &results).map(drop)
    }

    /// Damages the header and the captured arrays, and corrects the digest. The machine code stays:
    /// only trusted code is loaded.
    fn with_valid_digest(good: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let length: [u8; 8] = good[LENGTH..HEADER].try_into().unwrap();
        let captures = 3 * size_of::<f32>();
        let code = HEADER + u64::from_le_bytes(length) as usize + captures;
        let mut body = damaged(&good[LENGTH..code], random);
        body.extend_from_slice(&good[code..]);
        let mut digest = CacheKeyBuilder::new();
        digest.part("bytes", &body);
        [&good[..DIGEST], digest.finish().as_bytes(), &body].concat()
    }

    fn programs(count: u64) {
        let good = program();
        fuzz_bytes(count, std::slice::from_ref(&good), load);
        let mut refused = 0;
        for seed in 0..count {
            let bytes = with_valid_digest(&good, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
            if let Err(error) = load(&bytes) {
                let error = error.to_string();
                assert!(error.starts_with("error["), "seed {seed}: {error}");
                refused += 1;
            }
        }
        assert!(refused > count / 2, "only {refused} errors");
    }

    #[test]
    fn damaged_programs_give_errors() {
        let name = "damaged_programs::on_cpu::damaged_programs_give_errors";
        alone(name, || programs(PROGRAMS));
    }

    #[test]
    #[ignore = "a million programs of each kind: run it alone"]
    fn a_million_damaged_programs_give_errors() {
        programs(1_000_000);
    }
}
