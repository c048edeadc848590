//! Predicted times of recorded rows, computed again without compiling.

use super::rows::{Predicted, Row, Rows, program_hash};
use super::steps::{Devices, Step};
use anyhow::Context as _;
use oxidax::prelude::*;

/// Computes the prediction of a step's newest row again. A row is kept as it is if its program has
/// changed, or if it is of a slice and does not record its exchanges; it says so.
pub fn predict_again(
    step: &Step,
    devices_of_step: Devices<'_>,
    topology: &Topology,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let devices = devices_of_step.devices();
    let Some(row) = rows.newest_of(step.name, topology.name(), devices).cloned() else {
        println!("{}, {devices} of {}: no row", step.name, topology.name());
        return Ok(());
    };
    let title = format!("{}, {} {}, {devices} of {}", row.step, row.batch, row.unit, row.topology);
    let lowered = (step.lower)(devices_of_step, row.batch).with_context(|| title.clone())?;
    let program = program_hash(&lowered.text()?);
    let exchanges = row.exchanges.clone();
    if program != row.program {
        println!("{title}: kept; the program has changed since {}", row.date);
    } else if row.lacks_exchanges() {
        println!("{title}: kept; the row does not record the exchanges of the compiled program");
    } else if row.fits != Some(true) {
        println!("{title}: kept; the step does not fit");
    } else if let Some((prediction, flops)) =
        lowered.predict(topology, &exchanges.unwrap_or_default())
    {
        let [before, now] = [row.prediction.clone(), Some(Predicted::from(&prediction))];
        let shown = |prediction: &Option<Predicted>| match prediction {
            Some(Predicted { seconds, serial_seconds, bound, .. }) => {
                format!("{:.2} to {:.2} ms ({bound})", seconds * 1e3, serial_seconds * 1e3)
            }
            None => "nothing".to_owned(),
        };
        println!("{title}: {}, before {}", shown(&now), shown(&before));
        rows.replace(Row { flops, prediction: now, ..row })?;
    }
    Ok(())
}
