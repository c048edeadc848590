//! A client for plain HTTP `GET` requests on a local network: one request per connection, with a
//! deadline and limits.
//!
//! The gRPC library speaks HTTP/2 only, and metadata servers speak HTTP/1.1 without TLS. The API of
//! Kubernetes needs TLS, which its module adds.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Limits of a response in bytes.
const MAX_HEAD: usize = 16 << 10;
const MAX_BODY: usize = 1 << 20;

/// A response with a complete body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header. `name` is in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        all.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Requests `path` from `host`, which is a name or address with or without a port. `limit` is for
/// the connection and the response; it begins after the lookup of the name.
///
/// # Errors
/// The reason why there is no complete response within the limit and before the deadline.
pub(super) fn get(
    host: &str,
    path: &str,
    header: (&str, &str),
    limit: Duration,
    deadline: Instant,
) -> Result<Response, String> {
    let addresses = look_up(&with_port(host), deadline)?;
    let deadline = deadline.min(Instant::now() + limit);
    exchange(connect(&addresses, deadline)?, host, path, header, deadline)
}

/// Opens a connection to a name or address with a port.
#[cfg(feature = "kubernetes")]
pub(super) fn open(address: &str, deadline: Instant) -> Result<TcpStream, String> {
    connect(&look_up(address, deadline)?, deadline)
}

/// A connection over TCP, perhaps encrypted.
pub(super) trait Connection: Read + Write {
    /// Returns the socket, whose time-outs are set.
    fn socket(&self) -> &TcpStream;
}

impl Connection for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// Sends a request over an open connection, and reads the response.
///
/// # Errors
/// As [`get`].
pub(super) fn exchange(
    mut stream: impl Connection,
    host: &str,
    path: &str,
    header: (&str, &str),
    deadline: Instant,
) -> Result<Response, String> {
    let (name, value) = header;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{name}: {value}\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    );
    let time = Some(left(deadline)?);
    let socket = stream.socket();
    let sent = socket
        .set_write_timeout(time)
        // An encrypted connection also reads before it sends.
        .and_then(|()| socket.set_read_timeout(time))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.flush());
    sent.map_err(|error| format!("the request could not be sent: {error}"))?;
    let mut reader = Reader { stream, deadline, buffered: Vec::new(), ended: false };
    let (status, headers) = reader.head()?;
    let mut response = Response { status, headers, body: Vec::new() };
    response.body = match (response.header("transfer-encoding"), response.header("content-length"))
    {
        (Some(encoding), _) if encoding.eq_ignore_ascii_case("chunked") => reader.chunks()?,
        (Some(encoding), _) => return Err(format!("the response is encoded as `{encoding}`")),
        (None, Some(length)) => {
            let length = length.parse().ok().filter(|length| *length <= MAX_BODY);
            let too_long = || format!("the response has more than {MAX_BODY} bytes, or no length");
            reader.exactly(length.ok_or_else(too_long)?)?
        }
        (None, None) => reader.rest()?,
    };
    Ok(response)
}

/// Appends the port of HTTP if there is none.
fn with_port(host: &str) -> String {
    let has_port = match host.rsplit_once(':') {
        Some((name, port)) => {
            (name.ends_with(']') || !name.contains(':')) && port.parse::<u16>().is_ok()
        }
        None => false,
    };
    if has_port {
        host.to_owned()
    } else if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:80")
    } else {
        format!("{host}:80")
    }
}

/// Returns the time until the deadline.
fn left(deadline: Instant) -> Result<Duration, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err("it did not answer in time".to_owned()) } else { Ok(left) }
}

