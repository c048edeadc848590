//! The GPU of a process that shares its host with others.
//!
//! As in JAX, process `n` of a host uses GPU `n`. JAX applies this also to a single process of a
//! host, which then uses one GPU; here it uses all.

use super::{Variables, number, wrong};
use crate::core::Error;

/// Returns the device of a task of SLURM, or `None` for all devices.
pub(super) fn slurm(variables: &Variables) -> Result<Option<Vec<u32>>, Error> {
    if !variables.contains_key("SLURM_LOCALID") {
        return Ok(None);
    }
    let rank = number(variables, "SLURM_LOCALID")?;
    let name = "SLURM_STEP_TASKS_PER_NODE";
    let is_shared = match variables.get(name) {
        Some(text) => {
            let node = match variables.contains_key("SLURM_NODEID") {
                true => number(variables, "SLURM_NODEID")?,
                false => 0,
            };
            let tasks = tasks_of(text, node);
            tasks.ok_or_else(|| wrong(name, text, "a list of numbers like `4(x2),3`"))? > 1
        }
        // As in JAX, without the number of tasks.
        None => true,
    };
    Ok(device_of(variables, rank, is_shared))
}

/// Returns the device of a process of Open MPI, or `None` for all devices.
pub(super) fn open_mpi(variables: &Variables) -> Result<Option<Vec<u32>>, Error> {
    if !variables.contains_key("OMPI_COMM_WORLD_LOCAL_RANK") {
        return Ok(None);
    }
    let rank = number(variables, "OMPI_COMM_WORLD_LOCAL_RANK")?;
    let is_shared = match variables.contains_key("OMPI_COMM_WORLD_LOCAL_SIZE") {
        true => number(variables, "OMPI_COMM_WORLD_LOCAL_SIZE")? > 1,
        false => true,
    };
    Ok(device_of(variables, rank, is_shared))
}

fn device_of(variables: &Variables, rank: usize, is_shared: bool) -> Option<Vec<u32>> {
    // A scheduler that binds one GPU to each task has numbered it 0.
    let is_bound = variables.get("CUDA_VISIBLE_DEVICES").is_some_and(|ids| !ids.contains(','));
    let rank = u32::try_from(rank).ok()?;
    (is_shared && !is_bound).then(|| vec![rank])
}

/// Returns the number of tasks of a node in a list like `4(x2),3`: 4, 4 and 3.
fn tasks_of(text: &str, node: usize) -> Option<usize> {
    let mut first = 0usize;
    for part in text.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let tasks = tasks.trim().parse().ok()?;
        first = first.checked_add(nodes)?;
        if node < first {
            return Some(tasks);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn tasks_that_share_a_node_use_the_device_of_their_rank() {
        let found = |pairs: &[(&str, &str)]| slurm(&variables(pairs)).unwrap();
        let rank = ("SLURM_LOCALID", "3");
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[rank]), Some(vec![3]));
        for (tasks, node, expected) in [
            ("4(x2),1", "0", Some(vec![3])),
            ("4(x2),1", "1", Some(vec![3])),
            ("4(x2),1", "2", None),
            ("1", "0", None),
            ("1,8", "1", Some(vec![3])),
        ] {
            let all = [rank, ("SLURM_STEP_TASKS_PER_NODE", tasks), ("SLURM_NODEID", node)];
            assert_eq!(found(&all), expected, "{tasks} {node}");
        }
        assert_eq!(found(&[rank, ("CUDA_VISIBLE_DEVICES", "0")]), None);
        assert_eq!(found(&[rank, ("CUDA_VISIBLE_DEVICES", "0,1,2,3")]), Some(vec![3]));
        for tasks in ["", "four", "4(x", "4(xa)", "1(x2)", "1(x18446744073709551615),1(x1)"] {
            let all = [rank, ("SLURM_STEP_TASKS_PER_NODE", tasks), ("SLURM_NODEID", "7")];
            let outcome = slurm(&variables(&all));
            assert!(tasks.ends_with("1)") || outcome.is_err(), "{tasks}");
        }
    }

    #[test]
    fn processes_of_open_mpi_use_the_device_of_their_rank() {
        let rank = ("OMPI_COMM_WORLD_LOCAL_RANK", "1");
        let size = |size| [rank, ("OMPI_COMM_WORLD_LOCAL_SIZE", size)];
        let found = |pairs: &[(&str, &str)]| open_mpi(&variables(pairs)).unwrap();
        assert_eq!((found(&[]), found(&[rank])), (None, Some(vec![1])));
        assert_eq!((found(&size("2")), found(&size("1"))), (Some(vec![1]), None));
        assert!(open_mpi(&variables(&[("OMPI_COMM_WORLD_LOCAL_RANK", "x")])).is_err());
    }
}
