//! Keeping the items of the first epoch in a file.

use crate::core::Error;
use crate::data::cacheable::Cacheable;
use crate::data::files::{File, io_error, storage_error};
use crate::data::formats::{TfRecordWriter, TfRecords};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, RecordOrigin, catch_errors};
use crate::data::position::{Cursor, Position, refused};
use crate::data::source::Source;
use crate::data::stream::{BoxedStage, Stage, Stream};
use oxidax_storage::Location;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NAME: &str = "cache_on_disk";
/// First byte of each record of a cache file.
const HEADER: u8 = 0;
const ITEM: u8 = 1;
const FOOTER: u8 = 2;
/// Age from which an unlocked temporary file is a leftover of a process that was killed.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

impl<T: Cacheable + Send + 'static> Stream<T> {
    /// Keeps the items in a file. Later epochs, and later runs of the program, read them from there
    /// instead of reading and decoding the data again.
    ///
    /// The file belongs to one pipeline: it stores `version`, the type of the items, and the
    /// upstream stages with their seeds, sizes and shards. If any of these differ, or the file was
    /// cut short or damaged, it is built again. Changes of the data and of closures are not
    /// noticed: change `version` with them.
    ///
    /// The file is written under a temporary name and renamed when it is complete. Processes that
    /// build it at the same time write a file each, and the last one to finish replaces it; those
    /// that read the replaced file read on. An epoch that is not read to its end, or that contains
    /// an error, is not stored: call [`Stream::on_error`] before this stage to skip bad records.
    ///
    /// All epochs have the order of the first: shuffle after this stage. A position stores the
    /// number of items. [`Stream::resume`] reads the remaining items from the file, or the data
    /// from the start if the file is missing.
    ///
    /// # Errors
    /// As an item: [`Error::Io`] if the file cannot be created, opened or renamed, or `path` is an
    /// address in an object store. The stream goes on without it. If the disk becomes full, the
    /// stream goes on with a `tracing` warning.
    ///
    /// ```
    /// use oxidax::data::Stream;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("tokens.cache");
    /// let tokens = |text: String| Ok(text.bytes().map(u32::from).collect::<Vec<u32>>());
    /// let texts = || Stream::from_generator(|_| ["one", "two"].map(|text| Ok(text.to_owned())));
    /// let first = texts().map(tokens).cache_on_disk(&path, "bytes v1");
    /// assert_eq!(first.count(), 2);
    ///
    /// // Another run: no text is tokenized.
    /// let never = |_: String| -> Result<Vec<u32>, _> { unreachable!() };
    /// let again = texts().map(never).cache_on_disk(&path, "bytes v1");
    /// assert_eq!(again.collect::<Result<Vec<_>, _>>()?[0], [111, 110, 101]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn cache_on_disk(self, path: impl AsRef<Path>, version: &str) -> Stream<T> {
        let path = path.as_ref().to_path_buf();
        self.through(|upstream, instruments| {
            let mut start = Position::default();
            upstream.position(&mut start);
            DiskCache {
                fingerprint: fingerprint::<T>(version, &start),
                upstream,
                start,
                advanced: false,
                path,
                state: State::Closed,
                next: 0,
                pulled: 0,
                meter: instruments.stage("cache", Work::Source, 1),
            }
        })
    }
}

/// Describes the pipeline whose items a file has.
fn fingerprint<T>(version: &str, start: &Position) -> Vec<u8> {
    let stages = serde_json::to_value(start).unwrap_or_default();
    let items = std::any::type_name::<T>();
    let text = serde_json::json!({ "version": version, "items": items, "stages": stages });
    format!("oxidax cache 1\n{text}").into_bytes()
}

struct DiskCache<T> {
    upstream: BoxedStage<T>,
    /// The upstream position before the first item.
    start: Position,
    /// True if upstream has moved from `start`.
    advanced: bool,
    path: PathBuf,
    fingerprint: Vec<u8>,
    state: State,
    /// Items yielded in this epoch.
    next: u64,
    /// Items and errors yielded in this epoch.
    pulled: u64,
    meter: Arc<Meter>,
}

enum State {
    /// The file has not been looked for.
    Closed,
    /// The file is valid.
    Reading(TfRecords),
    /// The file is being written.
    Writing(Box<Writer>),
    /// This epoch is not stored.
    Uncached,
    /// The file was written, and this epoch has ended.
    Written,
}

