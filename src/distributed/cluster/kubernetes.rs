//! The number of pods of an indexed job, from the Kubernetes API.
//!
//! Reference: <https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/>.

use super::Variables;
use super::http::{Connection, exchange, open};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

impl Connection for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

/// Returns the job's `parallelism`, as JAX does. `folder` has the token, the certificate and the
/// namespace of the pod's service account.
///
/// # Errors
/// The reason why the API did not answer.
pub(super) fn parallelism(
    variables: &Variables,
    folder: &Path,
    job: &str,
    deadline: Instant,
) -> Result<usize, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let (token, namespace) = (read("token")?, read("namespace")?);
    let (token, namespace) = (token.trim(), namespace.trim());
    let fits = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    if !namespace.chars().all(fits) || !job.chars().all(fits) {
        return Err(format!("`{namespace}` or `{job}` is not a name"));
    }
    if token.is_empty() || token.chars().any(char::is_control) {
        return Err("the token has no text, or several lines".to_owned());
    }
    let certificate = read("ca.crt")?;
    let wrong = |error: &dyn std::fmt::Display| format!("the certificate ca.crt: {error}");
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(certificate.as_bytes()) {
        roots.add(root.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| wrong(&error))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();

    let host = variables.get("KUBERNETES_SERVICE_HOST").map_or("", String::as_str);
    let port = variables.get("KUBERNETES_SERVICE_PORT").map_or("443", String::as_str);
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| format!("KUBERNETES_SERVICE_HOST is `{host}`: {error}"))?;
    let brackets = if host.contains(':') { ("[", "]") } else { ("", "") };
    let address = format!("{}{host}{}:{port}", brackets.0, brackets.1);
    let socket = open(&address, deadline)?;
    let session = ClientConnection::new(Arc::new(config), name);
    let session = session.map_err(|error| format!("no TLS session: {error}"))?;
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs/{job}");
    let header = ("Authorization", format!("Bearer {token}"));
    let stream = StreamOwned::new(session, socket);
    let response = exchange(stream, &address, &path, (header.0, &header.1), deadline)?;
    let answer: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
    match response.status {
        200 => {}
        401 | 403 => {
            return Err(format!(
                "the service account may not get the job `{job}` ({}): a role must allow `get` for \
                 `jobs` of `batch`",
                response.status
            ));
        }
        status => {
            let message = answer["message"].as_str().unwrap_or("no message");
            let message: String = message.chars().take(200).collect();
            return Err(format!("it answered {status}: {message}"));
        }
    }
    let count = answer["spec"]["parallelism"].as_u64().and_then(|count| count.try_into().ok());
    count.ok_or_else(|| format!("the job `{job}` has no number in `spec.parallelism`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ServerConfig, ServerConnection};
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::path::PathBuf;
    use std::time::Duration;

    struct Api {
        port: u16,
        /// The PEM text of its certificate.
        certificate: String,
    }

    /// Starts an API server. It answers each request for the job `train` in the namespace `ml`
    /// with the text, or never if there is none.
    fn serve(answer: Option<(u16, &'static str)>) -> Api {
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = own.cert.pem();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key.into())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let session = ServerConnection::new(config.clone()).unwrap();
                let mut stream = BufReader::new(StreamOwned::new(session, socket.unwrap()));
                let mut head = String::new();
                // A client that does not trust the certificate ends the connection.
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head).unwrap_or(0) == 0 {
                        break;
                    }
                }
                if !head.starts_with("GET /apis/batch/v1/namespaces/ml/jobs/train HTTP/1.1\r\n") {
                    continue;
                }
                assert!(head.contains("\r\nAuthorization: Bearer secret\r\n"), "{head}");
                let Some((status, text)) = answer else {
                    // Until the client gives up.
                    drop(stream.read_line(&mut head));
                    continue;
                };
                let length = text.len();
                let answer =
                    format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n\r\n{text}");
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
                drop(stream.read(&mut [0]));
            }
        });
        Api { port, certificate }
    }

    /// Writes the files of a service account.
    fn account(certificate: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("token", "secret\n"), ("namespace", "ml"), ("ca.crt", certificate)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let path = folder.path().to_path_buf();
        (folder, path)
    }

    fn asked(api: &Api, folder: &Path, time: Duration) -> Result<usize, String> {
        let port = api.port.to_string();
        let pairs = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", &port)];
        let pairs = pairs.map(|(name, text)| (name.to_owned(), text.to_owned()));
        parallelism(&pairs.into(), folder, "train", Instant::now() + time)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_api_knows_the_number_of_pods() {
        let api = serve(Some((200, r#"{"spec": {"parallelism": 4, "completions": 4}}"#)));
        let (_kept, folder) = account(&api.certificate);
        assert_eq!(asked(&api, &folder, LONG), Ok(4));
    }

    #[test]
    fn refusals_and_wrong_answers_are_reasons() {
        for (answer, expected) in [
            ((403, "{}"), "the service account may not get the job `train` (403): a role must"),
            ((404, r#"{"message": "jobs \"train\" not found"}"#), "404: jobs \"train\" not found"),
            ((500, "<html>"), "it answered 500: no message"),
            ((200, "<html>"), "the job `train` has no number in `spec.parallelism`"),
            ((200, r#"{"spec": {"parallelism": -1}}"#), "has no number in `spec.parallelism`"),
        ] {
            let api = serve(Some(answer));
            let (_kept, folder) = account(&api.certificate);
            let reason = asked(&api, &folder, LONG).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn only_the_server_of_the_certificate_is_asked() {
        let (api, other) = (serve(Some((200, "{}"))), serve(None));
        let (_kept, folder) = account(&other.certificate);
        let reason = asked(&api, &folder, LONG).unwrap_err();
        assert!(reason.contains("certificate"), "{reason}");
        let (_kept, folder) = account("no certificate");
        assert!(asked(&api, &folder, LONG).is_err());
        std::fs::remove_file(folder.join("token")).unwrap();
        let reason = asked(&api, &folder, LONG).unwrap_err();
        assert!(reason.starts_with("cannot read /") && reason.contains("token"), "{reason}");
    }

    #[test]
    fn a_silent_server_is_left() {
        let api = serve(None);
        let (_kept, folder) = account(&api.certificate);
        let reason = asked(&api, &folder, Duration::from_millis(300)).unwrap_err();
        assert!(reason.contains("did not answer in time"), "{reason}");
    }
}
