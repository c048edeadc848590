//! The parts that test processes play.

use crate::distributed::scene::{PART, say, wait_for_go};
use oxidax::Error;
use oxidax::distributed::{self, ClusterConfig};
use std::time::Duration;

/// Long enough for a process to start on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Time-out of operations that are expected to time out.
pub(crate) const IN_VAIN: Duration = Duration::from_secs(8);

/// Heartbeat time-out of tests with a silent process.
pub(crate) const SILENCE: Duration = Duration::from_secs(6);

/// Returns a configuration from the environment, with generous time-outs.
pub(crate) fn config() -> ClusterConfig {
    ClusterConfig::new()
        .initialization_timeout(PATIENCE)
        .timeout(PATIENCE)
        .shutdown_timeout(PATIENCE)
}

/// Not itself a test: runs the part of a process started by another test.
#[test]
fn play() {
    let Ok(part) = std::env::var(PART) else { return };
    let played = match part.as_str() {
        "meet" => meet(),
        "keys" => keys(),
        "barriers" => barriers(),
        "swap" => swap(),
        "mistakes" => mistakes(),
        "large" => large(),
        "leave early" => leave_early(),
        "join" => distributed::initialize(config().initialization_timeout(IN_VAIN)),
        "wait" => wait(),
        "wait, and call on loss" => wait_and_call(),
        "fall silent" => fall_silent(),
        "late barrier" => late_barrier(),
        "arrays" => crate::distributed::on_cpu::arrays(),
        "reductions" => crate::distributed::on_cpu::reductions(),
        "preempted together" => crate::distributed::preemption::together(),
        "preempted apart" => crate::distributed::preemption::apart(),
        "record profiles" => crate::distributed::profiles::record(),
        "stall" => crate::distributed::stalls::wait_for_one(),
        "too late" => crate::distributed::on_cpu::too_late(),
        part => panic!("nobody plays `{part}`"),
    };
    match played {
        Ok(()) => say("done"),
        Err(error) => say(&error.to_string()),
    }
}

fn index() -> usize {
    distributed::process_index()
}

fn meet() -> Result<(), Error> {
    assert_eq!((index(), distributed::process_count()), (0, 1));
    assert!(!distributed::is_initialized());
    distributed::initialize(config())?;
    assert!(distributed::is_initialized());
    say(&format!("{} of {}", index(), distributed::process_count()));
    let names = distributed::process_names();
    say(&names.join(" "));
    assert!(names[index()].ends_with(&format!(":{})", std::process::id())), "{names:?}");
    let again = distributed::initialize(config()).unwrap_err().to_string();
    assert!(again.contains("`initialize` was already called"), "{again}");
    distributed::shutdown()?;
    assert!(!distributed::is_initialized());
    let again = distributed::initialize(config()).unwrap_err().to_string();
    assert!(again.contains("cannot join again"), "{again}");
    let after = distributed::put("k", b"v").unwrap_err().to_string();
    assert!(after.contains("put `k`: this process has not joined others"), "{after}");
    assert!(distributed::shutdown().is_err() && distributed::barrier("b").is_err());
    Ok(())
}

fn keys() -> Result<(), Error> {
    distributed::initialize(config())?;
    let count = distributed::process_count();
    assert_eq!(distributed::try_get("from 0")?, None);
    distributed::barrier("nobody has put anything")?;
    distributed::put(&format!("from {}", index()), format!("value {}", index()).as_bytes())?;
    for other in 0..count {
        let value = distributed::get(&format!("from {other}"))?;
        assert_eq!(value, format!("value {other}").as_bytes());
    }
    distributed::barrier("all have read")?;
    let all: Vec<String> = (0..count).map(|other| format!("from {other}")).collect();
    assert_eq!(distributed::list("from ")?, all);
    assert!(distributed::list("other")?.is_empty());
    distributed::barrier("all have listed")?;
    assert!(distributed::delete(&format!("from {}", index()))?);
    distributed::barrier("all have deleted")?;
    assert!(distributed::list("")?.is_empty());
    assert!(!distributed::delete("from 0")?);
    let late = distributed::get_with("nobody's", within(Duration::from_millis(50))).unwrap_err();
    say(&late.to_string());
    // A value is replaced atomically, even while others read.
    distributed::put("empty", b"")?;
    assert_eq!(distributed::get("empty")?, b"");
    distributed::barrier("before the race")?;
    for round in 0..20u8 {
        distributed::put("race", &[round.wrapping_mul(16) + index() as u8; 5000])?;
        let value = distributed::get("race")?;
        assert!(value.len() == 5000 && value.iter().all(|byte| *byte == value[0]));
    }
    distributed::shutdown()
}

fn barriers() -> Result<(), Error> {
    distributed::initialize(config())?;
    for round in 0..100 {
        // One name for all rounds, so a fast process returns before a slow one has left.
        distributed::barrier("again")?;
        if index() == round % distributed::process_count() {
            distributed::put("round", &[round as u8])?;
        }
        distributed::barrier("again")?;
        assert_eq!(distributed::get("round")?, [round as u8]);
    }
    // Pairs, and several threads at a time.
    if index() < 2 {
        distributed::barrier_with("two", among(&[1, 0], PATIENCE))?;
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| scope.spawn(move || distributed::barrier(&format!("thread {thread}"))))
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    distributed::shutdown()
}

