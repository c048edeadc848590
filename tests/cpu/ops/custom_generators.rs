//! Generators of random bits that programs define.

use oxidax::config::{self, ProcessConfig, with_default_prng_impl};
use oxidax::prelude::*;
use oxidax::random::{self, Key, KeyImpl, KeyOptions, PrngImpl, define_prng_impl, split};
use std::sync::LazyLock;

/// A hash of counters, with keys of `[2, 2]` words.
struct Mixing;

fn mixed(x: &Array) -> Array {
    let x = bitwise_xor(x, shift_right_logical(x, 16u32)) * 0x85eb_ca6bu32;
    let x = bitwise_xor(&x, shift_right_logical(&x, 13u32)) * 0xc2b2_ae35u32;
    bitwise_xor(&x, shift_right_logical(&x, 16u32))
}

impl PrngImpl for Mixing {
    fn key_shape(&self) -> Shape {
        Shape::new(&[2, 2])
    }
    fn seed(&self, seed: &Array) -> Array {
        mixed(&(iota(DType::U32, 4) * 7u32 + seed.astype(DType::U32))).reshape([2, 2])
    }
    fn split(&self, key: &Array, shape: &Shape) -> Array {
        let words = iota(DType::U32, 4 * shape.size()) * 5u32 + 1u32;
        let words = words.reshape([shape.size(), 2, 2]) + key;
        let dims: Vec<usize> = shape.iter().copied().chain([2, 2]).collect();
        mixed(&words).reshape(dims)
    }
    fn random_bits(&self, key: &Array, shape: &Shape, dtype: DType) -> Array {
        let word = key.index(i![0, 0]) + key.index(i![1, 1]);
        let bits = mixed(&(iota(DType::U32, shape.size()) * 3u32 + word)).reshape(shape);
        match dtype {
            DType::U64 => {
                let high = shift_left(bits.astype(DType::U64), 32u64);
                bitwise_or(high, mixed(&bits).astype(DType::U64))
            }
            dtype => bits.astype(dtype),
        }
    }
    fn fold_in(&self, key: &Array, data: &Array) -> Array {
        mixed(&(key + data))
    }
}

static MIXING: LazyLock<KeyImpl> = LazyLock::new(|| define_prng_impl("mixing", Mixing));

fn key(seed: i64) -> Key {
    random::key_with(seed, KeyOptions { implementation: *MIXING })
}

/// A generator whose functions return other types than they must.
struct Wrong;

impl PrngImpl for Wrong {
    fn key_shape(&self) -> Shape {
        Shape::new(&[2])
    }
    fn seed(&self, seed: &Array) -> Array {
        broadcast_to(&seed.astype(DType::U32), [2])
    }
    fn split(&self, key: &Array, _: &Shape) -> Array {
        key.clone()
    }
    fn random_bits(&self, _: &Array, shape: &Shape, _: DType) -> Array {
        zeros((shape, DType::I32))
    }
    fn fold_in(&self, key: &Array, _: &Array) -> Array {
        key.astype(DType::F32)
    }
}

#[test]
fn wrong_results_of_a_generator_are_refused() {
    let implementation = define_prng_impl("wrong", Wrong);
    let refused = |f: fn(Key) -> Array| {
        let program = move |data: Array| f(Key::from_data_with(data, implementation));
        eval_shape(program, Aval::new(DType::U32, [2])).unwrap_err().to_string()
    };
    let error = refused(|key| random::bits(key, [3]));
    let expected = "`random_bits` of the generator `wrong` returns i32[3], expected u32[3]";
    assert!(error.contains(expected), "{error}");
    let error = refused(|key| split(key, 3).data().clone());
    assert!(error.contains("`split` of the generator `wrong` returns u32[2], expected u32[3,2]"));
    let error = refused(|key| random::fold_in(key, 1).data().clone());
    assert!(error.contains("`fold_in` of the generator `wrong` returns f32[2]"), "{error}");
    let wrap = |data: Array| Key::from_data_with(data, *MIXING).data().clone();
    let error = eval_shape(wrap, Aval::new(DType::U32, [2])).unwrap_err().to_string();
    assert!(error.contains("a key of `mixing` is `u32[2,2]`, got u32[2]"), "{error}");
    let error = config::update(ProcessConfig::new().default_prng_impl(implementation));
    assert!(error.unwrap_err().to_string().contains("cannot be the process's default"));
}

mod on_cpu {
    use super::*;

    fn floats(x: &Array) -> Vec<f32> {
        x.to_vec().unwrap()
    }

    #[test]
    fn keys_of_a_custom_generator_split_fold_and_draw() {
        let one = key(7);
        assert_eq!(one.implementation(), *MIXING);
        assert_eq!((one.shape().dims(), one.data().shape().dims()), (&[][..], &[2, 2][..]));
        let words = |x: &Array| x.to_vec::<u32>().unwrap();
        let expected = Mixing.random_bits(one.data(), &Shape::new(&[5]), DType::U32);
        assert_eq!(words(&random::bits(one.clone(), [5])), words(&expected));
        let keys = split(one.clone(), [3, 2]);
        assert_eq!(keys.shape().dims(), [3, 2]);
        let expected = Mixing.split(one.data(), &Shape::new(&[3, 2]));
        assert_eq!(words(keys.data()), words(&expected));
        let [a, b] = one.clone().split();
        assert_eq!(words(a.data()), words(split(one.clone(), 2).get(0).data()));
        assert_ne!(words(a.data()), words(b.data()));
        let folded = random::fold_in(one.clone(), 9);
        let expected = Mixing.fold_in(one.data(), &full(([], DType::U32), 9));
        assert_eq!(words(folded.data()), words(&expected));
        let wide = random::bits(one.clone(), ([2], DType::U64)).to_vec::<u64>().unwrap();
        assert_ne!(wide[0] >> 32, wide[0] & 0xffff_ffff);
        let default = with_default_prng_impl(*MIXING, || random::key(7));
        assert_eq!(words(default.data()), words(one.data()));
    }

