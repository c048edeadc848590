//! The coordinator's request handlers.

use super::failure::Failure;
use super::hub::{Hub, Phase};
use super::message::{
    ATTEND, CHUNK, Chunk, CoordinatorEvent, CoordinatorMessage, DELETE, Empty, GET, Join,
    KeyRequest, Keys, LIST, MAX_KEY, MAX_MESSAGE, MEET, MeetRequest, PUT, ProcessEvent,
    ProcessMessage, PutRequest, Roster, Welcome, parts,
};
use super::store::check_key;
use prost::Message;
use prost::bytes::Bytes;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tonic::body::Body;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::tokio_stream::{self, Stream};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// Longest accepted time-out, far below the overflow of clocks.
const MAX_WAIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A connection's access to the hub.
#[derive(Clone)]
pub(super) struct Rendezvous(pub(super) Arc<Hub>);

impl Service<http::Request<Body>> for Rendezvous {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let hub = self.0.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                ATTEND => answer(hub, attend, request).await,
                MEET => answer(hub, meet, request).await,
                PUT => answer(hub, put, request).await,
                GET => answer(hub, get, request).await,
                DELETE => answer(hub, delete, request).await,
                LIST => answer(hub, list, request).await,
                _ => {
                    Status::unimplemented("the rendezvous of oxidax does not know this").into_http()
                }
            })
        })
    }
}

/// Adapts a handler function to tonic. All requests and replies are streams. A stream of one
/// message equals a single message on the wire.
struct Handler<F> {
    hub: Arc<Hub>,
    handle: F,
}

impl<F, A, B, S, Answer> StreamingService<A> for Handler<F>
where
    F: Fn(Arc<Hub>, Streaming<A>) -> Answer,
    Answer: Future<Output = Result<S, Failure>> + Send + 'static,
    S: Stream<Item = Result<B, Status>>,
{
    type Response = B;
    type ResponseStream = S;
    type Future = BoxFuture<Response<S>, Status>;

    fn call(&mut self, request: Request<Streaming<A>>) -> Self::Future {
        let answer = (self.handle)(self.hub.clone(), request.into_inner());
        Box::pin(async move { Ok(Response::new(answer.await?)) })
    }
}

async fn answer<F, A, B, S, Answer>(
    hub: Arc<Hub>,
    handle: F,
    request: http::Request<Body>,
) -> http::Response<Body>
where
    F: Fn(Arc<Hub>, Streaming<A>) -> Answer + Send,
    A: Message + Default + 'static,
    B: Message + 'static,
    Answer: Future<Output = Result<S, Failure>> + Send + 'static,
    S: Stream<Item = Result<B, Status>> + Send + 'static,
{
    let codec = ProstCodec::<B, A>::default();
    let mut grpc = Grpc::new(codec).max_decoding_message_size(MAX_MESSAGE);
    grpc.streaming(Handler { hub, handle }, request).await
}

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number).min(MAX_WAIT)
}

/// Receives the next message of a request, with the heartbeat time-out.
async fn next<A>(hub: &Hub, inbound: &mut Streaming<A>) -> Result<Option<A>, Failure> {
    match timeout(hub.terms.heartbeat_timeout, inbound.message()).await {
        Ok(message) => Ok(message?),
        Err(_) => Err(Failure::timeout("the request stopped half-way")),
    }
}

async fn first<A>(hub: &Hub, inbound: &mut Streaming<A>) -> Result<A, Failure> {
    next(hub, inbound).await?.ok_or_else(|| Failure::refused("the request is empty"))
}

/// Receives the rest of a byte string of `total` bytes.
async fn whole<A>(
    hub: &Hub,
    begun: &[u8],
    total: u64,
    mut inbound: Streaming<A>,
    part: fn(A) -> Bytes,
) -> Result<Bytes, Failure> {
    // Copied, so that a small value does not keep its network buffer alive. Grown as bytes arrive,
    // so that a declared length alone allocates nothing.
    let mut bytes = begun.to_vec();
    while let Some(message) = next(hub, &mut inbound).await? {
        bytes.extend_from_slice(&part(message));
        if bytes.len() as u64 > total {
            break;
        }
    }
    if bytes.len() as u64 == total {
        Ok(bytes.into())
    } else {
        Err(Failure::refused(format!("{total} bytes were announced, not {}", bytes.len())))
    }
}

