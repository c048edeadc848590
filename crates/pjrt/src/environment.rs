//! Environment variables that are visible only while a library starts.
//!
//! `setenv` moves and frees the table of variables while another thread may be reading it. For this
//! reason [`std::env::set_var`] is unsafe in a program with threads. This module does not modify
//! the table. It builds a longer table and exchanges the pointer to it, which POSIX permits. A
//! thread that is reading the old table continues to read it. Neither table is ever freed, which
//! costs a few kilobytes per library loaded this way.

use std::ffi::OsString;

/// A variable's name and value.
pub(crate) type Variable = (&'static str, String);

/// Returns the value of a variable.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Runs `body` with the variables set, then removes them. Variables that are already set are not
/// changed.
///
/// Variables that `body` sets are kept.
pub(crate) fn lend<T>(variables: &[Variable], body: impl FnOnce() -> T) -> T {
    let lent: Vec<&Variable> =
        variables.iter().filter(|(name, _)| std::env::var_os(name).is_none()).collect();
    let added = lent.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    if !table::replace(std::env::vars_os().chain(added)) {
        return body();
    }
    // The variables are also removed if `body` panics.
    let _restored = Restore(&lent);
    body()
}

struct Restore<'a>(&'a [&'a Variable]);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let is_lent =
            |(name, _): &(OsString, OsString)| self.0.iter().any(|(lent, _)| name == lent);
        table::replace(std::env::vars_os().filter(|variable| !is_lent(variable)));
    }
}

#[cfg(target_os = "linux")]
mod table {
    use std::ffi::{CString, OsString, c_char};
    use std::os::unix::ffi::OsStringExt as _;
    use std::sync::atomic::{AtomicPtr, Ordering};

    unsafe extern "C" {
        /// The C library's table: entries of the form `NAME=value`, terminated by null.
        static mut environ: *mut *mut c_char;
    }

    /// Exchanges the whole table for one with these variables. Returns true on success.
    pub(super) fn replace(variables: impl Iterator<Item = (OsString, OsString)>) -> bool {
        let entries: Result<Vec<CString>, _> = variables
            .map(|(name, value)| CString::new([name.into_vec(), value.into_vec()].join(&b'=')))
            .collect();
        // A zero byte cannot come from the environment, and the lent values contain none.
        let Ok(entries) = entries else { return false };
        let pointers = entries.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]);
        let pointers: Vec<*mut c_char> = pointers.collect();
        let new = Vec::leak(pointers).as_mut_ptr();
        // SAFETY: `environ` is an aligned pointer of the C library and lives as long as the
        // process.
        // - Readers load it in one instruction and see either table. The old table is neither
        //   changed nor freed here. The new table is leaked, ends with null, and its strings are
        //   leaked too.
        // - Concurrent writers would race with any reader, including the plugin's readers.
        //   `set_var` forbids them in a program with threads; a program without threads has none.
        unsafe { AtomicPtr::from_ptr(&raw mut environ) }.store(new, Ordering::SeqCst);
        true
    }
}

#[cfg(not(target_os = "linux"))]
mod table {
    use std::ffi::OsString;

    /// Only plugins for Linux need variables.
    pub(super) fn replace(_: impl Iterator<Item = (OsString, OsString)>) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Exchanging the whole table is not thread-safe, so the tests take turns.
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    #[test]
    fn variables_are_set_while_the_body_runs() {
        let _lock = LOCK.lock().expect("not poisoned");
        let path = variable("PATH").expect("tests have a path");
        let variables =
            [("OXIDAX_TEST_LENT", "a=b \u{e9}".to_owned()), ("PATH", "not this".to_owned())];
        let inside = lend(&variables, || (variable("OXIDAX_TEST_LENT"), variable("PATH")));
        assert_eq!(inside, (Some("a=b \u{e9}".to_owned()), Some(path.clone())));
        assert_eq!((variable("OXIDAX_TEST_LENT"), variable("PATH")), (None, Some(path)));
        // Child processes inherit the exchanged table.
        let child = lend(&variables, || std::process::Command::new("env").output());
        let printed = String::from_utf8_lossy(&child.expect("`env` runs").stdout).into_owned();
        assert!(printed.contains("OXIDAX_TEST_LENT=a=b \u{e9}\n"), "{printed}");
    }

    #[test]
    fn a_panic_removes_the_variables() {
        let _lock = LOCK.lock().expect("not poisoned");
        let variables = [("OXIDAX_TEST_PANIC", "1".to_owned())];
        let caught = std::panic::catch_unwind(|| lend(&variables, || panic!("on purpose")));
        assert!(caught.is_err());
        assert_eq!(variable("OXIDAX_TEST_PANIC"), None);
    }

    #[test]
    fn other_threads_keep_reading() {
        let _lock = LOCK.lock().expect("not poisoned");
        let path = variable("PATH");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(variable("PATH"), path);
                    }
                });
            }
            for round in 0..200 {
                let value = round.to_string();
                let seen =
                    lend(&[("OXIDAX_TEST_ROUND", value.clone())], || variable("OXIDAX_TEST_ROUND"));
                assert_eq!(seen, Some(value));
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
