//! [`Executable`]: a compiled program and its execution.

use super::client::runtime_error;
use super::compiler_report::CompilerReport;
use super::device_buffer::{DeviceBuffer, pjrt_buffer, wrap_result};
use super::effects;
use super::layouts::{EntryLayouts, custom_layout, relayout};
use super::placement::is_placed;
use super::scratch::{NonDonatable, Scratch};
use super::sharded_buffer::{Launch, ShardedBuffer};
use super::stalls::Produced;
use super::transfer::transfer_buffer;
use super::unfinished;
use crate::core::host_function::{refuse_inside, take_contained_failure};
use crate::core::options::{TransferDirection, TransferRequest, check_transfer};
use crate::core::spans::{EventKind, Span};
use crate::core::{Array, Aval, Buffer, Error, Layout, Loc, NamedSharding, Placement, Program};
use crate::passes::Plan;
use oxidax_pjrt::{
    CompileOptions, Event, ExecuteOptions, HostTransfer, LoadedExecutable, UniqueBuffer,
};
use std::sync::Arc;

/// A compiled program, loaded on the devices it runs on.
pub(crate) struct Executable {
    pub(super) loaded: LoadedExecutable,
    pub(super) name: Arc<str>,
    /// The number by which launches of it are counted.
    pub(super) program: usize,
    /// The types of the results.
    pub(super) results: Vec<Arc<Aval>>,
    /// The placement of each argument.
    pub(super) inputs: Vec<Placement>,
    pub(super) outputs: OutputPlacement,
    /// The layouts of arguments and results, if they are not all the default.
    pub(super) layouts: Option<Box<EntryLayouts>>,
    /// True if calls wait until the devices have finished, to keep side effects in order or to
    /// return the errors of checks.
    pub(super) waits: bool,
    /// True if callbacks may run after a call has returned.
    pub(super) has_unordered_effects: bool,
    /// The ids of the host functions that the program calls.
    pub(super) host_functions: Vec<u64>,
    /// Calls of host functions through transfers.
    pub(super) host_transfers: Vec<HostTransfer>,
    /// True if it was loaded from the disk cache instead of compiled.
    pub(super) from_disk: bool,
    /// The options that it was compiled with; those of the device if it was deserialized.
    pub(super) options: CompileOptions,
    /// True if it calls closures of this process.
    pub(super) calls_host: bool,
    /// Keeps the closures alive that the program calls.
    pub(super) closures: Option<Arc<Program>>,
}

impl Drop for Executable {
    fn drop(&mut self) {
        if self.closures.is_some() {
            effects::release_finished();
        }
    }
}

/// The placement of results.
#[derive(Clone, Debug)]
pub(super) struct OutputPlacement {
    /// The device, or the mesh, that the program runs on.
    pub(super) target: Placement,
    /// On one device: true if an argument is committed to it; results then are, too.
    pub(super) committed: bool,
    /// On a mesh: the sharding of each result.
    pub(super) shardings: Vec<NamedSharding>,
}

impl Executable {
    /// Returns the type of each argument's part on one device.
    pub(super) fn device_avals(
        avals: &[Aval],
        placements: &[Placement],
    ) -> Result<Vec<Aval>, Error> {
        let on_device = |(aval, placement): (&Aval, &Placement)| match placement.sharding() {
            Some(sharding) => Ok(aval.with_shape(sharding.shard_shape(&aval.shape)?)),
            None => Ok(aval.clone()),
        };
        avals.iter().zip(placements).map(on_device).collect()
    }

    /// Returns the name of the function it was compiled from.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the function for events of profiles.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Returns true if it was loaded from the disk cache.
    pub(crate) fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// Returns the placement of each argument.
    pub(crate) fn inputs(&self) -> &[Placement] {
        &self.inputs
    }

