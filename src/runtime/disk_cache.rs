//! The disk cache of compiled programs.
//!
//! Failures of the disk are logged and the program is compiled: a cache never fails a call, unless
//! the user has set `raise_persistent_cache_errors`.

use super::client::Runtime;
use crate::core::options::RAISE_CACHE_ERRORS;
use crate::core::{Error, monitoring};
use crate::stablehlo::without_locations;
use oxidax_cache::{About, CacheKey, Lookup, Put, Settings, Store};
use oxidax_pjrt::{CompileOptions, ExecutableSignature, LoadedExecutable, PjrtProgram};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
#[cfg(feature = "distributed")]
use {
    super::processes::voters,
    super::shared_programs::{Participant, SharedProgram, VotesFailed, load_or_compile},
    oxidax_cache::CacheKeyBuilder,
};

const TARGET: &str = "oxidax::cache";

/// A program to load from the cache or compile.
pub(super) struct Request<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) options: CompileOptions,
    pub(super) signature: ExecutableSignature,
    /// True if the compiled program may be stored.
    pub(super) cacheable: bool,
    /// True if the source lines in the compiled program must be those of this process.
    pub(super) keeps_locations: bool,
    /// The processes with devices of the program, sorted, if they are several.
    pub(super) processes: Vec<u32>,
}

/// The current settings, and the store that they open.
struct Disk {
    settings: Settings,
    store: Option<Store>,
    /// True once a failure of the disk has been logged.
    warned: AtomicBool,
}

thread_local! {
    /// The first failure of the disk while a program is compiled on this thread.
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps a failure of the disk for the program that is compiled on this thread.
fn keep_failure(text: impl FnOnce() -> String) {
    if RAISE_CACHE_ERRORS.get() {
        FAILURE.with_borrow_mut(|failure| _ = failure.get_or_insert_with(text));
    }
}

/// Returns the failure of the disk since the last call, if failures are errors.
pub(super) fn take_failure() -> Option<String> {
    FAILURE.take().filter(|_| RAISE_CACHE_ERRORS.get())
}

static DISK: RwLock<Option<Arc<Disk>>> = RwLock::new(None);

/// Use of the disk cache by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskCacheStats {
    /// Programs that were loaded instead of compiled.
    pub hits: u64,
    /// Programs that were not in the cache.
    pub misses: u64,
    /// Programs that were stored.
    pub stored: u64,
    /// Damaged entries, and entries that the plugin refused. Each was replaced.
    pub damaged: u64,
    /// Bytes of the programs that were loaded.
    pub bytes_read: u64,
    /// Bytes of the entries that were written.
    pub bytes_written: u64,
    /// Compile time of the loaded programs when they were stored, minus the time to load them.
    pub saved: Duration,
    /// Time to find and load those programs.
    pub load_time: Duration,
    /// Time for keys, lookups and storing of programs that were not found: the cost of the cache.
    pub overhead: Duration,
}

struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    stored: AtomicU64,
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
    stored: AtomicU64::new(0),
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

/// Returns the use of the disk cache by this process.
pub(crate) fn disk_stats() -> DiskCacheStats {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let time = |counter| Duration::from_nanos(read(counter));
    DiskCacheStats {
        hits: read(&COUNTERS.hits),
        misses: read(&COUNTERS.misses),
        stored: read(&COUNTERS.stored),
        damaged: read(&COUNTERS.damaged),
        bytes_read: read(&COUNTERS.bytes_read),
        bytes_written: read(&COUNTERS.bytes_written),
        saved: time(&COUNTERS.saved_nanos),
        load_time: time(&COUNTERS.load_nanos),
        overhead: time(&COUNTERS.overhead_nanos),
    }
}

/// Returns the settings of [`set_disk`], or else of the environment.
///
/// # Errors
/// `Plugin` if a variable is invalid.
pub(crate) fn disk_settings() -> Result<Settings, Error> {
    Ok(disk()?.settings.clone())
}

/// Sets the disk cache of this process.
///
/// # Errors
/// `Io` for a folder that other users own or can write.
pub(crate) fn set_disk(settings: Settings) -> Result<(), Error> {
    let store = Store::open(&settings).map_err(|error| {
        let denied = std::io::ErrorKind::PermissionDenied;
        let source = std::io::Error::new(denied, error.to_string());
        Error::io(settings.folder.clone().unwrap_or_default(), source)
    })?;
    let disk = Disk::new(settings, store);
    *DISK.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(disk));
    Ok(())
}

/// Returns the SHA-256 digest of the file of a client's plugin.
///
/// # Errors
/// `Plugin` if it cannot be read.
pub(super) fn plugin_hash(runtime: &Runtime) -> Result<String, Error> {
    let disk = disk().ok();
    let store = disk.as_ref().and_then(|disk| disk.store.as_ref());
    runtime.cache_key.plugin_hash(store).map_err(|error| Error::Plugin(error.to_string()))
}

