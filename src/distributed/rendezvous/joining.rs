//! Joining: connecting to the coordinator, waiting for the others, and receiving notifications.

use super::failure::{self, Failure};
use super::link::{GRACE, milliseconds, stream};
use super::message::{
    ATTEND, CoordinatorEvent, CoordinatorMessage, Empty, Join, PROTOCOL, ProcessEvent,
    ProcessMessage,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::Streaming;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

/// Time-out of a connection attempt, and the longest pause before the next.
const ATTEMPT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

/// The identity of this process.
#[derive(Clone, Debug)]
pub(in crate::distributed) struct Identity {
    pub(in crate::distributed) index: u32,
    pub(in crate::distributed) count: u32,
    pub(in crate::distributed) run: String,
    pub(in crate::distributed) host: String,
    pub(in crate::distributed) incarnation: u64,
}

/// The result of joining.
pub(super) struct Joined {
    pub(super) roster: Vec<String>,
    pub(super) channel: Channel,
    pub(super) up: mpsc::Sender<ProcessMessage>,
    pub(super) down: Streaming<CoordinatorMessage>,
    pub(super) coordinator: String,
    pub(super) silence: Duration,
}

/// Connects to the coordinator, which may not have started yet, and joins.
pub(super) async fn join(
    target: String,
    identity: Identity,
    wait: Duration,
) -> Result<Joined, Failure> {
    let until = Instant::now() + wait;
    let endpoint = Endpoint::from_shared(format!("http://{target}"));
    let endpoint = endpoint.map_err(|error| {
        Failure::setup(format!("`{target}` is not an address like `host:port`: {error}"))
    })?;
    let endpoint = endpoint.connect_timeout(ATTEMPT.min(wait));
    let mut pause = Duration::from_millis(20);
    loop {
        let failure = match timeout_at(until, endpoint.connect()).await {
            Ok(Ok(channel)) => {
                match timeout_at(until + GRACE, introduce(channel, &identity, until)).await {
                    Ok(Ok(joined)) => return Ok(joined),
                    Ok(Err(failure)) => failure,
                    Err(_) => Failure::lost("it took the connection and said nothing"),
                }
            }
            Ok(Err(error)) => Failure::from(tonic::Status::from_error(Box::new(error))),
            Err(_) => Failure::lost("the connection was not taken"),
        };
        // Replies of the coordinator are final. Failed connections are retried.
        if !failure.is_unexplained() {
            return Err(failure);
        }
        if Instant::now() + pause >= until {
            let said = failure.message();
            return Err(Failure::timeout(format!(
                "no coordinator at {target} took in {} within {wait:.0?}: {said}",
                failure::name(identity.index, &identity.host, std::process::id()),
            ))
            .of(&[0])
            .help(
                "process 0 is the coordinator: see whether it runs, and whether others can reach \
                that address",
            ));
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE);
    }
}

/// Joins over a connection, and waits for the others.
async fn introduce(
    channel: Channel,
    identity: &Identity,
    until: Instant,
) -> Result<Joined, Failure> {
    let (up, rx) = mpsc::channel(16);
    let join = Join {
        protocol: PROTOCOL,
        index: identity.index,
        count: identity.count,
        run: identity.run.clone(),
        incarnation: identity.incarnation,
        host: identity.host.clone(),
        pid: std::process::id(),
        wait_ms: milliseconds(until.saturating_duration_since(Instant::now())),
    };
    let closed = || Failure::lost("the coordinator closed the connection");
    up.send(ProcessEvent::Join(join).into()).await.map_err(|_| closed())?;
    let mut down = stream::<ProcessMessage, CoordinatorMessage>(
        channel.clone(),
        ATTEND,
        ReceiverStream::new(rx),
    )
    .await?;
    let (mut coordinator, mut silence) = (String::new(), Duration::MAX);
    loop {
        match down.message().await?.ok_or_else(closed)?.event {
            Some(CoordinatorEvent::Welcome(welcome)) => {
                coordinator = welcome.coordinator;
                silence = Duration::from_millis(welcome.heartbeat_ms.max(1));
                tokio::spawn(beat(up.clone(), silence / 4));
            }
            Some(CoordinatorEvent::Ready(roster)) => {
                let roster = roster.names;
                // The coordinator's name was unknown before joining.
                let coordinator = roster.first().cloned().unwrap_or(coordinator);
                return Ok(Joined { roster, channel, up, down, coordinator, silence });
            }
            Some(CoordinatorEvent::Lost(failure)) => {
                // The coordinator may have ended already.
                drop(up.try_send(ProcessEvent::LossReceived(Empty {}).into()));
                return Err(failure);
            }
            Some(CoordinatorEvent::Heartbeat(_)) | None => {}
        }
    }
}

/// Sends heartbeats until the receiver is dropped.
async fn beat(up: mpsc::Sender<ProcessMessage>, every: Duration) {
    let mut beats = tokio::time::interval(every);
    loop {
        beats.tick().await;
        if up.send(ProcessEvent::Heartbeat(Empty {}).into()).await.is_err() {
            return;
        }
    }
}

/// Receives notifications until a process is lost.
pub(super) async fn attend(
    mut down: Streaming<CoordinatorMessage>,
    coordinator: &str,
    silence: Duration,
) -> Failure {
    let gone = |why: String| {
        let message = format!("the coordinator, {coordinator}, {why}");
        Failure::lost(message).of(&[0]).help("see what this process wrote last")
    };
    loop {
        match timeout(silence, down.message()).await {
            Ok(Ok(Some(CoordinatorMessage { event: Some(CoordinatorEvent::Lost(failure)) }))) => {
                return failure;
            }
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => return gone("died or left: it ended the connection".to_owned()),
            Ok(Err(status)) => {
                let said = Failure::from(status);
                return gone(format!("died: {}", said.message()));
            }
            Err(_) => return gone(format!("is dead or cut off: it was silent for {silence:.0?}")),
        }
    }
}
