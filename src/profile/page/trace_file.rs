//! [`HostTrace`]: the events of `perfetto_trace.pb`.

use super::html::short_path;
use crate::profile::perfetto::{
    AnnotationValue, InternedData, PacketData, SLICE_BEGIN, SLICE_END, STATE_CLEARED, TracePacket,
    TrackEvent,
};
use oxidax_proto::{Message, WireValue, raw_fields};
use rustc_hash::FxHashMap;

/// The deepest level of events. Those within it are left out, and counted.
pub(super) const LEVELS: usize = 32;

/// The events of a profile.
#[derive(Debug, Default)]
pub(crate) struct HostTrace {
    pub(super) tracks: Vec<Track>,
    pub(super) names: Interner,
    /// The kinds of events, such as `dispatch`.
    pub(super) kinds: Interner,
    /// Source lines, as `file:line`. The first one is empty: no line.
    pub(super) lines: Interner,
    /// The end of the last event, in nanoseconds after the start.
    pub(super) end: u64,
    pub(super) events: u64,
    /// The number of events on deeper levels than [`LEVELS`].
    pub(super) too_deep: u64,
}

/// The events of one thread.
#[derive(Debug, Default)]
pub(super) struct Track {
    pub(super) title: String,
    /// In order of their starts, outer before inner.
    pub(super) slices: Vec<Slice>,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The number of events around it.
    pub(super) depth: u16,
    pub(super) name: u32,
    pub(super) kind: u32,
    pub(super) line: u32,
    pub(super) bytes: u64,
}

impl HostTrace {
    /// Adds the events of a process, whose threads get its name in front of theirs, if it has one.
    pub(super) fn append(&mut self, process: &str, other: HostTrace) {
        let renumber = |own: &mut Interner, other: &Interner| -> Vec<u32> {
            other.texts.iter().map(|text| own.intern(text)).collect()
        };
        // A number without a text stays the first one, as in `Interner::text`.
        let renumbered = |all: &[u32], number: u32| all.get(number as usize).copied().unwrap_or(0);
        let names = renumber(&mut self.names, &other.names);
        let kinds = renumber(&mut self.kinds, &other.kinds);
        let lines = renumber(&mut self.lines, &other.lines);
        for mut track in other.tracks {
            if !process.is_empty() {
                track.title = format!("{process}: {}", track.title);
            }
            for slice in &mut track.slices {
                slice.name = renumbered(&names, slice.name);
                slice.kind = renumbered(&kinds, slice.kind);
                slice.line = renumbered(&lines, slice.line);
            }
            self.tracks.push(track);
        }
        self.end = self.end.max(other.end);
        self.events += other.events;
        self.too_deep += other.too_deep;
    }
}

impl Slice {
    pub(super) fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Texts with numbers.
#[derive(Debug, Default)]
pub(super) struct Interner {
    pub(super) texts: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Interner {
    pub(super) fn intern(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    pub(super) fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }
}

/// The names that one sequence of packets has sent, by their numbers in the file.
#[derive(Default)]
struct Sequence {
    categories: FxHashMap<u64, u32>,
    names: FxHashMap<u64, u32>,
    lines: FxHashMap<u64, u32>,
    /// The names of arguments.
    arguments: FxHashMap<u64, String>,
    track: usize,
    /// The events that have not ended: their index, or `None` on a level that is too deep.
    open: Vec<Option<usize>>,
}

impl HostTrace {
    /// Reads a trace. Returns the reason if the bytes are not one.
    pub(super) fn read(bytes: &[u8]) -> Result<HostTrace, String> {
        let mut trace = HostTrace::default();
        trace.lines.intern("");
        let mut sequences: FxHashMap<u32, Sequence> = FxHashMap::default();
        for field in raw_fields(bytes).map_err(|error| error.to_string())? {
            let (1, WireValue::Bytes(bytes)) = (field.number, field.value) else { continue };
            let packet = TracePacket::decode(bytes).map_err(|error| error.to_string())?;
            trace.add(packet, &mut sequences);
        }
        for sequence in sequences.into_values() {
            let slices = &mut trace.tracks[sequence.track].slices;
            for index in sequence.open.into_iter().flatten() {
                slices[index].end = trace.end.max(slices[index].start);
            }
        }
        trace.tracks.retain(|track| !track.slices.is_empty());
        Ok(trace)
    }

    fn add(&mut self, packet: TracePacket, sequences: &mut FxHashMap<u32, Sequence>) {
        let sequence = sequences.entry(packet.sequence_id).or_insert_with(|| {
            self.tracks.push(Track::default());
            Sequence { track: self.tracks.len() - 1, ..Sequence::default() }
        });
        if packet.sequence_flags & STATE_CLEARED != 0 {
            let (track, open) = (sequence.track, std::mem::take(&mut sequence.open));
            *sequence = Sequence { track, open, ..Sequence::default() };
        }
        if let Some(names) = packet.interned_data {
            self.learn(names, sequence);
        }
        match packet.data {
            Some(PacketData::TrackDescriptor(descriptor)) => {
                if let Some(thread) = descriptor.thread {
                    self.tracks[sequence.track].title = thread.thread_name;
                }
            }
            Some(PacketData::TrackEvent(event)) if event.kind == SLICE_BEGIN => {
                self.begin(packet.timestamp, &event, sequence);
            }
            Some(PacketData::TrackEvent(event)) if event.kind == SLICE_END => {
                self.end = self.end.max(packet.timestamp);
                if let Some(Some(index)) = sequence.open.pop() {
                    let slice = &mut self.tracks[sequence.track].slices[index];
                    slice.end = packet.timestamp.max(slice.start);
                }
            }
            _ => {}
        }
    }