    #[test]
    fn samplers_use_a_custom_generator() {
        let n = 4000;
        let mean = |x: &Array| x.astype(DType::F32).mean().item::<f32>().unwrap();
        let near = |x: f32, expected: f32| assert!((x - expected).abs() < 0.1, "{x} {expected}");
        near(mean(&random::uniform(key(0), [n], 0.0..1.0)), 0.5);
        near(mean(&random::normal(key(1), [n])), 0.0);
        near(mean(&random::normal(key(1), [n]).square()), 1.0);
        near(mean(&random::exponential(key(2), [n])), 1.0);
        near(mean(&random::gamma(key(3), [n], 2.0)), 2.0);
        near(mean(&random::gamma(key(3), [n], 0.5)), 0.5);
        near(mean(&random::poisson(key(4), [n], 3.0)), 3.0);
        near(mean(&random::randint(key(5), [n], 0..10)), 4.5);
        near(mean(&random::multinomial(key(6), .., 100, &full([4], 0.25))), 25.0);
        let mut order = random::permutation(key(7), 50).to_vec::<i32>().unwrap();
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn custom_keys_pass_through_transforms() {
        let keys = split(key(3), 4);
        let alone: Vec<f32> =
            keys.iter().flat_map(|key| floats(&random::normal(key, [2]))).collect();
        let mapped = vmap(|key: Key| random::normal(key, [2])).apply(&keys);
        assert_eq!(floats(&mapped), alone);
        let gammas = vmap(|key: Key| random::gamma(key, [], 0.7)).apply(&keys);
        let each: Vec<f32> =
            keys.iter().map(|key| floats(&random::gamma(key, [], 0.7))[0]).collect();
        let near = |(x, y): (&f32, &f32)| (x - y).abs() < 1e-5;
        assert!(floats(&gammas).iter().zip(&each).all(near), "{gammas} {each:?}");
        // A compiled function takes keys of every generator.
        let draw = jit(|key: Key| random::uniform(random::fold_in(key, 1), [2], 0.0..1.0));
        let eager = random::uniform(random::fold_in(key(3), 1), [2], 0.0..1.0);
        assert_eq!(floats(&draw.call(key(3)).unwrap()), floats(&eager));
        assert_ne!(floats(&draw.call(random::key(3)).unwrap()), floats(&eager));
        assert_eq!(draw.stats().compiles, 2);
        let seeded = jit(|| random::normal(key(3), [2]));
        assert_eq!(floats(&seeded.call().unwrap()), floats(&random::normal(key(3), [2])));
        let (_, steps) = scan(|c: Array, key: Key| (c, random::normal(key, [2])), zeros([]), &keys);
        assert_eq!(floats(&steps), alone);
        let slope = grad(|a: &Array| random::gamma(key(1), [100], a).mean())(&full([], 3.0));
        assert!((slope.item::<f32>().unwrap() - 1.0).abs() < 0.5);
        let mut rng = random::stateful_rng_with(1, KeyOptions { implementation: *MIXING });
        assert_ne!(floats(&rng.random([2])), floats(&rng.random([2])));
    }

    /// The bits of `jax.extend.random.define_prng_impl` with the same functions, JAX 0.10.2.
    #[test]
    fn draws_equal_those_of_jax() {
        assert_eq!(
            random::bits(key(7), [3]).to_vec::<u32>().unwrap(),
            [1233336658, 1142904642, 4016535500]
        );
        assert_eq!(
            floats(&random::uniform(key(7), [3], 0.0..1.0)),
            [0.2871585, 0.26610315, 0.93517244]
        );
        assert_eq!(
            floats(&random::normal(split(key(7), 3).get(1), [3])),
            [-1.9372237, 0.3160837, 0.06626468]
        );
        assert_eq!(random::permutation(key(7), 6).to_vec::<i32>().unwrap(), [0, 3, 5, 2, 1, 4]);
        assert_eq!(random::randint(key(7), [4], 0..100).to_vec::<i32>().unwrap(), [47, 9, 69, 88]);
        let folded = random::fold_in(key(7), 5);
        assert_eq!(
            folded.data().to_vec::<u32>().unwrap(),
            [2476744856, 3333160736, 3382821434, 675407570]
        );
        let gammas = floats(&random::gamma(key(7), [3], 2.0));
        let near = |(x, y): (&f32, &f32)| (x - y).abs() < 1e-5;
        assert!(gammas.iter().zip(&[1.2046934f32, 2.8932273, 1.5665737]).all(near), "{gammas:?}");
    }
}
