//! Compiled programs from disk, and to disk.
//!
//! Whatever goes wrong with the disk is logged, and the program is compiled: a cache fails no call.

use super::client::Runtime;
use crate::core::Error;
use crate::stablehlo::without_locations;
use oxidax_cache::{About, Key, Lookup, Put, Settings, Store};
use oxidax_pjrt::{CompileOptions, LoadedExecutable, Program, Signature};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

const TARGET: &str = "oxidax::cache";

/// What to compile.
pub(super) struct Request<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) options: CompileOptions,
    pub(super) signature: Signature,
    /// Whether what it compiles to may be kept.
    pub(super) may_be_kept: bool,
}

/// The settings in force, and the store that they open.
struct Disk {
    settings: Settings,
    store: Option<Store>,
    /// Whether it was said that the disk does not do what it should.
    complained: AtomicBool,
}

static DISK: RwLock<Option<Arc<Disk>>> = RwLock::new(None);

/// Programs on disk: what this process has had of them so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskStats {
    /// Programs that were loaded instead of compiled.
    pub hits: u64,
    /// Programs that were looked for and not there.
    pub misses: u64,
    /// Programs that were kept.
    pub kept: u64,
    /// Entries that were found damaged, or that the plugin refused; each was replaced.
    pub damaged: u64,
    /// Bytes of the programs that were loaded.
    pub bytes_read: u64,
    /// Bytes of the entries that were written.
    pub bytes_written: u64,
    /// What compiling the loaded programs took when they were kept, less what loading them took.
    pub saved: Duration,
    /// What finding and loading those programs took.
    pub load_time: Duration,
    /// What making keys, looking and keeping took where nothing was found: the price of the cache.
    pub overhead: Duration,
}

struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    kept: AtomicU64,
    damaged: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    saved_nanos: AtomicU64,
    load_nanos: AtomicU64,
    overhead_nanos: AtomicU64,
}

static COUNTERS: Counters = Counters {
    hits: AtomicU64::new(0),
    misses: AtomicU64::new(0),
    kept: AtomicU64::new(0),
    damaged: AtomicU64::new(0),
    bytes_read: AtomicU64::new(0),
    bytes_written: AtomicU64::new(0),
    saved_nanos: AtomicU64::new(0),
    load_nanos: AtomicU64::new(0),
    overhead_nanos: AtomicU64::new(0),
};

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn add_time(counter: &AtomicU64, time: Duration) {
    add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// What this process has had of the programs on disk.
pub(crate) fn disk_stats() -> DiskStats {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let time = |counter| Duration::from_nanos(read(counter));
    DiskStats {
        hits: read(&COUNTERS.hits),
        misses: read(&COUNTERS.misses),
        kept: read(&COUNTERS.kept),
        damaged: read(&COUNTERS.damaged),
        bytes_read: read(&COUNTERS.bytes_read),
        bytes_written: read(&COUNTERS.bytes_written),
        saved: time(&COUNTERS.saved_nanos),
        load_time: time(&COUNTERS.load_nanos),
        overhead: time(&COUNTERS.overhead_nanos),
    }
}

/// The settings in force: those of [`set_disk`], else the environment's.
///
/// # Errors
/// `Plugin` if a variable makes no sense.
pub(crate) fn disk_settings() -> Result<Settings, Error> {
    Ok(disk()?.settings.clone())
}

/// Sets where programs are kept from here on.
///
/// # Errors
/// `Io` for a folder that others own or can write.
pub(crate) fn set_disk(settings: Settings) -> Result<(), Error> {
    let store = Store::open(&settings).map_err(|error| Error::Io {
        path: settings.folder.clone().unwrap_or_default(),
        source: std::io::Error::new(std::io::ErrorKind::PermissionDenied, error.to_string()),
    })?;
    let disk = Disk::new(settings, store);
    *DISK.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(disk));
    Ok(())
}

/// SHA-256 of the file of the plugin that the process runs on.
///
/// # Errors
/// `Plugin` if it cannot be read.
pub(super) fn plugin_hash(runtime: &Runtime) -> Result<String, Error> {
    let disk = disk().ok();
    let store = disk.as_ref().and_then(|disk| disk.store.as_ref());
    runtime.identity.plugin_hash(store).map_err(|error| Error::Plugin(error.to_string()))
}

fn disk() -> Result<Arc<Disk>, Error> {
    if let Some(disk) = &*DISK.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(disk.clone());
    }
    let settings = Settings::from_env().map_err(|error| Error::Plugin(error.to_string()))?;
    let mut known = DISK.write().unwrap_or_else(PoisonError::into_inner);
    let disk = known.get_or_insert_with(|| {
        let (store, error) = match Store::open(&settings) {
            Ok(store) => (store, None),
            Err(error) => (None, Some(error)),
        };
        let disk = Disk::new(settings, store);
        error.iter().for_each(|error| disk.complain(error));
        Arc::new(disk)
    });
    Ok(disk.clone())
}

