//! Calls of host functions through transfers between device and host, for platforms whose programs
//! cannot call functions of the host: TPUs.
//!
//! A program sends the operands of a call over channels, one each, and receives the results over
//! others. The plugin calls back for every channel: with the bytes that the device sent, or with a
//! stream that takes the bytes to receive. A call inside a loop uses its channels once for each
//! iteration, so operands and results are queued.

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxidax_pjrt_sys as sys;

use crate::api::{Args, Handle};
use crate::error::Result;
use crate::event;
use crate::ffi::Running;
use crate::plugin::Plugin;

/// A channel between device and host, and the bytes that one transfer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferChannel {
    /// The handle of the channel in the program.
    pub channel: i64,
    /// The size of the array, in bytes.
    pub bytes: usize,
}

type Run = dyn Fn(usize, &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> + Send + Sync;

/// A host function that a program calls through transfers.
#[derive(Clone)]
pub struct HostTransfer {
    operands: Vec<TransferChannel>,
    results: Vec<TransferChannel>,
    run: Arc<Run>,
}

impl HostTransfer {
    /// Declares a call. `run` takes the position of the device in the order of
    /// [`LoadedExecutable::devices`](crate::LoadedExecutable::devices) and the bytes of the
    /// operands, row-major, and returns those of the results.
    ///
    /// If `run` fails, or returns bytes of other sizes, the execution fails with the message, and
    /// the device receives zeros, so that it does not wait forever.
    pub fn new(
        operands: Vec<TransferChannel>,
        results: Vec<TransferChannel>,
        run: impl Fn(usize, &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> + Send + Sync + 'static,
    ) -> HostTransfer {
        HostTransfer { operands, results, run: Arc::new(run) }
    }
}

impl fmt::Debug for HostTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostTransfer")
            .field("operands", &self.operands)
            .field("results", &self.results)
            .finish_non_exhaustive()
    }
}

/// A stream to the device that takes the bytes of one result.
trait ResultStream: Send {
    /// Hands over the bytes.
    fn finish(self, bytes: Vec<u8>);
}

/// One call of a running program, on one device.
struct Session<S> {
    transfer: HostTransfer,
    device: usize,
    queues: Mutex<Queues<S>>,
    /// Held while the function runs, so that results keep the order of their operands.
    order: Mutex<()>,
}

struct Queues<S> {
    /// The bytes received so far of each operand's next transfer.
    partial: Vec<Vec<u8>>,
    /// Complete operands that wait for the others.
    operands: Vec<VecDeque<Vec<u8>>>,
    /// Results that the device has not requested yet.
    results: Vec<VecDeque<Vec<u8>>>,
    /// Streams that wait for results.
    streams: Vec<VecDeque<S>>,
}

fn queues<T>(count: usize) -> Vec<VecDeque<T>> {
    (0..count).map(|_| VecDeque::new()).collect()
}

