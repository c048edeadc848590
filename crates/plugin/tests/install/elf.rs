//! Builds ELF libraries for tests. The tests of the `oxidax` command include this file too.

/// Returns a minimal valid ELF library that exports `symbols`, for this machine number.
pub(crate) fn elf(machine: u16, symbols: &[(&str, u16)]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut table = vec![0; 24];
    for (name, section) in symbols {
        let mut symbol = [0; 24];
        symbol[..4].copy_from_slice(&(strings.len() as u32).to_le_bytes());
        symbol[6..8].copy_from_slice(&section.to_le_bytes());
        table.extend(symbol);
        strings.extend(name.bytes());
        strings.push(0);
    }
    let (table_at, strings_at) = (64_u64, 64 + table.len() as u64);
    let sections_at = strings_at + strings.len() as u64;
    let section = |kind: u32, at: u64, size: usize, link: u32| {
        let mut section = [0; 64];
        section[4..8].copy_from_slice(&kind.to_le_bytes());
        section[24..32].copy_from_slice(&at.to_le_bytes());
        section[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        section[40..44].copy_from_slice(&link.to_le_bytes());
        section
    };
    let mut file = vec![0; 64];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[16..18].copy_from_slice(&3_u16.to_le_bytes());
    file[18..20].copy_from_slice(&machine.to_le_bytes());
    file[40..48].copy_from_slice(&sections_at.to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&3_u16.to_le_bytes());
    file.extend(&table);
    file.extend(&strings);
    file.extend(section(0, 0, 0, 0));
    file.extend(section(11, table_at, table.len(), 2));
    file.extend(section(3, strings_at, strings.len(), 0));
    file
}

/// The ELF machine number of the host, and that of another processor.
pub(crate) const HERE_AND_ELSEWHERE: (u16, u16) =
    if cfg!(target_arch = "x86_64") { (62, 183) } else { (183, 62) };

/// Returns a library that [`oxidax_plugin::check_library`] accepts.
pub(crate) fn plugin_library() -> Vec<u8> {
    elf(HERE_AND_ELSEWHERE.0, &[("GetPjrtApi", 1), ("another", 1)])
}