impl<T: Cacheable + Send> DiskCache<T> {
    /// Opens the file, or begins to write it.
    fn open(&mut self) -> Result<(), Error> {
        self.state = State::Uncached;
        self.path = local(&self.path)?;
        let existing = opened(&self.path, &self.fingerprint);
        if let Ok(Some(records)) = existing {
            self.state = State::Reading(records);
            return Ok(());
        }
        if self.advanced {
            self.upstream.seek(&mut self.start.cursor())?;
            self.advanced = false;
        }
        existing?;
        self.state = State::Writing(Box::new(Writer::create(&self.path, &self.fingerprint)?));
        Ok(())
    }

    fn read(&self, records: &TfRecords) -> Result<Item<T>, Error> {
        // The first record is the header.
        let bytes = records.get(self.next as usize + 1)?;
        let origin = Source::origin(records, self.next as usize + 1);
        catch_errors("cache", origin.as_ref(), || {
            let mut rest = &bytes[1..];
            let origin = RecordOrigin::decode(&mut rest)?;
            let value = T::decode(&mut rest)?;
            if rest.is_empty() {
                Ok(Item { value, origin })
            } else {
                let message = format!("an item ends {} bytes before its record", rest.len());
                Err(Error::data("cache", message))
            }
        })
    }

    /// Pulls an item from upstream and writes it.
    fn pull(&mut self) -> Next<T> {
        self.advanced = true;
        let Some(item) = self.upstream.next() else {
            return match std::mem::replace(&mut self.state, State::Written) {
                State::Writing(writer) => writer.finish(&self.path).err().map(Err),
                other => {
                    self.state = other;
                    None
                }
            };
        };
        self.pulled += 1;
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                // Later epochs read the data again, and return this error again.
                self.state = State::Uncached;
                return Some(Err(error));
            }
        };
        self.next += 1;
        if let State::Writing(writer) = &mut self.state
            && let Err(error) = writer.write(&item)
        {
            tracing::warn!(%error, "the cache file cannot be written");
            self.state = State::Uncached;
        }
        Some(Ok(item))
    }
}

impl<T: Cacheable + Send> Stage<T> for DiskCache<T> {
    fn next(&mut self) -> Next<T> {
        if matches!(self.state, State::Closed)
            && let Err(error) = self.open()
        {
            return Some(Err(error));
        }
        match &self.state {
            State::Reading(records) => {
                // Without the header and the footer.
                let items = records.len() as u64 - 2;
                if self.next >= items {
                    return None;
                }
                let item = self.meter.time(|| self.read(records));
                self.next += 1;
                self.pulled += 1;
                Some(item)
            }
            State::Written => None,
            State::Closed | State::Writing(_) | State::Uncached => self.pull(),
        }
    }

    fn position(&self, position: &mut Position) {
        position.push(NAME, &[self.next, self.pulled]);
        position.extend(&self.start);
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let [next, pulled] = cursor.take(NAME, &[])?;
        self.upstream.seek(cursor)?;
        self.start = Position::default();
        self.upstream.position(&mut self.start);
        (self.next, self.pulled, self.advanced) = (0, 0, false);
        self.state = State::Closed;
        if pulled == 0 && next == 0 {
            return Ok(());
        }
        self.open()?;
        if let State::Reading(records) = &self.state {
            let items = records.len() as u64 - 2;
            if next > items {
                return Err(refused(format!(
                    "the data has changed: {next} items had been read, the cache file has {items}"
                )));
            }
            (self.next, self.pulled) = (next, pulled);
            return Ok(());
        }
        while self.pulled < pulled {
            // An error was returned before.
            if self.pull().is_none() {
                break;
            }
        }
        if (self.next, self.pulled) == (next, pulled) {
            Ok(())
        } else {
            Err(refused(format!(
                "the data has changed: {next} items had been read, now there are {}",
                self.next
            )))
        }
    }

    fn restart(&mut self, _epoch: u64) -> Result<(), Error> {
        (self.next, self.pulled) = (0, 0);
        if !matches!(self.state, State::Reading(_)) {
            self.state = State::Closed;
        }
        Ok(())
    }
}

