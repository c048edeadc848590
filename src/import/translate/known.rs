//! Integers that are known while a module is translated: sizes, what is computed from them, and the
//! index of the platform.

use super::{Operands, Traced, Translated, Translator};
use crate::core::{Array, Aval, DType, Scalar, Shape};
use crate::primitives::{concatenate, fill_of, reshape};
use oxidax_vhlo::ValueType;

/// The most elements that are computed while a module is translated. Shapes have fewer.
const MAX_ELEMENTS: usize = 64;

/// A small array of integers or flags that is known.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::import) struct KnownIntegers {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    /// The elements in row-major order, each within the range of the dtype.
    pub(super) elements: Vec<i128>,
}

impl KnownIntegers {
    /// Returns one number.
    pub(in crate::import) fn scalar(dtype: DType, value: i64) -> KnownIntegers {
        KnownIntegers {
            dtype,
            shape: Shape::scalar(),
            elements: vec![wrapped(dtype, value.into())],
        }
    }

    /// Returns the array in the program.
    pub(in crate::import) fn to_array(&self) -> Translated<Array> {
        let aval = Aval::new(self.dtype, self.shape.clone());
        let scalar = |value: i128| match self.dtype {
            DType::Bool => Scalar::Bool(value != 0),
            _ => Scalar::Int(value),
        };
        let first = self.elements.first().copied().unwrap_or_default();
        if self.elements.iter().all(|element| *element == first) {
            return Ok(fill_of(scalar(first), &aval));
        }
        let one = Aval::new(self.dtype, [1]);
        let each: Vec<Array> =
            self.elements.iter().map(|element| fill_of(scalar(*element), &one)).collect();
        Ok(reshape(&concatenate(&each, 0), self.shape.clone()))
    }
}

/// Returns a number as the dtype stores it.
fn wrapped(dtype: DType, value: i128) -> i128 {
    if dtype == DType::Bool {
        return (value != 0).into();
    }
    let (low, high) = dtype.int_range();
    let count = high - low + 1;
    (value - low).rem_euclid(count) + low
}

fn is_known_dtype(dtype: DType) -> bool {
    dtype == DType::Bool || dtype.is_integer()
}

impl<'m> Translator<'m> {
    /// Computes an operation whose operands are known, or that asks for a size.
    pub(super) fn known(&self, operands: &Operands<'m>) -> Translated<Option<KnownIntegers>> {
        let operation = operands.operation;
        match operation.name() {
            "get_dimension_size" => {
                let axis = self.number(operands, "dimension")?;
                let shape = operands.values.first().and_then(Traced::array_type);
                let size = shape.and_then(|(_, shape)| shape.get(axis).copied());
                let size = size.and_then(|size| i32::try_from(size).ok());
                let missing = || self.unsupported(operation, "there is no such size");
                let size = size.ok_or_else(missing)?;
                return Ok(Some(KnownIntegers::scalar(DType::I32, size.into())));
            }
            "constant" => return self.known_constant(operands),
            _ => {}
        }
        let known: Option<Vec<&KnownIntegers>> =
            operands.values.iter().map(Traced::known).collect();
        let Some(known) = known.filter(|known| !known.is_empty()) else { return Ok(None) };
        let Some(ValueType::Tensor(element, _)) =
            self.vhlo(operation.result_types())?.into_iter().next()
        else {
            return Ok(None);
        };
        let Some(dtype) = DType::from_stablehlo(&element).filter(|dtype| is_known_dtype(*dtype))
        else {
            return Ok(None);
        };
        let compute = || -> Translated<Option<KnownIntegers>> {
            Ok(match (operation.name(), &known[..]) {
                ("reshape", [x]) => {
                    let shape = self.static_shape(operands)?;
                    let fits = shape.size() == x.elements.len();
                    fits.then(|| KnownIntegers { shape, ..(*x).clone() })
                }
                ("broadcast_in_dim", [x]) => self.known_broadcast(operands, x)?,
                ("concatenate", each) => {
                    let flat = each.iter().all(|x| x.shape.len() == 1);
                    let elements: Vec<i128> =
                        each.iter().flat_map(|x| x.elements.iter().copied()).collect();
                    let shape = Shape::from([elements.len()]);
                    flat.then_some(KnownIntegers { dtype, shape, elements })
                }
                ("slice", [x]) if x.shape.len() == 1 => {
                    let [start, limit, stride] = ["start_indices", "limit_indices", "strides"]
                        .map(|name| self.number(operands, name));
                    let (start, limit, stride) = (start?, limit?, stride?.max(1));
                    let part = x.elements.get(start..limit);
                    part.map(|part| {
                        let elements: Vec<i128> = part.iter().step_by(stride).copied().collect();
                        KnownIntegers { dtype, shape: Shape::from([elements.len()]), elements }
                    })
                }
                ("select", [mask, x, y]) => {
                    elementwise(&[mask, x, y], dtype, |e| Some(if e[0] != 0 { e[1] } else { e[2] }))
                }
                ("clamp", [low, x, high]) => {
                    elementwise(&[low, x, high], dtype, |e| Some(e[1].max(e[0]).min(e[2])))
                }
                ("compare", [x, y]) => {
                    let Some(direction) = operation.text("comparison_direction") else {
                        return Ok(None);
                    };
                    elementwise(&[x, y], dtype, |e| {
                        Some(i128::from(match direction {
                            "EQ" => e[0] == e[1],
                            "NE" => e[0] != e[1],
                            "LT" => e[0] < e[1],
                            "LE" => e[0] <= e[1],
                            "GT" => e[0] > e[1],
                            "GE" => e[0] >= e[1],
                            _ => return None,
                        }))
                    })
                }
                (name, [x]) => elementwise(&[x], dtype, |e| unary(name, dtype, e[0])),
                (name, [x, y]) => elementwise(&[x, y], dtype, |e| binary(name, dtype, e[0], e[1])),
                _ => None,
            })
        };
        compute()
    }

