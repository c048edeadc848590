//! Processes that agree on the step at which they save, before one of them is stopped.

use crate::distributed::parts::config;
use crate::distributed::scene::{Actor, address, say};
use oxidax::Error;
use oxidax::distributed::{self, reached_preemption_sync_point};

/// Trains until the step at which all save. The processes wait for each other in each step, as in
/// collectives.
pub(crate) fn together() -> Result<(), Error> {
    train(|| distributed::barrier("step"))
}

/// Trains without waiting for others.
pub(crate) fn apart() -> Result<(), Error> {
    train(|| Ok(()))
}

fn train(wait: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    distributed::initialize(config())?;
    let mut step = 0;
    while !reached_preemption_sync_point(step)? {
        if step == 0 {
            say("training");
        }
        wait()?;
        step += 1;
    }
    say(&format!("saved at {step}"));
    // Training could go on.
    assert!(!reached_preemption_sync_point(step + 1)?);
    distributed::shutdown()
}

#[test]
fn a_signal_at_any_process_lets_all_save_at_one_step() {
    for (part, count, signalled) in [
        ("preempted together", 4, &[2][..]),
        ("preempted together", 2, &[0, 1]),
        ("preempted apart", 3, &[0]),
        ("preempted apart", 1, &[0]),
    ] {
        let mut actors = Actor::all(part, &address(), count);
        actors.iter_mut().for_each(|actor| actor.expect("training"));
        signalled.iter().for_each(|index| actors[*index].terminate());
        let ends: Vec<String> = actors.into_iter().map(Actor::rest).collect();
        let (saved, done) = ends[0].split_once('\n').unwrap();
        assert!(saved.starts_with("saved at ") && done == "done", "{ends:?}");
        assert!(ends.iter().all(|end| *end == ends[0]), "{part}: {ends:?}");
    }
}

#[test]
fn a_death_before_the_step_is_an_error_in_the_others() {
    let mut actors = Actor::all("preempted apart", &address(), 3);
    actors.iter_mut().for_each(|actor| actor.expect("training"));
    let mut victim = actors.remove(2);
    victim.kill();
    for actor in actors {
        let said = actor.rest();
        let expected = "reached_preemption_sync_point: process 2 (";
        assert!(said.contains(expected), "{said}");
    }
}
