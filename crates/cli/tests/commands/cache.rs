//! Tests of `oxidax cache`.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use oxidax_cache::{About, CacheKeyBuilder, Settings, Store};
use serde_json::Value;

use crate::user::User;

impl User {
    fn folder(&self) -> PathBuf {
        self.path(".cache/oxidax/programs")
    }

    /// Stores a program that was last used this many days ago.
    fn keep(&self, word: &str, platform: &str, days: u32) {
        let settings = Settings { max_age: Duration::MAX, ..Settings::in_folder(self.folder()) };
        let store = Store::open(&settings).unwrap().unwrap();
        let mut key = CacheKeyBuilder::new();
        key.part("program", word.as_bytes());
        let key = key.finish();
        let compile_time = Duration::from_millis(1500);
        let about = About { name: word.into(), platform: platform.into(), compile_time };
        store.put(&key, &about, &[0; 2048]).unwrap();
        let file = File::options().append(true).open(store.path(&key)).unwrap();
        file.set_modified(SystemTime::now() - days * Duration::from_secs(86_400)).unwrap();
    }

    fn stats(&self) -> Value {
        let outcome = self.oxidax(&["cache", "stats", "--json"]);
        assert!(outcome.succeeded, "{}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap()
    }
}

#[test]
fn a_new_user_has_no_programs() {
    let user = User::new();
    let outcome = user.oxidax(&["cache", "stats"]);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    let expected = format!(
        "folder      {}\nentries     0 entries, 0 B\nlimits      at most 4.0 GiB, unused for at \
         most 30.0 days; kept if compiling takes 0.05 s and it has 0 B\n",
        user.folder().display()
    );
    assert_eq!(outcome.stdout, expected);
    assert!(!user.folder().exists(), "looking makes nothing");
    assert!(user.oxidax(&["cache", "clear"]).succeeded);
}

#[test]
fn stats_are_printed_as_text_and_json() {
    let user = User::new();
    user.keep("a", "cpu", 5);
    user.keep("b", "cpu", 1);
    user.keep("c", "tpu", 0);
    fs::write(user.folder().join(format!("{}.program", "0".repeat(64))), b"spoilt").unwrap();
    let text = user.oxidax_with(&["cache", "stats"], &[("OXIDAX_CACHE_MAX_BYTES", "1M")]).stdout;
    for line in [
        "entries     4 entries, 6.",
        "cpu         2 entries, 4.",
        "3.0 s of compiling",
        "tpu         1 entry, 2.",
        "the first 5 days ago",
        "damaged     1 entry, replaced",
        "at most 1.0 MiB",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let stats = user.stats();
    assert_eq!((&stats["entries"], &stats["damaged"]), (&4.into(), &1.into()));
    assert_eq!(stats["platforms"]["cpu"]["compile_seconds"], 3.0);
    assert_eq!(stats["limits"]["max_bytes"], 4_u64 << 30);
    assert_eq!(stats["on"], true);
    let days = stats["newest_use"].as_f64().unwrap() - stats["oldest_use"].as_f64().unwrap();
    assert!(days > 4.9 * 86_400.0);
}

#[test]
fn programs_are_cleared_by_age_or_all() {
    let user = User::new();
    user.keep("a", "cpu", 40);
    user.keep("b", "cpu", 20);
    user.keep("c", "cpu", 0);
    let outcome = user.oxidax(&["cache", "clear", "--older-than", "30"]);
    assert!(outcome.stdout.starts_with("deleted 1 entry, 2."), "{}", outcome.stdout);
    assert_eq!(user.stats()["entries"], 2);
    let outcome = user.oxidax(&["cache", "clear"]);
    assert!(outcome.stdout.starts_with("deleted 2 entries, 4."), "{}", outcome.stdout);
    assert_eq!(user.stats()["entries"], 0);
}

#[test]
fn invalid_arguments_are_refused() {
    let user = User::new();
    for days in ["soon", "-1", "nan"] {
        let outcome = user.oxidax(&["cache", "clear", &format!("--older-than={days}")]);
        assert!(
            !outcome.succeeded && outcome.stderr.contains("number of days"),
            "{}",
            outcome.stderr
        );
    }
    let outcome = user.oxidax_with(&["cache", "stats"], &[("OXIDAX_CACHE_MAX_BYTES", "many")]);
    assert!(!outcome.succeeded);
    assert!(outcome.stderr.contains("OXIDAX_CACHE_MAX_BYTES is `many`"), "{}", outcome.stderr);
}

#[test]
fn a_disabled_cache_is_reported() {
    let user = User::new();
    user.keep("a", "cpu", 0);
    let outcome = user.oxidax_with(&["cache", "stats"], &[("OXIDAX_CACHE", "off")]);
    assert!(
        !outcome.succeeded && outcome.stderr.contains("unset OXIDAX_CACHE"),
        "{}",
        outcome.stderr
    );
    let zero = [("OXIDAX_CACHE_MAX_BYTES", "0")];
    assert!(user.oxidax_with(&["cache", "stats"], &zero).stdout.contains("(off: "));
    assert!(user.oxidax_with(&["cache", "clear"], &zero).stdout.starts_with("deleted 1 entry"));
}
