//! Execution of compiled programs.

use std::sync::Arc;

use oxidax_pjrt_sys as sys;
use smallvec::SmallVec;

use crate::api::Args;
use crate::buffer::{PjrtBuffer, Place, UniqueBuffer};
use crate::device::PjrtDevice;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::executable::{LoadedExecutable, Places};
use crate::exit;
use crate::ffi;
use crate::host_transfer::{HostTransfer, LaunchTransfers};
use crate::plugin::Plugin;
use crate::types::ElementType;

/// Options of one execution.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExecuteOptions<'a> {
    /// Indices of arguments that must not be donated, even if the program donates them.
    pub non_donatable: &'a [i64],
    /// Indices of arguments that the program takes as donated. After a successful launch these
    /// buffers count as deleted immediately, without a query to the plugin.
    pub donated: &'a [usize],
    /// A number on which all processes that run one program together must agree; 0 for a single
    /// process.
    pub launch_id: i32,
    /// The host functions that the program calls through transfers.
    pub host_transfers: &'a [HostTransfer],
}

/// The results of an execution on several devices.
#[derive(Debug)]
pub struct ShardedResults {
    /// The results of each device, in the order of [`LoadedExecutable::devices`].
    pub results: Vec<Vec<PjrtBuffer>>,
    /// An event for each device, which completes when the device has finished.
    pub events: Vec<Event>,
}

/// Like [`ShardedResults`], but each buffer has a single owner.
#[derive(Debug)]
pub struct SpreadResults {
    /// The results of each device, in the order of [`LoadedExecutable::devices`].
    pub results: Vec<Vec<UniqueBuffer>>,
    /// An event for each device, which completes when the device has finished.
    pub events: Vec<Event>,
}

pub(crate) type Pointers = SmallVec<[*mut sys::PJRT_Buffer; 16]>;

/// Reusable storage for the pointer lists of an execution. Code that runs a program repeatedly
/// should reuse one workspace: allocating lists of hundreds of arguments for each call costs more
/// than the rest of the call.
///
/// See [`LoadedExecutable::execute_in`].
#[derive(Debug, Default)]
pub struct Workspace {
    arguments: Pointers,
    outputs: Pointers,
}

// SAFETY: between executions both lists are empty, and during one the workspace is borrowed.
unsafe impl Send for Workspace {}

/// Iterator over the results of an execution. Each result is wrapped when it is taken; results that
/// are not taken are freed.
#[derive(Debug)]
pub struct Results<'a> {
    executable: &'a LoadedExecutable,
    device: usize,
    /// `None` if the program is not assigned to the device.
    places: Option<&'a Places>,
    outputs: &'a mut Pointers,
    taken: usize,
}

impl LoadedExecutable {
    /// Runs the program on its device. The call returns when the work is queued; small work may
    /// already be done by then. Errors of the computation may appear only when a result is read.
    ///
    /// # Errors
    /// [`Error::ArgumentType`] and [`Error::Invalid`] name the argument that does not match, before
    /// any buffer is donated; [`Error::Status`] is the plugin's error.
    pub fn execute(
        &self,
        arguments: &[&PjrtBuffer],
        options: &ExecuteOptions<'_>,
    ) -> Result<Vec<PjrtBuffer>> {
        let device = self.only_device()?;
        self.run(arguments, options, device, std::ptr::null_mut(), None)
    }

