//! Taylor mode: derivatives of higher order along a curve.
//!
//! Values are power series in one variable `t`, truncated. A series is computed coefficient by
//! coefficient, from the primitives' `jvp` rules alone. Each equation has one of four forms:
//!
//! - The tangent does not depend on varying operands: the operation is affine, and its tangent map
//!   applies to every coefficient.
//! - The operation is linear in each of two varying operands: the coefficients are those of the
//!   product of two series (Cauchy product).
//! - The results do not depend on `t`.
//! - Otherwise the tangent rule, with the derivative of the operands as tangents, gives the
//!   derivative of the result, `y'(t)`, and the coefficients follow by integration. The rule's
//!   equations are series themselves. Where it uses the result, as that of `exp` does, it refers to
//!   the series under construction, so the work grows with the square of the order.
//!
//! Reference: Griewank and Walther, "Evaluating Derivatives", 2nd edition (2008), chapter 13;
//! Bettencourt, Johnson and Duvenaud, "Taylor-mode automatic differentiation for higher-order
//! derivatives in JAX" (2019).

use super::checks::{checked_tangents, throw_rule_error};
use super::staging::{staged, trace_call, trace_rules};
use crate::core::{Array, Derivation, Eqn, Loc, Primitive, Program, Tangent, trace};
use crate::passes;
use crate::primitives::zeros_of;
use crate::tree::{Function, PrimalArgs, Primals, expect_alike, leaves_of, paths, rebuild};
use std::sync::Arc;

/// Returns the value of `f` on a curve and its derivatives along the curve, of every order.
///
/// The curve is `x(t) = x₀ + x₁ t + x₂ t²/2! + x₃ t³/3! + …`. `primals` is `x₀` and `series` holds
/// the derivatives `x₁, x₂, …` at `t = 0`, each with the structure, shapes and dtypes of `primals`;
/// for a function of several arguments they are tuples. The result is `f(x₀)` and the derivatives
/// of `f(x(t))` at `t = 0`, as many as `series` has. All are computed in one pass, at a cost that
/// grows with the square of the order, where nested `jvp` grow exponentially.
///
/// Every function that `jvp` differentiates is supported.
///
/// Throws `Tree` if an entry of `series` does not match `primals`, and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// // The first three derivatives of the sine at zero.
/// let series = [ones([]), zeros([]), zeros([])];
/// let (y, derivatives) = jet(|x: &Array| sin(x), &zeros([]), series);
/// let derivatives: Vec<f32> =
///     derivatives.iter().map(|d| d.item()).collect::<Result<_, _>>()?;
/// assert_eq!((y.item::<f32>()?, derivatives), (0.0, vec![1.0, 0.0, -1.0]));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn jet<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
    series: impl IntoIterator<Item = A::Primals>,
) -> (F::Output, Vec<F::Output>) {
    let loc = Loc::caller();
    let scope = format!("jet({})", f.name());
    let primals = &loc.scope(|| primals.tree());
    let series: Vec<A::Primals> = series.into_iter().collect();
    for term in &series {
        expect_alike(primals, term, loc);
    }
    staged(|| {
        let leaves = leaves_of(primals);
        let terms: Vec<Vec<Tangent>> = series
            .iter()
            .map(|term| checked_tangents("jet", &paths(primals), &leaves, &leaves_of(term), loc))
            .collect();
        let call = trace_call(scope, |primals| f.apply(A::from_primals(primals)), primals);
        let mut inputs: Vec<Vec<Option<Array>>> = Vec::with_capacity(call.operands.len());
        for (index, operand) in call.operands.iter().enumerate() {
            let mut coefficients = vec![Some(operand.clone())];
            let is_argument = index < call.n_arguments;
            let mut factorial = 1.0;
            for (order, term) in terms.iter().enumerate().filter(|_| is_argument) {
                factorial *= (order + 1) as f64;
                coefficients.push(term[index].array().map(|x| scaled(x, 1.0 / factorial)));
            }
            inputs.push(coefficients);
        }
        let outputs = loc.scope(|| jet_program(&call.program, inputs, terms.len()));
        let value = outputs.iter().map(|series| dense(series, 0)).collect();
        let mut factorial = 1.0;
        let mut derivatives = Vec::with_capacity(terms.len());
        for order in 1..=terms.len() {
            factorial *= order as f64;
            let term = outputs.iter().map(|series| scaled(&dense(series, order), factorial));
            derivatives.push(rebuild(&call.template, term.collect()));
        }
        (rebuild(&call.template, value), derivatives)
    })
}