impl<S: ResultStream> Session<S> {
    fn new(transfer: HostTransfer, device: usize) -> Session<S> {
        let (operands, results) = (transfer.operands.len(), transfer.results.len());
        let queues = Queues {
            partial: vec![Vec::new(); operands],
            operands: queues(operands),
            results: queues(results),
            streams: queues(results),
        };
        Session { transfer, device, queues: Mutex::new(queues), order: Mutex::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Queues<S>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes of an operand; `done` marks the last ones of a transfer. Runs the function when
    /// all its operands are complete.
    fn receive_operand(&self, index: usize, bytes: &[u8], done: bool) -> Result<(), String> {
        let expected = self.transfer.operands[index].bytes;
        {
            let mut queues = self.lock();
            let partial = &mut queues.partial[index];
            partial.extend_from_slice(bytes);
            if !done {
                return Ok(());
            }
            let mut complete = std::mem::take(partial);
            let received = complete.len();
            complete.resize(expected, 0);
            queues.operands[index].push_back(complete);
            if received != expected {
                drop(queues);
                drop(self.run_next());
                return Err(format!("operand {index} has {expected} bytes, received {received}"));
            }
        }
        self.run_next()
    }

    /// Runs the function on the next operands, if all are there.
    fn run_next(&self) -> Result<(), String> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let operands: Vec<Vec<u8>> = {
            let mut queues = self.lock();
            if queues.operands.iter().any(VecDeque::is_empty) {
                return Ok(());
            }
            queues.operands.iter_mut().filter_map(VecDeque::pop_front).collect()
        };
        let outcome = {
            let _running = Running::new();
            let run = || (self.transfer.run)(self.device, &operands);
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
                // Dropping a payload may panic again, and a panic must not unwind from here.
                std::mem::forget(payload);
                Err("the function panicked".into())
            })
        };
        let sizes: Vec<usize> = self.transfer.results.iter().map(|result| result.bytes).collect();
        let outcome = outcome.and_then(|results| {
            let found: Vec<usize> = results.iter().map(Vec::len).collect();
            if found == sizes {
                return Ok(results);
            }
            Err(format!("the function must return results of {sizes:?} bytes, got {found:?}"))
        });
        let (results, error) = match outcome {
            Ok(results) => (results, Ok(())),
            Err(message) => (sizes.iter().map(|&size| vec![0; size]).collect(), Err(message)),
        };
        for (index, bytes) in results.into_iter().enumerate() {
            self.send_result(index, bytes);
        }
        error
    }

    /// Sends a result to the device, or keeps it until the device requests it.
    fn send_result(&self, index: usize, bytes: Vec<u8>) {
        let mut queues = self.lock();
        match queues.streams[index].pop_front() {
            Some(stream) => {
                drop(queues);
                stream.finish(bytes);
            }
            None => queues.results[index].push_back(bytes),
        }
    }

    /// Takes a stream that the device opened for a result.
    fn open_stream(&self, index: usize, stream: S) {
        let mut queues = self.lock();
        match queues.results[index].pop_front() {
            Some(bytes) => {
                drop(queues);
                stream.finish(bytes);
            }
            None => queues.streams[index].push_back(stream),
        }
    }
}

/// A stream of the C API.
struct DeviceStream {
    plugin: Plugin,
    stream: Handle<sys::PJRT_CopyToDeviceStream>,
}

impl ResultStream for DeviceStream {
    fn finish(self, bytes: Vec<u8>) {
        unsafe extern "C" fn free(_: *mut c_void, owner: *mut c_void) {
            // SAFETY: `owner` is the box that `finish` leaked, and the plugin frees a chunk once.
            drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
        }
        let mut owner = Box::new(bytes);
        let mut chunk = sys::PJRT_Chunk {
            data: owner.as_mut_ptr().cast(),
            size: owner.len(),
            deleter: Some(free),
            deleter_arg: Box::into_raw(owner).cast(),
        };
        let mut args = sys::PJRT_CopyToDeviceStream_AddChunk_Args::new();
        args.stream = self.stream.as_ptr();
        args.chunk = &raw mut chunk;
        // SAFETY: the stream is alive until this value is dropped, and the plugin owns the chunk's
        // bytes from here on. A failed call fails the execution, which waits for the bytes; there
        // is nobody else to tell.
        let added = unsafe { self.plugin.call(&mut args) };
        if added.is_ok() && !args.transfer_complete.is_null() {
            let mut destroy = sys::PJRT_Event_Destroy_Args::new();
            destroy.event = args.transfer_complete;
            // SAFETY: this function owns the event, and nobody waits for it.
            unsafe { self.plugin.release(&mut destroy) };
        }
    }
}

impl Drop for DeviceStream {
    fn drop(&mut self) {
        let mut args = sys::PJRT_CopyToDeviceStream_Destroy_Args::new();
        args.stream = self.stream.as_ptr();
        // SAFETY: the plugin handed the stream over, and this is its last use.
        unsafe { self.plugin.release(&mut args) }
    }
}

/// The argument of a callback: a channel of a session.
struct Port {
    session: Arc<Session<DeviceStream>>,
    index: usize,
    plugin: Plugin,
}

