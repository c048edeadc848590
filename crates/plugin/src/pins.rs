//! The pinned plugins: their packages, files and SHA-256 hashes.
//!
//! A pin identifies one wheel exactly, so that every host runs the same library. Nothing is fetched
//! before [`install`](crate::install) is called. Only [`CPU`] is ever installed without a request.

use crate::platform::Platform;

/// An installable plugin. See the [module](self) for the reason why its hash is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// The name in `oxidax plugin install NAME`.
    pub name: &'static str,
    /// The platform that the library drives.
    pub platform: Platform,
    /// The Python package that contains it.
    pub package: &'static str,
    /// The package's version.
    pub version: &'static str,
    /// The wheel's file name.
    pub wheel: &'static str,
    /// The tags by which `pip` selects this wheel on every host.
    pub tags: Tags,
    /// Size of the wheel in bytes.
    pub wheel_size: u64,
    /// SHA-256 of the wheel, in lower-case hexadecimal.
    pub wheel_sha256: &'static str,
    /// The library's path inside the wheel.
    pub member: &'static str,
    /// Size of the library in bytes.
    pub library_size: u64,
    /// SHA-256 of the library, in lower-case hexadecimal.
    pub library_sha256: &'static str,
    /// The publisher of the package.
    pub publisher: &'static str,
    /// The licence according to the package's metadata.
    pub license: &'static str,
    /// The library's version of the PJRT C API: major and minor. 0.0 for files other than plugins.
    pub api: (u32, u32),
    /// For files that a plugin finds relative to itself: their folder in the cache, and whether
    /// they are programs. `None` for plugins.
    pub beside: Option<Beside>,
    /// Files installed along with it.
    pub needs: &'static [Pin],
}

/// The location of a file that a plugin finds relative to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// The folder in the cache.
    pub folder: &'static str,
    /// True if the file is a program.
    pub executable: bool,
}

/// The wheel tags of a [`Pin`]. They are passed to `pip` and `uv`, so that the host's own tags have
/// no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    /// Python version, for `--python-version`.
    pub python: &'static str,
    /// Python implementation, for `pip --implementation`.
    pub implementation: &'static str,
    /// ABI tag, for `pip --abi`.
    pub abi: &'static str,
    /// Platform tag, for `pip --platform`.
    pub platform: &'static str,
    /// The platform for `uv --python-platform`, which must accept `platform`.
    pub uv_platform: &'static str,
}

/// Tags of a wheel without a Python extension module, for glibc 2.27 and later.
const ANY_PYTHON: Tags = Tags {
    python: "3.11",
    implementation: "py",
    abi: "none",
    platform: "manylinux_2_27_x86_64",
    uv_platform: "x86_64-manylinux_2_28",
};

impl Pin {
    /// Returns the cache folder of the library: package and version, unless a plugin expects it
    /// elsewhere.
    pub fn folder(&self) -> String {
        if let Some(beside) = self.beside {
            return beside.folder.to_owned();
        }
        match self.host().1 {
            "x86_64" => format!("{}-{}", self.package, self.version),
            arch => format!("{}-{}-{arch}", self.package, self.version),
        }
    }

    /// Returns the library's file name.
    pub fn file_name(&self) -> &'static str {
        self.member.rsplit('/').next().unwrap_or(self.member)
    }

    /// Returns the name used in messages: `the cuda plugin`, or `ptxas for the cuda plugin`.
    #[cfg(feature = "install")]
    pub(crate) fn title(&self) -> String {
        match self.beside {
            Some(_) => format!("{} for the {} plugin", self.file_name(), self.platform),
            None => format!("the {} plugin", self.platform),
        }
    }

    /// Returns the operating system and processor of the library, as in [`std::env::consts`].
    pub fn host(&self) -> (&'static str, &'static str) {
        let is_aarch64 = self.tags.platform.ends_with("_aarch64");
        ("linux", if is_aarch64 { "aarch64" } else { "x86_64" })
    }

    /// Returns true if oxidax's tests run with this plugin. An untested plugin is never installed
    /// without a request.
    pub fn is_tested(&self) -> bool {
        self.host().1 == "x86_64"
    }

    /// Returns the requirement in pip's syntax: `package==version`.
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }
}

/// The default CPU plugin. Installed without a request on Linux x86-64.
pub const CPU: Pin = Pin {
    name: "cpu",
    platform: Platform::Cpu,
    package: "lammps-jax-pjrt-cpu",
    version: "0.11.2",
    wheel: "lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl",
    tags: ANY_PYTHON,
    wheel_size: 62_711_338,
    wheel_sha256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
    member: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    library_size: 201_600_336,
    library_sha256: "ad1309ac822b1b24d51b7f9947c7c9fa9ef5d67f390584cbc3d1fa2428fed9c2",
    publisher: "the lammps-jax project (built from OpenXLA)",
    license: "Apache-2.0",
    api: (0, 115),
    beside: None,
    needs: &[],
};

