//! A proxy that answers with errors and cuts connections.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// A fault of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The proxy answers "500 Internal Server Error".
    ServerError,
    /// The proxy closes the connection without an answer.
    NoAnswer,
    /// The proxy closes the connection after this number of bytes of the answer's body.
    CutBody(usize),
}

/// A proxy of a server. Its threads end with the process.
pub(crate) struct Proxy {
    pub(crate) host: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Faults in order, each of the next request whose head contains the text.
    faults: Mutex<VecDeque<(String, Fault)>>,
    /// A fault of all later requests.
    always: Mutex<Option<Fault>>,
    /// Heads of the requests.
    requests: Mutex<Vec<String>>,
    arrived: Condvar,
}

impl Proxy {
    pub(crate) fn start(server: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (state, server) = (Arc::new(State::default()), server.to_owned());
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (state, server) = (shared.clone(), server.clone());
                std::thread::spawn(move || {
                    // A client may close the connection at any time.
                    drop(serve(&client.unwrap(), &server, &state));
                });
            }
        });
        Proxy { host, state }
    }

    /// Adds faults, each of the next request whose first line or headers contain the text.
    pub(crate) fn inject(&self, faults: &[(&str, Fault)]) {
        let mut queue = self.state.faults.lock().unwrap();
        queue.extend(faults.iter().map(|(on, fault)| ((*on).to_owned(), *fault)));
    }

    pub(crate) fn always(&self, fault: Option<Fault>) {
        *self.state.always.lock().unwrap() = fault;
    }

    /// Returns the heads of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.requests.lock().unwrap())
    }

    /// Returns the faults that no request has met.
    pub(crate) fn pending(&self) -> usize {
        self.state.faults.lock().unwrap().len()
    }

    /// Waits for `count` requests whose heads contain the text.
    pub(crate) fn wait_for(&self, text: &str, count: usize) {
        let few = |requests: &mut Vec<String>| {
            requests.iter().filter(|request| request.contains(text)).count() < count
        };
        drop(self.state.arrived.wait_while(self.state.requests.lock().unwrap(), few).unwrap());
    }
}

/// Passes on one request and closes the connection.
fn serve(client: &TcpStream, server: &str, state: &State) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    let (head, length) = head(&mut reader)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let fault = {
        let mut faults = state.faults.lock().unwrap();
        let next = faults.front().filter(|(on, _)| head.contains(on.as_str())).map(|next| next.1);
        if next.is_some() {
            faults.pop_front();
        }
        next.or(*state.always.lock().unwrap())
    };
    state.requests.lock().unwrap().push(head.clone());
    state.arrived.notify_all();
    let mut client = client;
    match fault {
        Some(Fault::NoAnswer) => return Ok(()),
        Some(Fault::ServerError) => {
            return client.write_all(
                b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\
                  Content-Length: 6\r\n\r\nbroken",
            );
        }
        Some(Fault::CutBody(_)) | None => {}
    }
    let upstream = TcpStream::connect(server)?;
    let (first, headers) = head.split_once("\r\n").unwrap_or((&head, ""));
    (&upstream).write_all(format!("{first}\r\nConnection: close\r\n{headers}\r\n").as_bytes())?;
    (&upstream).write_all(&body)?;
    let mut answer = BufReader::new(&upstream);
    if let Some(Fault::CutBody(bytes)) = fault {
        let (head, _) = self::head(&mut answer)?;
        client.write_all(head.as_bytes())?;
        client.write_all(b"\r\n")?;
        io::copy(&mut answer.take(bytes as u64), &mut client)?;
    } else {
        io::copy(&mut answer, &mut client)?;
    }
    client.shutdown(std::net::Shutdown::Both)
}

/// Reads the head of a message, without the empty line at its end, and the length of its body.
fn head(reader: &mut impl io::BufRead) -> io::Result<(String, usize)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = head[start..].trim().to_ascii_lowercase();
        if line.is_empty() {
            head.truncate(start);
            return Ok((head, length));
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.starts_with("connection:") {
            head.truncate(start);
        }
    }
}
