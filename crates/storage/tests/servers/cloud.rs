//! A server that answers as a test says: metadata, tokens and objects.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A request.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The headers in lower case, one a line.
    head: String,
    pub(crate) body: String,
}

impl Request {
    /// Returns the value of a header, or an empty text.
    pub(crate) fn header(&self, name: &str) -> &str {
        let line = |line: &'_ str| line.split_once(": ").is_some_and(|(key, _)| key == name);
        let line = self.head.lines().find(|text| line(text));
        line.and_then(|line| line.split_once(": ")).map_or("", |(_, value)| value)
    }
}

/// The answer to a request.
pub(crate) enum Answer {
    Text(u16, String),
    /// An answer of Google's metadata server.
    Metadata(u16, String),
    /// The connection stays open, without an answer.
    Silence,
}

pub(crate) fn ok(text: impl Into<String>) -> Answer {
    Answer::Text(200, text.into())
}

/// A server on this machine. Its threads end with the process.
pub(crate) struct Cloud {
    pub(crate) host: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Cloud {
    /// Starts a server. Requests for the object `numbers/a` are answered with the identity that
    /// signed them; `answer` answers all others.
    pub(crate) fn start(answer: impl FnMut(&Request) -> Answer + Send + 'static) -> Cloud {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (written, answer) = (log.clone(), Arc::new(Mutex::new(answer)));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (written.clone(), answer.clone());
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    let Some(request) = read(&stream) else { return };
                    let line = format!("{} {}", request.method, request.path);
                    log.lock().unwrap().push(line);
                    let answer = match request.path.as_str() {
                        "/numbers/a" => ok(identity(&request)),
                        _ => (answer.lock().unwrap())(&request),
                    };
                    // A client may have closed the connection.
                    drop(write(&stream, &request, answer));
                });
            }
        });
        Cloud { host, log }
    }

    /// Returns the number of requests whose first line begins with the text.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.starts_with(start)).count()
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.host)
    }
}

/// Returns the key's name and the token of a signed request, or its bearer token.
fn identity(request: &Request) -> String {
    let authorization = request.header("authorization");
    let token = request.header("x-amz-security-token");
    match authorization.split_once("Credential=") {
        Some((_, rest)) => format!("{} {token}", rest.split('/').next().unwrap()),
        None if authorization.is_empty() => "anonymous".to_owned(),
        None => authorization.to_owned(),
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        if name == "content-length" {
            length = value.parse().unwrap();
        }
        head.push_str(&format!("{name}: {value}\n"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, head, body: String::from_utf8(body).unwrap() })
}

fn write(mut stream: &TcpStream, request: &Request, answer: Answer) -> std::io::Result<()> {
    let is_range = !request.header("range").is_empty();
    let (status, header, text) = match answer {
        // Objects are read as a whole.
        Answer::Text(200, text) if is_range => {
            let last = text.len() - 1;
            (206, format!("Content-Range: bytes 0-{last}/{}\r\n", text.len()), text)
        }
        Answer::Text(status, text) => (status, String::new(), text),
        Answer::Metadata(status, text) => (status, "Metadata-Flavor: Google\r\n".into(), text),
        Answer::Silence => {
            // Until the client closes the connection.
            return stream.read(&mut [0]).map(drop);
        }
    };
    let body = if request.method == "HEAD" { "" } else { &text };
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\nConnection: close\r\nETag: \"1\"\r\n{header}\
         Last-Modified: Tue, 24 Nov 2026 08:00:00 GMT\r\nContent-Length: {}\r\n\r\n{body}",
        text.len()
    )
}

/// Returns the time in that many seconds, as in RFC 3339.
pub(crate) fn time_in(seconds: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let time = i64::try_from(now).unwrap() + seconds;
    let (mut days, rest) = (time / 86_400, time % 86_400);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}
