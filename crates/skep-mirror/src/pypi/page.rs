//! Pages of links, as indexes write them: just enough of HTML for that.

/// Most links of a page.
const MOST_LINKS: usize = 200_000;

/// A link to a file.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) text: String,
    pub(super) target: String,
    pub(super) requires_python: Option<String>,
    pub(super) yanked: Option<String>,
    pub(super) metadata: Option<String>,
}

/// The links of a page.
pub(super) fn links(page: &str) -> impl Iterator<Item = Link> {
    let mut rest = page;
    let next = move || {
        loop {
            let (_, after) = rest.split_once('<')?;
            rest = after;
            let is_anchor = after.len() > 1
                && after.as_bytes()[0].eq_ignore_ascii_case(&b'a')
                && after.as_bytes()[1].is_ascii_whitespace();
            if is_anchor {
                let mut link = Link::default();
                rest = attributes(&after[1..], &mut link)?;
                let (text, _) = rest.split_once('<')?;
                link.text = unescaped(text);
                return Some(link);
            }
        }
    };
    std::iter::from_fn(next).take(MOST_LINKS)
}

/// Reads attributes up to the end of the tag, and returns what follows it.
fn attributes<'a>(mut rest: &'a str, link: &mut Link) -> Option<&'a str> {
    loop {
        rest =
            rest.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == '/');
        if let Some(after) = rest.strip_prefix('>') {
            return Some(after);
        }
        let ends = |letter: char| letter.is_ascii_whitespace() || "=>/".contains(letter);
        let end = rest.find(ends)?;
        if end == 0 {
            // A sign of equality without a name.
            rest = &rest[1..];
            continue;
        }
        let (name, after) = rest.split_at(end);
        let after_space = after.trim_start();
        let (value, after) = match after_space.strip_prefix('=') {
            Some(value) => value_of(value.trim_start())?,
            None => ("", after),
        };
        link.set(&name.to_ascii_lowercase(), value);
        rest = after;
    }
}

/// The value at the beginning of a text, and what follows it.
fn value_of(text: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            return quoted.split_once(quote);
        }
    }
    let end = text.find(|letter: char| letter.is_ascii_whitespace() || letter == '>')?;
    Some(text.split_at(end))
}

impl Link {
    fn set(&mut self, name: &str, value: &str) {
        let value = unescaped(value);
        match name {
            "href" => self.target = value,
            "data-requires-python" => self.requires_python = Some(value),
            "data-yanked" => self.yanked = Some(value),
            "data-core-metadata" => self.metadata = Some(value),
            "data-dist-info-metadata" => {
                self.metadata.get_or_insert(value);
            }
            _ => {}
        }
    }
}

/// A page of links.
pub(super) fn render(title: &str, links: impl Iterator<Item = Link>) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"1.0\">\
         <title>Links for {}</title></head><body>\n",
        escaped(title)
    );
    for link in links {
        let attribute = |name: &str, value: Option<String>| match value {
            Some(value) => format!(" {name}=\"{}\"", escaped(&value)),
            None => String::new(),
        };
        let attributes = [
            attribute("href", Some(link.target)),
            attribute("data-requires-python", link.requires_python),
            attribute("data-yanked", link.yanked),
            attribute("data-core-metadata", link.metadata.clone()),
            attribute("data-dist-info-metadata", link.metadata),
        ];
        let text = escaped(&link.text);
        page.push_str(&format!("<a{}>{text}</a><br>\n", attributes.concat()));
    }
    page.push_str("</body></html>\n");
    page
}

const ENTITIES: [(&str, &str); 5] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("#39", "'"),
];

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        let entity = (ENTITIES.iter()).find(|(_, meaning)| meaning.starts_with(letter));
        match entity {
            Some((name, _)) => {
                escaped.push('&');
                escaped.push_str(name);
                escaped.push(';');
            }
            None => escaped.push(letter),
        }
    }
    escaped
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let known = part.split_once(';').and_then(|(name, rest)| {
            let named = (ENTITIES.iter()).find(|(known, _)| *known == name);
            let meaning = match named {
                Some((_, meaning)) => (*meaning).to_owned(),
                None => numbered(name.strip_prefix('#')?)?.to_string(),
            };
            Some((meaning, rest))
        });
        match known {
            Some((meaning, rest)) => {
                plain.push_str(&meaning);
                plain.push_str(rest);
            }
            None => {
                plain.push('&');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn numbered(text: &str) -> Option<char> {
    let number = match text.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_off_or_no_link_is_no_link() {
        for page in [
            "<a",
            "<a ",
            "<a href",
            "<a href=",
            "<a href='x",
            "<a href=x>",
            "<abbr href=x>y</abbr>",
            "< a href=x>y</a>",
            "&#xffffffff;",
            "<a =><",
            "<a ä='ö'>",
        ] {
            let found: Vec<_> = links(page).filter(|link| link.target == "x").collect();
            assert!(found.is_empty(), "{page}: {found:?}");
        }
        let found: Vec<_> = links("<A\nHREF=x a='&lt;&#x41;&#66;&bogus;'>&amp;</A>").collect();
        assert_eq!(
            (found[0].target.as_str(), found[0].text.as_str()),
            ("x", "&")
        );
        assert_eq!(unescaped("&lt;&#x41;&#66;&bogus;&"), "<AB&bogus;&");
    }
}
