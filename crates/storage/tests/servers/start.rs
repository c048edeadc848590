//! Starts an S3 server and an emulator of Google Cloud Storage for a test.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server process, which ends with this value.
pub(crate) struct Server {
    process: Child,
    /// Host and port.
    pub(crate) host: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The reason for which `cargo test` ignores these tests.
pub(crate) fn program(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = root.ancestors().find(|folder| folder.join("python-compat").is_dir()).unwrap();
    let path = root.join("python-compat/.venv-stores/bin").join(name);
    let exists = path.exists();
    assert!(
        exists,
        "{} is missing: run python-compat/stores.sh, which installs it",
        path.display()
    );
    path
}

/// Starts a server and waits for the line of its output that contains `ready`.
fn start(command: &mut Command, ready: &str) -> (Child, String) {
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains(ready));
    let line = line.unwrap_or_else(|| panic!("{command:?} ended before it was ready"));
    // A full pipe would stop the server.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    (process, line)
}

/// Starts moto, an S3 server, with an empty bucket `numbers`.
pub(crate) fn s3() -> Server {
    // The script's first line names an interpreter by an absolute path that may be too long.
    let mut command = Command::new(program("python"));
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]);
    let (process, line) = start(&mut command, "Running on http://");
    let (_, host) = line.split_once("http://").unwrap();
    let server = Server { process, host: host.trim().to_owned() };
    assert_eq!(http(&server.host, "PUT", "/numbers", "").0, 200);
    server
}

/// Starts an emulator of Google Cloud Storage with an empty bucket `numbers`.
pub(crate) fn gs() -> Server {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(program("fake-gcs-server"));
    command.args(["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1"]);
    command.args(["-public-host", "127.0.0.1", "-port", &free.port().to_string()]);
    let (process, _) = start(&mut command, "server started at");
    let server = Server { process, host: free.to_string() };
    let (status, _) =
        http(&server.host, "POST", "/storage/v1/b?project=p", r#"{"name":"numbers"}"#);
    assert_eq!(status, 200);
    server
}

/// Sends a request and returns status and body.
pub(crate) fn http(host: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}
