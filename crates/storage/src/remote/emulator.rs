//! Emulators of Google Cloud Storage.
//!
//! The client speaks the XML API of Google Cloud Storage, emulators its JSON API. Requests are
//! translated. An upload in parts is collected in memory and sent as one request at its end.
//!
//! Reference: <https://cloud.google.com/storage/docs/json_api/v1> and
//! <https://cloud.google.com/storage/docs/xml-api/overview>.

use async_trait::async_trait;
use http_body::Body as _;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A connection to an emulator.
pub(super) struct Emulator {
    client: HttpClient,
    /// Uploads in parts: the parts by number.
    uploads: Mutex<BTreeMap<String, BTreeMap<u32, Vec<u8>>>>,
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Emulator")
    }
}

/// A request of the XML API.
struct Target<'a> {
    /// Scheme, host and port.
    server: String,
    bucket: &'a str,
    /// The key, with percent signs for everything but letters, digits and few characters.
    key: String,
    query: BTreeMap<&'a str, &'a str>,
}

impl Emulator {
    pub(super) fn new(client: HttpClient) -> Emulator {
        Emulator { client, uploads: Mutex::default() }
    }

    fn uploads(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, BTreeMap<u32, Vec<u8>>>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(
        &self,
        request: HttpRequest,
        method: &str,
        address: String,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = request;
        *request.method_mut() = method.parse().map_err(failed)?;
        *request.uri_mut() = address.parse().map_err(failed)?;
        // Without a length, the body would be sent in chunks.
        let length = request.body().content_length();
        request.headers_mut().insert("content-length", length.into());
        self.client.execute(request).await
    }

    async fn list(
        &self,
        request: HttpRequest,
        target: &Target<'_>,
    ) -> Result<HttpResponse, HttpError> {
        let mut address = format!("{}/storage/v1/b/{}/o?", target.server, target.bucket);
        for (xml, json) in [
            ("prefix", "prefix"),
            ("delimiter", "delimiter"),
            ("continuation-token", "pageToken"),
            ("max-keys", "maxResults"),
            ("start-after", "startOffset"),
        ] {
            if let Some(value) = target.query.get(xml) {
                write!(address, "{json}={value}&").map_err(failed)?;
            }
        }
        if !target.query.contains_key("max-keys") {
            address.push_str("maxResults=1000");
        }
        let response = self.send(request, "GET", address).await?;
        if !response.status().is_success() {
            return Ok(response);
        }
        let page: Value =
            serde_json::from_slice(&response.into_body().bytes().await?).map_err(failed)?;
        Ok(HttpResponse::new(listing(&page).into()))
    }

    async fn put(
        &self,
        request: HttpRequest,
        target: &Target<'_>,
    ) -> Result<HttpResponse, HttpError> {
        let Target { server, bucket, key, .. } = target;
        if request.headers().get("x-goog-if-generation-match").is_some_and(|value| value == "0") {
            let head = HttpRequest::new(HttpRequestBody::empty());
            let found =
                self.send(head, "GET", format!("{server}/storage/v1/b/{bucket}/o/{key}")).await?;
            if found.status().is_success() {
                return status(412);
            }
        }
        let address =
            format!("{server}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={key}");
        let response = self.send(request, "POST", address).await?;
        if !response.status().is_success() {
            return Ok(response);
        }
        let object: Value =
            serde_json::from_slice(&response.into_body().bytes().await?).map_err(failed)?;
        let tag = object["etag"].as_str().unwrap_or("unknown").to_owned();
        let body = format!(
            "<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
            escaped(&tag)
        );
        let mut response = HttpResponse::new(body.into());
        response.headers_mut().insert("etag", tag.parse().map_err(failed)?);
        Ok(response)
    }

    /// Starts, continues, completes or aborts an upload in parts.
    async fn upload(
        &self,
        request: HttpRequest,
        target: &Target<'_>,
    ) -> Result<HttpResponse, HttpError> {
        static UPLOADS: AtomicU64 = AtomicU64::new(0);
        let Some(&id) = target.query.get("uploadId") else {
            let id = UPLOADS.fetch_add(1, Ordering::Relaxed).to_string();
            self.uploads().insert(id.clone(), BTreeMap::new());
            let body = format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId>\
                 </InitiateMultipartUploadResult>"
            );
            return Ok(HttpResponse::new(body.into()));
        };
        if request.method() == "DELETE" {
            self.uploads().remove(id);
            return status(204);
        }
        if request.method() == "PUT" {
            let number = target.query.get("partNumber").and_then(|number| number.parse().ok());
            let bytes = bytes_of(request.into_body()).await?;
            let mut uploads = self.uploads();
            let (Some(parts), Some(number)) = (uploads.get_mut(id), number) else {
                return status(404);
            };
            parts.insert(number, bytes);
            drop(uploads);
            let mut response = status(200)?;
            response.headers_mut().insert("etag", id.parse().map_err(failed)?);
            return Ok(response);
        }
        let parts = self.uploads().get(id).map(|parts| parts.values().flatten().copied().collect());
        let Some(whole) = parts else { return status(404) };
        let whole: Vec<u8> = whole;
        let response = self.put(HttpRequest::new(whole.into()), target).await?;
        if response.status().is_success() {
            self.uploads().remove(id);
        }
        Ok(response)
    }
}

#[async_trait]
impl HttpService for Emulator {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let path = uri.path().trim_start_matches('/');
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let target = Target {
            server: format!("{}://{authority}", uri.scheme_str().unwrap_or("http")),
            bucket,
            key: key.replace('/', "%2F"),
            query: pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect(),
        };
        let Target { server, key, query, .. } = &target;
        if key.is_empty() {
            return self.list(request, &target).await;
        }
        if query.contains_key("uploads") || query.contains_key("uploadId") {
            return self.upload(request, &target).await;
        }
        let object = format!("{server}/storage/v1/b/{bucket}/o/{key}");
        match request.method().as_str() {
            "PUT" => self.put(request, &target).await,
            "DELETE" => self.send(request, "DELETE", object).await,
            "HEAD" => {
                // The headers of a download; its body is not read.
                let found = self.send(request, "GET", format!("{object}?alt=media")).await?;
                let (parts, _) = found.into_parts();
                Ok(HttpResponse::from_parts(parts, Vec::new().into()))
            }
            _ => self.send(request, "GET", format!("{object}?alt=media")).await,
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Decode, error)
}

fn status(code: u16) -> Result<HttpResponse, HttpError> {
    let mut response = HttpResponse::new(Vec::new().into());
    *response.status_mut() = code.try_into().map_err(failed)?;
    Ok(response)
}

async fn bytes_of(mut body: HttpRequestBody) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::with_capacity(body.content_length());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// Converts a page of a listing from JSON to XML.
fn listing(page: &Value) -> String {
    let mut xml = String::from("<ListBucketResult>");
    let text = |value: &Value| escaped(value.as_str().unwrap_or_default());
    for object in page["items"].as_array().into_iter().flatten() {
        // Numbers of 64 bits are strings in Google's JSON.
        let size = object["size"].as_str().and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
        xml += &format!(
            "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag>\
             <Size>{size}</Size></Contents>",
            text(&object["name"]),
            text(&object["updated"]),
            text(&object["etag"]),
        );
    }
    for prefix in page["prefixes"].as_array().into_iter().flatten() {
        xml += &format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", text(prefix));
    }
    if page["nextPageToken"].is_string() {
        let token = text(&page["nextPageToken"]);
        xml += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
    }
    xml + "</ListBucketResult>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