/// The callbacks of one launch. They must live until every device has finished.
pub(crate) struct LaunchTransfers {
    /// Boxed, because the plugin keeps their addresses.
    #[allow(clippy::vec_box, reason = "the addresses must not change when the list grows")]
    ports: Vec<Box<Port>>,
    sends: Vec<Vec<sys::PJRT_SendCallbackInfo>>,
    recvs: Vec<Vec<sys::PJRT_RecvCallbackInfo>>,
    send_lists: Vec<*mut sys::PJRT_SendCallbackInfo>,
    recv_lists: Vec<*mut sys::PJRT_RecvCallbackInfo>,
}

// SAFETY: the pointers lead to the boxes and vectors of the same value, which the plugin reads from
// any thread, and whose contents synchronize themselves.
unsafe impl Send for LaunchTransfers {}

impl LaunchTransfers {
    /// Prepares the callbacks of a launch on `devices` devices; `None` without transfers.
    pub(crate) fn new(
        plugin: Plugin,
        transfers: &[HostTransfer],
        devices: usize,
    ) -> Option<LaunchTransfers> {
        if transfers.is_empty() {
            return None;
        }
        let mut launch = LaunchTransfers {
            ports: Vec::new(),
            sends: vec![Vec::new(); devices],
            recvs: vec![Vec::new(); devices],
            send_lists: Vec::new(),
            recv_lists: Vec::new(),
        };
        for device in 0..devices {
            for transfer in transfers {
                let session = Arc::new(Session::new(transfer.clone(), device));
                for (index, operand) in transfer.operands.iter().enumerate() {
                    let user_arg = launch.port(&session, index, plugin);
                    launch.sends[device].push(sys::PJRT_SendCallbackInfo {
                        channel_id: operand.channel,
                        user_arg,
                        send_callback: Some(on_send),
                    });
                }
                for (index, result) in transfer.results.iter().enumerate() {
                    let user_arg = launch.port(&session, index, plugin);
                    launch.recvs[device].push(sys::PJRT_RecvCallbackInfo {
                        channel_id: result.channel,
                        user_arg,
                        recv_callback: Some(on_recv),
                    });
                }
            }
        }
        launch.send_lists = launch.sends.iter_mut().map(Vec::as_mut_ptr).collect();
        launch.recv_lists = launch.recvs.iter_mut().map(Vec::as_mut_ptr).collect();
        Some(launch)
    }

    /// Adds the argument of a callback and returns its address.
    fn port(
        &mut self,
        session: &Arc<Session<DeviceStream>>,
        index: usize,
        plugin: Plugin,
    ) -> *mut c_void {
        let port = Box::new(Port { session: session.clone(), index, plugin });
        let address = (&raw const *port).cast_mut().cast();
        self.ports.push(port);
        address
    }

    /// Writes the callbacks into the options of an execution, which must not outlive this value.
    pub(crate) fn write(&mut self, options: &mut sys::PJRT_ExecuteOptions_0_114) {
        options.base.send_callbacks = self.send_lists.as_mut_ptr();
        options.base.recv_callbacks = self.recv_lists.as_mut_ptr();
        // Every device has the same number.
        options.base.num_send_ops = self.sends.first().map_or(0, Vec::len);
        options.base.num_recv_ops = self.recvs.first().map_or(0, Vec::len);
        options.use_major_to_minor_data_layout_for_callbacks = true;
    }

    /// Frees the callbacks when all these events have completed.
    ///
    /// # Safety
    /// The events are alive.
    pub(crate) unsafe fn free_after(self, plugin: Plugin, events: &[*mut sys::PJRT_Event]) {
        let shared = Arc::new(Mutex::new(self));
        for &event in events.iter().filter(|event| !event.is_null()) {
            let held = shared.clone();
            // SAFETY: the caller guarantees the events.
            let registered = unsafe { event::on_ready(plugin, event, move |_| drop(held)) };
            if registered.is_err() {
                // The plugin cannot report when the callbacks are no longer used.
                std::mem::forget(shared.clone());
            }
        }
    }
}

