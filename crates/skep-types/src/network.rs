//! Networks that a sandbox may reach.

/// Rule for outgoing connections, beyond what is never reachable ([`PLATFORM_DENIED`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Egress {
    /// All public addresses are reachable.
    #[default]
    Internet,
    /// Nothing at all: not even names are resolved.
    None,
}

impl Egress {
    /// The stable name of the rule.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Internet => "internet",
            Self::None => "none",
        }
    }

    /// The rule for an owner's choice of internet access; without one, all of it.
    pub fn of_choice(internet: Option<bool>) -> Self {
        match internet {
            Some(false) => Self::None,
            Some(true) | None => Self::Internet,
        }
    }
}

impl std::str::FromStr for Egress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Internet, Self::None]
            .into_iter()
            .find(|egress| egress.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a rule for outgoing connections"))
    }
}

/// Address ranges no sandbox reaches, whatever its owner allows: private networks, link-local
/// (where cloud metadata lives), carrier-grade NAT, loopback, multicast and reserved.
pub const PLATFORM_DENIED: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
];
