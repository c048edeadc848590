//! From the attributes of StableHLO to those of VHLO, which joins none and has no defaults.
//!
//! Source of the differences: `StablehloLegalizeToVhlo.cpp` and `VhloToVersion.cpp` of
//! <https://github.com/openxla/stablehlo>.

use super::Parser;
use super::literal::Literal;
use super::records::joined_parts;
use super::scanner::Parsed;
use crate::entries::{Attribute, AttributeId};
use crate::module::{Operation, properties_of, properties_of_other};
use crate::version::VhloVersion;

/// Operations that later versions of StableHLO have changed or added, with that version.
const CHANGED: [(&str, u64); 28] = [
    ("all_gather_v2", 5),
    ("all_reduce_v2", 5),
    ("all_to_all_v2", 5),
    ("async_done_v1", 15),
    ("async_start_v1", 15),
    ("cbrt_v2", 10),
    ("collective_broadcast_v2", 20),
    ("collective_reduce_v1", 19),
    ("composite_v2", 14),
    ("cosine_v2", 10),
    ("custom_call_v2", 18),
    ("dot_general_v2", 6),
    ("dynamic_conv_v2", 0),
    ("dynamic_gather_v2", 1),
    ("exponential_minus_one_v2", 10),
    ("exponential_v2", 9),
    ("gather_v2", 1),
    ("log_plus_one_v2", 10),
    ("log_v2", 10),
    ("logistic_v2", 10),
    ("recv_v2", 12),
    ("rsqrt_v2", 10),
    ("scatter_v2", 1),
    ("send_v2", 12),
    ("sine_v2", 10),
    ("sqrt_v2", 10),
    ("tan_v2", 10),
    ("tanh_v2", 10),
];

/// Returns the version of StableHLO from which an operation of VHLO exists.
fn since(name: &str) -> VhloVersion {
    let found = CHANGED.iter().find(|(changed, _)| *changed == name);
    VhloVersion::new(1, found.map_or(0, |(_, minor)| *minor), 0)
}

/// The attributes of an operation: names and values.
type Entries = Vec<(String, Literal)>;

impl Parser<'_> {
    /// Sets the name and the attributes of an operation of StableHLO or of functions.
    pub(super) fn legalize(
        &mut self,
        at: usize,
        name: &str,
        attributes: Entries,
        operation: &mut Operation,
    ) -> Parsed<()> {
        let base = match name {
            "func.call" => "call",
            "func.return" | "stablehlo.return" => "return",
            name => name.strip_prefix("stablehlo.").unwrap_or_default(),
        };
        let [first, second] = [format!("{base}_v1"), format!("{base}_v2")];
        let later = properties_of(&second).map(|names| (names, since(&second)));
        let mut chosen = first;
        let mut names = properties_of(&chosen);
        if let Some((properties, version)) = later
            && version <= self.target
        {
            (chosen, names) = (second, Some(properties));
        }
        let Some(names) = names else {
            let message = format!("`{name}` is not an operation that is written");
            return self.scanner.fail_at(at, message);
        };
        self.need(since(&chosen), || format!("`{name}`"));
        if let Some((_, version)) = later {
            let is_variadic = base.starts_with("all_") && operation.operands.len() > 1;
            let has_regions = base == "composite" && !operation.regions.is_empty();
            if is_variadic || has_regions {
                self.need(version, || format!("this form of `{name}`"));
            }
        }
        let attributes = self.expand(at, base, attributes)?;
        let (mut found, mut others) = (vec![None; names.len()], Vec::new());
        for (key, value) in attributes {
            let position = names.iter().position(|name| *name == key);
            let of_later = later.filter(|(names, _)| names.contains(&key.as_str()));
            match (position, of_later) {
                (Some(index), _) if found[index].is_none() => found[index] = Some(value),
                (Some(_), _) => {
                    return self.scanner.fail_at(at, format!("`{key}` is stated twice"));
                }
                (None, Some((_, version))) => {
                    self.need(version, || format!("`{key}` of `{name}`"));
                }
                (None, None) => others.push((key, value)),
            }
        }
        let rank = self.window_rank(base, names, &found);
        for (property, value) in names.iter().zip(found) {
            let Some(value) = value.or_else(|| default(base, property, rank)) else {
                return self.scanner.fail_at(at, format!("`{name}` needs `{property}`"));
            };
            let id = match (*property, value) {
                ("api_version", Literal::Integer(version, _)) => {
                    let version = i64::try_from(version).unwrap_or(i64::MAX);
                    self.attribute(Attribute::Integer(usize::MAX, version))
                }
                ("use_global_device_ids" | "has_dynamic_root", Literal::Unit) => {
                    self.attribute(Attribute::Boolean(true))
                }
                (_, value) => self.lower(value)?,
            };
            operation.properties.push((property, id));
        }
        operation.name = format!("vhlo.{chosen}");
        operation.dictionary = self.dictionary(others)?;
        Ok(())
    }

    /// Replaces joined attributes by their parts.
    fn expand(&mut self, at: usize, base: &str, attributes: Entries) -> Parsed<Entries> {
        let mut all = Vec::with_capacity(attributes.len());
        for (key, value) in attributes {
            let Some((kind, parts)) = joined_parts(base, &key) else {
                all.push((key, value));
                continue;
            };
            let Literal::Record(found, entries) = value else {
                return self.scanner.fail_at(at, format!("`{key}` is not `#stablehlo.{kind}`"));
            };
            if found != kind {
                return self.scanner.fail_at(at, format!("`{key}` is not `#stablehlo.{kind}`"));
            }
            let unknown = entries.iter().find(|(name, _)| parts.iter().all(|p| p.0 != name));
            if let Some((name, _)) = unknown {
                return self.scanner.fail_at(at, format!("`#stablehlo.{kind}` has no `{name}`"));
            }
            for (name, property, missing) in parts {
                let Some(property) = property else { continue };
                let entry = entries.iter().find(|(entry, _)| entry == name);
                let value = entry.map_or_else(|| missing.literal(), |(_, value)| value.clone());
                let value = match value {
                    // Lists without a type are arrays.
                    Literal::List(list) => match whole_numbers(&list) {
                        Some(numbers) => Literal::Numbers("i64", numbers),
                        None => Literal::List(list),
                    },
                    other => other,
                };
                all.push(((*property).to_owned(), value));
            }
        }
        Ok(all)
    }

    /// Returns the number of axes that defaults of windows have.
    fn window_rank(&self, base: &str, names: &[&str], found: &[Option<Literal>]) -> usize {
        let name = match base {
            "convolution" | "dynamic_conv" => "input_spatial_dimensions",
            "reduce_window" | "select_and_scatter" => "window_dimensions",
            _ => return 0,
        };
        let value = names.iter().zip(found).find(|(other, _)| **other == name);
        match value.and_then(|(_, value)| value.as_ref()) {
            Some(Literal::Numbers(_, numbers)) => numbers.len(),
            Some(Literal::Dense(_, data)) => data.len() / 8,
            _ => 0,
        }
    }

    /// Sets the name and the attributes of an operation of Shardy or CHLO.
    pub(super) fn finish_other(
        &mut self,
        at: usize,
        name: String,
        attributes: Entries,
        operation: &mut Operation,
    ) -> Parsed<()> {
        let names = properties_of_other(&name).unwrap_or_default();
        let mut attributes = attributes;
        // From this version on, artifacts may have operations of other dialects.
        self.need(VhloVersion::new(1, 11, 0), || format!("`{name}`"));
        for property in names {
            let Some(index) = attributes.iter().position(|(key, _)| key == property) else {
                return self.scanner.fail_at(at, format!("`{name}` needs `{property}`"));
            };
            let (_, value) = attributes.swap_remove(index);
            let id = self.lower(value)?;
            operation.properties.push((property, id));
        }
        operation.name = name;
        operation.dictionary = self.dictionary(attributes)?;
        Ok(())
    }

    /// Adds a dictionary of attributes; `None` if there are none.
    pub(super) fn dictionary(&mut self, entries: Entries) -> Parsed<Option<AttributeId>> {
        match entries.is_empty() {
            true => Ok(None),
            false => self.lower(Literal::Dictionary(entries)).map(Some),
        }
    }
}

