//! [`PluginSpace`]: what the profiler of a plugin recorded, of devices and of the plugin's threads.

use super::recorded::DeviceEvents;
use super::xplane::{
    DEVICE_PLANES, EventMetadata, HOST_PLANE, SOURCE, StatValue, XLine, XPlane, XStat,
};
use crate::core::Loc;
use crate::core::spans::{ArgumentValue, EventArgument, EventKind, EventName, ProfileEvent};
use oxidax_proto::{DecodeError, Message, WireValue, raw_fields};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The planes that the profiler of a plugin recorded. Times are nanoseconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct PluginSpace {
    /// The plane of the plugin's own threads.
    pub(super) host: Option<XPlane>,
    /// The planes of devices.
    pub(super) devices: Vec<XPlane>,
    /// Other planes, such as that of the programs: the encoded messages.
    pub(super) other: Vec<Vec<u8>>,
}

/// Stats of operations that become arguments of events, with our names.
const ARGUMENTS: [(&str, &str); 7] = [
    (SOURCE, SOURCE),
    ("tf_op", "op_name"),
    ("hlo_op", "hlo_op"),
    ("hlo_module", "hlo_module"),
    ("hlo_category", "hlo_category"),
    ("flops", "flops"),
    ("bytes_accessed", "bytes accessed"),
];

impl PluginSpace {
    /// Reads a serialized `XSpace` of a profile that started `started` nanoseconds after 1970.
    pub(super) fn decode(space: &[u8], started: u64) -> Result<PluginSpace, DecodeError> {
        let mut read = PluginSpace { host: None, devices: Vec::new(), other: Vec::new() };
        for field in raw_fields(space)? {
            let (1, WireValue::Bytes(bytes)) = (field.number, field.value) else { continue };
            let name = plane_name(bytes)?;
            if name == HOST_PLANE.as_bytes() || name.starts_with(DEVICE_PLANES.as_bytes()) {
                let mut plane = XPlane::decode(bytes)?;
                plane.lines.iter_mut().for_each(|line| since_1970(line, started));
                match plane.name.as_str() {
                    HOST_PLANE if read.host.is_none() => read.host = Some(plane),
                    HOST_PLANE => read.other.push(plane.encode_to_vec()),
                    _ => read.devices.push(plane),
                }
            } else {
                read.other.push(bytes.to_vec());
            }
        }
        Ok(read)
    }

    /// Returns the events of each line of each device, in nanoseconds since `started`.
    pub(super) fn device_events(&self, started: u64) -> Vec<DeviceEvents> {
        let mut found = Vec::new();
        for plane in &self.devices {
            let reader = Reader::of(plane, started);
            for line in plane.lines.iter().filter(|line| !line.events.is_empty()) {
                let device = plane.name.trim_start_matches(DEVICE_PLANES).to_owned();
                let events = reader.events(line);
                found.push(DeviceEvents { device, line: line.name.clone(), events });
            }
        }
        found
    }
}

fn plane_name(plane: &[u8]) -> Result<&[u8], DecodeError> {
    let name = raw_fields(plane)?.into_iter().rfind(|field| field.number == 2);
    Ok(match name.map(|field| field.value) {
        Some(WireValue::Bytes(name)) => name,
        _ => &[],
    })
}

/// Changes the time of a line to one since 1970. Some profilers count it from the start of the
/// profile, which is then much smaller.
fn since_1970(line: &mut XLine, started: u64) {
    let started = i64::try_from(started).unwrap_or(i64::MAX);
    if line.timestamp_ns < started / 2 {
        line.timestamp_ns = line.timestamp_ns.saturating_add(started);
    }
}

/// Reads the events of a plane.
struct Reader<'p> {
    started: u64,
    stat_names: FxHashMap<i64, &'p str>,
    metadata: FxHashMap<i64, (&'p EventMetadata, EventName)>,
}

