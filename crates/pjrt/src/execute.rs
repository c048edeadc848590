//! Running programs.

use std::sync::Arc;

use oxidax_pjrt_sys as sys;
use smallvec::SmallVec;

use crate::api::Args;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::executable::LoadedExecutable;
use crate::ffi;
use crate::types::ElementType;

/// How to run a program once.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExecuteOptions<'a> {
    /// Positions of arguments that must survive, though the program would take them as donated.
    pub non_donatable: &'a [i64],
    /// Positions of arguments that the program takes as donated. After a successful launch these buffers count as
    /// deleted at once, without a question to the plugin.
    pub donated: &'a [usize],
    /// A number that processes which run one program together must agree on; 0 if there is only one.
    pub launch_id: i32,
}

/// The results of a run on several devices.
#[derive(Debug)]
pub struct ShardedResults {
    /// For each device, in the order of [`LoadedExecutable::devices`], its results.
    pub results: Vec<Vec<Buffer>>,
    /// For each device, an event that happens when it has finished.
    pub events: Vec<Event>,
}

pub(crate) type Arguments = SmallVec<[*mut sys::PJRT_Buffer; 16]>;
type Outputs = SmallVec<[*mut sys::PJRT_Buffer; 16]>;

impl LoadedExecutable {
    /// Runs the program on its device. The call returns when the work is queued or, if it is little, done; errors of the
    /// work itself may appear only when a result is read.
    ///
    /// # Errors
    /// [`Error::ArgumentType`] and [`Error::Invalid`] name the argument that does not fit, before anything is donated;
    /// [`Error::Status`] is the plugin's.
    pub fn execute(
        &self,
        arguments: &[&Buffer],
        options: &ExecuteOptions<'_>,
    ) -> Result<Vec<Buffer>> {
        let device = self.only_device()?;
        self.run(arguments, options, device, std::ptr::null_mut(), None)
    }

