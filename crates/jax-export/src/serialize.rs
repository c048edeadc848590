//! Writes an [`Exported`] as `jax.export` reads it.

use crate::abstract_value::{AbstractValue, ELEMENTS, MemorySpace};
use crate::error::{Error, Result};
use crate::exported::{DisabledCheck, Exported, field};
use crate::flatbuffer_writer::{Field, Part, write};
use crate::sharding::{AbstractDevice, MeshAxisType, MeshShape, Sharding};
use crate::tree::PyTreeDef;
use std::collections::HashMap;
use std::hash::Hash;

impl Exported {
    /// Writes the function as `jax.export.deserialize` reads it.
    ///
    /// The file has the parts of versions 2 to 11 of the format beside each other, as JAX's own
    /// files have: types and shardings of each leaf, and tables of different ones. It states
    /// [`version`](Exported::version): JAX 0.4.31 reads files that state 2, JAX 0.4.38 to 0.8 those
    /// that state 2 or 3, and later versions of JAX do not compare it.
    ///
    /// # Errors
    /// A number does not fit into the format: more than 65,536 leaves of arguments, or a module of
    /// 2 GiB.
    ///
    /// ```
    /// use oxidax_jax_export::{AbstractValue, Exported, JaxDType, PyTreeDef};
    /// let mut exported = Exported::new("identity", b"ML\xefR".to_vec());
    /// exported.inputs = vec![AbstractValue::new(JaxDType::Float32, [2, 3])];
    /// exported.outputs = exported.inputs.clone();
    /// exported.used_inputs = vec![0];
    /// let arguments = PyTreeDef::Tuple(vec![PyTreeDef::Leaf]);
    /// exported.input_tree = PyTreeDef::Tuple(vec![arguments, PyTreeDef::Dict(Vec::new())]);
    /// exported.output_tree = PyTreeDef::Leaf;
    /// exported.input_shardings = vec![None];
    /// exported.output_shardings = vec![None];
    /// assert_eq!(Exported::read(&exported.to_bytes()?)?, exported);
    /// # Ok::<(), oxidax_jax_export::Error>(())
    /// ```
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let table = Part::Table(self.fields()?);
        write(&table).map_err(|_| Error::at(0, "its parts are larger than 2 GiB"))
    }

    fn fields(&self) -> Result<Vec<(usize, Field)>> {
        let mut uniques = Uniques::default();
        let used_inputs = self.used_inputs.iter().map(|index| u16::try_from(*index));
        let used_inputs = used_inputs.collect::<std::result::Result<Vec<u16>, _>>();
        let Ok(used_inputs) = used_inputs else {
            return Err(Error::at(0, "the format has indices of up to 65,536 arguments"));
        };
        let avals = |avals: &[AbstractValue]| parts(avals.iter().map(abstract_value));
        let mut fields = vec![
            (field::VERSION, Field::U16(self.version)),
            (field::NAME, text(&self.name)),
            (field::INPUT_TREE, Field::Part(tree(&self.input_tree))),
            (field::INPUTS, avals(&self.inputs)),
            (field::OUTPUT_TREE, Field::Part(tree(&self.output_tree))),
            (field::OUTPUTS, avals(&self.outputs)),
            (field::INPUT_SHARDINGS, parts(self.input_shardings.iter().map(|s| uniques.whole(s)))),
            (
                field::OUTPUT_SHARDINGS,
                parts(self.output_shardings.iter().map(|s| uniques.whole(s))),
            ),
            (field::PLATFORMS, texts(&self.platforms)),
            (field::ORDERED_EFFECTS, effects(&self.ordered_effects)),
            (field::UNORDERED_EFFECTS, effects(&self.unordered_effects)),
            (field::DISABLED_CHECKS, parts(self.disabled_checks.iter().map(disabled_check))),
            (field::MODULE, Field::Part(Part::Bytes(self.module.clone()))),
            (field::CALLING_CONVENTION, Field::U16(self.calling_convention)),
            (field::USED_INPUTS, Field::Part(Part::U16s(used_inputs))),
            (field::USES_GLOBAL_CONSTANTS, Field::U8(self.uses_global_constants.into())),
            (field::DEVICES, Field::U32(self.devices)),
        ];
        // Readers of versions before 5 have the short field only.
        if let Ok(devices) = u16::try_from(self.devices) {
            fields.push((field::DEVICES_SHORT, Field::U16(devices)));
        }
        if let Some(vjp) = &self.vjp {
            fields.push((field::VJP, Field::Part(Part::Table(vjp.fields()?))));
        }
        // The tables have no place for shardings of files before version 6.
        let all = self.input_shardings.iter().chain(&self.output_shardings);
        if !all.flatten().any(|sharding| matches!(sharding, Sharding::Hlo(_))) {
            self.add_uniques(uniques, &mut fields);
        }
        Ok(fields)
    }

    /// Adds the tables of different types and shardings, and the index of each leaf in them.
    fn add_uniques(&self, mut uniques: Uniques, fields: &mut Vec<(usize, Field)>) {
        let types = |uniques: &mut Uniques, avals: &[AbstractValue]| {
            let indices = avals.iter().map(|aval| uniques.types.index(aval)).collect();
            Field::Part(Part::U32s(indices))
        };
        let shardings = |uniques: &mut Uniques, shardings: &[Option<Sharding>]| {
            // The index 0 is none.
            let index = |sharding: &Option<Sharding>| match sharding {
                Some(sharding) => uniques.shardings.index(sharding) + 1,
                None => 0,
            };
            Field::Part(Part::U32s(shardings.iter().map(index).collect()))
        };
        fields.extend([
            (field::INPUT_TYPE_INDICES, types(&mut uniques, &self.inputs)),
            (field::OUTPUT_TYPE_INDICES, types(&mut uniques, &self.outputs)),
            (field::INPUT_SHARDING_INDICES, shardings(&mut uniques, &self.input_shardings)),
            (field::OUTPUT_SHARDING_INDICES, shardings(&mut uniques, &self.output_shardings)),
        ]);
        let all = std::mem::take(&mut uniques.shardings.each);
        let named: Vec<Part> = all.iter().filter_map(|s| uniques.named(s)).collect();
        fields.extend([
            (field::UNIQUE_TYPES, parts(uniques.types.each.iter().map(abstract_value))),
            (field::UNIQUE_MESHES, parts(uniques.meshes.each.iter().map(mesh))),
            (field::UNIQUE_SHARDINGS, Field::Part(Part::Parts(named))),
        ]);
    }
}

