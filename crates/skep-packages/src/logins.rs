//! Credentials that this host's clients have for registries.
//!
//! They are for the server alone. Nothing that is written for a sandbox or a step of a build knows them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use skep_types::Redacted;

use crate::settings::{Host, PackageSettingsError};

/// Credentials by the places that they are for.
#[derive(Clone, Default, Debug)]
pub(crate) struct Logins {
    /// Of npm, by the registry's URL without its scheme.
    npm: BTreeMap<String, NpmLogin>,
    /// Of pip and apt, by host and the beginning of the path.
    machines: Vec<Machine>,
}

/// The options of npm for one registry.
#[derive(Clone, Default, Debug)]
struct NpmLogin {
    token: Option<Redacted<String>>,
    basic: Option<Redacted<String>>,
    user: Option<String>,
    password: Option<Redacted<String>>,
}

/// An entry of `netrc`, or of apt's files of the same kind.
#[derive(Clone, Debug)]
struct Machine {
    place: String,
    user: String,
    password: Redacted<String>,
}

impl Logins {
    pub(crate) fn read(host: &Host<'_>) -> Result<Self, PackageSettingsError> {
        let mut logins = Self::default();
        let files = [
            Some(PathBuf::from("/etc/npmrc")),
            Some(PathBuf::from("/usr/etc/npmrc")),
            Some(PathBuf::from("/usr/local/etc/npmrc")),
            host.home(".npmrc"),
            host.env.get("npm_config_userconfig").map(PathBuf::from),
        ];
        for path in files.into_iter().flatten() {
            let text = host.file(path)?.unwrap_or_default();
            for line in text.lines() {
                if let Some((name, value)) = line.split_once('=') {
                    logins.take_npm(name.trim(), &expanded(value, host.env));
                }
            }
        }
        let netrc = host
            .env
            .get("NETRC")
            .map(PathBuf::from)
            .or_else(|| host.home(".netrc"));
        let mut texts = Vec::new();
        for path in [Some("/etc/apt/auth.conf".into()), netrc]
            .into_iter()
            .flatten()
        {
            texts.extend(host.file(path)?);
        }
        let parts = host.files_in("/etc/apt/auth.conf.d", &[".conf"])?;
        texts.extend(parts.into_iter().map(|(_, text)| text));
        for text in texts {
            logins.machines.extend(machines(&text));
        }
        Ok(logins)
    }

    fn take_npm(&mut self, name: &str, value: &str) {
        let Some((place, option)) = name
            .strip_prefix("//")
            .and_then(|rest| rest.rsplit_once(':'))
        else {
            return;
        };
        let login = self.npm.entry(place.to_owned()).or_default();
        let secret = Some(Redacted::new(value.to_owned()));
        match option {
            "_authToken" => login.token = secret,
            "_auth" => login.basic = secret,
            "username" => login.user = Some(value.to_owned()),
            "_password" => login.password = secret,
            _ => {}
        }
    }

    /// Header that npm sends to this registry.
    pub(crate) fn of_npm(&self, url: &str) -> Option<Redacted<String>> {
        let mut place = url.split_once("://")?.1;
        // npm looks for the registry itself, then for every directory above it.
        loop {
            let found = [
                place.to_owned(),
                format!("{}/", place.trim_end_matches('/')),
            ];
            let login = found.iter().find_map(|place| self.npm.get(place));
            if let Some(authorization) = login.and_then(NpmLogin::authorization) {
                return Some(authorization);
            }
            place = place.trim_end_matches('/').rsplit_once('/')?.0;
        }
    }

    /// Header that pip and apt send to this place: the longest entry wins.
    pub(crate) fn of_machine(&self, url: &str) -> Option<Redacted<String>> {
        let place = url.split_once("://")?.1;
        let is_for = |machine: &&Machine| {
            let machine = machine.place.trim_end_matches('/');
            let rest = place.strip_prefix(machine);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
        };
        let machines = self.machines.iter().filter(is_for);
        let machine = machines.max_by_key(|machine| machine.place.len())?;
        Some(basic(&machine.user, machine.password.reveal()))
    }
}

