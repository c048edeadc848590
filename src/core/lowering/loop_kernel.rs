//! Loops and whole programs that XLA's CPU compiler compiles as one kernel, and the rules that
//! choose them.
//!
//! XLA's CPU runtime runs a program operation by operation, and each costs more than a scalar's
//! arithmetic. A call with the attribute `xla_cpu_small_call` is one kernel instead, with loops.
//! Its code is generated without the libraries and threads of other operations, so a loop qualifies
//! only if its steps are small and hold no operation that such code lacks.

use crate::core::error::Loc;
use crate::core::program::cost::{Access, Contraction, Cost};
use crate::core::program::primitive::{Effects, Primitive, RunCount};
use crate::core::program::program::{Eqn, Program};
use crate::core::types::aval::Aval;
use std::fmt;

/// The attribute of the call. Without `inlineable` the compiler inlines it.
pub(super) const ATTRIBUTES: &str =
    "mhlo.frontend_attributes = {inlineable = \"false\", xla_cpu_small_call = \"true\"}";

/// An operation of a kernel reads and writes at most this many bytes. Above, the threads and the
/// vector code of separate operations pay.
const MAX_BYTES: u64 = 1 << 16;

/// The bytes that the operations of a kernel read and write on average. Above, better code for
/// each operation saves more than a start of each costs.
const MAX_MEAN_BYTES: u64 = 1 << 13;

/// The FLOPs of an operation that needs its operands as a whole, such as a decomposition.
const MAX_FLOPS: u64 = 1 << 17;

/// The equations of a kernel, those of held programs included. The time to compile a function grows
/// faster than its size, as does the time without a kernel.
const MAX_EQNS: usize = 2000;

/// The multiplications of a product of matrices in a kernel, whose code is a plain loop.
const MAX_MATRIX_PRODUCT: usize = 16 * 16 * 16;

/// The elements from which a reduction runs in a library, which a kernel cannot call.
const MIN_LIBRARY_REDUCTION: usize = 4096;

/// The elements of a vector up to which its product with a matrix is faster as a sum.
const MAX_SUM_WITH_VECTOR: usize = 2;

/// The multiplications of a product with a vector, which the library does not do faster.
const MAX_VECTOR_PRODUCT: usize = 256 * 256;

/// The products, reductions and decompositions from which a program without loops is a kernel. The
/// compiler fuses other operations into them.
const MIN_STARTS: usize = 4;

/// The multiplications from which a product gains from the library.
const MIN_LIBRARY_PRODUCT: usize = 64 * 64 * 64;

/// A loop of a lowered program, and how it is compiled for a CPU. Inside of
/// `enable_program_kernels` a program without loops has a report too.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopReport {
    /// The primitive: `scan` or `while`; `program` for a whole program.
    pub name: &'static str,
    /// The user's line; of a whole program, that of its first operation.
    pub loc: Loc,
    /// The number of steps, if it is fixed.
    pub steps: Option<usize>,
    /// One kernel, or operation by operation and why.
    pub form: LoopForm,
}

/// The form in which a loop is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopForm {
    /// The loop, or the program, is one kernel.
    Kernel,
    /// The loop is part of the kernel of a loop around it.
    Inside,
    /// The loop runs operation by operation, for this reason.
    Operations(String),
}

impl fmt::Display for LoopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoopReport { name, loc, steps, form } = self;
        match steps {
            Some(steps) => write!(f, "{loc}: {name} of {steps} steps: ")?,
            None => write!(f, "{loc}: {name}: ")?,
        }
        match form {
            LoopForm::Kernel => write!(f, "one kernel"),
            LoopForm::Inside => write!(f, "in the kernel of the loop around it"),
            LoopForm::Operations(reason) => write!(f, "operation by operation: {reason}"),
        }
    }
}

/// The number of steps of a loop. `None` in the place of a loop for other primitives.
pub(super) fn loop_steps(
    primitive: &dyn Primitive,
    operands: &[Aval],
    results: &[Aval],
) -> Option<Option<usize>> {
    let counts = primitive.as_higher_order()?.run_counts(operands, results);
    counts.iter().find_map(|count| match count {
        RunCount::Times(steps) if *steps > 1 => Some(Some(*steps)),
        RunCount::Unknown => Some(None),
        _ => None,
    })
}

