//! The recipes in `templates/`, carried inside the executable.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::RecipeSource;

macro_rules! recipes {
    ($($folder:literal: [$($file:literal),* $(,)?]),* $(,)?) => {
        &[$((
            $folder,
            include_str!(concat!("../../../../templates/", $folder, "/recipe.toml")),
            &[$((
                $file,
                include_bytes!(concat!("../../../../templates/", $folder, "/", $file)),
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
    "code-interpreter-slim": ["kernel.json", "matplotlibrc"],
    "code-interpreter-v1": ["kernel.json", "matplotlibrc"],
};

/// The Python kernel, listed by the build script.
const PYTHON_KERNEL: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/python_kernel.rs"));

/// Recipes that may copy the folder `kernel`, which is the Python kernel.
const WITH_PYTHON_KERNEL: &[&str] = &["code-interpreter-slim", "code-interpreter-v1"];

/// The recipes that come with Skep, by name.
pub fn builtin() -> BTreeMap<String, RecipeSource> {
    RECIPES
        .iter()
        .map(|(name, text, files)| {
            let own = files
                .iter()
                .map(|(path, content)| ((*path).to_owned(), *content));
            let has_kernel = WITH_PYTHON_KERNEL.contains(name);
            let kernel = PYTHON_KERNEL.iter().filter(|_| has_kernel);
            let kernel = kernel.map(|(path, content)| (format!("kernel/{path}"), *content));
            let source = RecipeSource {
                text: Cow::Borrowed(text),
                files: own
                    .chain(kernel)
                    .map(|(path, content)| (path, Cow::Borrowed(content)))
                    .collect(),
            };
            ((*name).to_owned(), source)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Recipe;

    fn files_below(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates");
        files_below(&folder, "", &mut on_disk);
        on_disk.sort();
        let mut embedded: Vec<String> = builtin()
            .iter()
            .flat_map(|(name, source)| {
                let recipe = std::iter::once("recipe.toml".to_owned());
                let files = source
                    .files
                    .keys()
                    .filter(|path| !path.starts_with("kernel/"));
                recipe
                    .chain(files.cloned())
                    .map(move |path| format!("{name}/{path}"))
            })
            .collect();
        embedded.sort();
        assert_eq!(on_disk, embedded);
    }

    #[test]
    fn the_python_kernel_is_carried_along_without_its_tests() {
        let source = &builtin()["code-interpreter-slim"];
        let kernel = |path: &str| source.files.contains_key(&format!("kernel/{path}"));
        assert!(kernel("skep_kernel/__main__.py") && kernel("skep_charts/__init__.py"));
        assert!(
            source
                .files
                .keys()
                .all(|path| !path.contains("__pycache__"))
        );
        assert!(source.files.keys().all(|path| !path.contains("test_")));
    }

    #[test]
    fn every_recipe_can_be_read_and_is_called_like_its_folder() {
        for (name, source) in builtin() {
            assert_eq!(Recipe::parse(&source).unwrap().name, name);
        }
    }
}
