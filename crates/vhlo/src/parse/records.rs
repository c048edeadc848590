//! Attributes of StableHLO that have parts, and the attributes of the module that values become.

use super::Parser;
use super::dense::packed;
use super::literal::Literal;
use super::scanner::Parsed;
use crate::entries::{Attribute, AttributeId, Type};
use crate::version::VhloVersion;

/// The value of a part that the text leaves out.
#[derive(Clone, Copy)]
pub(super) enum Missing {
    Zero,
    NoNumbers,
}

impl Missing {
    pub(super) fn literal(self) -> Literal {
        match self {
            Missing::Zero => Literal::Integer(0, None),
            Missing::NoNumbers => Literal::Numbers("i64", Vec::new()),
        }
    }
}

/// A part of a joined attribute: its name, the attribute of VHLO that it becomes, if there is one,
/// and its value if it is left out.
pub(super) type Part = (&'static str, Option<&'static str>, Missing);

const fn number(name: &'static str) -> Part {
    (name, Some(name), Missing::Zero)
}

const fn list(name: &'static str) -> Part {
    (name, Some(name), Missing::NoNumbers)
}

const CONVOLUTION: [Part; 9] = [
    number("input_batch_dimension"),
    number("input_feature_dimension"),
    list("input_spatial_dimensions"),
    number("kernel_input_feature_dimension"),
    number("kernel_output_feature_dimension"),
    list("kernel_spatial_dimensions"),
    number("output_batch_dimension"),
    number("output_feature_dimension"),
    list("output_spatial_dimensions"),
];

const GATHER: [Part; 6] = [
    list("offset_dims"),
    list("collapsed_slice_dims"),
    list("operand_batching_dims"),
    list("start_indices_batching_dims"),
    list("start_index_map"),
    number("index_vector_dim"),
];

const SCATTER: [Part; 6] = [
    list("update_window_dims"),
    list("inserted_window_dims"),
    list("input_batching_dims"),
    list("scatter_indices_batching_dims"),
    list("scatter_dims_to_operand_dims"),
    number("index_vector_dim"),
];

const DOT: [Part; 4] = [
    list("lhs_batching_dimensions"),
    list("rhs_batching_dimensions"),
    list("lhs_contracting_dimensions"),
    list("rhs_contracting_dimensions"),
];

const ALGORITHM: [Part; 7] = [
    number("lhs_precision_type"),
    number("rhs_precision_type"),
    number("accumulation_type"),
    number("lhs_component_count"),
    number("rhs_component_count"),
    number("num_primitive_operations"),
    number("allow_imprecise_accumulation"),
];

const TRANSFER: [Part; 2] =
    [("handle", Some("channel_id"), Missing::Zero), ("type", Some("channel_type"), Missing::Zero)];

const CHANNEL: [Part; 2] =
    [("handle", Some("channel_id"), Missing::Zero), ("type", None, Missing::Zero)];

/// Returns the kind and the parts of an attribute that VHLO divides.
pub(super) fn joined_parts(base: &str, key: &str) -> Option<(&'static str, &'static [Part])> {
    Some(match (base, key) {
        ("dot_general", "dot_dimension_numbers") => ("dot", &DOT),
        ("dot_general", "algorithm") => ("dot_algorithm", &ALGORITHM),
        ("convolution" | "dynamic_conv", "dimension_numbers") => ("conv", &CONVOLUTION),
        ("gather" | "dynamic_gather", "dimension_numbers") => ("gather", &GATHER),
        ("scatter", "scatter_dimension_numbers") => ("scatter", &SCATTER),
        ("send" | "recv", "channel_handle") => ("channel_handle", &TRANSFER),
        (_, "channel_handle") => ("channel_handle", &CHANNEL),
        _ => return None,
    })
}

