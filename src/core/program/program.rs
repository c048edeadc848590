//! [`Program`]: the recorded form of a function.

use crate::core::error::Loc;
use crate::core::mesh::mesh::Mesh;
use crate::core::mesh::partition::NamedSharding;
use crate::core::program::marks::{Marks, Used};
use crate::core::program::primitive::{Effects, Primitive};
use crate::core::types::aval::Aval;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// A variable: an input of the program or a result of one of its equations.
pub type Var = u32;

/// One application of a primitive.
#[derive(Clone, Debug)]
pub struct Eqn {
    /// The primitive.
    pub primitive: Arc<dyn Primitive>,
    /// The operands.
    pub operands: SmallVec<[Var; 4]>,
    /// The variables that the equation defines.
    pub results: SmallVec<[Var; 2]>,
    /// The location of the operation in the user's source.
    pub loc: Loc,
}

/// A traced function: inputs, equations in order, outputs.
///
/// Captured arrays are extra inputs after the declared ones. Their values are stored beside the
/// program. Two programs are equal if they have the same structure. Source locations do not count,
/// except that equations in [`no_collectives`](crate::core::no_collectives) differ from others.
///
/// Prints in the style of a jaxpr. `parse_program` parses that text.
#[derive(Clone, Debug)]
#[doc(alias = "jaxpr")]
#[doc(alias = "ClosedJaxpr")]
pub struct Program {
    avals: Vec<Aval>,
    inputs: Vec<Var>,
    eqns: Vec<Eqn>,
    outputs: Vec<Var>,
    hash: OnceLock<u64>,
    axis_names: OnceLock<Vec<String>>,
}

/// An input of a program made from another.
pub(crate) enum ProgramInput {
    /// The input of the original at this position.
    Existing(usize),
    /// An input of this type that no equation uses.
    Unused(Aval),
}

impl Program {
    /// Creates the program of one operation. Its inputs are the operands, with these types, and its
    /// outputs the results.
    ///
    /// ```
    /// use oxidax::core::{Aval, DType, Loc, Program};
    /// use oxidax::primitives::Sin;
    /// let x = Aval::new(DType::F32, [3]);
    /// let (operands, results) = (vec![x.clone()], vec![x]);
    /// let sine = std::sync::Arc::new(Sin);
    /// let program = Program::of_operation(sine, operands, results, Loc::UNKNOWN);
    /// assert_eq!(program.eqns().len(), 1);
    /// ```
    pub fn of_operation(
        primitive: Arc<dyn Primitive>,
        operands: Vec<Aval>,
        results: Vec<Aval>,
        loc: Loc,
    ) -> Program {
        let (inputs, all) = (operands.len() as Var, (operands.len() + results.len()) as Var);
        let inputs: Vec<Var> = (0..inputs).collect();
        let outputs: Vec<Var> = (inputs.len() as Var..all).collect();
        let eqn = Eqn {
            primitive,
            operands: inputs.iter().copied().collect(),
            results: outputs.iter().copied().collect(),
            loc,
        };
        let avals: Vec<Aval> = operands.into_iter().chain(results).collect();
        Program::new(&avals, &inputs, vec![eqn], &outputs)
    }

    /// Creates a program and renumbers its variables in order of definition.
    ///
    /// `avals` is indexed by the variables passed in. Every operand must be an input or a result of
    /// an earlier equation, which `passes::verify` checks.
    pub fn new(avals: &[Aval], inputs: &[Var], mut eqns: Vec<Eqn>, outputs: &[Var]) -> Program {
        let mut number = vec![Var::MAX; avals.len()];
        let mut ordered = Vec::with_capacity(avals.len());
        let mut define = |var: Var| {
            number[var as usize] = ordered.len() as Var;
            ordered.push(avals[var as usize].clone());
            number[var as usize]
        };
        let inputs = inputs.iter().map(|&var| define(var)).collect();
        for eqn in &mut eqns {
            for var in &mut eqn.results {
                *var = define(*var);
            }
        }
        for eqn in &mut eqns {
            for var in &mut eqn.operands {
                *var = number[*var as usize];
            }
        }
        let outputs = outputs.iter().map(|&var| number[var as usize]).collect();
        let (hash, axis_names) = (OnceLock::new(), OnceLock::new());
        Program { avals: ordered, inputs, eqns, outputs, hash, axis_names }
    }

