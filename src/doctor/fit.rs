//! Looking for the batch and the `remat` policy that a memory has room for.

use super::predict::seconds;
use crate::control_flow::Policy;
use crate::core::Error;
use crate::jit::Lowered;
use crate::parallel::Topology;
use crate::tree::{Args, Tree};
use serde::Serialize;

/// What [`fit`] is to choose from.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Bytes that a step may take on a device; the topology's memory if it is less, or this is `None`.
    pub budget: Option<u64>,
    /// The batches, in any order: of a device or of all, as the step takes it.
    pub batches: Vec<usize>,
    /// What [`remat`](crate::control_flow::remat) may keep.
    pub policies: Vec<Policy>,
}

impl Default for Fit {
    /// All memory, batches of 1, 2, 4 … 1024, and all policies that name no values.
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

/// One try.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Trial {
    /// The batch.
    pub batch: usize,
    /// What was kept.
    pub policy: Policy,
    /// The bytes that the compiler says it takes on a device.
    pub needed: u64,
    /// Whether it is within the budget.
    pub fits: bool,
    /// The roofline's time of a step for one element of the batch; `None` if the device is not in the table.
    pub seconds_each: Option<f64>,
}

/// What fits best.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Fitted {
    /// The best of those that fit: least time for each element of the batch, by the roofline; where it does not know the device, the largest
    /// batch, with the policy that comes first.
    pub best: Trial,
    /// All that were compiled, in the order of compiling.
    pub trials: Vec<Trial>,
}

/// Looks for the batch and the policy that fit into memory, by compiling: for each policy it halves the range of batches until the largest that fits
/// is found, which takes that larger batches take more. The step is lowered anew for each.
///
/// # Errors
/// Those of `step`; those of compiling; [`Error::TooLarge`] if nothing fits, for the smallest batch and the last policy.
///
/// ```no_run
/// use oxidax::{doctor, prelude::*};
/// let slice = Topology::named("v5e:1x1")?;
/// let lowered = |batch: usize, policy: &Policy| {
///     let policy = policy.clone();
///     let step = jit(move |w: Array, x: Array| {
///         let options = RematOptions { policy: policy.clone() };
///         let layer = remat_with(|(w, h): &(Array, Array)| tanh(&h.matmul(w)), options);
///         let loss = |w: &Array| (0..12).fold(x.clone(), |h, _| layer(&(w.clone(), h))).mean();
///         grad(loss)(&w)
///     });
///     step.lower((Aval::new(DType::BF16, [4096, 4096]), Aval::new(DType::BF16, [batch, 4096])))
/// };
/// let batches = vec![1 << 14, 1 << 16, 1 << 18];
/// let found = doctor::fit(&slice, &doctor::Fit { batches, ..Default::default() }, lowered)?;
/// println!("{} with {:?}", found.best.batch, found.best.policy);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn fit<A: Args, O: Tree>(
    topology: &Topology,
    among: &Fit,
    step: impl Fn(usize, &Policy) -> Result<Lowered<A, O>, Error>,
) -> Result<Fitted, Error> {
    let mut batches = among.batches.clone();
    batches.sort_unstable();
    batches.dedup();
    if batches.is_empty() || among.policies.is_empty() {
        let message = "fit: there is no batch, or no policy, to choose from".to_string();
        return Err(Error::Compile { message, dump: None });
    }
    let mut trials: Vec<Trial> = Vec::new();
    let mut refusal = None;
    for policy in &among.policies {
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
            let room = among.budget.into_iter().chain(topology.memory()).min();
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
        None => Err(nothing(refusal, among, &trials)),
    }
}

fn best(trials: &[Trial]) -> Option<&Trial> {
    let better = |one: &&Trial, other: &&Trial| {
        let time = |of: &Trial| of.seconds_each.unwrap_or_default();
        // Of two policies that take as long, and fit as much, the one that was named first.
        time(one).total_cmp(&time(other)).then(other.batch.cmp(&one.batch))
    };
    trials.iter().filter(|trial| trial.fits).min_by(better)
}

/// Nothing fits: the compiler's own words, or the budget's.
fn nothing(refusal: Option<Error>, among: &Fit, trials: &[Trial]) -> Error {
    let least = trials.iter().map(|trial| trial.needed).min().unwrap_or_default();
    match (refusal, among.budget) {
        (Some(refusal), None) => refusal,
        (_, budget) => {
            let available = budget.unwrap_or_default();
            let message = format!(
                "fit: no batch and no policy of those to choose from fits into {available} bytes on a device; the least takes {least}\n  \
                 help: smaller batches; `remat` with `Policy::Nothing`; more devices to cut parameters and optimizer state over"
            );
            Error::TooLarge { message, needed: least, available, dump: None }
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
    fn the_fastest_that_fits_is_best() {
        let trials = [
            trial(4, Policy::Everything, true, Some(2e-3)),
            trial(8, Policy::Everything, false, Some(1e-3)),
            trial(64, Policy::Nothing, true, Some(1.5e-3)),
            trial(16, Policy::Dots, true, Some(1.5e-3)),
        ];
        assert_eq!(best(&trials).map(|trial| trial.batch), Some(64));
        assert!(best(&trials[1..2]).is_none());
        // Without a time the largest; of the same size the first.
        let unknown = [
            trial(4, Policy::Everything, true, None),
            trial(8, Policy::Dots, true, None),
            trial(8, Policy::Nothing, true, None),
        ];
        assert_eq!(best(&unknown).map(|trial| &trial.policy), Some(&Policy::Dots));
    }

    #[test]
    fn nothing_fits() {
        let trials = [trial(4, Policy::Everything, false, None)];
        let among = Fit { budget: Some(100), ..Fit::default() };
        let error = nothing(None, &among, &trials);
        assert!(error.to_string().starts_with("error[memory]: fit: no batch"), "{error}");
        assert!(
            error.to_string().contains("into 100 bytes on a device; the least takes 4000"),
            "{error}"
        );
    }
}
