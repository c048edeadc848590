//! Environment variables that describe the TPUs of a Cloud TPU or GKE host.
//!
//! libtpu reads these variables itself. They are checked here to report mistakes before libtpu
//! waits for hosts that do not exist or aborts the process.

use std::collections::BTreeMap;

use super::tpu::Generation;
use crate::error::Error;

/// The variables from which [`TpuEnvironment`] is built.
pub(crate) const VARIABLES: [&str; 14] = [
    "ALLOW_MULTIPLE_LIBTPU_LOAD",
    "MEGASCALE_NUM_SLICES",
    "MEGASCALE_SLICE_ID",
    "TPU_ACCELERATOR_TYPE",
    "TPU_CHIPS_PER_HOST_BOUNDS",
    "TPU_CHIPS_PER_PROCESS_BOUNDS",
    "TPU_HOST_BOUNDS",
    "TPU_PROCESS_BOUNDS",
    "TPU_TOPOLOGY",
    "TPU_VISIBLE_CHIPS",
    "TPU_VISIBLE_DEVICES",
    "TPU_VISIBLE_DEVICE_PATHS",
    "TPU_WORKER_HOSTNAMES",
    "TPU_WORKER_ID",
];

/// A slice type as Google Cloud names it: `v5litepod-16`, `v4-8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceleratorType {
    /// The type's name.
    pub name: String,
    /// The generation, if it is recognized.
    pub generation: Option<Generation>,
    /// The number in the name: chips for v5e and v6e, cores (two per chip) for the others.
    pub size: Option<usize>,
}

/// The slice that this host belongs to, according to the environment. Unset variables are `None` or
/// empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TpuEnvironment {
    /// `TPU_ACCELERATOR_TYPE`.
    pub accelerator_type: Option<AcceleratorType>,
    /// `TPU_WORKER_ID`: the index of this host in the slice, from 0.
    pub worker_id: Option<usize>,
    /// `TPU_WORKER_HOSTNAMES`: all hosts of the slice, comma-separated.
    pub worker_hostnames: Vec<String>,
    /// `TPU_TOPOLOGY`: chips of the slice along each axis, as in `4x4`.
    pub topology: Option<Vec<usize>>,
    /// `TPU_CHIPS_PER_HOST_BOUNDS`: chips of a host along each axis, as in `2,2,1`.
    pub chips_per_host: Option<Vec<usize>>,
    /// `TPU_HOST_BOUNDS`: hosts of the slice along each axis.
    pub hosts: Option<Vec<usize>>,
    /// `TPU_CHIPS_PER_PROCESS_BOUNDS`: chips of a process along each axis, if several processes
    /// share a host.
    pub chips_per_process: Option<Vec<usize>>,
    /// `TPU_PROCESS_BOUNDS`: processes of the slice along each axis.
    pub processes: Option<Vec<usize>>,
    /// `TPU_VISIBLE_CHIPS`, or its older name `TPU_VISIBLE_DEVICES`: the chips used by this
    /// process.
    pub visible_chips: Option<Vec<usize>>,
    /// True if `TPU_VISIBLE_DEVICE_PATHS` selects device files.
    pub names_device_files: bool,
    /// `MEGASCALE_SLICE_ID` and `MEGASCALE_NUM_SLICES`: the index of this slice and the number of
    /// slices.
    pub slice: Option<(usize, usize)>,
    /// `ALLOW_MULTIPLE_LIBTPU_LOAD`: true if libtpu takes no lock.
    pub without_lock: bool,
}

