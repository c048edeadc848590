//! The plugins under test, and a client for each.

use std::path::PathBuf;
use std::sync::OnceLock;

use oxidax_pjrt::{
    Client, CompileOptions, ElementType, LoadedExecutable, NamedValue, PjrtBuffer, PjrtProgram,
    Plugin,
};
use oxidax_plugin::{Config, Stderr, install, pins};

/// The CPU plugins under test, named by the minor version of their C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    V81,
    V106,
    V115,
}

pub(crate) const ALL: [Api; 3] = [Api::V81, Api::V106, Api::V115];

impl Api {
    pub(crate) fn minor(self) -> i32 {
        match self {
            Self::V81 => 81,
            Self::V106 => 106,
            Self::V115 => 115,
        }
    }
}

/// Returns the path of a plugin, which is installed at its pinned version on first use.
pub(crate) fn plugin_path(api: Api) -> PathBuf {
    let pin = match api {
        Api::V81 => &pins::CPU_API_0_81,
        Api::V106 => &pins::CPU_API_0_106,
        Api::V115 => &pins::CPU,
    };
    let config = Config::from_env().expect("the environment makes sense");
    install(pin, &config, &mut Stderr::new()).expect("the plugin installs")
}

pub(crate) fn plugin(api: Api) -> Plugin {
    Plugin::load(&plugin_path(api)).expect("the plugin loads")
}

/// Returns a client with eight devices, shared by all tests of one plugin.
pub(crate) fn client(api: Api) -> &'static Client {
    static CLIENTS: [OnceLock<Client>; 3] = [const { OnceLock::new() }; 3];
    let index = ALL.iter().position(|&other| other == api).expect("listed");
    CLIENTS[index].get_or_init(|| {
        Client::new(plugin(api), &[NamedValue::new("cpu_device_count", 8)]).expect("a client")
    })
}

/// Runs a test on every plugin.
pub(crate) fn on_each(test: impl Fn(&Client, Api)) {
    for api in ALL {
        test(client(api), api);
    }
}

pub(crate) fn compile(client: &Client, text: &str) -> LoadedExecutable {
    let program = PjrtProgram::mlir(text).expect("accepted");
    client.compile(&program, &CompileOptions::default()).expect("compiled")
}

pub(crate) fn f32_buffer(client: &Client, dims: &[i64], values: &[f32]) -> PjrtBuffer {
    let device = &client.addressable_devices()[0];
    client.buffer_from_host(&f32_bytes(values), ElementType::F32, dims, device).expect("put")
}

pub(crate) fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub(crate) fn f32_values(buffer: &PjrtBuffer) -> Vec<f32> {
    assert_eq!(buffer.element_type(), ElementType::F32);
    let bytes = buffer.to_vec().expect("read");
    bytes.as_chunks().0.iter().map(|chunk| f32::from_ne_bytes(*chunk)).collect()
}