    /// Runs the program like [`execute`](Self::execute), without allocating lists of arguments or
    /// results. The closure `argument` returns the argument at an index below `count`.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    ///
    /// ```no_run
    /// # use oxidax_pjrt::{LoadedExecutable, PjrtBuffer, ExecuteOptions, Workspace};
    /// # fn train(step: &LoadedExecutable, mut state: Vec<PjrtBuffer>) -> oxidax_pjrt::Result<()> {
    /// let mut workspace = Workspace::default();
    /// for _ in 0..1000 {
    ///     let options = ExecuteOptions::default();
    ///     let results = step.execute_in(&mut workspace, state.len(), |at| &state[at], &options)?;
    ///     let results: Vec<PjrtBuffer> = results.map(PjrtBuffer::from).collect();
    ///     state = results;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn execute_in<'a, 'b>(
        &'a self,
        workspace: &'a mut Workspace,
        count: usize,
        argument: impl Fn(usize) -> &'b UniqueBuffer,
        options: &ExecuteOptions<'_>,
    ) -> Result<Results<'a>> {
        self.run_in(workspace, count, argument, options, None)
    }

    /// Runs the program like [`execute_in`](Self::execute_in) and also returns an event that
    /// completes when the program has finished.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    pub fn execute_in_with_event<'a, 'b>(
        &'a self,
        workspace: &'a mut Workspace,
        count: usize,
        argument: impl Fn(usize) -> &'b UniqueBuffer,
        options: &ExecuteOptions<'_>,
    ) -> Result<(Results<'a>, Event)> {
        let mut event = std::ptr::null_mut();
        let results = self.run_in(workspace, count, argument, options, Some(&mut event))?;
        // SAFETY: the plugin created the event for this call.
        let event = unsafe { Event::from_raw(self.client(), event) }?;
        Ok((results, event))
    }

    #[inline]
    fn run_in<'a, 'b>(
        &'a self,
        workspace: &'a mut Workspace,
        count: usize,
        argument: impl Fn(usize) -> &'b UniqueBuffer,
        options: &ExecuteOptions<'_>,
        event: Option<&mut *mut sys::PJRT_Event>,
    ) -> Result<Results<'a>> {
        ffi::refuse_inside_handler("execute")?;
        let device = self.only_device()?;
        let Workspace { arguments, outputs } = workspace;
        arguments.clear();
        self.check_arguments(count, &argument, device, options, arguments)?;
        let launched = self.launch(arguments, outputs, options, std::ptr::null_mut(), event);
        // The pointers are no longer needed.
        arguments.clear();
        launched?;
        for &index in options.donated {
            argument(index).mark_deleted();
        }
        self.results_of(outputs, device)
    }

    /// Runs the program like [`execute`](Self::execute) and also returns an event that completes
    /// when the program has finished.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    pub fn execute_with_event(
        &self,
        arguments: &[&PjrtBuffer],
        options: &ExecuteOptions<'_>,
    ) -> Result<(Vec<PjrtBuffer>, Event)> {
        let device = self.only_device()?;
        let mut event = std::ptr::null_mut();
        let results =
            self.run(arguments, options, device, std::ptr::null_mut(), Some(&mut event))?;
        // SAFETY: the plugin created the event for this call.
        let event = unsafe { Event::from_raw(self.client(), event) }?;
        Ok((results, event))
    }

    /// Runs a portable executable on a device.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute); also [`Error::Invalid`] if the executable is not
    /// portable.
    pub fn execute_on(
        &self,
        device: &PjrtDevice,
        arguments: &[&PjrtBuffer],
        options: &ExecuteOptions<'_>,
    ) -> Result<Vec<PjrtBuffer>> {
        if !self.0.portable {
            return Err(
                self.refuse("it is not portable; compile it with CompileOptions::portable()")
            );
        }
        if device.client() != self.client() {
            return Err(self.refuse(format!("{device} belongs to another client")));
        }
        crate::buffer::check_addressable("execute", device)?;
        self.run(arguments, options, device.index(), device.as_ptr(), None)
    }

    /// Runs the program on all its devices at once. `arguments` has one list for each device, in
    /// the order of [`devices`](Self::devices).
    ///
    /// On CPU, a launch on several devices waits until the previous launch has finished, because
    /// the collectives of two launches in flight can deadlock.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    pub fn execute_sharded(
        &self,
        arguments: &[Vec<&PjrtBuffer>],
        options: &ExecuteOptions<'_>,
    ) -> Result<ShardedResults> {
        let devices = &self.0.devices;
        let count = arguments.first().map_or(0, Vec::len);
        if arguments.len() != devices.len() {
            let message =
                format!("it runs on {} devices, got {} lists", devices.len(), arguments.len());
            return Err(self.refuse(message));
        }
        if let Some(list) = arguments.iter().find(|list| list.len() != count) {
            let message = format!("one device got {count} arguments, another {}", list.len());
            return Err(self.refuse(message));
        }
        let launched =
            self.execute_spread(count, |device, at| &**arguments[device][at], options)?;
        for list in arguments {
            mark_donated(list, options);
        }
        let results = launched.results.into_iter();
        Ok(ShardedResults {
            results: results.map(|list| list.into_iter().map(PjrtBuffer::from).collect()).collect(),
            events: launched.events,
        })
    }

    /// Runs the program like [`execute_sharded`](Self::execute_sharded), without lists of
    /// arguments. The closure `argument` returns a buffer by the device's index in
    /// [`devices`](Self::devices) and the argument's index below `count`. The program and
    /// [`ExecuteOptions::non_donatable`] determine which arguments are donated.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    pub fn execute_spread<'a>(
        &self,
        count: usize,
        argument: impl Fn(usize, usize) -> &'a UniqueBuffer,
        options: &ExecuteOptions<'_>,
    ) -> Result<SpreadResults> {
        ffi::refuse_inside_handler("execute")?;
        let devices = &self.0.devices;
        if self.0.portable {
            return Err(self.refuse("it is portable; use execute_on"));
        }
        let mut pointers = Pointers::with_capacity(devices.len() * count);
        for (place, &device) in devices.iter().enumerate() {
            self.check_arguments(count, |at| argument(place, at), device, options, &mut pointers)?;
        }
        let launch = || self.launch_spread(&pointers, count, options);
        if self.client().is_cpu() && devices.len() > 1 {
            self.client().launch_gate().launch(devices.len(), launch, |launched| &launched.events)
        } else {
            launch()
        }
    }

    /// Calls the plugin with checked arguments, grouped by device.
    fn launch_spread(
        &self,
        pointers: &Pointers,
        count: usize,
        options: &ExecuteOptions<'_>,
    ) -> Result<SpreadResults> {
        let devices = &self.0.devices;
        exit::wait_at_end();
        let argument_lists: SmallVec<[_; 16]> =
            (0..devices.len()).map(|place| pointers[place * count..].as_ptr()).collect();
        let n_results = self.0.results.len();
        let mut outputs: SmallVec<[Pointers; 16]> =
            devices.iter().map(|_| SmallVec::from_elem(std::ptr::null_mut(), n_results)).collect();
        let output_lists: SmallVec<[_; 16]> =
            outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events: SmallVec<[_; 16]> =
            SmallVec::from_elem(std::ptr::null_mut(), devices.len());
        let mut raw_options = raw_options(options);
        let plugin = self.client().plugin();
        let mut transfers = LaunchTransfers::new(plugin, options.host_transfers, devices.len());
        if let Some(transfers) = &mut transfers {
            transfers.write(&mut raw_options);
        }
        let mut args = sys::PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = self.as_ptr();
        args.options = (&raw mut raw_options).cast();
        args.argument_lists = argument_lists.as_ptr();
        args.num_devices = devices.len();
        args.num_args = self.0.parameters.len();
        args.output_lists = output_lists.as_ptr();
        args.device_complete_events = events.as_mut_ptr();
        // SAFETY: every list has one entry for each device, argument or result; the buffers are
        // alive, checked, and belong to this client.
        let launched = unsafe { plugin.call(&mut args) };
        // SAFETY: after a successful launch the events are alive.
        unsafe { keep_transfers(transfers, plugin, &launched, &events) };
        launched?;
        let results = outputs
            .iter_mut()
            .zip(devices)
            .map(|(outputs, &device)| Ok(self.results_of(outputs, device)?.collect()));
        // SAFETY: the plugin created the events for this call.
        let events = events.iter().map(|&event| unsafe { Event::from_raw(self.client(), event) });
        Ok(SpreadResults {
            results: results.collect::<Result<_>>()?,
            events: events.collect::<Result<_>>()?,
        })
    }

    /// Runs the program on one device.
    fn run(
        &self,
        arguments: &[&PjrtBuffer],
        options: &ExecuteOptions<'_>,
        device: usize,
        execute_device: *mut sys::PJRT_Device,
        event: Option<&mut *mut sys::PJRT_Event>,
    ) -> Result<Vec<PjrtBuffer>> {
        ffi::refuse_inside_handler("execute")?;
        let [mut pointers, mut outputs] = [Pointers::new(), Pointers::new()];
        self.check_arguments(
            arguments.len(),
            |at| &**arguments[at],
            device,
            options,
            &mut pointers,
        )?;
        self.launch(&pointers, &mut outputs, options, execute_device, event)?;
        mark_donated(arguments, options);
        Ok(self.results_of(&mut outputs, device)?.map(PjrtBuffer::from).collect())
    }

    /// Calls the plugin for one device with checked arguments and fills the list of outputs.
    #[inline]
    fn launch(
        &self,
        pointers: &Pointers,
        outputs: &mut Pointers,
        options: &ExecuteOptions<'_>,
        execute_device: *mut sys::PJRT_Device,
        event: Option<&mut *mut sys::PJRT_Event>,
    ) -> Result<()> {
        exit::wait_at_end();
        outputs.clear();
        outputs.resize(self.0.results.len(), std::ptr::null_mut());
        let argument_list = pointers.as_ptr();
        let output_list = outputs.as_mut_ptr();
        let mut raw_options = raw_options(options);
        let plugin = self.client().plugin();
        let mut transfers = LaunchTransfers::new(plugin, options.host_transfers, 1);
        let mut own_event = std::ptr::null_mut();
        let requested = event.is_some();
        let mut event = event.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        if let Some(transfers) = &mut transfers {
            transfers.write(&mut raw_options);
            if !requested {
                event = &raw mut own_event;
            }
        }
        let mut args = sys::PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = self.as_ptr();
        args.options = (&raw mut raw_options).cast();
        args.argument_lists = &raw const argument_list;
        args.num_devices = 1;
        args.num_args = pointers.len();
        args.output_lists = &raw const output_list;
        args.device_complete_events = event;
        args.execute_device = execute_device;
        // SAFETY: there is one list of arguments and one of outputs, with the lengths that the
        // program declares; the buffers are alive, checked, and belong to this client; the device
        // is null or alive.
        let launched = unsafe { plugin.call(&mut args) };
        if transfers.is_some() {
            // SAFETY: the launch requested an event.
            let completed = unsafe { *event };
            // SAFETY: after a successful launch the event is alive.
            unsafe { keep_transfers(transfers, plugin, &launched, &[completed]) };
            if launched.is_ok() && !requested {
                // SAFETY: no other code owns this event.
                drop(unsafe { Event::from_raw(self.client(), completed) });
            }
        }
        if launched.is_err() {
            // Pointers that a failed call wrote here must not be freed.
            outputs.clear();
        }
        launched
    }

    /// Takes ownership of the buffers that an execution returned. A broken plugin may return a null
    /// pointer; the other buffers are then still freed.
    #[inline]
    fn results_of<'a>(&'a self, outputs: &'a mut Pointers, device: usize) -> Result<Results<'a>> {
        let missing = outputs.iter().position(|output| output.is_null());
        let places = self.places(device);
        let results = Results { executable: self, device, places, outputs, taken: 0 };
        missing.map_or(Ok(results), |at| {
            Err(self.refuse(format!("the plugin returned no buffer for result {at}")))
        })
    }

    /// Returns the pointers of checked arguments for the only device, for [`raw`](crate::raw).
    pub(crate) fn checked_pointers(&self, arguments: &[&PjrtBuffer]) -> Result<Pointers> {
        let mut pointers = Pointers::new();
        let (count, device) = (arguments.len(), self.only_device()?);
        let options = ExecuteOptions::default();
        self.check_arguments(count, |at| &**arguments[at], device, &options, &mut pointers)?;
        Ok(pointers)
    }

    fn only_device(&self) -> Result<usize> {
        match self.0.devices.as_slice() {
            [device] if !self.0.portable => Ok(*device),
            _ if self.0.portable => Err(self.refuse("it has no device of its own; use execute_on")),
            devices => {
                Err(self
                    .refuse(format!("it runs on {} devices; use execute_sharded", devices.len())))
            }
        }
    }

    /// Checks the number, types, devices and liveness of the arguments for one device, and lists
    /// their pointers. The plugin does not check them.
    #[inline]
    fn check_arguments<'a>(
        &self,
        count: usize,
        argument: impl Fn(usize) -> &'a UniqueBuffer,
        device: usize,
        options: &ExecuteOptions<'_>,
        pointers: &mut Pointers,
    ) -> Result<()> {
        let parameters = &self.0.parameters;
        if count != parameters.len() {
            let message = format!("it takes {} arguments, got {count}", parameters.len());
            return Err(self.refuse(message));
        }
        let out_of_range = |index: i64| index < 0 || index >= count as i64;
        if options.non_donatable.iter().any(|&index| out_of_range(index))
            || options.donated.iter().any(|&index| index >= count)
        {
            let message =
                format!("{options:?} names an argument that is not there; there are {count}");
            return Err(self.refuse(message));
        }
        pointers.reserve(count);
        let places = self.places(device);
        for (index, parameter) in parameters.iter().enumerate() {
            let argument = argument(index);
            let place = argument.place();
            let known = places.is_some_and(|own| Arc::ptr_eq(place, &own.parameters[index]));
            let fits = known
                || (place.array_type == *parameter
                    && place.device == device
                    && place.client.is_same(&self.0.client));
            if !fits || argument.is_marked_deleted() {
                self.explain(index, argument, device)?;
            }
            pointers.push(argument.as_ptr());
        }
        Ok(())
    }

    /// Returns the error for an argument that does not match.
    #[cold]
    fn explain(&self, index: usize, argument: &UniqueBuffer, device: usize) -> Result<()> {
        if argument.client() != self.client() {
            return Err(self.refuse(format!("argument {index} belongs to another client")));
        }
        let parameter = &self.0.parameters[index];
        let stands_for_token = parameter.element_type() == ElementType::Token
            && argument.element_type() == ElementType::Pred
            && argument.dims() == [0];
        if argument.array_type() != parameter && !stands_for_token {
            return Err(Error::ArgumentType {
                executable: self.name().to_owned(),
                index,
                expected: Box::new(parameter.clone()),
                found: Box::new(argument.array_type().clone()),
            });
        }
        if argument.is_marked_deleted() {
            let message = format!("argument {index} ({parameter}) was deleted or donated");
            return Err(self.refuse(message));
        }
        if argument.place().device != device {
            let message = format!(
                "argument {index} ({parameter}) is on {}, the program runs on {}",
                argument.device(),
                PjrtDevice::new(self.client(), device)
            );
            return Err(self.refuse(message));
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, message: impl Into<String>) -> Error {
        Error::invalid("execute", format!("{}: {}", self.name(), message.into()))
    }
}