    /// Returns the placement of each result.
    pub(crate) fn outputs(&self) -> Vec<Placement> {
        let outputs = (0..self.results.len()).map(|index| {
            let sharding = self.outputs.shardings.get(index).cloned();
            sharding.map_or_else(|| self.outputs.target.clone(), Placement::Mesh)
        });
        outputs.collect()
    }

    /// Returns the bytes of its machine code, at least 4096, or 4096 if the plugin does not report
    /// them.
    pub(crate) fn code_bytes(&self) -> u64 {
        self.report().memory_analysis().map_or(0, |memory| memory.code).max(4096)
    }

    /// Returns the plan of a program that was loaded from bytes, without the shardings that were
    /// requested for its results.
    pub(crate) fn plan(&self) -> Plan {
        let inputs = self.inputs.iter().filter_map(|input| input.sharding().cloned());
        let target = Some(self.outputs.target.clone());
        Plan { target, inputs: inputs.collect(), ..Plan::default() }
    }

    /// Returns the compiler's analysis of the program.
    pub(crate) fn report(&self) -> CompilerReport {
        CompilerReport::new(self.loaded.executable(), &self.name)
    }

    /// Returns true if the arguments in `scratch` have the placements that the program expects.
    #[inline]
    pub(crate) fn are_placed(&self, scratch: &Scratch) -> bool {
        let mut arguments = scratch.arguments.iter().enumerate();
        arguments.all(|(index, buffer)| self.accepts(index, buffer))
    }

    /// Returns true if a buffer has the placement and the layout that the program expects of the
    /// argument at this index.
    #[inline]
    pub(crate) fn accepts(&self, index: usize, buffer: &Arc<dyn Buffer>) -> bool {
        is_placed(buffer, &self.inputs[index]) && custom_layout(buffer) == self.input_layout(index)
    }

    /// Returns the layout of an argument; `None` for the default of the device.
    #[inline]
    fn input_layout(&self, index: usize) -> Option<&Arc<Layout>> {
        self.layouts.as_ref().and_then(|layouts| layouts.input(index))
    }

    /// Transfers the arguments in `scratch` to the placements that the program expects. Returns the
    /// indices of those that had another one.
    ///
    /// # Errors
    /// `Runtime`, `Compile`.
    pub(crate) fn transfer_arguments(
        &self,
        scratch: &mut Scratch,
        avals: &[Aval],
    ) -> Result<Vec<usize>, Error> {
        let mut transferred = Vec::new();
        let pairs = scratch.arguments.iter_mut().zip(&self.inputs);
        for (index, (buffer, placement)) in pairs.enumerate() {
            if self.accepts(index, buffer) {
                continue;
            }
            let aval = &avals[index];
            let direction = TransferDirection::DeviceToDevice;
            check_transfer(direction, TransferRequest::Implicit, aval, Loc::UNKNOWN)?;
            if !is_placed(buffer, placement) {
                *buffer = transfer_buffer(buffer, aval, placement, aval.memory)?;
            }
            *buffer = relayout(buffer, aval, self.input_layout(index))?;
            transferred.push(index);
        }
        Ok(transferred)
    }

