//! [`sparsify`]: functions of dense arrays, applied to sparse ones.

use super::SparseArray;
use super::bcoo::Bcoo;
use super::bcsr::Bcsr;
use crate::operands::throw_value;
use oxidax::control_flow::Call;
use oxidax::core::{Eqn, Loc, Program, RuleError, bind, throw, throw_operands};
use oxidax::prelude::*;
use oxidax::primitives::{
    BroadcastInDim, Concatenate, ConvertElementType, DotGeneral, IntegerPow, ReduceSum, Reshape,
    Rev, Slice, Transpose,
};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// A dense or a sparse array, as an argument and a result of [`sparsify`].
#[derive(Clone, Debug, Tree)]
pub enum SparseValue {
    /// A dense array.
    Dense(Array),
    /// A sparse array.
    Sparse(Bcoo),
}

impl SparseValue {
    /// Returns the type of the dense array.
    fn aval(&self) -> Aval {
        match self {
            SparseValue::Dense(x) => x.aval().clone(),
            SparseValue::Sparse(x) => Aval::new(x.dtype(), x.shape()),
        }
    }
}

impl SparseArray for SparseValue {
    fn shape(&self) -> Shape {
        self.aval().shape
    }
    fn dtype(&self) -> DType {
        self.aval().dtype
    }
    fn nse(&self) -> usize {
        match self {
            SparseValue::Dense(x) => x.size(),
            SparseValue::Sparse(x) => x.nse(),
        }
    }
    #[track_caller]
    fn todense(&self) -> Array {
        match self {
            SparseValue::Dense(x) => x.clone(),
            SparseValue::Sparse(x) => x.todense(),
        }
    }
}

impl From<&Array> for SparseValue {
    fn from(x: &Array) -> SparseValue {
        SparseValue::Dense(x.clone())
    }
}

impl From<Array> for SparseValue {
    fn from(x: Array) -> SparseValue {
        SparseValue::Dense(x)
    }
}

impl From<&Bcoo> for SparseValue {
    fn from(x: &Bcoo) -> SparseValue {
        SparseValue::Sparse(x.clone())
    }
}

impl From<Bcoo> for SparseValue {
    fn from(x: Bcoo) -> SparseValue {
        SparseValue::Sparse(x)
    }
}

impl From<&Bcsr> for SparseValue {
    fn from(x: &Bcsr) -> SparseValue {
        SparseValue::Sparse(x.to_bcoo())
    }
}

/// Elementwise operations that map 0 to 0, so that they apply to the data of an array without
/// duplicates.
const ZERO_PRESERVING: [&str; 27] = [
    "abs",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "cbrt",
    "ceil",
    "conj",
    "convert_element_type",
    "copy",
    "erf",
    "expm1",
    "floor",
    "imag",
    "integer_pow",
    "log1p",
    "neg",
    "real",
    "round",
    "round_half_away",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
];

/// Operations of that list that are linear, so that duplicates do not matter.
const LINEAR: [&str; 6] = ["neg", "real", "imag", "conj", "copy", "convert_element_type"];

