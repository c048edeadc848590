//! Tensors in the pickles of PyTorch, with the names of `state_dict`.

use crate::archive::Member;
use crate::dtype::WeightDType;
use crate::error::{Error, Result, shortened};
use crate::metadata::WeightMetadata;
use crate::names::{Budget, MAX_DEPTH};
use crate::pickle::{Call, Node, NodeId, Pickle};
use crate::strided::{MAX_AXES, view};
use crate::tensor::{ByteOrder, StoredTensor};
use crate::weights::Contents;

/// The storages of a file.
pub(crate) trait Storages {
    /// Returns the bytes of a storage of this key.
    fn storage(&self, key: &str) -> Option<Member>;
    fn order(&self) -> ByteOrder;
}

/// Returns the tensors of a pickle. Values of dictionaries are named after their keys, with dots
/// between levels.
pub(crate) fn flatten(pickle: &Pickle, size: u64, storages: &dyn Storages) -> Result<Contents> {
    let budget = Budget::new(size, pickle.nodes.len() as u64);
    let mut walk = Walk { pickle, storages, budget, contents: Contents::default() };
    walk.visit(pickle.root, "", 0)?;
    Ok(walk.contents)
}

struct Walk<'a> {
    pickle: &'a Pickle,
    storages: &'a dyn Storages,
    budget: Budget,
    contents: Contents,
}

/// The name of a tensor that is the whole file.
const ROOT: &str = "tensor";