    /// Runs the program like [`execute`](Self::execute) and also returns an event that happens when it has finished.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn execute_with_event(
        &self,
        arguments: &[&Buffer],
        options: &ExecuteOptions<'_>,
    ) -> Result<(Vec<Buffer>, Event)> {
        let device = self.only_device()?;
        let mut event = std::ptr::null_mut();
        let results =
            self.run(arguments, options, device, std::ptr::null_mut(), Some(&mut event))?;
        // SAFETY: the plugin made the event for us.
        let event = unsafe { Event::from_raw(self.client(), event) }?;
        Ok((results, event))
    }

    /// Runs a portable executable on a device.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute); also [`Error::Invalid`] if the executable is not portable.
    pub fn execute_on(
        &self,
        device: &Device,
        arguments: &[&Buffer],
        options: &ExecuteOptions<'_>,
    ) -> Result<Vec<Buffer>> {
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

    /// Runs the program on all its devices at once: one list of arguments for each, in the order of
    /// [`devices`](Self::devices).
    ///
    /// On CPU a launch on several devices waits until the one before it has finished, because collectives of two
    /// launches in flight can block each other for good.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn execute_sharded(
        &self,
        arguments: &[Vec<&Buffer>],
        options: &ExecuteOptions<'_>,
    ) -> Result<ShardedResults> {
        ffi::refuse_inside_handler("execute")?;
        let devices = &self.0.devices;
        if self.0.portable {
            return Err(self.refuse("it is portable; use execute_on"));
        }
        if arguments.len() != devices.len() {
            let message =
                format!("it runs on {} devices, got {} lists", devices.len(), arguments.len());
            return Err(self.refuse(message));
        }
        let mut pointers = Vec::with_capacity(devices.len());
        for (list, &device) in arguments.iter().zip(devices) {
            pointers.push(self.check_arguments(list, device, options)?);
        }
        let launch = || self.launch_sharded(&pointers, options);
        let launched = if self.client().is_cpu() && devices.len() > 1 {
            self.client().launch_gate().launch(devices.len(), launch, |launched| &launched.events)
        } else {
            launch()
        }?;
        for list in arguments {
            mark_donated(list, options);
        }
        Ok(launched)
    }

    fn launch_sharded(
        &self,
        pointers: &[Arguments],
        options: &ExecuteOptions<'_>,
    ) -> Result<ShardedResults> {
        let devices = &self.0.devices;
        let argument_lists: Vec<_> = pointers.iter().map(|list| list.as_ptr()).collect();
        let mut outputs = vec![vec![std::ptr::null_mut(); self.0.results.len()]; devices.len()];
        let output_lists: Vec<_> = outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events = vec![std::ptr::null_mut(); devices.len()];
        let mut raw_options = raw_options(options);
        let mut args = sys::PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = self.as_ptr();
        args.options = (&raw mut raw_options).cast();
        args.argument_lists = argument_lists.as_ptr();
        args.num_devices = devices.len();
        args.num_args = self.0.parameters.len();
        args.output_lists = output_lists.as_ptr();
        args.device_complete_events = events.as_mut_ptr();
        // SAFETY: every list has one entry for each device, argument or result; the buffers are alive, checked, and of
        // this client.
        unsafe { self.client().plugin().call(&mut args) }?;
        let results =
            outputs.iter().zip(devices).map(|(outputs, &device)| self.wrap(outputs, device));
        // SAFETY: the plugin made the events for us.
        let events = events.iter().map(|&event| unsafe { Event::from_raw(self.client(), event) });
        Ok(ShardedResults {
            results: results.collect::<Result<_>>()?,
            events: events.collect::<Result<_>>()?,
        })
    }

    /// Runs the program on one device.
    #[inline]
    fn run(
        &self,
        arguments: &[&Buffer],
        options: &ExecuteOptions<'_>,
        device: usize,
        execute_device: *mut sys::PJRT_Device,
        event: Option<&mut *mut sys::PJRT_Event>,
    ) -> Result<Vec<Buffer>> {
        ffi::refuse_inside_handler("execute")?;
        let pointers = self.check_arguments(arguments, device, options)?;
        let mut outputs: Outputs = SmallVec::from_elem(std::ptr::null_mut(), self.0.results.len());
        let argument_list = pointers.as_ptr();
        let output_list = outputs.as_mut_ptr();
        let mut raw_options = raw_options(options);
        let mut args = sys::PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = self.as_ptr();
        args.options = (&raw mut raw_options).cast();
        args.argument_lists = &raw const argument_list;
        args.num_devices = 1;
        args.num_args = pointers.len();
        args.output_lists = &raw const output_list;
        args.device_complete_events = event.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        args.execute_device = execute_device;
        // SAFETY: there is one list of arguments and one of outputs, each as long as the program says; the buffers are
        // alive, checked, and of this client; the device is null or alive.
        unsafe { self.client().plugin().call(&mut args) }?;
        mark_donated(arguments, options);
        self.wrap(&outputs, device)
    }

    /// Takes ownership of the buffers that an execution returned. A broken plugin may return a null; then the others are
    /// freed all the same.
    #[inline]
    fn wrap(&self, outputs: &[*mut sys::PJRT_Buffer], device: usize) -> Result<Vec<Buffer>> {
        let mut buffers = Vec::with_capacity(outputs.len());
        let mut missing = None;
        for (&output, array_type) in outputs.iter().zip(&self.0.results) {
            // SAFETY: the plugin made the buffer for us, with the type that it stated.
            match unsafe { Buffer::from_raw(self.client(), output, Arc::clone(array_type), device) }
            {
                Ok(buffer) => buffers.push(buffer),
                Err(error) => missing = Some(error),
            }
        }
        missing.map_or(Ok(buffers), Err)
    }

    /// The pointers of checked arguments for the only device, for [`raw`](crate::raw).
    pub(crate) fn checked_pointers(&self, arguments: &[&Buffer]) -> Result<Arguments> {
        self.check_arguments(arguments, self.only_device()?, &ExecuteOptions::default())
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

    /// Checks number, types, places and fate of the arguments for one device, because the plugin does not.
    #[inline]
    fn check_arguments(
        &self,
        arguments: &[&Buffer],
        device: usize,
        options: &ExecuteOptions<'_>,
    ) -> Result<Arguments> {
        let parameters = &self.0.parameters;
        if arguments.len() != parameters.len() {
            let message =
                format!("it takes {} arguments, got {}", parameters.len(), arguments.len());
            return Err(self.refuse(message));
        }
        let out_of_range = |index: i64| index < 0 || index >= arguments.len() as i64;
        if options.non_donatable.iter().any(|&index| out_of_range(index))
            || options.donated.iter().any(|&index| index >= arguments.len())
        {
            let message = format!(
                "{options:?} names an argument that is not there; there are {}",
                arguments.len()
            );
            return Err(self.refuse(message));
        }
        let mut pointers = Arguments::with_capacity(arguments.len());
        for (index, (argument, parameter)) in arguments.iter().zip(parameters).enumerate() {
            let inner = &*argument.0;
            if *inner.array_type != *parameter
                || inner.device != device
                || argument.is_marked_deleted()
                || !inner.client.is_same(&self.0.client)
            {
                self.explain(index, argument, device)?;
            }
            pointers.push(argument.as_ptr());
        }
        Ok(pointers)
    }

    /// Says what is wrong with an argument.
    #[cold]
    fn explain(&self, index: usize, argument: &Buffer, device: usize) -> Result<()> {
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
        if argument.0.device != device {
            let message = format!(
                "argument {index} ({parameter}) is on {}, the program runs on {}",
                argument.device(),
                Device::new(self.client(), device)
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

#[inline]
fn mark_donated(arguments: &[&Buffer], options: &ExecuteOptions<'_>) {
    for &index in options.donated {
        arguments[index].mark_deleted();
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