/// Converts an error to the plugin's representation.
///
/// # Safety
/// `create` is null or points to the plugin's function.
unsafe fn callback_error(
    create: *mut sys::PJRT_CallbackError,
    message: &str,
) -> *mut sys::PJRT_Error {
    // SAFETY: the caller guarantees the pointer; the message is copied.
    unsafe {
        match create.as_ref().copied().flatten() {
            Some(create) => {
                let text = message.as_ptr().cast::<c_char>();
                create(sys::PJRT_Error_Code_INTERNAL, text, message.len())
            }
            None => std::ptr::null_mut(),
        }
    }
}

/// The plugin calls this function with bytes that the device sent.
unsafe extern "C" fn on_send(
    chunk: *mut sys::PJRT_Chunk,
    create_error: *mut sys::PJRT_CallbackError,
    _total_bytes: usize,
    done: bool,
    user_arg: *mut c_void,
) -> *mut sys::PJRT_Error {
    // SAFETY: `user_arg` is a port that lives until the launch has finished.
    let port = unsafe { &*user_arg.cast::<Port>() };
    // SAFETY: the plugin passed the chunk and the function.
    unsafe { take_chunk(&port.session, port.index, chunk, create_error, done) }
}

/// Takes over a chunk of an operand.
///
/// # Safety
/// The chunk belongs to the caller, who passes it on; `create_error` is null or points to the
/// plugin's function.
unsafe fn take_chunk<S: ResultStream>(
    session: &Session<S>,
    index: usize,
    chunk: *mut sys::PJRT_Chunk,
    create_error: *mut sys::PJRT_CallbackError,
    done: bool,
) -> *mut sys::PJRT_Error {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller guarantees the chunk.
        let chunk = unsafe { *chunk };
        // SAFETY: the chunk's bytes are readable until its deleter is called.
        let bytes = unsafe { crate::api::slice(chunk.data.cast::<u8>(), chunk.size) }.to_vec();
        if let Some(deleter) = chunk.deleter {
            // SAFETY: this call owns the chunk, and the bytes have been copied.
            unsafe { deleter(chunk.data, chunk.deleter_arg) };
        }
        session.receive_operand(index, &bytes, done)
    }));
    match outcome {
        Ok(Ok(())) => std::ptr::null_mut(),
        // SAFETY: the plugin passed its function.
        Ok(Err(message)) => unsafe { callback_error(create_error, &message) },
        Err(payload) => {
            std::mem::forget(payload);
            // SAFETY: as above.
            unsafe { callback_error(create_error, "a host callback panicked: a bug in oxidax") }
        }
    }
}

