//! Search for the batch and the `remat` policy that fit into memory.

use super::predict::seconds;
use crate::control_flow::Policy;
use crate::core::{Error, Loc};
use crate::jit::Lowered;
use crate::parallel::Topology;
use crate::tree::{Args, Tree};
use serde::Serialize;

/// Options of [`fit`].
#[derive(Clone, Debug)]
pub struct Fit {
    /// Bytes that a step may use on a device, at most the memory of the topology. `None` means all.
    pub budget: Option<u64>,
    /// The batches to try, in any order, per device or in total, as the step takes them.
    pub batches: Vec<usize>,
    /// The policies of [`remat`](crate::control_flow::remat) to try.
    pub policies: Vec<Policy>,
}

impl Default for Fit {
    /// Returns all memory, batches of 1, 2, 4 … 1024, and all policies without names of values.
    fn default() -> Fit {
        Fit {
            budget: None,
            batches: (0..=10).map(|power| 1 << power).collect(),
            policies: vec![
                Policy::Everything,
                Policy::Dots,
                Policy::DotsWithNoBatchDims,
                Policy::Nothing,
            ],
        }
    }
}

/// One compiled batch and policy.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Trial {
    /// The batch.
    pub batch: usize,
    /// The `remat` policy.
    pub policy: Policy,
    /// The bytes on a device that the compiler reports.
    pub needed: u64,
    /// The step fits into the budget.
    pub fits: bool,
    /// The predicted seconds per element of the batch. `None` if the device is not in the table.
    pub seconds_each: Option<f64>,
}

/// The best batch and policy.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Fitted {
    /// The trial with the least time per element among those that fit. For a device that is not in
    /// the table it is the largest batch with the first policy.
    pub best: Trial,
    /// All trials, in order.
    pub trials: Vec<Trial>,
}

/// Searches for the batch and the policy that fit into memory.
///
/// For each policy it finds the largest batch by binary search, assuming that larger batches need
/// more memory. The step is lowered and compiled for each trial.
///
/// # Errors
/// The errors of `step` and of compilation. [`Error::TooLarge`] if nothing fits.
///
/// ```no_run
/// use oxidax::{doctor, prelude::*};
/// let slice = Topology::named("v5e:1x1")?;
/// let lowered = |batch: usize, policy: &Policy| {
///     let policy = policy.clone();
///     let step = jit(move |w: Array, x: Array| {
///         let options = RematOptions { policy: policy.clone(), ..RematOptions::default() };
///         let layer = remat_with(|(w, h): &(Array, Array)| tanh(&h.matmul(w)), options);
///         let loss = |w: &Array| (0..12).fold(x.clone(), |h, _| layer(&(w.clone(), h))).mean();
///         grad(loss)(&w)
///     });
///     step.lower(Aval::new(DType::BF16, [4096, 4096]), Aval::new(DType::BF16, [batch, 4096]))
/// };
/// let batches = vec![1 << 14, 1 << 16, 1 << 18];
/// let found = doctor::fit(&slice, &doctor::Fit { batches, ..Default::default() }, lowered)?;
/// println!("{} with {:?}", found.best.batch, found.best.policy);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn fit<A: Args, O: Tree>(
    topology: &Topology,
    options: &Fit,
    step: impl Fn(usize, &Policy) -> Result<Lowered<A, O>, Error>,
) -> Result<Fitted, Error> {
    let mut batches = options.batches.clone();
    batches.sort_unstable();
    batches.dedup();
    if batches.is_empty() || options.policies.is_empty() {
        let message = "fit: there is no batch, or no policy, to choose from".to_string();
        return Err(Error::Compile { message, dump: None, loc: Loc::UNKNOWN });
    }
    let mut trials: Vec<Trial> = Vec::new();
    let mut refusal = None;
    for policy in &options.policies {
        let (mut fitting, mut end) = (0, batches.len());
        while fitting < end {
            let at = (fitting + end) / 2;
            let lowered = step(batches[at], policy)?;
            let needed = match lowered.compile_for(topology) {
                Ok(planned) => planned.report().memory_analysis()?.total(),
                Err(error) => match error {
                    Error::TooLarge { needed, .. } => {
                        refusal = Some(error);
                        needed
                    }
                    other => return Err(other),
                },
            };
            let room = options.budget.into_iter().chain(topology.memory()).min();
            let fits = room.is_none_or(|room| needed <= room);
            let seconds_each = seconds(&lowered, topology)?.map(|all| all / batches[at] as f64);
            trials.push(Trial {
                batch: batches[at],
                policy: policy.clone(),
                needed,
                fits,
                seconds_each,
            });
            if fits { fitting = at + 1 } else { end = at }
        }
    }
    match best(&trials) {
        Some(best) => Ok(Fitted { best: best.clone(), trials }),
        None => Err(nothing_fits_error(refusal, options, &trials)),
    }
}

fn best(trials: &[Trial]) -> Option<&Trial> {
    let better = |one: &&Trial, other: &&Trial| {
        let time = |of: &Trial| of.seconds_each.unwrap_or_default();
        // Of equal trials the first one is best.
        time(one).total_cmp(&time(other)).then(other.batch.cmp(&one.batch))
    };
    trials.iter().filter(|trial| trial.fits).min_by(better)
}

/// Returns the error if nothing fits: that of the compiler, or one about the budget.
fn nothing_fits_error(refusal: Option<Error>, options: &Fit, trials: &[Trial]) -> Error {
    let least = trials.iter().map(|trial| trial.needed).min().unwrap_or_default();
    match (refusal, options.budget) {
        (Some(refusal), None) => refusal,
        (_, budget) => {
            let available = budget.unwrap_or_default();
            let message = format!(
                "fit: no batch and no policy fits into {available} bytes on a device; the least takes \
                 {least}\n  help: use smaller batches, `remat` with `Policy::Nothing`, or more devices \
                 to shard parameters and optimizer state"
            );
            Error::TooLarge { message, needed: least, available, dump: None, loc: Loc::UNKNOWN }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(batch: usize, policy: Policy, fits: bool, seconds_each: Option<f64>) -> Trial {
        Trial { batch, policy, needed: 1000 * batch as u64, fits, seconds_each }
    }

    #[test]
    fn best_is_the_fastest_trial_that_fits() {
        let trials = [
            trial(4, Policy::Everything, true, Some(2e-3)),
            trial(8, Policy::Everything, false, Some(1e-3)),
            trial(64, Policy::Nothing, true, Some(1.5e-3)),
            trial(16, Policy::Dots, true, Some(1.5e-3)),
        ];
        assert_eq!(best(&trials).map(|trial| trial.batch), Some(64));
        assert!(best(&trials[1..2]).is_none());
        // Without times the largest batch is best, and the first of equal ones.
        let unknown = [
            trial(4, Policy::Everything, true, None),
            trial(8, Policy::Dots, true, None),
            trial(8, Policy::Nothing, true, None),
        ];
        assert_eq!(best(&unknown).map(|trial| &trial.policy), Some(&Policy::Dots));
    }

    #[test]
    fn error_reports_the_budget_and_the_smallest_trial() {
        let trials = [trial(4, Policy::Everything, false, None)];
        let options = Fit { budget: Some(100), ..Fit::default() };
        let error = nothing_fits_error(None, &options, &trials);
        assert!(error.to_string().starts_with("error[memory]: fit: no batch"), "{error}");
        assert!(
            error.to_string().contains("into 100 bytes on a device; the least takes 4000"),
            "{error}"
        );
    }
}
