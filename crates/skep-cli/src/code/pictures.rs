//! Pictures and other things that a terminal does not show as text.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use skep_wire::interpreter::ResultLine;

use super::screen::PictureProtocol;
use crate::{CliError, FileError};

/// Terminals take a picture in pieces of at most so many characters.
const PIECE: usize = 4096;

/// Keeps what cannot be printed, under names that are counted.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    directory: Option<PathBuf>,
    plots: u32,
    pages: u32,
}

/// Something in a result that is a file rather than text.
struct Attachment<'a> {
    extension: &'static str,
    is_base64: bool,
    content: Cow<'a, str>,
}

impl Pictures {
    /// Keeps them in `directory`, which is made when the first one comes; `None` keeps nothing.
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self {
            directory,
            ..Self::default()
        }
    }

    /// Returns true if pictures are saved.
    pub(crate) fn keeps(&self) -> bool {
        self.directory.is_some()
    }

    /// Writes what `result` has of files, and returns where.
    pub(crate) fn keep(&mut self, result: &ResultLine) -> Result<Vec<PathBuf>, CliError> {
        let Some(directory) = &self.directory else {
            return Ok(Vec::new());
        };
        let pictures = attachments(result);
        let page = page(result).filter(|_| pictures.is_empty());
        let (name, all) = match (pictures.is_empty(), page) {
            (false, _) => {
                self.plots += 1;
                (format!("plot-{}", self.plots), pictures)
            }
            (true, Some(page)) => {
                self.pages += 1;
                (format!("output-{}", self.pages), vec![page])
            }
            (true, None) => return Ok(Vec::new()),
        };
        fs::create_dir_all(directory).map_err(FileError::on("make", directory))?;
        let write = |attachment: &Attachment<'_>| {
            let path = directory.join(format!("{name}.{}", attachment.extension));
            let bytes = attachment.bytes()?;
            fs::write(&path, bytes).map_err(FileError::on("write", &path))?;
            Ok(path)
        };
        all.iter().map(write).collect()
    }
}

impl Attachment<'_> {
    fn bytes(&self) -> Result<Vec<u8>, CliError> {
        if !self.is_base64 {
            return Ok(self.content.as_bytes().to_vec());
        }
        let dense: String = self.content.split_whitespace().collect();
        STANDARD.decode(dense).map_err(CliError::failure)
    }
}

/// Returns true if there is something in it that only a picture shows.
pub(crate) fn is_picture(result: &ResultLine) -> bool {
    !attachments(result).is_empty()
}

fn attachments(result: &ResultLine) -> Vec<Attachment<'_>> {
    let extra = result.extra.get("image/gif");
    let gif = extra.and_then(|gif| gif.read::<String>().ok());
    [
        ("png", true, borrowed(&result.png)),
        ("jpeg", true, borrowed(&result.jpeg)),
        ("svg", false, borrowed(&result.svg)),
        ("pdf", true, borrowed(&result.pdf)),
        ("gif", true, gif.map(Cow::Owned)),
    ]
    .into_iter()
    .filter_map(|(extension, is_base64, content)| {
        Some(Attachment {
            extension,
            is_base64,
            content: content?,
        })
    })
    .collect()
}

fn borrowed(text: &Option<String>) -> Option<Cow<'_, str>> {
    text.as_deref().map(Cow::Borrowed)
}

/// A page for a browser, of something that says nothing as text.
fn page(result: &ResultLine) -> Option<Attachment<'_>> {
    let content = result.html.as_deref()?;
    let says_something = result
        .text
        .as_deref()
        .is_some_and(|text| !is_placeholder(text));
    (!says_something).then_some(Attachment {
        extension: "html",
        is_base64: false,
        content: Cow::Borrowed(content),
    })
}

/// Returns true for what Python prints for an object that has other representations.
pub(crate) fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('<') && text.ends_with('>') && !text.contains('\n')
}