/// Opens the cache file if it belongs to the pipeline, and is complete and undamaged.
fn opened(path: &Path, fingerprint: &[u8]) -> Result<Option<TfRecords>, Error> {
    let records = match TfRecords::verified(File::from(path)) {
        Ok(records) => records,
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => match fs::File::open(path) {
            // It cannot be read at all.
            Err(source) => return Err(io_error(path, source)),
            Ok(_) => {
                tracing::warn!(%error, "the cache file is damaged and is built again");
                return Ok(None);
            }
        },
    };
    let count = records.len();
    if count < 2 {
        tracing::warn!(path = %path.display(), "the cache file is cut short and is built again");
        return Ok(None);
    }
    let (header, footer) = (records.get(0)?, records.get(count - 1)?);
    if header.split_first() != Some((&HEADER, fingerprint)) {
        tracing::warn!(path = %path.display(), "another pipeline's cache file is replaced");
        return Ok(None);
    }
    let complete = (count as u64 - 2).to_le_bytes();
    if footer.split_first() != Some((&FOOTER, &complete[..])) {
        tracing::warn!(path = %path.display(), "the cache file is cut short and is built again");
        return Ok(None);
    }
    Ok(Some(records))
}

/// Returns the path of a cache file, which may be a `file://` address.
fn local(path: &Path) -> Result<PathBuf, Error> {
    match Location::parse(path).map_err(storage_error)? {
        Location::Local(path) => Ok(path),
        Location::Object { .. } => {
            let message = "a cache must be a file on a disk, because its items are read in small \
                           parts and it is renamed when it is complete\n  help: use a path, or \
                           `cache()`";
            Err(io_error(path, io::Error::new(io::ErrorKind::Unsupported, message)))
        }
    }
}

/// A cache file under a temporary name. Dropping it removes the file.
struct Writer {
    temporary: PathBuf,
    records: Option<TfRecordWriter>,
    items: u64,
    buffer: Vec<u8>,
}

impl Writer {
    fn create(path: &Path, fingerprint: &[u8]) -> Result<Writer, Error> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| io_error(folder, error))?;
        }
        remove_leftovers(path);
        let (file, temporary) = loop {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}{}.{number}", prefix(path), std::process::id());
            let temporary = path.with_file_name(name);
            match fs::OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => break (file, temporary),
                // A process of another host, or of an earlier boot, had the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error(&temporary, error)),
            }
        };
        // Only `remove_leftovers` asks for the lock. Some file systems have none.
        drop(file.try_lock());
        let records = TfRecordWriter::over(&temporary, file);
        let mut writer = Writer { temporary, records: Some(records), items: 0, buffer: Vec::new() };
        writer.record(|buffer| {
            buffer.push(HEADER);
            buffer.extend_from_slice(fingerprint);
        })?;
        Ok(writer)
    }

    fn record(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.buffer.clear();
        fill(&mut self.buffer);
        match &mut self.records {
            Some(records) => records.write(&self.buffer),
            None => Ok(()),
        }
    }

    fn write<T: Cacheable>(&mut self, item: &Item<T>) -> Result<(), Error> {
        self.items += 1;
        self.record(|buffer| {
            buffer.push(ITEM);
            RecordOrigin::encode(item.origin.as_ref(), buffer);
            item.value.encode(buffer);
        })
    }

    /// Completes the file and gives it its name.
    fn finish(mut self, path: &Path) -> Result<(), Error> {
        let items = self.items;
        self.record(|buffer| {
            buffer.push(FOOTER);
            buffer.extend_from_slice(&items.to_le_bytes());
        })?;
        let Some(records) = self.records.take() else { return Ok(()) };
        // The contents reach the disk before the name does.
        records.finish_synced()?;
        fs::rename(&self.temporary, path).map_err(|error| io_error(path, error))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| io_error(folder, error))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After `finish` the file has another name.
        drop(fs::remove_file(&self.temporary));
    }
}

/// Returns the start of the names of a cache's temporary files.
fn prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.partial.")
}

/// Removes temporary files whose process was killed: old, and not locked.
fn remove_leftovers(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return };
    let prefix = prefix(path);
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > LEFTOVER_AGE)
            && let Ok(file) = fs::File::open(entry.path())
            && file.try_lock().is_ok()
        {
            drop(fs::remove_file(entry.path()));
        }
    }
}
