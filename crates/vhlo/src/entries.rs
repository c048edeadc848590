//! Types and attributes of VHLO, and the builtin attributes around them.
//!
//! Their encodings are in `VhloBytecode.cpp` of <https://github.com/openxla/stablehlo>, and in
//! `BuiltinDialectBytecode.td` of <https://github.com/llvm/llvm-project>.

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::shardy::Shardy;

/// The number of a type in a module.
pub(crate) type TypeId = usize;
/// The number of an attribute in a module.
pub(crate) type AttributeId = usize;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    /// A type of elements or an index, by its name in StableHLO's text: `f32`, `ui8`, `i1`.
    Element(&'static str),
    /// Complex numbers of an element type.
    Complex(TypeId),
    /// An array: the size of each axis, `None` if it is not known, the element type, and an
    /// attribute with the largest sizes of unknown axes.
    Tensor(Vec<Option<u64>>, TypeId, Option<AttributeId>),
    /// A buffer in memory: sizes and the element type.
    Buffer(Vec<Option<u64>>, TypeId),
    /// The results of an asynchronous operation.
    Future(Vec<TypeId>),
    /// Integers that stand for numbers.
    Quantized(Quantized),
    /// A token, which orders side effects.
    Token,
    /// A tuple.
    Tuple(Vec<TypeId>),
    /// The type of a function: arguments and results.
    Function(Vec<TypeId>, Vec<TypeId>),
    /// No type.
    None,
}

/// The type of integers that stand for numbers: (integer - zero point) · scale.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quantized {
    pub(crate) is_signed: bool,
    /// The types of the integers and of the numbers.
    pub(crate) types: [TypeId; 2],
    /// The smallest and the largest integer.
    pub(crate) range: [i64; 2],
    /// The axis along which scales differ.
    pub(crate) axis: Option<u64>,
    /// The bits of each scale, an `f64`, and its zero point. Types without an axis have one.
    pub(crate) scales: Vec<(u64, i64)>,
}

impl Quantized {
    fn read(cursor: &mut Cursor<'_>, has_axis: bool) -> Result<Quantized> {
        let is_signed = cursor.number()? & 1 != 0;
        let types = [cursor.index()?, cursor.index()?];
        let scale = |cursor: &mut Cursor<'_>| number_of_bits(cursor, 64);
        if !has_axis {
            let scales = vec![(scale(cursor)?, cursor.signed()?)];
            let range = [cursor.signed()?, cursor.signed()?];
            return Ok(Quantized { is_signed, types, range, axis: None, scales });
        }
        let axis = Some(cursor.number()?);
        let range = [cursor.signed()?, cursor.signed()?];
        let (scales, zeros) = (cursor.list(scale)?, cursor.list(Cursor::signed)?);
        if scales.len() != zeros.len() {
            let (scales, zeros) = (scales.len(), zeros.len());
            return cursor.fail(format!("a type has {scales} scales and {zeros} zero points"));
        }
        let scales = scales.into_iter().zip(zeros).collect();
        Ok(Quantized { is_signed, types, range, axis, scales })
    }
}

