//! The attributes of operations, joined and without defaults.

use super::{Attributes, MAX_DEPTH, Writer, key_text, quoted};
use crate::entries::{Attribute, AttributeId};
use crate::error::Result;
use crate::module::Operation;

impl Writer<'_> {
    /// Returns the attributes of an operation in StableHLO.
    pub(super) fn attributes_of(&self, operation: &Operation, name: &str) -> Result<Attributes> {
        let mut attributes = Attributes::new();
        let mut joined = Joined::of(name);
        let all = self.all_attributes(operation)?;
        for &(key, id) in &all {
            let value = self.attribute(id)?;
            if joined.add(self, key, value, id)? {
                continue;
            }
            let is_empty_list = matches!(value, Attribute::Array(list) if list.is_empty())
                || matches!(value, Attribute::Dictionary(list) if list.is_empty())
                || matches!(value, Attribute::String(text) if text.is_empty())
                || matches!(value, Attribute::Tensor(_, data) if data.is_empty());
            let text = match (name, key, value) {
                (_, _, Attribute::Foreign) => continue,
                // Padding is an operand. The first version of the operation had both.
                ("dynamic_conv", "padding", _) => continue,
                ("custom_call", "operand_layouts" | "result_layouts", _) if is_empty_list => {
                    // Empty for both is no layout; for one, it has no operands or results.
                    let both = ["operand_layouts", "result_layouts"].map(|key| {
                        let found = all.iter().find(|(name, _)| *name == key);
                        found.is_none_or(|(_, id)| self.array(*id).is_ok_and(<[_]>::is_empty))
                    });
                    if both == [true, true] {
                        continue;
                    }
                    "[]".to_owned()
                }
                (
                    "custom_call",
                    "backend_config"
                    | "called_computations"
                    | "output_operand_aliases"
                    | "result_tilings",
                    _,
                )
                | ("infeed", "infeed_config" | "layout", _)
                | ("outfeed", "outfeed_config", _)
                | ("send" | "recv", "source_target_pairs", _)
                | ("composite", "composite_attributes", _)
                | (
                    "dynamic_broadcast_in_dim",
                    "known_expanding_dimensions" | "known_nonexpanding_dimensions",
                    _,
                ) if is_empty_list => continue,
                ("custom_call", "api_version", Attribute::Integer(_, version)) => {
                    format!("{version} : i32")
                }
                ("custom_call", "called_computations", Attribute::Array(names)) => {
                    let names = names.iter().map(|id| self.symbol(*id));
                    format!("[{}]", names.collect::<Result<Vec<String>>>()?.join(", "))
                }
                ("sdy.mesh", "sym_name", _) => {
                    quoted(&format!("{}{}", self.prefix, self.string(id)?))
                }
                ("call", "callee", _) | ("composite", "decomposition", _) => self.symbol(id)?,
                (_, "use_global_device_ids" | "has_dynamic_root", Attribute::Boolean(flag)) => {
                    if !flag {
                        continue;
                    }
                    String::new()
                }
                (_, "channel_id", Attribute::Integer(_, number)) => {
                    if *number != 0 {
                        let handle =
                            format!("#stablehlo.channel_handle<handle = {number}, type = 0>");
                        attributes.push(("channel_handle".to_owned(), handle));
                    }
                    continue;
                }
                _ if self.is_default(name, key, id)? => continue,
                (name, key, Attribute::Tensor(..)) if is_number_list(name, key) => {
                    let numbers = self.numbers(id)?;
                    let (ty, numbers): (_, Vec<String>) = match key {
                        "window_reversal" => {
                            ("i1", numbers.iter().map(|n| (*n != 0).to_string()).collect())
                        }
                        _ => ("i64", numbers.iter().map(i64::to_string).collect()),
                    };
                    match numbers.is_empty() {
                        true => format!("array<{ty}>"),
                        false => format!("array<{ty}: {}>", numbers.join(", ")),
                    }
                }
                _ => self.value_text(id, MAX_DEPTH)?,
            };
            attributes.push((key_text(key), text));
        }
        attributes.extend(joined.finish());
        Ok(attributes)
    }

    /// Returns true for a value that StableHLO leaves out.
    fn is_default(&self, operation: &str, name: &str, id: AttributeId) -> Result<bool> {
        let all = |value: i64| Ok(self.numbers(id)?.iter().all(|number| *number == value));
        Ok(match (operation, name, self.attribute(id)?) {
            (_, "compare_type", Attribute::Enum(_, case)) => *case == "NOTYPE",
            (_, "result_accuracy", Attribute::ResultAccuracy { atol, rtol, ulps, mode }) => {
                let is_default = matches!(self.attribute(*mode)?, Attribute::Enum(_, "DEFAULT"));
                is_default && *atol == 0.0 && *rtol == 0.0 && *ulps == 0
            }
            (_, "precision_config", Attribute::Array(cases)) => {
                let cases = cases.iter().map(|id| self.attribute(*id));
                let cases = cases.collect::<Result<Vec<_>>>()?;
                cases.iter().all(|case| matches!(case, Attribute::Enum(_, "DEFAULT")))
            }
            ("custom_call", "api_version", Attribute::Integer(_, version)) => *version == 1,
            ("custom_call", "has_side_effect", Attribute::Boolean(flag))
            | ("gather" | "dynamic_gather", "indices_are_sorted", Attribute::Boolean(flag))
            | ("scatter", "indices_are_sorted" | "unique_indices", Attribute::Boolean(flag))
            | ("sort", "is_stable", Attribute::Boolean(flag))
            | ("cholesky", "lower", Attribute::Boolean(flag))
            | ("send" | "recv", "is_host_transfer", Attribute::Boolean(flag)) => !flag,
            ("sort", "dimension", Attribute::Integer(_, axis)) => *axis == -1,
            ("composite", "version", Attribute::Integer(_, version)) => *version == 0,
            (
                "convolution" | "dynamic_conv",
                "window_strides" | "lhs_dilation" | "rhs_dilation",
                _,
            )
            | ("reduce_window", "window_strides" | "base_dilations" | "window_dilations", _)
            | ("select_and_scatter", "window_strides", _) => all(1)?,
            ("convolution" | "dynamic_conv", "window_reversal", _)
            | ("convolution" | "reduce_window" | "select_and_scatter", "padding", _) => all(0)?,
            _ => false,
        })
    }
}

