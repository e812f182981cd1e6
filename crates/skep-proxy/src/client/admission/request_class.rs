//! Classes of requests on a connection that is not authenticated.

/// Credentials that a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// No credentials, or none that are right.
    None,
    /// A key, which the API has not looked at yet.
    Key,
    /// A token of the sandbox that it is for.
    Token,
}

/// Class under which a request is counted.
///
/// ```text
/// Unverified ──► Anonymous ──► Refused
///     └──────────────────────────▲
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// It shows a key or a token, and nobody has looked whether it is right.
    Unverified,
    /// It shows nothing that is right, and is served as anybody's.
    Anonymous,
    /// It is told no, and takes room only until its client has read that.
    Refused,
}

impl RequestClass {
    pub(super) const ALL: [Self; 3] = [Self::Unverified, Self::Anonymous, Self::Refused];
}

/// Too many requests of its class are under way: from one address, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyRequests;

/// Limits on concurrent requests of one class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    /// Limit per connection, whatever others have.
    pub(super) of_connection: usize,
    pub(super) of_address: usize,
    pub(super) of_all: usize,
}

impl Allowance {
    /// Returns true if one more may be served beside these.
    pub(super) fn admits(&self, of_connection: usize, of_address: usize, of_all: usize) -> bool {
        of_connection < self.of_connection || (of_address < self.of_address && of_all < self.of_all)
    }
}

/// Number of requests under way, by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    unverified: usize,
    anonymous: usize,
    refused: usize,
}

impl Counts {
    pub(super) fn of(&self, class: RequestClass) -> usize {
        match class {
            RequestClass::Unverified => self.unverified,
            RequestClass::Anonymous => self.anonymous,
            RequestClass::Refused => self.refused,
        }
    }

    /// Counts `after` where `before` were counted of these.
    pub(super) fn replace(&mut self, class: RequestClass, before: usize, after: usize) {
        let count = match class {
            RequestClass::Unverified => &mut self.unverified,
            RequestClass::Anonymous => &mut self.anonymous,
            RequestClass::Refused => &mut self.refused,
        };
        *count = *count - before + after;
    }
}
