//! Functions that a loaded library imports, and their replacement in that library alone.
//!
//! A shared library calls imported functions through a table of addresses, which the loader fills
//! by the library's list of relocations. Exchanging an address redirects the calls of this library
//! and of no other code in the process.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::mapping::{Region, page_size, protect};

/// An entry of a library's dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A relocation with an addend.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: u64,
}

/// The beginning of the loader's description of a library.
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

unsafe extern "C" {
    fn dlinfo(handle: *mut c_void, request: c_int, result: *mut c_void) -> c_int;
}

const RTLD_DI_LINKMAP: c_int = 2;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// The kinds of relocations that hold the address of an imported function: absolute addresses,
/// data, and calls.
const KINDS: [u64; 3] = if cfg!(target_arch = "x86_64") { [1, 6, 7] } else { [257, 1025, 1026] };

/// The address of an imported function, as the library stores it.
pub(super) struct Import {
    /// The index of the function in the list of names.
    pub(super) function: usize,
    slot: &'static AtomicPtr<c_void>,
}

impl Import {
    /// Returns the address that the library calls.
    pub(super) fn target(&self) -> *const c_void {
        self.slot.load(Ordering::Relaxed)
    }

    /// Exchanges the address. Returns false if its page cannot be written.
    ///
    /// # Safety
    /// The function at `target` has the type of the imported function.
    pub(super) unsafe fn redirect(&self, target: *const c_void) -> bool {
        let target = target.cast_mut();
        let address = std::ptr::from_ref(self.slot).addr();
        match protection(address).as_deref() {
            Some("rw") => self.slot.store(target, Ordering::Release),
            Some("r-") => {
                let length = page_size();
                let page = Region { start: address / length * length, length };
                // SAFETY: the loader protected the page after it filled the table, and it is
                // protected again.
                if !unsafe { protect(page, true) } {
                    return false;
                }
                self.slot.store(target, Ordering::Release);
                // SAFETY: as above. A page that stays writable is harmless.
                unsafe { protect(page, false) };
            }
            _ => return false,
        }
        true
    }
}

/// Returns "rw" for a writable address, "r-" for one that can only be read.
fn protection(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            (number(start)? <= address && address < number(end)?).then(|| rest.get(..2))?
        })
        .map(str::to_owned)
}

/// Returns all places where a library holds the address of one of the functions.
///
/// # Safety
/// `handle` was returned by `dlopen` with immediate binding, and the library is never closed.
pub(super) unsafe fn imports(handle: *mut c_void, functions: &[&CStr]) -> Vec<Import> {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: the handle is valid, and the request writes a pointer.
    let failed = unsafe { dlinfo(handle, RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    // SAFETY: the loader's description of the library lives as long as the library.
    let Some(map) = (unsafe { map.as_ref() }).filter(|_| failed == 0) else { return Vec::new() };
    let tag = |wanted: i64| {
        // SAFETY: the dynamic section ends with an entry of tag 0.
        let entries = (0..).map(|at| unsafe { &*map.dynamic.add(at) });
        let mut entries = entries.take_while(|entry| entry.tag != 0);
        entries.find(|entry| entry.tag == wanted).map(|entry| entry.value)
    };
    // glibc stores addresses in the section, musl leaves the offsets of the file.
    let address = |wanted: i64| {
        tag(wanted).map(|value| if value < map.address { value + map.address } else { value })
    };
    let (Some(symbols), Some(strings)) = (address(DT_SYMTAB), address(DT_STRTAB)) else {
        return Vec::new();
    };
    let (symbols, strings) = (symbols as *const Symbol, strings as *const c_char);
    let mut found = Vec::new();
    for (table, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
        let (Some(table), Some(size)) = (address(table), tag(size)) else { continue };
        // SAFETY: the section gives the address and size of the table, which the loader has used.
        let table = unsafe {
            std::slice::from_raw_parts(table as *const Relocation, size / size_of::<Relocation>())
        };
        for relocation in table {
            let (symbol, kind) = (relocation.info >> 32, relocation.info & 0xffff_ffff);
            if symbol == 0 || relocation.addend != 0 || !KINDS.contains(&kind) {
                continue;
            }
            // SAFETY: relocations refer to the library's symbols, whose names end with zero.
            let name = unsafe {
                CStr::from_ptr(strings.add((*symbols.add(symbol as usize)).name as usize))
            };
            let Some(function) = functions.iter().position(|wanted| *wanted == name) else {
                continue;
            };
            let slot = (map.address + relocation.offset) as *const AtomicPtr<c_void>;
            // SAFETY: the relocation's place is an aligned address inside the library, which is
            // never unloaded.
            found.push(Import { function, slot: unsafe { &*slot } });
        }
    }
    found
}