impl TpuEnvironment {
    /// Reads the variables, given by name.
    ///
    /// # Errors
    ///
    /// [`Error::BadVariable`] for a variable that cannot be parsed or that contradicts another: a
    /// worker id beyond the list of workers, or a slice id beyond the number of slices.
    ///
    /// # Example
    ///
    /// ```
    /// use oxidax_plugin::devices::{Generation, TpuEnvironment};
    /// let variables = [("TPU_ACCELERATOR_TYPE", "v5litepod-16"), ("TPU_WORKER_ID", "3")];
    /// let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    /// let environment = TpuEnvironment::from_variables(&variables.into())?;
    /// let kind = environment.accelerator_type.unwrap();
    /// assert_eq!((kind.generation, kind.size), (Some(Generation::V5e), Some(16)));
    /// assert_eq!(environment.worker_id, Some(3));
    /// # Ok::<(), oxidax_plugin::Error>(())
    /// ```
    pub fn from_variables(variables: &BTreeMap<String, String>) -> Result<TpuEnvironment, Error> {
        let get = |name: &'static str| {
            let value = variables.get(name).map(|value| value.trim());
            value.filter(|value| !value.is_empty()).map(|value| Variable { name, value })
        };
        let bounds = |name| {
            get(name).map(|v| v.sizes(',', "sizes along axes, separated by commas, as in 2,2,1"))
        };
        let visible = get("TPU_VISIBLE_CHIPS").or_else(|| get("TPU_VISIBLE_DEVICES"));
        let slice_id =
            get("MEGASCALE_SLICE_ID").map(|v| v.number("a slice's number")).transpose()?;
        let slices =
            get("MEGASCALE_NUM_SLICES").map(|v| v.number("a number of slices")).transpose()?;
        let hostnames = get("TPU_WORKER_HOSTNAMES").map(|v| v.value).unwrap_or_default();
        let environment = TpuEnvironment {
            accelerator_type: get("TPU_ACCELERATOR_TYPE").map(|v| accelerator_type(v.value)),
            worker_id: get("TPU_WORKER_ID").map(|v| v.number("a worker's number")).transpose()?,
            worker_hostnames: hostnames
                .split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect(),
            topology: get("TPU_TOPOLOGY")
                .map(|v| v.sizes('x', "chips along axes, as in 4x4 or 2x2x2"))
                .transpose()?,
            chips_per_host: bounds("TPU_CHIPS_PER_HOST_BOUNDS").transpose()?,
            hosts: bounds("TPU_HOST_BOUNDS").transpose()?,
            chips_per_process: bounds("TPU_CHIPS_PER_PROCESS_BOUNDS").transpose()?,
            processes: bounds("TPU_PROCESS_BOUNDS").transpose()?,
            visible_chips: visible
                .map(|v| v.numbers(',', "chips' numbers, separated by commas"))
                .transpose()?,
            names_device_files: get("TPU_VISIBLE_DEVICE_PATHS").is_some(),
            slice: slice_id.zip(slices),
            without_lock: get("ALLOW_MULTIPLE_LIBTPU_LOAD")
                .is_some_and(|v| matches!(v.value.to_lowercase().as_str(), "1" | "true" | "yes")),
        };
        environment.check(variables)?;
        Ok(environment)
    }

    /// Returns true if this process uses only part of the host's chips, so that other processes may
    /// use the rest.
    pub fn is_partial(&self, chips: usize) -> bool {
        let fewer = |count: usize| count < chips;
        self.names_device_files
            || self.visible_chips.as_ref().is_some_and(|visible| fewer(visible.len()))
            || self.chips_per_process.as_ref().is_some_and(|axes| fewer(axes.iter().product()))
    }

    fn check(&self, variables: &BTreeMap<String, String>) -> Result<(), Error> {
        let bad = |name: &'static str, expected: String| {
            let value = variables.get(name).cloned().unwrap_or_default();
            Err(Error::BadVariable { name, value, expected: expected.into() })
        };
        let workers = self.worker_hostnames.len();
        if let Some(id) = self.worker_id
            && workers != 0
            && id >= workers
        {
            return bad(
                "TPU_WORKER_ID",
                format!("less than {workers}, the number of hosts in TPU_WORKER_HOSTNAMES"),
            );
        }
        if let Some((id, slices)) = self.slice
            && id >= slices
        {
            return bad("MEGASCALE_SLICE_ID", format!("less than MEGASCALE_NUM_SLICES, {slices}"));
        }
        Ok(())
    }
}

/// A variable that is set.
#[derive(Clone, Copy)]
struct Variable<'a> {
    name: &'static str,
    value: &'a str,
}

impl Variable<'_> {
    fn bad(self, expected: &'static str) -> Error {
        Error::BadVariable {
            name: self.name,
            value: self.value.to_owned(),
            expected: expected.into(),
        }
    }

    fn number(self, expected: &'static str) -> Result<usize, Error> {
        self.value.parse().map_err(|_| self.bad(expected))
    }

    fn numbers(self, separator: char, expected: &'static str) -> Result<Vec<usize>, Error> {
        let parts = self.value.split(separator).map(|part| part.trim().parse());
        parts.collect::<Result<_, _>>().map_err(|_| self.bad(expected))
    }

    /// Parses numbers that are all at least 1.
    fn sizes(self, separator: char, expected: &'static str) -> Result<Vec<usize>, Error> {
        let sizes = self.numbers(separator, expected)?;
        if sizes.contains(&0) { Err(self.bad(expected)) } else { Ok(sizes) }
    }
}