/// Values, each once.
struct Unique<T> {
    each: Vec<T>,
    indices: HashMap<T, u32>,
}

impl<T> Default for Unique<T> {
    fn default() -> Unique<T> {
        Unique { each: Vec::new(), indices: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Unique<T> {
    fn index(&mut self, value: &T) -> u32 {
        if let Some(index) = self.indices.get(value) {
            return *index;
        }
        let index = self.each.len() as u32;
        self.each.push(value.clone());
        self.indices.insert(value.clone(), index);
        index
    }
}

/// The types, meshes and shardings of a file.
#[derive(Default)]
struct Uniques {
    types: Unique<AbstractValue>,
    meshes: Unique<MeshShape>,
    shardings: Unique<Sharding>,
}

impl Uniques {
    /// Returns the sharding of a leaf, for readers without tables.
    fn whole(&mut self, sharding: &Option<Sharding>) -> Part {
        Part::Table(match sharding {
            None => Vec::new(),
            Some(Sharding::Hlo(bytes)) => {
                vec![(0, Field::U8(1)), (1, Field::Part(Part::Bytes(bytes.clone())))]
            }
            Some(named) => {
                let table = self.named(named).map(|table| (2, Field::Part(table)));
                [(0, Field::U8(2))].into_iter().chain(table).collect()
            }
        })
    }

    fn named(&mut self, sharding: &Sharding) -> Option<Part> {
        let Sharding::Named { mesh: shape, spec, unreduced, reduced, memory_kind } = sharding
        else {
            return None;
        };
        let axes = spec.iter().map(|axes| Part::Table(vec![(0, texts(axes))]));
        let spec = vec![(0, parts(axes)), (1, texts(reduced)), (2, texts(unreduced))];
        let mut fields = vec![
            (0, Field::Part(mesh(shape))),
            (1, Field::Part(Part::Table(spec))),
            (3, Field::U32(self.meshes.index(shape))),
        ];
        fields.extend(memory_kind.as_ref().map(|kind| (2, text(kind))));
        Some(Part::Table(fields))
    }
}

fn text(text: &str) -> Field {
    Field::Part(Part::Text(text.to_owned()))
}

fn texts(texts: &[String]) -> Field {
    parts(texts.iter().map(|text| Part::Text(text.clone())))
}

fn parts(each: impl Iterator<Item = Part>) -> Field {
    Field::Part(Part::Parts(each.collect()))
}

fn effects(names: &[String]) -> Field {
    parts(names.iter().map(|name| Part::Table(vec![(0, text(name))])))
}

fn disabled_check(check: &DisabledCheck) -> Part {
    Part::Table(match check {
        DisabledCheck::Platform => vec![(0, Field::U8(0))],
        DisabledCheck::CustomCall(target) => vec![(0, Field::U8(1)), (1, text(target))],
        DisabledCheck::ShapeAssertions => vec![(0, Field::U8(2))],
    })
}

fn abstract_value(aval: &AbstractValue) -> Part {
    let dtype = ELEMENTS.iter().position(|dtype| *dtype == aval.dtype);
    let memory = match aval.memory {
        MemorySpace::Device => 1,
        MemorySpace::Host => 2,
        MemorySpace::Any => 3,
    };
    Part::Table(vec![
        (0, Field::U8(0)),
        (1, parts(aval.shape.iter().map(|size| Part::Text(size.to_string())))),
        // Each dtype has a number below 256.
        (2, Field::U8(dtype.unwrap_or_default() as u8)),
        (3, Field::U8(memory)),
    ])
}

fn mesh(mesh: &MeshShape) -> Part {
    let kinds = mesh.axes.iter().map(|axis| match axis.kind {
        MeshAxisType::Auto => 1,
        MeshAxisType::Explicit => 2,
        MeshAxisType::Manual => 3,
    });
    let mut fields = vec![
        (0, Field::Part(Part::U32s(mesh.axes.iter().map(|axis| axis.size).collect()))),
        (1, parts(mesh.axes.iter().map(|axis| Part::Text(axis.name.clone())))),
        (2, Field::Part(Part::Bytes(kinds.collect()))),
    ];
    if let Some(AbstractDevice { kind, cores, platform }) = &mesh.device {
        let mut device = vec![(0, text(kind))];
        device.extend(cores.map(|cores| (1, Field::U32(cores))));
        device.extend(platform.as_ref().map(|platform| (2, text(platform))));
        fields.push((3, Field::Part(Part::Table(device))));
    }
    Part::Table(fields)
}

fn tree(tree: &PyTreeDef) -> Part {
    let children = |each: &[PyTreeDef]| {
        (1, parts(each.iter().map(self::tree).collect::<Vec<_>>().into_iter()))
    };
    let kind = |kind: u8| (0, Field::U8(kind));
    Part::Table(match tree {
        PyTreeDef::Leaf => vec![kind(0)],
        PyTreeDef::None => vec![kind(1)],
        PyTreeDef::Tuple(each) => vec![kind(2), children(each)],
        PyTreeDef::List(each) => vec![kind(3), children(each)],
        PyTreeDef::Dict(entries) => vec![
            kind(4),
            (1, parts(entries.iter().map(|(_, child)| self::tree(child)))),
            (2, parts(entries.iter().map(|(key, _)| Part::Text(key.clone())))),
        ],
        PyTreeDef::Custom { name, data, children: each } => vec![
            kind(5),
            children(each),
            (3, text(name)),
            (4, Field::Part(Part::Bytes(data.clone()))),
        ],
    })
}
