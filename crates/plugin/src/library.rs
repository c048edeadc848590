//! Checks a shared library's bytes before it is loaded.
//!
//! `dlopen` runs a library's constructors, so everything that the file alone shows is checked
//! first: that it is a complete ELF file for this processor, and that it exports `GetPjrtApi`.

use std::env::consts::ARCH;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::Error;

/// The exported function that identifies a PJRT plugin.
const ENTRY: &[u8] = b"GetPjrtApi";

/// Section type of the dynamic symbol table.
const SHT_DYNSYM: u32 = 11;
/// File type of shared objects.
const ET_DYN: u16 = 3;

/// Checks that `path` is a shared library for this host that exports `GetPjrtApi`, without loading
/// it.
///
/// On systems whose libraries are not ELF files, only the file's existence is checked. A library
/// that was stripped of its section table passes without a check of its exports.
///
/// # Errors
///
/// [`Error::Io`] if the file cannot be read, [`Error::NotALibrary`] if it is truncated or not a
/// library, [`Error::WrongMachine`] if it is for another processor, [`Error::NotAPlugin`] if it
/// does not export the function.
///
/// ```
/// let error = oxidax_plugin::check_library("Cargo.toml".as_ref()).unwrap_err();
/// assert!(error.to_string().contains("not a shared library"));
/// ```
pub fn check_library(path: &Path) -> Result<(), Error> {
    let mut file = Elf::open(path)?;
    if cfg!(target_vendor = "apple") || cfg!(windows) {
        return Ok(());
    }
    let header = file.header()?;
    let Some(exports) = file.exports(&header)? else { return Ok(()) };
    if exports.iter().any(|name| name == ENTRY) {
        return Ok(());
    }
    Err(Error::NotAPlugin { path: path.to_owned(), exports: exports.len() })
}

/// The location of the section table.
struct Header {
    table: u64,
    entry_size: u64,
    entries: u64,
}

/// A file with the header of a 64-bit little-endian ELF file.
struct Elf<'a> {
    path: &'a Path,
    file: File,
    size: u64,
}

impl<'a> Elf<'a> {
    fn open(path: &'a Path) -> Result<Elf<'a>, Error> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let meta = file.metadata().map_err(Error::io("inspect", path))?;
        let elf = Elf { path, file, size: meta.len() };
        if meta.is_dir() {
            return Err(elf.bad("it is a folder"));
        }
        Ok(elf)
    }

    fn bad(&self, reason: impl Into<String>) -> Error {
        Error::NotALibrary { path: self.path.to_owned(), reason: reason.into() }
    }

    /// Reads `len` bytes at `offset`. The range must be inside the file.
    fn bytes(&mut self, offset: u64, len: u64, what: &str) -> Result<Vec<u8>, Error> {
        if offset.checked_add(len).is_none_or(|end| end > self.size) {
            return Err(self.bad(format!(
                "its {what} ({len} bytes at {offset}) lies beyond its end at {}; it is truncated",
                self.size
            )));
        }
        let mut buffer = vec![0; usize::try_from(len).map_err(|_| self.bad("it is too large"))?];
        self.file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.read_exact(&mut buffer))
            .map_err(Error::io("read", self.path))?;
        Ok(buffer)
    }

    fn header(&mut self) -> Result<Header, Error> {
        if self.size < 64 {
            return Err(self.bad(format!("it has {} bytes, an ELF header has 64", self.size)));
        }
        let header = self.bytes(0, 64, "header")?;
        if !header.starts_with(b"\x7fELF") {
            return Err(self.bad(format!("it begins with {:02x?}, not with ELF", &header[..4])));
        }
        if header[4] != 2 || header[5] != 1 {
            return Err(self.bad("it is not 64-bit and little-endian"));
        }
        let kind = u16_at(&header, 16);
        if kind != ET_DYN {
            return Err(self.bad(format!("its ELF type is {kind}, not {ET_DYN} (shared object)")));
        }
        let machine = u16_at(&header, 18);
        if machine_name(machine) != Some(ARCH) {
            return Err(Error::WrongMachine {
                path: self.path.to_owned(),
                found: machine_name(machine)
                    .map_or_else(|| format!("ELF machine {machine}"), str::to_owned),
                host: ARCH,
            });
        }
        Ok(Header {
            table: u64_at(&header, 40),
            entry_size: u64::from(u16_at(&header, 58)),
            entries: u64::from(u16_at(&header, 60)),
        })
    }

    /// Returns the names of the symbols that the library exports, or `None` without a section
    /// table.
    fn exports(&mut self, header: &Header) -> Result<Option<Vec<Vec<u8>>>, Error> {
        if header.entries == 0 {
            return Ok(None);
        }
        if header.entry_size < 64 {
            return Err(self.bad(format!("its section entries have {} bytes", header.entry_size)));
        }
        let size = header.entries * header.entry_size;
        let table = self.bytes(header.table, size, "section table")?;
        let sections: Vec<&[u8]> = table.chunks_exact(header.entry_size as usize).collect();
        let Some(symbols) = sections.iter().find(|s| u32_at(s, 4) == SHT_DYNSYM) else {
            return Ok(Some(Vec::new()));
        };
        let Some(strings) = sections.get(u32_at(symbols, 40) as usize) else {
            return Err(self.bad("its symbol table names no string table"));
        };
        let (symbols, strings) = (
            self.bytes(u64_at(symbols, 24), u64_at(symbols, 32), "symbol table")?,
            self.bytes(u64_at(strings, 24), u64_at(strings, 32), "string table")?,
        );
        let exports = symbols
            .chunks_exact(24)
            // Section 0 marks an undefined symbol, which is imported.
            .filter(|symbol| u16_at(symbol, 6) != 0)
            .filter_map(|symbol| strings.get(u32_at(symbol, 0) as usize..))
            .map(|rest| rest.split(|&byte| byte == 0).next().unwrap_or_default().to_vec())
            .filter(|name| !name.is_empty())
            .collect();
        Ok(Some(exports))
    }
}

/// Returns Rust's name for an ELF machine number, for the processors that plugins exist for.
fn machine_name(machine: u16) -> Option<&'static str> {
    match machine {
        3 => Some("x86"),
        40 => Some("arm"),
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        243 => Some("riscv64"),
        _ => None,
    }
}

/// Reads a little-endian number. Callers have checked the slice's length.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
