//! Texts with places for secrets and identity tokens, which are filled when a request leaves.

use crate::{SecretName, SecretNameError};

const SECRET: &str = "${e2b.secrets.";
const TOKEN: &str = "${e2b.identity.tokens.";

/// The value of a header, as it is kept and shown: with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderTemplate {
    text: Box<str>,
    parts: Vec<TemplatePart>,
}

/// A part of a [`HeaderTemplate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text that stays as it is.
    Text(String),
    /// The place of a secret of the team.
    Secret(SecretName),
    /// The place of an identity token of the sandbox.
    Token(String),
}

/// A placeholder that is nested, has no end, or names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed placeholder")]
pub struct MalformedPlaceholder;

impl From<SecretNameError> for MalformedPlaceholder {
    fn from(_error: SecretNameError) -> Self {
        Self
    }
}

impl HeaderTemplate {
    /// Reads a text. Whatever looks like a placeholder of ours and is none is refused; anything else
    /// with a dollar stays as it is.
    ///
    /// # Errors
    ///
    /// [`MalformedPlaceholder`]
    pub fn parse(text: &str) -> Result<Self, MalformedPlaceholder> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, prefix, after)) = next_placeholder(rest) {
            let (name, after) = after.split_once('}').ok_or(MalformedPlaceholder)?;
            if name.contains("${") {
                return Err(MalformedPlaceholder);
            }
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            parts.push(placeholder(prefix, name)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        Ok(Self {
            text: text.into(),
            parts,
        })
    }

    /// The text with its placeholders.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The parts, in their order.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// The secrets that it names.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretName> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Secret(name) => Some(name),
            TemplatePart::Text(_) | TemplatePart::Token(_) => None,
        })
    }

    /// The identity tokens that it names.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Token(name) => Some(name.as_str()),
            TemplatePart::Text(_) | TemplatePart::Secret(_) => None,
        })
    }
}

/// The text before the next placeholder, its prefix, and what follows that.
fn next_placeholder(text: &str) -> Option<(&str, &'static str, &str)> {
    let find = |prefix: &'static str| text.find(prefix).map(|at| (at, prefix));
    let found = [find(SECRET), find(TOKEN)].into_iter().flatten().min();
    found.map(|(at, prefix)| (&text[..at], prefix, &text[at + prefix.len()..]))
}

fn placeholder(prefix: &str, name: &str) -> Result<TemplatePart, MalformedPlaceholder> {
    if prefix == SECRET {
        return Ok(TemplatePart::Secret(name.trim().parse()?));
    }
    if name.is_empty() {
        return Err(MalformedPlaceholder);
    }
    Ok(TemplatePart::Token(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found_among_text() {
        let text = "a ${e2b.secrets. My-Key }-${e2b.identity.tokens.Aws} ${x} ${e2b.other}";
        let template = HeaderTemplate::parse(text).unwrap();
        assert_eq!(template.as_str(), text);
        assert_eq!(
            template.parts(),
            [
                TemplatePart::Text("a ".to_owned()),
                TemplatePart::Secret("my-key".parse().unwrap()),
                TemplatePart::Text("-".to_owned()),
                TemplatePart::Token("Aws".to_owned()),
                TemplatePart::Text(" ${x} ${e2b.other}".to_owned()),
            ]
        );
        assert_eq!(template.secrets().count(), 1);
        assert_eq!(template.tokens().collect::<Vec<_>>(), ["Aws"]);
        assert!(HeaderTemplate::parse("").unwrap().parts().is_empty());
    }

    #[test]
    fn nested_endless_and_empty_ones_are_refused() {
        for text in [
            "${e2b.secrets.}",
            "${e2b.secrets.a",
            "${e2b.secrets.${e2b.secrets.a}}",
            "${e2b.secrets.a b}",
            "${e2b.secrets.sec_a}",
            "${e2b.secrets.SEC_a}",
            "${e2b.identity.tokens.}",
            "${e2b.identity.tokens.a${x}}",
            "${e2b.identity.tokens.a",
        ] {
            assert_eq!(
                HeaderTemplate::parse(text),
                Err(MalformedPlaceholder),
                "{text}"
            );
        }
    }
}
