//! Processes that die or never start, and the errors of the others.

use crate::distributed::scene::{Actor, address};

/// Starts all processes, kills one, and returns it with the output of the others.
fn killed(part: &str, count: usize, victim: usize) -> (u32, Vec<String>) {
    let mut actors = Actor::all(part, &address(), count);
    for actor in &mut actors {
        actor.expect("joined");
    }
    let mut victim = actors.remove(victim);
    let pid = victim.pid();
    victim.kill();
    actors.iter_mut().for_each(Actor::go);
    (pid, actors.into_iter().map(Actor::rest).collect())
}

#[test]
fn process_killed_in_a_barrier_is_named() {
    for (count, victim) in [(2, 1), (4, 2)] {
        let (pid, others) = killed("wait", count, victim);
        for said in others {
            let expected = format!("barrier `never complete`: process {victim} (");
            assert!(said.contains(&expected) && said.contains(&format!(":{pid}) died")), "{said}");
            assert!(said.ends_with("done"), "{said}");
        }
    }
}

#[test]
fn death_of_the_coordinator_is_detected() {
    let (pid, others) = killed("wait", 4, 0);
    assert_eq!(others.len(), 3);
    for said in others {
        assert!(said.contains("the coordinator, process 0 ("), "{said}");
        assert!(said.contains(&format!(":{pid}), died")), "{said}");
        assert!(said.ends_with("done"), "{said}");
    }
}

#[test]
fn silent_processes_count_as_dead() {
    for (victim, who) in [(2, "process 2 ("), (0, "the coordinator, process 0 (")] {
        let mut actors = Actor::all("fall silent", &address(), 4);
        for actor in &mut actors {
            actor.expect("joined");
        }
        let stopped = actors.remove(victim);
        stopped.stop();
        for actor in actors {
            let said = actor.rest();
            assert!(said.contains(&format!("`: {who}")), "{said}");
            assert!(said.contains("is dead or cut off: it was silent for 6s"), "{said}");
        }
    }
}

#[test]
fn on_lost_is_called_when_a_process_dies() {
    for victim in [0, 1] {
        let (pid, others) = killed("wait, and call on loss", 3, victim);
        for said in others {
            assert!(said.contains(&format!("process {victim} (")), "{said}");
            assert!(said.contains(&format!(":{pid})")), "{said}");
        }
    }
}

/// Starts a process that has joined while others are missing. A second process with the same id is
/// refused, which shows that the first one has joined.
fn joined(address: &str, count: usize, index: usize) -> Actor {
    let mut rivals = [(); 2].map(|()| Actor::start("wait", address, count, index));
    loop {
        if let Some(at) = rivals.iter_mut().position(|rival| rival.line_if_any().is_some()) {
            let [first, second] = rivals;
            return if at == 0 { second } else { first };
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn process_killed_while_others_join_is_named() {
    let address = address();
    let coordinator = Actor::start("wait", &address, 4, 0);
    let (mut victim, other) = (joined(&address, 4, 1), joined(&address, 4, 2));
    let pid = victim.pid();
    victim.kill();
    for actor in [coordinator, other] {
        let said = actor.rest();
        assert!(said.contains("initialize: process 1 ("), "{said}");
        assert!(said.contains(&format!(":{pid}) died")), "{said}");
    }
}

#[test]
fn missing_processes_are_named_in_time() {
    let address = address();
    let others: Vec<Actor> = [0, 1, 2].map(|index| Actor::start("join", &address, 4, index)).into();
    for said in others.into_iter().map(Actor::rest) {
        assert!(
            said.starts_with("error[distributed]: initialize: process 3 of 4 never joined"),
            "{said}"
        );
        assert!(said.contains("present: process 0 (") && said.contains(", process 2 ("), "{said}");
        assert!(said.contains("help: see whether these processes were started"), "{said}");
    }
}

#[test]
fn missing_coordinator_is_named_in_time() {
    let address = address();
    let said = Actor::start("join", &address, 2, 1).rest();
    let expected = format!("initialize: no coordinator at {address} took in process 1 (");
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("help: process 0 is the coordinator"), "{said}");
}
