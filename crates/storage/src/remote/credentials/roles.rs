//! Roles that Amazon's Security Token Service assumes.
//!
//! Reference: <https://docs.aws.amazon.com/STS/latest/APIReference/welcome.html>.

use super::aws::AwsProvider;
use super::http::{Http, form};
use super::{Fetch, Fetched, timestamp};
use async_trait::async_trait;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use std::fmt;

/// The identity that assumes a role.
pub(super) enum Caller {
    /// The owner of keys.
    Keys(AwsProvider),
    /// The owner of the token in this file, which is replaced before it expires.
    WebIdentity(String),
}

/// A role.
pub(super) struct Role {
    pub(super) http: Http,
    /// The address of the service.
    pub(super) address: String,
    pub(super) region: String,
    pub(super) arn: String,
    pub(super) session: String,
    pub(super) external_id: Option<String>,
    /// The life of the credentials in seconds.
    pub(super) seconds: Option<String>,
    pub(super) caller: Caller,
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Role({} at {})", self.arn, self.address)
    }
}

#[async_trait]
impl Fetch for Role {
    type Credential = AwsCredential;

    async fn fetch(&self) -> Result<Fetched<AwsCredential>, String> {
        let identity = match &self.caller {
            Caller::Keys(_) => None,
            Caller::WebIdentity(file) => {
                let text = std::fs::read_to_string(file);
                Some(text.map_err(|error| format!("cannot read the web identity {file}: {error}"))?)
            }
        };
        let mut fields = vec![
            ("Version", "2011-06-15"),
            ("RoleArn", self.arn.as_str()),
            ("RoleSessionName", self.session.as_str()),
        ];
        fields.extend(self.seconds.as_deref().map(|seconds| ("DurationSeconds", seconds)));
        match &identity {
            Some(token) => fields.extend([
                ("Action", "AssumeRoleWithWebIdentity"),
                ("WebIdentityToken", token.trim()),
            ]),
            None => {
                fields.push(("Action", "AssumeRole"));
                fields.extend(self.external_id.as_deref().map(|id| ("ExternalId", id)));
            }
        }
        let address = format!("{}/", self.address.trim_end_matches('/'));
        let mut request = form(&address, &fields)?;
        if let Caller::Keys(keys) = &self.caller {
            let keys = keys.get_credential().await.map_err(|error| error.to_string())?;
            AwsAuthorizer::new(&keys, "sts", &self.region)
                .try_authorize(&mut request, None)
                .map_err(|error| format!("cannot sign the request: {error}"))?;
        }
        let answer = self.http.send(&request).await?;
        if answer.status != 200 {
            let part = |name| element(&answer.body, name).unwrap_or_default();
            let (code, message) = (part("Code"), part("Message"));
            let arn = &self.arn;
            return Err(match code {
                "" => answer.ok(&request).err().unwrap_or_default(),
                code => format!("{address} refused the role {arn}: {code}: {message}"),
            });
        }
        let part = |name| {
            let found = element(&answer.body, name).filter(|text| !text.is_empty());
            let missing = || format!("the answer of {address} has no element `{name}`");
            found.map(str::to_owned).ok_or_else(missing)
        };
        let expires = part("Expiration")?;
        let time = timestamp::parse(&expires);
        Ok(Fetched {
            credential: AwsCredential {
                key_id: part("AccessKeyId")?,
                secret_key: part("SecretAccessKey")?,
                token: Some(part("SessionToken")?),
            },
            expires: Some(time.ok_or(format!("`{expires}` in the answer is no time"))?),
        })
    }
}

/// Returns the text of the first element of this name. The elements that are read here contain
/// neither attributes nor entities: their alphabet is that of Base64 and of times.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim())
}
