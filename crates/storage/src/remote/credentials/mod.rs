//! Credentials as each cloud's own tools find them.

mod aws;
mod google;
mod http;
mod process;
mod roles;
mod timestamp;

pub(super) use aws::aws;
pub(super) use google::{GoogleCredentials, google};

use async_trait::async_trait;
use object_store::client::CredentialProvider;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Mutex;

/// A source of credentials: a server, a command or a file.
#[async_trait]
trait Fetch: fmt::Debug + Send + Sync {
    type Credential: fmt::Debug + Send + Sync;

    /// Fetches credentials, or says why there are none.
    async fn fetch(&self) -> Result<Fetched<Self::Credential>, String>;
}

/// Credentials, and the time until which they are valid.
struct Fetched<C> {
    credential: C,
    expires: Option<SystemTime>,
}

/// Credentials that are fetched when they are needed first, and again before they expire.
///
/// If fetching them again fails, the old ones are used as long as they are valid.
struct Refreshing<F: Fetch> {
    source: F,
    /// Remaining time at which credentials are fetched again.
    margin: Duration,
    /// Locked while a task fetches, so that other tasks wait for the same credentials.
    current: Mutex<Option<Current<F::Credential>>>,
}

struct Current<C> {
    credential: Arc<C>,
    expires: Option<SystemTime>,
    /// Not before this time are credentials near their end fetched again.
    next_try: Instant,
}

/// The pause after a server could not replace credentials that are still valid.
const PAUSE: Duration = Duration::from_secs(10);

impl<F: Fetch> Refreshing<F> {
    fn new(source: F, margin: Duration) -> Refreshing<F> {
        Refreshing { source, margin, current: Mutex::new(None) }
    }
}

impl<F: Fetch> fmt::Debug for Refreshing<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refreshing").field("source", &self.source).finish_non_exhaustive()
    }
}

#[async_trait]
impl<F: Fetch> CredentialProvider for Refreshing<F> {
    type Credential = F::Credential;

    async fn get_credential(&self) -> object_store::Result<Arc<F::Credential>> {
        let mut current = self.current.lock().await;
        if let Some(held) = &*current {
            let left = remaining(held.expires);
            let waits = !left.is_zero() && Instant::now() < held.next_try;
            if left > self.margin || waits {
                return Ok(held.credential.clone());
            }
        }
        let fetched = self.source.fetch().await.and_then(|fetched| {
            let is_expired = remaining(fetched.expires).is_zero();
            if is_expired { Err("the credentials have expired".to_owned()) } else { Ok(fetched) }
        });
        match fetched {
            Ok(fetched) => {
                // The same end again: the server has no newer ones yet.
                let is_same = current.as_ref().is_some_and(|held| held.expires == fetched.expires);
                let pause = if is_same { PAUSE } else { Duration::ZERO };
                let credential = Arc::new(fetched.credential);
                *current = Some(Current {
                    credential: credential.clone(),
                    expires: fetched.expires,
                    next_try: Instant::now() + pause,
                });
                Ok(credential)
            }
            Err(reason) => match &mut *current {
                Some(held) if !remaining(held.expires).is_zero() => {
                    held.next_try = Instant::now() + PAUSE;
                    Ok(held.credential.clone())
                }
                _ => Err(missing(&reason)),
            },
        }
    }
}

/// Returns how long credentials are valid.
fn remaining(expires: Option<SystemTime>) -> Duration {
    let now = SystemTime::now();
    expires.map_or(Duration::MAX, |end| end.duration_since(now).unwrap_or_default())
}

/// An error of credentials, with which the client prints the remedy.
fn missing(reason: &str) -> object_store::Error {
    object_store::Error::Unauthenticated {
        path: String::new(),
        source: format!("no credentials were found: {reason}").into(),
    }
}
