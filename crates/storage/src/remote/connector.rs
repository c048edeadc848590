//! HTTP for the clients: `reqwest`, with a count of requests.

use super::emulator::Emulator;
use super::runtime::{record_request, record_status};
use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

/// Connects clients to servers, or to an emulator of Google Cloud Storage.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) is_emulator: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Fails if the program has chosen a provider of its own, which is then used.
        drop(rustls::crypto::ring::default_provider().install_default());
        let counted = HttpClient::new(Counted(ReqwestConnector::default().connect(options)?));
        Ok(if self.is_emulator { HttpClient::new(Emulator::new(counted)) } else { counted })
    }
}

#[derive(Debug)]
struct Counted(HttpClient);

#[async_trait]
impl HttpService for Counted {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        record_request();
        let response = self.0.execute(request).await?;
        record_status(response.status().as_u16());
        Ok(response)
    }
}
