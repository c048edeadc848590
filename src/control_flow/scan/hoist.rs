//! Products of single steps of a scan, as one product of all steps after the loop.
//!
//! The transpose of a scan adds the gradient of a weight to a carry in every step: an outer product
//! of two vectors. The sum over all steps is one product of matrices. The loop stacks the factors
//! instead, and the product follows it. So does the product of a stacked factor with a constant
//! whose results are stacked, such as the gradient of the scanned inputs.

use super::Scan;
use crate::control_flow::derive::batch_front;
use crate::core::trace::{Mode, Tracing};
use crate::core::{
    Access, Array, Aval, BatchAxis, CounterOp, DType, Eqn, Marks, Program, Var, bind, bind_shared,
};
use crate::passes;
use crate::primitives::add;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The multiplications of a product in a step from which the loop loses more time with it than with
/// stacking its factors.
const MIN_PRODUCT: usize = 1 << 11;

/// The multiplications of a product in a step up to which the loop loses time with it.
const MAX_PRODUCT: usize = 1 << 16;

/// The elements of a product for each element that the loop has to stack for it.
const MIN_RATIO: usize = 4;

/// The bytes that the loop may stack for products, all together.
const MAX_STACKED: usize = 1 << 24;

/// A product, and the equations that move the elements of its result, last one first.
struct Term {
    product: usize,
    moves: Vec<usize>,
}

/// A carry, to which every step adds products.
struct Accumulator {
    carry: usize,
    terms: Vec<Term>,
    /// Values that are added too, and remain in the loop.
    rest: Vec<Var>,
    /// The additions.
    additions: Vec<usize>,
}

/// A stacked output that is the product of a stacked factor and a constant.
struct Mapped {
    /// The index among the outputs of the body.
    output: usize,
    term: Term,
    factor: Var,
    constant: Var,
}

/// The stacked values of a variable of the body.
#[derive(Clone, Copy)]
enum Stack {
    /// The operand of the scan at this index.
    Operand(usize),
    /// The result of the loop at this index.
    Result(usize),
}

/// The uses and definitions of the variables of a body.
struct Body<'a> {
    scan: &'a Scan,
    program: &'a Program,
    n_uses: Vec<usize>,
    definitions: Vec<Option<usize>>,
}

/// A loop without the products.
struct Rest {
    body: Program,
    /// Where the values of a variable of the original body are stacked.
    stacks: Vec<Option<Stack>>,
    /// The result of the loop for each output of the original body. `None` for a product.
    results: Vec<Option<usize>>,
}

/// Returns a program that computes the results of a scan with these operands, in which products
/// follow the loop. Returns `None` if there are none. The sums are rounded in another order.
pub(super) fn hoist(scan: &Scan, operands: &[Aval]) -> Option<Program> {
    let body = Body::new(scan);
    let mut stacked = FxHashSet::default();
    let accumulators = (0..scan.n_carry).filter_map(|carry| body.accumulator(carry));
    let accumulators: Vec<Accumulator> = accumulators
        .filter(|of| {
            let mut all = stacked.clone();
            all.extend(of.terms.iter().flat_map(|term| body.to_stack(term)));
            let fits = body.stacked_bytes(&all) <= MAX_STACKED;
            if fits {
                stacked = all;
            }
            fits
        })
        .collect();
    if accumulators.is_empty() {
        return None;
    }
    let mapped = body.mapped(&accumulators);
    let rest = body.without(&accumulators, &mapped);
    let inner = scan.with_body(rest.body, scan.n_consts, scan.n_carry);
    let tracing = Tracing::begin(Mode::All, None);
    let inputs: Vec<Array> = operands.iter().map(|aval| tracing.input(aval.clone())).collect();
    let computed = bind(inner, &inputs.iter().collect::<Vec<_>>());
    let stack_of = |var: Var| match rest.stacks[var as usize] {
        Some(Stack::Operand(index)) => inputs[index].clone(),
        Some(Stack::Result(index)) => computed[index].clone(),
        None => unreachable!("factors are stacked"),
    };
    let eqns = scan.body.eqns();
    let mut results: Vec<Option<Array>> =
        rest.results.iter().map(|&result| Some(computed[result?].clone())).collect();
    for Accumulator { carry, terms, .. } in &accumulators {
        for Term { product, moves } in terms {
            let Eqn { primitive, operands, loc, .. } = &eqns[*product];
            let factors: Vec<Array> = operands.iter().map(|&var| stack_of(var)).collect();
            let sum = loc.scope(|| {
                let sum = primitive.sum_over_steps(&factors)?;
                Some(moves.iter().rev().fold(sum, |sum, &index| {
                    bind_shared(&eqns[index].primitive, &[&sum]).swap_remove(0)
                }))
            })?;
            let partial = results[*carry].take()?;
            results[*carry] = Some(loc.scope(|| add(partial, sum)));
        }
    }
    for of in &mapped {
        let constant = scan.body.inputs().iter().position(|&input| input == of.constant)?;
        let values = [stack_of(of.factor), inputs[constant].clone()];
        let product = body.batched(of);
        results[of.output] = passes::eval(&product, &values).pop();
    }
    let results: Vec<Array> = results.into_iter().collect::<Option<_>>()?;
    let (program, captures) = tracing.finish(&results);
    captures.is_empty().then_some(program)
}