/// Returns a coefficient of a series, zeros if it is symbolic.
fn dense(series: &[Option<Array>], order: usize) -> Array {
    match series.get(order).and_then(Option::as_ref) {
        Some(coefficient) => coefficient.clone(),
        None => zeros_of(series[0].as_ref().expect("the value of a series is dense").aval()),
    }
}

/// Returns `x · factor` for numbers that are not integers.
fn scaled(x: &Array, factor: f64) -> Array {
    if factor == 1.0 || !x.dtype().is_inexact() { x.clone() } else { x * factor }
}

/// Returns the coefficients of the program's outputs, from order 0 to `order`, for those of its
/// inputs. `None` is a symbolic zero.
fn jet_program(
    program: &Program,
    inputs: Vec<Vec<Option<Array>>>,
    order: usize,
) -> Vec<Vec<Option<Array>>> {
    let program = passes::dce(&flat(program));
    let mut graph = Graph::default();
    let mut env: Vec<NodeId> = vec![0; program.avals().len()];
    for (&var, coefficients) in program.inputs().iter().zip(inputs) {
        env[var as usize] = graph.add(Node::Given(coefficients));
    }
    for eqn in program.eqns() {
        let op = graph.add_operation(eqn, &env);
        for (index, &var) in eqn.results.iter().enumerate() {
            env[var as usize] = graph.add(Node::Result { op, index });
        }
        // In program order, so that the recursion does not grow with the length of the program.
        for k in 0..=order {
            graph.compute(op, k);
        }
    }
    let outputs = program.outputs().iter().map(|&var| env[var as usize]);
    outputs.map(|node| (0..=order).map(|k| graph.coefficient(node, k)).collect()).collect()
}

/// Inlines the calls in a program.
fn flat(program: &Program) -> Program {
    if !program.eqns().iter().any(|eqn| passes::inlined(eqn).is_some()) {
        return program.clone();
    }
    trace_rules(program.avals_in(), |inputs| passes::eval_flat(program, inputs))
}

type NodeId = usize;
type OpId = usize;

/// A power series.
enum Node {
    /// These coefficients, followed by zeros.
    Given(Vec<Option<Array>>),
    /// The derivative of a series.
    Derivative(NodeId),
    /// A result of an operation on series.
    Result { op: OpId, index: usize },
}

/// An operation on series.
struct Operation {
    primitive: Arc<dyn Primitive>,
    operands: Vec<NodeId>,
    loc: Loc,
    form: Option<Arc<Form>>,
    /// The coefficients of all results, by order.
    coefficients: Vec<Vec<Option<Array>>>,
}

/// The dependence of an operation's results on `t`.
enum Form {
    /// They are constant.
    Constant,
    /// They are affine in the operands at these positions. The program maps the values of all
    /// operands and the tangents of these to the dense tangents of the results.
    Affine { tangent: TangentProgram, varying: Vec<usize> },
    /// They are the only result, linear in each of the operands at these two positions.
    Bilinear([usize; 2]),
    /// Their derivatives are these series.
    Integral(Vec<Option<NodeId>>),
}

/// The tangent map of an operation.
struct TangentProgram {
    program: Program,
    /// True for each result that has a dense tangent.
    dense: Vec<bool>,
}

/// The series of a computation.
#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    operations: Vec<Operation>,
}

impl Graph {
    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds the operation of an equation whose variables are the series `env`.
    fn add_operation(&mut self, eqn: &Eqn, env: &[NodeId]) -> OpId {
        self.operations.push(Operation {
            primitive: eqn.primitive.clone(),
            operands: eqn.operands.iter().map(|&var| env[var as usize]).collect(),
            loc: eqn.loc,
            form: None,
            coefficients: Vec::new(),
        });
        self.operations.len() - 1
    }

