//! A fake host in a temporary folder: scripted tools, a cache and a wheel.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hmac_sha256::Hash as Sha256;
use oxidax_plugin::{Config, Pin, Platform, Progress, Tags};
use tempfile::TempDir;

/// The start of every tool's script: answers `--version`, counts the call and finds the output
/// folder.
const PROLOGUE: &str = r#"
case "$*" in *--version) [ -e "$folder/no-pip-for-$name" ] && exit 1; exit 0;; esac
printf "%s\n" "$name $*" >> "$folder/calls"
for word in "$@"; do
    case "$last" in --dest|--target) dest=$word;; esac
    last=$word
done
mkdir -p "$dest"
"#;

pub(crate) struct Machine {
    folder: TempDir,
    pub(crate) config: Config,
    pub(crate) pin: Pin,
    pub(crate) library: Vec<u8>,
}

impl Machine {
    /// Creates a Linux host with a `python3` whose pip fetches the pinned wheel.
    pub(crate) fn new() -> Machine {
        let machine = Machine::without_tools();
        machine.tool("python3");
        machine.behave(r#"cp "$folder/../wheels/$wheel" "$dest""#);
        machine
    }

    pub(crate) fn without_tools() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["bin", "wheels", "root"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let library: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut config = Config::bare();
        config.host = ("linux".to_owned(), "x86_64".to_owned());
        config.search_path = vec![root.join("bin")];
        config.cache = Some(root.join("home/.cache/oxidax"));
        config.root = root.join("root");
        let pin = fake_pin(&root, &library);
        Machine { folder, config, pin, library }
    }

    /// Returns the configuration and pin of the same host for another process.
    pub(crate) fn seen_again(root: &Path) -> (Config, Pin) {
        let mut config = Config::bare();
        config.host = ("linux".to_owned(), "x86_64".to_owned());
        config.search_path = vec![root.join("bin")];
        config.cache = Some(root.join("home/.cache/oxidax"));
        let library: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let pin = fake_pin(root, &library);
        (config, pin)
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(relative)
    }

    /// Adds a tool to the search path.
    pub(crate) fn tool(&self, name: &str) {
        // A link to a file that no thread writes. Executing a file that was just written fails
        // while a child of another thread still has it open.
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/install/tool.sh");
        symlink(script, self.path("bin").join(name)).unwrap();
    }

    /// Sets the tools' script. It can use `$name`, `$folder`, `$dest` and `$wheel`.
    pub(crate) fn behave(&self, script: &str) {
        let text = format!("wheel={}\n{PROLOGUE}\n{script}\n", self.pin.wheel);
        fs::write(self.path("bin/behaviour"), text).unwrap();
    }

    /// Returns the tools' calls so far, one per line.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("bin/calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn plugins(&self) -> PathBuf {
        self.config.cache.as_ref().unwrap().join("plugins")
    }

    /// Returns the names in the plugin folder, except the lock.
    pub(crate) fn left_in_cache(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.plugins())
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".lock")
            .collect();
        names.sort();
        names
    }
}

/// Writes a wheel that contains `library`, and returns a matching pin.
fn fake_pin(root: &Path, library: &[u8]) -> Pin {
    let wheel = wheel_of(&[("fake_plugin/plugin.so", library), ("fake_plugin/code.py", b"evil()")]);
    let name = "fake_plugin-1.0-py3-none-any.whl";
    fs::write(root.join("wheels").join(name), &wheel).unwrap();
    Pin {
        name: "fake",
        platform: Platform::Cpu,
        package: "fake-plugin",
        version: "1.0",
        wheel: name,
        tags: Tags {
            python: "3.11",
            implementation: "py",
            abi: "none",
            platform: "any",
            uv_platform: "x86_64-manylinux_2_28",
        },
        wheel_size: wheel.len() as u64,
        wheel_sha256: sha256(&wheel),
        member: "fake_plugin/plugin.so",
        library_size: library.len() as u64,
        library_sha256: sha256(library),
        publisher: "nobody",
        license: "CC0-1.0",
        api: (0, 115),
        beside: None,
        needs: &[],
    }
}

/// Returns a wheel with these members. Its bytes do not depend on the time.
pub(crate) fn wheel_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().last_modified_time(zip::DateTime::default());
    for (name, content) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Returns the SHA-256 as a leaked string, because pins hold static strings.
pub(crate) fn sha256(bytes: &[u8]) -> &'static str {
    let hex: String = Sha256::hash(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    hex.leak()
}

/// Records all messages.
#[derive(Default)]
pub(crate) struct Notes(pub(crate) Vec<String>);

impl Progress for Notes {
    fn note(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
    fn begin(&mut self, step: &str, total: u64) {
        self.0.push(format!("{step} {total}"));
    }
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}
}
