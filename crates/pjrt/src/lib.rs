#![allow(warnings, reason = "temporary")]
use oxidax_pjrt_sys::*;
use std::path::Path;
use std::sync::Arc;
#[derive(Debug)]
pub struct Error {
    pub code: i32,
    pub message: String,
}
impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.message)
    }
}
impl std::error::Error for Error {}
type R<T> = Result<T, Error>;
#[derive(Clone, Copy, Debug)]
struct P(*const PJRT_Api);
unsafe impl Send for P {}
unsafe impl Sync for P {}
#[derive(Clone, Debug)]
pub struct Plugin(P);
#[derive(Debug)]
struct ClientInner {
    api: P,
    ptr: *mut PJRT_Client,
    device: *mut PJRT_Device,
}
unsafe impl Send for ClientInner {}
unsafe impl Sync for ClientInner {}
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientInner>);
#[derive(Debug)]
pub struct Buffer {
    client: Client,
    ptr: *mut PJRT_Buffer,
}
unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}
#[derive(Debug)]
pub struct LoadedExecutable {
    client: Client,
    ptr: *mut PJRT_LoadedExecutable,
    n_out: usize,
}
unsafe impl Send for LoadedExecutable {}
unsafe impl Sync for LoadedExecutable {}
impl P {
    unsafe fn a(&self) -> &PJRT_Api {
        &*self.0
    }
    unsafe fn check(&self, e: *mut PJRT_Error) -> R<()> {
        if e.is_null() {
            return Ok(());
        }
        let mut m: PJRT_Error_Message_Args = std::mem::zeroed();
        m.struct_size = size_of_val(&m);
        m.error = e as _;
        self.a().PJRT_Error_Message.unwrap()(&mut m);
        let message = String::from_utf8_lossy(std::slice::from_raw_parts(
            m.message as *const u8,
            m.message_size,
        ))
        .into_owned();
        let mut c: PJRT_Error_GetCode_Args = std::mem::zeroed();
        c.struct_size = size_of_val(&c);
        c.error = e as _;
        let _ = self.a().PJRT_Error_GetCode.unwrap()(&mut c);
        let mut d: PJRT_Error_Destroy_Args = std::mem::zeroed();
        d.struct_size = size_of_val(&d);
        d.error = e;
        self.a().PJRT_Error_Destroy.unwrap()(&mut d);
        Err(Error { code: c.code as i32, message })
    }
}
macro_rules! call {
    ($api:expr, $f:ident, $t:ty, |$x:ident| $body:block) => {{
        let mut $x: $t = std::mem::zeroed();
        $x.struct_size = size_of::<$t>();
        $body;
        $api.check($api.a().$f.unwrap()(&mut $x)).map(|_| $x)
    }};
}
impl Plugin {
    pub fn load(path: &Path) -> R<Plugin> {
        unsafe {
            let lib = libloading::Library::new(path)
                .map_err(|e| Error { code: 2, message: e.to_string() })?;
            let f: libloading::Symbol<unsafe extern "C" fn() -> *const PJRT_Api> =
                lib.get(b"GetPjrtApi").map_err(|e| Error { code: 2, message: e.to_string() })?;
            let api = P(f());
            std::mem::forget(lib);
            call!(api, PJRT_Plugin_Initialize, PJRT_Plugin_Initialize_Args, |x| {})?;
            Ok(Plugin(api))
        }
    }
}
impl Client {
    pub fn new(p: &Plugin) -> R<Client> {
        unsafe {
            let api = p.0;
            let c = call!(api, PJRT_Client_Create, PJRT_Client_Create_Args, |x| {})?;
            let d = call!(
                api,
                PJRT_Client_AddressableDevices,
                PJRT_Client_AddressableDevices_Args,
                |x| { x.client = c.client }
            )?;
            Ok(Client(Arc::new(ClientInner { api, ptr: c.client, device: *d.addressable_devices })))
        }
    }
    pub fn put(&self, bytes: &[u8], ty: u32, dims: &[i64]) -> R<Buffer> {
        unsafe {
            let api = self.0.api;
            let empty = [0u8; 64];
            let b = call!(
                api,
                PJRT_Client_BufferFromHostBuffer,
                PJRT_Client_BufferFromHostBuffer_Args,
                |x| {
                    x.client = self.0.ptr;
                    x.data =
                        if bytes.is_empty() { empty.as_ptr() as _ } else { bytes.as_ptr() as _ };
                    x.type_ = ty as _;
                    x.dims = dims.as_ptr();
                    x.num_dims = dims.len();
                    x.device = self.0.device;
                }
            )?;
            api.wait(b.done_with_host_buffer)?;
            Ok(Buffer { client: self.clone(), ptr: b.buffer })
        }
    }
    pub fn compile(&self, text: &str, n_out: usize) -> R<LoadedExecutable> {
        unsafe {
            let api = self.0.api;
            let fmt = "mlir";
            let opts: [u8; 6] = [0x1a, 4, 0x20, 1, 0x28, 1];
            let mut prog: PJRT_Program = std::mem::zeroed();
            prog.struct_size = size_of::<PJRT_Program>();
            prog.code = text.as_ptr() as _;
            prog.code_size = text.len();
            prog.format = fmt.as_ptr() as _;
            prog.format_size = 4;
            let c = call!(api, PJRT_Client_Compile, PJRT_Client_Compile_Args, |x| {
                x.client = self.0.ptr;
                x.program = &prog;
                x.compile_options = opts.as_ptr() as _;
                x.compile_options_size = 6;
            })?;
            Ok(LoadedExecutable { client: self.clone(), ptr: c.executable, n_out })
        }
    }
}
impl P {
    unsafe fn wait(&self, e: *mut PJRT_Event) -> R<()> {
        let api = self;
        let r =
            call!(api, PJRT_Event_Await, PJRT_Event_Await_Args, |x| { x.event = e }).map(|_| ());
        let _ = call!(api, PJRT_Event_Destroy, PJRT_Event_Destroy_Args, |x| { x.event = e });
        r
    }
}
impl LoadedExecutable {
    pub fn execute(&self, args: &[&Buffer], keep: &[i64]) -> R<Vec<Buffer>> {
        unsafe {
            let api = self.client.0.api;
            let ptrs: Vec<*mut PJRT_Buffer> = args.iter().map(|b| b.ptr).collect();
            let list = [ptrs.as_ptr()];
            let mut outs: Vec<*mut PJRT_Buffer> = vec![std::ptr::null_mut(); self.n_out];
            let outl = [outs.as_mut_ptr()];
            let mut o: PJRT_ExecuteOptions = std::mem::zeroed();
            o.struct_size = size_of::<PJRT_ExecuteOptions>();
            o.non_donatable_input_indices = keep.as_ptr();
            o.num_non_donatable_input_indices = keep.len();
            call!(api, PJRT_LoadedExecutable_Execute, PJRT_LoadedExecutable_Execute_Args, |x| {
                x.executable = self.ptr;
                x.options = &mut o;
                x.argument_lists = list.as_ptr();
                x.num_devices = 1;
                x.num_args = args.len();
                x.output_lists = outl.as_ptr() as _;
            })?;
            Ok(outs.into_iter().map(|ptr| Buffer { client: self.client.clone(), ptr }).collect())
        }
    }
}
impl Buffer {
    pub fn read(&self, dst: &mut [u8]) -> R<()> {
        unsafe {
            let api = self.client.0.api;
            if dst.is_empty() {
                return Ok(());
            }
            let r = call!(api, PJRT_Buffer_ToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, |x| {
                x.src = self.ptr;
                x.dst = dst.as_mut_ptr() as _;
                x.dst_size = dst.len();
            })?;
            api.wait(r.event)
        }
    }
    pub fn ready(&self) -> R<()> {
        unsafe {
            let api = self.client.0.api;
            let r = call!(api, PJRT_Buffer_ReadyEvent, PJRT_Buffer_ReadyEvent_Args, |x| {
                x.buffer = self.ptr;
            })?;
            api.wait(r.event)
        }
    }
    pub fn is_deleted(&self) -> bool {
        unsafe {
            let api = self.client.0.api;
            call!(api, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args, |x| {
                x.buffer = self.ptr;
            })
            .map(|r| r.is_deleted)
            .unwrap_or(true)
        }
    }
}
impl Drop for Buffer {
    fn drop(&mut self) {
        unsafe {
            let api = self.client.0.api;
            let _ = call!(api, PJRT_Buffer_Destroy, PJRT_Buffer_Destroy_Args, |x| {
                x.buffer = self.ptr;
            });
        }
    }
}