impl Walk<'_> {
    fn visit(&mut self, id: NodeId, path: &str, depth: usize) -> Result<()> {
        self.budget.visit()?;
        if depth > MAX_DEPTH {
            return Err(Error::new(format!("more than {MAX_DEPTH} levels of nesting")));
        }
        let pickle = self.pickle;
        match pickle.node(id) {
            Node::Dict(pairs) => {
                for &(key, value) in pairs {
                    let number;
                    let name = match pickle.node(key) {
                        Node::Text(text) => text.as_str(),
                        Node::Int(value) => {
                            number = value.to_string();
                            &number
                        }
                        _ => {
                            self.skip(path, "a key that is not text")?;
                            continue;
                        }
                    };
                    let path = self.budget.join(path, name)?;
                    self.visit(value, &path, depth + 1)?;
                }
            }
            Node::Tuple(items) | Node::List(items) => {
                for (index, &item) in items.iter().enumerate() {
                    let path = self.budget.join(path, &index.to_string())?;
                    self.visit(item, &path, depth + 1)?;
                }
            }
            Node::Call(call) => self.visit_call(call, path, depth)?,
            Node::None => {}
            Node::Bool(value) => self.note(path, WeightMetadata::Bool(*value))?,
            Node::Int(value) => {
                let value = i64::try_from(*value).ok().map(WeightMetadata::Int);
                if let Some(value) = value {
                    self.note(path, value)?;
                }
            }
            Node::Float(value) => self.note(path, WeightMetadata::Float(*value))?,
            Node::Text(text) => {
                let text = self.budget.join("", &shortened(text))?;
                self.note(path, WeightMetadata::Text(text))?;
            }
            Node::Bytes(_) => self.skip(path, "bytes")?,
            Node::Global(..) => self.skip(path, &self.name(id))?,
            Node::Persistent(_) => self.skip(path, "a storage without a tensor")?,
        }
        Ok(())
    }

    fn note(&mut self, path: &str, value: WeightMetadata) -> Result<()> {
        let path = self.budget.join("", path)?;
        self.contents.metadata.insert(path, value);
        Ok(())
    }

    fn skip(&mut self, path: &str, what: &str) -> Result<()> {
        let line = self.budget.join("", &format!("`{path}` is {what}"))?;
        self.contents.skipped.push(line);
        Ok(())
    }

    /// Returns the name of a class or function, for messages.
    fn name(&self, id: NodeId) -> String {
        match self.pickle.global(id) {
            Some((module, name)) => shortened(&format!("{module}.{name}")),
            None => "an unnamed object".into(),
        }
    }

    fn visit_call(&mut self, call: &Call, path: &str, depth: usize) -> Result<()> {
        let pickle = self.pickle;
        let arguments = pickle.items(call.arguments).unwrap_or_default();
        match (pickle.global(call.callable), arguments) {
            (Some(("torch._utils", "_rebuild_parameter")), [data, ..])
            | (Some(("torch._utils", "_rebuild_parameter_with_state")), [data, ..])
            | (Some(("torch.nn.parameter", "Parameter" | "Buffer")), [data, ..]) => {
                self.visit(*data, path, depth + 1)
            }
            // `_rebuild_from_type_v2(function, type, arguments, state)`: a subclass of tensors.
            (Some(("torch._tensor", "_rebuild_from_type_v2")), [function, _, arguments, ..]) => {
                let call = Call { callable: *function, arguments: *arguments, state: None };
                match pickle.global(*function) {
                    Some(("torch._utils", _)) if depth < MAX_DEPTH => {
                        self.budget.visit()?;
                        self.visit_call(&call, path, depth + 1)
                    }
                    _ => self.skip(path, &self.name(*function)),
                }
            }
            (
                Some((
                    "torch._utils",
                    name @ ("_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3"),
                )),
                _,
            ) => {
                let tensor = self
                    .tensor(name, arguments)
                    .map_err(|error| error.within(&format!("tensor `{}`", shortened(path))))?;
                let name = self.budget.join("", if path.is_empty() { ROOT } else { path })?;
                // A dictionary may set a key twice; the last value counts.
                self.contents.tensors.insert(name, tensor);
                Ok(())
            }
            _ => self.visit_object(call, path, depth),
        }
    }

    /// Counts the pairs of a dictionary that is searched.
    fn count(&mut self, id: Option<NodeId>) -> Result<()> {
        match id.map(|id| self.pickle.node(id)) {
            Some(Node::Dict(pairs)) => self.budget.visit_many(pairs.len()),
            _ => Ok(()),
        }
    }

    /// Visits an object of a class. Modules have their state dict's names.
    fn visit_object(&mut self, call: &Call, path: &str, depth: usize) -> Result<()> {
        // TorchScript's modules have their tensors and submodules as attributes.
        let class = self.pickle.global(call.callable);
        if let (Some((module, _)), Some(state)) = (class, call.state)
            && module.starts_with("__torch__")
        {
            return self.visit(state, path, depth + 1);
        }
        // Objects may share one large dictionary.
        self.count(call.state)?;
        let parts = ["_parameters", "_buffers", "_modules"];
        let part = |name: &&str| call.state.and_then(|state| self.pickle.get(state, name));
        let dictionaries: Vec<NodeId> = parts.iter().filter_map(part).collect();
        if dictionaries.len() < parts.len() {
            let name = self.name(call.callable);
            return self.skip(path, &format!("an object of {name}"));
        }
        for dictionary in dictionaries {
            self.visit(dictionary, path, depth + 1)?;
        }
        Ok(())
    }

    /// Returns the tensor that a call describes.
    fn tensor(&mut self, function: &str, arguments: &[NodeId]) -> Result<StoredTensor> {
        let pickle = self.pickle;
        let [storage, offset, sizes, strides, ..] = arguments else {
            return Err(Error::new("a tensor without storage, offset, sizes and strides"));
        };
        let Node::Persistent(id) = pickle.node(*storage) else {
            return Err(Error::new(format!(
                "its storage is a pickle of {}, which is not supported",
                match pickle.node(*storage) {
                    Node::Call(call) => self.name(call.callable),
                    _ => "another type".into(),
                }
            )));
        };
        let Some([kind, class, key, ..]) = pickle.items(*id) else {
            return Err(Error::new("its storage has no type and key"));
        };
        if pickle.text(*kind) != Some("storage") {
            return Err(Error::new("its storage is not called `storage`"));
        }
        let dtype = match function {
            "_rebuild_tensor_v3" => arguments.get(6).and_then(|&id| dtype_of(pickle.global(id)?.1)),
            _ => pickle.global(*class).and_then(|(_, name)| dtype_of_storage(name)),
        };
        let dtype = dtype.ok_or_else(|| {
            let named = match function {
                "_rebuild_tensor_v3" => arguments.get(6).map(|&id| self.name(id)),
                _ => None,
            };
            let named = named.unwrap_or_else(|| self.name(*class));
            Error::new(format!("its elements are {named}, which is not supported"))
        })?;
        // The arguments behind the hooks mark lazily conjugated and negated tensors.
        let marks = arguments.get(if function == "_rebuild_tensor_v3" { 7 } else { 6 });
        self.count(marks.copied())?;
        if let Some(Node::Dict(pairs)) = marks.map(|&id| pickle.node(id)) {
            let is_set = |pair: &&(NodeId, NodeId)| pickle.int(pair.1) == Some(1);
            if let Some((mark, _)) = pairs.iter().find(is_set) {
                let mark = shortened(pickle.text(*mark).unwrap_or_default());
                let message = format!("it is marked `{mark}`; save it after `.resolve_conj()`");
                return Err(Error::new(message));
            }
        }
        let number;
        let key = match pickle.node(*key) {
            Node::Text(text) => text.as_str(),
            Node::Int(value) => {
                number = value.to_string();
                &number
            }
            _ => return Err(Error::new("its storage has no key")),
        };
        let storage = self.storages.storage(key);
        let storage = storage
            .ok_or_else(|| Error::new(format!("the storage `{}` is missing", shortened(key))))?;
        let offset = pickle.int(*offset).and_then(|offset| u64::try_from(offset).ok());
        let sizes: Option<Vec<usize>> = self.numbers(*sizes);
        let strides: Option<Vec<u64>> = self.numbers(*strides);
        let (Some(offset), Some(sizes), Some(strides)) = (offset, sizes, strides) else {
            return Err(Error::new("offset, sizes and strides are not all numbers"));
        };
        view(storage, self.storages.order(), dtype, offset, sizes, strides)
    }

    fn numbers<T: TryFrom<i128>>(&self, id: NodeId) -> Option<Vec<T>> {
        let items = self.pickle.items(id).filter(|items| items.len() <= MAX_AXES)?;
        items.iter().map(|&item| T::try_from(self.pickle.int(item)?).ok()).collect()
    }
}

/// Returns the type of a class such as `FloatStorage`.
fn dtype_of_storage(class: &str) -> Option<WeightDType> {
    Some(match class {
        "FloatStorage" => WeightDType::F32,
        "DoubleStorage" => WeightDType::F64,
        "HalfStorage" => WeightDType::F16,
        "BFloat16Storage" => WeightDType::BF16,
        "ByteStorage" | "UntypedStorage" => WeightDType::U8,
        "CharStorage" => WeightDType::I8,
        "ShortStorage" => WeightDType::I16,
        "IntStorage" => WeightDType::I32,
        "LongStorage" => WeightDType::I64,
        "BoolStorage" => WeightDType::Bool,
        "ComplexFloatStorage" => WeightDType::C64,
        "ComplexDoubleStorage" => WeightDType::C128,
        _ => return None,
    })
}

/// Returns the type of `torch.float32` and the like.
fn dtype_of(name: &str) -> Option<WeightDType> {
    let is_torch = |dtype: &WeightDType| {
        !matches!(dtype, WeightDType::I4 | WeightDType::U4 | WeightDType::F4E2M1FN)
    };
    WeightDType::of_numpy(name).filter(is_torch)
}