/// Escape sequence by which a terminal shows the picture of `result`; `None` if it has none that it
/// takes.
pub(crate) fn inline(result: &ResultLine, protocol: PictureProtocol) -> Option<String> {
    let png = result.png.as_deref();
    let content = match protocol {
        PictureProtocol::Kitty => png?,
        PictureProtocol::Iterm => png.or(result.jpeg.as_deref())?,
    };
    let dense: String = content.split_whitespace().collect();
    // It goes to a terminal, so it must be what it says it is.
    let length = STANDARD.decode(&dense).ok()?.len();
    Some(match protocol {
        PictureProtocol::Kitty => kitty(&dense),
        PictureProtocol::Iterm => {
            format!("\x1b]1337;File=inline=1;size={length}:{dense}\x07\n")
        }
    })
}

fn kitty(dense: &str) -> String {
    let pieces: Vec<&str> = (0..dense.len())
        .step_by(PIECE)
        .map(|start| &dense[start..dense.len().min(start + PIECE)])
        .collect();
    let mut text = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let control = if index == 0 { "a=T,f=100,q=2," } else { "" };
        let more = u8::from(index + 1 < pieces.len());
        text.push_str(&format!("\x1b_G{control}m={more};{piece}\x1b\\"));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use skep_wire::interpreter::AnswerLine;

    use super::*;

    fn plot() -> ResultLine {
        ResultLine {
            text: Some("<Figure size 640x480 with 1 Axes>".to_owned()),
            png: Some("aGVsbG8=\n".to_owned()),
            svg: Some("<svg/>".to_owned()),
            ..ResultLine::default()
        }
    }

    #[test]
    fn pictures_are_counted_and_every_form_of_one_has_its_number() {
        let directory = tempfile::tempdir().unwrap();
        let plots = directory.path().join("plots");
        let mut pictures = Pictures::new(Some(plots.clone()));
        let first = pictures.keep(&plot()).unwrap();
        assert_eq!(first, [plots.join("plot-1.png"), plots.join("plot-1.svg")]);
        assert_eq!(fs::read(&first[0]).unwrap(), b"hello");
        let page = ResultLine {
            text: Some("<IPython.core.display.HTML object>".to_owned()),
            html: Some("<b>hi</b>".to_owned()),
            ..ResultLine::default()
        };
        assert_eq!(pictures.keep(&page).unwrap(), [plots.join("output-1.html")]);
        let second = pictures.keep(&plot()).unwrap();
        assert_eq!(second[0], plots.join("plot-2.png"));
    }

    #[test]
    fn a_picture_of_another_kind_is_kept_with_its_line_ends() {
        let line = r#"{"type": "result", "extra": {"image/gif": "aGVs\nbG8=\n"}}"#;
        let AnswerLine::Result(result) = AnswerLine::read(line.as_bytes()).unwrap() else {
            panic!("{line}");
        };
        let directory = tempfile::tempdir().unwrap();
        let mut pictures = Pictures::new(Some(directory.path().to_owned()));
        let kept = pictures.keep(&result).unwrap();
        assert_eq!(fs::read(&kept[0]).unwrap(), b"hello");
    }

    #[test]
    fn a_table_is_no_page_and_without_a_folder_nothing_is_kept() {
        let table = ResultLine {
            text: Some("   a\n0  1".to_owned()),
            html: Some("<table/>".to_owned()),
            ..ResultLine::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let mut pictures = Pictures::new(Some(directory.path().to_owned()));
        assert!(pictures.keep(&table).unwrap().is_empty());
        assert!(Pictures::new(None).keep(&plot()).unwrap().is_empty());
    }

    #[test]
    fn a_picture_reaches_the_terminal_in_pieces_and_only_if_it_is_one() {
        let large = ResultLine {
            png: Some("AAAA".repeat(PIECE / 2)),
            ..ResultLine::default()
        };
        let shown = inline(&large, PictureProtocol::Kitty).unwrap();
        assert!(shown.starts_with("\x1b_Ga=T,f=100,q=2,m=1;AAAA"));
        assert!(shown.ends_with("\x1b\\\n") && shown.contains("\x1b_Gm=0;"));
        let odd = ResultLine {
            png: Some("\x1b]0;title\x07".to_owned()),
            ..ResultLine::default()
        };
        assert_eq!(inline(&odd, PictureProtocol::Iterm), None);
    }
}