/// Returns a function that applies `f`, which is written for dense arrays, to dense and sparse
/// ones.
///
/// `f` is traced once for each call. Its operations are applied to sparse operands without making
/// them dense: sums and products (`add`, `sub`, `mul`, `dot_general`), `reduce_sum`, `transpose`,
/// `reshape`, `broadcast_in_dim`, `slice`, `concatenate`, `rev`, and elementwise operations that
/// map 0 to 0 (`sin`, `tanh`, `abs`, `sqrt`, integer powers, …). Products of a sparse and a dense
/// array are dense, other results sparse.
///
/// The returned function throws `Op` (unsupported) for another operation of a sparse operand, and
/// for a function that captures arrays, which must be arguments instead.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::{self, SparseArray, sparsify};
/// let f = sparsify(|x: Vec<Array>| vec![sin(x[0].t() * 2.0).matmul(&x[1])]);
/// let y = f(&[sparse::eye(3).into(), ones([3]).into()]);
/// assert!(allclose(y[0].todense(), 2.0f32.sin()).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn sparsify(
    f: impl Fn(Vec<Array>) -> Vec<Array>,
) -> impl Fn(&[SparseValue]) -> Vec<SparseValue> {
    let loc = Loc::caller();
    move |arguments: &[SparseValue]| {
        let avals: Vec<Aval> = arguments.iter().map(SparseValue::aval).collect();
        let examples: Vec<Array> = avals.into_iter().map(Array::of_type).collect();
        let program = match make_program(|x: Vec<Array>| f(x), examples) {
            Ok(program) => program,
            Err(error) => throw(error),
        };
        loc.scope(|| interpret(&program, arguments))
    }
}

/// Applies a program to values.
#[track_caller]
fn interpret(program: &Program, arguments: &[SparseValue]) -> Vec<SparseValue> {
    if program.inputs().len() != arguments.len() {
        let message = format!(
            "the function has {} arguments and captures {} arrays, which must be arguments too",
            arguments.len(),
            program.inputs().len() - arguments.len()
        );
        throw_value("sparsify", message, &[]);
    }
    let mut values: HashMap<u32, SparseValue> =
        program.inputs().iter().copied().zip(arguments.iter().cloned()).collect();
    for eqn in program.eqns() {
        let operands: Vec<SparseValue> =
            eqn.operands.iter().map(|operand| values[operand].clone()).collect();
        let results = eqn.loc.scope(|| apply(program, eqn, &operands));
        values.extend(eqn.results.iter().copied().zip(results));
    }
    program.outputs().iter().map(|output| values[output].clone()).collect()
}

/// Applies one operation.
#[track_caller]
fn apply(program: &Program, eqn: &Eqn, operands: &[SparseValue]) -> Vec<SparseValue> {
    let is_sparse = |value: &SparseValue| matches!(value, SparseValue::Sparse(_));
    if !operands.iter().any(is_sparse) {
        let dense: Vec<Array> = operands.iter().map(SparseValue::todense).collect();
        return bound(program, eqn, &dense).into_iter().map(SparseValue::Dense).collect();
    }
    let holder = eqn.primitive.as_higher_order().and_then(|holder| holder.inlined());
    if let Some(inner) = holder {
        return interpret(inner, operands);
    }
    let result = match operands {
        [SparseValue::Sparse(x)] => of_one(program, eqn, x),
        [x, y] => of_two(eqn, x, y),
        _ => None,
    };
    let result = result.or_else(|| of_many(eqn, operands));
    match result {
        Some(value) => vec![value],
        None => {
            let name = eqn.primitive.name();
            let error = RuleError::unsupported(format!("`{name}` does not take sparse operands"))
                .help("make the operand dense before: `todense()`");
            throw_operands("sparsify", error, &[])
        }
    }
}

/// Applies an operation to dense arrays.
#[track_caller]
fn bound(program: &Program, eqn: &Eqn, operands: &[Array]) -> Vec<Array> {
    let results = eqn.results.iter().map(|&result| program.aval(result).clone()).collect();
    let avals = operands.iter().map(|x| x.aval().clone()).collect();
    let one = Program::of_operation(eqn.primitive.clone(), avals, results, eqn.loc);
    let call = Call { name: eqn.primitive.name().to_owned(), program: Arc::new(one) };
    bind(call, &operands.iter().collect::<Vec<_>>())
}

