//! Layouts of arrays, and of the arguments and results of programs, other than the default of the
//! device.

use super::compile::runtime_at;
use super::compiler_report::CompilerReport;
use super::executable::Executable;
use super::placement::{buffer_placement, shards, single_device};
use super::scratch::{NonDonatable, Scratch};
use crate::core::{
    Array, Aval, Buffer, Cache, Error, Kind, Layout, LayoutMode, Loc, OpErrorKind, Placement,
    Program, trace,
};
use crate::passes::{Plan, RequestedLayouts};
use oxidax_pjrt::UniqueBuffer;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Number of compiled programs that change a layout that are cached.
const RELAYOUTS: usize = 256;

/// The layouts of the arguments and results of a program; `None` for the default of the device.
#[derive(Debug)]
pub(super) struct EntryLayouts {
    inputs: Vec<Option<Arc<Layout>>>,
    outputs: Vec<Option<Arc<Layout>>>,
}

impl EntryLayouts {
    /// Returns the layouts of a compiled program, or `None` if all are the default.
    ///
    /// # Errors
    /// `Op` (unsupported) if the compiler did not follow a request; `Runtime` if the plugin does
    /// not report the layouts.
    pub(super) fn of(
        report: impl FnOnce() -> CompilerReport,
        name: &str,
        requested: &RequestedLayouts,
        is_cpu: bool,
    ) -> Result<Option<Box<EntryLayouts>>, Error> {
        if requested.are_default() {
            return Ok(None);
        }
        let (inputs, outputs) = report().layouts()?;
        let of = |what: &str, modes: &[LayoutMode], actual: Vec<Layout>| {
            let pairs = modes.iter().zip(actual).enumerate();
            let layouts = pairs.map(|(index, (mode, actual))| match mode {
                LayoutMode::Default => Ok(None),
                LayoutMode::Custom(layout) if !follows(&actual, layout) => {
                    Err(not_followed(name, &format!("{what} {index}"), layout, &actual))
                }
                LayoutMode::Auto | LayoutMode::Custom(_) => Ok(unless_default(actual, is_cpu)),
            });
            layouts.collect::<Result<Vec<_>, Error>>()
        };
        let inputs = of("argument", &requested.inputs, inputs)?;
        let outputs = of("result", &requested.outputs, outputs)?;
        Ok(Some(Box::new(EntryLayouts { inputs, outputs })))
    }

    /// Returns the layout of an argument.
    pub(super) fn input(&self, index: usize) -> Option<&Arc<Layout>> {
        self.inputs.get(index)?.as_ref()
    }

    /// Returns the layout of a result.
    pub(super) fn output(&self, index: usize) -> Option<Arc<Layout>> {
        self.outputs.get(index)?.clone()
    }
}

/// Returns true if the compiler chose the layout that was requested. It may add tiles.
fn follows(actual: &Layout, requested: &Layout) -> bool {
    actual.major_to_minor == requested.major_to_minor
        && (requested.tiling.is_empty() || actual.tiling == requested.tiling)
}

fn not_followed(name: &str, value: &str, requested: &Layout, actual: &Layout) -> Error {
    let message =
        format!("the compiler stores {value} as {actual}, and {requested} is requested for it");
    trace::op_error(OpErrorKind::Unsupported, name, message, Loc::UNKNOWN)
        .with_help("request another layout, `Layout::AUTO` or none")
}

/// Returns the layout, unless it is the default of the device. That of other devices than CPUs is
/// not known.
fn unless_default(layout: Layout, is_cpu: bool) -> Option<Arc<Layout>> {
    (!is_cpu || !layout.is_row_major()).then(|| Arc::new(layout))
}

/// Returns the layout of a buffer, if it is not the default of its devices.
#[inline]
pub(super) fn custom_layout(buffer: &Arc<dyn Buffer>) -> Option<&Arc<Layout>> {
    match single_device(buffer) {
        Some(on_device) => on_device.layout.as_ref(),
        None => shards(buffer).layout.as_ref(),
    }
}

/// Returns a buffer of type `aval` with the default layout of its devices.
///
/// # Errors
/// `Compile`, `Runtime`.
pub(super) fn in_default_layout(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
) -> Result<Arc<dyn Buffer>, Error> {
    relayout(buffer, aval, None)
}

/// Returns an array with another layout, on the same devices.
///
/// # Errors
/// `Op` (value) if the layout does not order the axes, and (unsupported) if the compiler does not
/// follow it; `Compile`, `Runtime`.
pub(crate) fn with_layout(array: &Array, layout: &Layout) -> Result<Array, Error> {
    let Kind::Concrete(buffer) = &array.kind else { return Ok(array.clone()) };
    let checked = layout.check(array.rank());
    checked.map_err(|error| trace::rule_error("device_put", error, Loc::UNKNOWN))?;
    let placement = buffer_placement(buffer);
    let to = unless_default(layout.clone(), runtime_at(&placement)?.client.is_cpu());
    let buffer = relayout(buffer, array.aval(), to.as_ref())?;
    Ok(Array::concrete(array.shared_aval().clone(), buffer))
}

