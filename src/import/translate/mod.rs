//! Translation of a module's operations to oxidax's, while a caller traces.
//!
//! Each operation of the module becomes the primitive of the same name, so every transform applies
//! to the result. Sizes of the caller's arguments replace those that the module leaves open: what
//! the module computes from sizes alone is computed here ([`KnownIntegers`]).

mod collectives;
mod control;
mod custom_calls;
mod elementwise;
mod hlo_shardings;
mod indexing;
mod known;
mod lapack;
mod products;
mod reducers;
mod reductions;
mod shapes;
mod sharding;
mod sorting;
mod values;

pub(super) use known::KnownIntegers;
pub(super) use values::{Constants, Traced};

use crate::core::{Array, DType, Error, Loc, Mesh, Shape};
use oxidax_vhlo::{PortableArtifact, ValueType, VhloBlock, VhloFunction, VhloOperation};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};

/// Operations after which a translation ends. Functions that call each other could take forever.
const MAX_OPERATIONS: usize = 2_000_000;

/// Nesting of calls after which a translation ends.
const MAX_CALLS: usize = 64;

/// The result of a translation.
pub(super) type Translated<T> = Result<T, Error>;

/// The platform and the devices for which a module is translated.
#[derive(Clone)]
pub(super) struct Target {
    /// The name of the function or the file, for errors.
    pub(super) name: String,
    /// The platform, such as `cpu`.
    pub(super) platform: String,
    /// The devices, if there are several.
    pub(super) mesh: Option<Mesh>,
    /// The location of the call.
    pub(super) loc: Loc,
}

/// A module, while it is translated.
pub(super) struct Translator<'m> {
    functions: FxHashMap<&'m str, VhloFunction<'m>>,
    target: &'m Target,
    constants: &'m Constants,
    operations: Cell<usize>,
    calls: Cell<usize>,
    /// The mesh axes over which the innermost region runs on shards: all axes, then those.
    manual: RefCell<Vec<ManualRegion>>,
    /// The texts of the shardings that constrain values, by the numbers of those.
    constraints: RefCell<FxHashMap<usize, &'m str>>,
}

/// A region that each device runs on its shards.
struct ManualRegion {
    /// The names and sizes of all axes of the mesh, in order.
    axes: Vec<(String, usize)>,
    /// The names of the axes that are handled by the program.
    manual: Vec<String>,
}

/// The values that operations of a region can refer to.
pub(super) struct Scope<'a> {
    outer: Option<&'a Scope<'a>>,
    values: RefCell<FxHashMap<usize, Traced>>,
}

impl<'a> Scope<'a> {
    fn new(outer: Option<&'a Scope<'a>>) -> Scope<'a> {
        Scope { outer, values: RefCell::default() }
    }

    fn get(&self, id: usize) -> Option<Traced> {
        let own = self.values.borrow().get(&id).cloned();
        own.or_else(|| self.outer?.get(id))
    }

    fn set(&self, id: usize, value: Traced) {
        self.values.borrow_mut().insert(id, value);
    }
}

/// The operands of an operation.
struct Operands<'m> {
    operation: VhloOperation<'m>,
    values: Vec<Traced>,
}

