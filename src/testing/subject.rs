//! The subject of the laws: one primitive on concrete operands.

use super::axes::{Axes, close, sample_of_all};
use super::jobs::{Job, Jobs};
use super::numbers::{array, numbers, sample};
use crate::core::{
    Array, Aval, DType, Error, Exemplar, Loc, Primitive, Program, RegistryEntry, Sample, Tangent,
    bind_shared, catch,
};
use crate::transforms::jvp::jvp_program;
use crate::transforms::staging::trace_rules;
use num_complex::Complex64;
use std::sync::Arc;

/// One primitive on concrete operands, and the program of this operation.
///
/// Inside named axes the program is that of one example, and concrete values are those of all
/// examples together. [`Subject::run`] combines both.
pub(super) struct Subject {
    pub(super) entry: RegistryEntry,
    pub(super) primitive: Arc<dyn Primitive>,
    pub(super) samples: Vec<Sample>,
    pub(super) operands: Vec<Array>,
    pub(super) program: Program,
    pub(super) axes: Axes,
    pub(super) tolerance: f64,
}

pub(super) fn fail<T>(message: String) -> Result<T, Error> {
    Err(Error::Runtime {
        doing: "checking a law".into(),
        code: None,
        message,
        loc: Loc::UNKNOWN,
        help: None,
    })
}

pub(super) fn compare(
    context: &str,
    a: &[Array],
    b: &[Array],
    tolerance: f64,
) -> Result<(), Error> {
    if a.len() != b.len() {
        return fail(format!("{context}: {} results against {}", a.len(), b.len()));
    }
    for (position, (a, b)) in a.iter().zip(b).enumerate() {
        // Laws stack results in the device's memory.
        if !a.aval().same_type(&b.aval().with_memory(a.memory_kind())) {
            return fail(format!("{context}: result {position} is {} and {}", a.aval(), b.aval()));
        }
        if let Some(difference) = numbers(a)?.difference(&numbers(b)?, tolerance) {
            return fail(format!("{context}: result {position}: {difference}"));
        }
    }
    Ok(())
}

/// Returns a random direction for an array of this type.
pub(super) fn direction(aval: &Aval, seed: u64) -> Result<Array, Error> {
    let uniform = Sample::uniform(aval.dtype, &aval.shape, -1.0, 1.0);
    sample(&uniform, seed.wrapping_mul(0x1234_5678_9ABC_DEF1))
}

/// Returns the types of the tangents of `directions` that are not symbolic zeros, for primals of
/// these types.
pub(super) fn of_dense(directions: &[Tangent], primals: &[Aval]) -> Vec<Aval> {
    let dense = directions.iter().zip(primals).filter(|(direction, _)| !direction.is_zero());
    dense.map(|(_, aval)| aval.clone()).collect()
}

/// Returns the operands, then the directions that are not symbolic zeros.
pub(super) fn with_directions(operands: &[Array], directions: &[Tangent]) -> Vec<Array> {
    operands.iter().chain(directions.iter().filter_map(Tangent::array)).cloned().collect()
}

impl Subject {
    pub(super) fn new(
        entry: &RegistryEntry,
        exemplar: &Exemplar,
        samples: &[Sample],
    ) -> Result<Subject, Error> {
        let (primitive, axes) = (exemplar.primitive.clone(), exemplar.axes.clone());
        let program = catch(|| {
            let avals = samples.iter().map(|sample| sample.aval.clone());
            trace_rules(avals, |inputs| bind_shared(&primitive, &inputs.iter().collect::<Vec<_>>()))
        })?;
        let samples: Vec<Sample> = samples.iter().map(|one| sample_of_all(one, &axes)).collect();
        let operands: Vec<Array> = samples
            .iter()
            .enumerate()
            .map(|(index, one)| sample(one, index as u64 + 1))
            .collect::<Result<_, _>>()?;
        let (entry, tolerance) = (*entry, exemplar.tolerance);
        Ok(Subject { entry, primitive, samples, operands, program, axes, tolerance })
    }

    /// Returns true if everything that varies is wide enough for finite differences.
    pub(super) fn is_double(&self) -> bool {
        let double = |aval: &Aval| matches!(aval.dtype, DType::F64 | DType::C128);
        let varies = self.operands.iter().any(|x| double(x.aval()));
        let inexact = |aval: &Aval| aval.dtype.is_inexact();
        let results = self.program.avals_out();
        varies && results.iter().any(inexact) && results.iter().filter(|a| inexact(a)).all(double)
    }

    /// Returns true for each operand that varies.
    pub(super) fn varies(&self) -> Vec<bool> {
        self.operands.iter().map(|x| x.dtype().is_inexact()).collect()
    }

    /// Returns random tangents, dense for inexact operands.
    pub(super) fn directions(&self, seed: u64) -> Result<Vec<Tangent>, Error> {
        self.operands
            .iter()
            .enumerate()
            .map(|(index, x)| {
                if x.dtype().is_inexact() {
                    Ok(Tangent::Dense(direction(x.aval(), seed + index as u64)?))
                } else {
                    Ok(Tangent::zero_like(x))
                }
            })
            .collect()
    }

    /// Moves the inexact operands along the directions by `step`.
    pub(super) fn moved(&self, directions: &[Tangent], step: f64) -> Result<Vec<Array>, Error> {
        let along = |(x, direction): (&Array, &Tangent)| match direction {
            Tangent::Zero(_) => Ok(x.clone()),
            Tangent::Dense(v) => {
                let (from, v) = (numbers(x)?.0, numbers(v)?.0);
                let to: Vec<Complex64> = from.iter().zip(v).map(|(x, v)| x + v * step).collect();
                array(x.aval(), &to)
            }
        };
        self.operands.iter().zip(directions).map(along).collect()
    }

    /// Returns the derivative as a program. Inputs are primals and dense directions, outputs the
    /// tangents of the inexact results.
    pub(super) fn jvp_of(&self, program: &Program, directions: &[Tangent]) -> Program {
        let n = self.operands.len();
        let primals = &program.avals_in()[..n];
        let dense_avals = of_dense(directions, primals);
        trace_rules(primals.iter().cloned().chain(dense_avals), |inputs| {
            let mut rest = inputs[n..].iter();
            let tangents: Vec<Tangent> = directions
                .iter()
                .zip(primals)
                .map(|(direction, aval)| match direction {
                    Tangent::Zero(_) => Tangent::Zero(aval.clone()),
                    Tangent::Dense(_) => {
                        Tangent::Dense(rest.next().expect("one per dense direction").clone())
                    }
                })
                .collect();
            let (outputs, tangents) = jvp_program(program, &inputs[..n], &tangents);
            let pairs = outputs.iter().zip(&tangents);
            pairs
                .filter(|(y, _)| y.dtype().is_inexact())
                .map(|(_, tangent)| tangent.to_dense())
                .collect()
        })
    }

    /// Adds a run of one example's program for all examples.
    pub(super) fn run(&self, jobs: &mut Jobs, program: &Program, arguments: Vec<Array>) -> Job {
        jobs.add(&close(program, &self.axes), arguments)
    }

    /// Adds a run of the program on its operands.
    pub(super) fn queue(&self, jobs: &mut Jobs) -> Job {
        self.run(jobs, &self.program, self.operands.clone())
    }
}