impl NpmLogin {
    fn authorization(&self) -> Option<Redacted<String>> {
        if let Some(token) = &self.token {
            return Some(Redacted::new(format!("Bearer {}", token.reveal())));
        }
        if let Some(both) = &self.basic {
            return Some(Redacted::new(format!("Basic {}", both.reveal())));
        }
        // npm keeps the password in Base64.
        let password = BASE64_STANDARD
            .decode(self.password.as_ref()?.reveal())
            .ok()?;
        let password = String::from_utf8(password).ok()?;
        Some(basic(self.user.as_deref()?, &password))
    }
}

/// A URL without its user and password, and what they are sent as.
pub(crate) fn without_login(url: &str) -> (String, Option<Redacted<String>>) {
    let split = || {
        let (scheme, rest) = url.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (login, _) = rest[..end].rsplit_once('@')?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let bare = format!("{scheme}://{}", &rest[login.len() + 1..]);
        Some((bare, Some(basic(&plain(user), &plain(password)))))
    };
    split().unwrap_or_else(|| (url.to_owned(), None))
}

fn basic(user: &str, password: &str) -> Redacted<String> {
    let both = BASE64_STANDARD.encode(format!("{user}:{password}"));
    Redacted::new(format!("Basic {both}"))
}

/// A value in which `${NAME}` is replaced by a variable of the environment.
fn expanded(value: &str, env: &BTreeMap<String, String>) -> String {
    let mut rest = value.trim().trim_matches('"');
    let mut expanded = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        expanded.push_str(env.get(name).map_or("", String::as_str));
        rest = after;
    }
    expanded + rest
}

/// The entries of a file of machines.
fn machines(text: &str) -> Vec<Machine> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    let mut machines: Vec<Machine> = Vec::new();
    while let Some(word) = words.next() {
        let last = machines.last_mut();
        match (word, last) {
            ("machine", _) => {
                let place = words.next().unwrap_or_default();
                let place = place.split_once("://").map_or(place, |(_, place)| place);
                machines.push(Machine {
                    place: place.to_owned(),
                    user: String::new(),
                    password: Redacted::default(),
                });
            }
            ("login", Some(machine)) => words
                .next()
                .unwrap_or_default()
                .clone_into(&mut machine.user),
            ("password", Some(machine)) => {
                machine.password = Redacted::new(words.next().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
    machines.retain(|machine| !machine.place.is_empty());
    machines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(login: Option<Redacted<String>>) -> Option<String> {
        login.map(|login| login.reveal().clone())
    }

    #[test]
    fn npm_has_a_login_for_a_registry_and_what_is_below_it() {
        let mut logins = Logins::default();
        let env = BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]);
        logins.take_npm(
            "//r.test/npm/:_authToken",
            &expanded(" \"${TOKEN}\" ", &env),
        );
        logins.take_npm("//other.test/:username", "me");
        logins.take_npm("//other.test/:_password", "d29yZA==");
        let bearer = Some("Bearer secret".to_owned());
        assert_eq!(text(logins.of_npm("https://r.test/npm/")), bearer);
        assert_eq!(text(logins.of_npm("https://r.test/npm/team")), bearer);
        assert_eq!(text(logins.of_npm("https://r.test/")), None);
        assert_eq!(
            text(logins.of_npm("https://other.test/x")).as_deref(),
            Some("Basic bWU6d29yZA==")
        );
    }

    #[test]
    fn machines_are_as_netrc_and_apt_write_them() {
        let text_of = "# machine no.test login a password b\nmachine r.test/debian login me\n  password word\n\
                       machine r.test login you password other";
        let logins = Logins {
            machines: machines(text_of),
            ..Logins::default()
        };
        let of = |url| text(logins.of_machine(url));
        assert_eq!(
            of("https://r.test/debian/x").as_deref(),
            Some("Basic bWU6d29yZA==")
        );
        assert_eq!(
            of("http://r.test:8080/").as_deref(),
            Some("Basic eW91Om90aGVy")
        );
        assert_eq!(of("https://no.test/"), None);
        assert_eq!(of("https://r.test.evil.test/"), None);
    }

    #[test]
    fn a_login_in_a_url_is_taken_out_of_it() {
        let (url, login) = without_login("https://me:w%40rd@r.test/simple/?x#y");
        assert_eq!(url, "https://r.test/simple/?x#y");
        assert_eq!(text(login).as_deref(), Some("Basic bWU6d0ByZA=="));
        let plain = "https://r.test/a@b";
        assert_eq!(without_login(plain).0, plain);
    }
}