/// Returns true if the program holds a product that gains from the library for products.
pub(super) fn uses_library(program: &Program) -> bool {
    program.eqns().iter().any(|eqn| {
        let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
        let product = eqn.primitive.contraction(&operands, &results);
        let holder = eqn.primitive.as_higher_order();
        product.is_some_and(|product| multiplications(&product) >= MIN_LIBRARY_PRODUCT)
            || holder.is_some_and(|h| h.programs().iter().any(|(_, inner)| uses_library(inner)))
    })
}

fn has_loops(program: &Program) -> bool {
    program.eqns().iter().any(|eqn| {
        let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
        let holder = eqn.primitive.as_higher_order();
        loop_steps(&*eqn.primitive, &operands, &results).is_some()
            || holder.is_some_and(|h| h.programs().iter().any(|(_, inner)| has_loops(inner)))
    })
}

/// Returns true if a kernel computes a product of matrices, or one with a very short vector, as a
/// sum of elementwise products, which is a part of the operations around it. Larger sums run in a
/// library, which a kernel cannot call.
pub(crate) fn is_sum(product: &Contraction) -> bool {
    let Contraction { m, n, k, .. } = *product;
    let is_small = multiplications(product) < MIN_LIBRARY_REDUCTION;
    let is_with_vector = m == 1 || n == 1;
    is_small && k > 1 && (!is_with_vector || k <= MAX_SUM_WITH_VECTOR)
}

fn multiplications(product: &Contraction) -> usize {
    let Contraction { batch, m, n, k, .. } = *product;
    [batch, m, n, k].into_iter().fold(1, usize::saturating_mul)
}

/// The reason that keeps a loop from being a kernel.
#[derive(Clone, Debug)]
pub(super) struct Obstacle {
    reason: String,
    /// The operation's line.
    loc: Loc,
}

impl From<String> for Obstacle {
    fn from(reason: String) -> Obstacle {
        Obstacle { reason, loc: Loc::UNKNOWN }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.loc.get() {
            Some(loc) => write!(f, "{} at {loc}", self.reason),
            None => write!(f, "{}", self.reason),
        }
    }
}

/// A loop that qualifies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kernel {
    n_eqns: usize,
    /// The bytes that all equations but products read and write.
    bytes: u64,
    /// It holds products of matrices, which must not run in a library.
    pub(super) has_products: bool,
    /// The operations that the compiler does not fuse into others.
    starts: usize,
}

impl Kernel {
    /// Checks an equation, with the programs that it holds.
    ///
    /// # Errors
    /// The reason why a kernel cannot hold it, or would be slow.
    pub(super) fn of(
        primitive: &dyn Primitive,
        operands: &[Aval],
        results: &[Aval],
    ) -> Result<Kernel, Obstacle> {
        let mut kernel = Kernel::default();
        let values = operands.iter().chain(results);
        check_values(primitive, values)?;
        kernel.check_programs(primitive, operands, results)?;
        kernel.check_mean()?;
        Ok(kernel)
    }

    /// Checks a whole program. `None` if it has loops, which are checked one by one.
    ///
    /// # Errors
    /// The reason why a kernel cannot hold it, or would gain little.
    pub(super) fn of_program(program: &Program) -> Result<Option<Kernel>, Obstacle> {
        let mut kernel = Kernel::default();
        if has_loops(program) {
            return Ok(None);
        }
        // Also arguments that are only returned would be copied.
        let [inputs, outputs] = [program.avals_in(), program.avals_out()];
        if let Some(large) = inputs.iter().chain(&outputs).find(|x| x.bytes() as u64 > MAX_BYTES) {
            let bytes = large.bytes();
            let reason = format!("{large} has {bytes} bytes, more than {MAX_BYTES}");
            return Err(reason.into());
        }
        for eqn in program.eqns() {
            let located =
                |obstacle: Obstacle| Obstacle { loc: obstacle.loc.or(eqn.loc), ..obstacle };
            kernel.check_eqn(program, eqn).map_err(located)?;
        }
        kernel.check_mean()?;
        match kernel.starts {
            0..MIN_STARTS => Err(format!(
                "{} products, reductions and decompositions, fewer than {MIN_STARTS}",
                kernel.starts
            )
            .into()),
            _ => Ok(Some(kernel)),
        }
    }

    fn check_mean(&self) -> Result<(), String> {
        let mean = self.bytes / (self.n_eqns as u64).max(1);
        if mean > MAX_MEAN_BYTES {
            return Err(format!(
                "its operations move {mean} bytes on average, more than {MAX_MEAN_BYTES}"
            ));
        }
        Ok(())
    }

