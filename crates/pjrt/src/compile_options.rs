//! Compile options, encoded as XLA's `CompileOptionsProto`.

use std::collections::{BTreeMap, BTreeSet};

use oxidax_proto::Message;

use crate::client::Client;
use crate::error::{Error, Result};

/// Options for compiling a program.
///
/// The default is one replica of one partition on the client's first device.
///
/// ```
/// # use oxidax_pjrt::CompileOptions;
/// let options = CompileOptions { num_partitions: 8, use_shardy: true, ..CompileOptions::spmd(8) };
/// assert_eq!(options.encode()?, CompileOptions::spmd(8).encode()?);
/// # Ok::<(), oxidax_pjrt::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Number of copies of the program that run on different data; at least 1.
    pub num_replicas: usize,
    /// Number of devices that each copy is partitioned over; at least 1.
    pub num_partitions: usize,
    /// If true, the compiler splits the program over the partitions by its sharding annotations.
    pub use_spmd_partitioning: bool,
    /// If true, the sharding annotations are Shardy's (`sdy`).
    pub use_shardy: bool,
    /// If true, the executable has no assigned device and runs on the device passed to
    /// [`execute_on`](crate::LoadedExecutable::execute_on).
    pub portable: bool,
    /// Device ids, one row of `num_partitions` for each replica. `None` takes the first ids, with
    /// partitions varying fastest.
    pub device_assignment: Option<Vec<Vec<i64>>>,
    /// Compiler flags by name, without leading dashes. They are the flags of the environment
    /// variable `XLA_FLAGS`, but a wrong flag is an error and does not end the process.
    pub overrides: BTreeMap<String, OptionValue>,
    /// Effort spent on shortening the run time: from -1.0, the least, over 0.0, the compiler's
    /// default, to 1.0.
    pub exec_time_optimization_effort: f32,
    /// Effort spent on fitting the program into memory: from -1.0, the least, over 0.0, the
    /// compiler's default, to 1.0.
    pub memory_fitting_effort: f32,
    /// Level of optimization; `None` is the compiler's default.
    pub optimization_level: Option<EffortLevel>,
    /// Level of effort spent on fitting the program into memory; `None` is the compiler's default.
    pub memory_fitting_level: Option<EffortLevel>,
}

/// A level of the compiler's effort, XLA's `ExecutionOptions.EffortLevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffortLevel {
    /// The least effort, for debugging.
    O0,
    /// Little effort.
    O1,
    /// Moderate effort, with which compilers optimize for production.
    O2,
    /// The most effort.
    O3,
}

impl EffortLevel {
    /// Returns the number in XLA's protocol buffers.
    fn number(self) -> i32 {
        match self {
            Self::O0 => 9,
            Self::O1 => 19,
            Self::O2 => 29,
            Self::O3 => 39,
        }
    }
}

/// The value of a compiler flag. The value of an enum flag is a string with the variant's name.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// Text: a string, an enum's name, or several values joined by commas.
    String(String),
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            num_replicas: 1,
            num_partitions: 1,
            use_spmd_partitioning: false,
            use_shardy: false,
            portable: false,
            device_assignment: None,
            overrides: BTreeMap::new(),
            exec_time_optimization_effort: 0.0,
            memory_fitting_effort: 0.0,
            optimization_level: None,
            memory_fitting_level: None,
        }
    }
}

impl CompileOptions {
    /// Returns options for one program partitioned over `num_partitions` devices by its Shardy
    /// annotations.
    pub fn spmd(num_partitions: usize) -> Self {
        Self { num_partitions, use_spmd_partitioning: true, use_shardy: true, ..Self::default() }
    }

    /// Returns options for one replica of one partition on the device with this id.
    pub fn on_device(id: i32) -> Self {
        Self { device_assignment: Some(vec![vec![i64::from(id)]]), ..Self::default() }
    }

    /// Returns options for an executable that runs on any device.
    pub fn portable() -> Self {
        Self { portable: true, ..Self::default() }
    }

    /// Sets a compiler flag.
    #[must_use]
    pub fn with_override(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.overrides.insert(name.into(), value.into());
        self
    }