fn disk() -> Result<Arc<Disk>, Error> {
    if let Some(disk) = &*DISK.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(disk.clone());
    }
    let settings = Settings::from_env().map_err(|error| Error::Plugin(error.to_string()))?;
    let mut current = DISK.write().unwrap_or_else(PoisonError::into_inner);
    let disk = current.get_or_insert_with(|| {
        let (store, error) = match Store::open(&settings) {
            Ok(store) => (store, None),
            Err(error) => (None, Some(error)),
        };
        let disk = Disk::new(settings, store);
        error.iter().for_each(|error| disk.warn(error));
        Arc::new(disk)
    });
    Ok(disk.clone())
}

impl Disk {
    fn new(settings: Settings, store: Option<Store>) -> Disk {
        Disk { settings, store, warned: AtomicBool::new(false) }
    }

    /// Logs the first failure of the disk. The error names the file.
    fn warn(&self, error: &dyn std::fmt::Display) {
        keep_failure(|| error.to_string());
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: TARGET,
                %error,
                "compiled programs are not stored on disk; OXIDAX_CACHE names another folder, or \
                 `off`"
            );
        }
    }

    /// Returns the key of a program; `None` if it cannot be cached.
    fn key(&self, runtime: &Runtime, store: &Store, request: &Request<'_>) -> Option<CacheKey> {
        let start = runtime.cache_key.builder(&runtime.client, store);
        let mut key = start.inspect_err(|error| self.warn(error)).ok()?;
        let count = super::process_count();
        let of = match &request.processes[..] {
            // Programs of one process are for its own devices.
            [] => format!("{} of {count}", super::process_index()),
            // The processes of a program load what one of them has stored.
            several => format!("{several:?} of {count}"),
        };
        key.part("process", of.as_bytes());
        key.part("compile options", &request.options.encode().ok()?);
        // Source locations only change what profiles show, except inside `no_collectives`.
        if request.keeps_locations {
            key.part("locations", request.text.as_bytes());
        }
        key.pieces("program", without_locations(request.text).map(str::as_bytes));
        Some(key.finish())
    }

    /// Loads the program with this key, if it is stored and the plugin accepts it.
    fn find(
        &self,
        runtime: &Runtime,
        store: &Store,
        key: &CacheKey,
        request: &Request<'_>,
        start: Instant,
    ) -> Option<LoadedExecutable> {
        let damaged = |path: &std::path::Path, reason: &str| {
            add(&COUNTERS.damaged, 1);
            keep_failure(|| format!("{} is damaged: {reason}", path.display()));
            let (path, function) = (path.display(), request.name);
            let message = "entry not used; the program is compiled again";
            tracing::warn!(target: TARGET, %path, function, reason, message);
        };
        let entry = match store.get(key) {
            Ok(Lookup::Found(entry)) => entry,
            Ok(Lookup::Absent) => return None,
            Ok(Lookup::Damaged { path, reason }) => {
                damaged(&path, &reason);
                return None;
            }
            Err(error) => {
                self.warn(&error);
                return None;
            }
        };
        match runtime.client.load(entry.payload(), Some(request.signature.clone()), None) {
            Ok(loaded) => {
                let (took, compiling) = (start.elapsed(), entry.about.compile_time);
                add(&COUNTERS.hits, 1);
                monitoring::record_event_of("/oxidax/cache/hits", request.name);
                add(&COUNTERS.bytes_read, entry.payload().len() as u64);
                add_time(&COUNTERS.load_nanos, took);
                add_time(&COUNTERS.saved_nanos, compiling.saturating_sub(took));
                let function = request.name;
                tracing::debug!(target: TARGET, function, %key, ?took, ?compiling, "loaded");
                Some(loaded)
            }
            Err(error) => {
                damaged(&store.path(key), &error.to_string());
                // An entry that cannot be deleted is replaced by the next one stored.
                store.remove(key).ok();
                None
            }
        }
    }

    /// Stores a compiled program.
    fn store_program(
        &self,
        store: &Store,
        key: &CacheKey,
        compiled: &LoadedExecutable,
        about: &About,
    ) {
        let function = &about.name;
        let payload = match compiled.executable().serialize() {
            Ok(payload) => payload,
            Err(error) => {
                tracing::debug!(target: TARGET, function, %error, "the plugin cannot serialize it");
                return;
            }
        };
        match store.put(key, about, &payload) {
            Ok(Put::Kept { bytes, evicted }) => {
                add(&COUNTERS.stored, 1);
                add(&COUNTERS.bytes_written, bytes);
                tracing::debug!(target: TARGET, function, %key, bytes, evicted, "stored");
            }
            Ok(outcome) => tracing::debug!(target: TARGET, function, ?outcome, "not stored"),
            Err(error) => self.warn(&error),
        }
    }
}