impl<'p> Reader<'p> {
    fn of(plane: &'p XPlane, started: u64) -> Reader<'p> {
        let name = |value: &EventMetadata| {
            let shown = &value.display_name;
            EventName::from(Arc::from(if shown.is_empty() { &*value.name } else { &**shown }))
        };
        let metadata = plane.event_metadata.iter();
        let metadata = metadata.map(|entry| (entry.key, (&entry.value, name(&entry.value))));
        Reader { started, stat_names: plane.stat_names(), metadata: metadata.collect() }
    }

    fn events(&self, line: &XLine) -> Vec<ProfileEvent> {
        let begin = i128::from(line.timestamp_ns) - i128::from(self.started);
        let each = line.events.iter().map(|event| {
            let start = begin + i128::from(event.offset_ps / 1000);
            let metadata = self.metadata.get(&event.metadata_id);
            let shared = metadata.map_or(&[][..], |(metadata, _)| &metadata.stats);
            ProfileEvent {
                kind: EventKind::Operation,
                name: metadata.map_or(EventName::from(""), |(_, name)| name.clone()),
                loc: Loc::UNKNOWN,
                start_nanos: u64::try_from(start.max(0)).unwrap_or(u64::MAX),
                duration_nanos: u64::try_from(event.duration_ps / 1000).unwrap_or(0),
                arguments: event
                    .stats
                    .iter()
                    .chain(shared)
                    .filter_map(|s| self.argument(s))
                    .collect(),
            }
        });
        let mut events: Vec<ProfileEvent> = each.collect();
        events.sort_by_key(|event| (event.start_nanos, u64::MAX - event.duration_nanos));
        events
    }

    fn argument(&self, stat: &XStat) -> Option<EventArgument> {
        let known = self.stat_names.get(&stat.metadata_id)?;
        let (_, name) = ARGUMENTS.iter().find(|(theirs, _)| theirs == known)?;
        let value = match stat.value.as_ref()? {
            StatValue::Double(value) => ArgumentValue::Float(*value),
            StatValue::Uint64(value) => ArgumentValue::Count(*value),
            StatValue::Int64(value) => ArgumentValue::Int(*value),
            StatValue::Text(text) => text.clone().into(),
            StatValue::Reference(id) => {
                let text = self.stat_names.get(&i64::try_from(*id).ok()?)?;
                (*text).to_owned().into()
            }
            StatValue::Bytes(_) => return None,
        };
        Some((name, value))
    }
}

/// Returns a space with two operations of a TPU, and with work of the plugin on two threads.
#[cfg(test)]
pub(super) fn example(started: u64) -> Vec<u8> {
    use super::xplane::{EventMetadataEntry, StatMetadata, StatMetadataEntry, XEvent, XSpace};
    let stat_metadata = |names: &[&str]| -> Vec<StatMetadataEntry> {
        let entry = |(key, name): (i64, &&str)| StatMetadataEntry {
            key,
            value: StatMetadata { id: key, name: (*name).to_owned(), ..StatMetadata::default() },
        };
        (1..).zip(names).map(entry).collect()
    };
    let metadata = |key, name: &str, display_name: &str, stats| EventMetadataEntry {
        key,
        value: EventMetadata {
            id: key,
            name: name.to_owned(),
            display_name: display_name.to_owned(),
            stats,
            ..EventMetadata::default()
        },
    };
    let stat = |metadata_id, value| XStat { metadata_id, value: Some(value) };
    let event = |metadata_id, offset_ps, duration_ps, stats| XEvent {
        metadata_id,
        offset_ps,
        duration_ps,
        stats,
        num_occurrences: 0,
    };
    let device = XPlane {
        id: 9,
        name: "/device:TPU:0".to_owned(),
        lines: vec![XLine {
            id: 2,
            name: "XLA Ops".to_owned(),
            // From the start of the profile.
            timestamp_ns: 1_000,
            events: vec![
                event(1, 2_000_000, 500_000, vec![]),
                event(2, 1_000_000, 3_000_000, vec![stat(4, StatValue::Uint64(7))]),
            ],
            ..XLine::default()
        }],
        event_metadata: vec![
            metadata(
                1,
                "%fusion.1 = f32[8] fusion(…)",
                "fusion.1",
                vec![
                    stat(1, StatValue::Reference(5)),
                    stat(2, StatValue::Double(256.0)),
                    stat(3, StatValue::Text("f/encoder/tanh".to_owned())),
                ],
            ),
            metadata(2, "%while.2 = (s32[]) while(…)", "", vec![]),
        ],
        stat_metadata: stat_metadata(&["source", "flops", "tf_op", "occupancy", "src/main.rs:3"]),
        ..XPlane::default()
    };
    let host_line = |id, name: &str, later, events| XLine {
        id,
        name: name.to_owned(),
        timestamp_ns: i64::try_from(started).expect("in range") + later,
        events,
        ..XLine::default()
    };
    let host = XPlane {
        id: 1,
        name: HOST_PLANE.to_owned(),
        lines: vec![
            host_line(
                4711,
                "main/4711",
                1_500,
                vec![event(1, 0, 100_000, vec![stat(1, StatValue::Reference(2))])],
            ),
            host_line(4712, "compiler/4712", 0, vec![event(1, 5_000, 1_000, vec![])]),
            host_line(4713, "empty", 0, vec![]),
        ],
        event_metadata: vec![metadata(1, "TpuExecute", "", vec![])],
        stat_metadata: stat_metadata(&["module", "main.5"]),
        ..XPlane::default()
    };
    let programs = XPlane { id: 3, name: "/host:metadata".to_owned(), ..XPlane::default() };
    XSpace { planes: vec![programs, device, host], hostnames: Vec::new() }.encode_to_vec()
}

/// Returns a profile with the events of [`example`].
#[cfg(test)]
pub(crate) fn recorded_example() -> super::Profile {
    let profile = super::recorded::example();
    let space = example(profile.started_unix_nanos());
    profile.with_plugins(vec![crate::runtime::PluginRecording { plugin: "libtpu.so", space }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_devices_have_lines_and_work() {
        let space = PluginSpace::decode(&example(1_500_000_000), 1_500_000_000).expect("a space");
        assert_eq!((space.devices.len(), space.other.len(), space.host.is_some()), (1, 1, true));
        let found = space.device_events(1_500_000_000);
        let [operations] = &found[..] else { panic!("{found:?}") };
        assert_eq!(operations.title(), "TPU:0 XLA Ops");
        assert!(operations.has_operations());
        let shown = operations.events.iter().map(|event| {
            let arguments = event.arguments.iter().map(|(name, value)| format!("{name}={value}"));
            let arguments = arguments.collect::<Vec<_>>().join(" ");
            (event.name.as_str(), event.start_nanos, event.duration_nanos, arguments)
        });
        let expected = [
            ("%while.2 = (s32[]) while(…)", 2_000, 3_000, String::new()),
            (
                "fusion.1",
                3_000,
                500,
                "source=src/main.rs:3 flops=256 op_name=f/encoder/tanh".into(),
            ),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn damaged_spaces_are_errors() {
        let space = example(1_500_000_000);
        for end in 0..space.len() {
            // A cut between two planes is a space with fewer of them.
            drop(PluginSpace::decode(&space[..end], 0));
        }
        PluginSpace::decode(&space[..space.len() - 1], 0).expect_err("it ends too early");
        PluginSpace::decode(&[0x0a, 3, 0x1a, 9, 0], 0).expect_err("a line ends too late");
    }
}
