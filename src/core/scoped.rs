//! [`Scoped`]: thread-local settings that hold while a closure runs.

use std::cell::RefCell;
use std::thread::LocalKey;

/// A thread-local setting with a default, replaced by [`Scoped::scope`] while a closure runs.
///
/// Declared with [`scoped!`](crate::core::scoped::scoped). The previous value is restored when the
/// closure returns or unwinds.
///
/// A setting that traced or compiled programs depend on is declared `keyed`. Caches of programs
/// take its value from [`Scoped::key`]: `TraceScope` for traced programs, and `CompileScope` for
/// compiled ones. No cached program depends on any other setting.
pub(crate) struct Scoped<T: 'static> {
    cell: &'static LocalKey<RefCell<T>>,
    keyed: bool,
}

/// Restores the previous value of a [`Scoped`] when dropped.
struct Restore<T: 'static> {
    setting: &'static LocalKey<RefCell<T>>,
    previous: Option<T>,
}

impl<T> Drop for Restore<T> {
    fn drop(&mut self) {
        if let Some(previous) = self.previous.take() {
            self.setting.replace(previous);
        }
    }
}

impl<T> Scoped<T> {
    /// Wraps the cell that [`scoped!`](crate::core::scoped::scoped) declares.
    pub(crate) const fn new(cell: &'static LocalKey<RefCell<T>>, keyed: bool) -> Scoped<T> {
        Scoped { cell, keyed }
    }

    /// Runs `f` with `value` in force on this thread.
    pub(crate) fn scope<R>(&self, value: T, f: impl FnOnce() -> R) -> R {
        let _restore = Restore { setting: self.cell, previous: Some(self.cell.replace(value)) };
        f()
    }

    /// Replaces the value without restoring it later.
    pub(crate) fn replace(&self, value: T) -> T {
        self.cell.replace(value)
    }

    /// Changes the value without restoring it later.
    pub(crate) fn modify<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        self.cell.with_borrow_mut(change)
    }

    /// Reads the value without cloning it.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        self.cell.with_borrow(read)
    }
}

impl<T: Clone> Scoped<T> {
    /// Returns the value in force on this thread.
    pub(crate) fn get(&self) -> T {
        self.cell.with_borrow(T::clone)
    }

    /// Returns the value in force of a `keyed` setting, for the key of a cache.
    pub(crate) fn key(&self) -> T {
        debug_assert!(self.keyed, "declare the setting `keyed`");
        self.get()
    }

    /// Runs `f` with the value that `change` makes of the present one.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T), f: impl FnOnce() -> R) -> R {
        let mut value = self.get();
        change(&mut value);
        self.scope(value, f)
    }
}

/// Declares a [`Scoped`] setting: `scoped!(static NAME: Type = default);`, or
/// `scoped!(keyed static NAME: Type = default);` if it is part of the keys of caches.
macro_rules! scoped {
    ($(#[$meta:meta])* keyed $($rest:tt)*) => {
        $crate::core::scoped::scoped!(@ true, $(#[$meta])* $($rest)*);
    };
    ($(#[$meta:meta])* $vis:vis static $($rest:tt)*) => {
        $crate::core::scoped::scoped!(@ false, $(#[$meta])* $vis static $($rest)*);
    };
    (@ $keyed:literal, $(#[$meta:meta])* $vis:vis static $name:ident: $type:ty = $default:expr) => {
        $(#[$meta])*
        $vis static $name: $crate::core::scoped::Scoped<$type> = {
            ::std::thread_local! {
                static CELL: ::std::cell::RefCell<$type> =
                    const { ::std::cell::RefCell::new($default) };
            }
            $crate::core::scoped::Scoped::new(&CELL, $keyed)
        };
    };
}
pub(crate) use scoped;

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    scoped!(static LEVEL: u32 = 1);

    #[test]
    fn scope_restores_the_previous_value_after_return_and_panic() {
        LEVEL.scope(2, || {
            assert_eq!(LEVEL.get(), 2);
            let panicked =
                catch_unwind(|| LEVEL.update(|level| *level += 5, || panic!("{}", LEVEL.get())));
            assert_eq!(
                panicked.unwrap_err().downcast_ref::<String>().map(String::as_str),
                Some("7")
            );
            assert_eq!(LEVEL.get(), 2);
        });
        assert_eq!(LEVEL.get(), 1);
    }
}
