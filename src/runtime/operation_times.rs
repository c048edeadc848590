//! [`OperationTime`]: measured times of the operations of a compiled program.

use super::client::runtime_error;
use super::executable::Executable;
use crate::core::{Error, Placement, SourceLine};
use oxidax_pjrt::{
    ArrayType, Client, CompileOptions, DeviceMemory, ElementType, ExecuteOptions, LoadedExecutable,
    Operation, PjrtBuffer, PjrtDevice, PjrtProgram, SourceLocation,
};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// The compiler option that leaves an optimized program as it is.
const NO_PASSES: &str = "xla_disable_all_hlo_passes";

/// Time for the runs of one operation. A quarter of the runs are faster than what is reported, as
/// other work on the machine only slows them down.
const EFFORT: Duration = Duration::from_millis(60);

/// Runs of one operation: at least, and at most.
const RUNS: (usize, usize) = (4, 200);

/// An operation of a compiled program with the time of one run.
#[derive(Debug)]
pub(crate) struct OperationTime {
    /// The compiler's name.
    pub(crate) name: String,
    /// The names of its scopes, if it has any.
    pub(crate) scope: String,
    /// The lines, each with its share of the work.
    pub(crate) lines: Vec<(SourceLine, f64)>,
    /// True if the compiler recorded no line, and these are those of values around it.
    pub(crate) is_inferred: bool,
    /// For a matrix product: the number of products, rows, columns and terms.
    pub(crate) product: Option<[u64; 4]>,
    /// The number of runs in one execution; `None` in a loop whose number of steps is not known.
    pub(crate) runs: Option<f64>,
    /// Floating-point operations of one run.
    pub(crate) flops: f64,
    /// Bytes of the operands and results of one run.
    pub(crate) bytes: f64,
    /// The seconds of one run, or the reason why it was not measured.
    pub(crate) seconds: Result<f64, String>,
}

impl OperationTime {
    fn of(operation: Operation, seconds: Result<f64, String>) -> OperationTime {
        let Operation { name, op_name, sources, is_inferred, product, runs, flops, bytes, .. } =
            operation;
        let line = |(source, share): (SourceLocation, f64)| {
            (SourceLine { file: source.file, line: source.line }, share)
        };
        let lines = sources.into_iter().map(line).collect();
        // The last name is that of the traced operation.
        let scope = op_name.rsplit_once('/').map_or("", |(scope, _)| scope).to_owned();
        OperationTime { name, scope, lines, is_inferred, product, runs, flops, bytes, seconds }
    }
}

/// Compiles and runs single operations, on all devices of the program at once.
struct Bench<'a> {
    client: &'a Client,
    devices: Vec<PjrtDevice>,
    options: CompileOptions,
    /// The arguments on each device, by type.
    buffers: FxHashMap<ArrayType, Vec<PjrtBuffer>>,
    /// The seconds of a program that computes next to nothing.
    overhead: f64,
}

impl Executable {
    /// Measures each operation of the program alone, on arrays of one half. Operations that are
    /// equal are measured once. Those of a program on several devices run on all of them at once,
    /// as in the program.
    ///
    /// # Errors
    /// `Plugin` unless the program runs on devices of the CPU plugin of this process; `Runtime` if
    /// the plugin does not return the optimized program.
    pub(crate) fn operation_times(&self) -> Result<Vec<OperationTime>, Error> {
        let client = self.loaded.client();
        if !client.is_cpu() {
            return Err(self.unmeasurable("it does not run on a CPU"));
        }
        let failed = |error| runtime_error(format!("measuring {}", self.name), &error);
        let devices = match &self.outputs.target {
            Placement::Device(id) => vec![client.device(id.0).map_err(failed)?],
            Placement::Mesh(sharding) => {
                let devices = self.loaded.devices();
                if devices.len() < sharding.mesh().devices().len() {
                    return Err(self.unmeasurable("it runs on devices of several processes"));
                }
                devices
            }
        };
        let found = self.loaded.executable().operations().map_err(failed)?;
        let mut options = self.options.clone().with_override(NO_PASSES, true);
        options.overrides.remove(super::late_copies::PRESET);
        let buffers = FxHashMap::default();
        let mut bench = Bench { client, devices, options, buffers, overhead: 0.0 };
        bench.measure_overhead().map_err(failed)?;
        let mut seconds: Vec<Result<f64, String>> = Vec::with_capacity(found.programs.len());
        for program in &found.programs {
            let measured = bench.measure(&program.program, &program.parameters);
            seconds.push(measured.map_err(|error| error.to_string()));
        }
        let each = found.operations.into_iter().map(|operation| {
            let seconds = match operation.program {
                Ok(index) => seconds[index].clone(),
                Err(reason) => Err(reason.to_owned()),
            };
            OperationTime::of(operation, seconds)
        });
        Ok(each.collect())
    }

