//! The challenge with which a registry answers a request that it does not know the sender of.

/// Way in which a registry wants to be told who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// With a name and a password.
    Basic,
    /// With a token of somebody else.
    Bearer {
        /// Address of whoever gives out tokens.
        realm: String,
        /// Name of the registry for that one.
        service: Option<String>,
    },
}

impl Challenge {
    /// Reads the values of `WWW-Authenticate`; of several challenges a token is the better one.
    pub(crate) fn read<'a>(values: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut basic = None;
        for value in values {
            let (scheme, parameters) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
            if scheme.eq_ignore_ascii_case("bearer") {
                let parameters = parameters_of(parameters);
                let find = |name: &str| {
                    let found = parameters
                        .iter()
                        .find(|(key, _)| key.eq_ignore_ascii_case(name));
                    found.map(|(_, value)| value.clone())
                };
                if let Some(realm) = find("realm") {
                    return Some(Self::Bearer {
                        realm,
                        service: find("service"),
                    });
                }
            } else if scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Self::Basic);
            }
        }
        basic
    }
}

/// Parameters `name="value"` or `name=value`, with commas between them. A quoted value may have
/// commas and backslashes in it.
fn parameters_of(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([',', ' ']).to_owned();
        let mut value = String::new();
        if let Some(quoted) = after.strip_prefix('"') {
            let mut characters = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((at, character)) = characters.next() {
                match character {
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    '\\' => value.extend(characters.next().map(|(_, character)| character)),
                    other => value.push(other),
                }
            }
            rest = &quoted[end..];
        } else {
            let end = after.find(',').unwrap_or(after.len());
            after[..end].trim().clone_into(&mut value);
            rest = &after[end..];
        }
        found.push((name, value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        })
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        for (values, expected) in [
            (&["Basic realm=\"Registry\""][..], Some(Challenge::Basic)),
            (&["basic"], Some(Challenge::Basic)),
            (
                &[
                    "Bearer realm=\"https://a.test/token\",service=\"r.test\",scope=\"repository:a:pull\"",
                ],
                bearer("https://a.test/token", Some("r.test")),
            ),
            (
                &[
                    "Basic realm=\"x\"",
                    "BEARER service=\"a, \\\"b\\\"\", Realm=https://a.test",
                ],
                bearer("https://a.test", Some("a, \"b\"")),
            ),
            (&["Bearer scope=\"x\""], None),
            (&["Negotiate"], None),
            (&["Bearer realm=\"unclosed"], bearer("unclosed", None)),
            (&[], None),
        ] {
            assert_eq!(
                Challenge::read(values.iter().copied()),
                expected,
                "{values:?}"
            );
        }
    }
}
