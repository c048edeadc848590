//! [`FlatFunction`]: a program with the meaning of its inputs and outputs, and its derivative.

use crate::core::{
    Array, Aval, Dense, Error, Marks, NamedSharding, Placement, Program, Tangent, catch,
};
use crate::passes::{self, Plan};
use crate::transforms::{linearize::linearize_program, staging};

/// The value that an input of a program gets.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// An argument of the exported function, by its index.
    Argument(usize),
    /// An array that the function captured.
    Capture(Array),
}

/// The type of an argument.
#[derive(Clone, Debug)]
pub(super) enum LeafType {
    /// An array.
    Array(Aval),
    /// The cotangent of integers, which has a shape and no contents.
    Float0(Vec<usize>),
}

/// A result of the exported function.
#[derive(Clone, Debug)]
pub(super) enum ResultLeaf {
    /// An output of the program, by its index.
    Output(usize),
    /// The cotangent of integers.
    Float0(Vec<usize>),
}

/// A function of a list of arrays.
#[derive(Clone, Debug)]
pub(super) struct FlatFunction {
    pub(super) name: String,
    pub(super) program: Program,
    pub(super) plan: Plan,
    /// One for each input of the program.
    pub(super) sources: Vec<Source>,
    pub(super) arguments: Vec<LeafType>,
    pub(super) results: Vec<ResultLeaf>,
}

impl LeafType {
    /// Returns the type of the argument's tangents.
    fn tangent(&self) -> LeafType {
        match self {
            LeafType::Array(aval) if !aval.dtype.is_inexact() => {
                LeafType::Float0(aval.shape.to_vec())
            }
            other => other.clone(),
        }
    }
}

impl FlatFunction {
    /// Returns the type of each result.
    pub(super) fn result_types(&self) -> Vec<LeafType> {
        let avals = self.program.avals_out();
        let ty = |result: &ResultLeaf| match result {
            ResultLeaf::Output(index) => LeafType::Array(avals[*index].clone()),
            ResultLeaf::Float0(shape) => LeafType::Float0(shape.clone()),
        };
        self.results.iter().map(ty).collect()
    }

    /// Returns the sharding of each argument, `None` on one device.
    pub(super) fn argument_shardings(&self) -> Vec<Option<NamedSharding>> {
        let mut shardings = vec![None; self.arguments.len()];
        for (source, sharding) in self.sources.iter().zip(&self.plan.inputs) {
            if let Source::Argument(index) = source {
                shardings[*index] = Some(sharding.clone());
            }
        }
        shardings
    }

    /// Returns the requested sharding of each result.
    pub(super) fn result_shardings(&self) -> Vec<Option<NamedSharding>> {
        let sharding = |result: &ResultLeaf| match result {
            ResultLeaf::Output(index) => self.plan.outputs.get(*index).cloned().flatten(),
            ResultLeaf::Float0(_) => None,
        };
        self.results.iter().map(sharding).collect()
    }

    /// Returns the vector-Jacobian product: a function of the arguments, then a cotangent of each
    /// result, that returns a cotangent of each argument.
    ///
    /// # Errors
    /// Those of operations without a derivative.
    pub(super) fn vjp(&self) -> Result<FlatFunction, Error> {
        let program = &self.program;
        let (inputs, outputs) = (program.avals_in(), program.avals_out());
        let is_inexact = |aval: &Aval| aval.dtype.is_inexact();
        let varying: Vec<bool> = (self.sources.iter().zip(&inputs))
            .map(|(source, aval)| matches!(source, Source::Argument(_)) && is_inexact(aval))
            .collect();
        let marks: Marks<Dense> = varying.iter().copied().collect();
        let cotangents = outputs.iter().filter(|aval| is_inexact(aval)).map(Aval::strong);
        let avals: Vec<Aval> = inputs.iter().cloned().chain(cotangents).collect();
        let derivative = catch(|| {
            staging::trace_rules(avals, |arrays| {
                let (primals, given) = arrays.split_at(inputs.len());
                let (results, map) = linearize_program(program, primals, &marks, outputs.len());
                let mut given = given.iter();
                let cotangents: Vec<Tangent> = results
                    .iter()
                    .map(|result| match is_inexact(result.aval()) {
                        true => given.next().cloned().map(Tangent::Dense),
                        false => None,
                    })
                    .zip(&results)
                    .map(|(given, result)| given.unwrap_or_else(|| Tangent::zero_like(result)))
                    .collect();
                map.pull_back(&cotangents).iter().map(Tangent::to_dense).collect()
            })
        })?;
        Ok(self.of_vjp(passes::dce(&derivative), &varying))
    }

    /// Returns the program of the derivative with the meaning of its inputs and outputs.
    fn of_vjp(&self, program: Program, varying: &[bool]) -> FlatFunction {
        let types = self.result_types();
        let mut sources = self.sources.clone();
        let mut arguments = self.arguments.clone();
        // The cotangents of the program's inexact outputs follow its inputs, in order of outputs.
        let mut positions: Vec<(usize, usize)> = Vec::new();
        for (result, ty) in self.results.iter().zip(&types) {
            let tangent = ty.tangent();
            if let (ResultLeaf::Output(index), LeafType::Array(_)) = (result, &tangent) {
                positions.push((*index, arguments.len()));
            }
            arguments.push(tangent);
        }
        positions.sort_unstable();
        sources.extend(positions.iter().map(|(_, position)| Source::Argument(*position)));
        // The outputs are the cotangents of the varying inputs, in order of inputs.
        let mut output_of = vec![None; self.arguments.len()];
        let marked = self.sources.iter().zip(varying).filter(|(_, varies)| **varies);
        for (output, (source, _)) in marked.enumerate() {
            if let Source::Argument(index) = source {
                output_of[*index] = Some(output);
            }
        }
        let shape_of = |ty: &LeafType| match ty {
            LeafType::Array(aval) => aval.shape.to_vec(),
            LeafType::Float0(shape) => shape.clone(),
        };
        let results = output_of.iter().zip(&self.arguments).map(|(output, ty)| match output {
            Some(output) => ResultLeaf::Output(*output),
            None => ResultLeaf::Float0(shape_of(ty)),
        });
        let results = results.collect();
        let plan = self.plan_of_vjp(&positions, varying);
        let name = format!("vjp_{}", self.name);
        FlatFunction { name, program, plan, sources, arguments, results }
    }

    /// Cotangents have the shardings of the values that they belong to.
    fn plan_of_vjp(&self, positions: &[(usize, usize)], varying: &[bool]) -> Plan {
        let Some(Placement::Mesh(replicated)) = &self.plan.target else { return self.plan.clone() };
        let mut plan = self.plan.clone();
        plan.inputs.extend(positions.iter().map(|(index, _)| {
            let sharding = self.plan.outputs.get(*index).cloned().flatten();
            sharding.unwrap_or_else(|| replicated.clone())
        }));
        let inputs = self.plan.inputs.iter().zip(varying);
        plan.outputs =
            inputs.filter(|(_, varies)| **varies).map(|(s, _)| Some(s.clone())).collect();
        plan
    }
}
