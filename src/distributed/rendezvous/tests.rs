//! The coordinator with faulty and malicious clients.

use super::coordinator::Coordinator;
use super::failure::Failure;
use super::hub::Terms;
use super::joining::Identity;
use super::link::{Link, stream};
use super::message::*;
use prost::Message;
use prost::bytes::Bytes;
use std::net::TcpListener;
use std::time::Duration;
use tonic::codegen::tokio_stream;
use tonic::transport::{Channel, Endpoint};

const LONG: Duration = Duration::from_secs(60);
const LIMIT: u64 = 8 << 20;

fn coordinator(count: u32) -> Coordinator {
    let terms = Terms { count, run: "run".into(), heartbeat_timeout: LONG, store_limit: LIMIT };
    Coordinator::start(TcpListener::bind("127.0.0.1:0").unwrap(), terms).unwrap()
}

fn join(coordinator: &Coordinator, index: u32, count: u32) -> Result<Link, Failure> {
    let (host, run) = ("here".to_owned(), "run".to_owned());
    let identity = Identity { index, count, run, host, incarnation: u64::from(index) + 1 };
    Link::join(&coordinator.address().to_string(), &identity, LONG, |_| {})
}

/// Sends messages and returns the reply, as another client implementation would.
fn ask<A, B>(coordinator: &Coordinator, path: &'static str, messages: Vec<A>) -> Result<B, Failure>
where
    A: Message + 'static,
    B: Message + Default + 'static,
{
    let uri = format!("http://{}", coordinator.address());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(async {
        let channel: Channel = Endpoint::from_shared(uri).unwrap().connect().await.unwrap();
        let mut answers = stream(channel, path, tokio_stream::iter(messages)).await?;
        Ok(answers.message().await?.expect("an answer"))
    })
}

fn caller() -> Option<Caller> {
    Some(Caller { index: 0, incarnation: 1 })
}

fn request(total: u64, part: Vec<u8>) -> PutRequest {
    PutRequest { caller: caller(), key: b"k".to_vec(), total, part: part.into() }
}

#[test]
fn one_process_joins_and_leaves() {
    let coordinator = coordinator(1);
    let link = join(&coordinator, 0, 1).unwrap();
    assert_eq!(link.roster(), [format!("process 0 (here:{})", std::process::id())]);
    link.put(b"k", Bytes::from_static(b"v"), LONG).unwrap();
    assert_eq!(link.get(b"k", LONG).unwrap(), b"v");
    let all = link.meet("m", &[], LONG, Bytes::from_static(b"brought")).unwrap();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(0, b"brought".to_vec())]);
    link.leave();
    assert!(link.get(b"k", LONG).unwrap_err().is_lost(), "requests fail after leaving");
    coordinator.stop(LONG);
}

#[test]
fn messages_and_totals_are_limited() {
    let coordinator = coordinator(1);
    let link = join(&coordinator, 0, 1).unwrap();
    let refused = |messages: Vec<PutRequest>| {
        ask::<_, Empty>(&coordinator, PUT, messages).unwrap_err().message().to_owned()
    };
    let said = refused(vec![request(9, vec![0; MAX_MESSAGE + 1])]);
    assert!(said.contains("too large") && said.contains(&MAX_MESSAGE.to_string()), "{said}");
    // More or fewer bytes than announced, and more than the memory limit.
    let said = refused(vec![request(3, vec![0; 2]), request(0, vec![0; 2])]);
    assert_eq!(said, "3 bytes were announced, not 4");
    assert_eq!(refused(vec![request(3, vec![0; 2])]), "3 bytes were announced, not 2");
    let said = refused(vec![request(u64::MAX, Vec::new())]);
    assert!(said.contains("are free"), "{said}");
    assert_eq!(refused(Vec::new()), "the request is empty");
    // Nothing was stored, and the memory was released.
    assert!(link.get(b"k", Duration::ZERO).unwrap_err().is_not_found());
    let all = vec![7; LIMIT as usize - 100];
    link.put(b"k", all.clone().into(), LONG).unwrap();
    assert!(link.get(b"k", LONG).unwrap() == all);
}

#[test]
fn requests_of_strangers_are_refused() {
    let coordinator = coordinator(2);
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| join(&coordinator, 0, 2));
        (join(&coordinator, 1, 2).unwrap(), one.join().unwrap().unwrap())
    });
    one.put(b"k", Bytes::from_static(b"secret"), LONG).unwrap();
    for caller in [None, Some(Caller { index: 0, incarnation: 99 })] {
        let wanted = KeyRequest { caller, key: b"k".to_vec(), wait_ms: 1000 };
        for path in [GET, DELETE, LIST] {
            let said = ask::<_, Empty>(&coordinator, path, vec![wanted.clone()]).unwrap_err();
            assert!(said.message().contains("has not joined"), "{path}: {said:?}");
        }
        let arrival = MeetRequest { caller, name: "m".into(), ..MeetRequest::default() };
        assert!(ask::<_, Chunk>(&coordinator, MEET, vec![arrival]).is_err());
        let request = PutRequest { caller, ..request(0, Vec::new()) };
        assert!(ask::<_, Empty>(&coordinator, PUT, vec![request]).is_err());
    }
    let beat = ProcessMessage::from(ProcessEvent::Heartbeat(Empty {}));
    let said = ask::<_, CoordinatorMessage>(&coordinator, ATTEND, vec![beat]).unwrap_err();
    assert_eq!(said.message(), "a process must join first");
    let said = ask::<_, Empty>(&coordinator, "/no/such", vec![Empty {}]).unwrap_err();
    assert!(said.message().contains("does not know this"), "{said:?}");
    assert_eq!(other.get(b"k", LONG).unwrap(), b"secret");
}

#[test]
fn dropped_links_count_as_lost() {
    let coordinator = coordinator(2);
    let (zero, one) = std::thread::scope(|scope| {
        let zero = scope.spawn(|| join(&coordinator, 0, 2));
        let one = join(&coordinator, 1, 2).unwrap();
        (zero.join().unwrap().unwrap(), one)
    });
    drop(one);
    let failure = zero.meet("m", &[], LONG, Bytes::new()).unwrap_err();
    assert!(failure.is_lost());
    assert!(failure.message().starts_with("process 1 (here:"), "{failure:?}");
    // The lost process is not waited for at the end.
    zero.leave();
    coordinator.stop(LONG);
}