    fn known_constant(&self, operands: &Operands<'m>) -> Translated<Option<KnownIntegers>> {
        let (ty, data) = self.vhlo(operands.operation.constant())?;
        let ValueType::Tensor(element, sizes) = &ty else { return Ok(None) };
        let Some(dtype) = DType::from_stablehlo(element).filter(|dtype| is_known_dtype(*dtype))
        else {
            return Ok(None);
        };
        let sizes = sizes.iter().map(|size| size.and_then(|size| usize::try_from(size).ok()));
        let Some(sizes) = sizes.collect::<Option<Vec<usize>>>() else { return Ok(None) };
        let count = sizes.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
        let Some(count) = count.filter(|count| (1..=MAX_ELEMENTS).contains(count)) else {
            return Ok(None);
        };
        let width = dtype.host_bytes();
        let number = |bytes: &[u8]| {
            let mut wide = [0; 16];
            wide[..width].copy_from_slice(bytes);
            wrapped(dtype, i128::from_le_bytes(wide))
        };
        let mut elements: Vec<i128> = data.chunks_exact(width).map(number).collect();
        if elements.len() == 1 {
            elements = vec![elements[0]; count];
        }
        let shape = Shape::from(sizes);
        Ok((elements.len() == count).then_some(KnownIntegers { dtype, shape, elements }))
    }

    fn known_broadcast(
        &self,
        operands: &Operands<'m>,
        x: &KnownIntegers,
    ) -> Translated<Option<KnownIntegers>> {
        let shape = self.static_shape(operands)?;
        if shape.size() > MAX_ELEMENTS {
            return Ok(None);
        }
        let first = x.elements.first().copied();
        if let Some(first) = first.filter(|_| x.elements.len() == 1) {
            let elements = vec![first; shape.size()];
            return Ok(Some(KnownIntegers { dtype: x.dtype, shape, elements }));
        }
        let same = x.shape == shape;
        Ok(same.then(|| x.clone()))
    }
}

/// Computes each element from those of operands, of which scalars stand for every element.
fn elementwise(
    operands: &[&KnownIntegers],
    dtype: DType,
    f: impl Fn(&[i128]) -> Option<i128>,
) -> Option<KnownIntegers> {
    let shape = &operands.iter().max_by_key(|x| x.elements.len())?.shape;
    let count = shape.size();
    if operands.iter().any(|x| x.shape != *shape && x.elements.len() != 1) {
        return None;
    }
    let at =
        |x: &KnownIntegers, index: usize| x.elements[if x.elements.len() == 1 { 0 } else { index }];
    let each = (0..count).map(|index| {
        let elements: Vec<i128> = operands.iter().map(|x| at(x, index)).collect();
        f(&elements).map(|value| wrapped(dtype, value))
    });
    let elements: Option<Vec<i128>> = each.collect();
    Some(KnownIntegers { dtype, shape: shape.clone(), elements: elements? })
}

fn unary(name: &str, dtype: DType, x: i128) -> Option<i128> {
    Some(match name {
        "convert" => x,
        "negate" => -x,
        "abs" => x.abs(),
        "sign" => x.signum(),
        "not" if dtype == DType::Bool => (x == 0).into(),
        "not" => !x,
        _ => return None,
    })
}

fn binary(name: &str, dtype: DType, x: i128, y: i128) -> Option<i128> {
    Some(match name {
        "add" if dtype == DType::Bool => x | y,
        "multiply" if dtype == DType::Bool => x & y,
        "add" => x + y,
        "subtract" => x - y,
        "multiply" => x.checked_mul(y)?,
        "divide" => x.checked_div(y)?,
        "remainder" => x.checked_rem(y)?,
        "maximum" => x.max(y),
        "minimum" => x.min(y),
        "and" => x & y,
        "or" => x | y,
        "xor" => x ^ y,
        "power" => x.checked_pow(u32::try_from(y).ok()?)?,
        _ => return None,
    })
}