    /// Returns the operations of the program with the times that a profiler recorded in a number of
    /// executions: by the operation's name, the runs on all devices and their time.
    ///
    /// # Errors
    /// `Plugin` if none was recorded; `Runtime` if the plugin does not return the optimized
    /// program.
    pub(crate) fn recorded_operation_times(
        &self,
        recorded: &FxHashMap<String, (u64, Duration)>,
        executions: usize,
    ) -> Result<Vec<OperationTime>, Error> {
        let failed = |error| runtime_error(format!("profiling {}", self.name), &error);
        let found = self.loaded.executable().operations().map_err(failed)?;
        let count = executions as f64 * self.loaded.devices().len().max(1) as f64;
        let mut known = 0;
        let each = found.operations.into_iter().map(|mut operation| {
            let Some((runs, time)) = recorded.get(&operation.name) else {
                let reason = "the profiler did not record it";
                return OperationTime::of(operation, Err(reason.to_owned()));
            };
            known += 1;
            // A GPU can run an operation as several kernels, each with an event.
            let times = operation.runs.filter(|runs| *runs > 0.0);
            let times = times.unwrap_or(*runs as f64 / count);
            operation.runs = Some(times);
            OperationTime::of(operation, Ok(time.as_secs_f64() / count / times))
        });
        let operations: Vec<OperationTime> = each.collect();
        if known == 0 && !operations.is_empty() {
            return Err(Error::Plugin(format!(
                "the profiler recorded no operation of `{}`: of {} events, none has the name of one \
                 of its {} operations\n  help: record a profile with `profile::trace`, and look at \
                 the device's lines in XProf",
                self.name,
                recorded.len(),
                operations.len()
            )));
        }
        Ok(operations)
    }

    /// Returns true if the plugin records the times of operations.
    pub(crate) fn has_profiler(&self) -> bool {
        super::plugin_profilers::has_profiler(self.loaded.client().plugin())
    }

    /// Returns the memory of one device over an execution.
    ///
    /// # Errors
    /// `Runtime` if the plugin does not return the optimized program.
    pub(crate) fn device_memory(&self) -> Result<DeviceMemory, Error> {
        let failed = |error| runtime_error(format!("analysing {}", self.name), &error);
        self.loaded.executable().device_memory().map_err(failed)
    }

    fn unmeasurable(&self, reason: &str) -> Error {
        Error::Plugin(format!(
            "the operations of `{}` cannot be measured one by one: {reason}\n  help: compile it for \
             the CPU devices of one process, or record a profile of the host with `profile::trace`",
            self.name
        ))
    }
}

impl Bench<'_> {
    /// Measures what every execution takes, however little it computes.
    fn measure_overhead(&mut self) -> oxidax_pjrt::Result<()> {
        let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.add %x, %x : tensor<f32>
            return %0 : tensor<f32>
        }";
        let options = CompileOptions { overrides: Default::default(), ..self.options.clone() };
        let executable = self.client.compile(&PjrtProgram::mlir(text)?, &options)?;
        let scalar = ArrayType::new(ElementType::F32, &[])?;
        self.overhead = self.run(&executable, std::slice::from_ref(&scalar))?;
        Ok(())
    }

    fn measure(
        &mut self,
        program: &PjrtProgram,
        parameters: &[ArrayType],
    ) -> oxidax_pjrt::Result<f64> {
        let executable = self.client.compile(program, &self.options)?;
        Ok((self.run(&executable, parameters)? - self.overhead).max(0.0))
    }

    /// Returns the lower quartile of the seconds of runs that are awaited.
    fn run(
        &mut self,
        executable: &LoadedExecutable,
        parameters: &[ArrayType],
    ) -> oxidax_pjrt::Result<f64> {
        for parameter in parameters {
            if !self.buffers.contains_key(parameter) {
                let bytes = contents(parameter);
                let (element, dims) = (parameter.element_type(), parameter.dims());
                let copy = |device| self.client.buffer_from_host(&bytes, element, dims, device);
                let buffers: oxidax_pjrt::Result<_> = self.devices.iter().map(copy).collect();
                self.buffers.insert(parameter.clone(), buffers?);
            }
        }
        let on = |device: usize| -> Vec<&PjrtBuffer> {
            parameters.iter().map(|parameter| &self.buffers[parameter][device]).collect()
        };
        let arguments: Vec<Vec<&PjrtBuffer>> = (0..self.devices.len()).map(on).collect();
        let keep: Vec<i64> = (0..parameters.len() as i64).collect();
        let options = ExecuteOptions { non_donatable: &keep, ..Default::default() };
        let once = || -> oxidax_pjrt::Result<f64> {
            let start = Instant::now();
            if let [arguments] = &arguments[..] {
                let results = executable.execute(arguments, &options)?;
                results.iter().try_for_each(|result| result.wait())?;
            } else {
                let launched = executable.execute_sharded(&arguments, &options)?;
                launched.events.iter().try_for_each(|event| event.wait())?;
            }
            Ok(start.elapsed().as_secs_f64())
        };
        once()?;
        let start = Instant::now();
        let mut times = Vec::new();
        while times.len() < RUNS.0 || (start.elapsed() < EFFORT && times.len() < RUNS.1) {
            times.push(once()?);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 4])
    }
}

/// Returns the bytes of an array of one half, or of zeros if it does not have floating-point
/// elements: as indices, these are in bounds.
fn contents(array: &ArrayType) -> Vec<u8> {
    let half: &[u8] = match array.element_type() {
        ElementType::F64 => &0.5_f64.to_le_bytes(),
        ElementType::F32 | ElementType::C64 => &0.5_f32.to_le_bytes(),
        ElementType::C128 => &0.5_f64.to_le_bytes(),
        // The upper bits of the `f32`.
        ElementType::Bf16 => &[0x00, 0x3f],
        ElementType::F16 => &[0x00, 0x38],
        _ => &[0],
    };
    half.iter().copied().cycle().take(array.host_bytes()).collect()
}