/// Applies an operation of one sparse operand.
#[track_caller]
fn of_one(program: &Program, eqn: &Eqn, x: &Bcoo) -> Option<SparseValue> {
    let any: &dyn Any = (*eqn.primitive).as_any();
    let name = eqn.primitive.name();
    let result = if let Some(Transpose { permutation }) = any.downcast_ref() {
        x.update_layout(0, 0).transpose(permutation)
    } else if let Some(Reshape { shape }) = any.downcast_ref() {
        x.update_layout(x.n_batch(), 0).reshape(shape)
    } else if let Some(BroadcastInDim { shape, broadcast_dimensions }) = any.downcast_ref() {
        x.broadcast_in_dim(shape, broadcast_dimensions)
    } else if let Some(Slice { start_indices, limit_indices, strides }) = any.downcast_ref() {
        x.slice(start_indices, limit_indices, strides)
    } else if let Some(ReduceSum { axes }) = any.downcast_ref() {
        x.reduce_sum(axes)
    } else if let Some(Rev { dimensions }) = any.downcast_ref() {
        x.rev(dimensions)
    } else if let Some(ConvertElementType { dtype, .. }) = any.downcast_ref() {
        x.astype(*dtype)
    } else if ZERO_PRESERVING.contains(&name)
        && any.downcast_ref::<IntegerPow>().is_none_or(|power| power.exponent > 0)
    {
        let is_ready = x.unique_indices() || LINEAR.contains(&name);
        let x = if is_ready { x.clone() } else { x.sum_duplicates() };
        let result = Aval::new(program.aval(eqn.results[0]).dtype, x.data.shape());
        let operand = x.data.aval().clone();
        let one =
            Program::of_operation(eqn.primitive.clone(), vec![operand], vec![result], eqn.loc);
        let call = Call { name: name.to_owned(), program: Arc::new(one) };
        x.map_data(|data| bind(call, &[data]).swap_remove(0))
    } else {
        return None;
    };
    Some(SparseValue::Sparse(result))
}

/// Applies an operation of two operands, of which at least one is sparse.
#[track_caller]
fn of_two(eqn: &Eqn, x: &SparseValue, y: &SparseValue) -> Option<SparseValue> {
    use SparseValue::{Dense, Sparse};
    if let Some(axes) = (*eqn.primitive).as_any().downcast_ref::<DotGeneral>() {
        return Some(match (x, y) {
            (Sparse(x), Dense(y)) => Dense(x.dot_general(y, axes)),
            (Dense(x), Sparse(y)) => Dense(y.rdot_general(x, axes)),
            (Sparse(x), Sparse(y)) => Sparse(x.spdot_general(y, axes)),
            (Dense(_), Dense(_)) => return None,
        });
    }
    Some(match (eqn.primitive.name(), x, y) {
        ("mul", Sparse(x), Sparse(y)) => Sparse(x * y),
        ("mul", Sparse(x), Dense(y)) | ("mul", Dense(y), Sparse(x)) => Sparse(x * y),
        ("div", Sparse(x), Dense(y)) => Sparse(x.multiply_dense(&div(1.0, y))),
        ("add", Sparse(x), Sparse(y)) => Sparse(x + y),
        ("sub", Sparse(x), Sparse(y)) => Sparse(x - y),
        ("add", Sparse(x), Dense(y)) | ("add", Dense(y), Sparse(x)) => Dense(x.todense() + y),
        ("sub", Sparse(x), Dense(y)) => Dense(x.todense() - y),
        ("sub", Dense(x), Sparse(y)) => Dense(x - y.todense()),
        _ => return None,
    })
}

/// Applies an operation of any number of operands.
#[track_caller]
fn of_many(eqn: &Eqn, operands: &[SparseValue]) -> Option<SparseValue> {
    let concatenate = (*eqn.primitive).as_any().downcast_ref::<Concatenate>()?;
    let parts: Option<Vec<Bcoo>> = operands
        .iter()
        .map(|value| match value {
            SparseValue::Sparse(x) => Some(x.update_layout(x.n_batch(), 0)),
            SparseValue::Dense(_) => None,
        })
        .collect();
    Some(SparseValue::Sparse(Bcoo::concatenate(&parts?, concatenate.dimension)))
}