impl Parser<'_> {
    /// Adds a value to the module.
    pub(super) fn lower(&mut self, literal: Literal) -> Parsed<AttributeId> {
        let attribute = match literal {
            Literal::Attribute(id) => return Ok(id),
            Literal::Unit => Attribute::Unit,
            Literal::Boolean(flag) => Attribute::Boolean(flag),
            Literal::Integer(number, ty) => {
                let ty = ty.unwrap_or_else(|| self.element_id("i64"));
                let in_range = i64::try_from(number).ok();
                // Numbers of unsigned types are stored by their bits.
                let bits = in_range.or_else(|| u64::try_from(number).ok().map(u64::cast_signed));
                match (bits, self.types[ty].bits()) {
                    (Some(number), Some(_)) => Attribute::Integer(ty, number),
                    _ => return self.scanner.fail(format!("{number} is not a number of its type")),
                }
            }
            Literal::Number(number) => {
                let ty = self.element_id("f64");
                Attribute::Float(ty, number.to_bits())
            }
            Literal::Float(bits, ty) => Attribute::Float(ty, bits),
            // Symbols of StableHLO are text in VHLO.
            Literal::String(text) | Literal::Symbol(text) => Attribute::String(text),
            Literal::List(list) => {
                let list = list.into_iter().map(|literal| self.lower(literal));
                Attribute::Array(list.collect::<Parsed<_>>()?)
            }
            Literal::Dictionary(mut entries) => {
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    return self.scanner.fail(format!("`{}` is stated twice", pair[0].0));
                }
                let entries = entries.into_iter().map(|(name, value)| {
                    let name = self.attribute(Attribute::String(name));
                    Ok((name, self.lower(value)?))
                });
                Attribute::Dictionary(entries.collect::<Parsed<_>>()?)
            }
            Literal::Type(ty) => Attribute::Type(ty),
            Literal::Numbers(element, numbers) => {
                let element_id = self.element_id(element);
                let shape = vec![Some(numbers.len() as u64)];
                let ty = self.type_id(Type::Tensor(shape, element_id, None));
                let data = match element {
                    "i1" => {
                        let flags: Vec<bool> = numbers.iter().map(|flag| *flag != 0).collect();
                        packed(&flags, flags.len())
                    }
                    _ => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
                };
                Attribute::Tensor(ty, data)
            }
            Literal::Dense(ty, data) => Attribute::Tensor(ty, data),
            Literal::Case(name, case) => Attribute::Enum(name, case),
            Literal::Record(name, parts) => self.record(&name, parts)?,
        };
        Ok(self.attribute(attribute))
    }

    fn record(&mut self, name: &str, mut parts: Vec<(String, Literal)>) -> Parsed<Attribute> {
        let fail = |parser: &Self, part: &str| {
            parser.scanner.fail(format!("`{part}` of `#stablehlo.{name}` is missing or wrong"))
        };
        let mut take = |part: &str| {
            let index = parts.iter().position(|(name, _)| name == part)?;
            Some(parts.swap_remove(index).1)
        };
        let integer = |literal: Option<Literal>| match literal {
            Some(Literal::Integer(number, _)) => i64::try_from(number).ok(),
            _ => None,
        };
        let float = |literal: Option<Literal>| match literal {
            Some(Literal::Integer(number, _)) => Some(number as f64),
            Some(Literal::Number(number)) => Some(number),
            None => Some(0.0),
            _ => None,
        };
        Ok(match name {
            "none" => Attribute::Type(self.type_id(Type::None)),
            "no_padding" => {
                let rank = integer(take("")).unwrap_or(0).max(0).cast_unsigned();
                let element = self.element_id("i64");
                let ty = self.type_id(Type::Tensor(vec![Some(rank), Some(2)], element, None));
                Attribute::Tensor(ty, vec![0; if rank == 0 { 0 } else { 8 }])
            }
            "result_accuracy" => {
                let mode = take("mode").unwrap_or(Literal::Case("result_accuracy_mode", "DEFAULT"));
                let [atol, rtol] = [float(take("atol")), float(take("rtol"))];
                let ulps = take("ulps").map_or(Some(0), |ulps| integer(Some(ulps)));
                let (Some(atol), Some(rtol), Some(ulps)) = (atol, rtol, ulps) else {
                    return fail(self, "atol");
                };
                Attribute::ResultAccuracy { atol, rtol, ulps, mode: self.lower(mode)? }
            }
            "output_operand_alias" => {
                let mut indices = |part: &str| match take(part) {
                    Some(Literal::List(list)) => {
                        list.into_iter().map(|number| integer(Some(number))).collect()
                    }
                    _ => None,
                };
                let output: Option<Vec<i64>> = indices("output_tuple_indices");
                let operand_indices: Option<Vec<i64>> = indices("operand_tuple_indices");
                match (output, integer(take("operand_index")), operand_indices) {
                    (Some(output), Some(operand), Some(indices)) => {
                        Attribute::OutputOperandAlias(output, operand, indices)
                    }
                    _ => return fail(self, "output_tuple_indices"),
                }
            }
            "axis_ref" => {
                let Some(Literal::String(axis)) = take("name") else { return fail(self, "name") };
                if take("sub_axis_info").is_some() {
                    return self.scanner.fail("parts of axes in groups are not supported");
                }
                Attribute::AxisRef(self.string_attribute(&axis), None)
            }
            "replica_group_mesh_axes" => {
                self.need(VhloVersion::new(1, 16, 0), || "groups along axes".to_owned());
                let (Some(mesh), Some(axes)) = (take("mesh"), take("axes")) else {
                    return fail(self, "mesh");
                };
                Attribute::MeshGroups(self.lower(mesh)?, self.lower(axes)?)
            }
            "mesh" => {
                let Some(Literal::List(axes)) = take("axes") else { return fail(self, "axes") };
                let devices = take("device_ids");
                let mut ids = Vec::with_capacity(axes.len());
                for axis in axes {
                    let Literal::Record(_, mut parts) = axis else { return fail(self, "axes") };
                    parts.sort_by(|a, b| a.0.cmp(&b.0));
                    let mut parts = parts.into_iter().map(|(_, value)| value);
                    match (parts.next(), integer(parts.next())) {
                        (Some(Literal::String(name)), Some(size)) => {
                            let name = self.string_attribute(&name);
                            ids.push(self.attribute(Attribute::MeshAxis(name, size)));
                        }
                        _ => return fail(self, "axes"),
                    }
                }
                let axes = self.attribute(Attribute::Array(ids));
                let devices = devices.map(|devices| self.lower(devices)).transpose()?;
                Attribute::Mesh(axes, devices)
            }
            _ => return self.scanner.fail(format!("`#stablehlo.{name}` is not supported")),
        })
    }
}
