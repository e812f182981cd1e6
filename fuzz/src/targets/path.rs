//! Meaning of a path in a request: home, working directory, path, one per line.

use std::path::{Component, Path, PathBuf};

use skep_agent::fuzzing::{clean, resolve, split};

use crate::pieces::texts;

pub(super) fn check(data: &[u8]) {
    let [home, workdir, path] = texts(data);
    // Accounts with another home are not read at all.
    if !home.starts_with('/') || home.contains('\0') {
        return;
    }
    let workdir = Some(workdir.as_str()).filter(|workdir| !workdir.is_empty());
    let resolved = resolve(&path, &home, workdir);
    assert_eq!(resolved, by_the_rules(&path, &home, workdir), "{path:?}");
    let Some(resolved) = resolved else {
        return;
    };
    assert!(resolved.starts_with('/') && !resolved.contains('\0'));
    let again = resolve(&resolved, &home, workdir);
    assert_eq!(again.as_deref(), Some(resolved.as_str()), "absolute stays");

    let cleaned = clean(&resolved);
    assert_eq!(clean(&cleaned), cleaned);
    assert!(!cleaned.contains("//") && cleaned.len() <= resolved.len());
    assert!(!cleaned.split('/').any(|part| part == "." || part == ".."));
    let (parent, name) = split(&cleaned);
    let joined = if parent == "/" { "" } else { parent };
    match cleaned.as_str() {
        "/" => assert_eq!((parent, name), ("/", "/")),
        cleaned => assert_eq!(format!("{joined}/{name}"), cleaned),
    }
}

/// The contract, section 2.1, in other words than the agent's.
fn by_the_rules(path: &str, home: &str, workdir: Option<&str>) -> Option<String> {
    if path.contains('\0') {
        return None;
    }
    let resolved = match path {
        "" => match workdir {
            Some(workdir) => return by_the_rules(workdir, home, None),
            None => home.to_owned(),
        },
        "~" => below(home, ""),
        path if path.starts_with("~/") => below(home, path[2..].trim_start_matches('/')),
        path if path.starts_with('~') => return None,
        path if path.starts_with('/') => path.to_owned(),
        path => below(home, path),
    };
    // What no kernel takes for a path.
    let is_too_long = resolved.len() > 4095 || resolved.split('/').any(|name| name.len() > 255);
    (!is_too_long).then_some(resolved)
}

fn below(home: &str, rest: &str) -> String {
    let mut plain = PathBuf::from("/");
    for part in Path::new(home).join(rest).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain.to_str().expect("made of texts").to_owned()
}