    /// Returns false if all coefficients of the series after the first are zero.
    fn is_varying(&mut self, node: NodeId) -> bool {
        match &self.nodes[node] {
            Node::Given(coefficients) => coefficients.iter().skip(1).any(Option::is_some),
            &Node::Result { op, .. } => !matches!(*self.form(op), Form::Constant),
            &Node::Derivative(of) => match &self.nodes[of] {
                Node::Given(coefficients) => coefficients.iter().skip(2).any(Option::is_some),
                _ => self.is_varying(of),
            },
        }
    }

    /// Returns the coefficient of order `k`; `None` if it is a symbolic zero.
    fn coefficient(&mut self, node: NodeId, k: usize) -> Option<Array> {
        match &self.nodes[node] {
            Node::Given(coefficients) => coefficients.get(k).cloned().flatten(),
            &Node::Result { op, index } => {
                self.compute(op, k);
                self.operations[op].coefficients[k][index].clone()
            }
            &Node::Derivative(of) => {
                self.coefficient(of, k + 1).map(|x| scaled(&x, (k + 1) as f64))
            }
        }
    }

    /// Returns the coefficient of order 0, and zeros for a symbolic zero.
    fn value(&mut self, node: NodeId) -> Array {
        if let Some(value) = self.coefficient(node, 0) {
            return value;
        }
        match self.nodes[node] {
            Node::Derivative(of) => zeros_of(self.value(of).aval()),
            _ => unreachable!("the values of inputs and results are dense"),
        }
    }

    /// Computes the coefficients of an operation's results up to order `k`.
    fn compute(&mut self, op: OpId, k: usize) {
        while self.operations[op].coefficients.len() <= k {
            let next = self.operations[op].coefficients.len();
            let loc = self.operations[op].loc.derived(Derivation::Jvp);
            let coefficients = loc.scope(|| self.next_coefficients(op, next));
            self.operations[op].coefficients.push(coefficients);
        }
    }

    fn next_coefficients(&mut self, op: OpId, k: usize) -> Vec<Option<Array>> {
        if k == 0 {
            let values = self.operand_values(op);
            return self.bind(op, &values).into_iter().map(Some).collect();
        }
        let n_results = self.operations[op].coefficients[0].len();
        let operands = self.operations[op].operands.clone();
        match &*self.form(op) {
            Form::Constant => vec![None; n_results],
            Form::Affine { tangent, varying } => {
                let directions: Vec<Option<Array>> = varying
                    .iter()
                    .map(|&position| self.coefficient(operands[position], k))
                    .collect();
                if directions.iter().all(Option::is_none) {
                    return vec![None; n_results];
                }
                let mut inputs = self.operand_values(op);
                for (&position, direction) in varying.iter().zip(directions) {
                    inputs.push(direction.unwrap_or_else(|| zeros_of(inputs[position].aval())));
                }
                let mut results = passes::eval(&tangent.program, &inputs).into_iter();
                tangent.dense.iter().map(|&dense| dense.then(|| results.next()).flatten()).collect()
            }
            &Form::Bilinear([first, second]) => {
                let mut sum: Option<Array> = None;
                let mut values = self.operand_values(op);
                for a in 0..=k {
                    let factors = self
                        .coefficient(operands[first], a)
                        .zip(self.coefficient(operands[second], k - a));
                    let Some((x, y)) = factors else { continue };
                    values[first] = x;
                    values[second] = y;
                    let term = self.bind(op, &values).swap_remove(0);
                    sum = Some(match sum {
                        Some(sum) => sum + term,
                        None => term,
                    });
                }
                vec![sum]
            }
            Form::Integral(derivatives) => derivatives
                .iter()
                .map(|derivative| {
                    let coefficient = self.coefficient((*derivative)?, k - 1)?;
                    Some(scaled(&coefficient, 1.0 / k as f64))
                })
                .collect(),
        }
    }

    fn operand_values(&mut self, op: OpId) -> Vec<Array> {
        let operands = self.operations[op].operands.clone();
        operands.into_iter().map(|node| self.value(node)).collect()
    }

    fn bind(&self, op: OpId, operands: &[Array]) -> Vec<Array> {
        let Operation { primitive, loc, .. } = &self.operations[op];
        trace::bind_at(primitive, &operands.iter().collect::<Vec<_>>(), *loc)
    }

