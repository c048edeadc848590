//! `cargo xtask profile-page`: opens the page of a profile in Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::{package, root};

/// Names of Chromium and of browsers that take its options.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// A screenshot of an empty page of this size is smaller.
const SMALLEST_SCREENSHOT: u64 = 40_000;

/// Uses every control of the page, and marks the page if nothing threw.
const USE_CONTROLS: &str = r##"
<script>
  const rows = document.querySelectorAll("#lines tbody tr").length;
  const boxes = document.querySelectorAll(".flame button").length;
  for (const heading of document.querySelectorAll("th button")) {
    heading.click();
    heading.click();
  }
  document.querySelectorAll(".tabs button").forEach((tab) => tab.click());
  document.querySelectorAll(".flame button").forEach((box) => box.click());
  document.querySelectorAll("[data-zoom]").forEach((button) => button.click());
  const canvas = document.getElementById("timeline-canvas");
  for (const key of ["+", "+", "ArrowRight", "ArrowLeft", "-"]) {
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
  }
  const box = canvas.getBoundingClientRect();
  for (let y = box.top; y < box.bottom; y += 4) {
    for (let x = box.left; x < box.right; x += 40) {
      canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y }));
    }
  }
  document.querySelector("[data-zoom=all]").click();
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const painted = pixels.some((value) => value !== 0);
  const pointed = document.getElementById("timeline-event").textContent.includes(" from ");
  document.body.dataset.used = `rows:${rows > 2} boxes:${boxes > 5} ` +
    `painted:${painted} pointed:${pointed}`;
</script>
"##;

/// The value of `data-used` after [`USE_CONTROLS`].
const USED: &str = "data-used=\"rows:true boxes:true painted:true pointed:true\"";

/// Installs Chromium if there is none, makes the page of the profile that the exercises wrote, and
/// checks in the browser that no script fails and that the page has the profile's figures.
pub(crate) fn check() -> Result<()> {
    let browser = Browser::find_or_install()?;
    let profile = package::target().join("exercises-profile");
    ensure!(profile.is_dir(), "{} does not exist: run examples/exercises/ci.sh", profile.display());
    let folder = package::target().join("profile-page");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let page = folder.join("report.html");
    let oxidax = package::target().join("debug/oxidax");
    let made = Command::new(&oxidax)
        .args(["profile", "report"])
        .arg(&profile)
        .arg("--out")
        .arg(&page)
        .status();
    let made = made.with_context(|| format!("starting {}", oxidax.display()))?;
    ensure!(made.success(), "oxidax profile report ended with {made}");

    // An error on the console is found: without this, the checks below could not fail.
    let broken = folder.join("broken.html");
    fs::write(&broken, "<!doctype html><script>missing()</script>")?;
    let Visit { errors, .. } = browser.visit(&broken)?;
    ensure!(!errors.is_empty(), "the browser did not report the error of a broken page");

    let text = fs::read_to_string(&page)?;
    let used = folder.join("used.html");
    fs::write(&used, text.replace("</body>", &format!("{USE_CONTROLS}</body>")))?;
    for page in [&page, &used] {
        let visit = browser.visit(page)?;
        ensure!(visit.errors.is_empty(), "{}:\n{}", page.display(), visit.errors.join("\n"));
        ensure!(visit.document.contains("data-ready=\"true\""), "the page's script did not end");
        for figure in figures(&profile)? {
            ensure!(visit.document.contains(&figure), "{} has no {figure}", page.display());
        }
        ensure!(page != &used || visit.document.contains(USED), "{}", controls(&visit.document));
    }
    let picture = folder.join("report.png");
    browser.screenshot(&page, &picture)?;
    let bytes = fs::metadata(&picture).with_context(|| picture.display().to_string())?.len();
    ensure!(bytes > SMALLEST_SCREENSHOT, "{} has {bytes} bytes", picture.display());
    eprintln!("{} opens without an error; {}", page.display(), picture.display());
    Ok(())
}

/// Returns what the page says about its controls.
fn controls(document: &str) -> &str {
    let found = document.find("data-used=\"").map(|at| &document[at..]);
    let end = found.and_then(|found| found.find('>'));
    found.zip(end).map_or("the controls were not used", |(found, end)| &found[..end])
}