    /// Returns the input variables.
    pub fn inputs(&self) -> &[Var] {
        &self.inputs
    }

    /// Returns the equations. Variables are defined before they are used.
    pub fn eqns(&self) -> &[Eqn] {
        &self.eqns
    }

    /// Returns the output variables.
    pub fn outputs(&self) -> &[Var] {
        &self.outputs
    }

    /// Returns the aval of a variable.
    pub fn aval(&self, var: Var) -> &Aval {
        &self.avals[var as usize]
    }

    /// Returns the avals of all variables, in order of definition.
    pub fn avals(&self) -> &[Aval] {
        &self.avals
    }

    /// Returns the avals of these variables.
    pub(crate) fn avals_of(&self, vars: &[Var]) -> Vec<Aval> {
        vars.iter().map(|&var| self.aval(var).clone()).collect()
    }

    /// Returns the avals of the inputs.
    pub fn avals_in(&self) -> Vec<Aval> {
        self.avals_of(&self.inputs)
    }

    /// Returns the avals of the outputs.
    pub fn avals_out(&self) -> Vec<Aval> {
        self.avals_of(&self.outputs)
    }

    /// Returns the program with reordered inputs: new input `i` is old input `order[i]`.
    pub(crate) fn permute_inputs(&self, order: &[usize]) -> Program {
        let inputs: Vec<Var> = order.iter().map(|&position| self.inputs[position]).collect();
        Program::new(&self.avals, &inputs, self.eqns.clone(), &self.outputs)
    }

    /// Returns the program with other inputs. Inputs that are left out must be unused.
    pub(crate) fn with_inputs(&self, inputs: &[ProgramInput]) -> Program {
        let mut avals = self.avals.clone();
        let mut vars = Vec::with_capacity(inputs.len());
        for input in inputs {
            vars.push(match input {
                ProgramInput::Existing(position) => self.inputs[*position],
                ProgramInput::Unused(aval) => {
                    avals.push(aval.clone());
                    (avals.len() - 1) as Var
                }
            });
        }
        Program::new(&avals, &vars, self.eqns.clone(), &self.outputs)
    }

    /// Marks the inputs that an equation or output uses.
    pub(crate) fn used_inputs(&self) -> Marks<Used> {
        let mut used = vec![false; self.avals.len()];
        let operands = self.eqns.iter().flat_map(|eqn| &eqn.operands);
        for &var in operands.chain(&self.outputs) {
            used[var as usize] = true;
        }
        Marks::of(&self.inputs, |&var| used[var as usize])
    }

    /// Returns the input that an output always equals, because the program only passes it on.
    pub(crate) fn forwarded_input(&self, output: usize) -> Option<usize> {
        let mut var = self.outputs[output];
        for eqn in self.eqns.iter().rev() {
            let Some(result) = eqn.results.iter().position(|&result| result == var) else {
                continue;
            };
            let forwarded = eqn.primitive.as_higher_order()?.forwarded();
            var = eqn.operands[(*forwarded.get(result)?)?];
        }
        self.inputs.iter().position(|&input| input == var)
    }

    /// Returns the program with other outputs.
    pub(crate) fn with_outputs(&self, outputs: &[Var]) -> Program {
        Program::new(&self.avals, &self.inputs, self.eqns.clone(), outputs)
    }

    /// Returns the strongest side effect of the equations.
    pub fn effects(&self) -> Effects {
        self.eqns.iter().map(|eqn| eqn.primitive.effects()).fold(Effects::None, Effects::and)
    }

    /// Returns true if an equation, also of a held program, holds a closure.
    pub fn is_opaque(&self) -> bool {
        self.eqns.iter().any(|eqn| {
            let holder = eqn.primitive.as_higher_order();
            eqn.primitive.is_opaque()
                || holder.is_some_and(|h| h.programs().iter().any(|(_, inner)| inner.is_opaque()))
        })
    }

    /// Returns true if an equation, also of a held program, is in
    /// [`no_collectives`](crate::core::no_collectives).
    pub(crate) fn refuses_collectives(&self) -> bool {
        self.eqns.iter().any(|eqn| {
            let holder = eqn.primitive.as_higher_order();
            let held = holder.map(|holder| holder.programs()).unwrap_or_default();
            eqn.loc.refuses_collectives()
                || held.iter().any(|(_, program)| program.refuses_collectives())
        })
    }

