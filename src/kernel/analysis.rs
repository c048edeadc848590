//! Properties of kernels that analyses of programs use.

use super::kernel_call::KernelCall;
use crate::core::{Analysis, Aval, Contraction, Program, RunCount};

impl Analysis for KernelCall {
    /// Returns the sizes of the body's largest product of matrices. The batch counts all programs
    /// of the grid, and smaller products by their share of its arithmetic.
    fn contraction(&self, _: &[Aval], _: &[Aval]) -> Option<Contraction> {
        let mut products = Vec::new();
        add_products(&self.body, 1, &mut products);
        let work = |&(count, of): &(usize, Contraction)| {
            [count, of.batch, of.m, of.n, of.k].into_iter().fold(1, usize::saturating_mul)
        };
        let one = |of: &Contraction| [of.m, of.n, of.k].into_iter().fold(1, usize::saturating_mul);
        let (_, largest) = *products.iter().max_by_key(|(_, of)| one(of))?;
        let total = products.iter().map(work).fold(0, usize::saturating_add);
        let each = total.div_ceil(one(&largest).max(1));
        Some(Contraction { batch: each.saturating_mul(self.n_programs()), ..largest })
    }
}

/// Adds the products of a program that runs `count` times, each with its number of runs.
fn add_products(program: &Program, count: usize, products: &mut Vec<(usize, Contraction)>) {
    for eqn in program.eqns() {
        let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
        products.extend(eqn.primitive.contraction(&operands, &results).map(|of| (count, of)));
        let Some(holder) = eqn.primitive.as_higher_order() else { continue };
        let runs = holder.run_counts(&operands, &results);
        for ((_, held), run) in holder.programs().into_iter().zip(runs) {
            match run {
                RunCount::Times(times) => {
                    add_products(held, count.saturating_mul(times), products);
                }
                RunCount::Never | RunCount::Counted => {}
                RunCount::Devices(_) | RunCount::Unknown | RunCount::Choice => {
                    add_products(held, count, products);
                }
            }
        }
    }
}
