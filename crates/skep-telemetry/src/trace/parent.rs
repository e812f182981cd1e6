//! The parent of a request's trace, from the header `traceparent`.

/// The span of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// True if the caller records its own span.
    pub(super) sampled: bool,
}

impl Parent {
    /// Reads the header, `00-<trace>-<span>-<flags>`. A later version may say more, behind that.
    /// What cannot be read is as good as nothing: tracing never fails a request.
    pub(super) fn from_header(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let version = hexadecimal(parts.next()?, 2)?;
        let trace = hexadecimal(parts.next()?, 32)?;
        let span = u64::try_from(hexadecimal(parts.next()?, 16)?).ok()?;
        let flags = hexadecimal(parts.next()?, 2)?;
        let more = parts.next().is_some();
        let is_valid = version != 0xff && !(version == 0 && more) && trace != 0 && span != 0;
        is_valid.then_some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }
}

/// Exactly so many digits, in lower case, as the standard has it.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_valid = text.len() == digits && text.bytes().all(is_digit);
    is_valid
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn a_parent_is_read_as_the_standard_writes_it() {
        let header = format!("00-{TRACE}-b7ad6b7169203331-01");
        let parent = Parent::from_header(&header).unwrap();
        assert_eq!(parent.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(parent.span, 0xb7ad_6b71_6920_3331);
        assert!(parent.sampled);
        // A version that is not known yet, with more behind.
        let later = format!("01-{TRACE}-b7ad6b7169203331-00-more-of-it");
        assert!(!Parent::from_header(&later).unwrap().sampled);
    }

    #[test]
    fn what_is_no_parent_is_none() {
        let span = "b7ad6b7169203331";
        for header in [
            String::new(),
            "nonsense".to_owned(),
            format!("00-{TRACE}-{span}"),
            format!("00-{TRACE}-{span}-01-more"),
            format!("ff-{TRACE}-{span}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-00000000000000000000000000000000-{span}-01"),
            format!("00-{}-{span}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-+7ad6b7169203331-01"),
            format!("00-{TRACE}-é7ad6b716920333-01"),
        ] {
            assert_eq!(Parent::from_header(&header), None, "{header}");
        }
    }
}
