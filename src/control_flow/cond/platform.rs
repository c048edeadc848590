//! `platform_dependent`: a choice that the target of lowering makes.

use super::function::among_platforms;
use super::{Branches, Cond};
use crate::core::{Loc, OpErrorKind, trace};
use crate::tree::{Arg, Tree};

/// The names that branches may have.
const PLATFORMS: [&str; 6] = ["cpu", "cuda", "rocm", "gpu", "tpu", "default"];

/// Applies the branch for the platform that the program is compiled for. Only that branch is
/// lowered, so the others may hold operations that the platform does not support.
///
/// `platforms` names the platform of each branch: `"cpu"`, `"cuda"`, `"rocm"`, `"tpu"`, `"gpu"` for
/// any GPU, or `"default"` for platforms without a branch. `branches` are as those of
/// [`switch`](super::switch()): functions of the operand, by value or by reference, which return
/// trees of one structure and one type. The decision is made in lowering, so a program that is
/// traced on one platform can be compiled for another. All transforms pass through.
///
/// Throws `Op` (value) for an unknown or repeated name or another number of branches, `Op`
/// (unsupported) in lowering for a platform without a branch, `Tree` if results differ in type, and
/// whatever the branches throw.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: Array| {
///     platform_dependent(["cpu", "default"], (|x: &Array| sin(x), |x: &Array| tanh(x)), x)
/// };
/// let text = jit(f).lower(Aval::new(DType::F32, [3]))?.as_text("tpu")?;
/// assert!(text.contains("stablehlo.tanh"), "{text}");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn platform_dependent<A: Tree, O: Tree, M, const N: usize>(
    platforms: [&str; N],
    branches: impl Branches<A, O, M>,
    operand: impl Arg<A>,
) -> O {
    let loc = Loc::caller();
    let refuse = |message: String, help: &str| -> ! {
        let error = trace::op_error(OpErrorKind::Value, "platform_dependent", message, loc);
        trace::throw(error.with_help(help));
    };
    for (index, name) in platforms.iter().enumerate() {
        if !PLATFORMS.contains(name) {
            let known = PLATFORMS.join("`, `");
            refuse(format!("there is no platform `{name}`"), &format!("platforms are `{known}`"));
        }
        if platforms[..index].contains(name) {
            refuse(format!("`{name}` has two branches"), "name each platform once");
        }
    }
    let operand = &*operand.hold();
    branches.with_list(|list| {
        if list.len() != N || list.is_empty() {
            let message = format!("there are {} branches for {N} platforms", list.len());
            refuse(message, "pass one branch for each platform, in the same order");
        }
        among_platforms(platforms.map(str::to_string).to_vec(), list, operand, loc)
    })
}

impl Cond {
    /// Returns true if the target of lowering selects the program, not the first operand.
    pub fn is_platform_dependent(&self) -> bool {
        !self.platforms.is_empty()
    }
}