    /// Runs the program on the arguments in `scratch` and passes its results to `build`. Returns
    /// before the devices have finished.
    ///
    /// # Errors
    /// `Runtime`.
    pub(crate) fn execute<R>(
        &self,
        scratch: &mut Scratch,
        non_donatable: NonDonatable<'_>,
        build: impl FnOnce(&mut dyn Iterator<Item = Array>) -> R,
    ) -> Result<R, Error> {
        refuse_inside(&self.name)?;
        let _span = Span::within(EventKind::Dispatch, || self.name.clone());
        let Scratch { arguments, non_donatable: in_scratch, spare, workspace } = scratch;
        let non_donatable = match non_donatable {
            NonDonatable::InScratch => in_scratch.as_slice(),
            NonDonatable::Indices(indices) => indices,
        };
        let host_transfers = self.host_transfers.as_slice();
        let options = ExecuteOptions { non_donatable, host_transfers, ..Default::default() };
        let failed = |error| runtime_error(format!("executing {}", self.name), &error);
        let OutputPlacement { target, committed, shardings } = &self.outputs;
        let Placement::Device(device) = target else {
            let arrays = self.execute_on_mesh(arguments, &options, shardings).map_err(failed)?;
            self.take_failure()?;
            return Ok(build(&mut arrays.into_iter()));
        };
        let (device, committed, count) = (*device, *committed, arguments.len());
        let argument = |index: usize| pjrt_buffer(&arguments[index], 0);
        let outputs = if self.waits || self.has_unordered_effects || self.closures.is_some() {
            let started = self.loaded.execute_in_with_event(workspace, count, argument, &options);
            let (outputs, done) = started.map_err(failed)?;
            if self.waits {
                done.wait().map_err(failed)?;
                self.take_failure()?;
            } else {
                self.note_host_calls(std::slice::from_ref(&done));
            }
            outputs
        } else {
            self.loaded.execute_in(workspace, count, argument, &options).map_err(failed)?
        };
        let produced = Produced::by_launch_of(self.program);
        let layouts = self.layouts.as_deref();
        let results = self.results.iter().zip(outputs).enumerate();
        let mut arrays = results.map(|(index, (aval, buffer))| {
            let layout = layouts.and_then(|layouts| layouts.output(index));
            let buffer = DeviceBuffer::new(buffer, device, committed, aval);
            let buffer = buffer.produced_by(produced).with_layout(layout);
            wrap_result(spare.pop(), aval.clone(), buffer)
        });
        Ok(build(&mut arrays))
    }

    /// Records that a launch may call host functions until these events are complete.
    fn note_host_calls(&self, events: &[Event]) {
        if let Some(closures) = &self.closures {
            effects::hold(closures.clone(), events.to_vec());
        }
        if self.has_unordered_effects {
            effects::record(&self.name, events.to_vec(), &self.host_functions);
        }
    }

    /// Returns the error of a host function after which the program continued.
    fn take_failure(&self) -> Result<(), Error> {
        if !self.waits || self.host_functions.is_empty() {
            return Ok(());
        }
        match take_contained_failure(&self.host_functions) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn execute_on_mesh(
        &self,
        arguments: &[Arc<dyn Buffer>],
        options: &ExecuteOptions<'_>,
        shardings: &[NamedSharding],
    ) -> oxidax_pjrt::Result<Vec<Array>> {
        let argument = |ordinal: usize, index: usize| pjrt_buffer(&arguments[index], ordinal);
        let launched = self.loaded.execute_spread(arguments.len(), argument, options)?;
        let launch = Arc::new(Launch::new(launched.events, Produced::by_launch_of(self.program)));
        if let Some(mesh) = self.outputs.target.mesh() {
            unfinished::note(&launch, mesh, || self.report());
        }
        if self.waits {
            launch.events().iter().try_for_each(|done| done.wait())?;
        } else {
            self.note_host_calls(launch.events());
        }
        Ok(self.assemble(&launch, launched.results, shardings))
    }

    /// Combines the shards that each device returned into arrays.
    fn assemble(
        &self,
        launch: &Arc<Launch>,
        results: Vec<Vec<UniqueBuffer>>,
        shardings: &[NamedSharding],
    ) -> Vec<Array> {
        let mut by_device: Vec<_> = results.into_iter().map(Vec::into_iter).collect();
        let mut arrays = Vec::with_capacity(self.results.len());
        for (index, (aval, sharding)) in self.results.iter().zip(shardings).enumerate() {
            let layout = self.layouts.as_ref().and_then(|layouts| layouts.output(index));
            let buffers = by_device.iter_mut().filter_map(Iterator::next).collect();
            let shards = ShardedBuffer::new(sharding.clone(), aval.clone(), buffers);
            let shards = shards.produced_by(launch.clone()).with_layout(layout);
            arrays.push(Array::concrete(aval.clone(), Arc::new(shards)));
        }
        arrays
    }
}
