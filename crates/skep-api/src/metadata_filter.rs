//! The `metadata` filter of lists.
//!
//! The clients encode it three times: each key and value, then the pairs as a form, then the
//! form as a query value. The last layer is gone when a query value arrives here.

use percent_encoding::percent_decode_str;

/// A text that is no metadata filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedFilter;

/// The pairs of a filter. A plain `key=value` is read as it is.
pub(crate) fn decode(text: &str) -> Result<Vec<(String, String)>, MalformedFilter> {
    let form = percent_decode(text)?;
    let pairs = form.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').ok_or(MalformedFilter)?;
            Ok((percent_decode(key)?, percent_decode(value)?))
        })
        .collect()
}

/// Decodes what is encoded, and refuses what only looks so.
fn percent_decode(text: &str) -> Result<String, MalformedFilter> {
    let bytes = text.as_bytes();
    let is_digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_hexdigit);
    let broken = (0..bytes.len())
        .filter(|index| bytes[*index] == b'%')
        .any(|index| !is_digit(index + 1) || !is_digit(index + 2));
    if broken {
        return Err(MalformedFilter);
    }
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| MalformedFilter)?.into_owned())
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    use super::*;

    fn encode(text: &str) -> String {
        utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
    }

    #[test]
    fn the_documented_example_is_read() {
        let pairs = decode("a%2520b=x%2526y");
        assert_eq!(pairs, Ok(vec![("a b".to_owned(), "x&y".to_owned())]));
    }

    #[test]
    fn a_plain_pair_is_read_as_it_is() {
        let pairs = decode("user=ada&app=x=y");
        let expected = [("user", "ada"), ("app", "x=y")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(pairs, Ok(expected.to_vec()));
        assert_eq!(decode(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in ["user", "a=%zz", "a=%2", "%ff=1", "a=b&c"] {
            assert_eq!(decode(text), Err(MalformedFilter), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_the_clients_encode_is_read_back(
            pairs in proptest::collection::vec((".{0,12}", ".{0,12}"), 0..5)
        ) {
            let form: Vec<_> = pairs
                .iter()
                .map(|(key, value)| {
                    format!("{}={}", encode(&encode(key)), encode(&encode(value)))
                })
                .collect();
            prop_assert_eq!(decode(&form.join("&")), Ok(pairs));
        }

        #[test]
        fn no_text_breaks_the_reader(text in ".{0,60}") {
            // Either it is read or refused; nothing else is promised for such text.
            prop_assert!(matches!(decode(&text), Ok(_) | Err(MalformedFilter)));
        }
    }
}
