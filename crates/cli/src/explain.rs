//! `oxidax explain`: prints the manual page of an error.

use std::error::Error;
use std::io::{self, Write as _};

use clap::Args;

/// The error to explain.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The word in the brackets of an error: `shape` of `error[shape]`
    code: Option<String>,
}

/// Prints the page, or without a code the list of codes.
pub(crate) fn run(explain: &Explain) -> Result<(), Box<dyn Error>> {
    let codes = || -> String {
        let summaries = oxidax::Error::CODES.iter().map(|code| {
            let page = oxidax::Error::manual(code).unwrap_or_default();
            let summary = page.lines().nth(2).unwrap_or_default();
            format!("  {code:<12} {summary}\n")
        });
        summaries.collect()
    };
    let Some(code) = &explain.code else {
        write!(io::stdout(), "{}", codes())?;
        return Ok(());
    };
    let word = code.trim().trim_start_matches("error").trim_matches(['[', ']', ':']);
    match oxidax::Error::manual(word) {
        Some(page) => writeln!(io::stdout(), "{page}")?,
        None => {
            return Err(
                format!("no error has the code `{code}`; the codes are:\n{}", codes()).into()
            );
        }
    }
    Ok(())
}
