//! Planted faults: each faulty rule is reported by the law that covers it.

use oxidax::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RegistryEntry, RuleError, RuleResult, Sample, Spmd, Tangent, bind1,
};
use oxidax::primitives::{mul, rev, stop_gradient};
use oxidax::stablehlo::Value;
use oxidax::testing::check_primitive;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// The fault of a [`Product`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Fault {
    #[default]
    Nothing,
    RefusesItsExemplar,
    AnotherResultType,
    TangentTwice,
    TangentOfAnotherType,
    TangentOfFirstOrderOnly,
    ZeroForgetsTheOther,
    CotangentTwice,
    ExamplesReversed,
    AnotherOperationTheFirstTime,
    CostsNothing,
    TwiceWhereAllAgree,
    LosesAParameter,
}

/// `x · y` elementwise, with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Product {
    fault: Fault,
    /// A parameter that is not printed.
    #[serde(skip)]
    unprinted: u8,
}

impl Product {
    fn of(fault: Fault) -> Product {
        Product { fault, unprinted: u8::from(fault == Fault::LosesAParameter) }
    }

    fn exemplars(fault: Fault) -> Vec<Exemplar> {
        let sample = || Sample::uniform(DType::F32, [2, 3], 1.0, 2.0);
        let exemplar = Exemplar::new(Product::of(fault), [sample(), sample()]);
        match fault {
            Fault::TwiceWhereAllAgree => vec![exemplar.along([("i", 3)])],
            _ => vec![exemplar],
        }
    }

    fn bind(&self, x: &Array, y: &Array) -> Array {
        bind1(self.clone(), [x, y])
    }
}

impl Primitive for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        match self.fault {
            Fault::RefusesItsExemplar => Err(RuleError::shape("no operands please it")),
            Fault::AnotherResultType => Ok(vec![operands[0].with_dtype(DType::BF16)]),
            _ => Ok(vec![operands[0].clone()]),
        }
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (x, y) = (&primals[0], &primals[1]);
        let z = self.bind(x, y);
        if self.fault == Fault::ZeroForgetsTheOther && tangents.iter().any(Tangent::is_zero) {
            let zero = Tangent::zero_like(&z);
            return Ok((vec![z], vec![zero]));
        }
        let left = tangents[0].map(z.aval(), |dx| match self.fault {
            Fault::TangentTwice => self.bind(dx, y) * 2.0,
            Fault::TangentOfAnotherType => self.bind(dx, y).sum(),
            Fault::TangentOfFirstOrderOnly => mul(dx, stop_gradient(y)),
            _ => self.bind(dx, y),
        });
        let right = tangents[1].map(z.aval(), |dy| mul(dy, x));
        let sum = match (left, right) {
            (Tangent::Zero(_), other) | (other, Tangent::Zero(_)) => other,
            (Tangent::Dense(left), Tangent::Dense(right)) => Tangent::Dense(left + right),
        };
        Ok((vec![z], vec![sum]))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let rank =
            operands.iter().zip(axes).map(|(x, axis)| x.rank() - usize::from(axis.is_some()));
        let rank = rank.max().unwrap_or(0);
        let front = |index: usize| match axes[index] {
            Some(axis) => {
                let mut order: Vec<usize> = (0..=rank).collect();
                order.remove(axis);
                order.insert(0, axis);
                oxidax::primitives::transpose(&operands[index], &order)
            }
            None => {
                let shape = operands[index].shape().insert(0, axis.size);
                oxidax::primitives::broadcast_to(&operands[index], shape)
            }
        };
        let z = self.bind(&front(0), &front(1));
        let z = if self.fault == Fault::ExamplesReversed { rev(&z, &[0]) } else { z };
        let z = if axis.is_named("i") && axes == [None, None] { z * 2.0 } else { z };
        Ok(Batched { outputs: vec![z], axes: vec![Some(0)] })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        static LOWERED: AtomicBool = AtomicBool::new(false);
        let first = |done: &AtomicBool| !done.swap(true, Ordering::Relaxed);
        let other = self.fault == Fault::AnotherOperationTheFirstTime && first(&LOWERED);
        Ok(vec![ctx.op(if other { "add" } else { "multiply" }, operands)])
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        match self.fault {
            Fault::CostsNothing => Cost::default(),
            _ => Cost::elementwise(operands, results),
        }
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        match (operands, &cts[0]) {
            ([Operand::Linear(_), Operand::Known(y)], Tangent::Dense(ct)) => {
                let ct = self.bind(ct, y);
                let ct = if self.fault == Fault::CotangentTwice { ct * 2.0 } else { ct };
                Ok(vec![Some(ct.into()), None])
            }
            _ => Err(RuleError::not_linear("product")),
        }
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for Product {
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(match self.fault {
            Fault::TwiceWhereAllAgree => vec!["i".into()],
            _ => Vec::new(),
        })
    }
}

