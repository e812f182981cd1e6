//! Keys and words of steps.

use skep_image::ContentKey;
use skep_types::{BuildContext, BuildOrder, Instruction, LayerKey};

/// Longest part of an instruction in a log.
const LONGEST_WORDS: usize = 2000;

/// Key of what a step leads to, from what led to it.
pub(crate) fn key(before: &ContentKey, instruction: &Instruction) -> ContentKey {
    let mut parts: Vec<Vec<u8>> = vec![before.as_bytes().to_vec()];
    let mut add = |text: &str| parts.push(text.as_bytes().to_vec());
    match instruction {
        Instruction::Run { command, user } => {
            add("RUN");
            add(command);
            optional(&mut add, user.as_deref());
        }
        Instruction::Copy {
            source,
            destination,
            owner,
            mode,
            files,
        } => {
            add("COPY");
            add(source);
            add(destination);
            optional(&mut add, owner.as_deref());
            optional(&mut add, mode.map(|mode| mode.to_string()).as_deref());
            add(files.as_str());
        }
        Instruction::CopyFrom { layers, copy } => {
            add("COPY FROM");
            add(&layers.len().to_string());
            layers.iter().for_each(|layer| add(&layer.to_string()));
            add(&copy.sources.len().to_string());
            copy.sources.iter().for_each(|source| add(source));
            add(&copy.destination);
            optional(&mut add, copy.owner.as_deref());
            optional(&mut add, copy.mode.map(|mode| mode.to_string()).as_deref());
        }
        Instruction::Environment(variables) => {
            add("ENV");
            for (name, value) in variables {
                add(name);
                add(value);
            }
        }
        Instruction::WorkDirectory(path) => {
            add("WORKDIR");
            add(path);
        }
        Instruction::User {
            name,
            administrator,
        } => {
            add("USER");
            add(name);
            add(if *administrator { "administrator" } else { "" });
        }
    }
    ContentKey::of("build-step-2", parts.iter().map(Vec::as_slice))
}

/// A text that is missing is another part than an empty one.
fn optional(add: &mut impl FnMut(&str), text: Option<&str>) {
    match text {
        Some(text) => {
            add("some");
            add(text);
        }
        None => add("none"),
    }
}

/// Key of what the steps begin with. Layers are reused within a team and nowhere else.
pub(crate) fn base_key(
    order: &BuildOrder,
    layers: &[LayerKey],
    context: &BuildContext,
) -> ContentKey {
    let mut parts = vec![order.team.as_str().to_owned(), context.user.clone()];
    parts.push(format!("{:?}", context.work_directory));
    parts.push(layers.len().to_string());
    parts.extend(layers.iter().map(LayerKey::to_string));
    for (name, value) in &context.environment {
        parts.push(name.clone());
        parts.push(value.clone());
    }
    ContentKey::of("build-base-1", parts.iter().map(String::as_bytes))
}

/// An instruction in the words of the caller, for logs.
pub(crate) fn words(instruction: &Instruction) -> String {
    let words = match instruction {
        Instruction::Run { command, user } => match user {
            Some(user) => format!("RUN {command} {user}"),
            None => format!("RUN {command}"),
        },
        Instruction::Copy {
            source,
            destination,
            owner,
            mode,
            ..
        } => {
            let owner = owner.as_deref().unwrap_or_default();
            let mode = mode.map(|mode| format!("{mode:04o}")).unwrap_or_default();
            format!("COPY {source} {destination} {owner} {mode}")
                .trim_end()
                .to_owned()
        }
        Instruction::CopyFrom { copy, .. } => {
            format!("COPY_FROM {} {}", copy.sources.join(" "), copy.destination)
        }
        Instruction::Environment(variables) => {
            let pairs = variables
                .iter()
                .map(|(name, value)| format!("{name} {value}"));
            format!("ENV {}", pairs.collect::<Vec<_>>().join(" "))
        }
        Instruction::WorkDirectory(path) => format!("WORKDIR {path}"),
        Instruction::User {
            name,
            administrator,
        } => format!("USER {name}{}", if *administrator { " true" } else { "" }),
    };
    match words.char_indices().nth(LONGEST_WORDS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Instruction {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Instruction::Environment(pairs.collect())
    }

    #[test]
    fn a_key_depends_on_every_argument_and_on_where_it_ends() {
        let before = ContentKey::of("test", []);
        let run = |command: &str, user: Option<&str>| Instruction::Run {
            command: command.to_owned(),
            user: user.map(str::to_owned),
        };
        let steps = [
            run("a b", None),
            run("a", Some("b")),
            run("a", Some("")),
            run("a", None),
            environment(&[("A", "B")]),
            environment(&[("A", ""), ("", "B")]),
            Instruction::WorkDirectory("a".to_owned()),
        ];
        let keys: std::collections::HashSet<_> =
            steps.iter().map(|step| key(&before, step)).collect();
        assert_eq!(keys.len(), steps.len());
        assert_ne!(
            key(&before, &steps[0]),
            key(&key(&before, &steps[0]), &steps[0])
        );
    }

    #[test]
    fn the_words_are_those_of_the_caller() {
        assert_eq!(
            words(&environment(&[("ENV_VAR", "Hello, World!")])),
            "ENV ENV_VAR Hello, World!"
        );
        let copy = Instruction::Copy {
            source: "a".to_owned(),
            destination: "/b".to_owned(),
            owner: None,
            mode: None,
            files: "a".repeat(64).parse().unwrap(),
        };
        assert_eq!(words(&copy), "COPY a /b");
    }
}
