//! Processes that `mpirun` of Open MPI started.

use super::{DetectedCluster, Variables, number, wrong};
use crate::core::Error;

/// Jobs use the last 4096 ports, chosen by the job's number, so that jobs on one host rarely
/// collide.
const PORTS: u64 = 4096;

/// Detects a process by the variables of Open MPI. The address is that of `mpirun`'s host, where
/// rank 0 runs with the default mapping.
///
/// Open MPI 5 does not pass that address. Then the coordinator must be set, unless all processes
/// run on one host.
pub(super) fn from_variables(variables: &Variables) -> Result<Option<DetectedCluster>, Error> {
    if !variables.contains_key("OMPI_COMM_WORLD_SIZE")
        || !variables.contains_key("OMPI_COMM_WORLD_RANK")
    {
        return Ok(None);
    }
    let count = number(variables, "OMPI_COMM_WORLD_SIZE")?;
    let index = number(variables, "OMPI_COMM_WORLD_RANK")?;
    let mut found = DetectedCluster {
        cluster: "Open MPI",
        count: Some(count),
        index: Some(index),
        local_device_ids: super::local_rank::open_mpi(variables)?,
        hint: "this version of Open MPI does not tell its processes where rank 0 runs: set \
               OXIDAX_COORDINATOR to `host:port` of that host",
        ..DetectedCluster::default()
    };
    if let Some(uri) = variables.get("OMPI_MCA_orte_hnp_uri") {
        let expected = "like `1531576320.0;tcp://10.96.0.1:34911`";
        let (job, host) =
            job_and_host(uri).ok_or_else(|| wrong("OMPI_MCA_orte_hnp_uri", uri, expected))?;
        // Job numbers are multiples of 4096.
        let port = u64::from(u16::MAX) + 1 - PORTS + (job / PORTS) % PORTS;
        found.coordinator = Some(format!("{host}:{port}"));
        found.run = format!("Open MPI job {job}");
    }
    Ok(Some(found))
}

/// Returns the job's number and the first address of a URI like `42.0;tcp://10.0.0.1,10.1.0.1:99`
/// or `42.0;tcp6://[fe80::1,2620::2]:99`.
fn job_and_host(uri: &str) -> Option<(u64, String)> {
    let (job, contact) = uri.split_once(';')?;
    let job = job.split('.').next()?.parse().ok()?;
    let (scheme, rest) = contact.split_once("://")?;
    let host = match scheme {
        "tcp" => rest.split([',', ':', ';']).next()?.to_owned(),
        "tcp6" => format!("[{}]", rest.strip_prefix('[')?.split([',', ']']).next()?),
        _ => return None,
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    (host.len() > 2 && host.chars().all(fits)).then_some((job, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    const RANK: [(&str, &str); 2] = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3")];

    #[test]
    fn addresses_of_the_launcher() {
        for (uri, coordinator) in [
            ("1531576320.0;tcp://10.96.0.1,10.148.0.1:34911", "10.96.0.1:62624"),
            ("8192.0;tcp://10.96.0.1:34911;udp://1.1.1.1:2", "10.96.0.1:61442"),
            ("8192.0;tcp6://[fe80::1,2620:10d::2]:43370", "[fe80::1]:61442"),
        ] {
            let set = [&RANK[..], &[("OMPI_MCA_orte_hnp_uri", uri)]].concat();
            let found = from_variables(&variables(&set)).unwrap().unwrap();
            assert_eq!(found.coordinator.as_deref(), Some(coordinator), "{uri}");
            assert_eq!((found.count, found.index), (Some(4), Some(3)));
        }
        for uri in ["", "x", "a.0;tcp://h:1", "1.0;file://h", "1.0;tcp6://fe80::1", "1;tcp://:1"] {
            let set = [&RANK[..], &[("OMPI_MCA_orte_hnp_uri", uri)]].concat();
            let said = from_variables(&variables(&set)).unwrap_err().to_string();
            assert!(said.contains("OMPI_MCA_orte_hnp_uri"), "{said}");
        }
    }

    #[test]
    fn newer_versions_need_a_coordinator() {
        let found = from_variables(&variables(&RANK)).unwrap().unwrap();
        assert_eq!((found.coordinator, found.count), (None, Some(4)));
        assert!(found.hint.contains("OXIDAX_COORDINATOR"));
        assert_eq!(from_variables(&variables(&RANK[..1])).unwrap(), None);
    }
}