    fn check_programs(
        &mut self,
        primitive: &dyn Primitive,
        operands: &[Aval],
        results: &[Aval],
    ) -> Result<(), Obstacle> {
        let Some(holder) = primitive.as_higher_order() else { return Ok(()) };
        let counts = holder.run_counts(operands, results);
        for ((_, program), count) in holder.programs().into_iter().zip(counts) {
            if count == RunCount::Never {
                continue;
            }
            for eqn in program.eqns() {
                self.check_eqn(program, eqn).map_err(|obstacle| {
                    // The innermost location is the operation's.
                    Obstacle { loc: obstacle.loc.or(eqn.loc), ..obstacle }
                })?;
            }
        }
        Ok(())
    }

    fn check_eqn(&mut self, program: &Program, eqn: &Eqn) -> Result<(), Obstacle> {
        self.n_eqns += 1;
        if self.n_eqns > MAX_EQNS {
            return Err(format!("more than {MAX_EQNS} operations").into());
        }
        let primitive = &*eqn.primitive;
        let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
        check_values(primitive, operands.iter().chain(&results))?;
        if let Some(obstacle) = primitive.kernel_obstacle() {
            return Err(format!("{} {obstacle}", primitive.name()).into());
        }
        if primitive.as_higher_order().is_some() {
            return self.check_programs(primitive, &operands, &results);
        }
        if let Some(product) = primitive.contraction(&operands, &results) {
            self.starts += 1;
            return Ok(self.check_product(&product)?);
        }
        let Cost { bytes, flops, access, .. } = primitive.cost(&operands, &results);
        self.starts += usize::from(matches!(access, Access::Reduction | Access::Whole));
        self.bytes = self.bytes.saturating_add(bytes);
        let name = primitive.name();
        if bytes > MAX_BYTES {
            return Err(format!("{name} moves {bytes} bytes, more than {MAX_BYTES}").into());
        }
        let elements = operands.iter().map(Aval::size).max().unwrap_or(0);
        if access == Access::Reduction && elements >= MIN_LIBRARY_REDUCTION {
            return Err(format!("{name} of {elements} elements runs in a library").into());
        }
        if access == Access::Whole && flops > MAX_FLOPS {
            return Err(format!("{name} has {flops} FLOPs, more than {MAX_FLOPS}").into());
        }
        Ok(())
    }

    fn check_product(&mut self, product: &Contraction) -> Result<(), String> {
        let Contraction { batch, m, n, k, .. } = *product;
        let has_vector = m == 1 || n == 1 || k == 1;
        self.has_products |= !has_vector && !is_sum(product);
        let limit = if has_vector { MAX_VECTOR_PRODUCT } else { MAX_MATRIX_PRODUCT };
        let count = multiplications(product);
        if count > limit {
            let times = if batch == 1 { String::new() } else { format!(", {batch} times,") };
            return Err(format!(
                "a product of [{m},{k}] and [{k},{n}]{times} has {count} multiplications, more \
                 than {limit}"
            ));
        }
        Ok(())
    }
}

/// Checks what no primitive may do in a kernel, and the types of its operands and results.
fn check_values<'a>(
    primitive: &dyn Primitive,
    mut avals: impl Iterator<Item = &'a Aval>,
) -> Result<(), String> {
    let name = primitive.name();
    if primitive.effects() != Effects::None {
        return Err(format!("{name} has side effects"));
    }
    if primitive.communication().is_some() || !primitive.axis_names().is_empty() {
        return Err(format!("{name} exchanges data between devices"));
    }
    let refused = |aval: &Aval| {
        let is_narrow = aval.dtype.bits() < 8 && !aval.dtype.is_bool();
        match () {
            // The compiler replaces them by constants, also where they keep a parameter in use.
            () if aval.size() == 0 => Some("has no elements"),
            () if is_narrow => Some("has elements of less than a byte"),
            () if aval.memory.is_host() => Some("is in the host's memory"),
            () if aval.sharding.is_some() => Some("is sharded"),
            () => None,
        }
    };
    match avals.find_map(|aval| Some((aval, refused(aval)?))) {
        Some((aval, reason)) => Err(format!("{name} takes or returns {aval}, which {reason}")),
        None => Ok(()),
    }
}