impl Registered for Product {
    const NAME: &'static str = "product";

    fn exemplars() -> Vec<Exemplar> {
        Vec::new()
    }
}

/// Returns the numbers of the laws that a report names, each once, and the report.
fn report(name: &'static str, exemplars: fn() -> Vec<Exemplar>) -> (Vec<String>, String) {
    let report =
        check_primitive(&RegistryEntry { name, exemplars, ..RegistryEntry::of::<Product>() });
    let report = report.err().unwrap_or_default();
    let mut laws: Vec<String> = report
        .match_indices(": law ")
        .filter_map(|(index, result)| report[index + result.len()..].split(' ').next())
        .map(str::to_owned)
        .collect();
    laws.sort();
    laws.dedup();
    (laws, report)
}

/// Asserts that the fault is reported by these laws and no others, with the primitive's name and
/// these words.
macro_rules! reported {
    ($($test:ident: $fault:ident by $laws:expr, $words:literal;)*) => {$(
        #[test]
        fn $test() {
            let (laws, report) = report("product", || Product::exemplars(Fault::$fault));
            let expected: &[&str] = &$laws;
            assert_eq!(laws, expected, "{report}");
            assert!(report.is_empty() == expected.is_empty(), "{report}");
            assert!(report.is_empty() || report.starts_with("product exemplar 0 "), "{report}");
            assert!(report.contains($words), "{report}");
        }
    )*};
}

#[test]
fn reports_missing_exemplars() {
    assert_eq!(report("product", Vec::new).1, "product: has no exemplars");
}

mod on_cpu {
    use super::*;

    reported! {
        no_fault: Nothing by [], "";
        reports_wrong_jvp: TangentTwice by ["2"], "jvp = central differences";
        reports_wrong_transpose: CotangentTwice by ["3"], "transpose is the adjoint";
        reports_wrong_batch_rule: ExamplesReversed by ["4"], "batch = stacked loop";
        reports_jvp_of_first_order_only: TangentOfFirstOrderOnly by ["5"], "second derivative";
        reports_nondeterministic_lowering: AnotherOperationTheFirstTime by ["4", "6"],
            "program = operation";
        reports_lost_tangent: ZeroForgetsTheOther by ["5", "7"],
            "with a zero tangent";
        reports_unprinted_parameter: LosesAParameter by ["8"], "parses to another program";
        reports_examples_counted_twice: TwiceWhereAllAgree by ["9"],
            "once and copied";
        reports_zero_cost: CostsNothing by ["cost"],
            "0 bytes moved, the smallest operand or result has 24";
    }

    #[test]
    fn reports_tangent_of_wrong_type() {
        let (laws, report) = report("product", || Product::exemplars(Fault::TangentOfAnotherType));
        assert_eq!(laws, ["2", "7"], "{report}");
        assert!(report.contains("rule `jvp`"), "{report}");
    }

    #[test]
    fn reports_wrong_result_type() {
        let (laws, report) = report("product", || Product::exemplars(Fault::AnotherResultType));
        assert!(laws.contains(&"1".to_string()), "{report}");
        assert!(report.contains("law 1 types of the compiled results"), "{report}");
    }

    #[test]
    fn reports_rejected_exemplar() {
        let (_, report) = report("product", || Product::exemplars(Fault::RefusesItsExemplar));
        assert!(report.contains("does not apply to its exemplar"), "{report}");
        assert!(report.contains("no operands please it"), "{report}");
    }

    #[test]
    fn reports_wrong_name() {
        let (laws, report) = report("sum", || Product::exemplars(Fault::Nothing));
        assert!(report.starts_with("product: listed as sum"), "{report}");
        // The parser does not know the name.
        assert_eq!(laws, ["8"], "{report}");
    }
}