/// Changes the layout of a buffer of type `aval`, with a compiled program.
///
/// # Errors
/// `Compile`, `Runtime`; `Op` (unsupported) if the compiler does not follow the layout.
pub(super) fn relayout(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    to: Option<&Arc<Layout>>,
) -> Result<Arc<dyn Buffer>, Error> {
    type Key = (Aval, Placement, [Option<Arc<Layout>>; 2]);
    static EXECUTABLES: OnceLock<Cache<Key, Executable>> = OnceLock::new();
    let from = custom_layout(buffer);
    if from == to {
        return Ok(buffer.clone());
    }
    let key: Key = (aval.clone(), buffer_placement(buffer), [from.cloned(), to.cloned()]);
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    let executable = EXECUTABLES.get_or_init(|| Cache::new(RELAYOUTS)).get_or_make(
        hasher.finish(),
        |other| *other == key,
        || key.clone(),
        |(aval, placement, layouts)| {
            let program = Program::new(std::slice::from_ref(aval), &[0], Vec::new(), &[0]);
            let [inputs, outputs] = [0, 1].map(|at| {
                vec![layouts[at].as_deref().map_or(LayoutMode::Default, LayoutMode::from)]
            });
            let plan =
                Plan { layouts: RequestedLayouts { inputs, outputs }, ..identity_plan(placement) };
            Executable::compile(&program, "relayout", &plan)
        },
    )?;
    let mut scratch = Scratch::default();
    scratch.arguments.push(buffer.clone());
    let result =
        executable.value().execute(&mut scratch, NonDonatable::Indices(&[0]), |results| {
            results.next().map(|array| array.kind)
        })?;
    match result {
        Some(Kind::Concrete(buffer)) => Ok(buffer),
        _ => unreachable!("a program with one output returns one array"),
    }
}

/// Returns the plan of a program whose only input and output have this placement.
fn identity_plan(placement: &Placement) -> Plan {
    match placement {
        Placement::Device(_) => Plan { target: Some(placement.clone()), ..Plan::default() },
        Placement::Mesh(sharding) => Plan {
            target: Some(Placement::Mesh(sharding.mesh().replicated())),
            inputs: vec![sharding.clone()],
            outputs: vec![Some(sharding.clone())],
            ..Plan::default()
        },
    }
}

/// Copies a buffer with a layout to the host, in row-major order.
pub(super) fn read_in_layout(
    buffer: &UniqueBuffer,
    layout: &Layout,
    dst: &mut [u8],
) -> oxidax_pjrt::Result<()> {
    let mut stored = vec![0; dst.len()];
    buffer.to_host_in_order(&mut stored, &layout.major_to_minor)?;
    let dims: Vec<usize> = buffer.dims().iter().map(|&dim| dim as usize).collect();
    to_row_major(&stored, &dims, &layout.major_to_minor, dst);
    Ok(())
}

/// Copies elements that are stored with their axes in an order, slowest first, to row-major order.
fn to_row_major(stored: &[u8], dims: &[usize], major_to_minor: &[usize], dst: &mut [u8]) {
    let size: usize = dims.iter().product();
    if size == 0 {
        return;
    }
    let width = dst.len() / size;
    let mut strides = vec![0; dims.len()];
    let mut stride = width;
    for &axis in major_to_minor.iter().rev() {
        strides[axis] = stride;
        stride *= dims[axis];
    }
    let (mut index, mut offset) = (vec![0; dims.len()], 0);
    for element in dst.chunks_exact_mut(width) {
        element.copy_from_slice(&stored[offset..offset + width]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < dims[axis] {
                break;
            }
            offset -= strides[axis] * dims[axis];
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_put_in_row_major_order() {
        // The element at (i, j, k) of [2, 3, 2] is 6i + 2j + k, stored in the order k, i, j.
        let mut stored = Vec::new();
        for k in 0..2u8 {
            for i in 0..2 {
                stored.extend((0..3).map(|j| [6 * i + 2 * j + k, 100]));
            }
        }
        let mut found = vec![0; 24];
        to_row_major(&stored.concat(), &[2, 3, 2], &[2, 0, 1], &mut found);
        let expected: Vec<u8> = (0..12).flat_map(|element| [element, 100]).collect();
        assert_eq!(found, expected);
        to_row_major(&[], &[0, 3], &[1, 0], &mut []);
    }
}