/// A CPU plugin for Linux on aarch64. It is untested, because no such host was available.
pub const CPU_AARCH64: Pin = Pin {
    name: "cpu-aarch64",
    wheel: "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_aarch64.whl",
    tags: Tags {
        platform: "manylinux_2_27_aarch64",
        uv_platform: "aarch64-manylinux_2_28",
        ..ANY_PYTHON
    },
    wheel_size: 49_514_947,
    wheel_sha256: "8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9",
    library_size: 200_328_224,
    library_sha256: "fcf411f3e8ff635c2b2cf87215aa7016f460e66d236c3db08309e7486583532d",
    ..CPU_API_0_81
};

/// An older CPU plugin, only for the tests of `oxidax-pjrt`.
pub const CPU_API_0_106: Pin = Pin {
    name: "cpu-api-0.106",
    platform: Platform::Cpu,
    package: "fastatomstruct-xla-cpu",
    version: "2026.6.23",
    wheel: "fastatomstruct_xla_cpu-2026.6.23-py3-none-manylinux_2_27_x86_64.whl",
    tags: ANY_PYTHON,
    wheel_size: 63_200_622,
    wheel_sha256: "88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9",
    member: "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    library_size: 273_768_800,
    library_sha256: "0a0fe56ca17be9efc7b942e89e534e5e0ad4a0f1e369b66d27b62184509015b9",
    publisher: "the fastatomstruct project (built from OpenXLA by ZML)",
    license: "Apache-2.0",
    api: (0, 106),
    beside: None,
    needs: &[],
};

/// The oldest supported CPU plugin, only for the tests of `oxidax-pjrt`.
pub const CPU_API_0_81: Pin = Pin {
    name: "cpu-api-0.81",
    platform: Platform::Cpu,
    package: "xla-cpu-pjrt",
    version: "0.0.1",
    wheel: "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_x86_64.whl",
    tags: ANY_PYTHON,
    wheel_size: 63_461_052,
    wheel_sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
    member: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    library_size: 259_284_552,
    library_sha256: "88c3f28c5900f48ad4a82cab9e79bba9537809743395e341485f8794268820dc",
    publisher: "the OpenXLA authors",
    license: "not stated in the package (OpenXLA itself is Apache-2.0)",
    api: (0, 81),
    beside: None,
    needs: &[],
};

/// Google's TPU runtime. Installed on request only.
pub const TPU: Pin = Pin {
    name: "tpu",
    platform: Platform::Tpu,
    package: "libtpu",
    version: "0.0.51",
    wheel: "libtpu-0.0.51-cp311-cp311-manylinux_2_31_x86_64.whl",
    tags: Tags {
        python: "3.11",
        implementation: "cp",
        abi: "cp311",
        platform: "manylinux_2_31_x86_64",
        uv_platform: "x86_64-manylinux_2_31",
    },
    wheel_size: 204_805_508,
    wheel_sha256: "ba67ddbfdbac61c8da1fafc26cd51b93e9fe4d298016e2882eb986b1718cba34",
    member: "libtpu/libtpu.so",
    library_size: 574_812_664,
    library_sha256: "ad0b2a3bc5d4de96f653b3701aaed8769a691776ca0e14c791dcdca785d43e42",
    publisher: "Google",
    license: "Google Cloud Platform Terms of Service",
    api: (0, 116),
    beside: None,
    needs: &[],
};

/// JAX's CUDA 13 plugin. Its compiler tools are installed with it. Installed on request only.
/// Running programs also requires NVIDIA's driver and libraries.
pub const CUDA: Pin = Pin {
    name: "cuda",
    platform: Platform::Cuda,
    package: "jax-cuda13-pjrt",
    version: "0.12.0.1",
    wheel: "jax_cuda13_pjrt-0.12.0.1-py3-none-manylinux_2_27_x86_64.whl",
    tags: ANY_PYTHON,
    wheel_size: 134_922_808,
    wheel_sha256: "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90",
    member: "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
    library_size: 395_967_648,
    library_sha256: "b6de513893c09af2c77e71afcef46d9706f8c259337cdef4cd5cae2353886f75",
    publisher: "the JAX team (Google)",
    license: "Apache-2.0",
    api: (0, 116),
    beside: None,
    needs: &[CUDA_PTXAS, CUDA_LIBDEVICE, CUDA_MOSAIC],
};

/// The assembler of CUDA 13. The CUDA plugin cannot compile without it.
pub const CUDA_PTXAS: Pin = Pin {
    name: "cuda-ptxas",
    platform: Platform::Cuda,
    package: "nvidia-cuda-nvcc",
    version: "13.5.37",
    wheel: "nvidia_cuda_nvcc-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    tags: Tags {
        platform: "manylinux_2_17_x86_64",
        uv_platform: "x86_64-manylinux_2_17",
        ..ANY_PYTHON
    },
    wheel_size: 47_028_279,
    wheel_sha256: "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7",
    member: "nvidia/cu13/bin/ptxas",
    library_size: 50_753_552,
    library_sha256: "b3e295413e9628ee261a63ea3f70ec5af20988c9809214c064661662206574a3",
    publisher: "NVIDIA",
    license: NVIDIA_LICENSE,
    api: (0, 0),
    beside: Some(Beside { folder: "nvidia/cu13/bin", executable: true }),
    needs: &[],
};

