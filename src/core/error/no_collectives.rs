//! [`no_collectives`]: a scope whose operations must not move data between devices.

use super::error::{Error, OpError, OpErrorKind};
use super::loc::{Loc, path};
use super::throw::throw;

/// Runs `f`, and makes every exchange between devices for an operation in it an error of the
/// function that is compiled.
///
/// The compiler inserts collectives where the shardings of operands do not fit an operation. When
/// [`jit`](crate::jit::jit) compiles a function that was traced through `no_collectives`, the
/// collectives of the compiled program that belong to operations in `f` are an error, before the
/// program runs and before anything is donated. The error has the line, the bytes, the cause and
/// the remedy. Collectives that the user wrote, such as
/// [`psum`](crate::ops::psum) in `shard_map`, are errors too, and so are constraints and `reshard`
/// in `f` that move data.
///
/// Derivatives of an operation in `f` belong to `f`, also if `grad` is called outside. So do the
/// iterations of a loop in `f`, and the examples of a `vmap` around it. A value from outside that
/// is moved for an operation in `f` counts; a result of `f` that is moved for an operation outside
/// does not. [`Jit::no_collectives`](crate::jit::Jit::no_collectives) covers a whole function, with
/// its arguments and results.
///
/// On one device it does nothing. Outside of `jit`, an operation or a derivative in `f` whose
/// program exchanges data is an error before it runs. Arguments that a call has to transfer first
/// are counted by [`JitStats::transferred`](crate::jit::JitStats::transferred).
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let rows = mesh.sharding(p!["data"])?;
/// let x = device_put(&ones([16, 4]), &rows)?;
/// // Each device has whole rows: their sums need no exchange, those of columns do.
/// let sums = jit(|x: Array| no_collectives(|| x.sum_axes([1])));
/// sums.call(&x)?;
/// let sums = jit(|x: Array| no_collectives(|| x.sum_axes([0])));
/// let error = sums.call(&x).unwrap_err().error;
/// assert_eq!(error.code(), "collective");
/// assert!(error.to_string().contains("all-reduce of 16 B over `data` (8 devices)"), "{error}");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Errors
/// Throws `Value` if the process has so many named scopes that this one cannot be recorded.
#[track_caller]
pub fn no_collectives<R>(f: impl FnOnce() -> R) -> R {
    let caller = Loc::caller();
    Loc::in_refusing_scope(|| {
        if !Loc::scoped().refuses_collectives() {
            throw(Error::Op(Box::new(OpError {
                kind: OpErrorKind::Value,
                primitive: "no_collectives".into(),
                message: "the process has too many different named scopes to record this one"
                    .into(),
                operands: Vec::new(),
                note: None,
                loc: caller,
                path: path(),
                help: Some("leave counters out of the names of scopes".into()),
            })));
        }
        f()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::error::Derivation;
    use crate::core::named_scope;

    #[test]
    fn derivatives_and_inner_scopes_are_inside() {
        let refuses = |loc: Loc| loc.refuses_collectives();
        assert!(!refuses(Loc::caller()));
        no_collectives(|| {
            let inside = Loc::caller();
            assert!(refuses(inside));
            assert!(refuses(named_scope("encoder", Loc::caller)));
            assert!(refuses(inside.derived(Derivation::Jvp).derived(Derivation::Transpose)));
            assert_eq!(path(), ["no_collectives"]);
        });
        assert!(refuses(named_scope("a", || no_collectives(Loc::caller))));
        assert!(!refuses(named_scope("no_collectives", Loc::caller)));
        assert!(!refuses(Loc::caller()));
    }
}