    fn form(&mut self, op: OpId) -> Arc<Form> {
        if let Some(form) = &self.operations[op].form {
            return form.clone();
        }
        let form = Arc::new(self.find_form(op));
        self.operations[op].form = Some(form.clone());
        form
    }

    fn find_form(&mut self, op: OpId) -> Form {
        let operands = self.operations[op].operands.clone();
        let values = self.operand_values(op);
        let mut varying = Vec::new();
        for (position, &node) in operands.iter().enumerate() {
            if values[position].dtype().is_inexact() && self.is_varying(node) {
                varying.push(position);
            }
        }
        if varying.is_empty() {
            return Form::Constant;
        }
        let Operation { primitive, loc, .. } = &self.operations[op];
        let (primitive, loc) = (primitive.clone(), *loc);
        let tangent = tangent_program(&primitive, &values, &varying, loc);
        if !tangent.dense.contains(&true) {
            return Form::Constant;
        }
        let used = tangent.program.used_inputs();
        if !varying.iter().any(|&position| used[position]) {
            return Form::Affine { tangent, varying };
        }
        if let &[first, second] = varying.as_slice()
            && tangent.dense.len() == 1
            && [first, second].iter().all(|&at| is_linear_in(&primitive, &values, at, loc))
        {
            return Form::Bilinear([first, second]);
        }
        let program = passes::dce(&flat(&tangent.program));
        let mut env: Vec<NodeId> = vec![0; program.avals().len()];
        let tangents: Vec<NodeId> = varying
            .iter()
            .map(|&position| self.add(Node::Derivative(operands[position])))
            .collect();
        for (&var, &node) in program.inputs().iter().zip(operands.iter().chain(&tangents)) {
            env[var as usize] = node;
        }
        for eqn in program.eqns() {
            let is_same = (*eqn.primitive).dyn_eq((*primitive).as_any())
                && eqn.operands.iter().map(|&var| env[var as usize]).eq(operands.iter().copied());
            let inner = if is_same { op } else { self.add_operation(eqn, &env) };
            for (index, &var) in eqn.results.iter().enumerate() {
                env[var as usize] = self.add(Node::Result { op: inner, index });
            }
        }
        let mut outputs = program.outputs().iter().map(|&var| env[var as usize]);
        Form::Integral(
            tangent.dense.iter().map(|&dense| dense.then(|| outputs.next()).flatten()).collect(),
        )
    }
}

/// Returns the tangent map of an operation, which takes the values of all operands and the tangents
/// of those at the positions `varying`.
fn tangent_program(
    primitive: &Arc<dyn Primitive>,
    values: &[Array],
    varying: &[usize],
    loc: Loc,
) -> TangentProgram {
    let mut avals: Vec<_> = values.iter().map(|x| x.aval().clone()).collect();
    avals.extend(varying.iter().map(|&position| values[position].aval().clone()));
    let mut dense = Vec::new();
    let program = trace_rules(avals, |inputs| {
        let (primals, directions) = inputs.split_at(values.len());
        let mut tangents: Vec<Tangent> = primals.iter().map(Tangent::zero_like).collect();
        for (&position, direction) in varying.iter().zip(directions) {
            tangents[position] = Tangent::Dense(direction.clone());
        }
        let (_, tangents) = primitive
            .jvp(primals, &tangents)
            .unwrap_or_else(|error| throw_rule_error(primitive.name(), error, primals, loc));
        dense = tangents.iter().map(|tangent| !tangent.is_zero()).collect();
        tangents.iter().filter_map(Tangent::array).cloned().collect()
    });
    TangentProgram { program: passes::dce(&program), dense }
}

/// Returns true if the tangent map for the operand at `position` is the operation itself, with the
/// tangent as that operand.
fn is_linear_in(
    primitive: &Arc<dyn Primitive>,
    values: &[Array],
    position: usize,
    loc: Loc,
) -> bool {
    let TangentProgram { program, .. } = tangent_program(primitive, values, &[position], loc);
    let [eqn] = program.eqns() else { return false };
    let inputs = program.inputs();
    let expected = (0..values.len())
        .map(|operand| inputs[if operand == position { values.len() } else { operand }]);
    (*eqn.primitive).dyn_eq((**primitive).as_any())
        && eqn.operands.iter().copied().eq(expected)
        && program.outputs() == &eqn.results[..]
}
