//! Capabilities of the user's terminal.

use std::io::IsTerminal as _;

use rustix::termios::tcgetwinsize;

/// Capabilities of standard output and error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Screen {
    /// True if a person reads standard output.
    pub(crate) is_terminal: bool,
    /// True if standard output may be coloured.
    pub(crate) colours_output: bool,
    /// True if standard error may be coloured.
    pub(crate) colours_errors: bool,
    /// Protocol by which the terminal takes pictures, if it has said that it does.
    pub(crate) pictures: Option<PictureProtocol>,
    /// Characters in a line.
    pub(crate) width: Option<u16>,
}

/// Protocols by which a terminal takes pictures among its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PictureProtocol {
    Kitty,
    Iterm,
}

impl Screen {
    /// Detects the capabilities of standard output and error, also from the variables of the
    /// terminal.
    pub fn detect(environment: impl Fn(&str) -> Option<String>) -> Self {
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let size = tcgetwinsize(&stdout).ok();
        let mut screen = Self::of(stdout.is_terminal(), stderr.is_terminal(), &environment);
        screen.width = size.map(|size| size.ws_col).filter(|width| *width > 0);
        screen
    }

    fn of(
        output_is_terminal: bool,
        errors_are_terminal: bool,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let variable = |name| environment(name).filter(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        let colour = variable("NO_COLOR").is_none() && term != "dumb";
        let pictures = output_is_terminal.then(|| picture_protocol(&term, variable));
        Self {
            is_terminal: output_is_terminal,
            colours_output: colour && output_is_terminal,
            colours_errors: colour && errors_are_terminal,
            pictures: pictures.flatten(),
            width: None,
        }
    }
}

/// Terminals that show pictures say who they are. A multiplexer says who it runs in, too, but
/// passes no picture on.
fn picture_protocol(
    term: &str,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Option<PictureProtocol> {
    if variable("TMUX").is_some() || term.starts_with("screen") || term.starts_with("tmux") {
        return None;
    }
    if term == "xterm-kitty" || term == "xterm-ghostty" || variable("KITTY_WINDOW_ID").is_some() {
        return Some(PictureProtocol::Kitty);
    }
    match variable("TERM_PROGRAM").as_deref() {
        Some("iTerm.app" | "WezTerm") => Some(PictureProtocol::Iterm),
        Some("ghostty") => Some(PictureProtocol::Kitty),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(is_terminal: bool, variables: &[(&str, &str)]) -> Screen {
        Screen::of(is_terminal, is_terminal, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colour_is_for_terminals_whose_owner_does_not_mind() {
        assert!(screen(true, &[("TERM", "xterm")]).colours_errors);
        assert!(!screen(false, &[("TERM", "xterm")]).colours_errors);
        assert!(!screen(true, &[("TERM", "xterm"), ("NO_COLOR", "1")]).colours_errors);
        assert!(screen(true, &[("TERM", "xterm"), ("NO_COLOR", "")]).colours_errors);
        assert!(!screen(true, &[("TERM", "dumb")]).colours_output);
    }

    #[test]
    fn pictures_are_shown_only_where_the_terminal_says_that_it_can() {
        let kitty = ("TERM", "xterm-kitty");
        let wezterm = ("TERM_PROGRAM", "WezTerm");
        assert_eq!(
            screen(true, &[kitty]).pictures,
            Some(PictureProtocol::Kitty)
        );
        assert_eq!(
            screen(true, &[wezterm]).pictures,
            Some(PictureProtocol::Iterm)
        );
        assert_eq!(screen(false, &[kitty]).pictures, None);
        assert_eq!(screen(true, &[wezterm, ("TMUX", "/tmp/x")]).pictures, None);
        assert_eq!(screen(true, &[("TERM", "xterm-256color")]).pictures, None);
    }
}
