//! The support matrix in the documentation, written from what the rules do on the exemplars.

use expect_test::expect_file;
use oxidax::control_flow::{Call, HOLDERS};
use oxidax::core::{
    Array, Aval, BatchAxis, Entry, Eqn, Error, Exemplar, Operand, Program, Rule, RuleError,
    Tangent, bind, catch,
};
use oxidax::passes;
use oxidax::primitives::PRIMITIVES;
use oxidax::transforms::{make_program, vjp};
use std::fmt::Write as _;
use std::sync::Arc;

/// Size of the batch axis.
const BATCH: usize = 3;

const HEAD: &str = "\
# Support matrix

Written by `tests/primitives/matrix.rs`, which applies every rule to every exemplar of every primitive, and
checks the types of what comes out; `UPDATE_EXPECT=1 cargo test --test primitives matrix` writes this page anew.
Numbers are the business of the laws in the same folder, which compile and run the same exemplars on the CPU
plugin.

- **types**: `abstract_eval` takes the exemplars.
- **jvp**: forward derivative along dense tangents of all inexact operands; *zero* if the result does not
  vary, a dash if no operand is inexact.
- **reverse**: `vjp`, through the jvp and the transposition of what that is made of.
- **transpose**: the operands in which the primitive is linear, so that it has a rule of its own.
- **batch**: every set of mapped operands, the new axis first and last.
- **cpu**: writes StableHLO for the CPU. **tpu**: not yet checked.
- *partly* and *no* give the rule's own words.
- **dtypes**: those of the exemplars' operands, or of the result if there are none. Others may be taken too.

| primitive | types | jvp | reverse | transpose | batch | cpu | tpu | dtypes |
|---|---|---|---|---|---|---|---|---|
";

#[test]
fn the_support_matrix_says_what_the_rules_do() {
    let mut text = HEAD.to_owned();
    for entry in PRIMITIVES.iter().chain(HOLDERS) {
        let row = Row::of(entry);
        writeln!(text, "{row}").unwrap();
    }
    expect_file!["../../docs/support-matrix.md"].assert_eq(&text);
}

/// What all exemplars of a primitive showed.
struct Row {
    name: &'static str,
    cells: [String; 5],
    transpose: Vec<usize>,
    dtypes: Vec<String>,
}

impl Row {
    fn of(entry: &Entry) -> Row {
        let cases: Vec<Case> = (entry.exemplars)().iter().map(Case::new).collect();
        let cell = |rule: fn(&Case) -> Outcome| summary(cases.iter().map(rule));
        let mut transpose: Vec<usize> = cases.iter().flat_map(Case::linear_operands).collect();
        transpose.sort_unstable();
        transpose.dedup();
        let mut dtypes = Vec::new();
        for aval in cases.iter().flat_map(Case::typed) {
            if !dtypes.contains(&aval.dtype) {
                dtypes.push(aval.dtype);
            }
        }
        dtypes.sort_unstable();
        Row {
            name: entry.name,
            cells: [
                "yes".into(),
                cell(Case::jvp),
                cell(Case::reverse),
                cell(Case::batch),
                cell(Case::lower),
            ],
            transpose,
            dtypes: dtypes.iter().map(ToString::to_string).collect(),
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [types, jvp, reverse, batch, cpu] = &self.cells;
        let linear: Vec<String> = self.transpose.iter().map(ToString::to_string).collect();
        let linear = if linear.is_empty() { "–".to_owned() } else { linear.join(", ") };
        write!(
            f,
            "| `{}` | {types} | {jvp} | {reverse} | {linear} | {batch} | {cpu} | ? | {} |",
            self.name,
            self.dtypes.join(", ")
        )
    }
}

/// What one rule did on one exemplar, from the least to the most that a cell can say.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// There was nothing to apply it to.
    Nothing,
    Zero,
    Yes,
    Refused(String),
}

