//! The host that a request names.

use hyper::header::HOST;
use hyper::{Method, Request};
use skep_types::HostName;

use crate::message::Refusal;

/// The host that a request names, in the header of that name and nowhere else: what is said in two
/// places is read by hosts in different ways.
pub(super) fn of<B>(request: &Request<B>, port: u16) -> Result<HostName, Refusal> {
    if request.method() == Method::CONNECT {
        return Err(Refusal::Tunnel);
    }
    let mut headers = request.headers().get_all(HOST).iter();
    let Some(header) = headers.next() else {
        return Err(Refusal::NoName);
    };
    if headers.next().is_some() {
        return Err(Refusal::TwoNames);
    }
    let header = header.to_str().map_err(|_| Refusal::NoName)?;
    let host = name(header, port)?;
    match request.uri().authority() {
        Some(other) if name(other.as_str(), port) != Ok(host.clone()) => Err(Refusal::TwoNames),
        Some(_) | None => Ok(host),
    }
}

/// The name in `host` or `host:port`, if that is the port.
pub(in super::super) fn name(text: &str, port: u16) -> Result<HostName, Refusal> {
    let host = match text.rsplit_once(':') {
        Some((host, given)) if given.parse() == Ok(port) => host,
        Some(_) => return Err(Refusal::NoName),
        None => text,
    };
    host.parse().map_err(|_| Refusal::NoName)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: (&str, &str), hosts: &[&str], expected: Result<&str, Refusal>) {
        let mut request = Request::builder().method(line.0).uri(line.1);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let named = of(&request.body(()).unwrap(), 80);
        assert_eq!(
            named.map(|name| name.to_string()),
            expected.map(str::to_owned)
        );
    }

    #[test]
    fn a_request_names_one_host_in_one_place() {
        let get = ("GET", "/x");
        check(get, &["Example.test"], Ok("example.test"));
        check(get, &["example.test:80"], Ok("example.test"));
        check(get, &[], Err(Refusal::NoName));
        check(get, &["a.test", "a.test"], Err(Refusal::TwoNames));
        check(get, &["a.test:81"], Err(Refusal::NoName));
        check(get, &["192.0.2.7"], Err(Refusal::NoName));
        check(get, &["[::1]"], Err(Refusal::NoName));
        check(get, &["a.test@b.test"], Err(Refusal::NoName));
        check(get, &["a.test, b.test"], Err(Refusal::NoName));
        let whole = ("GET", "http://a.test/x");
        check(whole, &["a.test"], Ok("a.test"));
        check(whole, &["b.test"], Err(Refusal::TwoNames));
        let user = ("GET", "http://u@a.test/x");
        check(user, &["a.test"], Err(Refusal::TwoNames));
        check(("CONNECT", "a.test:443"), &["a.test"], Err(Refusal::Tunnel));
    }
}
