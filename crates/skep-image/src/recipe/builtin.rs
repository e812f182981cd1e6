//! The recipes in `templates/`, carried inside the executable.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::RecipeSource;

macro_rules! recipes {
    ($($directory:literal: [$($file:literal),* $(,)?]),* $(,)?) => {
        &[$((
            $directory,
            include_str!(concat!("../../../../templates/", $directory, "/recipe.toml")),
            &[$((
                $file,
                include_bytes!(concat!("../../../../templates/", $directory, "/", $file)),
            )),*],
        )),*]
    };
}

type Embedded = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static [u8])],
);

const RECIPES: &[Embedded] = recipes! {
    "base": [],
    "code-interpreter-languages": ["languages/java/kernel.json", "languages/r/kernel.json"],
    "code-interpreter-slim": [
        "kernels/bash/kernel.json",
        "kernels/ipykernel/kernel.json",
        "kernels/javascript/kernel.json",
        "kernels/python/kernel.json",
        "kernels/typescript/kernel.json",
        "share/matplotlibrc",
        "share/slim.txt",
        "slim.in",
    ],
    "code-interpreter-v1": ["packages.in", "packages.txt"],
    "mcp-gateway": [
        "gateway/mcp_gateway/__init__.py",
        "gateway/mcp_gateway/catalogue.json",
        "gateway/mcp_gateway/child.py",
        "gateway/mcp_gateway/command.py",
        "gateway/mcp_gateway/gateway.py",
        "gateway/mcp_gateway/installing.py",
        "gateway/mcp_gateway/refused.json",
        "gateway/mcp_gateway/servers.py",
        "gateway/requirements.in",
        "gateway/requirements.txt",
    ],
};

/// The kernels, listed by the build script.
const KERNELS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Recipes that may copy from the directory `kernel`, which has a directory for each kernel, and
/// the files beside those before them: their first steps are the same, so that they share layers.
const INTERPRETERS: [&str; 3] = [SLIM, "code-interpreter-languages", "code-interpreter-v1"];
const SLIM: &str = "code-interpreter-slim";

/// The recipes that come with Skep, by name.
pub fn builtin() -> BTreeMap<String, RecipeSource> {
    RECIPES
        .iter()
        .map(|(name, text, own)| {
            let mut files: Vec<(String, &'static [u8])> = owned(own).collect();
            if let Some(place) = INTERPRETERS.iter().position(|other| other == name) {
                let before = &INTERPRETERS[..place];
                let smaller = RECIPES.iter().filter(|(other, ..)| before.contains(other));
                files.extend(smaller.flat_map(|(_, _, shared)| owned(shared)));
                files.extend(owned(KERNELS));
            }
            let files = files
                .into_iter()
                .map(|(path, content)| (path, Cow::Borrowed(content)));
            let source = RecipeSource {
                text: Cow::Borrowed(text),
                files: files.collect(),
            };
            ((*name).to_owned(), source)
        })
        .collect()
}

fn owned(
    files: &'static [(&'static str, &'static [u8])],
) -> impl Iterator<Item = (String, &'static [u8])> {
    files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), *content))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Recipe;
    use crate::recipe::Step;

    fn files_below(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                files_below(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }

    #[test]
    fn every_file_in_the_templates_folder_is_carried_along() {
        let mut on_disk = Vec::new();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates");
        files_below(&directory, "", &mut on_disk);
        on_disk.sort();
        let mut embedded: Vec<String> = RECIPES
            .iter()
            .flat_map(|(name, _, files)| {
                let files = files.iter().map(|(path, _)| *path);
                std::iter::once("recipe.toml")
                    .chain(files)
                    .map(move |path| format!("{name}/{path}"))
            })
            .collect();
        embedded.sort();
        assert_eq!(on_disk, embedded);
    }

    #[test]
    fn the_kernels_are_carried_along_without_their_tests() {
        let source = &builtin()["code-interpreter-slim"];
        for path in [
            "bash/skep_bash/__main__.py",
            "java/src/skep/kernel/Main.java",
            "javascript/src/main.js",
            "javascript-packages/package-lock.json",
            "python/skep_charts/__init__.py",
            "python/skep_kernel/__main__.py",
        ] {
            let path = format!("kernel/{path}");
            assert!(source.files.contains_key(&path), "{path}");
        }
        assert!(
            source
                .files
                .keys()
                .all(|path| !path.contains("__pycache__"))
        );
        assert!(source.files.keys().all(|path| !path.contains("test")));
    }

    /// The recipe's steps: those that install packages, and those that bring kernels.
    fn steps(name: &str) -> (Vec<Step>, Vec<Step>) {
        let mut steps = Recipe::parse(&builtin()[name]).unwrap().steps;
        let copies = |step: &Step| step.title.starts_with("copy kernel/python ");
        let kernels = steps.split_off(steps.iter().position(copies).unwrap());
        (steps, kernels)
    }

    #[test]
    fn each_interpreter_has_the_steps_of_the_smaller_ones() {
        for pair in INTERPRETERS.windows(2) {
            let (smaller, larger) = (steps(pair[0]), steps(pair[1]));
            assert_eq!(larger.0[..smaller.0.len()], smaller.0);
            let last = smaller.1.len() - 1;
            assert_eq!(larger.1[..last], smaller.1[..last]);
            assert_eq!(larger.1.last(), smaller.1.last());
        }
    }

    #[test]
    fn the_slim_interpreter_has_the_versions_of_the_whole_one() {
        let recipes = builtin();
        let locked = |path: &str| -> Vec<String> {
            let text = std::str::from_utf8(&recipes["code-interpreter-v1"].files[path]).unwrap();
            let packages = text.lines().filter_map(|line| line.split(' ').next());
            packages
                .filter(|package| package.contains("=="))
                .map(str::to_owned)
                .collect()
        };
        let whole = locked("packages.txt");
        let slim = locked("share/slim.txt");
        assert!(!slim.is_empty() && whole.len() > slim.len());
        assert!(slim.iter().all(|package| whole.contains(package)));
    }

    #[test]
    fn every_recipe_can_be_read_and_is_called_like_its_folder() {
        for (name, source) in builtin() {
            assert_eq!(Recipe::parse(&source).unwrap().name, name);
        }
    }
}
