//! The positions in sources that the text of a module refers to.

use crate::core::Loc;
use std::fmt::Write as _;

/// The source positions of a module, `#l0` and on, and that of the following operations.
#[derive(Debug, Default)]
pub(super) struct SourceLocations {
    known: Vec<String>,
    current: Option<usize>,
}

impl SourceLocations {
    /// Sets the source position of the following operations. Returns the previous one.
    pub(super) fn set(&mut self, loc: Loc) -> Option<usize> {
        let outer = self.current;
        if let Some(at) = loc.get() {
            let file = at.file().replace('\\', "/").replace('"', "'");
            let text = format!("loc(\"{file}\":{}:{})", at.line(), at.column());
            let known = self.known.iter().position(|other| *other == text);
            self.current = Some(known.unwrap_or_else(|| {
                self.known.push(text);
                self.known.len() - 1
            }));
        }
        outer
    }

    /// Sets the source position that [`SourceLocations::set`] returned.
    pub(super) fn restore(&mut self, outer: Option<usize>) {
        self.current = outer;
    }

    /// Returns the end of an operation's text, which refers to its position.
    pub(super) fn suffix(&self) -> String {
        self.current.map(|index| format!(" loc(#l{index})")).unwrap_or_default()
    }

    /// Writes the definitions of the positions after a module.
    pub(super) fn define(&self, text: &mut String) {
        for (index, loc) in self.known.iter().enumerate() {
            writeln!(text, "#l{index} = {loc}").expect("strings take any text");
        }
    }
}
