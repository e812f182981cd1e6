//! Access to `/files`: only who shows the token is let in, or the one signature that it makes.
//!
//! The input is the token, the path, the username, the expiration, what is shown as a token and
//! what is shown as a signature, one per line.

use skep_agent::fuzzing::Link;

use crate::pieces::texts;

pub(super) fn check(data: &[u8]) {
    let [
        token,
        path,
        username,
        expiration,
        shown_token,
        shown_signature,
    ] = texts(data);
    let expiration: Option<i64> = expiration.parse().ok();
    let link = Link {
        path: &path,
        is_for_writing: data.len() % 2 == 0,
        username: &username,
        expiration,
    };
    let right = link.sign(&token);
    let now = 1_700_000_000;
    let in_time = expiration.is_none_or(|end| end >= now);
    assert_eq!(link.admits(&token, None, Some(&right), now), in_time);

    let shown = Some(shown_signature.as_str()).filter(|text| !text.is_empty());
    let expected = shown == Some(&right) && in_time;
    assert_eq!(link.admits(&token, None, shown, now), expected);
    // A token that is shown decides alone.
    let holds = shown_token == token;
    let shown_token = Some(shown_token.as_bytes());
    assert_eq!(link.admits(&token, shown_token, Some(&right), now), holds);

    for other in others(link) {
        assert!(!other.admits(&token, None, Some(&right), i64::MIN));
    }
    let other_token = format!("{token}x");
    assert!(!link.admits(&other_token, None, Some(&right), i64::MIN));
}

/// Links that the signature of `link` must not open.
fn others(link: Link<'_>) -> [Link<'_>; 4] {
    [
        Link {
            path: if link.path == "a" { "b" } else { "a" },
            ..link
        },
        Link {
            is_for_writing: !link.is_for_writing,
            ..link
        },
        Link {
            username: if link.username == "a" { "b" } else { "a" },
            ..link
        },
        Link {
            expiration: match link.expiration {
                None => Some(0),
                Some(_) => None,
            },
            ..link
        },
    ]
}