/// All collective operations without arrays, which need no plugin.
fn swap() -> Result<(), Error> {
    distributed::initialize(config())?;
    for epoch in 0..10 {
        distributed::sync_global_devices(&format!("epoch {epoch}"))?;
        distributed::assert_equal(&(epoch, "static"), "")?;
    }
    distributed::shutdown()
}

fn mistakes() -> Result<(), Error> {
    let timeout = Duration::from_secs(4);
    distributed::initialize(config().timeout(timeout))?;
    // Processes at different barriers.
    let own = distributed::barrier(if index() == 0 { "here" } else { "there" }).unwrap_err();
    say(&own.to_string());
    distributed::barrier_with("all", among(&[0, 1], PATIENCE))?;
    // Processes at different operations.
    let name = if index() == 0 { "mine" } else { "yours" };
    say(&distributed::sync_global_devices(name).unwrap_err().to_string());
    for (members, what) in
        [(&[0, 1, 7][..], "no process 7; there are 2"), (&[1 - index()], "not among")]
    {
        let said =
            distributed::barrier_with("none", among(members, timeout)).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    }
    // A second thread at the same barrier.
    if index() == 0 {
        let twice: Vec<bool> = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| distributed::barrier("twice").is_ok()));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(twice, [false, false]);
    }
    distributed::barrier_with("all", among(&[0, 1], PATIENCE))?;
    distributed::shutdown()
}

/// Values larger than a message, and larger than the memory limit.
fn large() -> Result<(), Error> {
    const LIMIT: u64 = 64 << 20;
    distributed::initialize(config().store_limit(LIMIT))?;
    let pattern = |seed: usize, len: usize| -> Vec<u8> {
        (0..len).map(|at| (at * 31 + seed * 7) as u8).collect()
    };
    // Longer than a message, and not a multiple of the chunk size.
    let len = (5 << 20) + 17;
    distributed::put(&format!("large {}", index()), &pattern(index(), len))?;
    for other in 0..distributed::process_count() {
        assert!(distributed::get(&format!("large {other}"))? == pattern(other, len));
    }
    distributed::barrier("all have read")?;
    distributed::delete(&format!("large {}", index()))?;
    distributed::barrier("all have deleted")?;
    let refused = distributed::put("too large", &vec![0; LIMIT as usize]).unwrap_err();
    say(&refused.to_string());
    let long = "k".repeat(70_000);
    say(&distributed::put(&long, b"").unwrap_err().to_string());
    assert!(distributed::get(&long).is_err());
    // Refused values do not take memory.
    let half = vec![1; 20 << 20];
    for _ in 0..5 {
        distributed::put("half", &half)?;
    }
    assert!(distributed::get("half")? == half);
    distributed::shutdown()
}

/// Process 1 leaves while process 0 waits for it.
fn leave_early() -> Result<(), Error> {
    distributed::initialize(config().shutdown_timeout(Duration::from_secs(2)))?;
    if index() == 1 {
        return distributed::shutdown();
    }
    distributed::get_with("never", within(Duration::from_secs(5))).unwrap_err();
    distributed::barrier("too late")
}

/// Joins, reports it, and waits for a process that is killed.
fn wait() -> Result<(), Error> {
    distributed::initialize(config())?;
    say("joined");
    if index() == distributed::process_count() - 1 {
        // Outside, so that the barrier stays incomplete while others wait.
        wait_for_go();
    }
    let first = distributed::barrier("never complete").unwrap_err().to_string();
    // From here on every call returns the same error immediately.
    for later in [
        distributed::barrier("another").unwrap_err(),
        distributed::get("key").unwrap_err(),
        distributed::put("key", b"").unwrap_err(),
        distributed::sync_global_devices("x").unwrap_err(),
        distributed::shutdown().unwrap_err(),
    ] {
        let (later, first) = (later.to_string(), first.as_str());
        let cause =
            |text: &str| text.split_once(": ").unwrap().1.split_once(": ").unwrap().1.to_owned();
        assert_eq!(cause(&later), cause(first));
    }
    say(&first);
    Ok(())
}

/// Waits for the call of `on_lost`.
fn wait_and_call() -> Result<(), Error> {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    distributed::initialize(config().on_lost(move |error| {
        tell.lock().unwrap().send(error.to_string()).unwrap();
    }))?;
    say("joined");
    say(&told.recv_timeout(PATIENCE).unwrap());
    Ok(())
}

/// Reaches a barrier only after a signal.
fn late_barrier() -> Result<(), Error> {
    distributed::initialize(config())?;
    say("joined");
    wait_for_go();
    distributed::barrier("late")?;
    distributed::shutdown()
}

/// Waits for a process that is stopped.
fn fall_silent() -> Result<(), Error> {
    distributed::initialize(config().heartbeat_timeout(SILENCE))?;
    say("joined");
    say(&distributed::get("never put").unwrap_err().to_string());
    Ok(())
}

fn among(processes: &[usize], timeout: std::time::Duration) -> distributed::BarrierOptions {
    let (processes, timeout) = (Some(processes.to_vec()), Some(timeout));
    distributed::BarrierOptions { processes, timeout }
}

fn within(timeout: Duration) -> distributed::GetOptions {
    distributed::GetOptions { timeout: Some(timeout) }
}