impl<'m> Translator<'m> {
    pub(super) fn new(
        artifact: &'m PortableArtifact,
        target: &'m Target,
        constants: &'m Constants,
    ) -> Translator<'m> {
        let functions = artifact.functions();
        let functions = functions.filter_map(|function| Some((function.name()?, function)));
        Translator {
            functions: functions.collect(),
            target,
            constants,
            operations: Cell::new(MAX_OPERATIONS),
            calls: Cell::new(MAX_CALLS),
            manual: RefCell::default(),
            constraints: RefCell::default(),
        }
    }

    /// Returns an error about a part of the module.
    fn error(&self, message: impl Into<String>) -> Error {
        Error::exchange(format!("`{}`", self.target.name), message).at(self.target.loc)
    }

    /// Translates an error of the reader.
    fn vhlo<T>(&self, result: oxidax_vhlo::Result<T>) -> Translated<T> {
        result.map_err(|error| self.error(error.to_string()))
    }

    /// Calls a function of the module.
    pub(super) fn call(&self, name: &str, arguments: Vec<Traced>) -> Translated<Vec<Traced>> {
        let missing = || self.error(format!("there is no function `{name}` with a body"));
        let body = self.functions.get(name).and_then(|f| f.body()).ok_or_else(missing)?;
        let Some(left) = self.calls.get().checked_sub(1) else {
            return Err(self.error(format!("calls are nested deeper than {MAX_CALLS}")));
        };
        self.calls.set(left);
        let results = self.block(body, arguments, None);
        self.calls.set(left + 1);
        results
    }

    /// Translates the operations of a region, and returns the operands of its last one.
    fn block(
        &self,
        block: VhloBlock<'m>,
        arguments: Vec<Traced>,
        outer: Option<&Scope<'_>>,
    ) -> Translated<Vec<Traced>> {
        let scope = Scope::new(outer);
        let parameters = self.vhlo(block.arguments())?;
        if parameters.len() != arguments.len() {
            let (found, stated) = (arguments.len(), parameters.len());
            return Err(self.error(format!("a region of {stated} arguments is given {found}")));
        }
        for ((id, ty), value) in parameters.into_iter().zip(arguments) {
            self.check_type(&ty, &value, "an argument")?;
            scope.set(id, value);
        }
        for operation in block.operations() {
            let Some(left) = self.operations.get().checked_sub(1) else {
                return Err(self.error(format!("it has more than {MAX_OPERATIONS} operations")));
            };
            self.operations.set(left);
            let values = operation.operands().iter().map(|id| {
                scope.get(*id).ok_or_else(|| self.error("an operand is used before it is defined"))
            });
            let values = values.collect::<Translated<Vec<_>>>()?;
            if matches!(operation.name(), "return" | "sdy.return") {
                return Ok(values);
            }
            let results = self.operation(Operands { operation, values }, block, &scope)?;
            if results.len() != operation.results().len() {
                return Err(self.unsupported(operation, "its number of results is another"));
            }
            let types = self.vhlo(operation.result_types())?;
            for ((id, ty), value) in operation.results().zip(types).zip(results) {
                self.check_type(&ty, &value, &format!("a result of `{}`", operation.name()))?;
                scope.set(id, value);
            }
        }
        Err(self.error("a region does not return"))
    }

    /// Checks that a value has the type that the module states.
    fn check_type(&self, ty: &ValueType, value: &Traced, what: &str) -> Translated<()> {
        let (ValueType::Tensor(element, sizes), Some((dtype, shape))) = (ty, value.array_type())
        else {
            return Ok(());
        };
        let fits = sizes.len() == shape.len()
            && sizes.iter().zip(shape.iter()).all(|(stated, size)| {
                stated.is_none_or(|stated| u64::try_from(*size) == Ok(stated))
            });
        if fits && dtype.stablehlo() == element {
            return Ok(());
        }
        let sizes = sizes.iter().map(|size| size.map_or("?".into(), |size| size.to_string()));
        let sizes = sizes.collect::<Vec<String>>().join(",");
        let found = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let message = format!("{what} is {dtype}[{found}], the module states {element}[{sizes}]");
        Err(self.error(message))
    }

    /// Returns an error about an operation.
    fn unsupported(&self, operation: VhloOperation<'m>, message: &str) -> Error {
        self.error(format!("the operation `{}`: {message}", operation.name()))
    }

    fn operation(
        &self,
        operands: Operands<'m>,
        block: VhloBlock<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        if let Some(known) = self.known(&operands)? {
            return Ok(vec![Traced::Known(known)]);
        }
        let one = |value: Array| Ok(vec![Traced::Array(value)]);
        if let Some(result) = self.elementwise(&operands)? {
            return one(result);
        }
        if let Some(result) = self.shape_operation(&operands)? {
            return one(result);
        }
        if let Some(result) = self.indexing(&operands)? {
            return one(result);
        }
        match operands.operation.name() {
            "optimization_barrier" => self.barrier(&operands),
            "tuple" => Ok(vec![Traced::Tuple(operands.values)]),
            "get_tuple_element" => self.tuple_element(&operands),
            "create_token" | "after_all" => Ok(vec![Traced::Token]),
            "unrealized_conversion_cast" | "builtin.unrealized_conversion_cast" => {
                Ok(operands.values)
            }
            "constant" => Ok(vec![self.constant(&operands)?]),
            "dot_general" | "dot" => one(self.product(&operands)?),
            "convolution" => one(self.convolution(&operands, None)?),
            "dynamic_conv" => one(self.dynamic_convolution(&operands)?),
            "reduce" => self.reduce(&operands, scope),
            "reduce_window" => self.reduce_window(&operands, scope),
            "select_and_scatter" => one(self.select_and_scatter(&operands, scope)?),
            "map" => self.map(&operands, scope),
            "sort" => self.sort(&operands, scope),
            "scatter" => self.scatter(&operands, scope),
            "rng_bit_generator" => self.random_bits(&operands),
            "call" => {
                let missing = || self.unsupported(operands.operation, "it names no function");
                let name = operands.operation.text("callee").ok_or_else(missing)?;
                match operands.values.iter().any(|x| matches!(x, Traced::Sharded(..))) {
                    true => self.call_on_shards(name, &operands, block),
                    false => self.call(name, operands.values),
                }
            }
            "while" => self.while_loop(&operands, scope),
            "if" | "case" => self.branches(&operands, scope),
            "composite" => self.composite(operands),
            "custom_call" => self.custom_call(&operands),
            name if name.starts_with("sdy.") => self.shardy(&operands, scope),
            _ => self.collective(&operands, scope),
        }
    }

    fn tuple_element(&self, operands: &Operands<'m>) -> Translated<Vec<Traced>> {
        let index = self.number(operands, "index")?;
        match operands.values.first() {
            Some(Traced::Tuple(values)) => match values.get(index) {
                Some(value) => Ok(vec![value.clone()]),
                None => Err(self.unsupported(operands.operation, "the tuple has fewer elements")),
            },
            _ => Err(self.unsupported(operands.operation, "its operand is not a tuple")),
        }
    }

    /// Returns the operands, all of which are arrays.
    fn arrays(&self, operands: &Operands<'m>) -> Translated<Vec<Array>> {
        self.arrays_of(&operands.values)
    }

    /// Returns values, all of which are arrays.
    fn arrays_of(&self, values: &[Traced]) -> Translated<Vec<Array>> {
        values.iter().map(|value| self.array(value)).collect()
    }

    /// Returns operands of which there are `N`.
    fn exactly<const N: usize>(&self, operands: &Operands<'m>) -> Translated<[Array; N]> {
        let arrays = self.arrays(operands)?;
        let count = arrays.len();
        let message = || format!("it has {count} operands in place of {N}");
        <[Array; N]>::try_from(arrays).map_err(|_| self.unsupported(operands.operation, &message()))
    }

    /// Returns a value as an array.
    fn array(&self, value: &Traced) -> Translated<Array> {
        match value {
            Traced::Array(array) | Traced::Filled(array, _) => Ok(array.clone()),
            Traced::Known(known) => known.to_array(),
            other => Err(self.error(format!("{} is used as an array", other.kind()))),
        }
    }

    /// Returns numbers of an attribute that are sizes or axes.
    fn sizes(&self, operands: &Operands<'m>, name: &str) -> Translated<Vec<usize>> {
        let numbers = self.vhlo(operands.operation.numbers(name))?;
        let negative = |number: i64| {
            let message = format!("`{name}` has the negative number {number}");
            self.unsupported(operands.operation, &message)
        };
        let each = numbers.into_iter();
        each.map(|number| usize::try_from(number).map_err(|_| negative(number))).collect()
    }

    /// Returns an attribute that is one size or axis.
    fn number(&self, operands: &Operands<'m>, name: &str) -> Translated<usize> {
        match self.sizes(operands, name)?[..] {
            [number] => Ok(number),
            _ => Err(self.unsupported(operands.operation, &format!("`{name}` is not one number"))),
        }
    }

    /// Returns the dtype of the first result.
    fn result_dtype(&self, operands: &Operands<'m>) -> Translated<DType> {
        Ok(self.result_type(operands, 0)?.0)
    }

    /// Returns the dtype of a result, and the sizes that the module states.
    fn result_type(
        &self,
        operands: &Operands<'m>,
        index: usize,
    ) -> Translated<(DType, Vec<Option<usize>>)> {
        let types = self.vhlo(operands.operation.result_types())?;
        let Some(ValueType::Tensor(element, sizes)) = types.into_iter().nth(index) else {
            return Err(self.unsupported(operands.operation, "its result is not an array"));
        };
        let dtype = DType::from_stablehlo(&element).ok_or_else(|| {
            self.unsupported(operands.operation, &format!("the dtype {element} is not supported"))
        })?;
        let sizes = sizes.into_iter().map(|size| size.and_then(|size| usize::try_from(size).ok()));
        Ok((dtype, sizes.collect()))
    }

    /// Returns the shape of the first result, all of whose sizes the module states.
    fn static_shape(&self, operands: &Operands<'m>) -> Translated<Shape> {
        let (_, sizes) = self.result_type(operands, 0)?;
        let sizes: Option<Vec<usize>> = sizes.into_iter().collect();
        sizes.map(Shape::from).ok_or_else(|| {
            self.unsupported(operands.operation, "the module does not state the result's shape")
        })
    }

    /// Returns the first region.
    fn region(&self, operands: &Operands<'m>, index: usize) -> Translated<VhloBlock<'m>> {
        let missing = || self.unsupported(operands.operation, "it has too few regions");
        operands.operation.regions().nth(index).ok_or_else(missing)
    }
}
