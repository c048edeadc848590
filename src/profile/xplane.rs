//! The messages of XProf's file format: an `XSpace` has planes, one for each device and host, with
//! lines of events.
//!
//! Field numbers of `tsl/profiler/protobuf/xplane.proto` in <https://github.com/openxla/xla>.

use oxidax_proto::messages;

/// The plane of the threads of a host.
pub(super) const HOST_PLANE: &str = "/host:CPU";
/// The beginning of the names of planes of devices.
pub(super) const DEVICE_PLANES: &str = "/device:";
/// The stat with the line of the program, of our events and of XLA's.
pub(super) const SOURCE: &str = "source";

messages! {
    pub(super) struct XSpace {
        pub(super) planes: Vec<XPlane> = 1,
        pub(super) hostnames: Vec<Vec<u8>> = 4,
    }

    pub(super) struct XPlane {
        pub(super) id: i64 = 1,
        pub(super) name: String = 2,
        pub(super) lines: Vec<XLine> = 3,
        pub(super) event_metadata: Vec<EventMetadataEntry> = 4,
        pub(super) stat_metadata: Vec<StatMetadataEntry> = 5,
        pub(super) stats: Vec<XStat> = 6,
    }

    pub(super) struct XLine {
        pub(super) id: i64 = 1,
        pub(super) name: String = 2,
        /// The time to which the events' offsets are added.
        pub(super) timestamp_ns: i64 = 3,
        pub(super) events: Vec<XEvent> = 4,
        pub(super) duration_ps: i64 = 9,
        pub(super) display_id: i64 = 10,
        pub(super) display_name: String = 11,
    }

    pub(super) struct XEvent {
        pub(super) metadata_id: i64 = 1,
        pub(super) offset_ps: i64 = 2,
        pub(super) duration_ps: i64 = 3,
        pub(super) stats: Vec<XStat> = 4,
        /// Instead of an offset, for events that are only counted.
        pub(super) num_occurrences: i64 = 5,
    }

    pub(super) struct XStat {
        pub(super) metadata_id: i64 = 1,
        ; pub(super) value: Option<StatValue>
    }

    /// A reference is the id of stat metadata, whose name is the text.
    pub(super) oneof enum StatValue {
        Double(f64) = 2,
        Uint64(u64) = 3,
        Int64(i64) = 4,
        Text(String) = 5,
        Bytes(Vec<u8>) = 6,
        Reference(u64) = 7,
    }

    pub(super) struct EventMetadataEntry {
        pub(super) key: i64 = 1,
        pub(super) value: EventMetadata = 2,
    }

    pub(super) struct EventMetadata {
        pub(super) id: i64 = 1,
        pub(super) name: String = 2,
        pub(super) metadata: Vec<u8> = 3,
        pub(super) display_name: String = 4,
        /// Stats of all events with this metadata.
        pub(super) stats: Vec<XStat> = 5,
        pub(super) child_id: Vec<i64> = 6,
    }

    pub(super) struct StatMetadataEntry {
        pub(super) key: i64 = 1,
        pub(super) value: StatMetadata = 2,
    }

    pub(super) struct StatMetadata {
        pub(super) id: i64 = 1,
        pub(super) name: String = 2,
        pub(super) description: String = 3,
    }
}

impl XPlane {
    /// Returns the names of stats, by their ids.
    pub(super) fn stat_names(&self) -> rustc_hash::FxHashMap<i64, &str> {
        self.stat_metadata.iter().map(|entry| (entry.key, entry.value.name.as_str())).collect()
    }
}
