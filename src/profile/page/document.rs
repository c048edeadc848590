//! [`Document`]: the page around the sections.

use super::html::{amount, bytes, count, counted, escape, missing, nanoseconds, percent, seconds};
use super::lines::line_name;
use super::run::Run;
use super::trace_file::HostTrace;
use super::{collectives, flame, lines, memory, roofline, timeline};
use crate::profile::LineProfile;
#[cfg(feature = "doctor")]
use crate::profile::perfetto;

const STYLE_SHEET: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page.
pub(crate) struct Document {
    /// The name of the program.
    pub(crate) title: String,
    /// The device for which times are predicted; `None` for measured ones.
    pub(crate) predicted_for: Option<String>,
    /// The line below the title.
    pub(crate) subtitle: String,
    pub(crate) tiles: Vec<Tile>,
    pub(crate) sections: Vec<Section>,
}

/// A figure at the top of the page.
pub(crate) struct Tile {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) note: String,
}

/// A part of the page. The body is HTML.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) body: String,
}

fn section(id: &'static str, title: &'static str, body: String) -> Section {
    Section { id, title, body }
}

impl Document {
    /// Returns the page of a profile's folder.
    pub(super) fn of_run(run: &Run) -> Document {
        let trace = run.trace.as_ref().and_then(|trace| trace.as_ref().ok());
        let lines = run.lines.as_ref().and_then(|lines| lines.as_ref().ok());
        let mut page = Document::of(lines, trace);
        let time = run.name.splitn(6, '_').collect::<Vec<_>>();
        if let [year, month, day, hour, minute, second] = time[..] {
            let second = second.split('_').next().unwrap_or(second);
            page.subtitle = format!("{year}-{month}-{day} {hour}:{minute}:{second} UTC");
        } else {
            page.subtitle.clone_from(&run.name);
        }
        // A damaged file is shown where its data would be.
        for (problem, id) in [
            (run.trace.as_ref().and_then(|trace| trace.as_ref().err()), "timeline"),
            (run.lines.as_ref().and_then(|lines| lines.as_ref().err()), "lines"),
        ] {
            let found = page.sections.iter_mut().find(|section| section.id == id);
            if let (Some(problem), Some(section)) = (problem, found) {
                section.body = missing(&escape(problem));
            }
        }
        page
    }

    /// Returns the page of a step, with its operations as a timeline.
    #[cfg(feature = "doctor")]
    pub(crate) fn of_step(lines: &LineProfile) -> Document {
        let mut bytes = Vec::new();
        let written = perfetto::write(&lines.to_profile(), &mut bytes);
        let trace = written.ok().and_then(|()| HostTrace::read(&bytes).ok());
        Document::of(Some(lines), trace.as_ref())
    }

    /// Returns a page with these times.
    pub(super) fn of(lines: Option<&LineProfile>, trace: Option<&HostTrace>) -> Document {
        let mut tiles = lines.map(line_tiles).unwrap_or_default();
        let host = trace.filter(|trace| !trace.is_of_operations());
        tiles.extend(host.map(host_tiles).into_iter().flatten());
        let mut sections = vec![section(
            "timeline",
            "Timeline",
            trace.map_or_else(
                || {
                    missing(
                        "The folder has no events: <code>profile::trace</code> and \
                         <code>ProfileSession</code> record them.",
                    )
                },
                timeline::html,
            ),
        )];
        if let Some(host) = host {
            sections.push(section("work", "Work of the host", timeline::work_html(host)));
        }
        sections.extend([
            section("flame", "Flame graph", flame::html(lines, trace)),
            section("lines", "Time by line", lines::html(lines)),
            section("roofline", "Roofline", roofline::html(lines)),
            section("memory", "Memory over the step", memory::html(lines)),
            section("collectives", "Collectives", collectives::html(lines)),
        ]);
        let named = lines.map(|lines| lines.name.as_str()).filter(|name| !name.is_empty());
        Document {
            title: named.unwrap_or("Profile").to_owned(),
            predicted_for: lines.and_then(|lines| lines.predicted_for.clone()),
            subtitle: String::new(),
            tiles,
            sections,
        }
    }