/// Looks up a name on its own thread, because the system's time-out can be long. An IP address
/// needs no lookup.
fn look_up(address: &str, deadline: Instant) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let (answer, answered) = sync_channel(1);
    let asked = address.to_owned();
    let look_up = move || {
        // The receiver is gone after the deadline.
        drop(answer.send(asked.to_socket_addrs().map(Vec::from_iter)));
    };
    let thread = std::thread::Builder::new().name("oxidax-look-up".into()).spawn(look_up);
    thread.map_err(|error| format!("no thread for the lookup: {error}"))?;
    match answered.recv_timeout(left(deadline)?) {
        Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
        Ok(Ok(_)) => Err(format!("`{address}` has no addresses")),
        Ok(Err(error)) => Err(format!("`{address}` was not found: {error}")),
        Err(_) => Err(format!("the lookup of `{address}` timed out")),
    }
}

fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, String> {
    let mut failed = String::new();
    for address in addresses {
        match TcpStream::connect_timeout(address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = format!("no connection to {address}: {error}"),
        }
    }
    Err(failed)
}

/// Reads a response, and stops at its limits and at the deadline.
struct Reader<S> {
    stream: S,
    deadline: Instant,
    /// Bytes that were received and not consumed.
    buffered: Vec<u8>,
    /// True once the other side has closed the connection.
    ended: bool,
}

impl<S: Connection> Reader<S> {
    /// Receives more bytes. Returns false at the end of the stream.
    fn receive(&mut self) -> Result<bool, String> {
        let mut part = [0; 4096];
        loop {
            let timed = self.stream.socket().set_read_timeout(Some(left(self.deadline)?));
            timed.map_err(|error| error.to_string())?;
            match self.stream.read(&mut part) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.buffered.extend_from_slice(&part[..count]);
                    return Ok(true);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut
                    ) => {}
                Err(error) => return Err(format!("the connection failed: {error}")),
            }
        }
    }

    /// Returns the next line without its end.
    fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = self.buffered.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffered.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).into_owned();
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
            if self.buffered.len() > MAX_HEAD {
                return Err(format!("a line of the response has more than {MAX_HEAD} bytes"));
            }
            if !self.receive()? {
                return Err("the response ends in the middle of a line".to_owned());
            }
        }
    }

    /// Reads the status line and the headers.
    fn head(&mut self) -> Result<(u16, Vec<(String, String)>), String> {
        let first = self.line()?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok())
            .ok_or_else(|| {
                let start: String = first.chars().take(40).collect();
                format!("the response is not HTTP/1: it begins with {start:?}")
            })?;
        let (mut headers, mut size) = (Vec::new(), first.len());
        loop {
            let line = self.line()?;
            size += line.len() + 2;
            if size > MAX_HEAD {
                return Err(format!("the response's header has more than {MAX_HEAD} bytes"));
            }
            if line.is_empty() {
                return Ok((status, headers));
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.buffered.len() < length {
            if !self.receive()? {
                let there = self.buffered.len();
                return Err(format!("the response ends after {there} of {length} bytes"));
            }
        }
        Ok(self.buffered.drain(..length).collect())
    }

    fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| format!("`{size}` is not the size of a chunk"))?;
            if size > MAX_BODY || body.len() + size > MAX_BODY {
                return Err(format!("the response has more than {MAX_BODY} bytes"));
            }
            body.append(&mut self.exactly(size)?);
            if size == 0 {
                return Ok(body);
            }
            if !self.line()?.is_empty() {
                return Err("a chunk is longer than its size".to_owned());
            }
        }
    }

    fn rest(&mut self) -> Result<Vec<u8>, String> {
        while !self.ended {
            if self.buffered.len() > MAX_BODY {
                return Err(format!("the response has more than {MAX_BODY} bytes"));
            }
            self.receive()?;
        }
        Ok(std::mem::take(&mut self.buffered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_port_is_appended() {
        for (host, expected) in [
            ("metadata.google.internal", "metadata.google.internal:80"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("169.254.169.254", "169.254.169.254:80"),
            ("[fd20:ce::254]", "[fd20:ce::254]:80"),
            ("[fd20:ce::254]:81", "[fd20:ce::254]:81"),
            ("fd20:ce::254", "[fd20:ce::254]:80"),
        ] {
            assert_eq!(with_port(host), expected);
        }
    }
}