type Reply<T> = Result<T, Status>;

/// Accepts a process for the time of its connection.
async fn attend(
    hub: Arc<Hub>,
    mut inbound: Streaming<ProcessMessage>,
) -> Result<ReceiverStream<Reply<CoordinatorMessage>>, Failure> {
    let ProcessMessage { event: Some(ProcessEvent::Join(join)) } =
        first(&hub, &mut inbound).await?
    else {
        return Err(Failure::refused("a process must join first"));
    };
    hub.join(&join)?;
    // There is no await from here on, so a process that has joined is always listened to.
    let (out, outgoing) = mpsc::channel(16);
    let notifier = tokio::spawn(notify(hub.clone(), join.clone(), out)).abort_handle();
    tokio::spawn(listen(hub, join.index, inbound, notifier));
    Ok(ReceiverStream::new(outgoing))
}

/// Receives a process's messages until it leaves or is lost.
async fn listen(
    hub: Arc<Hub>,
    index: u32,
    mut inbound: Streaming<ProcessMessage>,
    notifier: AbortHandle,
) {
    let silence = hub.terms.heartbeat_timeout;
    loop {
        let why = match timeout(silence, inbound.message()).await {
            Ok(Ok(Some(ProcessMessage { event: Some(ProcessEvent::Heartbeat(_)) }))) => continue,
            Ok(Ok(Some(ProcessMessage { event: Some(ProcessEvent::LossReceived(_)) }))) => {
                hub.acknowledged(index);
                continue;
            }
            Ok(Ok(Some(ProcessMessage { event: Some(ProcessEvent::Leave(_)) }))) => {
                hub.leave(index);
                break;
            }
            Ok(Ok(Some(_))) => "says what the coordinator does not understand".to_owned(),
            Ok(Ok(None) | Err(_)) => "died: its connection to the coordinator ended".to_owned(),
            Err(_) => format!("is dead or cut off: it was silent for {silence:.0?}"),
        };
        hub.lose(index, &why);
        break;
    }
    // Ends the other direction too.
    notifier.abort();
}

/// Notifies a process of changes.
async fn notify(hub: Arc<Hub>, join: Join, out: mpsc::Sender<Reply<CoordinatorMessage>>) {
    let silence = hub.terms.heartbeat_timeout;
    let send =
        async |event: CoordinatorEvent| timeout(silence, out.send(Ok(event.into()))).await.is_ok();
    let welcome = Welcome { heartbeat_ms: silence.as_millis() as u64, coordinator: hub.name(0) };
    if !send(CoordinatorEvent::Welcome(welcome)).await {
        return;
    }
    let wait = milliseconds(join.wait_ms);
    let give_up = Instant::now() + wait;
    let mut phase = hub.phase();
    let mut beats = tokio::time::interval(silence / 4);
    let mut gathering = true;
    loop {
        let now = phase.borrow_and_update().clone();
        match now {
            Phase::Gathering => {}
            Phase::Ready(names) => {
                if gathering
                    && !send(CoordinatorEvent::Ready(Roster { names: names.to_vec() })).await
                {
                    return;
                }
                gathering = false;
            }
            Phase::Lost(failure) => {
                if join.index == 0 {
                    hub.others_acknowledged(0).await;
                }
                send(CoordinatorEvent::Lost(failure)).await;
                // Open until the process is gone, or its listener ends this task.
                out.closed().await;
                return;
            }
        }
        tokio::select! {
            () = out.closed() => return,
            _ = phase.changed() => {}
            _ = beats.tick() => {
                // A heartbeat can be dropped if the channel is full.
                drop(out.try_send(Ok(CoordinatorEvent::Heartbeat(Empty {}).into())));
            }
            () = tokio::time::sleep_until(give_up), if gathering => {
                hub.give_up_gathering(join.index, wait);
            }
        }
    }
}

