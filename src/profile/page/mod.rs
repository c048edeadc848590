//! A page of a profile: one HTML file that needs no network and no other file.
//!
//! [`run`] reads the folder of a profile, each section has a file, and [`document`] puts them
//! together. Everything that a page shows is escaped: names come from users, and a folder can come
//! from anywhere. The same folder gives the same bytes.

mod chart;
mod collectives;
mod document;
mod flame;
mod html;
mod lines;
mod memory;
mod roofline;
mod run;
mod timeline;
mod trace_file;

#[cfg(test)]
mod tests;

pub(crate) use document::Document;
#[cfg(feature = "doctor")]
pub(crate) use document::{Section, Tile};
#[cfg(feature = "doctor")]
pub(crate) use html::{Cell, Table, bytes, escape, percent, seconds};

use super::session::error;
use crate::core::{Error, Loc, OpErrorKind};
use std::path::Path;

/// Returns a page with the newest profile of a folder, as HTML: the timeline, a flame graph by line
/// and by scope, the time by line, memory over the step with the arrays at the peak, collectives,
/// and the roofline.
///
/// `dir` is the folder given to [`trace`](super::trace()) or to
/// [`Profile::save`](super::Profile::save), or that of one profile in it. The page is one file,
/// which any browser opens. A section without data says which call records it. `oxidax profile
/// report DIR` writes the page.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::profile;
/// let dir = tempfile::tempdir()?;
/// let f = jit(|x: Array| sin(&x) * &x).name("f");
/// profile::trace(dir.path(), || f.call(ones([3])))??;
/// let page = profile::report_html(dir.path())?;
/// assert!(page.contains("call f"));
/// std::fs::write(dir.path().join("report.html"), page)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Op` (runtime) if there is no profile, or none of its files can be read.
#[track_caller]
pub fn report_html(dir: impl AsRef<Path>) -> Result<String, Error> {
    let (dir, loc) = (dir.as_ref(), Loc::caller());
    let run = run::Run::open(dir).map_err(|message| {
        let help = "name the folder given to `profile::trace` or `Profile::save`, or the folder of \
                    one profile in it, which has `perfetto_trace.pb`";
        error("profile::report_html", OpErrorKind::Runtime, message, loc, help)
    })?;
    Ok(Document::of_run(&run).to_html())
}
