//! The encodings of types.

use super::encoder::Encoder;
use super::entries::{Dialect, Tables};
use crate::entries::{Type, TypeId};
use crate::error::Result;

impl Tables<'_> {
    fn type_list(&mut self, types: &[TypeId], dialect: Dialect, to: &mut Encoder) -> Result<()> {
        let numbers = types.iter().map(|ty| self.ty(*ty, dialect));
        to.indices(&numbers.collect::<Result<Vec<usize>>>()?);
        Ok(())
    }

    pub(super) fn vhlo_type(&mut self, ty: &Type, to: &mut Encoder) -> Result<()> {
        let vhlo = Dialect::Vhlo;
        match ty {
            Type::Element(name) => match element_code(name) {
                Some(code) => to.number(code),
                None => return self.fail(format!("the type `{name}` has no number")),
            },
            Type::Complex(element) => {
                let element = self.ty(*element, vhlo)?;
                to.number(1);
                to.index(element);
            }
            Type::Tensor(shape, element, encoding) => {
                let element = self.ty(*element, vhlo)?;
                match encoding {
                    Some(encoding) => {
                        let encoding = self.attribute(*encoding, vhlo)?;
                        to.number(21);
                        to.index(encoding);
                    }
                    None => to.number(20),
                }
                to.signed_list(sizes(shape));
                to.index(element);
            }
            Type::Buffer(shape, element) => {
                let element = self.ty(*element, vhlo)?;
                to.number(41);
                to.signed_list(sizes(shape));
                to.index(element);
            }
            Type::Future(types) => {
                to.number(42);
                self.type_list(types, vhlo, to)?;
            }
            Type::Tuple(types) => {
                to.number(23);
                self.type_list(types, vhlo, to)?;
            }
            Type::Function(inputs, results) => {
                to.number(8);
                self.type_list(inputs, vhlo, to)?;
                self.type_list(results, vhlo, to)?;
            }
            Type::Token => to.number(22),
            Type::None => to.number(33),
            Type::Quantized(quantized) => {
                let [storage, expressed] = quantized.types;
                let (storage, expressed) = (self.ty(storage, vhlo)?, self.ty(expressed, vhlo)?);
                to.number(if quantized.axis.is_some() { 30 } else { 24 });
                to.number(quantized.is_signed.into());
                to.index(storage);
                to.index(expressed);
                match quantized.axis {
                    Some(axis) => {
                        to.number(axis);
                        quantized.range.iter().for_each(|limit| to.signed(*limit));
                        to.index(quantized.scales.len());
                        quantized.scales.iter().for_each(|(scale, _)| to.bits(*scale, 64));
                        to.signed_list(quantized.scales.iter().map(|(_, zero)| *zero));
                    }
                    None => {
                        for (scale, zero) in &quantized.scales {
                            to.bits(*scale, 64);
                            to.signed(*zero);
                        }
                        quantized.range.iter().for_each(|limit| to.signed(*limit));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn builtin_type(&mut self, ty: &Type, to: &mut Encoder) -> Result<()> {
        let builtin = Dialect::Builtin;
        match ty {
            Type::Element(name) => match *name {
                "index" => to.number(1),
                "bf16" => to.number(3),
                "f16" => to.number(4),
                "f32" => to.number(5),
                "f64" => to.number(6),
                name => match (name.starts_with(['i', 'u']), ty.bits()) {
                    (true, Some(bits)) => {
                        to.number(0);
                        let sign = if name.starts_with('u') { 2 } else { 0 };
                        to.number(u64::from(bits) << 2 | sign);
                    }
                    _ => {
                        return self
                            .fail(format!("`{name}` is not written beside Shardy and CHLO"));
                    }
                },
            },
            Type::Complex(element) => {
                let element = self.ty(*element, builtin)?;
                to.number(9);
                to.index(element);
            }
            Type::Tensor(shape, element, None) => {
                let element = self.ty(*element, builtin)?;
                to.number(13);
                to.signed_list(sizes(shape));
                to.index(element);
            }
            Type::None => to.number(12),
            other => return self.fail(format!("{other:?} is not written beside Shardy and CHLO")),
        }
        Ok(())
    }
}

fn sizes(shape: &[Option<u64>]) -> impl ExactSizeIterator<Item = i64> + '_ {
    // An unknown size is the smallest number.
    shape.iter().map(|size| size.map_or(i64::MIN, u64::cast_signed))
}

/// Returns the number of a type of elements.
fn element_code(name: &str) -> Option<u64> {
    Some(match name {
        "i1" => 0,
        "bf16" => 2,
        "f16" => 3,
        "f32" => 4,
        "f64" => 5,
        "f8E4M3FN" => 6,
        "f8E5M2" => 7,
        "index" => 9,
        "i4" => 10,
        "i8" => 11,
        "i16" => 12,
        "i32" => 13,
        "i64" => 14,
        "ui4" => 15,
        "ui8" => 16,
        "ui16" => 17,
        "ui32" => 18,
        "ui64" => 19,
        "f8E4M3FNUZ" => 27,
        "f8E5M2FNUZ" => 28,
        "f8E4M3B11FNUZ" => 29,
        "i2" => 31,
        "ui2" => 32,
        "tf32" => 34,
        "f8E4M3" => 35,
        "f8E3M4" => 36,
        "f4E2M1FN" => 37,
        "f6E2M3FN" => 38,
        "f6E3M2FN" => 39,
        "f8E8M0FNU" => 40,
        _ => return None,
    })
}
