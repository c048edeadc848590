//! Implicit promotion and broadcasting of operands, before the strict primitives.

use super::constant::{fill_of, scalar};
use super::convert::convert_to;
use super::device_put::in_memory;
use super::shape::broadcast_to;
use crate::core::{
    Array, Aval, DType, Loc, MemoryKind, RuleError, RuleResult, Scalar, Shape, options, promote,
    trace,
};

/// An operand of a public function: an array or a Rust number.
#[derive(Clone, Copy, Debug)]
pub enum Like<'a> {
    /// An array.
    Array(&'a Array),
    /// A number, weakly typed.
    Scalar(Scalar),
}

/// Operands of public functions: arrays by reference or value, and Rust numbers, as in `maximum(&x,
/// 0.0)`.
///
/// Numbers are weakly typed: they take the dtype of the array operand as far as their category
/// allows (`i32` with `2.5` gives a weak `f32`).
#[diagnostic::on_unimplemented(message = "`{Self}` is neither an array nor a number")]
pub trait ArrayLike {
    /// The operand.
    fn like(&self) -> Like<'_>;
    /// Returns the operand as an array; a number becomes a weakly typed scalar.
    #[track_caller]
    fn to_array(&self) -> Array {
        match self.like() {
            Like::Array(x) => x.clone(),
            Like::Scalar(value) => scalar(value),
        }
    }
}

impl ArrayLike for Array {
    fn like(&self) -> Like<'_> {
        Like::Array(self)
    }
}

impl ArrayLike for Like<'_> {
    fn like(&self) -> Like<'_> {
        *self
    }
}

impl<T: ArrayLike + ?Sized> ArrayLike for &T {
    fn like(&self) -> Like<'_> {
        (**self).like()
    }
}

/// Expands `$macro!` with the types of numbers that stand for arrays.
macro_rules! for_each_number {
    ($macro:ident) => {
        $macro!(
            bool,
            i8,
            i16,
            i32,
            i64,
            u8,
            u16,
            u32,
            u64,
            usize,
            f32,
            f64,
            half::f16,
            half::bf16,
            num_complex::Complex32,
            num_complex::Complex64,
            Scalar
        );
    };
}

pub(crate) use for_each_number;

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl ArrayLike for $ty {
            fn like(&self) -> Like<'_> {
                Like::Scalar(Scalar::from(*self))
            }
        }
    )*};
}

for_each_number!(numbers);

impl Like<'_> {
    fn dtype(&self) -> (DType, bool) {
        match self {
            Like::Array(x) => (x.dtype(), x.aval().weak),
            Like::Scalar(value) => (value.default_dtype(), !matches!(value, Scalar::Bool(_))),
        }
    }

    fn shape(&self) -> Shape {
        match self {
            Like::Array(x) => x.shape().clone(),
            Like::Scalar(_) => Shape::scalar(),
        }
    }

    fn aval(&self) -> Aval {
        let (dtype, weak) = self.dtype();
        let memory = match self {
            Like::Array(x) => x.aval().memory,
            Like::Scalar(_) => MemoryKind::Device,
        };
        Aval { weak, memory, ..Aval::new(dtype, self.shape()) }
    }

    /// Converts and broadcasts the operand to an array of the given type.
    #[track_caller]
    fn into_type(self, aval: &Aval) -> Array {
        match self {
            Like::Array(x) if x.aval() == aval => x.clone(),
            Like::Array(x) => {
                let x = convert_to(x, aval.dtype, aval.weak);
                // Arrays are moved between memories by the user alone, scalars as needed.
                let x = if x.rank() == 0 { in_memory(&x, aval.memory) } else { x };
                broadcast_to(&x, &aval.shape)
            }
            Like::Scalar(value) => fill_of(value, aval),
        }
    }
}

fn joint_type(operands: &[Like<'_>]) -> RuleResult<Aval> {
    let mut joint = operands[0].aval();
    if operands[1..].iter().all(|other| matches!(other, Like::Array(x) if *x.aval() == joint)) {
        return Ok(joint);
    }
    for other in &operands[1..] {
        let (dtype, weak) = promote((joint.dtype, joint.weak), other.dtype()).ok_or_else(|| {
            RuleError::dtype(format!(
                "{} and {} have no implicit promotion",
                joint.dtype,
                other.dtype().0
            ))
            .help("convert one of them with `astype`")
        })?;
        let shape = joint.shape.broadcast(&other.shape()).ok_or_else(|| {
            RuleError::shape(format!(
                "shapes {} and {} do not broadcast: {}",
                joint.shape,
                other.shape(),
                mismatch(&joint.shape, &other.shape())
            ))
        })?;
        joint = Aval { weak, ..Aval::new(dtype, shape) };
    }
    let mut arrays = operands.iter().filter_map(|operand| match operand {
        Like::Array(x) => Some(*x),
        Like::Scalar(_) => None,
    });
    let first = arrays.clone().next();
    if let Some(decisive) = arrays.find(|x| x.rank() > 0).or(first) {
        joint.memory = decisive.aval().memory;
    }
    Ok(joint)
}

fn mismatch(a: &Shape, b: &Shape) -> String {
    let pairs = a.iter().rev().zip(b.iter().rev());
    let from_the_back = pairs.clone().position(|(&a, &b)| a != b && a != 1 && b != 1);
    let axis = from_the_back.expect("the shapes do not broadcast");
    format!("axis -{} is {} and {}", axis + 1, a[a.rank() - 1 - axis], b[b.rank() - 1 - axis])
}

/// Promotes the operands of `name` to one dtype and shape, by JAX's promotion table and NumPy's
/// broadcasting. Throws `Op` if there is no common dtype or shape, or if
/// [`config`](crate::config) forbids the promotion.
#[track_caller]
pub fn promote_arrays<const N: usize>(name: &str, operands: [Like<'_>; N]) -> [Array; N] {
    let caller = std::panic::Location::caller();
    let joint = joint_type(&operands).and_then(|joint| {
        let differ = operands.iter().any(|operand| operand.dtype().0 != joint.dtype)
            || operands.iter().any(|operand| operand.shape().rank() != joint.shape.rank());
        if differ {
            let avals: Vec<Aval> = operands.iter().map(Like::aval).collect();
            options::check_promotion(name, &avals, &joint, caller)?;
        }
        Ok(joint)
    });
    match joint {
        Ok(aval) => Loc::caller().scope(|| operands.map(|operand| operand.into_type(&aval))),
        Err(error) => {
            let avals: Vec<Aval> = operands.iter().map(Like::aval).collect();
            trace::throw_rule(name, error, &avals, Loc::caller())
        }
    }
}

/// Promotes like [`promote_arrays`] and converts integers and booleans to floats, as `sin` and `/`
/// do. Throws `Op` if there is no common dtype or shape.
#[track_caller]
pub(crate) fn promote_inexact<const N: usize>(name: &str, operands: [Like<'_>; N]) -> [Array; N] {
    let arrays = promote_arrays(name, operands);
    if arrays[0].dtype().is_inexact() {
        arrays
    } else {
        let weak = arrays[0].aval().weak;
        Loc::caller().scope(|| arrays.map(|x| convert_to(&x, DType::F32, weak)))
    }
}

/// Converts integers and booleans to `f32`; returns float and complex arrays unchanged.
#[track_caller]
pub(crate) fn inexact(x: &Array) -> Array {
    if x.dtype().is_inexact() { x.clone() } else { convert_to(x, DType::F32, x.aval().weak) }
}