/// What to say of all exemplars together: a refusal that not all share is a part of the answer.
fn summary(outcomes: impl Iterator<Item = Outcome>) -> String {
    let mut outcomes: Vec<Outcome> = outcomes.collect();
    outcomes.sort_unstable();
    let works = outcomes.contains(&Outcome::Yes);
    match outcomes.pop().unwrap_or(Outcome::Nothing) {
        Outcome::Nothing => "–".to_owned(),
        Outcome::Zero => "zero".to_owned(),
        Outcome::Yes => "yes".to_owned(),
        Outcome::Refused(why) if works => format!("partly: {why}"),
        Outcome::Refused(why) => format!("no: {why}"),
    }
}

/// The refusal of a rule is an answer; any other error is a failure of the test.
fn outcome(name: &str, result: Result<Outcome, Error>) -> Outcome {
    match result {
        Ok(outcome) => outcome,
        Err(Error::Op(error)) if error.kind.to_string() == "unsupported" => {
            Outcome::Refused(error.message)
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn thrown<T>(rule: Rule<T>) -> T {
    match rule {
        Ok(value) => value,
        Err(error) => oxidax::core::throw_operands("a rule", error, &[]),
    }
}

/// One exemplar, its operands' types, and the program of that one operation.
struct Case {
    exemplar: Exemplar,
    avals: Vec<Aval>,
    program: Arc<Program>,
}

impl Case {
    fn new(exemplar: &Exemplar) -> Case {
        let avals: Vec<Aval> = exemplar.operands.iter().map(|one| one.aval.clone()).collect();
        let results = exemplar.primitive.abstract_eval(&avals);
        let results = results.unwrap_or_else(|RuleError { message, .. }| {
            panic!("{}: does not take its exemplar: {message}", exemplar.primitive.name())
        });
        let (n, all) = (avals.len() as u32, (avals.len() + results.len()) as u32);
        let eqn = Eqn {
            primitive: exemplar.primitive.clone(),
            operands: (0..n).collect(),
            results: (n..all).collect(),
            location: None,
        };
        let inputs: Vec<u32> = (0..n).collect();
        let outputs: Vec<u32> = (n..all).collect();
        let types: Vec<Aval> = avals.iter().cloned().chain(results).collect();
        let program = Arc::new(Program::new(&types, &inputs, vec![eqn], &outputs));
        Case { exemplar: exemplar.clone(), avals, program }
    }

    fn name(&self) -> &'static str {
        self.exemplar.primitive.name()
    }

    fn typed(&self) -> Vec<Aval> {
        if self.avals.is_empty() { self.program.avals_out() } else { self.avals.clone() }
    }

    fn varies(&self) -> bool {
        self.avals.iter().any(|aval| aval.dtype.is_inexact())
    }

    /// Traces `rules` on values of these types.
    fn trace(
        avals: &[Aval],
        rules: impl Fn(&[Array]) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let inputs: Vec<Array> = avals.iter().cloned().map(Array::of_type).collect();
        make_program(move |inputs: Vec<Array>| rules(&inputs), inputs).map(|_| ())
    }

    fn jvp(&self) -> Outcome {
        if !self.varies() {
            return Outcome::Nothing;
        }
        let doubled: Vec<Aval> = self.avals.iter().chain(&self.avals).cloned().collect();
        let found = Arc::new(std::sync::Mutex::new(Outcome::Zero));
        let (found_inside, primitive, n) =
            (found.clone(), self.exemplar.primitive.clone(), self.avals.len());
        let expected = self.program.avals_out();
        let traced = Case::trace(&doubled, move |inputs| {
            let (primals, dense) = inputs.split_at(n);
            let tangents: Vec<Tangent> = dense
                .iter()
                .map(|dx| match dx.dtype().is_inexact() {
                    true => Tangent::Dense(dx.clone()),
                    false => Tangent::zero_like(dx),
                })
                .collect();
            let (outputs, tangents) = thrown(primitive.jvp(primals, &tangents));
            assert_eq!(outputs.len(), expected.len(), "{}: results", primitive.name());
            for ((output, tangent), aval) in outputs.iter().zip(&tangents).zip(&expected) {
                assert!(output.aval().same_type(aval), "{}: primal of jvp", primitive.name());
                assert!(tangent.aval().same_type(aval), "{}: tangent of jvp", primitive.name());
            }
            if tangents.iter().any(|tangent| !tangent.is_zero()) {
                *found_inside.lock().unwrap() = Outcome::Yes;
            }
        });
        let found = std::mem::replace(&mut *found.lock().unwrap(), Outcome::Nothing);
        outcome(self.name(), traced.map(|()| found))
    }

    fn reverse(&self) -> Outcome {
        if !self.varies() {
            return Outcome::Nothing;
        }
        let program = self.program.clone();
        let expected = self.avals.clone();
        let traced = Case::trace(&self.avals, move |inputs| {
            let inputs = inputs.to_vec();
            let apply = |xs: &Vec<Array>| {
                let call = Call { name: "f".into(), program: program.clone() };
                bind(call, &xs.iter().collect::<Vec<_>>())
            };
            let (outputs, pullback) = vjp(apply, &inputs);
            for (ct, aval) in pullback.apply(&outputs).iter().zip(&expected) {
                assert!(ct.aval().same_type(aval), "cotangent {} of {aval}", ct.aval());
            }
        });
        outcome(self.name(), traced.map(|()| Outcome::Yes))
    }

    /// The inexact operands that the transpose rule takes, one at a time.
    fn linear_operands(&self) -> Vec<usize> {
        let takes = |&at: &usize| {
            let (primitive, n) = (self.exemplar.primitive.clone(), self.avals.len());
            let mut avals = self.avals.clone();
            avals.extend(self.program.avals_out());
            let traced = Case::trace(&avals, move |inputs| {
                let (operands, cts) = inputs.split_at(n);
                let cts: Vec<Tangent> = cts.iter().cloned().map(Tangent::Dense).collect();
                let known = |(other, x): (usize, &Array)| match other == at {
                    true => Operand::Linear(x.aval().clone()),
                    false => Operand::Known(x.clone()),
                };
                let operands: Vec<Operand> = operands.iter().enumerate().map(known).collect();
                let found = thrown(primitive.transpose(&cts, &operands));
                let ct = found[at].as_ref().expect("a cotangent for the linear operand");
                assert!(ct.aval().same_type(operands[at].aval()), "{}", primitive.name());
            });
            traced.is_ok()
        };
        let inexact = |at: &usize| self.avals[*at].dtype.is_inexact();
        (0..self.avals.len()).filter(inexact).filter(takes).collect()
    }

    fn batch(&self) -> Outcome {
        let n = self.avals.len();
        let mut found = Outcome::Nothing;
        for subset in 1..1u32 << n {
            for last in [false, true] {
                let axis_of = |at: usize| {
                    let axis = if last { self.avals[at].rank() } else { 0 };
                    (subset & (1 << at) != 0).then_some(axis)
                };
                let axes: Vec<Option<usize>> = (0..n).map(axis_of).collect();
                let batched = |(aval, axis): (&Aval, &Option<usize>)| match axis {
                    Some(axis) => aval.with_shape(aval.shape.insert(*axis, BATCH)),
                    None => aval.clone(),
                };
                let avals: Vec<Aval> = self.avals.iter().zip(&axes).map(batched).collect();
                let primitive = self.exemplar.primitive.clone();
                let expected = self.program.avals_out();
                let traced = Case::trace(&avals, move |inputs| {
                    let axis = BatchAxis::new(BATCH);
                    let found = thrown(primitive.batch(inputs, &axes, &axis));
                    let outputs = found.outputs.iter().zip(&found.axes);
                    for ((output, axis), aval) in outputs.zip(&expected) {
                        let shape = match axis {
                            Some(axis) => aval.shape.insert(*axis, BATCH),
                            None => aval.shape.clone(),
                        };
                        output.expect_shape(shape);
                        assert_eq!(output.dtype(), aval.dtype, "{}", primitive.name());
                    }
                });
                found = found.max(outcome(self.name(), traced.map(|()| Outcome::Yes)));
            }
        }
        found
    }

    fn lower(&self) -> Outcome {
        let lowered = catch(|| passes::lower(&self.program, "f", "cpu", false));
        let written = lowered.and_then(|text| text).map(|text| {
            assert!(text.contains("func.func"), "{}: {text}", self.name());
            Outcome::Yes
        });
        outcome(self.name(), written)
    }
}
