//! The timeline: the events of each thread, which the page's script draws.

use super::html::{Cell, Table, bytes, count, counted, missing, nanoseconds, script_json};
use super::trace_file::{HostTrace, Interner, LEVELS, Slice, Track};
use rustc_hash::FxHashMap;
use serde_json::json;

/// The largest number of rectangles in a page. Shorter events are merged with their neighbours.
const RECTANGLES: usize = 12_000;
/// The largest number of threads that are drawn: those with the most events.
const TRACKS: usize = 100;
/// The number of rows of the table of work.
const ROWS: usize = 50;

/// A rectangle: one event, or neighbours that are too short to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rectangle {
    /// The first of its events.
    slice: Slice,
    /// The end of the last one.
    end: u64,
    events: u64,
}

/// Returns the rectangles of a track, with events below `shortest` nanoseconds merged with
/// neighbours of their level if what is between them is as short, up to `longest` nanoseconds.
fn rectangles(track: &Track, shortest: u64, longest: u64) -> Vec<Rectangle> {
    let mut found: Vec<Rectangle> = Vec::new();
    // The last rectangle of each level.
    let mut last: [Option<usize>; LEVELS] = [None; LEVELS];
    for slice in &track.slices {
        let level = usize::from(slice.depth).min(LEVELS - 1);
        let is_short = slice.duration() < shortest;
        let previous = last[level].map(|index| &mut found[index]).filter(|previous| {
            let is_near = slice.start.saturating_sub(previous.end) < shortest;
            let length = slice.end.saturating_sub(previous.slice.start);
            is_short && is_near && previous.slice.duration() < shortest && length <= longest
        });
        match previous {
            Some(previous) => {
                previous.end = previous.end.max(slice.end);
                previous.events += 1;
            }
            None => {
                last[level] = Some(found.len());
                found.push(Rectangle { slice: *slice, end: slice.end, events: 1 });
            }
        }
    }
    found
}

/// Returns the tracks that are drawn, in the file's order.
fn drawn_tracks(trace: &HostTrace) -> Vec<&Track> {
    let mut drawn: Vec<(usize, &Track)> = trace.tracks.iter().enumerate().collect();
    drawn.sort_by_key(|(_, track)| std::cmp::Reverse(track.slices.len()));
    drawn.truncate(TRACKS);
    drawn.sort_by_key(|(index, _)| *index);
    drawn.into_iter().map(|(_, track)| track).collect()
}

/// Returns the rectangles of these tracks, at most about [`RECTANGLES`], and the duration below
/// which events were merged.
fn all_rectangles(trace: &HostTrace, drawn: &[&Track]) -> (Vec<Vec<Rectangle>>, u64) {
    let mut shortest = 0_u64;
    loop {
        // About a pixel, so that gaps and changes in what is merged stay visible.
        let longest = (trace.end / 1500).max(shortest.saturating_mul(2));
        let found: Vec<Vec<Rectangle>> =
            drawn.iter().map(|track| rectangles(track, shortest, longest)).collect();
        let total: usize = found.iter().map(Vec::len).sum();
        if total <= RECTANGLES || shortest >= trace.end {
            return (found, shortest);
        }
        shortest = if shortest == 0 { (trace.end / 1_000_000).max(1) } else { shortest * 2 };
    }
}

/// Returns the number of the colour of a kind of work: see `--k0` and so on in page.css.
fn colour(kind: &str, name: &str) -> usize {
    match kind {
        "step" | "scope" => 0,
        "call" | "dispatch" => 1,
        "trace" | "lower" | "compile" => 2,
        "wait" | "to_host" => 3,
        "data" | "data_wait" => 4,
        "to_device" | "copy" => 5,
        "operation" => super::flame::colour(name),
        _ => 6,
    }
}

