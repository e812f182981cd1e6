//! Steps of a build, as clients write them.

use skep_control::RequestedStep;
use skep_types::{BuildFailure, BuildPhase, BuildStep, Instruction, VersionCopy};
use skep_wire::rest;

/// Reads the steps. The first that cannot be read is the failure of the build, with its number: so
/// clients show the line of their caller's that it comes from.
pub(super) fn read(steps: Vec<rest::BuildStep>) -> Result<Vec<RequestedStep>, BuildFailure> {
    let numbered = steps.into_iter().zip(1..);
    let read = numbered.map(|(step, number)| {
        read_one(step).map_err(|message| BuildFailure {
            phase: Some(BuildPhase::Step(number)),
            message,
        })
    });
    read.collect()
}

fn read_one(step: rest::BuildStep) -> Result<RequestedStep, String> {
    if step.kind.eq_ignore_ascii_case("COPY_FROM") {
        return copy_from(step);
    }
    let arguments = step.args.unwrap_or_default();
    // An empty text is the same as none.
    let given = |index: usize| arguments.get(index).filter(|text| !text.is_empty());
    let kind = step.kind.to_uppercase();
    let needed = |index: usize, thing: &str| {
        given(index)
            .cloned()
            .ok_or_else(|| format!("{kind} needs {thing}"))
    };
    let instruction = match kind.as_str() {
        "RUN" => Instruction::Run {
            command: needed(0, "a command")?,
            user: given(1).cloned(),
        },
        "COPY" | "ADD" => {
            let hash = step
                .files_hash
                .filter(|hash| !hash.is_empty())
                .ok_or_else(|| format!("{kind} needs the hash of its files"))?;
            Instruction::Copy {
                source: needed(0, "a source")?,
                destination: needed(1, "a destination")?,
                owner: given(2).cloned(),
                mode: given(3).map(|text| mode(text)).transpose()?,
                files: hash.parse().map_err(|error| format!("{kind}: {error}"))?,
            }
        }
        "ENV" | "ARG" => Instruction::Environment(variables(&kind, &arguments)?),
        "WORKDIR" => Instruction::WorkDirectory(needed(0, "a directory")?),
        "USER" => Instruction::User {
            name: needed(0, "a user")?,
            administrator: given(1).is_some_and(|word| word == "true"),
        },
        other => return Err(format!("command type {other} is not implemented")),
    };
    Ok(RequestedStep::Own(BuildStep {
        instruction,
        force: step.force.unwrap_or_default(),
    }))
}

/// Reads a copy out of a template: destination, owner and mode, then the sources.
fn copy_from(step: rest::BuildStep) -> Result<RequestedStep, String> {
    let template = step.from_template.filter(|text| !text.is_empty());
    let arguments = step.args.unwrap_or_default();
    let [destination, owner, permissions, sources @ ..] = arguments.as_slice() else {
        return Err("COPY_FROM needs a destination, an owner, a mode and sources".to_owned());
    };
    if destination.is_empty() || sources.is_empty() || sources.iter().any(String::is_empty) {
        return Err("COPY_FROM needs a destination and sources".to_owned());
    }
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    Ok(RequestedStep::CopyFrom {
        template: template.ok_or("COPY_FROM needs a template")?,
        copy: VersionCopy {
            sources: sources.to_vec(),
            destination: destination.clone(),
            owner: given(owner),
            mode: given(permissions).map(|text| mode(&text)).transpose()?,
        },
        force: step.force.unwrap_or_default(),
    })
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text.trim_start_matches("0o"), 8)
        .ok()
        .filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("COPY has the mode `{text}`, which is not octal"))
}

fn variables(kind: &str, arguments: &[String]) -> Result<Vec<(String, String)>, String> {
    let (pairs, rest) = arguments.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(format!("{kind} needs names and values in pairs"));
    }
    let pair = |[name, value]: &[String; 2]| (name.clone(), value.clone());
    Ok(pairs.iter().map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(kind: &str, arguments: &[&str]) -> rest::BuildStep {
        rest::BuildStep {
            kind: kind.to_owned(),
            args: Some(arguments.iter().map(|text| (*text).to_owned()).collect()),
            files_hash: Some("a".repeat(64)),
            from_template: None,
            force: None,
        }
    }

    fn check(kind: &str, arguments: &[&str], expected: Instruction) {
        let read = read_one(step(kind, arguments)).unwrap();
        let RequestedStep::Own(read) = read else {
            panic!("{kind} copies from a template");
        };
        assert_eq!(read.instruction, expected);
    }

    #[test]
    fn a_copy_out_of_a_template_names_it_and_its_files() {
        let wanted = rest::BuildStep {
            from_template: Some("app:build".to_owned()),
            ..step("COPY_FROM", &["/bin/", "", "0755", "/a", "/b*"])
        };
        let Ok(RequestedStep::CopyFrom { template, copy, .. }) = read_one(wanted) else {
            panic!("it copies from a template");
        };
        assert_eq!(template, "app:build");
        assert_eq!(copy.sources, ["/a", "/b*"]);
        assert_eq!((copy.owner, copy.mode), (None, Some(0o755)));
        let nowhere = step("COPY_FROM", &["/bin/", "", "", "/a"]);
        assert_eq!(read_one(nowhere).unwrap_err(), "COPY_FROM needs a template");
    }

    #[test]
    fn every_type_of_step_is_read() {
        check(
            "run",
            &["whoami", "root"],
            Instruction::Run {
                command: "whoami".to_owned(),
                user: Some("root".to_owned()),
            },
        );
        check(
            "COPY",
            &["a", "/app/", "", "0644"],
            Instruction::Copy {
                source: "a".to_owned(),
                destination: "/app/".to_owned(),
                owner: None,
                mode: Some(0o644),
                files: "a".repeat(64).parse().unwrap(),
            },
        );
        check(
            "ENV",
            &["A", "1", "B", ""],
            Instruction::Environment(vec![
                ("A".to_owned(), "1".to_owned()),
                ("B".to_owned(), String::new()),
            ]),
        );
        check(
            "WORKDIR",
            &["/app"],
            Instruction::WorkDirectory("/app".to_owned()),
        );
        check(
            "USER",
            &["me", "true"],
            Instruction::User {
                name: "me".to_owned(),
                administrator: true,
            },
        );
    }

    #[test]
    fn a_step_that_cannot_be_read_is_named_by_its_number() {
        let check = |second: rest::BuildStep, expected: &str| {
            let failure = read(vec![step("RUN", &["true"]), second]).unwrap_err();
            assert_eq!(failure.phase, Some(BuildPhase::Step(2)));
            assert_eq!(failure.message, expected);
        };
        check(
            step("HEALTHCHECK", &[]),
            "command type HEALTHCHECK is not implemented",
        );
        check(step("ENV", &["A"]), "ENV needs names and values in pairs");
        check(step("RUN", &[""]), "RUN needs a command");
        check(
            step("COPY", &["a", "b", "", "rwx"]),
            "COPY has the mode `rwx`, which is not octal",
        );
        let bare = rest::BuildStep {
            files_hash: None,
            ..step("COPY", &["a", "b"])
        };
        check(bare, "COPY needs the hash of its files");
    }
}
