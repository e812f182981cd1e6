//! Classes of requests on a connection that is not authenticated.

/// Credentials that a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No credentials, or none that are right.
    Nothing,
    /// A key, which the API has not looked at yet.
    Key,
    /// A token of the sandbox that it is for.
    Token,
}

/// Class under which a request is counted.
///
/// ```text
/// Claiming ──► Anonymous ──► Refused
///     └──────────────────────────▲
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It shows a key or a token, and nobody has looked whether it is right.
    Claiming,
    /// It shows nothing that is right, and is served as anybody's.
    Anonymous,
    /// It is told no, and takes room only until its client has read that.
    Refused,
}

impl Standing {
    pub(super) const ALL: [Self; 3] = [Self::Claiming, Self::Anonymous, Self::Refused];
}

/// Too many requests of its standing are under way: from one address, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyRequests;

/// Limits on concurrent requests of one standing.
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

/// Number of requests under way, by standing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    claiming: usize,
    anonymous: usize,
    refused: usize,
}

impl Counts {
    pub(super) fn of(&self, standing: Standing) -> usize {
        match standing {
            Standing::Claiming => self.claiming,
            Standing::Anonymous => self.anonymous,
            Standing::Refused => self.refused,
        }
    }

    /// Counts `after` where `before` were counted of these.
    pub(super) fn replace(&mut self, standing: Standing, before: usize, after: usize) {
        let count = match standing {
            Standing::Claiming => &mut self.claiming,
            Standing::Anonymous => &mut self.anonymous,
            Standing::Refused => &mut self.refused,
        };
        *count = *count - before + after;
    }
}