/// Returns the section's body.
pub(super) fn html(trace: &HostTrace) -> String {
    let drawn = drawn_tracks(trace);
    let (rectangles, shortest) = all_rectangles(trace, &drawn);
    let mut out = String::new();
    out.push_str(if trace.is_of_operations() {
        "<p>The operations of one execution, one after the other.</p>"
    } else {
        "<p>The work of each thread of the host. Inner work is below the work that contains it.</p>"
    });
    let mut tracks = Vec::new();
    // Names and lines of what is drawn.
    let (mut names, mut lines) = (Interner::default(), Interner::default());
    lines.intern("");
    for (track, rectangles) in drawn.iter().zip(&rectangles) {
        let levels = track.slices.iter().map(|slice| slice.depth + 1).max().unwrap_or(1);
        let numbers: Vec<u64> = rectangles
            .iter()
            .flat_map(|rectangle| {
                let slice = &rectangle.slice;
                let name = trace.names.text(slice.name);
                let colour = colour(trace.kinds.text(slice.kind), name) as u64;
                let name = u64::from(names.intern(name));
                let line = u64::from(lines.intern(trace.lines.text(slice.line)));
                let duration = rectangle.end.saturating_sub(slice.start);
                let [depth, events] = [u64::from(slice.depth), rectangle.events];
                [slice.start, duration, depth, name, line, colour, events, slice.bytes]
            })
            .collect();
        tracks.push(json!({ "title": track.title, "levels": levels, "events": numbers }));
    }
    let data = json!({
        "end": trace.end,
        "names": names.texts,
        "lines": lines.texts,
        "tracks": tracks,
    });
    out.push_str(
        "<div class=\"tools\"><button data-zoom=\"in\">Zoom in</button>\
         <button data-zoom=\"out\">Zoom out</button><button data-zoom=\"all\">Show all</button>\
         <label>Find <input type=\"search\" id=\"timeline-filter\" placeholder=\"name or line\">\
         </label><output id=\"timeline-range\"></output></div>",
    );
    out.push_str(&format!(
        "<canvas id=\"timeline-canvas\" tabindex=\"0\" role=\"img\" aria-label=\"Timeline of {} on \
         {} in {}. The table of work has the same figures.\"></canvas>\
         <p id=\"timeline-event\" aria-live=\"polite\">Point at an event for its name, line and \
         time. Dragging moves, and after a click the wheel and the keys + − ← → zoom and move.</p>\
         <script type=\"application/json\" id=\"timeline-data\">{}</script>",
        counted(trace.events, "event", "events"),
        counted(trace.tracks.len() as u64, "thread", "threads"),
        nanoseconds(trace.end),
        script_json(&data),
    ));
    let shown: usize = rectangles.iter().map(Vec::len).sum();
    if shortest > 0 {
        out.push_str(&format!(
            "<p class=\"note\">Of {} events, those shorter than {} are merged with their \
             neighbours, into {}. The files for Perfetto and XProf have all of \
             them.</p>",
            count(trace.events),
            nanoseconds(shortest),
            counted(shown as u64, "rectangle", "rectangles"),
        ));
    }
    if drawn.len() < trace.tracks.len() {
        out.push_str(&format!(
            "<p class=\"note\">Of {} threads, the {TRACKS} with the most events are drawn.</p>",
            count(trace.tracks.len() as u64),
        ));
    }
    if trace.too_deep > 0 {
        out.push_str(&format!(
            "<p class=\"note\">{} on more than {LEVELS} levels are left out.</p>",
            counted(trace.too_deep, "event", "events"),
        ));
    }
    out
}

/// The events of one name and line.
#[derive(Default)]
struct Work {
    count: u64,
    nanos: u64,
    /// Time that is not in inner events.
    own_nanos: u64,
    bytes: u64,
}

