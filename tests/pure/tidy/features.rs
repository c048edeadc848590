//! `docs/features.md` is generated from the features in the manifests of `oxidax` and
//! `oxidax-models`.

use super::sources::root;
use expect_test::expect_file;
use std::fmt::Write as _;

/// A feature as its manifest declares it.
struct Feature {
    name: String,
    /// The comment above the feature.
    description: String,
    /// The features and dependencies that the feature enables.
    enables: Vec<String>,
}

const HEAD: &str = "\
# Cargo features

Generated from the manifests by `UPDATE_EXPECT=1 cargo test --test pure features`.

```toml
oxidax = { version = \"0.1\", default-features = false, features = [\"install\"] }
```

`core`, `primitives`, `transforms`, `control_flow`, `parallel`, `jit`, `ops`, `random`, `nn`,
`optim` and `debug` are always compiled. `cargo xtask features` checks that each feature compiles
alone.
";

const MODELS: &str = "
## oxidax-models

```toml
oxidax-models = { version = \"0.1\", default-features = false, features = [\"gpt2\"] }
```
";

const COLUMNS: &str = "
| feature | default | description | also enables |
|---|---|---|---|
";

/// The manifests of the packages with features that users choose.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "crates/models/Cargo.toml"];

/// Parses the table `[features]` of a manifest, whose every entry has a comment.
fn features(manifest: &str) -> Vec<Feature> {
    let manifest = std::fs::read_to_string(root().join(manifest)).unwrap();
    let (_, table) = manifest.split_once("\n[features]\n").unwrap();
    let (table, _) = table.split_once("\n[").unwrap();
    let mut features = Vec::new();
    let (mut description, mut entry) = (String::new(), String::new());
    for line in table.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            description = format!("{description} {comment}").trim().to_owned();
            continue;
        }
        entry.push_str(line);
        let Some((name, values)) = entry.split_once(" = [").filter(|_| line.ends_with(']')) else {
            continue;
        };
        let enables = values.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        features.push(Feature {
            name: name.to_owned(),
            description: std::mem::take(&mut description),
            enables,
        });
        entry.clear();
    }
    features
}

/// Returns the table of a manifest's features.
fn table(manifest: &str) -> String {
    let features = features(manifest);
    let default = &features.iter().find(|feature| feature.name == "default").unwrap().enables;
    let mut table = COLUMNS.to_owned();
    for Feature { name, description, enables } in &features {
        if name == "default" {
            continue;
        }
        assert!(!description.is_empty(), "feature `{name}` has no comment in {manifest}");
        let mark = if default.contains(name) { "yes" } else { "" };
        let others: Vec<String> = enables
            .iter()
            .filter(|other| features.iter().any(|feature| feature.name == **other))
            .map(|other| format!("`{other}`"))
            .collect();
        let others = if name == "full" { String::new() } else { others.join(", ") };
        writeln!(table, "| `{name}` | {mark} | {description} | {others} |").unwrap();
    }
    table
}

#[test]
fn features_page_matches_the_manifests() {
    let [library, models] = MANIFESTS.map(table);
    let page = [HEAD, &library, MODELS, &models].concat();
    expect_file![root().join("docs/features.md")].assert_eq(&page);
}

#[test]
fn full_enables_every_library_feature() {
    for manifest in MANIFESTS {
        let features = features(manifest);
        let full = &features.iter().find(|feature| feature.name == "full").unwrap().enables;
        for Feature { name, .. } in &features {
            let is_library = name != "default" && name != "full";
            assert_eq!(full.contains(name), is_library, "feature `{name}` and `full`");
        }
    }
}