/// Returns true for an attribute that is a list of numbers in StableHLO and an array in VHLO.
fn is_number_list(operation: &str, attribute: &str) -> bool {
    match operation {
        "fft" => attribute == "fft_length",
        "broadcast" => attribute == "broadcast_sizes",
        "dynamic_slice" | "gather" => attribute == "slice_sizes",
        "reverse" | "map" | "reduce" => attribute == "dimensions",
        "transpose" => attribute == "permutation",
        "pad" => attribute.ends_with("_padding") || attribute.starts_with("edge_padding_"),
        "slice" => matches!(attribute, "start_indices" | "limit_indices" | "strides"),
        "broadcast_in_dim" => attribute == "broadcast_dimensions",
        "dynamic_broadcast_in_dim" => {
            attribute == "broadcast_dimensions" || attribute.starts_with("known_")
        }
        "select_and_scatter" => matches!(attribute, "window_dimensions" | "window_strides"),
        "reduce_window" => attribute.starts_with("window_") || attribute == "base_dilations",
        "convolution" | "dynamic_conv" => matches!(
            attribute,
            "lhs_dilation" | "rhs_dilation" | "window_strides" | "window_reversal"
        ),
        _ => false,
    }
}

/// Attributes of VHLO that are one in StableHLO.
struct Joined {
    /// The name and the kind of the joined attribute, and the names of its parts.
    to: Option<(&'static str, &'static str, &'static [&'static str])>,
    parts: Vec<String>,
    /// The parts of the algorithm of a product, if it states one.
    algorithm: Vec<String>,
}