    /// Serializes the options. Equal options give equal bytes, so the result can be part of a cache
    /// key.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a number is 0 or too large, an effort is not between -1 and 1, or the
    /// device assignment does not match the numbers.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let count = |name: &str, value: usize| {
            i32::try_from(value).ok().filter(|&value| value > 0).ok_or_else(|| {
                let message = format!("{name} must be between 1 and {}, got {value}", i32::MAX);
                Error::invalid("compile options", message)
            })
        };
        let replicas = count("num_replicas", self.num_replicas)?;
        let partitions = count("num_partitions", self.num_partitions)?;
        let device_assignment = match &self.device_assignment {
            Some(rows) => Some(self.encode_assignment(rows, replicas, partitions)?),
            None => None,
        };
        let effort = |name: &str, value: f32| {
            let message = format!("{name} must be between -1 and 1, got {value}");
            let valid = (-1.0..=1.0).contains(&value);
            if valid { Ok(value) } else { Err(Error::invalid("compile options", message)) }
        };
        let build = proto::ExecutableBuildOptions {
            num_replicas: replicas.into(),
            num_partitions: partitions.into(),
            use_spmd_partitioning: self.use_spmd_partitioning,
            device_assignment,
            use_shardy_partitioner: self.use_shardy,
            exec_time_optimization_effort: effort(
                "exec_time_optimization_effort",
                self.exec_time_optimization_effort,
            )?,
            memory_fitting_effort: effort("memory_fitting_effort", self.memory_fitting_effort)?,
            optimization_level: self.optimization_level.map_or(0, EffortLevel::number),
            memory_fitting_level: self.memory_fitting_level.map_or(0, EffortLevel::number),
        };
        let overrides = self.overrides.iter().map(|(name, value)| (name.clone(), value.into()));
        let options = proto::CompileOptions {
            executable_build_options: Some(build),
            compile_portable_executable: self.portable,
            env_option_overrides: overrides.collect(),
        };
        Ok(options.encode_to_vec())
    }

    fn encode_assignment(
        &self,
        rows: &[Vec<i64>],
        replicas: i32,
        partitions: i32,
    ) -> Result<proto::DeviceAssignment> {
        let fits = rows.len() == self.num_replicas
            && rows.iter().all(|row| row.len() == self.num_partitions);
        let ids: Vec<_> = rows.iter().flatten().copied().collect();
        if !fits || ids.iter().collect::<BTreeSet<_>>().len() != ids.len() {
            let message = format!(
                "the device assignment must be {replicas} rows of {partitions} different ids, got {rows:?}"
            );
            return Err(Error::invalid("compile options", message));
        }
        let column = |partition: usize| proto::ComputationDevice {
            replica_device_ids: rows.iter().map(|row| row[partition]).collect(),
        };
        Ok(proto::DeviceAssignment {
            replica_count: replicas,
            computation_count: partitions,
            computation_devices: (0..self.num_partitions).map(column).collect(),
        })
    }

    /// Returns an error for more devices than the client has, and for unknown device ids.
    pub(crate) fn check_devices(&self, client: &Client) -> Result<()> {
        let devices = client.devices();
        let needed = self.num_replicas.saturating_mul(self.num_partitions);
        if needed > devices.len() {
            let message = format!(
                "{} replicas of {} partitions need {needed} devices, the client has {}",
                self.num_replicas,
                self.num_partitions,
                devices.len()
            );
            return Err(Error::invalid("compile options", message));
        }
        let ids: Vec<_> = devices.iter().map(|device| i64::from(device.id())).collect();
        let assigned = self.device_assignment.iter().flatten().flatten();
        match assigned.into_iter().find(|id| !ids.contains(id)) {
            Some(id) => {
                let message = format!("no device has id {id}; there are {ids:?}");
                Err(Error::invalid("compile options", message))
            }
            None => Ok(()),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),+) => {
        $(impl From<$from> for OptionValue {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

from!(&str => String, String => String, bool => Bool, i32 => Int, i64 => Int, f64 => Double);

/// The protobuf messages, with field numbers from XLA's `compile_options.proto` and
/// `xla_data.proto`.
mod proto {
    use std::collections::BTreeMap;

    use oxidax_proto::messages;

    use super::OptionValue;

    messages! {
        pub(super) struct CompileOptions {
            pub(super) executable_build_options: Option<ExecutableBuildOptions> = 3,
            pub(super) compile_portable_executable: bool = 4,
            pub(super) env_option_overrides: BTreeMap<String, OptionOverride> = 7,
        }

        pub(super) struct ExecutableBuildOptions {
            pub(super) num_replicas: i64 = 4,
            pub(super) num_partitions: i64 = 5,
            pub(super) use_spmd_partitioning: bool = 6,
            pub(super) device_assignment: Option<DeviceAssignment> = 9,
            pub(super) use_shardy_partitioner: bool = 19,
            pub(super) exec_time_optimization_effort: f32 = 20,
            pub(super) memory_fitting_effort: f32 = 21,
            pub(super) optimization_level: i32 = 24,
            pub(super) memory_fitting_level: i32 = 25,
        }

        pub(super) struct DeviceAssignment {
            pub(super) replica_count: i32 = 1,
            pub(super) computation_count: i32 = 2,
            pub(super) computation_devices: Vec<ComputationDevice> = 3,
        }

        pub(super) struct ComputationDevice {
            pub(super) replica_device_ids: Vec<i64> = 1,
        }

        pub(super) struct OptionOverride {
            ; pub(super) value: Option<Value>
        }

        pub(super) oneof enum Value {
            String(String) = 1,
            Bool(bool) = 2,
            Int(i64) = 3,
            Double(f64) = 4,
        }
    }

    impl From<&OptionValue> for OptionOverride {
        fn from(value: &OptionValue) -> Self {
            let value = match value {
                OptionValue::String(text) => Value::String(text.clone()),
                OptionValue::Bool(flag) => Value::Bool(*flag),
                OptionValue::Int(number) => Value::Int(*number),
                OptionValue::Double(number) => Value::Double(*number),
            };
            Self { value: Some(value) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_options_state_both_counts() {
        let bytes = CompileOptions::default().encode().expect("valid");
        assert_eq!(bytes, [0x1a, 0x04, 0x20, 0x01, 0x28, 0x01]);
    }

    #[test]
    fn spmd_options_set_both_flags() {
        let bytes = CompileOptions::spmd(8).encode().expect("valid");
        assert_eq!(bytes, [0x1a, 0x09, 0x20, 0x01, 0x28, 0x08, 0x30, 0x01, 0x98, 0x01, 0x01]);
    }

    #[test]
    fn efforts_are_encoded_and_checked() {
        let options = CompileOptions {
            exec_time_optimization_effort: -1.0,
            optimization_level: Some(EffortLevel::O1),
            ..CompileOptions::default()
        };
        let bytes = options.encode().expect("valid");
        let expected = [0x1a, 0x0c, 0x20, 0x01, 0x28, 0x01, 0xa5, 0x01, 0, 0, 0x80, 0xbf, 0xc0, 1];
        assert_eq!(bytes[2..14], expected[2..]);
        assert_eq!(bytes[14], 19);
        for effort in [1.5, f32::NAN, f32::NEG_INFINITY] {
            let wrong =
                CompileOptions { memory_fitting_effort: effort, ..CompileOptions::default() };
            let error = wrong.encode().expect_err("out of range").to_string();
            assert!(error.contains("memory_fitting_effort must be between -1 and 1"), "{error}");
        }
    }

    #[test]
    fn counts_of_zero_and_misfit_assignments_are_refused() {
        let zero = CompileOptions { num_replicas: 0, ..CompileOptions::default() };
        let error = zero.encode().expect_err("the plugin would abort");
        assert!(error.to_string().contains("num_replicas"), "{error}");
        let twice = CompileOptions {
            num_partitions: 2,
            device_assignment: Some(vec![vec![1, 1]]),
            ..CompileOptions::default()
        };
        assert!(twice.encode().is_err());
        assert!(
            CompileOptions { num_partitions: 2, ..CompileOptions::on_device(0) }.encode().is_err()
        );
    }
}