    fn learn(&mut self, new: InternedData, sequence: &mut Sequence) {
        for category in new.event_categories {
            sequence.categories.insert(category.iid, self.kinds.intern(&category.name));
        }
        for name in new.event_names {
            sequence.names.insert(name.iid, self.names.intern(&name.name));
        }
        for line in new.source_locations {
            let text = format!("{}:{}", short_path(&line.file_name), line.line_number);
            sequence.lines.insert(line.iid, self.lines.intern(&text));
        }
        for argument in new.debug_annotation_names {
            sequence.arguments.insert(argument.iid, argument.name);
        }
    }

    fn begin(&mut self, start: u64, event: &TrackEvent, sequence: &mut Sequence) {
        self.events += 1;
        self.end = self.end.max(start);
        let depth = sequence.open.len();
        if depth >= LEVELS {
            self.too_deep += 1;
            sequence.open.push(None);
            return;
        }
        let mut line = sequence.lines.get(&event.source_location_iid).copied().unwrap_or(0);
        let mut bytes = 0;
        for argument in &event.debug_annotations {
            let name = sequence.arguments.get(&argument.name_iid).map_or("", String::as_str);
            match (name, &argument.value) {
                ("bytes", Some(AnnotationValue::Uint(count))) => bytes = *count,
                // Operations have their lines as an argument: they can have several.
                ("source", Some(AnnotationValue::Text(text))) if line == 0 => {
                    line = self.lines.intern(text);
                }
                _ => {}
            }
        }
        let unknown = || "unknown";
        let kind = sequence.categories.get(&event.category_iid).copied();
        let name = sequence.names.get(&event.name_iid).copied();
        let slices = &mut self.tracks[sequence.track].slices;
        sequence.open.push(Some(slices.len()));
        slices.push(Slice {
            start,
            end: start,
            depth: depth as u16,
            name: name.unwrap_or_else(|| self.names.intern(unknown())),
            kind: kind.unwrap_or_else(|| self.kinds.intern(unknown())),
            line,
            bytes,
        });
    }

    /// Returns the slices of one kind.
    pub(super) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Slice> {
        let number = self.kinds.numbers.get(kind).copied();
        let all = self.tracks.iter().flat_map(|track| &track.slices);
        all.filter(move |slice| Some(slice.kind) == number)
    }

    /// Returns the tracks of threads: those of operations are not work of the host.
    pub(super) fn host_tracks(&self) -> impl Iterator<Item = &Track> {
        let operation = self.kinds.numbers.get("operation").copied();
        let is_operation = move |slice: &Slice| Some(slice.kind) == operation;
        self.tracks.iter().filter(move |track| !track.slices.iter().all(is_operation))
    }

    /// Returns true if it has the operations of a step instead of the work of a host.
    pub(super) fn is_of_operations(&self) -> bool {
        self.of_kind("operation").next().is_some()
            && self.kinds.texts.iter().all(|kind| matches!(kind.as_str(), "operation" | "step"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{perfetto, recorded};

    fn example() -> Vec<u8> {
        let mut bytes = Vec::new();
        perfetto::write(&recorded::example(), &mut bytes).expect("writing to a vector");
        bytes
    }

    #[test]
    fn events_are_read_back() {
        let trace = HostTrace::read(&example()).expect("a trace");
        let titles: Vec<&str> = trace.tracks.iter().map(|track| track.title.as_str()).collect();
        assert_eq!(titles, ["main", "thread 2"]);
        let main: Vec<_> = trace.tracks[0]
            .slices
            .iter()
            .map(|slice| {
                let (name, kind) = (trace.names.text(slice.name), trace.kinds.text(slice.kind));
                (kind, name, slice.start, slice.end, slice.depth, slice.bytes)
            })
            .collect();
        let expected = [
            ("step", "train", 0, 9000, 0, 0),
            ("dispatch", "dispatch f", 1000, 3000, 1, 0),
            ("to_device", "to_device", 3000, 7000, 1, 64),
            ("dispatch", "dispatch f", 8000, 8500, 1, 0),
        ];
        assert_eq!(main, expected);
        assert!(trace.lines.text(trace.tracks[0].slices[1].line).contains("recorded.rs:"));
        assert_eq!((trace.events, trace.end), (5, 9000));
    }

    #[test]
    fn damaged_files_are_read_or_refused() {
        let bytes = example();
        for end in 0..bytes.len() {
            drop(HostTrace::read(&bytes[..end]));
        }
        for at in 0..bytes.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                if let Ok(trace) = HostTrace::read(&changed) {
                    let mut all = trace.tracks.iter().flat_map(|track| &track.slices);
                    assert!(all.all(|slice| slice.end >= slice.start));
                }
            }
        }
        assert!(HostTrace::read(b"not a trace").is_err());
    }
}
