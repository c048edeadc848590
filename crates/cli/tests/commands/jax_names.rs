//! Tests of `oxidax jax`.

use crate::user::User;

#[test]
fn a_name_is_printed_with_its_counterpart() {
    let user = User::new();
    let outcome = user.oxidax(&["jax", "jnp.einsum"]);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("jax.numpy.einsum\n  `einsum`\n"), "{}", outcome.stdout);
    let outcome = user.oxidax(&["jax", "einsum_path"]);
    assert!(outcome.stdout.contains("refused: "), "{}", outcome.stdout);
}

#[test]
fn names_in_several_modules_are_all_printed() {
    let outcome = User::new().oxidax(&["jax", "softmax"]);
    assert!(outcome.stdout.contains("jax.nn.softmax\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("flax.linen.softmax\n"), "{}", outcome.stdout);
}

#[test]
fn an_unknown_name_lists_similar_ones() {
    let outcome = User::new().oxidax(&["jax", "jnp.einsu"]);
    assert!(!outcome.succeeded);
    assert!(outcome.stderr.contains("no public name `jnp.einsu`"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("jax.numpy.einsum"), "{}", outcome.stderr);
}
