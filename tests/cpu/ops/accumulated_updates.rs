//! Updates that are added to another array in place.

use oxidax::prelude::*;

/// A table that is indexed and multiplied, as an embedding that is also the head of a model.
fn tied(table: &Array, ids: &Array) -> Array {
    let rows = take(table, ids, 0);
    logsumexp(rows.matmul(&table.t()), -1).sum() + (&rows * &rows).sum()
}

fn gradient(table: Array, ids: Array) -> Array {
    grad(|table: &Array| tied(table, &ids))(&table)
}

/// Returns the operations of a gradient's text that begin with a name.
fn count(
    f: impl Fn(Array, Array) -> Array,
    avals: [Aval; 2],
    platform: &str,
    operation: &str,
) -> usize {
    let [x, y] = avals;
    let program = make_program(f, (x, y)).unwrap();
    let text = oxidax::passes::lower(&program, "f", platform).unwrap().text;
    text.lines().filter(|line| line.contains(operation)).count()
}

/// A table of zeros in the text.
const ZEROS: &str = "dense<0x00000000> : tensor<6x4xf32>";

fn avals() -> [Aval; 2] {
    [Aval::new(DType::F32, [6, 4]), Aval::new(DType::I32, [5])]
}

#[test]
fn gradient_of_a_tied_table_has_no_table_of_zeros() {
    let scatters = |platform| count(gradient, avals(), platform, "stablehlo.scatter\"");
    assert_eq!([scatters("cpu"), scatters("tpu")], [1, 1]);
    assert_eq!(count(gradient, avals(), "cpu", ZEROS), 0);
    assert_eq!(count(gradient, avals(), "tpu", ZEROS), 1);
}

#[test]
fn updates_that_are_used_twice_stay() {
    let twice = |x: Array, ids: Array| {
        let updates = zeros([6, 4]).at(i![&ids]).add(1.0);
        &x + &updates + updates * 2.0
    };
    assert_eq!(count(twice, avals(), "cpu", ZEROS), 1);
    let once = |x: Array, ids: Array| &x + zeros([6, 4]).at(i![&ids]).add(1.0);
    assert_eq!(count(once, avals(), "cpu", ZEROS), 0);
    let replaced = |x: Array, ids: Array| &x + zeros([6, 4]).at(i![&ids]).set(1.0);
    assert_eq!(count(replaced, avals(), "cpu", ZEROS), 1);
    let ones = |x: Array, ids: Array| &x + ones([6, 4]).at(i![&ids]).add(1.0);
    assert_eq!(count(ones, avals(), "cpu", "dense<0x3F800000> : tensor<6x4xf32>"), 1);
}

mod on_cpu {
    use super::*;

    #[test]
    fn gradient_of_a_tied_table_equals_its_operations() {
        let table = random::normal(random::key(0), ([6, 4], DType::F64));
        // Repeated rows, and a negative index.
        let ids = array![1, 3, 1, -1, 5];
        let compiled = jit(gradient).call(&table, &ids).unwrap().to_vec::<f64>().unwrap();
        let expected = disable_jit(|| gradient(table.clone(), ids.clone()));
        for (found, expected) in compiled.iter().zip(expected.to_vec::<f64>().unwrap()) {
            assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0));
        }
    }

    /// Integers have no rounding. The sums are in both orders, of two updates, and of an array that
    /// is used afterwards.
    #[test]
    fn sums_with_updates_are_exact() {
        let updates = |ids: &Array, by: i32| {
            zeros(([6, 4], DType::I32)).at(i![ids]).add(full([1, 4], by) * 3)
        };
        let f = |x: Array, ids: Array| {
            let first = &x + updates(&ids, 2);
            let second = updates(&ids, 3) + &first;
            let both = updates(&ids, 5) + updates(&(&ids - 1), 7);
            (second * &x, both + first)
        };
        let x = arange(24).reshape([6, 4]);
        let ids = array![0, 2, 2, 5, -3];
        let (a, b) = jit(f).call(&x, &ids).unwrap();
        let (c, d) = disable_jit(|| f(x.clone(), ids.clone()));
        assert_eq!(a.to_vec::<i32>().unwrap(), c.to_vec::<i32>().unwrap());
        assert_eq!(b.to_vec::<i32>().unwrap(), d.to_vec::<i32>().unwrap());
    }
}
