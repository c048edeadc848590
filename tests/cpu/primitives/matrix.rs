//! The support matrix in the documentation, written from what the rules do on the exemplars.

use expect_test::expect_file;
use oxidax::control_flow::{Call, HOLDERS};
use oxidax::core::{
    Array, Aval, BatchAxis, DType, Entry, Eqn, Error, Exemplar, Operand, Program, RuleError,
    RuleResult, Tangent, bind, catch,
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

Written by `tests/cpu/primitives/matrix.rs`, which applies every rule to every exemplar of every primitive, and
checks the types of what comes out; `UPDATE_EXPECT=1 cargo test --test cpu primitives::matrix` writes this page anew.
Numbers are the business of the laws in the same folder, which compile and run the same exemplars on the CPU
plugin. The last two columns come from `tests/cpu/primitives/platforms/`, which `platforms.rs` beside it writes.

- **types**: `abstract_eval` takes the exemplars.
- **jvp**: forward derivative along dense tangents of all inexact operands; *zero* if the result does not
  vary, a dash if no operand is inexact.
- **reverse**: `vjp`, through the jvp and the transposition of what that is made of.
- **transpose**: the operands in which the primitive is linear, so that it has a rule of its own.
- **batch**: every set of mapped operands, the new axis first and last.
- *partly* and *no* give the rule's own words.
- **CPU writes**: the one StableHLO operation that most exemplars become, besides conversions, constants,
  barriers and changes of shape, or the routine that they call; *composed* where it takes several. Linear algebra that the plugin lacks
  (`eig`, `eigh`, `lu`, `svd`) is composed so, in loops of StableHLO: only `callback` leaves the plugin.
- **CPU runs**: the dtypes of operands (of the result, if there are none) that `abstract_eval` takes, each run on
  the CPU plugin and compared with the same operation in the widest dtype of its kind. *signed* are i2, i4, i8,
  i16, i32, i64; *unsigned* u2, u4, u8, u16, u32, u64; *float* the eight of eight bits, f4_e2m1fn, bf16, f16, f32, f64;
  *complex* c64, c128.
- **TPU compiles**: those of bool, i8, i32, u32, bf16, f32 and c64 for which libtpu compiles it for one core of a
  v5e. Others have not been tried, but i2 and u2, on which libtpu aborts: they are refused.

| primitive | types | jvp | reverse | transpose | batch | CPU writes | CPU runs | TPU compiles |
|---|---|---|---|---|---|---|---|---|
";

#[test]
fn the_support_matrix_says_what_the_rules_do() {
    let mut text = HEAD.to_owned();
    let (cpu, tpu) = (Platform::read("cpu"), Platform::read("tpu"));
    for entry in PRIMITIVES.iter().chain(HOLDERS) {
        let row = Row::of(entry);
        writeln!(text, "{row} {} | {} |", cpu.cell(entry.name), tpu.cell(entry.name)).unwrap();
    }
    expect_file!["../../../docs/support-matrix.md"].assert_eq(&text);
}

/// What `platforms.rs` found out about one plugin.
struct Platform {
    lines: Vec<String>,
}

/// Dtypes under one word.
type Kind = (&'static str, fn(DType) -> bool);

const KINDS: [Kind; 5] = [
    ("bool", |dtype| dtype == DType::Bool),
    ("signed", |dtype| dtype.is_integer() && !dtype.is_unsigned()),
    ("unsigned", DType::is_unsigned),
    ("float", DType::is_float),
    ("complex", DType::is_complex),
];

impl Platform {
    fn read(name: &str) -> Platform {
        let file =
            format!("{}/tests/cpu/primitives/platforms/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        Platform { lines: text.lines().map(str::to_owned).collect() }
    }

    /// The dtypes that went well; those that did not, with the first words of why.
    fn cell(&self, primitive: &str) -> String {
        let own = |line: &&String| line.split_once(':').is_some_and(|(name, _)| name == primitive);
        let mut lines = self.lines.iter().skip_while(|line| !own(line));
        let Some(line) = lines.next() else { return "not tried".to_owned() };
        let listed: Vec<&str> = line[primitive.len() + 1..].split_whitespace().collect();
        let is_listed = |dtype: &DType| listed.contains(&dtype.to_string().as_str());
        let mut dtypes: Vec<DType> = DType::all().filter(is_listed).collect();
        let mut words = Vec::new();
        for (word, is_of) in KINDS {
            if DType::all().filter(|&dtype| is_of(dtype)).all(|dtype| dtypes.contains(&dtype)) {
                dtypes.retain(|&dtype| !is_of(dtype));
                words.push(word.to_owned());
            }
        }
        words.extend(dtypes.iter().map(ToString::to_string));
        let refusals = lines.take_while(|line| line.starts_with(' '));
        words.extend(refusals.map(|line| format!("not {}", line.trim())));
        words.join(", ")
    }
}

/// What all exemplars of a primitive showed.
struct Row {
    name: &'static str,
    cells: [String; 5],
    transpose: Vec<usize>,
}

impl Row {
    fn of(entry: &Entry) -> Row {
        let cases: Vec<Case> = (entry.exemplars)().iter().map(Case::new).collect();
        let cell = |rule: fn(&Case) -> Outcome| summary(cases.iter().map(rule));
        let mut transpose: Vec<usize> = cases.iter().flat_map(Case::linear_operands).collect();
        transpose.sort_unstable();
        transpose.dedup();
        let full = cases.iter().filter(|case| case.avals.iter().all(|aval| aval.size() > 0));
        let written: Vec<Written> = full.map(Case::written).collect();
        let count = |one: &Written| written.iter().filter(|other| *other == one).count();
        // What most exemplars become; the plainest of several.
        let written = written.iter().min_by_key(|one| (std::cmp::Reverse(count(one)), *one));
        Row {
            name: entry.name,
            cells: [
                "yes".into(),
                cell(Case::jvp),
                cell(Case::reverse),
                cell(Case::batch),
                written.map_or("nothing".into(), Written::to_string),
            ],
            transpose,
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [types, jvp, reverse, batch, written] = &self.cells;
        let linear: Vec<String> = self.transpose.iter().map(ToString::to_string).collect();
        let linear = if linear.is_empty() { "–".to_owned() } else { linear.join(", ") };
        write!(
            f,
            "| `{}` | {types} | {jvp} | {reverse} | {linear} | {batch} | {written} |",
            self.name
        )
    }
}

/// What a lowering writes besides conversions, constants, barriers and changes of shape; the
/// plainest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Written {
    Nothing,
    One(String),
    Routine(String),
    Composed,
    /// It stands in a named axis, and `vmap` has the rule.
    BoundByVmap,
}

/// The lines that are not of an operation's region, which says what that does with two elements.
fn outside_regions(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.lines().filter(move |line| {
        depth -= usize::from(line.trim_start().starts_with("})"));
        let outside = depth == 0;
        depth += usize::from(line.ends_with("({"));
        outside
    })
}

/// What does no work of its own.
const PLAIN: [&str; 10] = [
    "sdy.mesh",
    "sdy.return",
    "sdy.sharding",
    "sdy.sharding_per_value",
    "stablehlo.broadcast_in_dim",
    "stablehlo.constant",
    "stablehlo.convert",
    "stablehlo.optimization_barrier",
    "stablehlo.reshape",
    "stablehlo.return",
];

impl Written {
    fn of(text: &str) -> Written {
        let words = || outside_regions(text).flat_map(|line| line.split(['"', ' ']));
        let mut operations: Vec<&str> = words()
            .filter(|word| {
                ["stablehlo.", "chlo.", "sdy."].iter().any(|dialect| word.starts_with(dialect))
            })
            .filter(|word| !PLAIN.contains(word))
            .collect();
        operations.sort_unstable();
        operations.dedup();
        match operations[..] {
            [] => Written::Nothing,
            ["stablehlo.custom_call"] => {
                let mut target = words().skip_while(|word| !word.ends_with("call_target_name"));
                Written::Routine(target.nth(3).expect("a call has a target").to_owned())
            }
            [one] => Written::One(one.to_owned()),
            _ => Written::Composed,
        }
    }
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Written::Nothing => f.write_str("nothing"),
            Written::One(operation) => write!(f, "`{operation}`"),
            Written::Routine(name) => write!(f, "calls `{name}`"),
            Written::Composed => f.write_str("composed"),
            Written::BoundByVmap => f.write_str("what `vmap` makes of it"),
        }
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

fn thrown<T>(rule: RuleResult<T>) -> T {
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
            loc: oxidax::core::Loc::UNKNOWN,
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
        let outcome_so_far = Arc::new(std::sync::Mutex::new(Outcome::Zero));
        let (found_inside, primitive, n) =
            (outcome_so_far.clone(), self.exemplar.primitive.clone(), self.avals.len());
        let expected = self.program.avals_out();
        let traced = Case::trace(&doubled, move |inputs| {
            let (primals, dense) = inputs.split_at(n);
            let tangents: Vec<Tangent> = dense
                .iter()
                .map(|dx| {
                    if dx.dtype().is_inexact() {
                        Tangent::Dense(dx.clone())
                    } else {
                        Tangent::zero_like(dx)
                    }
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
        let outcome_so_far =
            std::mem::replace(&mut *outcome_so_far.lock().unwrap(), Outcome::Nothing);
        outcome(self.name(), traced.map(|()| outcome_so_far))
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
        let takes = |&index: &usize| {
            let (primitive, n) = (self.exemplar.primitive.clone(), self.avals.len());
            let mut avals = self.avals.clone();
            avals.extend(self.program.avals_out());
            let traced = Case::trace(&avals, move |inputs| {
                let (operands, cts) = inputs.split_at(n);
                let cts: Vec<Tangent> = cts.iter().cloned().map(Tangent::Dense).collect();
                let operand = |(other, x): (usize, &Array)| {
                    if other == index {
                        Operand::Linear(x.aval().clone())
                    } else {
                        Operand::Known(x.clone())
                    }
                };
                let operands: Vec<Operand> = operands.iter().enumerate().map(operand).collect();
                let outcome_so_far = thrown(primitive.transpose(&cts, &operands));
                let ct =
                    outcome_so_far[index].as_ref().expect("a cotangent for the linear operand");
                assert!(ct.aval().same_type(operands[index].aval()), "{}", primitive.name());
            });
            traced.is_ok()
        };
        let inexact = |index: &usize| self.avals[*index].dtype.is_inexact();
        (0..self.avals.len()).filter(inexact).filter(takes).collect()
    }

    fn batch(&self) -> Outcome {
        let n = self.avals.len();
        let mut outcome_so_far = Outcome::Nothing;
        for subset in 1..1u32 << n {
            for last in [false, true] {
                let axis_of = |index: usize| {
                    let axis = if last { self.avals[index].rank() } else { 0 };
                    (subset & (1 << index) != 0).then_some(axis)
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
                    let outcome_so_far = thrown(primitive.batch(inputs, &axes, &axis));
                    let outputs = outcome_so_far.outputs.iter().zip(&outcome_so_far.axes);
                    for ((output, axis), aval) in outputs.zip(&expected) {
                        let shape = match axis {
                            Some(axis) => aval.shape.insert(*axis, BATCH),
                            None => aval.shape.clone(),
                        };
                        output.expect_shape(shape);
                        assert_eq!(output.dtype(), aval.dtype, "{}", primitive.name());
                    }
                });
                outcome_so_far =
                    outcome_so_far.max(outcome(self.name(), traced.map(|()| Outcome::Yes)));
            }
        }
        outcome_so_far
    }

    fn written(&self) -> Written {
        if !self.exemplar.axes.is_empty() {
            return Written::BoundByVmap;
        }
        let module = catch(|| passes::lower(&self.program, "f", "cpu", false)).flatten();
        let module = module.unwrap_or_else(|error| panic!("{}: {error}", self.name()));
        Written::of(&module.text)
    }
}