impl<'a> Body<'a> {
    fn new(scan: &'a Scan) -> Body<'a> {
        let program = &*scan.body;
        let mut n_uses = vec![0; program.avals().len()];
        let mut definitions = vec![None; program.avals().len()];
        for (index, eqn) in program.eqns().iter().enumerate() {
            for &var in &eqn.operands {
                n_uses[var as usize] += 1;
            }
            for &var in &eqn.results {
                definitions[var as usize] = Some(index);
            }
        }
        for &var in program.outputs() {
            n_uses[var as usize] += 1;
        }
        Body { scan, program, n_uses, definitions }
    }

    fn constants(&self) -> &[Var] {
        &self.program.inputs()[..self.scan.n_consts]
    }

    /// The elements of the scanned arrays.
    fn elements(&self) -> &[Var] {
        &self.program.inputs()[self.scan.n_consts + self.scan.n_carry..]
    }

    /// Returns the equation of a variable that has no other use and is its only result.
    fn only_definition(&self, var: Var) -> Option<usize> {
        let index = self.definitions[var as usize]?;
        let is_single = self.program.eqns()[index].results.len() == 1;
        (is_single && self.n_uses[var as usize] == 1).then_some(index)
    }

    /// Finds the products that are added to a carry, if nothing else uses the carry.
    fn accumulator(&self, carry: usize) -> Option<Accumulator> {
        let input = self.program.inputs()[self.scan.n_consts + carry];
        let aval = self.program.aval(input);
        if self.n_uses[input as usize] != 1 || !is_plain(aval) {
            return None;
        }
        let mut found = Accumulator { carry, terms: vec![], rest: vec![], additions: vec![] };
        let mut is_added = false;
        let mut pending = vec![self.program.outputs()[carry]];
        while let Some(var) = pending.pop() {
            if var == input {
                is_added = !found.additions.is_empty();
                continue;
            }
            let addition = self.only_definition(var).filter(|&index| {
                let eqn = &self.program.eqns()[index];
                eqn.primitive.counter_op() == Some(CounterOp::Add)
                    && eqn.operands.iter().all(|&of| self.program.aval(of).shape == aval.shape)
            });
            let gains = |term: &Term| self.gains(term);
            match (addition, self.term(var).filter(gains)) {
                (Some(index), _) => {
                    found.additions.push(index);
                    pending.extend(&self.program.eqns()[index].operands);
                }
                (None, Some(term)) => found.terms.push(term),
                (None, None) => found.rest.push(var),
            }
        }
        (is_added && !found.terms.is_empty()).then_some(found)
    }

    /// Returns the product whose moved elements are a variable, if it has no other use.
    fn term(&self, var: Var) -> Option<Term> {
        let mut moves = Vec::new();
        let mut index = self.only_definition(var)?;
        loop {
            let eqn = &self.program.eqns()[index];
            let operands = self.program.avals_of(&eqn.operands);
            let results = self.program.avals_of(&eqn.results);
            if let Some(product) = eqn.primitive.contraction(&operands, &results) {
                let sizes = [product.batch, product.m, product.n, product.k];
                let count = sizes.into_iter().fold(1, usize::saturating_mul);
                let is_small = (MIN_PRODUCT..=MAX_PRODUCT).contains(&count);
                let is_plain = operands.iter().chain(&results).all(is_plain)
                    && operands.iter().all(|of| of.dtype == results[0].dtype);
                return (is_small && is_plain).then_some(Term { product: index, moves });
            }
            let is_move = eqn.primitive.cost(&operands, &results).access == Access::Movement;
            let ([operand], [from], [to]) = (&eqn.operands[..], &operands[..], &results[..]) else {
                return None;
            };
            if !is_move || from.dtype != to.dtype || from.size() != to.size() {
                return None;
            }
            moves.push(index);
            index = self.only_definition(*operand)?;
        }
    }

    /// The factors of a product that the loop has to stack.
    fn to_stack(&self, term: &Term) -> impl Iterator<Item = Var> {
        let factors = self.program.eqns()[term.product].operands.iter().copied();
        factors.filter(|of| !self.elements().contains(of))
    }

    /// The bytes of the stacked values of variables.
    fn stacked_bytes(&self, vars: &FxHashSet<Var>) -> usize {
        let bytes = vars.iter().map(|&var| self.program.aval(var).bytes());
        bytes.sum::<usize>().saturating_mul(self.scan.length)
    }

    /// Returns true if the loop gains from stacking the factors of a product that is added up.
    fn gains(&self, term: &Term) -> bool {
        let eqn = &self.program.eqns()[term.product];
        let elements: usize = self.to_stack(term).map(|var| self.program.aval(var).size()).sum();
        self.program.aval(eqn.results[0]).size() >= MIN_RATIO * elements
            && !eqn.operands.iter().any(|of| self.constants().contains(of))
    }

    /// Finds the stacked outputs that are products of a constant and a factor that is stacked for
    /// the sums.
    fn mapped(&self, accumulators: &[Accumulator]) -> Vec<Mapped> {
        let terms = accumulators.iter().flat_map(|of| &of.terms);
        let factors = terms.flat_map(|term| &self.program.eqns()[term.product].operands);
        let factors: Vec<Var> = factors.copied().collect();
        let outputs = self.program.outputs().iter().enumerate().skip(self.scan.n_carry);
        let mapped = outputs.filter_map(|(output, &var)| {
            let term = self.term(var)?;
            let [lhs, rhs] = self.program.eqns()[term.product].operands[..] else { return None };
            let (factor, constant) =
                if self.constants().contains(&rhs) { (lhs, rhs) } else { (rhs, lhs) };
            let is_found = factors.contains(&factor) && self.constants().contains(&constant);
            is_found.then_some(Mapped { output, term, factor, constant })
        });
        mapped.collect()
    }

    /// Returns the program that computes all steps of a product from the stacked factor and the
    /// constant.
    fn batched(&self, of: &Mapped) -> Arc<Program> {
        let Mapped { output, term: Term { product, moves }, factor, constant } = of;
        let eqns = std::iter::once(product).chain(moves.iter().rev());
        let eqns = eqns.map(|&index| self.program.eqns()[index].clone()).collect();
        let outputs = [self.program.outputs()[*output]];
        let step = Program::new(self.program.avals(), &[*factor, *constant], eqns, &outputs);
        let mapped = Marks::of(&[true, false], |is_mapped| *is_mapped);
        let axis = BatchAxis::new(self.scan.length);
        batch_front(&Arc::new(step), &mapped, &Marks::none(1), &axis).program
    }

    /// Returns the loop without the products, with their factors as further outputs.
    fn without(&self, accumulators: &[Accumulator], mapped: &[Mapped]) -> Rest {
        let Scan { n_consts, n_carry, .. } = *self.scan;
        let (inputs, eqns) = (self.program.inputs(), self.program.eqns());
        let is_mapped = |output: usize| mapped.iter().any(|of| of.output == output);
        let mut avals = self.program.avals().to_vec();
        let (mut outputs, mut results) = (Vec::new(), Vec::new());
        for (output, &var) in self.program.outputs().iter().enumerate() {
            results.push((!is_mapped(output)).then_some(outputs.len()));
            if !is_mapped(output) {
                outputs.push(var);
            }
        }
        let mut stacks = vec![None; avals.len()];
        for (index, &input) in inputs.iter().enumerate().skip(n_consts + n_carry) {
            stacks[input as usize] = Some(Stack::Operand(index));
        }
        for (index, &output) in outputs.iter().enumerate().skip(n_carry) {
            stacks[output as usize].get_or_insert(Stack::Result(index));
        }
        let mut is_removed = vec![false; eqns.len()];
        let mut remove = |term: &Term| {
            term.moves.iter().chain([&term.product]).for_each(|&index| is_removed[index] = true);
        };
        mapped.iter().for_each(|of| remove(&of.term));
        accumulators.iter().flat_map(|of| &of.terms).for_each(&mut remove);
        let mut remaining = Vec::new();
        for Accumulator { carry, terms, rest, additions } in accumulators {
            for &var in terms.iter().flat_map(|term| &eqns[term.product].operands) {
                stacks[var as usize].get_or_insert_with(|| {
                    outputs.push(var);
                    Stack::Result(outputs.len() - 1)
                });
            }
            additions.iter().for_each(|&index| is_removed[index] = true);
            outputs[*carry] = inputs[n_consts + carry];
            for (&var, &index) in rest.iter().zip(additions) {
                let sum = avals.len() as Var;
                avals.push(avals[outputs[*carry] as usize].clone());
                remaining.push(Eqn {
                    operands: [outputs[*carry], var].into_iter().collect(),
                    results: [sum].into_iter().collect(),
                    ..eqns[index].clone()
                });
                outputs[*carry] = sum;
            }
        }
        let kept = eqns.iter().zip(&is_removed).filter(|(_, removed)| !**removed);
        let eqns = kept.map(|(eqn, _)| eqn.clone()).chain(remaining).collect();
        Rest { body: Program::new(&avals, inputs, eqns, &outputs), stacks, results }
    }
}

fn is_plain(aval: &Aval) -> bool {
    matches!(aval.dtype, DType::F32 | DType::F64) && aval.sharding.is_none()
}