/// Parses a type such as `v5litepod-16`. An unknown type is not an error, because new types appear.
fn accelerator_type(name: &str) -> AcceleratorType {
    let (kind, size) = name.rsplit_once('-').map_or((name, None), |(k, s)| (k, s.parse().ok()));
    let generation = match kind {
        "v2" => Some(Generation::V2),
        "v3" => Some(Generation::V3),
        "v4" => Some(Generation::V4),
        "v5litepod" | "v5e" | "v5lite" => Some(Generation::V5e),
        "v5p" => Some(Generation::V5p),
        "v6e" => Some(Generation::V6e),
        "tpu7x" | "v7x" => Some(Generation::Tpu7x),
        _ => None,
    };
    AcceleratorType { name: name.to_owned(), generation, size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<TpuEnvironment, String> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let variables = variables.iter().map(owned).collect();
        TpuEnvironment::from_variables(&variables).map_err(|error| error.to_string())
    }

    #[test]
    fn gke_variables_are_parsed() {
        let environment = read(&[
            ("TPU_ACCELERATOR_TYPE", "v5p-32"),
            ("TPU_WORKER_ID", "1"),
            ("TPU_WORKER_HOSTNAMES", "t-0.svc, t-1.svc,t-2.svc,t-3.svc"),
            ("TPU_TOPOLOGY", "2x2x4"),
            ("TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1"),
            ("TPU_HOST_BOUNDS", "1,1,4"),
            ("MEGASCALE_SLICE_ID", "0"),
            ("MEGASCALE_NUM_SLICES", "2"),
            ("TPU_VISIBLE_CHIPS", ""),
        ])
        .unwrap();
        let kind = environment.accelerator_type.as_ref().unwrap();
        assert_eq!((kind.generation, kind.size), (Some(Generation::V5p), Some(32)));
        assert_eq!(environment.worker_hostnames[1], "t-1.svc");
        assert_eq!(environment.topology, Some(vec![2, 2, 4]));
        assert_eq!(environment.chips_per_host, Some(vec![2, 2, 1]));
        assert_eq!(environment.hosts, Some(vec![1, 1, 4]));
        assert_eq!(environment.slice, Some((0, 2)));
        assert!(!environment.is_partial(4) && !environment.without_lock);
    }

    #[test]
    fn an_unknown_type_is_not_an_error() {
        let environment = read(&[("TPU_ACCELERATOR_TYPE", "v11x-4096")]).unwrap();
        let kind = environment.accelerator_type.unwrap();
        assert_eq!((kind.generation, kind.size), (None, Some(4096)));
    }

    #[test]
    fn invalid_values_are_reported() {
        for (name, value, expected) in [
            ("TPU_WORKER_ID", "first", "TPU_WORKER_ID is `first`, expected a worker's number"),
            ("TPU_TOPOLOGY", "4by4", "TPU_TOPOLOGY is `4by4`, expected chips along axes"),
            ("TPU_HOST_BOUNDS", "2,0,1", "TPU_HOST_BOUNDS is `2,0,1`, expected sizes"),
            ("TPU_VISIBLE_CHIPS", "0;1", "TPU_VISIBLE_CHIPS is `0;1`, expected chips' numbers"),
            ("MEGASCALE_NUM_SLICES", "-1", "MEGASCALE_NUM_SLICES is `-1`"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn contradictions_are_reported() {
        let hosts = ("TPU_WORKER_HOSTNAMES", "a,b");
        let error = read(&[hosts, ("TPU_WORKER_ID", "2")]).unwrap_err();
        assert_eq!(
            error,
            "TPU_WORKER_ID is `2`, expected less than 2, the number of hosts in \
             TPU_WORKER_HOSTNAMES"
        );
        let slices = [("MEGASCALE_SLICE_ID", "2"), ("MEGASCALE_NUM_SLICES", "2")];
        assert!(read(&slices).unwrap_err().starts_with("MEGASCALE_SLICE_ID is `2`"));
    }
}
