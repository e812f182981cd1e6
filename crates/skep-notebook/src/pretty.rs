//! JSON as Jupyter writes it: one blank per level, every value on a line of its own.

/// Writes the JSON `text` with the indentation of Jupyter, as part of something `depth` levels
/// deep. Strings and numbers stay as they are written.
///
/// `text` must be valid JSON; anything else comes out as something else that is not.
pub(crate) fn write(text: &str, mut depth: usize, into: &mut String) {
    let bytes = text.as_bytes();
    let mut place = 0;
    while let Some(byte) = bytes.get(place) {
        let next = place + 1;
        place = match byte {
            b'"' => {
                let end = end_of_string(bytes, next);
                into.push_str(&text[place..end]);
                end
            }
            b'{' | b'[' => {
                into.push(char::from(*byte));
                let content = skip_blanks(bytes, next);
                if matches!(bytes.get(content), Some(b'}' | b']')) {
                    into.push(char::from(bytes[content]));
                    content + 1
                } else {
                    depth += 1;
                    break_line(depth, into);
                    next
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                break_line(depth, into);
                into.push(char::from(*byte));
                next
            }
            b',' => {
                into.push(',');
                break_line(depth, into);
                next
            }
            b':' => {
                into.push_str(": ");
                next
            }
            b' ' | b'\t' | b'\n' | b'\r' => next,
            _ => {
                let end = end_of_word(bytes, next);
                into.push_str(&text[place..end]);
                end
            }
        };
    }
}

/// A line break and the indentation of a level.
pub(crate) fn break_line(depth: usize, into: &mut String) {
    into.push('\n');
    into.extend(std::iter::repeat_n(' ', depth));
}

fn skip_blanks(bytes: &[u8], mut place: usize) -> usize {
    while matches!(bytes.get(place), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        place += 1;
    }
    place
}

/// Behind the quote that ends the string whose content begins at `place`.
fn end_of_string(bytes: &[u8], mut place: usize) -> usize {
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'"' => return place + 1,
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
    bytes.len()
}

/// Behind a number or one of the three words.
fn end_of_word(bytes: &[u8], mut place: usize) -> usize {
    while matches!(bytes.get(place), Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    {
        place += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut into = String::new();
        write(text, 0, &mut into);
        into
    }

    #[test]
    fn every_level_has_one_more_blank() {
        assert_eq!(
            written(r#"{"a":[1,{"b" : null}],  "c":{ },"d":[ ]}"#),
            "{\n \"a\": [\n  1,\n  {\n   \"b\": null\n  }\n ],\n \"c\": {},\n \"d\": []\n}"
        );
    }

    #[test]
    fn strings_and_numbers_stay_as_they_are_written() {
        let text =
            r#"["a\"b\\","\u00fc {[,:","ü",1.50e+10,123456789012345678901234567890,-0.0,true]"#;
        let again: String = written(text)
            .lines()
            .map(|line| line.trim_start_matches(' '))
            .collect();
        assert_eq!(again, text);
    }
}