/// The parts of the algorithm of a product.
const ALGORITHM: [&str; 7] = [
    "lhs_precision_type",
    "rhs_precision_type",
    "accumulation_type",
    "lhs_component_count",
    "rhs_component_count",
    "num_primitive_operations",
    "allow_imprecise_accumulation",
];

impl Joined {
    fn of(operation: &str) -> Joined {
        let to = match operation {
            "dot_general" => Some((
                "dot_dimension_numbers",
                "dot",
                &[
                    "lhs_batching_dimensions",
                    "rhs_batching_dimensions",
                    "lhs_contracting_dimensions",
                    "rhs_contracting_dimensions",
                ][..],
            )),
            "convolution" | "dynamic_conv" => Some((
                "dimension_numbers",
                "conv",
                &[
                    "input_batch_dimension",
                    "input_feature_dimension",
                    "input_spatial_dimensions",
                    "kernel_input_feature_dimension",
                    "kernel_output_feature_dimension",
                    "kernel_spatial_dimensions",
                    "output_batch_dimension",
                    "output_feature_dimension",
                    "output_spatial_dimensions",
                ][..],
            )),
            "gather" | "dynamic_gather" => Some((
                "dimension_numbers",
                "gather",
                &[
                    "offset_dims",
                    "collapsed_slice_dims",
                    "operand_batching_dims",
                    "start_indices_batching_dims",
                    "start_index_map",
                    "index_vector_dim",
                ][..],
            )),
            "scatter" => Some((
                "scatter_dimension_numbers",
                "scatter",
                &[
                    "update_window_dims",
                    "inserted_window_dims",
                    "input_batching_dims",
                    "scatter_indices_batching_dims",
                    "scatter_dims_to_operand_dims",
                    "index_vector_dim",
                ][..],
            )),
            "send" | "recv" => {
                Some(("channel_handle", "channel_handle", &["channel_id", "channel_type"][..]))
            }
            _ => None,
        };
        let parts = vec![String::new(); to.map_or(0, |(.., names)| names.len())];
        let algorithm =
            if operation == "dot_general" { vec![String::new(); 7] } else { Vec::new() };
        Joined { to, parts, algorithm }
    }

    /// Adds a part. Returns false for an attribute that stands alone.
    fn add(
        &mut self,
        writer: &Writer<'_>,
        name: &str,
        value: &Attribute,
        id: AttributeId,
    ) -> Result<bool> {
        let Some((_, kind, names)) = self.to else { return Ok(false) };
        if let Some(index) = names.iter().position(|other| *other == name) {
            let key = match (kind, name) {
                ("channel_handle", "channel_id") => "handle",
                ("channel_handle", _) => "type",
                _ => name,
            };
            let numbers = writer.numbers(id)?;
            self.parts[index] = match value {
                Attribute::Integer(..) => format!("{key} = {}", numbers[0]),
                // Lists without elements are left out, except in convolutions.
                _ if numbers.is_empty() && kind != "conv" => String::new(),
                _ => format!("{key} = {numbers:?}"),
            };
            return Ok(true);
        }
        let Some(index) = ALGORITHM.iter().position(|other| *other == name) else {
            return Ok(false);
        };
        let text = writer.value_text(id, MAX_DEPTH)?;
        if text != "none" && !self.algorithm.is_empty() {
            // Numbers are written without their type.
            let text = text.split(" : ").next().unwrap_or(&text);
            self.algorithm[index] = format!("{name} = {text}");
        }
        Ok(true)
    }

    fn finish(self) -> Attributes {
        let join = |parts: Vec<String>| {
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let mut attributes = Attributes::new();
        if let Some((name, kind, _)) = self.to {
            let raw = if kind == "conv" { "raw " } else { "" };
            attributes
                .push((name.to_owned(), format!("#stablehlo.{kind}<{raw}{}>", join(self.parts))));
        }
        let algorithm = join(self.algorithm);
        if !algorithm.is_empty() {
            let text = format!("#stablehlo.dot_algorithm<{algorithm}>");
            attributes.push(("algorithm".to_owned(), text));
        }
        attributes
    }
}
