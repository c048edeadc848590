//! A program with its calls inlined.

#[cfg(feature = "roofline")]
use crate::core::Access;
use crate::core::{
    Aval, Contraction, Cost, Eqn, Loc, Primitive, Program, RunCount, ShardingRule, Var,
};
use std::sync::Arc;

/// A program with its calls inlined. Values are numbered from 0.
#[derive(Default)]
pub(crate) struct Region {
    /// The type of each value.
    pub(crate) avals: Vec<Aval>,
    /// The step that computes each value. `None` for inputs.
    pub(crate) makers: Vec<Option<usize>>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) steps: Vec<Step>,
}

/// An equation that is not a call.
pub(crate) struct Step {
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) loc: Loc,
    pub(crate) operands: Vec<usize>,
    pub(crate) results: Vec<usize>,
    pub(crate) cost: Cost,
    pub(crate) contraction: Option<Contraction>,
    pub(crate) rule: ShardingRule,
    /// Its results are computed again wherever they are used.
    #[cfg(feature = "roofline")]
    pub(crate) is_recomputed: bool,
    /// The held programs that have costs, with their run counts.
    pub(crate) inner: Vec<(RunCount, Region)>,
}

#[cfg(feature = "roofline")]
impl Step {
    /// Returns true if it may become part of a fusion.
    pub(crate) fn fuses(&self) -> bool {
        self.inner.is_empty() && matches!(self.cost.access, Access::Pointwise | Access::Movement)
    }
}

impl Region {
    pub(crate) fn of(program: &Program) -> Region {
        let mut region = Region::default();
        let inputs: Vec<usize> =
            program.avals_in().into_iter().map(|aval| region.value(aval, None)).collect();
        region.inputs.clone_from(&inputs);
        region.outputs = region.write(program, &inputs, Loc::UNKNOWN);
        region
    }

    fn value(&mut self, aval: Aval, maker: Option<usize>) -> usize {
        self.avals.push(aval);
        self.makers.push(maker);
        self.avals.len() - 1
    }

    /// Returns the types of these values.
    pub(crate) fn types(&self, values: &[usize]) -> Vec<Aval> {
        values.iter().map(|&value| self.avals[value].clone()).collect()
    }

    /// Returns the size of a value in bytes.
    pub(crate) fn bytes(&self, value: usize) -> u64 {
        self.avals[value].bytes() as u64
    }

    /// Returns the step that computes a value.
    pub(crate) fn maker(&self, value: usize) -> Option<&Step> {
        self.makers[value].map(|at| &self.steps[at])
    }

    /// Appends the equations of a program. Equations without a source location get that of the
    /// call.
    fn write(&mut self, program: &Program, inputs: &[usize], called_at: Loc) -> Vec<usize> {
        let mut number = vec![usize::MAX; program.avals().len()];
        for (&var, &value) in program.inputs().iter().zip(inputs) {
            number[var as usize] = value;
        }
        for eqn in program.eqns() {
            let operands: Vec<usize> =
                eqn.operands.iter().map(|&var| number[var as usize]).collect();
            let results = self.equation(program, eqn, operands, called_at);
            for (&var, value) in eqn.results.iter().zip(results) {
                number[var as usize] = value;
            }
        }
        let number = |var: &Var| number[*var as usize];
        program.outputs().iter().map(number).collect()
    }

    fn equation(
        &mut self,
        program: &Program,
        eqn: &Eqn,
        operands: Vec<usize>,
        called_at: Loc,
    ) -> Vec<usize> {
        let loc = eqn.loc.or(called_at);
        let avals_in = self.types(&operands);
        let avals_out = program.avals_of(&eqn.results);
        let mut inner = Vec::new();
        if let Some(holder) = eqn.primitive.as_higher_order() {
            let runs = holder.run_counts(&avals_in, &avals_out);
            let programs = holder.programs();
            if let ([RunCount::Times(1)], [(_, called)]) = (runs.as_slice(), programs.as_slice())
                && called.inputs().len() <= operands.len()
                && called.outputs().len() == eqn.results.len()
            {
                // Operands after those of the program are captured by rules.
                return self.write(called, &operands[..called.inputs().len()], loc);
            }
            let costs = runs.into_iter().zip(programs);
            let costs =
                costs.filter(|(run, _)| !matches!(run, RunCount::Never | RunCount::Counted));
            inner.extend(costs.map(|(run, (_, held))| (run, Region::of(held))));
        }
        let cost = eqn.primitive.cost(&avals_in, &avals_out);
        let contraction = eqn.primitive.contraction(&avals_in, &avals_out);
        let rule = eqn.primitive.sharding_rule(&avals_in, &avals_out);
        #[cfg(feature = "roofline")]
        let is_recomputed = inner.is_empty() && cost.is_remade(&avals_in, &avals_out);
        let maker = self.steps.len();
        let results: Vec<usize> =
            avals_out.into_iter().map(|aval| self.value(aval, Some(maker))).collect();
        self.steps.push(Step {
            primitive: eqn.primitive.clone(),
            loc,
            operands,
            results: results.clone(),
            cost,
            contraction,
            rule,
            #[cfg(feature = "roofline")]
            is_recomputed,
            inner,
        });
        results
    }
}