/// NVIDIA's library of device functions (`exp`, `tanh`, …), which the compiler links.
pub const CUDA_LIBDEVICE: Pin = Pin {
    name: "cuda-libdevice",
    platform: Platform::Cuda,
    package: "nvidia-nvvm",
    version: "13.5.37",
    wheel: "nvidia_nvvm-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
    tags: Tags {
        platform: "manylinux_2_12_x86_64",
        uv_platform: "x86_64-manylinux_2_17",
        ..ANY_PYTHON
    },
    wheel_size: 75_141_406,
    wheel_sha256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070",
    member: "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
    library_size: 465_504,
    library_sha256: "7e46db290976f7d8988b85c8820a135595ede636faa1ca7de63e67f8c775456f",
    publisher: "NVIDIA",
    license: NVIDIA_LICENSE,
    api: (0, 0),
    beside: Some(Beside { folder: "nvidia/cu13/nvvm/libdevice", executable: false }),
    needs: &[],
};

/// The runtime library of kernels of Mosaic GPU, of the same version as [`CUDA`].
pub const CUDA_MOSAIC: Pin = Pin {
    name: "cuda-mosaic",
    platform: Platform::Cuda,
    package: "jax-cuda13-plugin",
    version: "0.12.0.1",
    wheel: "jax_cuda13_plugin-0.12.0.1-cp312-cp312-manylinux_2_27_x86_64.whl",
    tags: Tags { python: "3.12", implementation: "cp", abi: "cp312", ..ANY_PYTHON },
    wheel_size: 8_237_586,
    wheel_sha256: "6028faf179e7aa7cc64100ed3c7c7b1b11346f5aa05d5e9e33e8fe60c5289fa1",
    member: "jax_cuda13_plugin/libmosaic_gpu_runtime.so",
    library_size: 445_280,
    library_sha256: "6f40466615d04c554d4422919a903ad2ebd15acbf275d9bf37d0b18d4d730786",
    publisher: "the JAX team (Google)",
    license: "Apache-2.0",
    api: (0, 0),
    beside: Some(Beside { folder: "jax_cuda13_plugin", executable: false }),
    needs: &[],
};

/// The licence in the packages' metadata. The URL is that of the text in their `License.txt`.
const NVIDIA_LICENSE: &str = "LicenseRef-NVIDIA-Proprietary (https://docs.nvidia.com/cuda/eula)";

/// All pins, in the order of `oxidax plugin list`.
pub const ALL: &[Pin] = &[
    CPU,
    CPU_AARCH64,
    TPU,
    CUDA,
    CUDA_PTXAS,
    CUDA_LIBDEVICE,
    CUDA_MOSAIC,
    CPU_API_0_106,
    CPU_API_0_81,
];

/// Returns the default pin of a platform.
///
/// ```
/// use oxidax_plugin::{Platform, pins};
/// assert_eq!(pins::of_platform(Platform::Cpu).package, "lammps-jax-pjrt-cpu");
/// ```
pub fn of_platform(platform: Platform) -> &'static Pin {
    match platform {
        Platform::Cpu => &CPU,
        Platform::Tpu => &TPU,
        Platform::Cuda => &CUDA,
    }
}

/// Returns the pin for a platform on a host with this operating system and architecture. Hosts
/// without a pin get the one for Linux on x86-64.
///
/// ```
/// use oxidax_plugin::{Platform, pins};
/// let pin = pins::for_host(Platform::Cpu, "linux", "aarch64");
/// assert_eq!(pin.requirement(), "xla-cpu-pjrt==0.0.1");
/// assert!(!pin.is_tested());
/// ```
pub fn for_host(platform: Platform, os: &str, arch: &str) -> &'static Pin {
    let fits = |pin: &&Pin| pin.platform == platform && pin.host() == (os, arch);
    ALL.iter().find(fits).unwrap_or_else(|| of_platform(platform))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pin_is_consistent() {
        for pin in ALL {
            let start = format!("{}-{}-", pin.package.replace('-', "_"), pin.version);
            assert!(pin.wheel.starts_with(&start), "{}", pin.wheel);
            assert!(pin.wheel.ends_with(&format!("{}.whl", pin.tags.platform)), "{}", pin.wheel);
            assert!(pin.wheel.contains(&format!("-{}-", pin.tags.abi)), "{}", pin.wheel);
            for hash in [pin.wheel_sha256, pin.library_sha256] {
                assert_eq!(hash.len(), 64);
                assert!(hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
            }
            assert!(pin.beside.is_some() || pin.file_name().ends_with(".so"), "{}", pin.member);
            assert_eq!(pin.beside.is_none(), pin.api != (0, 0), "{}", pin.name);
            // The layout in the cache is that of Python's site-packages.
            let beside = pin.beside.is_none_or(|b| pin.member.starts_with(b.folder));
            assert!(beside, "{}", pin.member);
        }
    }

    #[test]
    fn names_and_folders_are_unique() {
        for (i, a) in ALL.iter().enumerate() {
            for b in &ALL[i + 1..] {
                assert_ne!(a.name, b.name);
                assert_ne!(a.folder(), b.folder());
            }
        }
    }
}
