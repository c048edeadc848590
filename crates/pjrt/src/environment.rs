//! Variables that a library sees while it starts, and nobody afterwards.
//!
//! `setenv` moves the table of variables, and frees it, while another thread may be reading it:
//! that is why [`std::env::set_var`] is unsafe in a program with threads. Here the table is left
//! alone. A longer one is made beside it and the pointer to it exchanged, as POSIX lets a program
//! do; whoever is reading the old one goes on reading it. Neither is ever freed: a few kilobytes,
//! once per library that is started so.

use std::ffi::OsString;

/// A variable's name and value.
pub(crate) type Variable = (&'static str, String);

/// Runs `body` with the variables set, but for those that are set already, and takes them away
/// again.
///
/// What `body` sets itself stays.
pub(crate) fn lend<T>(variables: &[Variable], body: impl FnOnce() -> T) -> T {
    let lent: Vec<&Variable> =
        variables.iter().filter(|(name, _)| std::env::var_os(name).is_none()).collect();
    let added = lent.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    if !table::replace(std::env::vars_os().chain(added)) {
        return body();
    }
    // Taken back also if `body` panics.
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
        /// The C library's table: entries `NAME=value`, then null.
        static mut environ: *mut *mut c_char;
    }

    /// Exchanges the whole table for one with these variables; whether that was possible.
    pub(super) fn replace(variables: impl Iterator<Item = (OsString, OsString)>) -> bool {
        let entries: Result<Vec<CString>, _> = variables
            .map(|(name, value)| CString::new([name.into_vec(), value.into_vec()].join(&b'=')))
            .collect();
        // A zero byte cannot have come from the environment, and is in none of our values.
        let Ok(entries) = entries else { return false };
        let pointers = entries.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]);
        let pointers: Vec<*mut c_char> = pointers.collect();
        let new = Vec::leak(pointers).as_mut_ptr();
        // SAFETY: `environ` is a pointer, aligned, of the C library, alive as long as the process.
        // Readers load it in one instruction and find either table: the old one is neither changed
        // nor freed here, the new one is leaked, ends with null, and its strings are leaked too.
        // Writers that run meanwhile would race with any reader, and so with the plugin's own;
        // `set_var` forbids them in a program with threads, and in one without there are none.
        unsafe { AtomicPtr::from_ptr(&raw mut environ) }.store(new, Ordering::SeqCst);
        true
    }
}

#[cfg(not(target_os = "linux"))]
mod table {
    use std::ffi::OsString;

    /// The plugins that need variables are for Linux.
    pub(super) fn replace(_: impl Iterator<Item = (OsString, OsString)>) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Exchanging the whole table at once is for one thread at a time.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    #[test]
    fn variables_are_there_while_the_body_runs() {
        let _one = ONE.lock().expect("not poisoned");
        let path = variable("PATH").expect("tests have a path");
        let variables =
            [("OXIDAX_TEST_LENT", "a=b \u{e9}".to_owned()), ("PATH", "not this".to_owned())];
        let inside = lend(&variables, || (variable("OXIDAX_TEST_LENT"), variable("PATH")));
        assert_eq!(inside, (Some("a=b \u{e9}".to_owned()), Some(path.clone())));
        assert_eq!((variable("OXIDAX_TEST_LENT"), variable("PATH")), (None, Some(path)));
        // Children are given the same table.
        let child = lend(&variables, || std::process::Command::new("env").output());
        let printed = String::from_utf8_lossy(&child.expect("`env` runs").stdout).into_owned();
        assert!(printed.contains("OXIDAX_TEST_LENT=a=b \u{e9}\n"), "{printed}");
    }

    #[test]
    fn a_panic_takes_them_away_too() {
        let _one = ONE.lock().expect("not poisoned");
        let variables = [("OXIDAX_TEST_PANIC", "1".to_owned())];
        let caught = std::panic::catch_unwind(|| lend(&variables, || panic!("on purpose")));
        assert!(caught.is_err());
        assert_eq!(variable("OXIDAX_TEST_PANIC"), None);
    }

    #[test]
    fn other_threads_read_on() {
        let _one = ONE.lock().expect("not poisoned");
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
