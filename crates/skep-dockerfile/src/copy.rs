//! `COPY` and `ADD`.

use crate::lines::Line;
use crate::stage::Reader;
use crate::words::{Word, flags, json_list, split};
use crate::{Copy, CopySource, Instruction};

/// Values of the flags.
#[derive(Default)]
struct Flags {
    owner: Option<String>,
    mode: Option<u32>,
    from: Option<Word>,
}

impl Reader {
    pub(crate) fn copy(&mut self, line: &Line) {
        let (found, rest) = flags(&line.text);
        let mut values = Flags::default();
        for flag in &found {
            self.copy_flag(line, flag, &mut values);
        }
        let text = &line.text[rest..];
        let words = match json_list(text) {
            // The words of a list have no quotes, but variables.
            Some(words) => words
                .into_iter()
                .map(|word| Word {
                    text: escaped(&word, line.escape),
                    offset: rest,
                })
                .collect(),
            None => split(text, line.escape)
                .into_iter()
                .map(|word| Word {
                    offset: word.offset + rest,
                    ..word
                })
                .collect::<Vec<Word>>(),
        };
        let Some((destination, sources)) = words.split_last().filter(|(_, rest)| !rest.is_empty())
        else {
            let text = format!("{} takes a source and a destination", line.keyword);
            self.error(line.at, text);
            return;
        };
        let Some(destination) = self.expand_known(line, destination) else {
            return;
        };
        let from = if line.documents.is_empty() {
            self.sources(line, sources, values.from.as_ref())
        } else {
            self.documents(line, sources, values.from.as_ref())
        };
        let Some(from) = from else { return };
        if sources.len() > 1 && !destination.ends_with('/') {
            let text =
                "several sources need a directory as their destination, with a slash at its end";
            self.error(line.at, text);
            return;
        }
        let copy = Copy {
            from,
            destination,
            owner: values.owner,
            mode: values.mode,
            unpacks: line.keyword == "ADD",
        };
        self.add(line.at, Instruction::Copy(copy));
    }

    fn copy_flag(&mut self, line: &Line, flag: &Word, values: &mut Flags) {
        let at = line.position(flag.offset);
        let (name, value) = flag.text.split_once('=').unwrap_or((&flag.text, ""));
        let word = Word {
            text: value.to_owned(),
            offset: flag.offset + name.len() + 1,
        };
        match name {
            "--chown" => values.owner = self.expand_known(line, &word),
            "--chmod" => {
                let Some(text) = self.expand_known(line, &word) else {
                    return;
                };
                match u32::from_str_radix(&text, 8) {
                    Ok(mode) if mode <= 0o7777 => values.mode = Some(mode),
                    _ => self.error(
                        at,
                        format!("`--chmod={text}` is not supported: give octal digits"),
                    ),
                }
            }
            "--from" if line.keyword == "COPY" => values.from = Some(word),
            "--link" => self.warn(at, "`--link` has no effect"),
            "--parents" | "--exclude" | "--checksum" | "--keep-git-dir" | "--unpack" => {
                self.error(at, format!("`{name}` is not supported"));
            }
            _ => self.error(at, format!("{} has no flag `{name}`", line.keyword)),
        }
    }

    /// Sources that are files somewhere.
    fn sources(
        &mut self,
        line: &Line,
        sources: &[Word],
        from: Option<&Word>,
    ) -> Option<CopySource> {
        let mut paths = Vec::new();
        for source in sources {
            let path = self.expand_known(line, source)?;
            let at = line.position(source.offset);
            if line.keyword == "ADD" {
                let is_remote = path.contains("://") || path.starts_with("git@");
                if is_remote {
                    self.error(
                        at,
                        "ADD of something remote is not supported; use RUN with curl or git",
                    );
                    return None;
                }
            }
            if from.is_none() && path.split('/').any(|name| name == "..") {
                self.error(
                    at,
                    format!("`{path}` leads out of the directory of the build"),
                );
                return None;
            }
            paths.push(path);
        }
        let Some(from) = from else {
            return Some(CopySource::Context(paths));
        };
        let name = self.expand_known(line, from)?;
        let at = line.position(from.offset);
        let before = self.stages.len().saturating_sub(1);
        if let Some(index) = self.stage_called(&name, before) {
            return Some(CopySource::Stage(index, paths));
        }
        let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let is_this = self.stages[before].name.as_deref() == Some(&name.to_lowercase());
        if name.is_empty() || is_number || is_this {
            self.error(at, format!("`{name}` is no earlier stage"));
            return None;
        }
        Some(CopySource::Image(name, paths))
    }

    /// Sources that are here-documents of this line.
    fn documents(
        &mut self,
        line: &Line,
        sources: &[Word],
        from: Option<&Word>,
    ) -> Option<CopySource> {
        if sources.len() != line.documents.len() || from.is_some() {
            let text = "here-documents together with files are not supported";
            self.error(line.at, text);
            return None;
        }
        let mut files = Vec::new();
        for document in &line.documents {
            let at = line.position(document.heredoc.offset);
            let content = if document.heredoc.expands {
                let found = self.expand_document(at, &document.content)?;
                if found.is_open {
                    let text = "the here-document has a variable that only the base image knows, which is not supported";
                    self.error(at, text);
                    return None;
                }
                found.text
            } else {
                document.content.clone()
            };
            files.push((document.heredoc.name.clone(), content));
        }
        Some(CopySource::Inline(files))
    }
}

/// A word in which quotes and the escape character mean themselves.
fn escaped(word: &str, escape: char) -> String {
    let mut text = String::new();
    for character in word.chars() {
        if ['\'', '"', escape].contains(&character) {
            text.push(escape);
        }
        text.push(character);
    }
    text
}