/// Returns the numbers of a list.
fn whole_numbers(list: &[Literal]) -> Option<Vec<i64>> {
    let number = |literal: &Literal| match literal {
        Literal::Integer(number, _) => i64::try_from(*number).ok(),
        _ => None,
    };
    list.iter().map(number).collect()
}

/// Returns the value of an attribute that StableHLO leaves out.
fn default(base: &str, property: &str, rank: usize) -> Option<Literal> {
    let numbers = |number: i64| Literal::Numbers("i64", vec![number; rank]);
    Some(match (base, property) {
        (_, "channel_id") => Literal::Integer(0, None),
        (_, "use_global_device_ids" | "has_dynamic_root" | "has_side_effect")
        | ("cholesky", "lower")
        | ("gather" | "dynamic_gather", "indices_are_sorted")
        | ("scatter", "indices_are_sorted" | "unique_indices")
        | ("sort", "is_stable")
        | ("send" | "recv", "is_host_transfer") => Literal::Boolean(false),
        (_, "compare_type") => Literal::Case("comparison_type", "NOTYPE"),
        (_, "result_accuracy") => Literal::Record("result_accuracy".to_owned(), Vec::new()),
        ("convolution" | "dynamic_conv" | "dot" | "dot_general", "precision_config") => {
            Literal::List(vec![Literal::Case("precision", "DEFAULT"); 2])
        }
        ("composite", "version") => Literal::Integer(0, None),
        ("composite", "composite_attributes") => Literal::Dictionary(Vec::new()),
        ("custom_call", "api_version") => Literal::Integer(1, None),
        ("custom_call", "backend_config")
        | ("infeed", "infeed_config")
        | ("outfeed", "outfeed_config") => Literal::String(String::new()),
        (
            "custom_call",
            "called_computations" | "operand_layouts" | "result_layouts" | "output_operand_aliases",
        )
        | ("infeed", "layout") => Literal::List(Vec::new()),
        (
            "dot_general",
            "accumulation_type"
            | "allow_imprecise_accumulation"
            | "lhs_component_count"
            | "lhs_precision_type"
            | "num_primitive_operations"
            | "rhs_component_count"
            | "rhs_precision_type",
        ) => Literal::Record("none".to_owned(), Vec::new()),
        (
            "dynamic_broadcast_in_dim",
            "known_expanding_dimensions" | "known_nonexpanding_dimensions",
        )
        | ("send" | "recv", "source_target_pairs") => Literal::Numbers("i64", Vec::new()),
        ("sort", "dimension") => Literal::Integer(-1, None),
        ("convolution" | "dynamic_conv", "window_strides" | "lhs_dilation" | "rhs_dilation")
        | ("reduce_window", "window_strides" | "base_dilations" | "window_dilations")
        | ("select_and_scatter", "window_strides") => numbers(1),
        ("convolution" | "dynamic_conv", "window_reversal") => {
            Literal::Numbers("i1", vec![0; rank])
        }
        ("convolution" | "reduce_window" | "select_and_scatter", "padding") => {
            let pair = Literal::Integer(rank as i128, None);
            Literal::Record("no_padding".to_owned(), vec![(String::new(), pair)])
        }
        _ => return None,
    })
}