/// Loads a program from disk, or compiles it and, if that took long enough, stores it. The flag
/// is true if it was loaded.
///
/// # Errors
/// Errors of the compiler.
pub(super) fn compile_or_load(
    runtime: &Runtime,
    request: Request<'_>,
) -> oxidax_pjrt::Result<(LoadedExecutable, bool)> {
    #[cfg(feature = "distributed")]
    if request.cacheable && !request.processes.is_empty() {
        return compile_or_load_together(runtime, &request);
    }
    let compile = |request: &Request<'_>| compile(runtime, request);
    // Invalid variables were reported when the client was created.
    let disk = disk().ok().filter(|_| request.cacheable && request.processes.is_empty());
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
    monitoring::record_event_of("/oxidax/cache/misses", request.name);
    add_time(&COUNTERS.overhead_nanos, start.elapsed());
    let start = Instant::now();
    let compiled = compile(&request)?;
    let compile_time = start.elapsed();
    if compile_time >= store.settings().min_compile {
        let start = Instant::now();
        let (name, platform) = (request.name.to_owned(), runtime.platform.to_string());
        disk.store_program(store, &key, &compiled, &About { name, platform, compile_time });
        add_time(&COUNTERS.overhead_nanos, start.elapsed());
    }
    Ok((compiled, false))
}

fn compile(runtime: &Runtime, request: &Request<'_>) -> oxidax_pjrt::Result<LoadedExecutable> {
    let program = PjrtProgram::mlir(request.text)?;
    let signature = request.signature.clone();
    runtime.client.compile_with_signature(&program, &request.options, signature)
}

/// A program over the devices of several processes, and this process's cache.
#[cfg(feature = "distributed")]
struct ProgramOfProcesses<'a> {
    runtime: &'a Runtime,
    request: &'a Request<'a>,
    disk: Option<Arc<Disk>>,
    key: Option<CacheKey>,
    compile_time: Duration,
}

#[cfg(feature = "distributed")]
impl ProgramOfProcesses<'_> {
    fn store_and_key(&self) -> Option<(&Disk, &Store, &CacheKey)> {
        let disk = self.disk.as_ref()?;
        Some((disk, disk.store.as_ref()?, self.key.as_ref()?))
    }
}

#[cfg(feature = "distributed")]
impl SharedProgram for ProgramOfProcesses<'_> {
    type Loaded = LoadedExecutable;
    type Failure = oxidax_pjrt::Error;

    fn load(&mut self) -> Option<LoadedExecutable> {
        let (disk, store, key) = self.store_and_key()?;
        disk.find(self.runtime, store, key, self.request, Instant::now())
    }

    fn compile(&mut self) -> oxidax_pjrt::Result<LoadedExecutable> {
        if self.key.is_some() {
            add(&COUNTERS.misses, 1);
            monitoring::record_event_of("/oxidax/cache/misses", self.request.name);
        }
        let start = Instant::now();
        let compiled = compile(self.runtime, self.request)?;
        self.compile_time = start.elapsed();
        Ok(compiled)
    }

    fn store(&mut self, compiled: &LoadedExecutable) {
        let Some((disk, store, key)) = self.store_and_key() else { return };
        if self.compile_time < store.settings().min_compile {
            return;
        }
        let start = Instant::now();
        let about = About {
            name: self.request.name.to_owned(),
            platform: self.runtime.platform.to_string(),
            compile_time: self.compile_time,
        };
        disk.store_program(store, key, compiled, &about);
        add_time(&COUNTERS.overhead_nanos, start.elapsed());
    }
}

/// Loads or compiles a program together with the other processes that run it.
#[cfg(feature = "distributed")]
fn compile_or_load_together(
    runtime: &Runtime,
    request: &Request<'_>,
) -> oxidax_pjrt::Result<(LoadedExecutable, bool)> {
    static FAILED: VotesFailed = VotesFailed::new();
    let Some(voters) = voters(&request.processes) else {
        return Ok((compile(runtime, request)?, false));
    };
    let disk = disk().ok();
    let store = disk.as_ref().and_then(|disk| disk.store.as_ref());
    let key = disk.as_ref().zip(store).and_then(|(disk, store)| disk.key(runtime, store, request));
    let folder = store.and_then(|store| {
        let identity = store.identity();
        identity.inspect_err(|error| disk.iter().for_each(|disk| disk.warn(error))).ok()
    });
    let cache = key.as_ref().map(CacheKey::to_string).zip(folder);
    // Equal in all processes, also if their plugins or settings differ.
    let mut topic = CacheKeyBuilder::new();
    topic.part("compile options", &request.options.encode().unwrap_or_default());
    topic.pieces("program", without_locations(request.text).map(str::as_bytes));
    let participant = Participant {
        index: super::process_index() as u32,
        members: &request.processes,
        topic: &format!("program {}", topic.finish()),
        cache,
    };
    let mut program = ProgramOfProcesses {
        runtime,
        request,
        disk: disk.clone(),
        key,
        compile_time: Duration::ZERO,
    };
    load_or_compile(&participant, &voters, &FAILED, &mut program)
}
