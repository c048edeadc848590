//! Checks of the environment variable `XLA_FLAGS`.
//!
//! XLA aborts the process on an unknown flag, so the flag names are checked first. The values are
//! not checked, because only the plugin knows the valid values.

use std::fs::File;
use std::io::Read;
use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::plugin::Plugin;

/// The checked combinations of plugin and text, cached because reading a plugin's file takes a
/// tenth of a second.
static CHECKED: Mutex<Vec<(Plugin, String)>> = Mutex::new(Vec::new());

/// Returns an error for a flag whose name does not occur in the plugin's file.
pub(crate) fn check(plugin: Plugin) -> Result<()> {
    let Some(text) = std::env::var_os("XLA_FLAGS") else { return Ok(()) };
    let text = text.to_string_lossy().into_owned();
    let names = flag_names(&text)?;
    if names.is_empty() {
        return Ok(());
    }
    let mut checked = CHECKED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = (plugin, text);
    if checked.contains(&key) {
        return Ok(());
    }
    let unknown = names_not_in(plugin, &names)?;
    if unknown.is_empty() {
        checked.push(key);
        return Ok(());
    }
    let message = format!(
        "the environment variable XLA_FLAGS holds {}, which plugin {plugin} does not know and would abort over; \
         unset it, or pass the flag as an override in the compile options",
        unknown
            .iter()
            .map(|name| if name.starts_with('-') { name.clone() } else { format!("--{name}") })
            .collect::<Vec<_>>()
            .join(", ")
    );
    Err(Error::invalid("client", message))
}

/// Returns the names in a list of flags. A text that does not begin with a dash is the name of a
/// file with flags.
fn flag_names(text: &str) -> Result<Vec<String>> {
    let from_file;
    let text = match text.trim() {
        "" => return Ok(Vec::new()),
        flags if flags.starts_with('-') => flags,
        file => {
            from_file = std::fs::read_to_string(file).map_err(|error| {
                let message =
                    format!("XLA_FLAGS names the file {file}, which cannot be read: {error}");
                Error::invalid("client", message)
            })?;
            from_file.as_str()
        }
    };
    let flags = words(text).into_iter().filter(|word| word.starts_with('-'));
    let names = flags.map(|flag| {
        let flag = flag.split('=').next().unwrap_or_default();
        // XLA accepts only flags with two dashes. A flag with a single dash keeps it here, so its
        // name is never found.
        flag.strip_prefix("--").unwrap_or(flag).to_owned()
    });
    Ok(names.collect())
}

/// Splits a list of flags into words; quoted text may contain blanks.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in text.chars() {
        match quote {
            Some(mark) if character == mark => quote = None,
            None if matches!(character, '"' | '\'') => quote = Some(character),
            None if character.is_whitespace() => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(character);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the names that do not occur, between two zero bytes, in the plugin's file.
fn names_not_in(plugin: Plugin, names: &[String]) -> Result<Vec<String>> {
    const CHUNK: usize = 1 << 20;
    let unreadable = |source| Error::PluginNotFound { path: plugin.path().to_owned(), source };
    let mut file = File::open(plugin.path()).map_err(unreadable)?;
    let needles: Vec<_> = names.iter().map(|name| format!("{name}\0").into_bytes()).collect();
    let overlap = needles.iter().map(Vec::len).max().unwrap_or(0);
    let mut found = vec![false; names.len()];
    let mut window = Vec::with_capacity(CHUNK + overlap);
    loop {
        let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut window).map_err(unreadable)?;
        for (needle, found) in needles.iter().zip(&mut found) {
            *found = *found || contains(&window, needle);
        }
        if read == 0 || found.iter().all(|found| *found) {
            break;
        }
        window.drain(..window.len().saturating_sub(overlap));
    }
    let unknown = names.iter().zip(found).filter(|(_, found)| !found);
    Ok(unknown.map(|(name, _)| name.clone()).collect())
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    let Some((&last, _)) = needle.split_last() else { return true };
    debug_assert_eq!(last, 0);
    // Each zero byte ends a string. Only strings that end like the needle are compared.
    haystack.split_inclusive(|&byte| byte == 0).any(|string| string.ends_with(needle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_text() {
        let names =
            flag_names(" --xla_a=1 --xla_b --xla_c=\"x -y\" -xla_d --xla_e='--x' f").expect("text");
        assert_eq!(names, ["xla_a", "xla_b", "xla_c", "-xla_d", "xla_e"]);
        assert_eq!(flag_names("").expect("empty"), Vec::<String>::new());
        let error = flag_names("/nowhere/flags").expect_err("no such file");
        assert!(error.to_string().contains("/nowhere/flags"), "{error}");
    }
}
