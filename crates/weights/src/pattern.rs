//! Patterns of names, with captures.

use crate::error::{Error, Result, shortened};
use std::collections::{BTreeMap, HashSet};

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Literal(String),
    /// `*`: any text.
    Any,
    /// `{name}`: one component, without dots, slashes and brackets.
    Named(String),
}

/// A pattern such as `h.{i}.attn.*`, or a name made from the captures of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern {
    text: String,
    tokens: Vec<Token>,
}

/// The texts that the wildcards of a pattern stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Captures {
    stars: Vec<String>,
    named: BTreeMap<String, String>,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Pattern> {
        let mut tokens = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            let token = match c {
                '*' => Token::Any,
                '{' => {
                    let (name, is_closed) = match rest.as_str().split_once('}') {
                        Some((name, after)) => {
                            let name = name.to_owned();
                            rest = after.chars();
                            (name, true)
                        }
                        None => (rest.as_str().to_owned(), false),
                    };
                    let is_name = is_closed
                        && !name.is_empty()
                        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                    if !is_name {
                        return Err(Error::new(format!(
                            "the pattern `{text}` has `{{{}`; a capture is {{name}}",
                            shortened(&name)
                        )));
                    }
                    Token::Named(name)
                }
                _ => {
                    literal.push(c);
                    continue;
                }
            };
            if !literal.is_empty() {
                tokens.push(Token::Literal(std::mem::take(&mut literal)));
            }
            tokens.push(token);
        }
        if !literal.is_empty() {
            tokens.push(Token::Literal(literal));
        }
        Ok(Pattern { text: text.to_owned(), tokens })
    }

    /// Returns an error if the captures of `pattern` do not provide those of this name.
    pub(crate) fn check_name(&self, pattern: &Pattern) -> Result<()> {
        let stars = |pattern: &Pattern| pattern.tokens.iter().filter(|t| **t == Token::Any).count();
        let unknown = self.tokens.iter().find_map(|token| match token {
            Token::Named(name) if !pattern.tokens.contains(token) => Some(name),
            _ => None,
        });
        match unknown {
            Some(name) => Err(Error::new(format!(
                "`{}` uses {{{name}}}, which `{}` does not capture",
                self.text, pattern.text
            ))),
            None if stars(self) > stars(pattern) => Err(Error::new(format!(
                "`{}` has {} stars, `{}` has {}",
                self.text,
                stars(self),
                pattern.text,
                stars(pattern)
            ))),
            None => Ok(()),
        }
    }

    /// Returns the captures if the pattern matches the whole name.
    pub(crate) fn matches(&self, name: &str) -> Option<Captures> {
        let mut captures = Captures::default();
        let mut failed = HashSet::new();
        self.match_from(0, name, 0, &mut captures, &mut failed).then_some(captures)
    }

    /// Matches the tokens from one on. `failed` holds places that cannot match, so that the work is
    /// bounded by the square of the name's length.
    fn match_from(
        &self,
        token: usize,
        name: &str,
        at: usize,
        captures: &mut Captures,
        failed: &mut HashSet<(usize, usize)>,
    ) -> bool {
        let rest = &name[at..];
        let Some(first) = self.tokens.get(token) else { return rest.is_empty() };
        if failed.contains(&(token, at)) {
            return false;
        }
        let matched = match first {
            Token::Literal(text) => {
                rest.starts_with(text)
                    && self.match_from(token + 1, name, at + text.len(), captures, failed)
            }
            Token::Any => {
                let ends = rest.char_indices().map(|(end, _)| end).chain([rest.len()]);
                ends.into_iter().any(|end| {
                    captures.stars.push(rest[..end].to_owned());
                    let matched = self.match_from(token + 1, name, at + end, captures, failed);
                    if !matched {
                        captures.stars.pop();
                    }
                    matched
                })
            }
            Token::Named(key) => {
                let longest = rest.find(['.', '/', '[', ']']).unwrap_or(rest.len());
                let before = captures.named.get(key).cloned();
                let ends: Vec<usize> =
                    (1..=longest).filter(|&e| rest.is_char_boundary(e)).collect();
                ends.into_iter().rev().any(|end| {
                    if before.as_deref().is_some_and(|before| before != &rest[..end]) {
                        return false;
                    }
                    captures.named.insert(key.clone(), rest[..end].to_owned());
                    let matched = self.match_from(token + 1, name, at + end, captures, failed);
                    if !matched && before.is_none() {
                        captures.named.remove(key);
                    }
                    matched
                })
            }
        };
        if !matched {
            failed.insert((token, at));
        }
        matched
    }

    /// Returns the name with captured texts in place of the wildcards.
    pub(crate) fn fill(&self, captures: &Captures) -> String {
        let mut stars = captures.stars.iter();
        let text = |token: &Token| match token {
            Token::Literal(text) => text.clone(),
            Token::Any => stars.next().cloned().unwrap_or_default(),
            Token::Named(name) => captures.named.get(name).cloned().unwrap_or_default(),
        };
        self.tokens.iter().map(text).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    fn renamed(pattern: &str, replacement: &str, name: &str) -> Option<String> {
        let pattern = Pattern::parse(pattern).unwrap();
        let replacement = Pattern::parse(replacement).unwrap();
        replacement.check_name(&pattern).unwrap();
        Some(replacement.fill(&pattern.matches(name)?))
    }

    #[test]
    fn captures_fill_the_new_name() {
        let found = renamed("transformer.h.{i}.*", "h.layers[{i}].*", "transformer.h.3.ln_1.bias");
        assert_eq!(found.unwrap(), "h.layers[3].ln_1.bias");
        assert_eq!(renamed("a.*.c", "*", "a.b.c.c").unwrap(), "b.c");
        assert_eq!(renamed("{a}.{b}", "{b}/{a}", "x.y").unwrap(), "y/x");
        assert_eq!(renamed("{a}.{a}", "{a}", "x.x").unwrap(), "x");
        assert_eq!(renamed("{a}.{a}", "{a}", "x.y"), None);
        assert_eq!(renamed("h.{i}.w", "{i}", "h.1.2.w"), None);
        assert_eq!(renamed("blk{i}x*", "{i}|*", "blk12xé").unwrap(), "12|é");
    }

    #[test]
    fn wrong_patterns_are_refused() {
        let error = Pattern::parse("a.{b").unwrap_err();
        assert_eq!(error.to_string(), "the pattern `a.{b` has `{b`; a capture is {name}");
        assert!(Pattern::parse("a.{}").is_err());
        assert!(Pattern::parse("a.{b c}").is_err());
        let (from, to) = (Pattern::parse("a.{i}").unwrap(), Pattern::parse("b.{j}").unwrap());
        let error = to.check_name(&from).unwrap_err();
        assert_eq!(error.to_string(), "`b.{j}` uses {j}, which `a.{i}` does not capture");
        let to = Pattern::parse("b.*").unwrap();
        assert_eq!(
            to.check_name(&from).unwrap_err().to_string(),
            "`b.*` has 1 stars, `a.{i}` has 0"
        );
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = Pattern::parse("*a*a*a*a*a*a*a*a*a*b").unwrap();
        assert_eq!(pattern.matches(&"a".repeat(300)), None);
    }
}
