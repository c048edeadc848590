//! Processes with contradictory settings are refused.

use crate::distributed::scene::{Actor, address};

#[test]
fn different_counts_are_refused() {
    let address = address();
    let coordinator = Actor::start("join", &address, 2, 0);
    let other = Actor::start("join", &address, 3, 1);
    let pid = other.pid();
    let said = other.rest();
    assert!(said.starts_with("error[distributed]: initialize: process 1 ("), "{said}");
    assert!(
        said.contains(&format!(":{pid}) was started as one of 3, the coordinator as one of 2")),
        "{said}"
    );
    // The coordinator times out and names the refused process.
    let said = coordinator.rest();
    assert!(said.contains("process 1 of 2 never joined: process 0 ("), "{said}");
    assert!(said.contains("turned away: process 1 (") && said.contains("as one of 3"), "{said}");
    let port = address.rsplit_once(':').unwrap().1;
    assert!(said.contains(&format!("TCP port {port} of process 0's host")), "{said}");
}

#[test]
fn duplicate_ids_are_refused() {
    let address = address();
    let mut first = Actor::start("late barrier", &address, 3, 1);
    let mut coordinator = Actor::start("late barrier", &address, 3, 0);
    let mut third = Actor::start("late barrier", &address, 3, 2);
    for actor in [&mut coordinator, &mut first, &mut third] {
        actor.expect("joined");
    }
    let second = Actor::start("join", &address, 3, 1);
    let (taken, by) = (second.pid(), first.pid());
    let said = second.rest();
    assert!(
        said.contains(&format!(":{taken}) comes second: the id is taken by process 1 (")),
        "{said}"
    );
    assert!(said.contains(&format!(":{by})")), "{said}");
    // A second coordinator cannot use the port.
    let said = Actor::start("join", &address, 3, 0).rest();
    assert!(said.contains(&format!("process 0 cannot listen at {address}")), "{said}");
    assert!(said.contains("two processes were started as process 0"), "{said}");
    // The other processes are not affected.
    for actor in [&mut first, &mut coordinator, &mut third] {
        actor.go();
    }
    for actor in [first, coordinator, third] {
        assert_eq!(actor.rest(), "done");
    }
}

#[test]
fn different_operations_are_reported() {
    let mut said = Actor::all("mistakes", &address(), 2).into_iter().map(Actor::rest);
    let (first, second) = (said.next().unwrap(), said.next().unwrap());
    let barriers = [first.lines().next().unwrap(), second.lines().next().unwrap()];
    assert!(barriers[0].starts_with("error[distributed]: barrier `here`: process 1 ("), "{first}");
    assert!(barriers[0].contains("did not arrive; process 0 ("), "{first}");
    assert!(
        barriers[1].starts_with("error[distributed]: barrier `there`: process 0 ("),
        "{second}"
    );
    let mismatch = first.lines().nth(1).unwrap();
    assert!(
        mismatch.starts_with("error[distributed]: sync_global_devices `mine`: process 1 ("),
        "{first}"
    );
    assert!(mismatch.ends_with("is at sync_global_devices `yours` instead"), "{first}");
    assert!(first.ends_with("done") && second.ends_with("done"), "{first}\n{second}");
}

#[test]
fn processes_that_left_are_not_awaited() {
    let mut said = Actor::all("leave early", &address(), 2).into_iter().map(Actor::rest);
    let (stayed, left) = (said.next().unwrap(), said.next().unwrap());
    assert!(
        left.starts_with("error[distributed]: shutdown: process 0 (")
            && left.contains("did not arrive"),
        "{left}"
    );
    assert!(stayed.contains("barrier `too late`: nobody will come: process 1 ("), "{stayed}");
}

#[test]
fn a_missing_coordinator_is_named_with_its_port() {
    let address = address();
    let said = Actor::start("join", &address, 2, 1).rest();
    assert!(said.contains(&format!("no coordinator at {address} took in process 1 (")), "{said}");
    assert!(said.contains("see whether it runs"), "{said}");
    let port = address.rsplit_once(':').unwrap().1;
    assert!(said.contains(&format!("TCP port {port} of process 0's host")), "{said}");
}

#[test]
fn coordinator_needs_an_address_of_its_host() {
    // An address of a documentation network, which no host has.
    let said = Actor::start("join", "192.0.2.1:7400", 2, 0).rest();
    assert!(said.contains("process 0 cannot listen at 192.0.2.1:7400"), "{said}");
    assert!(said.contains("`coordinator_bind_address`"), "{said}");
    let said = Actor::start("join", "no colon", 2, 0).rest();
    assert!(said.contains("`no colon`; it must be like `host:7400`"), "{said}");
}