/// An attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attribute {
    /// A list.
    Array(Vec<AttributeId>),
    /// True or false.
    Boolean(bool),
    /// A named value of an enumeration of StableHLO.
    Enum(&'static str, &'static str),
    /// Names and values.
    Dictionary(Vec<(AttributeId, AttributeId)>),
    /// The bits of a floating-point number.
    Float(TypeId, u64),
    /// A number.
    Integer(TypeId, i64),
    /// A result of a custom call that is in the memory of an operand: the place in the result, the
    /// operand, and the place in the operand.
    OutputOperandAlias(Vec<i64>, i64, Vec<i64>),
    /// The accuracy that a result must have.
    ResultAccuracy {
        /// The absolute tolerance.
        atol: f64,
        /// The relative tolerance.
        rtol: f64,
        /// The tolerance in units in the last place.
        ulps: i64,
        /// The mode, an enumeration.
        mode: AttributeId,
    },
    /// Text.
    String(String),
    /// The name of a function or another symbol.
    Symbol(AttributeId),
    /// An array: its type, and its elements or the one that all are equal to.
    Tensor(TypeId, Vec<u8>),
    /// A type.
    Type(TypeId),
    /// A mesh, and the attributes of the axes along which devices form a group.
    MeshGroups(AttributeId, AttributeId),
    /// A mesh: a list of its axes, and an array of device numbers.
    Mesh(AttributeId, Option<AttributeId>),
    /// An axis of a mesh: its name and size.
    MeshAxis(AttributeId, i64),
    /// An axis by its name, and the part of it.
    AxisRef(AttributeId, Option<AttributeId>),
    /// A part of an axis: the product of the sizes before it, and its size.
    SubAxis(i64, i64),
    /// The largest sizes of axes; negative for axes without one.
    TypeExtensions(Vec<i64>),
    /// A position in a source file.
    Location,
    /// A builtin flag.
    Unit,
    /// A sharding or a mesh.
    Shardy(Shardy),
    /// An attribute that StableHLO and Shardy do without.
    Foreign,
}

fn dims(cursor: &mut Cursor<'_>) -> Result<Vec<Option<u64>>> {
    // An unknown size is the smallest number.
    cursor.list(|cursor| cursor.signed().map(|size| u64::try_from(size).ok()))
}

impl Type {
    /// Reads a type of the dialect `vhlo`.
    pub(crate) fn read_vhlo(cursor: &mut Cursor<'_>) -> Result<Type> {
        let at = cursor.at();
        Ok(match cursor.number()? {
            0 => Type::Element("i1"),
            1 => Type::Complex(cursor.index()?),
            2 => Type::Element("bf16"),
            3 => Type::Element("f16"),
            4 => Type::Element("f32"),
            5 => Type::Element("f64"),
            6 => Type::Element("f8E4M3FN"),
            7 => Type::Element("f8E5M2"),
            8 => Type::Function(cursor.list(Cursor::index)?, cursor.list(Cursor::index)?),
            9 => Type::Element("index"),
            10 => Type::Element("i4"),
            11 => Type::Element("i8"),
            12 => Type::Element("i16"),
            13 => Type::Element("i32"),
            14 => Type::Element("i64"),
            15 => Type::Element("ui4"),
            16 => Type::Element("ui8"),
            17 => Type::Element("ui16"),
            18 => Type::Element("ui32"),
            19 => Type::Element("ui64"),
            20 => Type::Tensor(dims(cursor)?, cursor.index()?, None),
            21 => {
                let encoding = cursor.index()?;
                Type::Tensor(dims(cursor)?, cursor.index()?, Some(encoding))
            }
            22 => Type::Token,
            23 => Type::Tuple(cursor.list(Cursor::index)?),
            27 => Type::Element("f8E4M3FNUZ"),
            28 => Type::Element("f8E5M2FNUZ"),
            29 => Type::Element("f8E4M3B11FNUZ"),
            31 => Type::Element("i2"),
            32 => Type::Element("ui2"),
            33 => Type::None,
            34 => Type::Element("tf32"),
            35 => Type::Element("f8E4M3"),
            36 => Type::Element("f8E3M4"),
            37 => Type::Element("f4E2M1FN"),
            38 => Type::Element("f6E2M3FN"),
            39 => Type::Element("f6E3M2FN"),
            40 => Type::Element("f8E8M0FNU"),
            code @ (24 | 30) => Type::Quantized(Quantized::read(cursor, code == 30)?),
            41 => Type::Buffer(dims(cursor)?, cursor.index()?),
            42 => Type::Future(cursor.list(Cursor::index)?),
            code => return Err(Error::at(at, format!("the type {code} of VHLO is not known"))),
        })
    }

