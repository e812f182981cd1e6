//! One port of one sandbox, reached through the server.

use reqwest::{Method, RequestBuilder, Response};

use crate::rest::{Client, ClientError};

/// One port of one sandbox: requests to it find their way and show the sandbox's token.
#[derive(Debug, Clone)]
pub struct Port {
    client: Client,
    origin: String,
    sandbox: String,
    number: u16,
    access_token: Option<String>,
}

impl Client {
    /// Port `number` of the sandbox `id`, which asks for `access_token`.
    pub fn port(&self, id: &str, number: u16, access_token: Option<&str>) -> Port {
        let origin = match &self.sandbox_domain {
            Some(domain) => format!("{}://{number}-{id}.{domain}", self.base.scheme()),
            None => self.base.origin().ascii_serialization(),
        };
        Port {
            client: self.clone(),
            origin,
            sandbox: id.to_owned(),
            number,
            access_token: access_token.map(str::to_owned),
        }
    }
}

impl Port {
    /// A request to `path`, which begins with a slash, without a time limit.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        // An id that is no part of a host name makes a request that fails when it is sent.
        let url = format!("{}{path}", self.origin);
        let request = self
            .client
            .http
            .request(method, url)
            .header("e2b-sandbox-id", &self.sandbox)
            .header("e2b-sandbox-port", self.number);
        match &self.access_token {
            Some(token) => request.header("x-access-token", token),
            None => request,
        }
    }

    /// Sends a request; whatever is no success is an error.
    ///
    /// # Errors
    ///
    /// [`ClientError`] as the sandbox, the server or the network made it.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        self.client.send(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(client: &Client) -> String {
        let port = client.port("i1", 49999, None);
        let request = port.request(Method::GET, "/health").build().unwrap();
        request.url().to_string()
    }

    #[test]
    fn a_sandbox_is_at_the_server_unless_it_has_a_name() {
        let client = Client::new("https://api.skep.test:8443", "").unwrap();
        assert_eq!(url(&client), "https://api.skep.test:8443/health");
        let client = client.with_sandbox_domain("skep.test:8443");
        assert_eq!(url(&client), "https://49999-i1.skep.test:8443/health");
    }

    #[test]
    fn a_request_says_to_whom_it_goes_and_shows_the_token() {
        let client = Client::new("http://127.0.0.1:1", "").unwrap();
        let port = client.port("i1", 49983, Some("secret"));
        let request = port.request(Method::GET, "/health").build().unwrap();
        let header = |name: &str| request.headers()[name].to_str().unwrap();
        assert_eq!(header("e2b-sandbox-id"), "i1");
        assert_eq!(header("e2b-sandbox-port"), "49983");
        assert_eq!(header("x-access-token"), "secret");
    }
}
