//! Instructions of a stage, except those that copy or run.

use crate::Instruction;
use crate::command::Form;
use crate::lines::Line;
use crate::stage::{Reader, is_variable};
use crate::words::{Word, json_list, split};

impl Reader {
    pub(crate) fn instruction(&mut self, line: &Line) {
        if line.text.is_empty() && line.keyword != "CMD" && line.keyword != "ENTRYPOINT" {
            self.error(line.at, format!("{} takes an argument", line.keyword));
            return;
        }
        match line.keyword.as_str() {
            "RUN" => self.run(line),
            "COPY" | "ADD" => self.copy(line),
            "ENV" => self.environment(line),
            "WORKDIR" => self.work_directory(line),
            "USER" => self.user(line),
            "SHELL" => self.shell(line),
            "CMD" => self.command(line),
            "ENTRYPOINT" => self.entrypoint(line),
            // They say something about an image and nothing about its files.
            "LABEL" | "EXPOSE" | "MAINTAINER" => {}
            "HEALTHCHECK" | "STOPSIGNAL" | "VOLUME" | "ONBUILD" => {
                self.warn(
                    line.at,
                    format!("{} has no effect on a template", line.keyword),
                );
            }
            other => self.error(line.at, format!("there is no instruction `{other}`")),
        }
    }

    fn environment(&mut self, line: &Line) {
        let words = split(&line.text, line.escape);
        let is_old = words.first().is_some_and(|word| !word.text.contains('='));
        let pairs: Vec<(String, Word)> = if is_old {
            // `ENV name the rest of the line`
            let Some((name, rest)) = line.text.split_once(char::is_whitespace) else {
                self.error(line.at, "ENV takes `NAME=value`");
                return;
            };
            let offset = line.text.len() - rest.trim_start().len();
            let text = rest.trim_start().to_owned();
            vec![(name.to_owned(), Word { text, offset })]
        } else {
            let mut pairs = Vec::new();
            for word in words {
                match word.text.split_once('=') {
                    Some((name, value)) => {
                        let offset = word.offset + name.len() + 1;
                        let text = value.to_owned();
                        pairs.push((name.to_owned(), Word { text, offset }));
                    }
                    None => {
                        let at = line.position(word.offset);
                        self.error(at, format!("`{}` has no `=`", word.text));
                    }
                }
            }
            pairs
        };
        let mut set = Vec::new();
        for (name, word) in pairs {
            let at = line.position(word.offset.saturating_sub(name.len() + 1));
            if !is_variable(&name) {
                self.error(at, format!("`{name}` cannot be the name of a variable"));
                continue;
            }
            // All values of one instruction see the variables as they were before it.
            if let Some(found) = self.expand(line, &word) {
                if found.has_dollar {
                    let text = format!(
                        "a `$` in the value of `{name}` means itself, but the build expands it again"
                    );
                    self.warn(at, text);
                }
                set.push((name, found));
            }
        }
        let Some(stage) = self.stages.last_mut() else {
            return;
        };
        for (name, found) in &set {
            let known = (!found.is_open).then(|| found.text.clone());
            stage.environment.insert(name.clone(), known);
        }
        let values = set.into_iter().map(|(name, found)| (name, found.text));
        self.add(line.at, Instruction::Environment(values.collect()));
    }

    fn work_directory(&mut self, line: &Line) {
        let word = Word {
            text: line.text.clone(),
            offset: 0,
        };
        if let Some(found) = self.expand(line, &word) {
            self.add(line.at, Instruction::WorkDirectory(found.text));
        }
    }

    fn user(&mut self, line: &Line) {
        let words = split(&line.text, line.escape);
        let [word] = words.as_slice() else {
            self.error(
                line.at,
                "USER takes one name or number, perhaps with a group",
            );
            return;
        };
        if let Some(found) = self.expand(line, word) {
            self.add(line.at, Instruction::User(found.text));
        }
    }

    fn shell(&mut self, line: &Line) {
        match json_list(&line.text).filter(|words| !words.is_empty()) {
            Some(words) => {
                if let Some(stage) = self.stages.last_mut() {
                    stage.shell = Some(words);
                }
            }
            None => self.error(line.at, "SHELL takes a JSON list of words"),
        }
    }

    fn command(&mut self, line: &Line) {
        if let Some(stage) = self.stages.last_mut() {
            stage.command = Some(Form::read(&line.text, stage.shell.as_deref()));
            stage.has_own_command = true;
            stage.command_at = line.at;
        }
    }

    fn entrypoint(&mut self, line: &Line) {
        if let Some(stage) = self.stages.last_mut() {
            stage.entrypoint = Some(Form::read(&line.text, stage.shell.as_deref()));
            stage.command_at = line.at;
            // A command of the base was for another entry point.
            if !stage.has_own_command {
                stage.command = None;
            }
        }
    }
}
