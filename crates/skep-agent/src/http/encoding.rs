//! Choice of the content coding of an answer. Pure.

/// Content coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
}

/// Chooses from `Accept-Encoding`; `None` if nothing we speak is acceptable.
///
/// Of the codings that are listed the one with the highest weight wins. One header is treated
/// apart: a list with further codings, like `gzip, deflate, br`, is what an HTTP library sends
/// by itself and takes anything. Compressing costs the sandbox its processor, so it gets the
/// file as it is. A client that wants gzip names it alone.
pub(crate) fn choose(accept: Option<&str>, identity_only: bool) -> Option<Coding> {
    let listed = parse(accept.unwrap_or_default());
    let weight = |name: &str| {
        listed
            .iter()
            .find(|coding| coding.name == name)
            .map(|coding| coding.weight)
    };
    let any = weight("*");
    let identity = weight("identity");
    let identity_accepted = identity.or(any).unwrap_or(1.0) > 0.0;
    if identity_only {
        return identity_accepted.then_some(Coding::Identity);
    }
    let is_library_default = listed.iter().any(|coding| {
        coding.weight > 0.0 && !matches!(coding.name.as_str(), "gzip" | "identity" | "*")
    });
    if identity_accepted && is_library_default {
        return Some(Coding::Identity);
    }
    let mut best: Option<(f32, Coding)> = None;
    for coding in &listed {
        let candidate = match coding.name.as_str() {
            "gzip" => Coding::Gzip,
            "identity" => Coding::Identity,
            _ => continue,
        };
        if coding.weight > 0.0 && best.is_none_or(|(weight, _)| coding.weight > weight) {
            best = Some((coding.weight, candidate));
        }
    }
    match best {
        Some((_, coding)) => Some(coding),
        None if identity_accepted => Some(Coding::Identity),
        // Everything but identity, and gzip is not refused by name.
        None if any.unwrap_or(0.0) > 0.0 && weight("gzip").is_none() => Some(Coding::Gzip),
        None => None,
    }
}

struct Listed {
    name: String,
    weight: f32,
}

fn parse(header: &str) -> Vec<Listed> {
    header
        .split(',')
        .filter_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let name = parts
                .next()
                .filter(|name| !name.is_empty())?
                .to_ascii_lowercase();
            let weight = parts
                .filter_map(|parameter| parameter.split_once('='))
                .find(|(key, _)| key.trim().eq_ignore_ascii_case("q"))
                .map_or(Some(1.0), |(_, value)| value.trim().parse().ok())?;
            (0.0..=1.0)
                .contains(&weight)
                .then_some(Listed { name, weight })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Coding::{Gzip, Identity};
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<Coding>) {
        assert_eq!(choose(Some(accept), false), expected, "{accept}");
    }

    #[test]
    fn without_a_wish_the_file_comes_as_it_is() {
        assert_eq!(choose(None, false), Some(Identity));
        check("", Some(Identity));
        check("br", Some(Identity));
    }

    #[test]
    fn the_heavier_listed_coding_wins() {
        check("gzip", Some(Gzip));
        check("GZIP;q=0.5, identity;q=0.4", Some(Gzip));
        check("gzip;q=0.5, identity", Some(Identity));
        check("gzip;q=0", Some(Identity));
        check("*", Some(Identity));
    }

    #[test]
    fn a_library_default_is_no_wish_for_gzip() {
        check("gzip, deflate", Some(Identity));
        check("zstd,gzip,br", Some(Identity));
        check("gzip, br, identity;q=0", Some(Gzip));
    }

    #[test]
    fn a_refused_identity_leaves_gzip_or_nothing() {
        check("identity;q=0, *", Some(Gzip));
        check("identity;q=0", None);
        check("*;q=0", None);
        check("gzip;q=0, identity;q=0", None);
        check("gzip;q=0, identity;q=0, *", None);
        assert_eq!(choose(Some("gzip, identity;q=0"), true), None);
        assert_eq!(choose(Some("gzip"), true), Some(Identity));
    }

    proptest! {
        #[test]
        fn any_header_is_answered(header in "[a-z*;=q0-9., ]{0,40}", identity_only: bool) {
            choose(Some(&header), identity_only);
        }
    }
}
