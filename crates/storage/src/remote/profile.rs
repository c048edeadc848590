//! Profiles of the AWS tools: `~/.aws/config` and `~/.aws/credentials`.

use crate::config::StorageSettings;
use crate::error::Problem;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Properties of a profile. Those of a nested block are named `block.property`.
#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) name: String,
    /// Properties of the credentials file.
    credentials: Properties,
    /// Properties of the configuration file.
    config: Properties,
    services: Properties,
}

type Properties = BTreeMap<String, String>;
type Sections = BTreeMap<String, Properties>;

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, `default` without it. Files may be missing.
    pub(super) fn read(settings: &StorageSettings) -> Result<Profile, Problem> {
        let asked =
            settings.variable("AWS_PROFILE").or_else(|| settings.variable("AWS_DEFAULT_PROFILE"));
        Profile::named(settings, asked)
    }

    /// Reads a profile. One that is named must exist.
    pub(super) fn named(
        settings: &StorageSettings,
        asked: Option<&str>,
    ) -> Result<Profile, Problem> {
        let name = asked.unwrap_or("default");
        let config = settings.path_or_home("AWS_CONFIG_FILE", ".aws/config");
        let credentials = settings.path_or_home("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
        let mut config_sections = sections_of(config.as_deref())?;
        let mut credentials_sections = sections_of(credentials.as_deref())?;
        // The default profile is allowed without the word, which takes precedence.
        let from_config = config_sections
            .remove(&format!("profile {name}"))
            .or_else(|| config_sections.remove(name).filter(|_| name == "default"));
        let from_credentials = credentials_sections.remove(name);
        if let Some(asked) = asked.filter(|_| from_config.is_none() && from_credentials.is_none()) {
            let path = |path: Option<PathBuf>| {
                path.map_or("no home folder".into(), |path| path.display().to_string())
            };
            let message = format!(
                "the profile `{asked}` is neither in {} nor in {}",
                path(config),
                path(credentials)
            );
            return Err(Problem::new(io::ErrorKind::NotFound, message)
                .help("set AWS_PROFILE to a profile that `aws configure list-profiles` prints"));
        }
        let config = from_config.unwrap_or_default();
        let services = config
            .get("services")
            .and_then(|services| config_sections.remove(&format!("services {services}")))
            .unwrap_or_default();
        Ok(Profile {
            name: name.to_owned(),
            credentials: from_credentials.unwrap_or_default(),
            config,
            services,
        })
    }

    /// Returns a property; the credentials file takes precedence.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.credentials.get(name).or_else(|| self.config.get(name));
        found.map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the keys from one file, so that a key of one is not paired with a secret of another.
    pub(super) fn keys(&self) -> Option<(&str, &str, Option<&str>)> {
        [&self.credentials, &self.config].into_iter().find_map(|file| {
            let get = |name: &str| file.get(name).map(String::as_str);
            let token = get("aws_session_token").or_else(|| get("aws_security_token"));
            Some((get("aws_access_key_id")?, get("aws_secret_access_key")?, token))
        })
    }

    /// Returns the address of the S3 server, the one for S3 alone first.
    pub(super) fn endpoint(&self) -> Option<&str> {
        self.service_endpoint("s3")
    }

    /// Returns the address of a service's server, the one for the service alone first.
    pub(super) fn service_endpoint(&self, service: &str) -> Option<&str> {
        let property = format!("{service}.endpoint_url");
        let own = self.services.get(&property).map(String::as_str);
        own.or_else(|| self.get(&property)).or_else(|| self.get("endpoint_url"))
    }
}

