use super::*;

/// The instructions of the last stage, one per line.
fn read(text: &str) -> String {
    let file = match Dockerfile::read(text, &[("GIVEN", "g"), ("TARGETARCH", "amd64")]) {
        Ok(file) => file,
        Err(errors) => return errors.to_string(),
    };
    let stage = file.stages.last().unwrap();
    let mut lines: Vec<String> = stage
        .instructions
        .iter()
        .map(|instruction| match &instruction.value {
            Instruction::Run(command) => format!("RUN {command}"),
            Instruction::Copy(copy) => {
                let owner = copy.owner.iter().map(|owner| format!(" owner={owner}"));
                let mode = copy.mode.iter().map(|mode| format!(" mode={mode:o}"));
                let unpacks = copy.unpacks.then(|| " unpacks".to_owned());
                let extra: String = owner.chain(mode).chain(unpacks).collect();
                format!("COPY {:?} -> {}{extra}", copy.from, copy.destination)
            }
            Instruction::Environment(pairs) => format!("ENV {pairs:?}"),
            Instruction::Argument(name, value) => format!("ARG {name}={value}"),
            Instruction::WorkDirectory(path) => format!("WORKDIR {path}"),
            Instruction::User(user) => format!("USER {user}"),
        })
        .collect();
    lines.extend(
        stage
            .start_command
            .iter()
            .map(|command| format!("START {}", command.value)),
    );
    lines.join("\n")
}

/// Reads instructions after a `FROM`.
#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(read(&format!("FROM a\n{text}")), expected, "{text}");
}