async fn meet(
    hub: Arc<Hub>,
    mut inbound: Streaming<MeetRequest>,
) -> Result<impl Stream<Item = Reply<Chunk>>, Failure> {
    let MeetRequest { caller, name, members, wait_ms, total, part } =
        first(&hub, &mut inbound).await?;
    let index = hub.check(caller)?;
    if name.len() > MAX_KEY {
        let len = name.len();
        return Err(Failure::refused(format!(
            "a name has at most {MAX_KEY} bytes, this one {len}"
        )));
    }
    let what = format!("what process {index} brings");
    let reserved = hub.reserve(total.saturating_add(name.len() as u64), &what)?;
    let brought = whole(&hub, &part, total, inbound, |arrival| arrival.part).await?;
    let all = hub.meet(&name, members, index, brought, milliseconds(wait_ms)).await?;
    let each: Vec<(u32, Bytes)> =
        all.iter().map(|(index, brought)| (*index, brought.clone())).collect();
    let answers = each.into_iter().flat_map(move |(index, brought)| {
        // The contributions of others are accounted to them. This process's share is reserved until
        // it has read everything.
        let _held = &reserved;
        parts(brought).map(move |part| Ok(Chunk { index, part }))
    });
    Ok(tokio_stream::iter(answers))
}

async fn put(
    hub: Arc<Hub>,
    mut inbound: Streaming<PutRequest>,
) -> Result<impl Stream<Item = Reply<Empty>>, Failure> {
    let PutRequest { caller, key, total, part } = first(&hub, &mut inbound).await?;
    hub.check(caller)?;
    check_key(&key)?;
    let reserved = hub.reserve(total.saturating_add(key.len() as u64), "the value")?;
    let value = whole(&hub, &part, total, inbound, |request| request.part).await?;
    hub.put(key, value, reserved);
    Ok(tokio_stream::once(Ok(Empty {})))
}

async fn get(
    hub: Arc<Hub>,
    mut inbound: Streaming<KeyRequest>,
) -> Result<impl Stream<Item = Reply<Chunk>>, Failure> {
    let KeyRequest { caller, key, wait_ms } = first(&hub, &mut inbound).await?;
    let index = hub.check(caller)?;
    let value = hub.get(&key, milliseconds(wait_ms)).await?;
    Ok(tokio_stream::iter(parts(value).map(move |part| Ok(Chunk { index, part }))))
}

async fn delete(
    hub: Arc<Hub>,
    mut inbound: Streaming<KeyRequest>,
) -> Result<impl Stream<Item = Reply<Keys>>, Failure> {
    let KeyRequest { caller, key, .. } = first(&hub, &mut inbound).await?;
    hub.check(caller)?;
    let keys = if hub.delete(&key) { vec![key] } else { Vec::new() };
    Ok(tokio_stream::once(Ok(Keys { keys })))
}

async fn list(
    hub: Arc<Hub>,
    mut inbound: Streaming<KeyRequest>,
) -> Result<impl Stream<Item = Reply<Keys>>, Failure> {
    let KeyRequest { caller, key, .. } = first(&hub, &mut inbound).await?;
    hub.check(caller)?;
    let pages = pages(hub.list(&key));
    Ok(tokio_stream::iter(pages.into_iter().map(|keys| Ok(Keys { keys }))))
}

/// Splits keys into pages that fit into a message.
fn pages(keys: Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    let mut pages = Vec::new();
    let (mut page, mut size) = (Vec::new(), 0);
    for key in keys {
        // At most a tag and a length.
        let cost = key.len() + 8;
        if size + cost > CHUNK {
            pages.push(std::mem::take(&mut page));
            size = 0;
        }
        size += cost;
        page.push(key);
    }
    pages.push(page);
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_fit_into_messages_and_keep_every_key() {
        let keys: Vec<Vec<u8>> = (0..200).map(|at| vec![at; 20_000]).collect();
        let cut = pages(keys.clone());
        assert!(cut.len() > 3);
        for keys in &cut {
            assert!(Keys { keys: keys.clone() }.encoded_len() <= MAX_MESSAGE);
        }
        assert_eq!(cut.concat(), keys);
        assert_eq!(pages(Vec::new()), [Vec::<Vec<u8>>::new()]);
    }
}