fn sections_of(path: Option<&Path>) -> Result<Sections, Problem> {
    let Some(path) = path else { return Ok(Sections::new()) };
    match std::fs::read_to_string(path) {
        Ok(text) => sections(&text).map_err(|(line, what)| {
            let message = format!("{}:{line}: {what}", path.display());
            Problem::new(io::ErrorKind::InvalidData, message).help("repair the line")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Sections::new()),
        Err(error) => {
            Err(Problem::new(error.kind(), format!("cannot read {}: {error}", path.display())))
        }
    }
}

/// Parses the format of both files: sections in brackets, `name = value`, indented blocks below a
/// name without a value, and lines that begin with `#` or `;`. Returns the number and problem of a
/// wrong line. A section that appears twice is merged.
fn sections(text: &str) -> Result<Sections, (usize, &'static str)> {
    let mut sections = Sections::new();
    let (mut section, mut block) = (None, None);
    for (number, line) in text.lines().enumerate() {
        let wrong = |what| (number + 1, what);
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let Some((name, _)) = rest.split_once(']') else {
                return Err(wrong("the section has no `]`"));
            };
            // `[profile  "a"]` and `[profile a]` are equal.
            let words: Vec<&str> = name.split_whitespace().collect();
            let name = words.join(" ").replace(['"', '\''], "");
            sections.entry(name.clone()).or_default();
            (section, block) = (Some(name), None);
            continue;
        }
        let Some((name, value)) = content.split_once('=') else {
            // A value may go on in an indented line, which no property used here does.
            match line.starts_with([' ', '\t']) {
                true => continue,
                false => return Err(wrong("neither a section nor `name = value`")),
            }
        };
        let Some(section) = &section else { return Err(wrong("the property has no section")) };
        let properties = sections.entry(section.clone()).or_default();
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        match &block {
            Some(block) if line.starts_with([' ', '\t']) => {
                properties.insert(format!("{block}.{name}"), value);
            }
            _ => {
                block = value.is_empty().then(|| name.clone());
                properties.insert(name, value);
            }
        }
    }
    Ok(sections)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    fn profile(
        config: &str,
        credentials: &str,
        variables: &[(&str, &str)],
    ) -> Result<Profile, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let aws = folder.path().join(".aws");
        std::fs::create_dir(&aws).unwrap();
        std::fs::write(aws.join("config"), config).unwrap();
        std::fs::write(aws.join("credentials"), credentials).unwrap();
        let home = [("HOME", folder.path().to_str().unwrap())];
        Profile::read(&StorageSettings::from_variables(
            home.into_iter().chain(variables.iter().copied()),
        ))
    }

    #[test]
    fn the_named_profile_is_read_from_both_files() {
        let config = "# comment\n[default]\nregion = eu-west-1\n\n[profile lab]\nregion=eu-north-1\n\
            s3 =\n  endpoint_url = http://lab\n  max_concurrent_requests = 20\nrole_arn = arn\n";
        let credentials = "[default]\naws_access_key_id = A\naws_secret_access_key = a=b\n\
            [lab]\nAWS_ACCESS_KEY_ID = L\naws_secret_access_key = l\naws_session_token = t\n";
        let default = profile(config, credentials, &[]).unwrap();
        assert_eq!(default.keys(), Some(("A", "a=b", None)));
        assert_eq!((default.get("region"), default.endpoint()), (Some("eu-west-1"), None));
        let lab = profile(config, credentials, &[("AWS_PROFILE", "lab")]).unwrap();
        assert_eq!(lab.keys(), Some(("L", "l", Some("t"))));
        assert_eq!((lab.get("region"), lab.endpoint()), (Some("eu-north-1"), Some("http://lab")));
        assert_eq!(lab.get("role_arn"), Some("arn"));
        let services = "[profile x]\nendpoint_url = http://all\nservices = mine\n\
            [services mine]\ns3 =\n  endpoint_url = http://s3\nsts =\n  endpoint_url = http://sts\n";
        let x = profile(services, "", &[("AWS_PROFILE", "x")]).unwrap();
        assert_eq!(x.endpoint(), Some("http://s3"));
    }

    #[test]
    fn keys_of_two_files_are_not_mixed() {
        let config = "[default]\naws_access_key_id = C\naws_secret_access_key = c\n";
        let mixed = profile(config, "[default]\naws_access_key_id = A\n", &[]).unwrap();
        assert_eq!(mixed.keys(), Some(("C", "c", None)));
    }

    #[test]
    fn missing_profiles_and_wrong_lines_are_named() {
        assert!(profile("", "", &[]).unwrap().keys().is_none());
        let message = |result: Result<Profile, Problem>| {
            crate::Error::new("s3://b", "connecting", result.unwrap_err()).to_string()
        };
        let missing = message(profile("[lab]\n", "", &[("AWS_PROFILE", "lab")]));
        assert!(missing.contains("the profile `lab` is neither in /"), "{missing}");
        for (config, expected) in [
            ("[default\n", ".aws/config:1: the section has no `]`"),
            ("[a]\n\nregion\n", ".aws/config:3: neither a section nor `name = value`"),
            ("region = a\n", ".aws/config:1: the property has no section"),
        ] {
            let found = message(profile(config, "", &[]));
            assert!(found.contains(expected), "{found}");
        }
    }
}