/// Returns texts that a page of this profile has, from its files.
fn figures(profile: &Path) -> Result<Vec<String>> {
    let runs = profile.join("plugins/profile");
    let newest = fs::read_dir(&runs)
        .with_context(|| runs.display().to_string())?
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .map(|run| run.path())
        .max()
        .context("no profile")?;
    let file = newest.join("line_profile.json");
    let text = fs::read(&file).with_context(|| file.display().to_string())?;
    let text: Value = serde_json::from_slice(&text)?;
    let profile = &text["profile"];
    let step = profile["step"].as_f64().context("the time of the step")?;
    let milliseconds = match step * 1e3 {
        ms if ms >= 99.95 => format!("{ms:.0}"),
        ms if ms >= 9.995 => format!("{ms:.1}"),
        ms => format!("{ms:.2}"),
    };
    let largest = &profile["memory"]["at_peak"][0];
    let name = profile["name"].as_str().context("the name of the step")?;
    Ok(vec![
        format!("<h1><code>{name}</code>"),
        format!("<dt>Step</dt><dd><b>{milliseconds} ms</b>"),
        format!("<code>{}</code>", largest["array_type"].as_str().context("an array's type")?),
        "Time of one step by source line".to_owned(),
        "Roofline: FLOP/s over FLOPs per byte".to_owned(),
        format!("dispatch {name}"),
        // The script writes the range that the timeline shows.
        "<output id=\"timeline-range\">0 s – ".to_owned(),
    ])
}

/// A browser that runs without a window.
struct Browser(&'static str);

/// A page after its scripts ran, and the lines of the console.
struct Visit {
    document: String,
    errors: Vec<String>,
}

impl Browser {
    fn find_or_install() -> Result<Browser> {
        if let Some(browser) = Browser::find() {
            return Ok(browser);
        }
        let install = "apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core";
        eprintln!("installing Chromium with apt-get");
        let script = format!(
            "run() {{ if [ \"$(id -u)\" -eq 0 ]; then \"$@\"; else sudo \"$@\"; fi; }}; \
             apt-cache show chromium >/dev/null 2>&1 || run apt-get update -qq; \
             run env DEBIAN_FRONTEND=noninteractive {install}"
        );
        let status = Command::new("sh")
            .args(["-c", &script])
            .env_remove("LD_PRELOAD")
            .status()
            .context("starting sh")?;
        ensure!(status.success(), "`{install}` ended with {status}");
        Browser::find().context("there is no Chromium after its installation")
    }

    fn find() -> Option<Browser> {
        let runs = |name: &&&str| {
            let version = Command::new(name).arg("--version").env_remove("LD_PRELOAD").output();
            version.is_ok_and(|output| output.status.success())
        };
        BROWSERS.iter().find(runs).map(|name| Browser(name))
    }

    /// A command with an empty profile folder, without the network.
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(self.0);
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--enable-logging=stderr",
                "--v=0",
            ])
            .arg(format!("--user-data-dir={}", home.display()))
            .current_dir(root())
            .stdin(Stdio::null())
            // The allocator of the tests is not for the browser.
            .env_remove("LD_PRELOAD");
        command
    }

    /// Opens a page with an option of the command line, and returns the output.
    fn open(&self, page: &Path, options: &[String]) -> Result<(String, String)> {
        let home = empty_folder(&page.with_extension("browser"))?;
        let url = format!("file://{}", page.canonicalize()?.display());
        let output = self.command(&home).args(options).arg(&url).output();
        let output = output.with_context(|| format!("starting {}", self.0))?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            bail!("{} ended with {}:\n{errors}", self.0, output.status);
        }
        fs::remove_dir_all(&home).with_context(|| home.display().to_string())?;
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), errors))
    }

    fn visit(&self, page: &Path) -> Result<Visit> {
        let (document, log) = self.open(page, &["--dump-dom".to_owned()])?;
        let errors = log.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned);
        Ok(Visit { document, errors: errors.collect() })
    }

    fn screenshot(&self, page: &Path, picture: &Path) -> Result<()> {
        let file = format!("--screenshot={}", picture.display());
        self.open(page, &[file, "--window-size=1280,2400".to_owned()]).map(drop)
    }
}

fn empty_folder(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| path.display().to_string())?;
    }
    fs::create_dir_all(path).with_context(|| path.display().to_string())?;
    Ok(path.to_owned())
}