    /// Reads a type of the dialect `builtin`, which attributes from outside of StableHLO have.
    pub(crate) fn read_builtin(cursor: &mut Cursor<'_>) -> Result<Type> {
        let at = cursor.at();
        Ok(match cursor.number()? {
            0 => {
                // The lowest two bits are the sign: 2 for numbers without one.
                let (integer, name) =
                    (cursor.number()?, "i1 i2 i4 i8 i16 i32 i64 ui2 ui4 ui8 ui16 ui32 ui64");
                let name = name.split(' ').find(|name| {
                    let (sign, width) = match name.strip_prefix("ui") {
                        Some(width) => (2, width),
                        None => (0, &name[1..]),
                    };
                    width.parse() == Ok(integer >> 2) && integer & 3 == sign
                });
                match name {
                    Some(name) => Type::Element(name),
                    None => return Err(Error::at(at, "an integer type is not StableHLO's")),
                }
            }
            1 => Type::Element("index"),
            3 => Type::Element("bf16"),
            4 => Type::Element("f16"),
            5 => Type::Element("f32"),
            6 => Type::Element("f64"),
            9 => Type::Complex(cursor.index()?),
            // The type of builtin strings.
            12 => Type::None,
            13 => Type::Tensor(dims(cursor)?, cursor.index()?, None),
            code => return Err(Error::at(at, format!("the builtin type {code} is not known"))),
        })
    }

    /// Returns the bits of an element.
    pub(crate) fn bits(&self) -> Option<u32> {
        let Type::Element(name) = self else { return None };
        Some(match *name {
            "index" => 64,
            "bf16" => 16,
            "tf32" => 19,
            name => {
                let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
                let digits = digits.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse().ok()?
            }
        })
    }
}

/// The cases of an enumeration by their numbers.
fn case(
    cursor: &mut Cursor<'_>,
    name: &'static str,
    cases: &'static [&'static str],
) -> Result<Attribute> {
    let number = cursor.index()?;
    match cases.get(number) {
        Some(case) => Ok(Attribute::Enum(name, case)),
        None => cursor.fail(format!("{name} has no case {number}")),
    }
}

impl Attribute {
    /// Reads an attribute of the dialect `vhlo`. `types` and `strings` are those of the
    /// module.
    pub(crate) fn read_vhlo(
        cursor: &mut Cursor<'_>,
        types: &[Type],
        strings: &[&str],
    ) -> Result<Attribute> {
        let at = cursor.at();
        Ok(match cursor.number()? {
            1 => Attribute::Array(cursor.list(Cursor::index)?),
            2 => Attribute::Boolean(cursor.number()? != 0),
            3 => case(cursor, "comparison_direction", &["EQ", "NE", "GE", "GT", "LE", "LT"])?,
            4 => {
                let cases = &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"];
                case(cursor, "comparison_type", cases)?
            }
            5 => Attribute::Integer(usize::MAX, cursor.number()?.cast_signed()),
            6 => Attribute::Dictionary(cursor.list(|c| Ok((c.index()?, c.index()?)))?),
            7 => case(cursor, "fft_type", &["FFT", "IFFT", "RFFT", "IRFFT"])?,
            8 => {
                let ty = cursor.index()?;
                Attribute::Float(ty, number_of_bits(cursor, bits(cursor, types, ty)?)?)
            }
            9 => integer(cursor, types)?,
            10 => Attribute::OutputOperandAlias(
                cursor.list(Cursor::signed)?,
                cursor.signed()?,
                cursor.list(Cursor::signed)?,
            ),
            11 => case(cursor, "precision", &["DEFAULT", "HIGH", "HIGHEST"])?,
            12 => case(cursor, "rng_algorithm", &["DEFAULT", "THREE_FRY", "PHILOX"])?,
            13 => case(cursor, "rng_distribution", &["", "UNIFORM", "NORMAL"])?,
            14 => Attribute::String(string(cursor, strings)?.to_owned()),
            15 => tensor(cursor)?,
            16 => {
                let cases = &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
                case(cursor, "transpose", cases)?
            }
            17 => Attribute::Type(cursor.index()?),
            18 => Attribute::TypeExtensions(cursor.list(Cursor::signed)?),
            19 => case(cursor, "result_accuracy_mode", &["DEFAULT", "HIGHEST", "TOLERANCE"])?,
            20 => {
                let [atol, rtol] = [number_of_bits(cursor, 64)?, number_of_bits(cursor, 64)?];
                Attribute::ResultAccuracy {
                    atol: f64::from_bits(atol),
                    rtol: f64::from_bits(rtol),
                    ulps: cursor.signed()?,
                    mode: cursor.index()?,
                }
            }
            21 => Attribute::SubAxis(cursor.signed()?, cursor.signed()?),
            22 => {
                let (name, has_part) = (cursor.index()?, cursor.number()? != 0);
                Attribute::AxisRef(name, has_part.then(|| cursor.index()).transpose()?)
            }
            23 => Attribute::MeshGroups(cursor.index()?, cursor.index()?),
            24 => Attribute::MeshAxis(cursor.index()?, cursor.signed()?),
            25 => {
                let (axes, (devices, has_devices)) = (cursor.index()?, cursor.number_and_flag()?);
                Attribute::Mesh(axes, has_devices.then_some(devices))
            }
            code => {
                return Err(Error::at(at, format!("the attribute {code} of VHLO is not known")));
            }
        })
    }

