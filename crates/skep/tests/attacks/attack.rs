//! One attack: a program and what its head says about it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::control::Control;
use crate::wall;

/// One attack: a program that tries to get out of its sandbox, with its control.
#[derive(Debug, Clone)]
pub(crate) struct Attack {
    /// The directory it lies in.
    pub(crate) group: String,
    pub(crate) name: String,
    /// Description of the attempt, in a sentence.
    pub(crate) tries: String,
    pub(crate) control: Control,
    /// User that the attack runs as.
    pub(crate) user: String,
    /// Feature that the kernel must have for the control to succeed.
    pub(crate) needs: Option<String>,
    pub(crate) source: String,
}

impl Attack {
    pub(crate) fn full_name(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }

    /// Returns true if it needs no zygote. A restored sandbox lies below none, so the others are
    /// attacks on launched ones alone.
    pub(crate) fn is_of_one_sandbox(&self) -> bool {
        !self.control.has_zygote() && self.control != Control::SharedZygote
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks/programs")
}

/// A program that is no attack, but part of one.
pub(crate) fn helper(name: &str) -> String {
    let path = folder().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All attacks, in the order of their groups and names.
pub(crate) fn all() -> Vec<Attack> {
    let library = helper("attack.py");
    let mut attacks = Vec::new();
    for group in sorted(&folder()).into_iter().filter(|path| path.is_dir()) {
        for program in sorted(&group) {
            attacks.push(read(&group, &program, &library));
        }
    }
    attacks
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

fn read(group: &Path, program: &Path, library: &str) -> Attack {
    let text = fs::read_to_string(program).unwrap();
    let head: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("# "))
        .collect();
    let field = |name: &str| {
        head.iter()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let control = match (field("Held by"), field("Control")) {
        (Some(walls), None) => Control::Without(walls.split(", ").map(wall::named).collect()),
        (None, Some(other)) => other.parse().unwrap(),
        _ => panic!("{}: name the walls or another control", program.display()),
    };
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    Attack {
        group: stem(group),
        name: stem(program),
        tries: head[0].to_owned(),
        control,
        user: field("As").unwrap_or("root").to_owned(),
        needs: field("Needs").map(str::to_owned),
        source: format!("{library}\n\n{text}"),
    }
}

/// The defences in words.
pub(crate) fn in_words(walls: &BTreeSet<skep_native::Defence>) -> String {
    let names: Vec<_> = walls.iter().map(|wall| wall::name(*wall)).collect();
    names.join(", ")
}