#[track_caller]
fn base(text: &str, expected: &str) {
    let file = Dockerfile::read(text, &[("GIVEN", "g"), ("TARGETARCH", "amd64")]);
    let found = match file {
        Ok(file) => format!("{:?}", file.stages.last().unwrap().base),
        Err(errors) => errors.to_string(),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn the_base_is_an_image_an_earlier_stage_or_nothing() {
    base("FROM debian", r#"Image("debian")"#);
    base("from debian AS x", r#"Image("debian")"#);
    base(
        "ARG V=3\nFROM python:${V}-slim",
        r#"Image("python:3-slim")"#,
    );
    base("ARG V\nFROM python:${V:-3.13}", r#"Image("python:3.13")"#);
    base("ARG GIVEN=x\nFROM p:$GIVEN", r#"Image("p:g")"#);
    base("FROM p:$TARGETARCH", r#"Image("p:amd64")"#);
    base("FROM --platform=$BUILDPLATFORM p", r#"Image("p")"#);
    base("FROM a AS Build\nFROM build", "Stage(0)");
    base("FROM scratch", "Scratch");
    base(
        "FROM p:$V",
        "1:6: `p:$V` names no image: an argument in it has no value",
    );
    base(
        "FROM a b",
        "1:1: FROM takes an image, and perhaps `AS` and a name",
    );
    base("FROM a AS 1x", "1:11: `1x` cannot be the name of a stage");
    base(
        "FROM a AS x\nFROM b AS X",
        "2:11: there is a stage `x` already",
    );
    base("FROM --nope a", "1:6: FROM has no flag `--nope`");
    base(
        "RUN x\nFROM a",
        "1:1: only ARG may come before the first FROM",
    );
    base("# nothing\n", "1:1: there is no FROM");
}

#[test]
fn lines_are_joined_and_comments_left_out() {
    check("RUN a && \\\n  b", "RUN a &&   b");
    check("RUN a && \\\n# comment\n\n  b", "RUN a &&   b");
    check("  run   a  # not a comment", "RUN a  # not a comment");
    check("RUN a \\  \nb\r\n", "RUN a b");
    assert_eq!(read("# escape=`\nFROM a\nRUN a `\nb\\c"), "RUN a b\\c");
    assert_eq!(
        read("# syntax=x\n# escape=`\nFROM a\nRUN a `\nb"),
        "RUN a b"
    );
    assert_eq!(
        read("# comment\n# escape=`\nFROM a\nRUN a \\\nb"),
        "RUN a b"
    );
    assert_eq!(
        read("# escape=x\nFROM a"),
        "1:1: the escape character must be ` or \\, not `x`"
    );
    assert_eq!(read("\u{feff}FROM a\nRUN b"), "RUN b");
}

#[test]
fn commands_have_a_shell_form_and_an_exec_form() {
    check("RUN echo $HOME \"x\"", "RUN echo $HOME \"x\"");
    check(
        r#"RUN ["echo", "a b", "it's"]"#,
        r"RUN echo 'a b' 'it'\''s'",
    );
    check("RUN ['echo']", "RUN ['echo']");
    check(
        r#"SHELL ["/bin/zsh", "-c"]
RUN a b"#,
        "RUN /bin/zsh -c 'a b'",
    );
    check("SHELL x", "2:1: SHELL takes a JSON list of words");
    check("RUN --mount=type=cache,target=/x pip", "RUN pip");
    check(
        "RUN --mount=type=secret,id=x pip",
        "2:5: `--mount=type=secret,id=x` is not supported",
    );
    check(
        "RUN --network=none x",
        "2:5: `--network=none` is not supported",
    );
    check("RUN --nope x", "2:5: RUN has no flag `--nope`");
    check("RUN", "2:1: RUN takes an argument");
    check("RUN []", "2:1: RUN takes a command");
}

#[test]
fn here_documents_are_scripts_input_or_files() {
    check("RUN <<EOF\na\n  b\nEOF\nRUN c", "RUN a\n  b\n\nRUN c");
    check("RUN <<-'E'\n\ta\n\tE", "RUN a\n");
    check(
        "RUN python3 <<EOF\nprint(1)\nEOF",
        "RUN python3 <<EOF\nprint(1)\nEOF\n",
    );
    check(
        "RUN cat <<A <<B\n1\nA\n2\nB",
        "RUN cat <<A <<B\n1\nA\n2\nB\n",
    );
    check("RUN echo $((1<<2)) '<<EOF'", "RUN echo $((1<<2)) '<<EOF'");
    check("RUN cat <<<x", "RUN cat <<<x");
    check("RUN <<EOF\na", "2:5: the here-document `EOF` does not end");
    check(
        "ARG V=1\nCOPY <<f /x\n$V \"q\"\nf",
        "ARG V=1\nCOPY Inline([(\"f\", \"1 \\\"q\\\"\\n\")]) -> /x",
    );
    check(
        "COPY <<'f' /x\n$V\nf",
        "COPY Inline([(\"f\", \"$V\\n\")]) -> /x",
    );
    check(
        "COPY <<a <<b /d/\n1\na\n2\nb",
        "COPY Inline([(\"a\", \"1\\n\"), (\"b\", \"2\\n\")]) -> /d/",
    );
    let shebang = read("FROM a\nRUN <<EOF\n#!/usr/bin/python3\nprint('x')\nEOF");
    assert!(
        shebang.contains("mktemp") && shebang.contains(r"print('\''x'\'')"),
        "{shebang}"
    );
}

#[test]
fn files_are_copied_from_where_the_flags_say() {
    check("COPY a b /d/", r#"COPY Context(["a", "b"]) -> /d/"#);
    check(
        "COPY --chown=u:g --chmod=644 a /b",
        r#"COPY Context(["a"]) -> /b owner=u:g mode=644"#,
    );
    check(
        r#"COPY ["a b", "/c d"]"#,
        r#"COPY Context(["a b"]) -> /c d"#,
    );
    check(
        r#"COPY "a b" c\ d /e/"#,
        r#"COPY Context(["a b", "c d"]) -> /e/"#,
    );
    check(
        "ADD --chown=1 a.tar.gz /b",
        r#"COPY Context(["a.tar.gz"]) -> /b owner=1 unpacks"#,
    );
    check(
        "FROM b\nCOPY --from=0 /x /y",
        r#"COPY Stage(0, ["/x"]) -> /y"#,
    );
    check(
        "COPY --from=img:1 /x /y",
        r#"COPY Image("img:1", ["/x"]) -> /y"#,
    );
    check(
        "ARG D=/d\nCOPY a ${D}/e",
        "ARG D=/d\nCOPY Context([\"a\"]) -> /d/e",
    );
    check("COPY --from=3 /x /y", "2:13: `3` is no earlier stage");
    check("COPY a", "2:1: COPY takes a source and a destination");
    check(
        "COPY a b /d",
        "2:1: several sources need a directory as their destination, with a slash at its end",
    );
    check(
        "COPY ../a /b",
        "2:6: `../a` leads out of the directory of the build",
    );
    check("COPY --parents a /b", "2:6: `--parents` is not supported");
    check(
        "COPY --chmod=u+x a /b",
        "2:6: `--chmod=u+x` is not supported: give octal digits",
    );
    check(
        "COPY a $HOME/b",
        "2:8: `$HOME/b` has a variable that only the base image knows, which is not supported here",
    );
    check(
        "ADD https://x.test/a /b",
        "2:5: ADD of something remote is not supported; use RUN with curl or git",
    );
    check("ADD --from=x a /b", "2:5: ADD has no flag `--from`");
}

#[test]
fn variables_are_expanded_by_dockers_rules() {
    check(
        r#"ENV A=1 B="x y" C=it\ s D='$A'"#,
        r#"ENV [("A", "1"), ("B", "x y"), ("C", "it s"), ("D", "$A")]"#,
    );
    check("ENV OLD a b  c", r#"ENV [("OLD", "a b  c")]"#);
    check(
        "ENV A=1\nENV A=2 B=$A",
        "ENV [(\"A\", \"1\")]\nENV [(\"A\", \"2\"), (\"B\", \"1\")]",
    );
    check("ENV P=$PATH:/x", r#"ENV [("P", "${PATH}:/x")]"#);
    check("ENV P=${X:-d}", r#"ENV [("P", "${X:-d}")]"#);
    check("ARG X\nENV P=${X:-d}${X:+s}${X-e}", r#"ENV [("P", "de")]"#);
    check(
        "ARG X=1\nENV P=${X:-d}${X:+s}",
        "ARG X=1\nENV [(\"P\", \"1s\")]",
    );
    check("ARG GIVEN=1\nUSER $GIVEN", "ARG GIVEN=g\nUSER g");
    check(
        "ARG TARGETARCH\nUSER $TARGETARCH",
        "ARG TARGETARCH=amd64\nUSER amd64",
    );
    check("ENV A=1\nARG A=2\nUSER $A", "ENV [(\"A\", \"1\")]\nUSER 1");
    check("WORKDIR /a b/${HOME}", "WORKDIR /a b/${HOME}");
    check("ENV A", "2:1: ENV takes `NAME=value`");
    check("ENV A=1 B", "2:9: `B` has no `=`");
    check("ENV 1A=1", "2:5: `1A` cannot be the name of a variable");
    check("ENV A=\"x", "2:7: a double quote is not closed");
    check(
        "ENV A=${",
        "2:7: `${` is not followed by the name of a variable",
    );
    check(
        "ARG X\nENV A=\"b${X:?must be there}\"",
        "3:9: `X` is not set: must be there",
    );
    check(
        "ARG X=1\nENV A=${X%.*}",
        "3:7: patterns in `${X…}` are not supported",
    );
    check(
        "USER a b",
        "2:1: USER takes one name or number, perhaps with a group",
    );
    assert_eq!(read("ARG V=1\nFROM a\nARG V\nUSER $V"), "ARG V=1\nUSER 1");
    assert_eq!(read("ARG V=1\nFROM scratch\nUSER x$V"), "USER x");
}

#[test]
fn the_start_command_is_what_entry_point_and_command_make() {
    for (text, expected) in [
        ("CMD a b", "START a b"),
        (r#"CMD ["a", "b c"]"#, "START a 'b c'"),
        (
            r#"ENTRYPOINT ["a"]
CMD ["b c"]"#,
            "START a 'b c'",
        ),
        (
            r#"CMD ["b"]
ENTRYPOINT ["a"]"#,
            "START a b",
        ),
        (
            r#"ENTRYPOINT ["a"]
CMD b c"#,
            "START a /bin/sh -c 'b c'",
        ),
        ("ENTRYPOINT a $X\nCMD b", "START a $X"),
        ("ENTRYPOINT []\nCMD b", "START b"),
        ("CMD a\nCMD []", ""),
        (
            r#"SHELL ["bash", "-c"]
CMD a b"#,
            "START bash -c 'a b'",
        ),
        (
            r#"CMD a
FROM a AS x
CMD ["a"]
FROM x"#,
            "START a",
        ),
        (
            r#"CMD a
FROM a AS x
CMD ["a"]
FROM x
ENTRYPOINT ["b"]"#,
            "START b",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn what_does_nothing_is_a_warning_and_what_does_not_exist_an_error() {
    let text = "FROM a\nLABEL a=b\nEXPOSE 80\nMAINTAINER me\nVOLUME /x\nHEALTHCHECK NONE\nONBUILD RUN x\nSTOPSIGNAL 9\nCOPY --link a /b\n";
    let file = Dockerfile::read(text, &[("STRANGER", "1")]).unwrap();
    let warnings: Vec<String> = file.warnings.iter().map(Note::to_string).collect();
    assert_eq!(
        warnings,
        [
            "1:1: nothing declares the argument `STRANGER`",
            "5:1: VOLUME has no effect on a template",
            "6:1: HEALTHCHECK has no effect on a template",
            "7:1: ONBUILD has no effect on a template",
            "8:1: STOPSIGNAL has no effect on a template",
            "9:6: `--link` has no effect",
        ]
    );
    check(
        "NOPE x\nRUN --bad x",
        "2:1: there is no instruction `NOPE`\n3:5: RUN has no flag `--bad`",
    );
}

#[test]
fn places_are_those_of_the_text_also_in_joined_lines() {
    check(
        "  COPY a \\\n    --x \\\n  ../b /d/",
        "4:3: `../b` leads out of the directory of the build",
    );
    check(
        "RUN é --x\nCOPY  é ../b /c/",
        "3:9: `../b` leads out of the directory of the build",
    );
}

#[test]
fn stages_that_nobody_needs_are_not_needed() {
    let text = "FROM a AS one\nFROM b AS two\nFROM one AS three\nFROM c\nCOPY --from=three /x /y\n";
    let file = Dockerfile::read(text, &[]).unwrap();
    assert_eq!(file.needed(), [0, 2, 3]);
}
