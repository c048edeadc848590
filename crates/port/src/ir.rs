//! The program between reading and writing: calls and library functions beside primitives.

use serde_json::{Map, Value};

/// A variable: an index into [`Module::avals`]. Variables are defined once.
pub(crate) type Var = usize;

/// An element type, by oxidax's short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dtype {
    Bool,
    Int(u8),
    Uint(u8),
    F16,
    Bf16,
    F32,
    F64,
    C64,
    C128,
    Key,
}

impl Dtype {
    pub(crate) fn parse(name: &str) -> Option<Dtype> {
        Some(match name {
            "bool" => Dtype::Bool,
            "i8" => Dtype::Int(8),
            "i16" => Dtype::Int(16),
            "i32" => Dtype::Int(32),
            "i64" => Dtype::Int(64),
            "u8" => Dtype::Uint(8),
            "u16" => Dtype::Uint(16),
            "u32" => Dtype::Uint(32),
            "u64" => Dtype::Uint(64),
            "f16" => Dtype::F16,
            "bf16" => Dtype::Bf16,
            "f32" => Dtype::F32,
            "f64" => Dtype::F64,
            "c64" => Dtype::C64,
            "c128" => Dtype::C128,
            "key" => Dtype::Key,
            _ => return None,
        })
    }

    /// The variant of `DType`.
    pub(crate) fn rust(self) -> String {
        match self {
            Dtype::Bool => "DType::Bool".into(),
            Dtype::Int(bits) => format!("DType::I{bits}"),
            Dtype::Uint(bits) => format!("DType::U{bits}"),
            Dtype::F16 => "DType::F16".into(),
            Dtype::Bf16 => "DType::BF16".into(),
            Dtype::F32 => "DType::F32".into(),
            Dtype::F64 => "DType::F64".into(),
            Dtype::C64 => "DType::C64".into(),
            Dtype::C128 => "DType::C128".into(),
            Dtype::Key => "DType::U32".into(),
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Dtype::Int(_) | Dtype::Uint(_))
    }
}

/// A dtype and a shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aval {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
}

/// The value of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    pub(crate) fn parse(value: &Value) -> Option<Number> {
        Some(match value {
            Value::Bool(value) => Number::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Number::Int(value.into()),
                (None, Some(value)) => Number::Int(value.into()),
                _ => Number::Float(number.as_f64()?),
            },
            Value::String(text) => Number::Float(match text.as_str() {
                "nan" => f64::NAN,
                "inf" => f64::INFINITY,
                "-inf" => f64::NEG_INFINITY,
                _ => return None,
            }),
            Value::Array(parts) => {
                let [re, im] = parts.as_slice() else { return None };
                let part = |value| Number::parse(value).and_then(Number::as_f64);
                Number::Complex(part(re)?, part(im)?)
            }
            _ => return None,
        })
    }

    /// The value as one of a dtype: 2 is a float among floats.
    pub(crate) fn of(self, dtype: Dtype) -> Number {
        match (self, dtype) {
            (Number::Int(value), dtype) if dtype.is_float() => Number::Float(value as f64),
            (Number::Bool(value), dtype) if dtype.is_float() => Number::Float(f64::from(value)),
            (Number::Bool(value), dtype) if dtype.is_integer() => Number::Int(value.into()),
            (Number::Float(value), dtype) if dtype.is_integer() => Number::Int(value as i128),
            (value, _) => value,
        }
    }

    pub(crate) fn as_f64(self) -> Option<f64> {
        match self {
            Number::Float(value) => Some(value),
            Number::Int(value) => Some(value as f64),
            Number::Bool(_) | Number::Complex(..) => None,
        }
    }
}

/// A scalar constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Literal {
    pub(crate) value: Number,
    pub(crate) dtype: Dtype,
    pub(crate) weak: bool,
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Atom {
    Var(Var),
    Lit(Literal),
}

impl Atom {
    pub(crate) fn var(self) -> Option<Var> {
        match self {
            Atom::Var(var) => Some(var),
            Atom::Lit(_) => None,
        }
    }

    pub(crate) fn number(self) -> Option<f64> {
        match self {
            Atom::Lit(literal) => literal.value.as_f64(),
            Atom::Var(_) => None,
        }
    }
}

/// An equation. `prim` is a primitive of JAX, `call` for a user-defined function, `constant`, or
/// `lib.` and a function of oxidax.
#[derive(Clone, Debug)]
pub(crate) struct Eqn {
    pub(crate) prim: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) ins: Vec<Atom>,
    pub(crate) outs: Vec<Var>,
    pub(crate) line: Option<usize>,
    /// The number of the traced call.
    pub(crate) call: Option<usize>,
}

impl Eqn {
    /// A list of sizes or axes among the parameters.
    pub(crate) fn sizes(&self, name: &str) -> Option<Vec<usize>> {
        sizes(self.params.get(name)?)
    }

    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        self.params.get(name)?.as_i64()
    }

    pub(crate) fn size(&self, name: &str) -> Option<usize> {
        usize::try_from(self.params.get(name)?.as_u64()?).ok()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.params.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name)?.as_str()
    }
}

pub(crate) fn integers(value: &Value) -> Option<Vec<i64>> {
    value.as_array()?.iter().map(Value::as_i64).collect()
}

pub(crate) fn sizes(value: &Value) -> Option<Vec<usize>> {
    let size = |value: &Value| usize::try_from(value.as_u64()?).ok();
    value.as_array()?.iter().map(size).collect()
}

/// Equations with parameters and results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    pub(crate) ins: Vec<Var>,
    /// Names of the parameters, where Python has them.
    pub(crate) names: Vec<Option<String>>,
    pub(crate) eqns: Vec<Eqn>,
    pub(crate) outs: Vec<Atom>,
    /// The Python lines in the order of their first equations, also of those that were replaced.
    pub(crate) lines: Vec<usize>,
}

impl Body {
    /// Visits the operands of all equations, also of held bodies, and the results.
    pub(crate) fn for_each_use(&self, visit: &mut impl FnMut(Var)) {
        for eqn in &self.eqns {
            for var in eqn.ins.iter().filter_map(|atom| atom.var()) {
                visit(var);
            }
            for body in &eqn.bodies {
                body.for_each_use(visit);
            }
        }
        for var in self.outs.iter().filter_map(|atom| atom.var()) {
            visit(var);
        }
    }

    /// Removes equations whose results are not used.
    pub(crate) fn remove_unused(&mut self, n_vars: usize) {
        let mut used = vec![false; n_vars];
        let mut keep = vec![false; self.eqns.len()];
        for var in self.outs.iter().filter_map(|atom| atom.var()) {
            used[var] = true;
        }
        for (index, eqn) in self.eqns.iter_mut().enumerate().rev() {
            if !eqn.outs.iter().any(|&var| used[var]) {
                continue;
            }
            keep[index] = true;
            for var in eqn.ins.iter().filter_map(|atom| atom.var()) {
                used[var] = true;
            }
            for body in &mut eqn.bodies {
                body.remove_unused(n_vars);
                body.for_each_use(&mut |var| used[var] = true);
            }
        }
        let mut keep = keep.into_iter();
        self.eqns.retain(|_| keep.next().unwrap_or(true));
    }
}