    /// Reads an attribute of the dialect `builtin`.
    pub(crate) fn read_builtin(
        cursor: &mut Cursor<'_>,
        types: &[Type],
        strings: &[&str],
    ) -> Result<Attribute> {
        let at = cursor.at();
        Ok(match cursor.number()? {
            0 => Attribute::Array(cursor.list(Cursor::index)?),
            1 => Attribute::Dictionary(cursor.list(|c| Ok((c.index()?, c.index()?)))?),
            2 => Attribute::String(string(cursor, strings)?.to_owned()),
            3 => {
                let text = string(cursor, strings)?.to_owned();
                cursor.index()?;
                Attribute::String(text)
            }
            4 => Attribute::Symbol(cursor.index()?),
            6 => Attribute::Type(cursor.index()?),
            7 => Attribute::Unit,
            8 => integer(cursor, types)?,
            18 => tensor(cursor)?,
            // What follows is not read: files, lines, names and other positions.
            10..=15 | 22 => Attribute::Location,
            code => {
                return Err(Error::at(at, format!("the builtin attribute {code} is not known")));
            }
        })
    }
}

pub(crate) fn string<'a>(cursor: &mut Cursor<'_>, strings: &[&'a str]) -> Result<&'a str> {
    let index = cursor.index()?;
    match strings.get(index) {
        Some(text) => Ok(text),
        None => cursor.fail(format!("there is no string {index}")),
    }
}

/// Returns the bits of a number of this type.
fn bits(cursor: &Cursor<'_>, types: &[Type], ty: TypeId) -> Result<u32> {
    match types.get(ty).and_then(Type::bits) {
        Some(bits) => Ok(bits),
        None => cursor.fail(format!("type {ty} is not that of a number")),
    }
}

fn integer(cursor: &mut Cursor<'_>, types: &[Type]) -> Result<Attribute> {
    let ty = cursor.index()?;
    let width = bits(cursor, types, ty)?;
    let value = number_of_bits(cursor, width)?;
    // The number has the sign of its highest bit, unless the type has none.
    let is_unsigned = matches!(types[ty], Type::Element(name) if name.starts_with("ui"));
    let unused = 64 - width.clamp(1, 64);
    let signed = (value << unused).cast_signed() >> unused;
    Ok(Attribute::Integer(ty, if is_unsigned { value.cast_signed() } else { signed }))
}

fn tensor(cursor: &mut Cursor<'_>) -> Result<Attribute> {
    let ty = cursor.index()?;
    let length = cursor.index()?;
    Ok(Attribute::Tensor(ty, cursor.take(length)?.to_vec()))
}

/// Reads the bits of a number.
fn number_of_bits(cursor: &mut Cursor<'_>, width: u32) -> Result<u64> {
    match width {
        0..=8 => cursor.byte().map(u64::from),
        9..=64 => {
            let unused = 64 - width;
            Ok(cursor.signed()?.cast_unsigned() << unused >> unused)
        }
        _ => cursor.fail(format!("numbers of {width} bits are not supported")),
    }
}