    /// Returns the file.
    pub(crate) fn to_html(&self) -> String {
        let title = escape(&self.title);
        let badge = match &self.predicted_for {
            Some(device) => {
                format!("<span class=\"badge predicted\">predicted for {}</span>", escape(device))
            }
            None => "<span class=\"badge\">measured</span>".to_owned(),
        };
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title} – oxidax profile</title>\n\
             <style>\n{STYLE_SHEET}</style>\n</head>\n<body>\n<header>\n\
             <h1><code>{title}</code> {badge}</h1>\n<p class=\"subtitle\">{}</p>\n",
            escape(&self.subtitle)
        );
        out.push_str("<nav aria-label=\"Sections\">");
        for section in &self.sections {
            out.push_str(&format!("<a href=\"#{}\">{}</a>", section.id, escape(section.title)));
        }
        // Rows of equal length, with at most six figures.
        let columns = match self.tiles.len() {
            few @ 0..=6 => few.max(4),
            many => many.div_ceil(many.div_ceil(6)),
        };
        out.push_str(&format!(
            "</nav>\n</header>\n<main>\n<dl class=\"tiles\" style=\"--columns:{columns}\">\n"
        ));
        for tile in &self.tiles {
            out.push_str(&format!(
                "<div><dt>{}</dt><dd><b>{}</b><small>{}</small></dd></div>\n",
                escape(tile.name),
                escape(&tile.value),
                escape(&tile.note)
            ));
        }
        out.push_str("</dl>\n");
        for section in &self.sections {
            out.push_str(&format!(
                "<section id=\"{}\">\n<h2>{}</h2>\n{}\n</section>\n",
                section.id,
                escape(section.title),
                section.body
            ));
        }
        out.push_str(&format!("</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"));
        out
    }
}

fn tile(name: &'static str, value: String, note: String) -> Tile {
    Tile { name, value, note }
}

/// The figures of a step.
fn line_tiles(profile: &LineProfile) -> Vec<Tile> {
    let step = profile.step.as_secs_f64();
    let is_predicted = profile.predicted_for.is_some();
    let source = if is_predicted { "sum of the operations" } else { "median execution" };
    let mut tiles = vec![tile("Step", seconds(step), source.to_owned())];
    let flops: f64 = profile.operations.iter().map(|operation| operation.flops).sum();
    if flops > 0.0 && step > 0.0 {
        let note = match profile.peak_flops {
            peak if peak > 0.0 => {
                format!("{} of {}", percent(flops / step / peak), amount(peak, "FLOP/s"))
            }
            _ => amount(flops, "FLOP"),
        };
        tiles.push(tile("Arithmetic", amount(flops / step, "FLOP/s"), note));
    }
    let lines = profile.lines();
    if let Some(slowest) = lines.iter().find(|line| line.line.is_some()) {
        // The file without its folders: the table has them.
        let name = line_name(slowest);
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        let note = format!("{} of the step", percent(slowest.share));
        tiles.push(tile("Slowest line", name, note));
    }
    tiles.push(tile(
        "Known lines",
        percent(profile.attributed()),
        format!("of the step, on {}", counted(lines.len() as u64, "line", "lines")),
    ));
    if let Some(memory) = profile.memory.as_ref().filter(|memory| memory.peak() > 0) {
        let scope = if memory.of_one_device { "of one device" } else { "estimate, all devices" };
        tiles.push(tile("Peak memory", bytes(memory.peak()), scope.to_owned()));
    }
    if !profile.collectives.is_empty() && step > 0.0 {
        let time: f64 = profile.collectives.iter().map(|it| it.time.as_secs_f64()).sum();
        let note = format!("{} of the step", percent(time / step));
        tiles.push(tile("Collectives", seconds(time), note));
    }
    tiles
}

/// The figures of a host's work.
fn host_tiles(trace: &HostTrace) -> Vec<Tile> {
    let (events, threads) = trace
        .host_tracks()
        .fold((0, 0), |(events, threads), track| (events + track.slices.len() as u64, threads + 1));
    let note = format!(
        "{} on {}",
        counted(events + trace.too_deep, "event", "events"),
        counted(threads, "thread", "threads")
    );
    let mut tiles = vec![tile("Recorded", nanoseconds(trace.end), note)];
    let total = |kind: &str| -> u64 {
        trace.of_kind(kind).map(|slice| slice.duration()).fold(0, u64::saturating_add)
    };
    let mut steps: Vec<u64> = trace.of_kind("step").map(|slice| slice.duration()).collect();
    steps.sort_unstable();
    if let Some(median) = steps.get(steps.len() / 2) {
        let note = format!("median {}", nanoseconds(*median));
        tiles.push(tile("Steps", count(steps.len() as u64), note));
        let waiting = total("data_wait") as f64 / total("step").max(1) as f64;
        let note = "of the steps' time".to_owned();
        tiles.push(tile("Waiting for data", percent(waiting), note));
    }
    let compiling = total("compile");
    if compiling > 0 {
        let programs = trace.of_kind("compile").count() as u64;
        let note = counted(programs, "program", "programs");
        tiles.push(tile("Compiling", nanoseconds(compiling), note));
    }
    tiles
}

#[cfg(feature = "doctor")]
impl Default for Document {
    /// Returns the page of nothing: its sections say what would record their data.
    fn default() -> Document {
        Document::of(None, None)
    }
}
