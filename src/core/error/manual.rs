//! The manual pages of errors: one file per code, which is also the documentation of its kind.

use super::error::Error;

/// The pages by code, in alphabetical order.
macro_rules! pages {
    ($($code:literal),* $(,)?) => {
        const PAGES: &[(&str, &str)] =
            &[$(($code, include_str!(concat!("pages/", $code, ".md")))),*];
        const CODES: &[&str] = &[$($code),*];
    };
}

pages![
    "bug",
    "checkpoint",
    "collective",
    "compile",
    "data",
    "distributed",
    "dtype",
    "io",
    "memory",
    "plugin",
    "recompile",
    "runtime",
    "shape",
    "sharding",
    "tracer",
    "tree",
    "unsupported",
    "value",
];

impl Error {
    /// The codes of all errors: the words in brackets, as in `error[shape]`.
    pub const CODES: &[&str] = CODES;

    /// Returns the manual page of a code as plain text: what the error means, the smallest program
    /// that causes it, why, and the fix. `None` if there is no such code. `oxidax explain CODE`
    /// prints it.
    ///
    /// ```
    /// use oxidax::Error;
    /// let page = Error::manual("shape").expect("it is one of the codes");
    /// assert!(page.starts_with("error[shape]\n\nShapes, ranks or axes do not match."));
    /// assert!(Error::CODES.iter().all(|code| Error::manual(code).is_some()));
    /// assert_eq!(Error::manual("colour"), None);
    /// ```
    pub fn manual(code: &str) -> Option<String> {
        let (code, page) = PAGES.iter().find(|(other, _)| *other == code)?;
        Some(format!("error[{code}]\n\n{}", plain_text(page).trim_end()))
    }
}

/// Returns the text of a page without marks: examples are indented, and their hidden lines are left
/// out.
fn plain_text(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            if line != "#" && !line.starts_with("# ") {
                text.push_str("    ");
                text.push_str(line);
                text.push('\n');
            }
            continue;
        }
        text.push_str(&line.replace("**", ""));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::error::OpErrorKind;

    #[test]
    fn pages_say_why_and_how_to_fix() {
        assert!(CODES.is_sorted());
        for (code, text) in PAGES {
            // No program can cause a mistake in oxidax.
            assert_eq!(text.contains("```"), *code != "bug", "{code}");
            let page = Error::manual(code).expect("it has a page");
            assert!(page.contains("\nWhy. ") && page.contains("\nFix. "), "{page}");
            assert!(!page.contains("```") && !page.contains("**"), "{page}");
            assert!(page.lines().all(|line| line.chars().count() <= 104), "{page}");
        }
    }

    #[test]
    fn kinds_of_operations_have_pages() {
        // A new kind must be added here, and to the pages.
        let kinds = [
            OpErrorKind::Shape,
            OpErrorKind::DType,
            OpErrorKind::Value,
            OpErrorKind::Sharding,
            OpErrorKind::Collective,
            OpErrorKind::Unsupported,
            OpErrorKind::Runtime,
            OpErrorKind::Bug,
        ];
        for kind in kinds {
            match kind {
                OpErrorKind::Shape
                | OpErrorKind::DType
                | OpErrorKind::Value
                | OpErrorKind::Sharding
                | OpErrorKind::Collective
                | OpErrorKind::Unsupported
                | OpErrorKind::Runtime
                | OpErrorKind::Bug => assert!(CODES.contains(&kind.code()), "{kind}"),
            }
        }
    }

    #[test]
    fn hidden_lines_are_left_out() {
        let page = "Text.\n\n```\nlet x = 1;\n# hidden(x);\n#[derive(Tree)]\n```\n\n**Why.** So.\n";
        let expected = "Text.\n\n    let x = 1;\n    #[derive(Tree)]\n\nWhy. So.\n";
        assert_eq!(plain_text(page), expected);
    }
}