    /// The names of the axes that equations here, or in programs held by one, speak of: each once,
    /// in order.
    pub fn axis_names(&self) -> &[String] {
        self.axis_names.get_or_init(|| {
            let mut names: Vec<String> =
                self.eqns.iter().flat_map(|eqn| eqn.primitive.axis_names()).collect();
            names.sort_unstable();
            names.dedup();
            names
        })
    }

    /// Returns the first mesh that an equation, also of a held program, refers to.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.explicit_mesh().or_else(|| self.mesh_of_equations())
    }

    /// Returns the mesh over whose explicit axes a value is sharded, here or in a held program.
    pub(crate) fn explicit_mesh(&self) -> Option<&Mesh> {
        let own = self.avals.iter().find_map(|aval| aval.sharding.as_ref());
        own.map(NamedSharding::mesh).or_else(|| {
            let holders = self.eqns.iter().filter_map(|eqn| eqn.primitive.as_higher_order());
            let mut held = holders.flat_map(|holder| holder.programs());
            held.find_map(|(_, program)| program.explicit_mesh())
        })
    }

    /// Returns the mesh that is a parameter of an equation.
    fn mesh_of_equations(&self) -> Option<&Mesh> {
        self.eqns.iter().find_map(|eqn| {
            let holder = eqn.primitive.as_higher_order();
            let within = || {
                holder?.programs().into_iter().find_map(|(_, program)| program.mesh_of_equations())
            };
            eqn.primitive.mesh().or_else(within)
        })
    }

    /// Evaluates the program over values of type `V`: `apply` maps an equation and the values of
    /// its operands to the values of its results. Returns the values of the outputs.
    pub(crate) fn interpret<'a, V: Clone>(
        &'a self,
        inputs: impl IntoIterator<Item = V>,
        mut apply: impl FnMut(&'a Eqn, &[&V]) -> Vec<V>,
    ) -> Vec<V> {
        let outputs = self.try_interpret(inputs, |eqn, operands| {
            Ok::<_, std::convert::Infallible>(apply(eqn, operands))
        });
        match outputs {
            Ok(outputs) => outputs,
            Err(never) => match never {},
        }
    }

    /// Interprets the program like [`Program::interpret`], with an `apply` that may fail.
    ///
    /// # Errors
    /// The first error that `apply` returns.
    pub(crate) fn try_interpret<'a, V: Clone, E>(
        &'a self,
        inputs: impl IntoIterator<Item = V>,
        mut apply: impl FnMut(&'a Eqn, &[&V]) -> Result<Vec<V>, E>,
    ) -> Result<Vec<V>, E> {
        fn read<V>(values: &[Option<V>], var: Var) -> &V {
            values[var as usize].as_ref().expect("variables are defined before they are used")
        }
        let mut values: Vec<Option<V>> = vec![None; self.avals.len()];
        for (&var, value) in self.inputs.iter().zip(inputs) {
            values[var as usize] = Some(value);
        }
        for eqn in &self.eqns {
            let operands: Vec<&V> = eqn.operands.iter().map(|&var| read(&values, var)).collect();
            let results = apply(eqn, &operands)?;
            for (&var, result) in eqn.results.iter().zip(results) {
                values[var as usize] = Some(result);
            }
        }
        Ok(self.outputs.iter().map(|&var| read(&values, var).clone()).collect())
    }

    /// Returns the structural hash, which is computed once.
    pub fn structural_hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            let mut state = FxHasher::default();
            for &var in &self.inputs {
                self.aval(var).hash(&mut state);
            }
            for eqn in &self.eqns {
                (*eqn.primitive).dyn_hash(&mut state);
                eqn.operands.hash(&mut state);
            }
            self.outputs.hash(&mut state);
            state.finish()
        })
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        std::ptr::eq(self, other)
            || (self.structural_hash() == other.structural_hash()
                && self.inputs == other.inputs
                && self.outputs == other.outputs
                && self.avals == other.avals
                && self.eqns.len() == other.eqns.len()
                && self.eqns.iter().zip(&other.eqns).all(|(a, b)| {
                    a.operands == b.operands
                        && a.loc.refuses_as(b.loc)
                        && (Arc::ptr_eq(&a.primitive, &b.primitive) || *a.primitive == *b.primitive)
                }))
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.structural_hash());
    }
}