impl Disk {
    fn new(settings: Settings, store: Option<Store>) -> Disk {
        Disk { settings, store, complained: AtomicBool::new(false) }
    }

    /// Says once that the disk does not do what it should. The error names the file.
    fn complain(&self, error: &dyn std::fmt::Display) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: TARGET,
                %error,
                "compiled programs are not kept or found on disk; OXIDAX_CACHE names another folder, or `off`"
            );
        }
    }

    /// The key of a program, if programs of its kind are kept.
    fn key(&self, runtime: &Runtime, store: &Store, request: &Request<'_>) -> Option<Key> {
        let start = runtime.identity.key(&runtime.client, store);
        let mut key = start.inspect_err(|error| self.complain(error)).ok()?;
        key.part("compile options", &request.options.encode().ok()?);
        // Where the user's lines are changes nothing but what profiles show.
        key.pieces("program", without_locations(request.text).map(str::as_bytes));
        Some(key.finish())
    }

    /// The program under a key, if it is there and the plugin takes it.
    fn find(
        &self,
        runtime: &Runtime,
        store: &Store,
        key: &Key,
        request: &Request<'_>,
        start: Instant,
    ) -> Option<LoadedExecutable> {
        let damaged = |path: &std::path::Path, reason: &str| {
            add(&COUNTERS.damaged, 1);
            let (path, function) = (path.display(), request.name);
            tracing::warn!(target: TARGET, %path, function, reason, "not used, and compiled anew");
        };
        let entry = match store.get(key) {
            Ok(Lookup::Found(entry)) => entry,
            Ok(Lookup::Absent) => return None,
            Ok(Lookup::Damaged { path, reason }) => {
                damaged(&path, &reason);
                return None;
            }
            Err(error) => {
                self.complain(&error);
                return None;
            }
        };
        match runtime.client.load(entry.payload(), Some(request.signature.clone()), None) {
            Ok(loaded) => {
                let (took, compiling) = (start.elapsed(), entry.about.compile_time);
                add(&COUNTERS.hits, 1);
                add(&COUNTERS.bytes_read, entry.payload().len() as u64);
                add_time(&COUNTERS.load_nanos, took);
                add_time(&COUNTERS.saved_nanos, compiling.saturating_sub(took));
                let function = request.name;
                tracing::debug!(target: TARGET, function, %key, ?took, ?compiling, "loaded");
                Some(loaded)
            }
            Err(error) => {
                damaged(&store.path(key), &error.to_string());
                // If it cannot be deleted, the entry that is kept next takes its place.
                store.remove(key).ok();
                None
            }
        }
    }

    fn keep(&self, store: &Store, key: &Key, compiled: &LoadedExecutable, about: &About) {
        let function = &about.name;
        let payload = match compiled.executable().serialize() {
            Ok(payload) => payload,
            Err(error) => {
                tracing::debug!(target: TARGET, function, %error, "the plugin does not write it down");
                return;
            }
        };
        match store.put(key, about, &payload) {
            Ok(Put::Kept { bytes, evicted }) => {
                add(&COUNTERS.kept, 1);
                add(&COUNTERS.bytes_written, bytes);
                tracing::debug!(target: TARGET, function, %key, bytes, evicted, "kept");
            }
            Ok(outcome) => tracing::debug!(target: TARGET, function, ?outcome, "not kept"),
            Err(error) => self.complain(&error),
        }
    }
}

/// A program loaded from disk, or compiled and, if that took long enough, kept there; and whether it was loaded.
///
/// # Errors
/// The compiler's.
pub(super) fn executable(
    runtime: &Runtime,
    request: Request<'_>,
) -> oxidax_pjrt::Result<(LoadedExecutable, bool)> {
    let compile = |request: &Request<'_>| {
        let program = Program::mlir(request.text)?;
        let signature = request.signature.clone();
        runtime.client.compile_with_signature(&program, &request.options, signature)
    };
    // The variables made sense when the client was made.
    let disk = disk().ok().filter(|_| request.may_be_kept);
    let Some((disk, store)) = disk.as_ref().and_then(|disk| Some((disk, disk.store.as_ref()?)))
    else {
        return Ok((compile(&request)?, false));
    };
    let start = Instant::now();
    let Some(key) = disk.key(runtime, store, &request) else {
        return Ok((compile(&request)?, false));
    };
    if let Some(loaded) = disk.find(runtime, store, &key, &request, start) {
        return Ok((loaded, true));
    }
    add(&COUNTERS.misses, 1);
    add_time(&COUNTERS.overhead_nanos, start.elapsed());
    let start = Instant::now();
    let compiled = compile(&request)?;
    let compile_time = start.elapsed();
    if compile_time >= store.settings().min_compile {
        let start = Instant::now();
        let (name, platform) = (request.name.to_owned(), runtime.platform.clone());
        disk.keep(store, &key, &compiled, &About { name, platform, compile_time });
        add_time(&COUNTERS.overhead_nanos, start.elapsed());
    }
    Ok((compiled, false))
}