/// Returns the table of the host's work: total time, and own time without that of inner work.
pub(super) fn work_html(trace: &HostTrace) -> String {
    let mut rows: FxHashMap<(u32, u32), Work> = FxHashMap::default();
    let mut all_own = 0_u64;
    for track in trace.host_tracks() {
        let mut open: Vec<&Slice> = Vec::new();
        for slice in &track.slices {
            open.truncate(usize::from(slice.depth));
            if let Some(outer) = open.last() {
                let inside = slice.end.min(outer.end).saturating_sub(slice.start);
                let row = rows.entry((outer.name, outer.line)).or_default();
                row.own_nanos = row.own_nanos.saturating_sub(inside);
                all_own = all_own.saturating_sub(inside);
            }
            let row = rows.entry((slice.name, slice.line)).or_default();
            row.count += 1;
            row.nanos = row.nanos.saturating_add(slice.duration());
            row.own_nanos = row.own_nanos.saturating_add(slice.duration());
            row.bytes = row.bytes.saturating_add(slice.bytes);
            all_own = all_own.saturating_add(slice.duration());
            open.push(slice);
        }
    }
    if rows.is_empty() {
        return missing("The profile has no events.");
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|((a_name, a_line), a), ((b_name, b_line), b)| {
        let key = |name: &u32, line: &u32| {
            (trace.names.text(*name).to_owned(), trace.lines.text(*line).to_owned())
        };
        b.own_nanos.cmp(&a.own_nanos).then_with(|| key(a_name, a_line).cmp(&key(b_name, b_line)))
    });
    let hidden = rows.len().saturating_sub(ROWS);
    let table = Table {
        caption: "Work by name and line; own time is not in inner work",
        headings: vec!["work", "line", "own time", "share", "total time", "count", "bytes"],
        rows: rows
            .iter()
            .take(ROWS)
            .map(|((name, line), work)| {
                let time = |nanos: u64| Cell::Number(nanoseconds(nanos), nanos as f64);
                let line = trace.lines.text(*line);
                vec![
                    Cell::Text(trace.names.text(*name).to_owned()),
                    if line.is_empty() { Cell::Empty } else { Cell::Code(line.to_owned()) },
                    time(work.own_nanos),
                    Cell::Share(work.own_nanos as f64 / all_own.max(1) as f64),
                    time(work.nanos),
                    Cell::Number(count(work.count), work.count as f64),
                    match work.bytes {
                        0 => Cell::Empty,
                        all => Cell::Number(bytes(all), all as f64),
                    },
                ]
            })
            .collect(),
    };
    let mut out = table.html();
    if hidden > 0 {
        out.push_str(&format!(
            "<p class=\"note\">{} with less time are not shown.</p>",
            counted(hidden as u64, "row", "rows")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(start: u64, end: u64, depth: u16) -> Slice {
        Slice { start, end, depth, name: 0, kind: 0, line: 0, bytes: 0 }
    }

    #[test]
    fn short_neighbours_are_one_rectangle() {
        let slices = vec![
            slice(0, 100, 0),
            slice(0, 2, 1),
            slice(3, 5, 1),
            slice(6, 60, 1),
            slice(61, 62, 1),
            slice(90, 91, 1),
        ];
        let track = Track { title: String::new(), slices };
        assert_eq!(rectangles(&track, 0, 100).len(), 6);
        let merged = rectangles(&track, 10, 100);
        let parts: Vec<_> = merged.iter().map(|it| (it.slice.start, it.end, it.events)).collect();
        let expected = [(0, 100, 1), (0, 5, 2), (6, 60, 1), (61, 62, 1), (90, 91, 1)];
        assert_eq!(parts, expected);
        // The first two are longer together than a rectangle may be.
        assert_eq!(rectangles(&track, 10, 4).len(), 6);
    }

    #[test]
    fn a_million_events_give_a_page_that_opens() {
        let slices = (0..1_000_000).map(|at| slice(3 * at, 3 * at + 2, 0)).collect();
        let mut trace = HostTrace { events: 1_000_000, end: 3_000_000, ..HostTrace::default() };
        trace.names.intern("call <f>");
        trace.kinds.intern("call");
        trace.lines.intern("");
        trace.tracks.push(Track { title: "main".into(), slices });
        let text = html(&trace);
        assert!(text.len() < 1 << 20, "{} bytes", text.len());
        assert!(text.contains("are merged with their neighbours"));
        let (drawn, _) = all_rectangles(&trace, &drawn_tracks(&trace));
        assert!((1000..=RECTANGLES).contains(&drawn[0].len()), "{}", drawn[0].len());
        assert!(work_html(&trace).contains("call &lt;f&gt;"));
    }
}
