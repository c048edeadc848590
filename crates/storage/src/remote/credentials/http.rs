//! Requests to servers of credentials.

use super::super::connector::Connector;
use http_body::Body as _;
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

/// The longest answer that is read. Credentials take a few KiB.
const MAX_ANSWER: usize = 1 << 20;

/// A client with time-outs and retries.
#[derive(Clone)]
pub(super) struct Http {
    client: HttpClient,
    tries: usize,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

/// The answer of a server.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
    /// True if the server calls itself Google's metadata server.
    pub(super) is_google_metadata: bool,
}

impl Http {
    /// Each try has the time-out, with two seconds at most for the connection.
    pub(super) fn new(timeout: Duration, tries: usize) -> object_store::Result<Http> {
        let options = ClientOptions::new()
            .with_allow_http(true)
            .with_connect_timeout(timeout.min(Duration::from_secs(2)))
            .with_timeout(timeout);
        let client = Connector { is_emulator: false }.connect(&options)?;
        Ok(Http { client, tries: tries.max(1) })
    }

    /// Sends a request. It is repeated if the server cannot be reached, or answers 429 or 5xx.
    pub(super) async fn send(&self, request: &HttpRequest) -> Result<Answer, String> {
        let mut pause = Duration::from_millis(100);
        for left in (0..self.tries).rev() {
            let answer = self.send_once(request.clone()).await;
            let is_final = match &answer {
                Ok(answer) => answer.status != 429 && answer.status < 500,
                Err(_) => false,
            };
            if is_final || left == 0 {
                let server = server(request);
                return answer.map_err(|error| format!("{server}: {error}"));
            }
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
        Err("no request was sent".into())
    }

    async fn send_once(&self, request: HttpRequest) -> Result<Answer, String> {
        let response = self.client.execute(request).await.map_err(|error| causes(&error))?;
        let status = response.status().as_u16();
        let flavor = response.headers().get("metadata-flavor");
        let is_google_metadata = flavor.is_some_and(|flavor| flavor.as_bytes() == b"Google");
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            if let Ok(data) = frame.map_err(|error| causes(&error))?.into_data() {
                bytes.extend_from_slice(&data);
            }
            if bytes.len() > MAX_ANSWER {
                return Err(format!("the answer is longer than {MAX_ANSWER} bytes"));
            }
        }
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer { status, body, is_google_metadata })
    }
}

impl Answer {
    /// Returns the answer if the status is 200.
    pub(super) fn ok(self, request: &HttpRequest) -> Result<Answer, String> {
        if self.status == 200 {
            return Ok(self);
        }
        Err(format!("{} answered {}: {}", server(request), self.status, short(&self.body)))
    }

    pub(super) fn json(&self, request: &HttpRequest) -> Result<serde_json::Value, String> {
        serde_json::from_str(&self.body)
            .map_err(|error| format!("{} sent no JSON: {error}", server(request)))
    }
}

/// Returns a request without a body.
pub(super) fn request(
    method: &str,
    address: &str,
    headers: &[(&'static str, &str)],
) -> Result<HttpRequest, String> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = method.parse().map_err(|_| format!("wrong method {method}"))?;
    *request.uri_mut() =
        address.parse().map_err(|error| format!("the address `{address}` is wrong: {error}"))?;
    if request.uri().host().is_none() {
        return Err(format!("the address `{address}` has no host"));
    }
    for (name, value) in headers {
        // Values may be secret.
        let value = value.parse().map_err(|_| format!("the header `{name}` cannot be sent"))?;
        request.headers_mut().insert(*name, value);
    }
    Ok(request)
}

/// Returns a request with the fields of a form.
pub(super) fn form(address: &str, fields: &[(&str, &str)]) -> Result<HttpRequest, String> {
    let header = [("content-type", "application/x-www-form-urlencoded")];
    let mut request = request("POST", address, &header)?;
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", encoded(value));
    let body: Vec<String> = fields.iter().map(pair).collect();
    *request.body_mut() = body.join("&").into_bytes().into();
    Ok(request)
}

/// Replaces all bytes but unreserved ones (RFC 3986, section 2.3) by `%` and two digits.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn server(request: &HttpRequest) -> String {
    let uri = request.uri();
    let host = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{host}{}", uri.scheme_str().unwrap_or("http"), uri.path())
}

/// Returns the first line of an answer, shortened.
fn short(body: &str) -> String {
    let text = body.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { "no text".into() } else { text.chars().take(200).collect() }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}
