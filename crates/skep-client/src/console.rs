//! The server's web console.

use reqwest::Method;
use skep_wire::rest::ConsoleTicket;

use crate::client::Client;
use crate::error::ClientError;

impl Client {
    /// A link that opens the server's web console once, within a minute. Only Skep has one.
    ///
    /// What opens it is behind the `#`, which browsers send to nobody.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if the server has no console.
    pub async fn console_link(&self) -> Result<String, ClientError> {
        let url = self.url(&["skep", "console", "tickets"]);
        let request = self.request(Method::POST, url);
        let issued: ConsoleTicket = self.call("get a link to the console", request).await?;
        let mut link = self.url(&["console", ""]);
        link.set_fragment(Some(&format!("ticket={}", issued.ticket)));
        Ok(link.into())
    }
}