impl Iterator for Results<'_> {
    type Item = UniqueBuffer;

    #[inline]
    fn next(&mut self) -> Option<UniqueBuffer> {
        let output = *self.outputs.get(self.taken)?;
        let place = match self.places {
            Some(places) => Arc::clone(&places.results[self.taken]),
            None => Arc::new(Place {
                client: self.executable.client().clone(),
                array_type: self.executable.0.results[self.taken].clone(),
                device: self.device,
            }),
        };
        self.taken += 1;
        // SAFETY: the plugin created the buffer for this execution, with the declared type, and
        // each buffer is taken once.
        let buffer = unsafe { UniqueBuffer::from_raw(place, output) };
        // Nulls were rejected before. A null here occurs only while the remaining buffers are
        // freed.
        buffer.ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.outputs.len() - self.taken;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Results<'_> {}

impl Drop for Results<'_> {
    fn drop(&mut self) {
        while self.taken < self.outputs.len() {
            drop(self.next());
        }
        self.outputs.clear();
    }
}

fn mark_donated(arguments: &[&PjrtBuffer], options: &ExecuteOptions<'_>) {
    for &index in options.donated {
        arguments[index].mark_deleted();
    }
}

/// Keeps the callbacks of a launch alive as long as the plugin may use them.
///
/// # Safety
/// If the launch succeeded, the events are alive.
unsafe fn keep_transfers(
    transfers: Option<LaunchTransfers>,
    plugin: Plugin,
    launched: &Result<()>,
    events: &[*mut sys::PJRT_Event],
) {
    let Some(transfers) = transfers else { return };
    match launched {
        // SAFETY: the caller guarantees the events.
        Ok(()) => unsafe { transfers.free_after(plugin, events) },
        // A failed launch may have started on some devices, and reports no event.
        Err(_) => std::mem::forget(transfers),
    }
}

#[inline]
fn raw_options(options: &ExecuteOptions<'_>) -> sys::PJRT_ExecuteOptions_0_114 {
    sys::PJRT_ExecuteOptions_0_114 {
        base: sys::PJRT_ExecuteOptions {
            struct_size: size_of::<sys::PJRT_ExecuteOptions_0_114>(),
            launch_id: options.launch_id,
            non_donatable_input_indices: options.non_donatable.as_ptr(),
            num_non_donatable_input_indices: options.non_donatable.len(),
            ..Default::default()
        },
        multi_slice_config: std::ptr::null_mut(),
        use_major_to_minor_data_layout_for_callbacks: false,
        hlo_output_callbacks: std::ptr::null_mut(),
        num_hlo_output_callbacks: 0,
    }
}
