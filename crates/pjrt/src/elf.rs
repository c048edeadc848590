//! Checks of a library's ELF header, which give a clear error for a library built for another
//! machine.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result};

/// The machine that this program was built for: its ELF number and common name.
const MACHINE: (u16, &str) = if cfg!(target_arch = "x86_64") {
    (62, "x86-64")
} else if cfg!(target_arch = "aarch64") {
    (183, "aarch64")
} else if cfg!(target_arch = "riscv64") {
    (243, "riscv64")
} else if cfg!(target_arch = "powerpc64") {
    (21, "powerpc64")
} else if cfg!(target_arch = "s390x") {
    (22, "s390x")
} else {
    (0, std::env::consts::ARCH)
};

/// Checks that `path` is a shared library that this machine can load. On systems without ELF files
/// the loader does the check.
pub(crate) fn check(path: &Path) -> Result<()> {
    let not_found = |source| Error::PluginNotFound { path: path.to_owned(), source };
    let mut header = Vec::with_capacity(64);
    let mut file = File::open(path).map_err(not_found)?;
    if file.metadata().map_err(not_found)?.is_dir() {
        let message = "it is a folder, not a file".to_owned();
        return Err(Error::NotALibrary { path: path.to_owned(), message });
    }
    file.by_ref().take(64).read_to_end(&mut header).map_err(not_found)?;
    if cfg!(any(target_os = "macos", target_os = "windows")) {
        return Ok(());
    }
    check_header(path, &header)?;
    check_extent(path, &mut file, &header)
}

/// Checks that the file is as long as its own tables state. The loader also maps a truncated file,
/// and the process dies when it accesses the missing part.
fn check_extent(path: &Path, file: &mut File, header: &[u8]) -> Result<()> {
    let damaged = |message: String| Error::NotALibrary { path: path.to_owned(), message };
    let read = |source| Error::PluginNotFound { path: path.to_owned(), source };
    let Some(header) = header.first_chunk::<64>() else {
        return Err(damaged("the file ends inside its header".to_owned()));
    };
    let half = |at: usize| u64::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let size = file.metadata().map_err(read)?.len();
    let (segments, segment_size, segment_count) = (long(header, 32), half(54), half(56));
    let (sections, section_size, section_count) = (long(header, 40), half(58), half(60));
    let mut end = sections.saturating_add(section_size * section_count);
    end = end.max(segments.saturating_add(segment_size * segment_count));
    if end <= size && segment_size >= 56 {
        let mut table = Vec::new();
        file.seek(SeekFrom::Start(segments)).map_err(read)?;
        file.take(segment_size * segment_count).read_to_end(&mut table).map_err(read)?;
        for segment in table.chunks_exact(segment_size as usize) {
            // Offset and size, in the file, of a segment that the loader maps.
            end = end.max(long(segment, 8).saturating_add(long(segment, 32)));
        }
    }
    if end > size {
        return Err(damaged(format!("it is cut short: {size} of at least {end} bytes")));
    }
    Ok(())
}

/// Reads the 64-bit number at this offset in native byte order. The header was checked for that
/// order.
fn long(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(number)
}

fn check_header(path: &Path, header: &[u8]) -> Result<()> {
    let damaged =
        |message: &str| Error::NotALibrary { path: path.to_owned(), message: message.to_owned() };
    if !header.starts_with(b"\x7fELF") {
        return Err(damaged("it is not a shared library (no ELF header)"));
    }
    let Some(&[_, _, _, _, class, order, .., kind_low, kind_high, machine_low, machine_high]) =
        header.first_chunk::<20>()
    else {
        return Err(damaged("the file ends inside its header"));
    };
    let number = |bytes: [u8; 2]| match order {
        2 => u16::from_be_bytes(bytes),
        _ => u16::from_le_bytes(bytes),
    };
    let machine = number([machine_low, machine_high]);
    let native_order = if cfg!(target_endian = "big") { 2 } else { 1 };
    // On a machine that is not listed above, only the loader's check applies.
    if MACHINE.0 != 0 && (machine != MACHINE.0 || class != 2 || order != native_order) {
        return Err(Error::WrongMachine {
            path: path.to_owned(),
            built_for: name(machine, class),
            machine: MACHINE.1,
        });
    }
    match number([kind_low, kind_high]) {
        3 => Ok(()),
        kind => Err(damaged(&format!("it is an ELF file of type {kind}, not a shared library"))),
    }
}

fn name(machine: u16, class: u8) -> String {
    let name = match machine {
        3 => "x86 (32 bits)",
        21 => "powerpc64",
        22 => "s390x",
        40 => "arm (32 bits)",
        62 => "x86-64",
        183 => "aarch64",
        243 => "riscv",
        other => return format!("ELF machine {other}"),
    };
    if class == 2 { name.to_owned() } else { format!("{name}, 32-bit addresses") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(machine: u16, kind: u16) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(machine.to_le_bytes());
        bytes
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn another_machine_is_named() {
        let path = Path::new("plugin.so");
        let error = check_header(path, &header(183, 3)).expect_err("aarch64 must be refused");
        assert_eq!(
            error.to_string(),
            "loading plugin plugin.so: built for aarch64, this machine is x86-64"
        );
        check_header(path, &header(62, 3)).expect("a library for this machine");
        let program = check_header(path, &header(62, 2)).expect_err("a program is not a library");
        assert!(program.to_string().contains("type 2"), "{program}");
        let short = check_header(path, &header(62, 3)[..12]).expect_err("cut short");
        assert!(short.to_string().contains("ends inside its header"), "{short}");
    }
}
