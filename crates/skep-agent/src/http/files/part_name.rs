//! The file name of a multipart part, as the clients write it. Pure.
//!
//! Browsers, undici and httpx put a name between quotes and escape what could end it: `"` and
//! control characters as `%22`, `%0A` and so on, but never `%` itself. httpx also doubles each
//! backslash, as quoted strings want it; the others leave it alone.

/// The name in a `Content-Disposition`, with the escapes of the clients undone.
pub(super) fn file_name(disposition: &str) -> Option<String> {
    let at = disposition.find("filename=\"")? + "filename=\"".len();
    let mut quoted = disposition[at..].chars().peekable();
    let mut name = String::new();
    while let Some(character) = quoted.next() {
        match character {
            '"' => return Some(control_characters(&name)),
            '\\' => {
                // A backslash before the last quote cannot escape it, or nothing ends the name.
                let escapes = match quoted.peek() {
                    Some('\\') => true,
                    Some('"') => quoted.clone().skip(1).any(|later| later == '"'),
                    Some(_) | None => false,
                };
                let literal = if escapes { quoted.next() } else { None };
                name.push(literal.unwrap_or('\\'));
            }
            other => name.push(other),
        }
    }
    None
}

/// Undoes `%22` and `%00` to `%1F`, and nothing else: a `%` of the name itself came unescaped.
fn control_characters(name: &str) -> String {
    let mut pieces = name.split('%');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece
            .get(..2)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) if code == b'"' || code < b' ' => {
                plain.push(char::from(code));
                plain.push_str(&piece[2..]);
            }
            Some(_) | None => {
                plain.push('%');
                plain.push_str(piece);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(disposition: &str, name: Option<&str>) {
        let full = format!("form-data; name=\"file\"; {disposition}");
        assert_eq!(file_name(&full).as_deref(), name);
    }

    #[test]
    fn directories_spaces_and_unicode_stay() {
        check(
            r#"filename="/a b/naïve 日本.txt""#,
            Some("/a b/naïve 日本.txt"),
        );
    }

    #[test]
    fn quotes_and_control_characters_come_back() {
        check(
            r#"filename="say %22hi%22%0A.txt""#,
            Some("say \"hi\"\n.txt"),
        );
    }

    #[test]
    fn a_percent_sign_of_the_name_stays() {
        check(r#"filename="100%25 %zz %2""#, Some("100%25 %zz %2"));
        check(r#"filename="%é %+1""#, Some("%é %+1"));
    }

    #[test]
    fn backslashes_survive_doubled_by_httpx_and_bare_by_undici() {
        check(r#"filename="back\\slash""#, Some(r"back\slash"));
        check(r#"filename="back\slash""#, Some(r"back\slash"));
        check(r#"filename="end\\""#, Some(r"end\"));
        check(r#"filename="end\""#, Some(r"end\"));
    }

    #[test]
    fn an_escaped_quote_does_not_end_the_name() {
        check(r#"filename="say \"hi\".txt""#, Some(r#"say "hi".txt"#));
    }

    #[test]
    fn a_name_without_an_end_is_none() {
        check(r#"filename="open"#, None);
        check("filename=bare", None);
        check("", None);
    }

    proptest! {
        #[test]
        fn what_httpx_escapes_is_what_comes_back(name in "[^%]{0,40}") {
            let escaped: String = name.chars().map(|character| match character {
                '"' => "%22".to_owned(),
                '\\' => "\\\\".to_owned(),
                low if low < ' ' => format!("%{:02X}", u32::from(low)),
                other => other.to_string(),
            }).collect();
            let disposition = format!("form-data; name=\"file\"; filename=\"{escaped}\"");
            prop_assert_eq!(file_name(&disposition), Some(name));
        }
    }
}