/// The plugin calls this function with a stream for bytes that the device waits for.
unsafe extern "C" fn on_recv(stream: *mut sys::PJRT_CopyToDeviceStream, user_arg: *mut c_void) {
    let received = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `user_arg` is a port that lives until the launch has finished.
        let port = unsafe { &*user_arg.cast::<Port>() };
        if let Some(stream) = Handle::new(stream) {
            port.session.open_stream(port.index, DeviceStream { plugin: port.plugin, stream });
        }
    }));
    if let Err(payload) = received {
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that collects what it receives.
    #[derive(Clone, Default)]
    struct Collected(Arc<Mutex<Vec<Vec<u8>>>>);

    impl ResultStream for Collected {
        fn finish(self, bytes: Vec<u8>) {
            self.0.lock().expect("not poisoned").push(bytes);
        }
    }

    fn channels(sizes: &[usize]) -> Vec<TransferChannel> {
        let channel = |(at, &bytes): (usize, &usize)| TransferChannel { channel: at as i64, bytes };
        sizes.iter().enumerate().map(channel).collect()
    }

    /// A session that adds the bytes of two operands.
    fn adding() -> Session<Collected> {
        let transfer = HostTransfer::new(channels(&[2, 2]), channels(&[2]), |device, operands| {
            let sum = operands[0].iter().zip(&operands[1]).map(|(x, y)| x + y + device as u8);
            Ok(vec![sum.collect()])
        });
        Session::new(transfer, 100)
    }

    #[test]
    fn operands_come_in_pieces_and_in_any_order() {
        let (session, collected) = (adding(), Collected::default());
        session.open_stream(0, collected.clone());
        session.receive_operand(1, &[10], false).expect("more follows");
        session.receive_operand(0, &[1, 2], true).expect("waits for the other");
        assert!(collected.0.lock().expect("not poisoned").is_empty());
        session.receive_operand(1, &[20], true).expect("runs");
        assert_eq!(*collected.0.lock().expect("not poisoned"), [[111, 122]]);
    }

    #[test]
    fn iterations_are_queued_on_both_sides() {
        let (session, collected) = (adding(), Collected::default());
        for round in 0..3 {
            session.receive_operand(0, &[round, 0], true).expect("waits for the other");
        }
        for _ in 0..3 {
            session.receive_operand(1, &[0, 0], true).expect("runs");
        }
        for _ in 0..3 {
            session.open_stream(0, collected.clone());
        }
        assert_eq!(
            *collected.0.lock().expect("not poisoned"),
            [[100, 100], [101, 100], [102, 100]]
        );
    }

    #[test]
    fn failures_send_zeros_so_that_the_device_continues() {
        let failing = |outcome: fn() -> Result<Vec<Vec<u8>>, String>| {
            let transfer = HostTransfer::new(channels(&[1]), channels(&[3]), move |_, _| outcome());
            let (session, collected) = (Session::new(transfer, 0), Collected::default());
            session.open_stream(0, collected.clone());
            let error = session.receive_operand(0, &[1], true).expect_err("fails");
            assert_eq!(*collected.0.lock().expect("not poisoned"), [[0, 0, 0]]);
            error
        };
        assert_eq!(failing(|| Err("no luck".into())), "no luck");
        assert_eq!(failing(|| panic!("mine")), "the function panicked");
        let wrong = failing(|| Ok(vec![vec![1]]));
        assert_eq!(wrong, "the function must return results of [3] bytes, got [1]");
        let (session, collected) = (adding(), Collected::default());
        session.open_stream(0, collected.clone());
        session.receive_operand(0, &[1], true).expect_err("too short");
        session.receive_operand(1, &[1, 2], true).expect("runs");
        assert_eq!(collected.0.lock().expect("not poisoned").len(), 1);
    }

    #[test]
    fn chunks_of_the_c_api_are_copied_and_freed() {
        unsafe extern "C" fn free(_: *mut c_void, freed: *mut c_void) {
            // SAFETY: the test passes the address of its counter.
            unsafe { *freed.cast::<usize>() += 1 };
        }
        unsafe extern "C" fn create(
            _: sys::PJRT_Error_Code,
            _: *const c_char,
            size: usize,
        ) -> *mut sys::PJRT_Error {
            // The test compares the address only.
            std::ptr::without_provenance_mut(size)
        }
        let transfer = HostTransfer::new(channels(&[2]), Vec::new(), |_, operands| {
            if operands[0] == [1, 2] { Ok(Vec::new()) } else { Err("seven!!".into()) }
        });
        let session: Session<Collected> = Session::new(transfer, 0);
        let mut freed = 0_usize;
        let mut create_error: sys::PJRT_CallbackError = Some(create);
        let mut send = |bytes: &mut [u8], done: bool| {
            let mut chunk = sys::PJRT_Chunk {
                data: bytes.as_mut_ptr().cast(),
                size: bytes.len(),
                deleter: Some(free),
                deleter_arg: (&raw mut freed).cast(),
            };
            // SAFETY: the chunk and the function live during the call.
            unsafe { take_chunk(&session, 0, &raw mut chunk, &raw mut create_error, done) }
        };
        assert!(send(&mut [1], false).is_null());
        assert!(send(&mut [2], true).is_null());
        assert_eq!(send(&mut [3, 4], true).addr(), "seven!!".len());
        assert_eq!(freed, 3);
    }
}
